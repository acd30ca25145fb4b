//! What the coordinator tells a worker to do, and the tasks that do it.

use super::Worker;
use crate::apps::App;
use crate::input::StoreAccess;
use crate::job::Plan;
use crate::record::Failure;
use crate::store::{self, WorkerStoreAccess};
use crate::task::{Ask, Control, MapEnd, MapTask, Outputs, ReduceEnd, ReduceTask, Shuffle, run_map, run_reduce};
use crate::wire::{News, ToWorker};
use giveway_core::{AttemptId, JobId, Kind, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A task that was told to give up and does not is left to itself after this long; its slot is given away.
const GRACE: Duration = Duration::from_secs(5);

/// A job this worker has tasks of.
pub(super) struct Here {
    plan: Arc<Plan>,
    app: Arc<dyn App>,
    outputs: Arc<Outputs>,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("job", &self.plan.job).finish_non_exhaustive()
    }
}

/// A task at work.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) control: Arc<Control>,
    timeout: Duration,
    /// Its ticks when it was last seen to move, and when that was.
    moved: (u64, Instant),
    /// When it was told to give up because it hangs.
    hung: Option<Instant>,
}

impl Worker {
    /// Does what the coordinator says.
    pub(super) fn obey(self: &Arc<Worker>, message: ToWorker) {
        match message {
            ToWorker::Plan(plan) => self.plan(*plan),
            ToWorker::Launch { attempt, work } => self.launch(attempt, work),
            ToWorker::GiveWay { attempt } => self.ask(attempt, Ask::GiveWay),
            ToWorker::Kill { attempt } => self.ask(attempt, Ask::Stop),
            ToWorker::Outputs { job, afresh, outputs } => {
                if let Some(here) = self.shared().jobs.get(&job) {
                    if afresh {
                        here.outputs.reset(outputs);
                    } else {
                        here.outputs.add_all(&outputs);
                    }
                }
            }
            ToWorker::OutputGone { map } => {
                let mut shared = self.shared();
                shared.outputs.remove(&map);
                if let Some(here) = shared.jobs.get(&map.task.job) {
                    here.outputs.drop_one(map.task.index, map.number);
                }
            }
            ToWorker::Nodes { nodes } => {
                let shared = self.shared();
                for (node, address) in nodes {
                    if address.is_none() {
                        shared.jobs.values().for_each(|here| here.outputs.drop_node(node));
                    }
                    if let Some(shuffle) = &shared.shuffle {
                        shuffle.set_address(node, address);
                    }
                }
            }
            ToWorker::CloseJob { job } => self.close(job),
            ToWorker::Store(order) => store::execute(&self.shelf, &self.token, order),
            ToWorker::Ack { seq } => {
                self.shared().unacked.remove(&seq);
            }
            // Said once, at the beginning of a line; a stop ends the line before it comes here.
            ToWorker::Welcome { .. } | ToWorker::Refused { .. } | ToWorker::Stop => {}
        }
    }

    fn plan(&self, plan: Plan) {
        let job = plan.job;
        match self.apps.find(&plan.request.app) {
            Ok(app) => {
                let here = Here { plan: Arc::new(plan), app, outputs: Arc::new(Outputs::new()) };
                self.shared().jobs.entry(job).or_insert(here);
            }
            // Its launches will say so.
            Err(failure) => crate::say(&format!("{job}: {failure}")),
        }
    }

    fn launch(self: &Arc<Worker>, attempt: AttemptId, work: Work) {
        let mut shared = self.shared();
        if shared.running.contains_key(&attempt) {
            return;
        }
        let era = shared.era;
        let (Some(here), Some(shuffle)) = (shared.jobs.get(&attempt.task.job), shared.shuffle.clone()) else {
            drop(shared);
            let why = "this worker has no such application; start all workers from one program".into();
            return self.report(era, News::Failed { attempt, why });
        };
        let task = Task {
            attempt,
            work,
            plan: Arc::clone(&here.plan),
            app: Arc::clone(&here.app),
            outputs: Arc::clone(&here.outputs),
            shuffle,
            stored: Arc::new(WorkerStoreAccess {
                blocks: Arc::clone(&self.shelf),
                token: self.token.clone(),
                cluster: self.options.cluster.clone(),
            }),
            folder: self.job_folder(attempt.task.job),
        };
        let control = Arc::new(Control::slowly(here.plan.request.records_per_s));
        let running = Running {
            control: Arc::clone(&control),
            timeout: Duration::from_millis(here.plan.request.task_timeout_ms),
            moved: (0, Instant::now()),
            hung: None,
        };
        shared.running.insert(attempt, running);
        drop(shared);
        let worker = Arc::clone(self);
        let name = format!("{}-{}", attempt.task.kind, attempt.task.index);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let news = task.run(&control);
            let hung = worker.shared().running.get(&attempt).is_some_and(|running| running.hung.is_some());
            worker.report(era, if hung { task.hung() } else { news });
        });
        if let Err(error) = spawned {
            self.report(era, News::Failed { attempt, why: format!("no thread for it: {error}") });
        }
    }

    fn ask(&self, attempt: AttemptId, ask: Ask) {
        let shared = self.shared();
        if let Some(running) = shared.running.get(&attempt) {
            running.control.ask(ask);
            return;
        }
        let era = shared.era;
        let said = shared.unacked.values().any(|news| speaks_of(news, attempt));
        drop(shared);
        if !said {
            self.report(era, News::Killed { attempt });
        }
    }

    /// A job is over: nothing of it is kept.
    fn close(&self, job: JobId) {
        let mut shared = self.shared();
        shared.jobs.remove(&job);
        shared.outputs.retain(|attempt| attempt.task.job != job);
        shared.paused.retain(|attempt| attempt.task.job != job);
        let at_work = shared.running.iter().filter(|(attempt, _)| attempt.task.job == job);
        at_work.for_each(|(_, running)| running.control.ask(Ask::Stop));
        drop(shared);
        discard(&self.job_folder(job));
    }

    /// The coordinator took this worker for lost: what it has belongs to nobody any more.
    pub(super) fn drop_everything(&self) {
        let mut shared = self.shared();
        shared.era += 1;
        shared.running.values().for_each(|running| running.control.ask(Ask::Stop));
        shared.running.clear();
        shared.unacked.clear();
        shared.jobs.clear();
        shared.outputs.clear();
        shared.paused.clear();
        drop(shared);
        let folder = self.options.folder.join("jobs");
        discard(&folder);
        if let Err(error) = fs::create_dir_all(&folder) {
            crate::say(&format!("{}: {error}", folder.display()));
        }
    }

    /// Tasks that have not moved for their time-out are told to give up; those that do not even do that lose their slot.
    pub(super) fn give_up_hung(&self) {
        let mut shared = self.shared();
        let era = shared.era;
        let mut abandoned = Vec::new();
        for (&attempt, running) in &mut shared.running {
            let ticks = running.control.ticks();
            match running.hung {
                None if ticks != running.moved.0 => running.moved = (ticks, Instant::now()),
                None if running.moved.1.elapsed() > running.timeout => {
                    running.control.ask(Ask::Stop);
                    running.hung = Some(Instant::now());
                }
                Some(since) if since.elapsed() > GRACE => abandoned.push((attempt, running.timeout)),
                _ => {}
            }
        }
        drop(shared);
        for (attempt, timeout) in abandoned {
            crate::say(&format!("attempt {attempt} hangs and cannot be stopped; left to itself"));
            self.report(era, hung(attempt, timeout));
        }
    }
}

fn speaks_of(news: &News, of: AttemptId) -> bool {
    match news {
        News::Finished { attempt, .. }
        | News::Failed { attempt, .. }
        | News::Killed { attempt }
        | News::Paused { attempt, .. }
        | News::EndedEarly { attempt, .. } => *attempt == of,
        News::OutputGone { .. } => false,
    }
}

fn hung(attempt: AttemptId, timeout: Duration) -> News {
    let why = format!("it did nothing for {} s and was given up (see --task-timeout)", timeout.as_secs_f64());
    News::Failed { attempt, why }
}

/// Removes a folder; moved away first, so that a new one can take its place at once.
fn discard(folder: &Path) {
    let aside = folder.with_extension(format!("gone-{}", std::process::id()));
    if fs::rename(folder, &aside).is_ok() {
        let _ = thread::Builder::new().name("sweeper".into()).spawn(move || fs::remove_dir_all(aside));
    }
}

/// Everything one attempt needs.
struct Task {
    attempt: AttemptId,
    work: Work,
    plan: Arc<Plan>,
    app: Arc<dyn App>,
    outputs: Arc<Outputs>,
    shuffle: Arc<Shuffle>,
    stored: Arc<dyn StoreAccess>,
    folder: PathBuf,
}

impl Task {
    fn hung(&self) -> News {
        hung(self.attempt, Duration::from_millis(self.plan.request.task_timeout_ms))
    }

    fn run(&self, control: &Control) -> News {
        let ran = fs::create_dir_all(&self.folder)
            .map_err(|error| Failure(format!("the folder {}: {error}", self.folder.display())))
            .and_then(|()| match self.attempt.task.kind {
                Kind::Map => self.map(control),
                Kind::Reduce => self.reduce(control),
            });
        ran.unwrap_or_else(|failure| News::Failed { attempt: self.attempt, why: failure.0 })
    }

    fn map(&self, control: &Control) -> Result<News, Failure> {
        let attempt = self.attempt;
        let Work::Map { split, start_bytes, bytes, .. } = self.work else {
            return Err(Failure("a map was launched with a reduce's work".into()));
        };
        let task = MapTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            split,
            start_bytes,
            bytes,
            dir: self.folder.clone(),
            stored: Arc::clone(&self.stored),
        };
        Ok(match run_map(&task, control)? {
            MapEnd::Finished { output_bytes, counters } => News::Finished { attempt, output_bytes, counters },
            MapEnd::EndedEarly { done_bytes, output_bytes, counters } => {
                News::EndedEarly { attempt, done_bytes, output_bytes, counters }
            }
            MapEnd::Stopped => News::Killed { attempt },
        })
    }

    fn reduce(&self, control: &Control) -> Result<News, Failure> {
        let attempt = self.attempt;
        let Work::Reduce { start } = self.work else {
            return Err(Failure("a reduce was launched with a map's work".into()));
        };
        let task = ReduceTask {
            plan: Arc::clone(&self.plan),
            app: Arc::clone(&self.app),
            attempt,
            start,
            dir: self.folder.clone(),
            outputs: Arc::clone(&self.outputs),
            shuffle: Arc::clone(&self.shuffle),
        };
        Ok(match run_reduce(&task, control)? {
            ReduceEnd::Finished { output_bytes, counters } => News::Finished { attempt, output_bytes, counters },
            ReduceEnd::Paused { progress_ppm } => News::Paused { attempt, progress_ppm },
            ReduceEnd::Stopped => News::Killed { attempt },
        })
    }
}
