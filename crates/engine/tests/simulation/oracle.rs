//! What must hold, checked from outside: the oracle knows what was submitted, what clients were told, and what is on disk, and nothing of the
//! coordinator's state.

use super::disk::ModelDisk;
use super::scenario::{Fault, Scenario};
use super::task::Range;
use crate::coordinator::output_folder::SUCCESS;
use crate::task::TEMPORARY;
use crate::wire::JobStatus;
use giveway_core::{JobId, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(pub(super) String);

/// Content of the file in a folder that a user put in the place of an output.
pub(super) const FOREIGN_CONTENT: &[u8] = b"precious";

/// Folder with the outputs of all jobs.
pub(super) const OUTPUTS: &str = "/out";

#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Which script a job id belongs to.
    jobs: BTreeMap<JobId, usize>,
    /// The final outcome of each job or round, as the first client was told.
    outcomes: BTreeMap<JobId, (Outcome, Option<JobId>)>,
    /// Scripts whose last round has ended, with the outcome.
    ended: BTreeMap<usize, Outcome>,
    /// Folders that users have put in the place of outputs.
    foreign: BTreeSet<PathBuf>,
    /// Scripts whose kill a client was told to have succeeded.
    killed: BTreeSet<usize>,
    /// Scripts of which a failure says that a folder was left.
    left_behind: BTreeSet<usize>,
}

fn broken<T>(text: String) -> Result<T, Violation> {
    Err(Violation(text))
}

/// Path of the output of a script's job.
pub(super) fn output_path(script: usize) -> PathBuf {
    Path::new(OUTPUTS).join(format!("job-{script}"))
}

impl Oracle {
    /// A client was told that its job has this id, or that a round follows under it.
    pub(super) fn accepted(&mut self, job: JobId, script: usize) -> Result<(), Violation> {
        match self.jobs.insert(job, script) {
            Some(other) if other != script => broken(format!("{job} was given to the jobs {other} and {script}")),
            _ => Ok(()),
        }
    }

    /// A client received a status.
    pub(super) fn observed(&mut self, scenario: &Scenario, status: &JobStatus) -> Result<(), Violation> {
        let job = status.job;
        let Some(&script) = self.jobs.get(&job) else { return broken(format!("unknown job {job} has a status")) };
        let Some(outcome) = status.outcome else {
            return match self.outcomes.get(&job) {
                Some(before) => broken(format!("{job} had ended with {before:?} and runs again")),
                None => Ok(()),
            };
        };
        let now = (outcome, status.next_round);
        let before = *self.outcomes.entry(job).or_insert(now);
        if before != now {
            return broken(format!("{job} ended with {before:?} and later with {now:?}"));
        }
        if let Some(next) = status.next_round {
            return self.accepted(next, script);
        }
        if self.ended.insert(script, outcome).is_some_and(|before| before != outcome) {
            return broken(format!("job {script} ended twice"));
        }
        if status.failures.iter().any(|failure| failure.contains("remove it by hand")) {
            self.left_behind.insert(script);
        }
        match outcome {
            Outcome::Succeeded | Outcome::Failed if self.killed.contains(&script) => {
                broken(format!("{job} was killed, which a client was told, and ended with {outcome:?}"))
            }
            Outcome::Succeeded => Ok(()),
            Outcome::Killed if scenario.jobs[script].kill_after.is_some() => Ok(()),
            Outcome::Killed => broken(format!("{job} was killed, but nobody killed it")),
            Outcome::Failed if status.failures.is_empty() => broken(format!("{job} failed without a reason")),
            Outcome::Failed if may_fail(scenario) => Ok(()),
            Outcome::Failed => broken(format!("{job} failed: {:?}", status.failures)),
        }
    }

    /// A client was told that its job is killed.
    pub(super) fn kill_acknowledged(&mut self, script: usize) -> Result<(), Violation> {
        self.killed.insert(script);
        match self.ended.get(&script) {
            Some(outcome) if *outcome != Outcome::Killed => {
                broken(format!("job {script} ended with {outcome:?} and was killed after that"))
            }
            _ => Ok(()),
        }
    }

    /// A client that was told an id is now told that there is no such job.
    pub(super) fn unknown(&self, job: JobId) -> Result<(), Violation> {
        broken(format!("{job} was accepted and is lost"))
    }

    pub(super) fn replaced(&mut self, folder: PathBuf) {
        self.foreign.insert(folder);
    }

    /// The scripts that clients saw succeed have their complete output, and what users have put there is untouched. Holds at any time.
    pub(super) fn check_disk(&self, scenario: &Scenario, disk: &ModelDisk) -> Result<(), Violation> {
        for folder in &self.foreign {
            let files = disk.files_below(folder);
            let expected = BTreeMap::from([(folder.join("letter"), FOREIGN_CONTENT.to_vec())]);
            if files != expected {
                return broken(format!("the foreign folder {} was touched: {:?}", folder.display(), files.keys()));
            }
        }
        let succeeded = self.ended.iter().filter(|(_, outcome)| **outcome == Outcome::Succeeded);
        for (&script, _) in succeeded {
            let folder = output_path(script);
            if !self.foreign.contains(&folder) {
                check_output(scenario, script, &folder, disk)?;
            }
        }
        Ok(())
    }

    /// At the end there are the outputs of the succeeded jobs, foreign folders, and nothing else.
    pub(super) fn check_end(&self, scenario: &Scenario, disk: &ModelDisk) -> Result<(), Violation> {
        self.check_disk(scenario, disk)?;
        let is_expected = |folder: &Path| {
            let succeeded = |(script, outcome): (&usize, &Outcome)| {
                *outcome == Outcome::Succeeded && folder == output_path(*script)
            };
            self.foreign.contains(folder) || self.ended.iter().any(succeeded)
        };
        let files = disk.files_below(Path::new(OUTPUTS));
        let folder = |file: &Path| file.components().take(3).collect::<PathBuf>();
        let folders: BTreeSet<PathBuf> = files.keys().map(|file| folder(file)).collect();
        let excused = |folder: &Path| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.left_behind.iter().any(|script| name.contains(&format!("job-{script}")))
        };
        match folders.iter().find(|folder| !is_expected(folder) && !excused(folder)) {
            Some(left) => broken(format!("{} was left behind", left.display())),
            None => Ok(()),
        }
    }

    /// The outcomes that clients were told, for comparison with those after a restart.
    pub(super) fn told(&self) -> &BTreeMap<JobId, (Outcome, Option<JobId>)> {
        &self.outcomes
    }

    /// Number of jobs that ended with this outcome.
    pub(super) fn count(&self, outcome: Outcome) -> u64 {
        self.ended.values().filter(|ended| **ended == outcome).count() as u64
    }
}

/// Kills of processes and broken connections alone do not make a job fail, unless there are many.
fn may_fail(scenario: &Scenario) -> bool {
    let is_cause = |fault: &Fault| {
        matches!(
            fault,
            Fault::FillDisk { .. }
                | Fault::BreakDisk { .. }
                | Fault::ReplaceOutput { .. }
                | Fault::FailTask { .. }
                | Fault::HangTask { .. }
        )
    };
    let is_kill = |fault: &&(u64, Fault)| matches!(fault.1, Fault::KillWorker { .. } | Fault::CutPower { .. });
    scenario.faults.iter().any(|(_, fault)| is_cause(fault)) || scenario.faults.iter().filter(is_kill).count() > 3
}

/// The output has its mark, all parts, and each part counts every byte of the input exactly once.
fn check_output(scenario: &Scenario, script: usize, folder: &Path, disk: &ModelDisk) -> Result<(), Violation> {
    let mut files = disk.files_below(folder);
    let name = folder.display();
    if files.remove(&folder.join(SUCCESS)).is_none() {
        return broken(format!("{name} has no {SUCCESS}, but its job succeeded"));
    }
    if files.keys().any(|file| file.starts_with(folder.join(TEMPORARY))) {
        return broken(format!("{name} has temporary files"));
    }
    let job = &scenario.jobs[script];
    let parts: Vec<Vec<Range>> = files.values().map(|content| ranges(content)).collect();
    let complete = match job.reduces {
        0 => is_complete(&job.split_bytes, parts.concat()),
        reduces => {
            parts.len() == reduces as usize && parts.into_iter().all(|ranges| is_complete(&job.split_bytes, ranges))
        }
    };
    match complete {
        true => Ok(()),
        false => broken(format!("{name} is incomplete or wrong: {files:?}")),
    }
}

fn ranges(content: &[u8]) -> Vec<Range> {
    let line = |line: &str| {
        let mut fields = line.split(' ').skip(1).map(|field| field.parse::<u64>().ok());
        Some((fields.next()?? as u32, fields.next()??, fields.next()??))
    };
    let text = String::from_utf8_lossy(content);
    text.lines().map(|text| line(text).unwrap_or((u32::MAX, 0, 0))).collect()
}

/// True if the ranges follow each other in every split from its first byte to its last.
fn is_complete(split_bytes: &[u64], mut ranges: Vec<Range>) -> bool {
    ranges.sort_unstable();
    let mut ends = vec![0; split_bytes.len()];
    for (split, start, bytes) in ranges {
        match ends.get_mut(split as usize) {
            Some(end) if *end == start => *end += bytes,
            _ => return false,
        }
    }
    ends == split_bytes
}
