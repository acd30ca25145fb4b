//! The journal over time: recovery at the start, snapshots that keep it short, and new journals in the place of long ones.
//!
//! Recovery begins with the last snapshot and applies the records after it, with the actions that were recorded. Nothing is decided again, so a release
//! that decides otherwise than the one before it continues its jobs. What the policy has reserved since the snapshot is not recorded: the recovered core
//! continues from the rest, and an event says so in the event log ([`Event::Restored`]). So the log can be replayed across restarts.

use super::StartError;
use super::file_system::FileSystem;
use super::inputs::JournalWrite;
use super::job_table::JobTable;
use super::journal::{
    self, ClockReading, DecodedJournal, Journal, JournalEncoder, JournalError, JournalFile, JournalSnapshot, Metadata,
};
use super::reload::with_task_start;
use super::state_machine::{Coordinator, Settings};
use giveway_core::{Action, Event, Refusal, Scheduler, Setup, Snapshot, Span, Time, refusal};
use std::path::Path;
use std::sync::Arc;

/// How the journal on disk must be opened for a coordinator that was just created.
#[derive(Debug)]
pub(crate) enum JournalStart {
    /// Continue the existing one after its first bytes.
    Continue {
        /// Length of the valid part.
        valid_bytes: u64,
    },
    /// Begin one with this content. An existing one is archived.
    Create(Vec<u8>),
}

impl Coordinator {
    /// Recovers from the journal in a cluster directory, or begins one there, and opens it for appending.
    pub(crate) fn open_folder(
        settings: Settings,
        setup: Setup,
        disk: Arc<dyn FileSystem>,
        folder: &Path,
    ) -> Result<(Coordinator, Journal), StartError> {
        let file = Journal::read(&*disk, folder)?;
        let (coordinator, start) = Coordinator::open(settings, setup, file.as_ref())?;
        let journal = match start {
            JournalStart::Continue { valid_bytes } => Journal::open(disk, folder, valid_bytes),
            JournalStart::Create(content) => Journal::create(disk, folder, &content),
        }?;
        Ok((coordinator, journal))
    }

    /// Recovers from a journal, or begins one. Unfinished jobs continue under the policy they were submitted to; without any, a changed setup
    /// begins a new journal, which knows the ended jobs of the one before it.
    pub(crate) fn open(
        settings: Settings,
        setup: Setup,
        file: Option<&JournalFile>,
    ) -> Result<(Coordinator, JournalStart), StartError> {
        let setup = Setup { policy: with_task_start(setup.policy), ..setup };
        // Checked first: an invalid policy is reported even if the journal has another.
        let core = Scheduler::new(setup.clone())?;
        let next_job = match file {
            None => 1,
            Some(file) => {
                let decoded = journal::decode(file)?;
                let (valid_bytes, same_setup) = (decoded.valid_bytes, decoded.setup == setup);
                let mut coordinator = Coordinator::recover(settings.clone(), decoded, file)?;
                coordinator.complete_interrupted_jobs();
                if same_setup || !coordinator.is_idle() {
                    coordinator.restore_core();
                    return Ok((coordinator, JournalStart::Continue { valid_bytes }));
                }
                // Ended jobs are known to the new journal, too.
                if let Begun::New(content) = coordinator.begin_journal(setup.clone())? {
                    return Ok((coordinator, JournalStart::Create(content)));
                }
                coordinator.table.next_job
            }
        };
        let mut journal = JournalEncoder::begin(&setup, next_job)?;
        let content = journal.take_frame()?;
        let mut table = JobTable::default();
        table.next_job = next_job;
        let coordinator = Coordinator::new(settings, core, journal, table, Time::ZERO);
        Ok((coordinator, JournalStart::Create(content)))
    }

    fn recover(settings: Settings, decoded: DecodedJournal, file: &JournalFile) -> Result<Coordinator, StartError> {
        let failed = |record, problem| StartError::Recovery { path: file.path.clone(), record, problem };
        let DecodedJournal { setup, snapshot, records, first_record, metadata, encoder, .. } = decoded;
        let mut cluster = giveway_core::Cluster::new(setup)?;
        let (mut table, mut last_time) = (JobTable::default(), Time::ZERO);
        if let Some(JournalSnapshot { now, core: known, table: jobs }) = snapshot {
            (table, last_time) = (JobTable::restore(jobs, &known), now);
            let restored = cluster.apply_recorded(now, &Event::Restored(Box::new(known)), &[]);
            restored.map_err(|error| failed(0, error.to_string()))?;
        }
        metadata.iter().for_each(|metadata| table.apply_metadata(metadata));
        for (record, number) in records.iter().zip(first_record..) {
            cluster
                .apply_recorded(record.now, &record.event, &record.actions)
                .map_err(|error| failed(number, error.to_string()))?;
            table.apply(record.now, &record.event, &record.actions);
            last_time = record.now;
        }
        Ok(Coordinator::new(settings, cluster.into(), encoder, table, last_time))
    }

    /// Has the core continue from what is known, and records that.
    fn restore_core(&mut self) {
        self.submit_event(Event::Restored(Box::new(self.core.snapshot())));
    }

    /// What to write for the records of this batch.
    pub(super) fn journal_write(&mut self) -> Result<JournalWrite, JournalError> {
        let mut frame = self.journal.take_frame()?;
        if let Some(content) = self.apply_reload()? {
            return Ok(JournalWrite::Replace { last: frame, content });
        }
        if frame.is_empty() {
            return Ok(JournalWrite::Nothing);
        }
        if self.journal.is_replacement_due(self.settings.journal_bytes_max)
            && let Begun::New(content) = self.begin_journal(self.core.setup().clone())?
        {
            return Ok(JournalWrite::Replace { last: frame, content });
        }
        if self.journal.is_snapshot_due(self.settings.snapshot_bytes) {
            frame.extend(self.snapshot_frame(self.core.snapshot())?);
        }
        Ok(JournalWrite::Append(frame))
    }

    fn snapshot_frame(&mut self, core: Snapshot) -> Result<Vec<u8>, JournalError> {
        let snapshot = JournalSnapshot { now: self.now, core, table: self.table.snapshot() };
        let mut frames = self.journal.snapshot_frame(&snapshot)?;
        // Not part of the snapshot: recovery begins with that, and finds them behind it.
        self.append_clock();
        frames.extend(self.journal.take_frame()?);
        Ok(frames)
    }

    fn append_clock(&mut self) {
        for reading in self.table.clock.readings() {
            self.journal.append_metadata(Metadata::ClockRead(*reading));
        }
    }

    /// Records the wall clock, in microseconds of the Unix epoch, for those who read the journal. Nothing here depends on it.
    pub(crate) fn on_clock_read(&mut self, now: Time, unix_us: u64) {
        // Later than all that was recorded, so that a reading after a restart does not count for what was recorded before it.
        self.now = now.max(self.now) + Span(1);
        self.append_metadata(Metadata::ClockRead(ClockReading { at: self.now, unix_us }));
    }

    /// Begins a new journal that continues the present one under this setup.
    ///
    /// Its event log can be read without the one before it: nodes and live jobs come first, as they joined and were submitted, then what is known of
    /// them. Nothing changes unless the result is [`Begun::New`].
    pub(super) fn begin_journal(&mut self, setup: Setup) -> Result<Begun, JournalError> {
        if self.core.state().jobs().iter().any(|(_, job)| job.is_closed()) {
            return Ok(Begun::NotNow);
        }
        let is_same = *self.core.setup() == setup;
        let snapshot = self.core.snapshot();
        let snapshot = if is_same { snapshot } else { snapshot.for_other_setup() };
        let mut next = NextJournal {
            core: Scheduler::new(setup.clone())?,
            encoder: JournalEncoder::begin(&setup, self.table.next_job)?,
            refused: None,
        };
        let (state, jobs) = (&snapshot.state, snapshot.state.jobs().by_submission());
        let start = jobs.first().map_or(self.now, |&job| state.job(job).submitted());
        for (node, known) in state.nodes().iter() {
            next.record(start, &Event::NodeJoined { node, spec: known.spec().clone() })?;
            if !known.is_up() {
                next.record(start, &Event::NodeLost { node })?;
            }
        }
        for job in jobs.into_iter().map(|job| state.job(job)) {
            next.record(job.submitted(), &Event::JobSubmitted(Box::new(job.spec())))?;
        }
        let restored = Event::Restored(Box::new(snapshot));
        let actions = next.record(self.now, &restored)?;
        if let Some(refusal) = next.refused {
            return Ok(Begun::Refused(refusal));
        }
        debug_assert!(!is_same || self.core.snapshot() == next.core.snapshot(), "the length of the journal decides");
        (self.core, self.journal) = (next.core, next.encoder);
        self.table.apply(self.now, &restored, &actions);
        self.append_clock();
        let mut content = self.journal.take_frame()?;
        content.extend(self.snapshot_frame(self.core.snapshot())?);
        Ok(Begun::New(content))
    }
}

/// Result of the attempt to begin a new journal.
pub(super) enum Begun {
    /// The content of the new journal.
    New(Vec<u8>),
    /// A job that has ended still holds slots: how it ended belongs to the log in which it ended.
    NotNow,
    /// The setup cannot take over what is known.
    Refused(Refusal),
}

/// A journal that may replace the present one.
struct NextJournal {
    core: Scheduler,
    encoder: JournalEncoder,
    refused: Option<Refusal>,
}

impl NextJournal {
    /// Submits an event of the past to the core. The backend has nothing to do for it but to set timers.
    fn record(&mut self, at: Time, event: &Event) -> Result<Vec<Action>, JournalError> {
        let mut actions = Vec::new();
        self.core.handle(at, event, &mut actions);
        self.encoder.append_event(at, event, &actions)?;
        self.refused = self.refused.take().or_else(|| refusal(&actions));
        Ok(actions)
    }
}
