//! The child's side: a program that was started as a task runner. It runs one attempt at a time, with the worker's own code.
//!
//! One thread reads messages and does nothing else, so requests reach a running attempt at once; another one sends ticks and progress. The end of the
//! socket ends the process: the worker is gone, or has no more use for it.

use super::protocol::{ARGUMENT, FromRunner, RoundError, ToRunner, Version};
use crate::apps::{self, Apps};
use crate::coordinator::is_read_error;
use crate::job::Plan;
use crate::task::{Control, Fetcher, MapOutputTracker, Request};
use crate::task_log;
use crate::wire::{self, MESSAGE_BYTES_MAX, NodeFolder, Report, WireError};
use crate::worker::Attempt;
use giveway_core::{AttemptId, JobId, Work};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::exit;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval between two messages about ticks and progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// True if this process was started as a task runner.
pub fn is_task_runner() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// If this process was started as a task runner, serves the worker that started it, and exits.
pub fn run_if_task_runner(apps: &Apps) {
    if !is_task_runner() {
        return;
    }
    match take_socket().map_err(WireError::io("no connection")).and_then(|socket| serve(socket, apps)) {
        // The other side has closed the connection.
        Err(error) if error.is_disconnect() => exit(0),
        Err(error) => {
            eprintln!("giveway: the task runner stops: {error}; only Giveway's own processes start one");
            exit(2);
        }
        Ok(()) => exit(0),
    }
}

/// Takes the socket that is this process's standard input, and leaves an empty one to the application.
fn take_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.peer_addr()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

/// What the threads share.
struct Shared {
    out: Mutex<UnixStream>,
    /// The attempt that runs. Held while something about it is sent, so that nothing follows its end.
    running: Mutex<Option<(AttemptId, Arc<Control>)>>,
}

impl Shared {
    fn send(&self, message: &FromRunner) -> Result<(), WireError> {
        wire::send(&mut *self.out.lock().unwrap_or_else(PoisonError::into_inner), message)
    }

    fn running(&self) -> MutexGuard<'_, Option<(AttemptId, Arc<Control>)>> {
        // Replaced as a whole, so a panic does not leave it invalid.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, attempt: AttemptId, request: Request) {
        if let Some((running, control)) = &*self.running()
            && *running == attempt
        {
            control.request(request);
        }
    }

    /// Sends ticks and progress of the running attempt as they change.
    fn send_progress(&self) {
        let mut last = None;
        loop {
            thread::sleep(PROGRESS_INTERVAL);
            let running = self.running();
            let Some((attempt, control)) = &*running else { continue };
            let now = (*attempt, control.ticks(), control.progress_ppm());
            if last != Some(now) {
                last = Some(now);
                let (_, ticks, progress_ppm) = now;
                if self.send(&FromRunner::Progress { ticks, progress_ppm }).is_err() {
                    return;
                }
            }
        }
    }
}

/// What the main thread does, one after the other.
enum Task {
    CompletePlan {
        draft: Box<Plan>,
    },
    NextRound {
        plan: Box<Plan>,
    },
    Run(Box<Attempt>, Arc<Control>),
    /// Reported as it is.
    Ended(Report),
}

fn serve(socket: UnixStream, apps: &Apps) -> Result<(), WireError> {
    let failed = || WireError::io("cannot start a thread");
    let incoming = socket.try_clone().map_err(failed())?;
    let shared = Arc::new(Shared { out: Mutex::new(socket), running: Mutex::new(None) });
    shared.send(&FromRunner::Hello(Version::own()))?;
    task_log::write_to_stderr();
    let reporting = Arc::clone(&shared);
    thread::Builder::new().name("progress".into()).spawn(move || reporting.send_progress()).map_err(failed())?;
    let (sender, tasks) = mpsc::channel();
    let reporting = Arc::clone(&shared);
    let receiver = MessageReceiver {
        apps: apps.clone(),
        shared: Arc::clone(&shared),
        tasks: sender,
        fetcher: Arc::new(Fetcher::new(move |map| drop(reporting.send(&FromRunner::OutputLost { map })))),
        jobs: BTreeMap::new(),
    };
    thread::Builder::new().name("messages".into()).spawn(move || receiver.run(incoming)).map_err(failed())?;
    for task in tasks {
        let answer = match task {
            Task::CompletePlan { draft } => {
                let planned = complete_plan(apps, *draft);
                FromRunner::Planned(planned.map(Box::new).map_err(|error| error.to_string()))
            }
            Task::NextRound { plan } => FromRunner::NextRound(next_round(apps, &plan).map(|next| next.map(Box::new))),
            Task::Run(attempt, control) => {
                let report = attempt.run(&control);
                shared.running().take();
                // What was printed belongs to this attempt.
                let _ = io::stdout().flush();
                FromRunner::Ended { report }
            }
            Task::Ended(report) => FromRunner::Ended { report },
        };
        match shared.send(&answer) {
            Err(WireError::TooLarge { bytes, max_bytes }) => shared.send(&too_large(&answer, bytes, max_bytes))?,
            sent => sent?,
        }
    }
    Ok(())
}

/// The answer in the place of one that does not fit into a message.
fn too_large(answer: &FromRunner, bytes: usize, max_bytes: usize) -> FromRunner {
    let text = format!(
        "the result has {bytes} bytes, and at most {max_bytes} fit into a message; use fewer counters, or a smaller plan or error text"
    );
    match answer {
        FromRunner::NextRound(_) => FromRunner::NextRound(Err(RoundError { text, is_transient: false })),
        FromRunner::Ended {
            report:
                Report::Finished { attempt, .. } | Report::EndedEarly { attempt, .. } | Report::Failed { attempt, .. },
        } => FromRunner::Ended { report: Report::Failed { attempt: *attempt, reason: text } },
        _ => FromRunner::Planned(Err(text)),
    }
}

fn complete_plan(apps: &Apps, draft: Plan) -> Result<Plan, crate::record::AppError> {
    let app = apps.find(&draft.request.app)?;
    apps::complete(app.as_ref(), draft)
}

fn next_round(apps: &Apps, plan: &Plan) -> Result<Option<Plan>, RoundError> {
    let next = apps.find(&plan.request.app).and_then(|app| app.next_round(plan));
    next.map_err(|error| RoundError { is_transient: is_read_error(error.as_ref()), text: error.to_string() })
}

/// A job with attempts in this process.
struct LocalJob {
    plan: Arc<Plan>,
    outputs: Arc<MapOutputTracker>,
}

/// Handles the messages of the worker.
struct MessageReceiver {
    apps: Apps,
    shared: Arc<Shared>,
    tasks: Sender<Task>,
    fetcher: Arc<Fetcher>,
    jobs: BTreeMap<JobId, LocalJob>,
}

impl MessageReceiver {
    fn run(mut self, mut incoming: UnixStream) {
        loop {
            match wire::receive(&mut incoming, MESSAGE_BYTES_MAX) {
                Ok(message) => self.handle(message),
                Err(error) if error.is_disconnect() => exit(0),
                Err(error) => {
                    eprintln!("giveway: the task runner stops: {error}");
                    exit(1);
                }
            }
        }
    }

    fn handle(&mut self, message: ToRunner) {
        match message {
            ToRunner::CompletePlan { draft } => self.queue(Task::CompletePlan { draft }),
            ToRunner::NextRound { plan } => self.queue(Task::NextRound { plan }),
            ToRunner::Job { plan } => {
                let local = LocalJob { plan: Arc::new(*plan), outputs: Arc::new(MapOutputTracker::new()) };
                self.jobs.insert(local.plan.job, local);
            }
            ToRunner::Launch { attempt, work, folder } => self.launch(attempt, work, folder),
            ToRunner::Preempt { attempt } => self.shared.request(attempt, Request::Preempt),
            ToRunner::Stop { attempt } => self.shared.request(attempt, Request::Stop),
            ToRunner::MapOutputs { job, replace, outputs } => {
                if let Some(local) = self.jobs.get(&job) {
                    local.outputs.receive(replace, outputs);
                }
            }
            ToRunner::NodeFolders { folders } => {
                let folders = folders.into_iter().map(|NodeFolder { node, folder }| (node, folder));
                self.fetcher.set_folders(folders.collect());
            }
            ToRunner::CloseJob { job } => {
                self.jobs.remove(&job);
            }
        }
    }

    fn queue(&self, task: Task) {
        let _ = self.tasks.send(task);
    }

    fn launch(&self, attempt: AttemptId, work: Work, folder: PathBuf) {
        let failed = |reason: String| self.queue(Task::Ended(Report::Failed { attempt, reason }));
        let Some(local) = self.jobs.get(&attempt.task.job) else {
            return failed("internal error: the worker sent no plan for the attempt; report this as a bug".into());
        };
        let app = match self.apps.find(&local.plan.request.app) {
            Ok(app) => app,
            Err(error) => return failed(error.to_string()),
        };
        let control = Arc::new(Control::throttled(local.plan.request.records_per_s));
        // Set before the attempt is queued: a request may follow at once.
        *self.shared.running() = Some((attempt, Arc::clone(&control)));
        let task = Attempt {
            id: attempt,
            work,
            plan: Arc::clone(&local.plan),
            app,
            outputs: Arc::clone(&local.outputs),
            fetcher: Arc::clone(&self.fetcher),
            folder,
        };
        self.queue(Task::Run(Box::new(task), control));
    }
}
