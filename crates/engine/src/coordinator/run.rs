//! Drives the state machine with real time, connections, files and threads.

use super::archives;
use super::file_system::{Disk, FileSystem};
use super::hook::Hook;
use super::inputs::{Effect, Input};
use super::journal::{Journal, JournalError, JournalLock};
use super::output_work::{AppRounds, OutputWork, Rounds};
use super::state_machine::{Coordinator, Settings};
use super::timings::Timings;
use super::{JOURNAL_BYTES_MAX, Options, SNAPSHOT_BYTES, StartError};
use crate::program::{Planner, ProgramStore};
use giveway_core::{Capabilities, JobId, Setup, Span, Time};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of inputs handled between two syncs of the journal.
const BATCH_INPUTS_MAX: usize = 4096;

/// How long a coordinator that stops waits for work on output folders. What is not done by then is repeated after the restart.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The wall clock is recorded again if it differs by more than this from what was recorded.
const CLOCK_TOLERANCE_US: u64 = 1_000_000;

/// A coordinator with its clock, its journal and its threads.
pub(super) struct Run {
    coordinator: Coordinator,
    journal: Journal,
    disk: Arc<dyn FileSystem>,
    folder: PathBuf,
    archive_bytes: u64,
    rounds: Arc<dyn Rounds>,
    programs: Arc<ProgramStore>,
    started: Instant,
    /// The core's time at `started`.
    start_time: Time,
    /// The wall clock at the core's time zero, as it was last recorded.
    clock_offset_us: Option<u64>,
    timings: Arc<Timings>,
    inputs: Sender<Input>,
    /// Shell command to run when a job has ended.
    hook: Option<Hook>,
    /// Number of threads that work on output folders.
    outputs_in_progress: usize,
    _lock: Arc<JournalLock>,
}

impl Run {
    /// Recovers the journal, or creates one. Results of work on output folders are sent to `inputs`.
    pub(super) fn open(
        options: Options,
        lock: Arc<JournalLock>,
        inputs: Sender<Input>,
        programs: Arc<ProgramStore>,
    ) -> Result<Run, StartError> {
        let disk: Arc<dyn FileSystem> = Arc::new(Disk);
        let setup = Setup {
            policy: options.policy,
            tenants: options.tenants,
            capabilities: Capabilities::ALL,
            seed: options.seed,
        };
        let settings = Settings {
            heartbeat_interval: span(options.heartbeat_interval),
            heartbeat_timeout: span(options.heartbeat_timeout),
            slowstart_ppm: options.slowstart_ppm,
            snapshot_bytes: SNAPSHOT_BYTES,
            journal_bytes_max: JOURNAL_BYTES_MAX,
        };
        let (coordinator, journal) = Coordinator::open_folder(settings, setup, Arc::clone(&disk), &options.folder)?;
        programs.retain(|program| coordinator.needs_program(program));
        archives::remove_oldest(&options.folder, options.archive_bytes);
        Ok(Run {
            folder: options.folder.clone(),
            archive_bytes: options.archive_bytes,
            start_time: coordinator.now(),
            clock_offset_us: None,
            coordinator,
            journal,
            disk,
            rounds: Arc::new(AppRounds { apps: options.apps, planner: Planner::new(&options.folder) }),
            programs,
            hook: options.on_job_end.as_deref().map(Hook::start).transpose().map_err(StartError::Thread)?,
            started: Instant::now(),
            timings: Arc::default(),
            inputs,
            outputs_in_progress: 0,
            _lock: lock,
        })
    }

    /// How long the loop takes.
    pub(super) fn timings(&self) -> Arc<Timings> {
        Arc::clone(&self.timings)
    }

    /// Name of the policy in use.
    pub(super) fn policy(&self) -> &str {
        self.coordinator.policy()
    }

    fn now(&self) -> Time {
        self.start_time + span(self.started.elapsed())
    }

    /// Runs until a client requests a stop or the journal cannot be written.
    pub(super) fn run(mut self, inputs: &Receiver<Input>) -> Result<(), JournalError> {
        let mut batch = Vec::new();
        loop {
            let wait = self.coordinator.next_tick().since(self.now());
            batch.extend(inputs.recv_timeout(Duration::from_micros(wait.0)).ok());
            // All other pending inputs share the next sync.
            batch.extend(inputs.try_iter().take(BATCH_INPUTS_MAX));
            let done = batch.iter().filter(|input| matches!(input, Input::OutputDone { .. })).count();
            self.outputs_in_progress = self.outputs_in_progress.saturating_sub(done);
            let now = self.now();
            self.read_clock(now);
            let (began, has_inputs) = (Instant::now(), !batch.is_empty());
            let output = self.coordinator.handle(now, batch.drain(..))?;
            if has_inputs {
                self.timings.decisions.add(began);
            }
            let (began, has_records, begins_journal) = (Instant::now(), output.has_records(), output.begins_journal());
            let effects = output.make_durable(&mut self.journal)?;
            if begins_journal {
                self.remove_archives();
            }
            if has_records {
                self.timings.journal_writes.add(began);
            }
            let mut stopping = false;
            for effect in effects {
                match effect {
                    // Fails if the worker has disconnected, which is an input of its own.
                    Effect::Send(link, message) => drop(link.sender.send(message)),
                    Effect::Reply(client, answer) => {
                        if client.sender.send(answer).is_err() {
                            batch.push(Input::ClientDisconnected { client: client.id });
                        }
                    }
                    Effect::Output(job, work) => self.start_output_work(job, work),
                    Effect::JobEnded(status) => {
                        if let Some(hook) = &self.hook {
                            hook.job_ended(*status);
                        }
                    }
                    Effect::RemoveProgram(program) => self.programs.remove(program),
                    Effect::Stop => stopping = true,
                }
            }
            if stopping {
                self.wait_for_output_work(inputs);
                if let Some(hook) = self.hook.take() {
                    hook.finish();
                }
                return Ok(());
            }
        }
    }

    /// Records the wall clock at the start, and again once it was set or the machine was suspended.
    fn read_clock(&mut self, now: Time) {
        let Ok(unix) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
        let unix_us = span(unix).0;
        let offset_us = unix_us.saturating_sub(now.0);
        if self.clock_offset_us.is_none_or(|known| known.abs_diff(offset_us) > CLOCK_TOLERANCE_US) {
            self.clock_offset_us = Some(offset_us);
            self.coordinator.on_clock_read(now, unix_us);
        }
    }

    /// Starts a thread for work on an output folder: a hung file system stalls the job it belongs to, and no other.
    fn start_output_work(&mut self, job: JobId, work: OutputWork) {
        let (disk, rounds, inputs) = (Arc::clone(&self.disk), Arc::clone(&self.rounds), self.inputs.clone());
        let task = work.clone();
        let spawned = thread::Builder::new().name(format!("output-{}", job.0)).spawn(move || {
            let result = task.run(&*disk, &*rounds);
            let _ = inputs.send(Input::OutputDone { job, result });
        });
        self.outputs_in_progress += 1;
        if let Err(error) = spawned {
            let _ = self.inputs.send(Input::OutputDone { job, result: work.not_started(error) });
        }
    }

    /// Removes old archives on a thread of its own: a disk may take long for that.
    fn remove_archives(&self) {
        let (folder, bytes_max) = (self.folder.clone(), self.archive_bytes);
        let remove = move || archives::remove_oldest(&folder, bytes_max);
        // Without a thread it is done after the next one.
        let _ = thread::Builder::new().name("archives".into()).spawn(remove);
    }

    /// A coordinator that is started in this process after this one must find no thread still working on the same folders.
    fn wait_for_output_work(&mut self, inputs: &Receiver<Input>) {
        let deadline = Instant::now() + STOP_GRACE_PERIOD;
        while self.outputs_in_progress > 0
            && let Ok(input) = inputs.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.outputs_in_progress -= usize::from(matches!(input, Input::OutputDone { .. }));
        }
    }
}

fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}
