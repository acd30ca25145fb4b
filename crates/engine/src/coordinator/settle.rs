//! Where a job's output begins and ends: its folder is made when the job is accepted, and published or removed when it is over.
//!
//! Everything here may be done twice: a coordinator that dies in between does it again in its next life.

use super::desk::{Deed, Desk};
use super::journal::Note;
use super::planning::output_exists;
use crate::apps::round_output;
use crate::job::{Place, Plan, SplitAt};
use crate::record::Failure;
use crate::task::{TEMPORARY, publish_map};
use crate::wire::ToClient;
use giveway_core::{AttemptId, Event, Hosts, JobId, JobSpec, NodeId, Outcome, Split, WHOLE_PPM};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::Sender;

impl Desk {
    /// Takes a job in: makes room for its output, writes its plan down, tells the core.
    pub(super) fn submit(&mut self, plan: Plan, reply: Sender<ToClient>) {
        let output = &plan.request.output;
        // A job in rounds makes its output folder only with its last round.
        let taken = self.books.jobs.values().any(|book| !book.settled && book.plan.request.output == *output);
        let accepted = if taken { Err(output_exists(&plan.request)) } else { self.accept(plan) };
        let answer = match accepted {
            Ok(job) => ToClient::Submitted { job },
            Err(failure) => ToClient::Refused { why: failure.0 },
        };
        self.outbox.push(Deed::Reply(reply, answer));
    }

    fn accept(&mut self, mut plan: Plan) -> Result<JobId, Failure> {
        plan.job = JobId(self.books.next_job);
        let job = plan.job;
        make_room(&plan)?;
        let spec = self.spec(&plan);
        self.note(Note::Planned(Box::new(plan)));
        if self.tell(Event::JobSubmitted(Box::new(spec))) {
            return Ok(job);
        }
        self.close_refused(job);
        Err(Failure("the job has a number out of its range".into()))
    }

    fn submit_again(&mut self, job: JobId) {
        let plan = self.books.jobs[&job].plan.clone();
        remove(&plan.output);
        match make_room(&plan) {
            Ok(()) => {
                self.tell(Event::JobSubmitted(Box::new(self.spec(&plan))));
            }
            Err(failure) => {
                self.note(Note::Problem { job, text: failure.0 });
                self.note(Note::Ended { job, outcome: Outcome::Failed, next: None });
            }
        }
    }

    fn close_refused(&mut self, job: JobId) {
        if let Some(book) = self.books.jobs.get(&job) {
            remove(&book.plan.output);
            // Written down, or a later life would remove what somebody else has put there since.
            self.note(Note::Ended { job, outcome: Outcome::Killed, next: None });
            self.books.jobs.remove(&job);
        }
    }

    fn spec(&self, plan: &Plan) -> JobSpec {
        let up =
            (0..self.core.state().nodes.len() as u32).map(NodeId).filter(|&node| self.core.state().up(node).is_some());
        let everywhere: Hosts = up.collect();
        let hosts = |split: &SplitAt| match &plan.files[split.file as usize].place {
            // Every worker opens the file itself, so it is as near to one as to another.
            Place::Local(_) => everywhere.clone(),
            Place::Blocks(blocks) => self.store.nodes_at(blocks, split.offset).into_iter().collect(),
            Place::Hdfs(blocks) => {
                let at = blocks.partition_point(|block| block.offset <= split.offset);
                let machines = blocks[..at].last().map_or(&[][..], |block| &block.hosts);
                everywhere.iter().copied().filter(|node| self.stands_on(*node, machines)).collect()
            }
        };
        let splits = plan.splits.iter().map(|split| Split { bytes: split.bytes, hosts: hosts(split) }).collect();
        let request = &plan.request;
        JobSpec {
            external_id: None,
            id: plan.job,
            name: request.name.clone(),
            user: request.user.clone(),
            pool: request.pool.clone(),
            priority: request.priority,
            splits,
            reduces: plan.reduces,
            slowstart_ppm: self.options.slowstart_ppm,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        }
    }

    /// Whether a worker stands on one of these machines. Several may stand on one.
    fn stands_on(&self, node: NodeId, machines: &[String]) -> bool {
        let host = self.nodes.get(node.0 as usize).map_or("", |desked| &desked.host);
        machines.iter().any(|machine| machine.eq_ignore_ascii_case(host))
    }

    /// A job is over: its output is published or removed, or its next round begins.
    pub(super) fn settle(&mut self, job: JobId, outcome: Outcome) {
        let Some(book) = self.books.jobs.get_mut(&job) else { return };
        if book.settled {
            return;
        }
        let plan = book.plan.clone();
        let pieces = std::mem::take(&mut book.pieces);
        let (mut outcome, mut next) = (outcome, None);
        if outcome == Outcome::Succeeded
            && let Err(error) = name_pieces(&plan, &pieces)
        {
            outcome = Outcome::Failed;
            let text = format!("its output cannot be published: {}: {error}", plan.output.display());
            self.note(Note::Problem { job, text });
        }
        if outcome == Outcome::Succeeded {
            match self.options.apps.find(&plan.request.app).and_then(|app| app.next_round(&plan)) {
                Ok(None) => {
                    if let Err(error) = publish(&plan) {
                        outcome = Outcome::Failed;
                        let text = format!("its output cannot be published: {}: {error}", plan.output.display());
                        self.note(Note::Problem { job, text });
                    }
                }
                Ok(Some(following)) => match self.accept(following) {
                    Ok(job) => next = Some(job),
                    Err(failure) => {
                        outcome = Outcome::Failed;
                        self.note(Note::Problem { job, text: failure.0 });
                    }
                },
                Err(failure) => {
                    outcome = Outcome::Failed;
                    self.note(Note::Problem { job, text: failure.0 });
                }
            }
        }
        if outcome != Outcome::Succeeded {
            remove(&plan.output);
        }
        if next.is_none() {
            (0..plan.round).for_each(|round| remove(&round_output(&plan, round)));
        }
        self.note(Note::Ended { job, outcome, next });
        self.tell_ended(job);
    }

    /// After a restart: what an earlier life left half done is done now.
    pub(super) fn pick_up(&mut self) {
        let jobs: Vec<JobId> = self.books.jobs.keys().copied().collect();
        let promised: BTreeSet<JobId> = self.books.jobs.values().filter_map(|book| book.next).collect();
        for job in jobs {
            let book = &self.books.jobs[&job];
            match (book.submitted, book.closed) {
                // The next round of a job whose end was written down, while its own beginning was not.
                (None, None) if promised.contains(&job) => self.submit_again(job),
                // Planned, and killed before it was accepted: nobody was told that it would run.
                (None, _) if !book.settled => self.close_refused(job),
                (Some(_), Some(outcome)) if !book.settled => self.settle(job, outcome),
                _ => {}
            }
        }
    }
}

fn make_room(plan: &Plan) -> Result<(), Failure> {
    let cannot =
        |error: io::Error| Failure(format!("cannot make the output folder {}: {error}", plan.output.display()));
    if let Some(parent) = plan.output.parent() {
        fs::create_dir_all(parent).map_err(cannot)?;
    }
    if plan.output != plan.request.output {
        // A folder of our own for a round before the last; whatever an earlier life left there is in nobody's way.
        remove(&plan.output);
    }
    match fs::create_dir(&plan.output) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(output_exists(&plan.request)),
        Err(error) => return Err(cannot(error)),
    }
    fs::create_dir(plan.output.join(TEMPORARY)).map_err(cannot)
}

/// The outputs of maps without reduces get their names: those of the attempts that count.
fn name_pieces(plan: &Plan, pieces: &BTreeMap<(u32, u64), AttemptId>) -> io::Result<()> {
    pieces.iter().try_for_each(|(&(split, start_bytes), &map)| publish_map(plan, map, split, start_bytes))
}

fn publish(plan: &Plan) -> io::Result<()> {
    match fs::remove_dir_all(plan.output.join(TEMPORARY)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(plan.output.join("_SUCCESS"), b"")
}

/// Removes a folder of ours. It is moved away first, so that an attempt which has not heard yet cannot put anything into it.
fn remove(folder: &Path) {
    let Some(name) = folder.file_name() else { return };
    let mut aside = std::ffi::OsString::from(".");
    aside.push(name);
    aside.push(".removed");
    let aside = folder.with_file_name(aside);
    let moved = fs::rename(folder, &aside);
    if moved.is_ok() || aside.exists() {
        let _ = fs::remove_dir_all(&aside);
    }
}
