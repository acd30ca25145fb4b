//! Much work for the real coordinator and its journal on a real disk, to measure what it costs: the journals that it leaves, a start from them, and
//! submissions to a cluster where many jobs wait. The workers are models that finish every task at once, or never.

use super::clients::plan;
use super::scenario::JobScript;
use crate::coordinator::StartError;
use crate::coordinator::file_system::Disk;
use crate::coordinator::inputs::{ClientLink, Effect, Input, WorkerLink};
use crate::coordinator::journal::Journal;
use crate::coordinator::output_work::{Finished, OutputResult, OutputWork};
use crate::coordinator::state_machine::{Coordinator, Settings};
use crate::coordinator::{JOURNAL_BYTES_MAX, SNAPSHOT_BYTES};
use crate::wire::{Counters, FromWorker, Join, Report, ToClient, ToWorker, WorkerIdentity};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Kind, Setup, Span};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct LongJournal {
    /// Jobs that end, and those that are live at the end.
    pub jobs: u32,
    /// Jobs that are live at once.
    pub live_jobs: usize,
    /// Maps of each job. Each has one reduce.
    pub maps: u32,
    /// Bytes of each job's options.
    pub options_bytes: usize,
}

/// What was written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Tasks that finished.
    pub tasks: u64,
    /// The coordinator's time at the end, in seconds.
    pub at_s: f64,
}

/// Users of the jobs, in turn.
const USERS: u32 = 10;

/// A coordinator that was started from a journal.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Events in the journal's log since it began; those of archived journals do not count.
    pub events: u64,
    /// Jobs that are live.
    pub live_jobs: usize,
    /// Jobs that it can tell of.
    pub known_jobs: usize,
}

const WORKERS: u64 = 4;
const MAP_SLOTS: u16 = 64;
const REDUCE_SLOTS: u16 = 16;

impl LongJournal {
    /// Runs the jobs and leaves their journals in a folder, as a killed coordinator does.
    pub fn write(&self, folder: &Path) -> Result<Written, StartError> {
        let (mut coordinator, mut journal) = open(folder)?;
        let mut inputs = Vec::new();
        let links = join_workers(&mut inputs);
        let (mut tasks, mut seq, mut submitted, mut clients) = (0, 0, 0, Vec::new());
        let mut last_steps = 2_u32;
        loop {
            let live = coordinator.live_jobs();
            for _ in live..self.live_jobs {
                if submitted < self.jobs {
                    let (sender, answers) = mpsc::channel::<ToClient>();
                    clients.push(answers);
                    let client = ClientLink { id: submitted.into(), limited_to: None, sender };
                    inputs.push(Input::JobPlanned { plan: Box::new(self.plan(submitted)), program: None, client });
                    submitted += 1;
                }
            }
            // The last jobs get as far as the core, and are live when the coordinator is killed.
            if submitted == self.jobs {
                if last_steps == 0 {
                    return Ok(Written { tasks, at_s: coordinator.now().as_secs_f64() });
                }
                last_steps -= 1;
            }
            let now = coordinator.now() + Span::from_millis(20);
            let effects = coordinator.handle(now, std::mem::take(&mut inputs))?.make_durable(&mut journal)?;
            clients.clear();
            effects.into_iter().for_each(|effect| carry_out(effect, &mut inputs));
            for (link, messages) in (0..).zip(&links) {
                for message in messages.try_iter() {
                    if let ToWorker::Launch { attempt, .. } = message {
                        (tasks, seq) = (tasks + 1, seq + 1);
                        let counters = Counters::from([("records".into(), 1)]);
                        let report = Report::Finished { attempt, output_bytes: 1000, counters };
                        inputs.push(Input::WorkerMessage { link, message: FromWorker::Report { seq, report } });
                    }
                }
            }
        }
    }

    /// Submits the jobs one after the other, each as a client does that waits for the answer, to workers whose slots are taken by tasks that do not end. A
    /// task that is asked to end stops at once. Calls `submitted` with the number of each job, from 1.
    pub fn queue(&self, folder: &Path, mut submitted: impl FnMut(u32)) -> Result<(), StartError> {
        let (mut coordinator, mut journal) = open(folder)?;
        let mut inputs = Vec::new();
        let links = join_workers(&mut inputs);
        let mut seq = 0;
        for number in 0..self.jobs {
            let (sender, answers) = mpsc::channel::<ToClient>();
            let client = ClientLink { id: number.into(), limited_to: None, sender };
            inputs.push(Input::JobPlanned { plan: Box::new(self.plan(number)), program: None, client });
            while !inputs.is_empty() {
                let now = coordinator.now() + Span::from_millis(5);
                let effects = coordinator.handle(now, std::mem::take(&mut inputs))?.make_durable(&mut journal)?;
                effects.into_iter().for_each(|effect| carry_out(effect, &mut inputs));
                for (link, messages) in (0..).zip(&links) {
                    for message in messages.try_iter() {
                        let report = match message {
                            ToWorker::Yield { attempt } if attempt.task.kind == Kind::Reduce => {
                                Report::Paused { attempt, progress_ppm: 0 }
                            }
                            ToWorker::Yield { attempt } | ToWorker::Kill { attempt } => Report::Killed { attempt },
                            _ => continue,
                        };
                        seq += 1;
                        inputs.push(Input::WorkerMessage { link, message: FromWorker::Report { seq, report } });
                    }
                }
            }
            match answers.try_recv() {
                Ok(ToClient::Submitted { .. }) => submitted(number + 1),
                answer => panic!("job {number} was not accepted: {answer:?}"),
            }
        }
        Ok(())
    }

    fn plan(&self, number: u32) -> crate::job::Plan {
        let split_bytes = vec![1000; self.maps as usize];
        let script = JobScript { at: 0, split_bytes, reduces: 1, rounds: 1, kill_after: None };
        let mut plan = plan(number as usize, &script, number.into());
        plan.request.user = format!("user-{}", number % USERS);
        if self.options_bytes > 0 {
            plan.request.options.insert("long".into(), "x".repeat(self.options_bytes));
        }
        plan
    }
}

/// Adds the workers' joins to the inputs. Returns what they are sent.
fn join_workers(inputs: &mut Vec<Input>) -> Vec<Receiver<ToWorker>> {
    let worker = |id| {
        let (sender, messages) = mpsc::channel();
        inputs.push(Input::WorkerJoined { join: Box::new(join(id)), link: WorkerLink { id, sender } });
        messages
    };
    (0..WORKERS).map(worker).collect()
}

/// Recovers the journal in a folder as a start does, without connections.
pub fn start(folder: &Path) -> Result<Started, StartError> {
    let (coordinator, _journal) = open(folder)?;
    Ok(Started {
        events: coordinator.journalled_events(),
        live_jobs: coordinator.live_jobs(),
        known_jobs: coordinator.known_jobs(),
    })
}

fn open(folder: &Path) -> Result<(Coordinator, Journal), StartError> {
    let settings = Settings {
        heartbeat_interval: Span::from_millis(200),
        heartbeat_timeout: Span::from_secs(1 << 20),
        slowstart_ppm: 50_000,
        snapshot_bytes: SNAPSHOT_BYTES,
        journal_bytes_max: JOURNAL_BYTES_MAX,
    };
    let policy = catalog::by_name("giveway").unwrap_or_else(|| unreachable!("it is in the catalogue"));
    Coordinator::open_folder(settings, Setup::new(policy), Arc::new(Disk), folder)
}

fn join(id: u64) -> Join {
    Join {
        worker: WorkerIdentity {
            name: format!("worker-{id}"),
            incarnation: id,
            rack: 0,
            host: "host".into(),
            map_slots: MAP_SLOTS,
            reduce_slots: REDUCE_SLOTS,
            folder: "/worker".into(),
            pid: 1,
        },
        running: Vec::new(),
        outputs: Vec::new(),
        jobs: Vec::new(),
    }
}

/// Sends messages; work on output folders is done at once.
fn carry_out(effect: Effect, inputs: &mut Vec<Input>) {
    match effect {
        Effect::Send(link, message) => drop(link.sender.send(message)),
        Effect::Reply(client, answer) => drop(client.sender.send(answer)),
        Effect::Output(job, work) => inputs.push(done(job, &work)),
        Effect::JobEnded(_) | Effect::RemoveProgram(_) | Effect::Stop => {}
    }
}

/// The output folders are not part of the measurement.
fn done(job: JobId, work: &OutputWork) -> Input {
    let result = match work {
        OutputWork::Create { .. } => OutputResult::Created(Ok(())),
        OutputWork::Finish { .. } => OutputResult::Finished(Ok(Finished::Published)),
        OutputWork::Remove { .. } => OutputResult::Removed(Ok(false)),
    };
    Input::OutputDone { job, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_journal_can_be_started_from() {
        let folder = tempfile::tempdir().unwrap();
        let load = LongJournal { jobs: 30, live_jobs: 5, maps: 20, options_bytes: 0 };
        let written = load.write(folder.path()).unwrap();
        assert!(written.tasks > 400, "{written:?}");
        let started = start(folder.path()).unwrap();
        assert!(started.events > 400 && started.live_jobs > 0 && started.known_jobs > 20, "{started:?}");
    }
}
