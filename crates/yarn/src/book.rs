//! Which application is which job, and which container which attempt: YARN's news become the core's events, its ranking becomes an order of
//! applications.
//!
//! News of an application always says what it asks for at that moment, and the core is told only where that differs from what it believes. So
//! news that crossed on the way, or came twice, or never, is put right by the next. A resync goes the same way: all that ran waits again, what
//! is gone is said to be gone, and the rest is told like any other news; at the beginning there is just nothing that could be gone.

use crate::journal::{Journal, JournalError};
use crate::wire::{AppSpec, News};
use giveway_core::{
    Action, AttemptId, Capabilities, Event, JobId, JobSpec, Kind, NodeId, NodeSpec, Outcome, Policy, Priority,
    Progress, RackId, Scheduler, Setup, SetupError, Tenants, Time, Timers, WHOLE_PPM,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::path::Path;
use thiserror::Error;

/// A node is never taken to run more containers than this at once: what a node joins with is a guess, and it grows with what it is seen to run.
const MOST_SLOTS: u64 = 1_000;

/// Why a book cannot be opened.
#[derive(Debug, Error)]
pub enum BookError {
    /// The policy makes no sense, or needs what YARN cannot do.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The event log cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The event log was written by a core that decided differently.
    #[error("the event log's actions are not those of this release (record {record}); give this run a file of its own")]
    Differs {
        /// The first record that differs.
        record: u64,
    },
}

/// What containers are taken to need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Memory of one container; the ResourceManager's minimum allocation if nothing is said.
    pub slot_mb: Option<u64>,
}

/// An application that is active.
#[derive(Debug)]
struct App {
    job: JobId,
    containers: FxHashMap<String, AttemptId>,
    progress_ppm: u32,
}

/// Core, event log, and who is who.
#[derive(Debug)]
pub struct Book {
    core: Scheduler,
    journal: Option<Journal>,
    sizes: Sizes,
    apps: FxHashMap<String, App>,
    names: FxHashMap<JobId, String>,
    nodes: FxHashMap<String, NodeId>,
    racks: FxHashMap<String, RackId>,
    nodes_seen: u32,
    jobs_seen: u32,
    timers: Timers,
    /// What was told since a resync began.
    sync: Option<Vec<News>>,
    actions: Vec<Action>,
    complaint: Option<String>,
}

impl Book {
    /// An empty book, or the one an event log tells of.
    pub fn open(policy: Policy, event_log: Option<&Path>, sizes: Sizes) -> Result<Book, BookError> {
        let tenants = Tenants::default();
        let setup = Setup { policy, tenants, capabilities: Capabilities::ORDER_ONLY, seed: 0 };
        let core = Scheduler::new(setup.clone())?;
        let mut book = Book {
            core,
            journal: None,
            sizes,
            apps: FxHashMap::default(),
            names: FxHashMap::default(),
            nodes: FxHashMap::default(),
            racks: FxHashMap::default(),
            nodes_seen: 0,
            jobs_seen: 0,
            timers: Timers::default(),
            sync: None,
            actions: Vec::new(),
            complaint: None,
        };
        if let Some(path) = event_log {
            let (mut record, mut differs) = (0, None);
            let journal = Journal::open(path, &setup, |known| {
                record += 1;
                book.actions.clear();
                book.core.handle(known.now, &known.event, &mut book.actions);
                if book.actions != known.actions {
                    differs.get_or_insert(record);
                }
                book.note(&known.event);
            })?;
            if let Some(record) = differs {
                return Err(BookError::Differs { record });
            }
            book.journal = Some(journal);
            book.complaint = None;
        }
        Ok(book)
    }

    /// When the first news from now on happens, on the event log's clock.
    pub fn begins(&self) -> Time {
        self.journal.as_ref().map_or(Time::ZERO, Journal::begins)
    }

    /// The next expiry of a timer that the core has set.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The name of the policy that orders.
    pub fn policy(&self) -> &str {
        &self.core.setup().policy.name
    }

    /// Takes in what the plug-in said. True once a resync was taken in.
    pub fn news(&mut self, now: Time, news: News) -> bool {
        match (&mut self.sync, news) {
            (_, News::SyncBegan) => self.sync = Some(Vec::new()),
            (Some(_), News::SyncEnded) => {
                let told = self.sync.take().unwrap_or_default();
                self.resync(now, told);
                return true;
            }
            (Some(told), news) => told.push(news),
            (None, news) => self.take_in(now, news),
        }
        false
    }

    /// Fires the timers that have expired by `now`, after reporting the progress that the core decides by.
    pub fn fire_timers(&mut self, now: Time) {
        let mut expired = self.timers.expire(now);
        let progress = if expired.is_some() { self.progress() } else { Vec::new() };
        if !progress.is_empty() {
            self.tell(now, Event::ProgressReported { progress });
        }
        while let Some(timer) = expired {
            self.tell(now, Event::TimerFired { timer });
            expired = self.timers.expire(now);
        }
    }

    /// The applications that wait for containers, first to be served first.
    pub fn order(&self) -> Vec<String> {
        self.core.rank_jobs().into_iter().filter_map(|job| self.names.get(&job).cloned()).collect()
    }

    /// What is up and active now: nodes, applications, containers.
    pub fn counts(&self) -> [usize; 3] {
        [self.nodes.len(), self.apps.len(), self.apps.values().map(|app| app.containers.len()).sum()]
    }

    /// What the core refused or the event log could not take since this was last asked, if anything.
    pub fn complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    /// Hands what was written to the system.
    pub fn flush(&mut self) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.flush()
        {
            self.complaint = Some(format!("the event log ends here, orders go on: it cannot be written ({error})"));
            self.journal = None;
        }
    }

    /// Closes the event log.
    pub fn close(mut self) -> io::Result<()> {
        self.journal.take().map_or(Ok(()), Journal::close)
    }

    fn tell(&mut self, now: Time, event: Event) -> Option<AttemptId> {
        self.actions.clear();
        self.core.handle(now, &event, &mut self.actions);
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.record(now, &event, &self.actions)
        {
            self.complaint = Some(format!("the event log ends here, orders go on: {error}"));
            self.journal = None;
        }
        self.note(&event)
    }

    /// Takes note of what an event and the core's answer mean for who is who. An attempt is returned where the core named one.
    fn note(&mut self, event: &Event) -> Option<AttemptId> {
        let refusal = self.actions.iter().find_map(|action| match action {
            Action::Refuse { refusal } => Some(refusal),
            _ => None,
        });
        if let Some(refusal) = refusal {
            self.complaint = Some(format!("the core takes no notice of what cannot be: {refusal}"));
            return None;
        }
        match event {
            Event::NodeJoined { node, spec } => {
                self.nodes_seen = self.nodes_seen.max(node.0 + 1);
                self.nodes.insert(spec.name.clone(), *node);
            }
            Event::NodeLost { node } => self.nodes.retain(|_, known| known != node),
            Event::JobOpened(spec) => {
                self.jobs_seen = self.jobs_seen.max(spec.id.0 + 1);
                let app = spec.name.split(' ').next().unwrap_or_default().to_owned();
                self.names.insert(spec.id, app.clone());
                self.apps.insert(app, App { job: spec.id, containers: FxHashMap::default(), progress_ppm: 0 });
            }
            Event::JobEnded { job, .. } => {
                if let Some(app) = self.names.remove(job) {
                    self.apps.remove(&app);
                }
            }
            _ => {}
        }
        let mut named = None;
        for action in &self.actions {
            match action {
                Action::SetTimer { timer, at } => self.timers.set(*timer, *at),
                Action::Launch { attempt, .. } => named = Some(*attempt),
                _ => {}
            }
        }
        named
    }

    fn take_in(&mut self, now: Time, news: News) {
        match news {
            News::SyncBegan | News::SyncEnded | News::Beat => {}
            News::NodeUp { name, rack, memory_mb, least_mb } => self.node_up(now, name, rack, memory_mb, least_mb),
            News::NodeDown { name } => {
                if let Some(&node) = self.nodes.get(&name) {
                    self.tell(now, Event::NodeLost { node });
                }
            }
            News::AppAdded(spec) => self.app_added(now, spec),
            News::AppGone { app, outcome } => self.app_gone(now, &app, outcome),
            News::Reported { app, progress_ppm, asks } => {
                if let Some(known) = self.apps.get_mut(&app) {
                    known.progress_ppm = progress_ppm.min(WHOLE_PPM);
                    self.asks(now, &app, asks);
                }
            }
            News::Started { app, container, node, kind, asks } => self.started(now, &app, container, &node, kind, asks),
            News::Ended { app, container, done, asks } => {
                let ended = self.apps.get_mut(&app).and_then(|known| known.containers.remove(&container));
                if let Some(attempt) = ended {
                    let event = match done {
                        true => Event::AttemptFinished { attempt, output_bytes: 0 },
                        // Whether a failed task fails its job is the application master's to say.
                        false => Event::AttemptKilled { attempt },
                    };
                    self.tell(now, event);
                }
                self.asks(now, &app, asks);
            }
        }
    }

    fn resync(&mut self, now: Time, told: Vec<News>) {
        if self.nodes_seen > 0 {
            self.tell(now, Event::Resynced);
        }
        self.apps.values_mut().for_each(|app| app.containers.clear());
        let (mut nodes, mut apps) = (FxHashSet::default(), FxHashSet::default());
        for news in &told {
            match news {
                News::NodeUp { name, .. } => nodes.insert(name.clone()),
                News::AppAdded(spec) => apps.insert(spec.app.clone()),
                // How it ended is told further down.
                News::AppGone { app, .. } => apps.insert(app.clone()),
                _ => false,
            };
        }
        // Sorted, so that one story gives one event log.
        let mut lost: Vec<NodeId> =
            self.nodes.iter().filter(|(name, _)| !nodes.contains(*name)).map(|(_, &node)| node).collect();
        lost.sort_unstable();
        for node in lost {
            self.tell(now, Event::NodeLost { node });
        }
        let mut gone: Vec<JobId> =
            self.apps.iter().filter(|(name, _)| !apps.contains(*name)).map(|(_, app)| app.job).collect();
        gone.sort_unstable();
        for job in gone {
            self.tell(now, Event::JobEnded { job, outcome: Outcome::Killed });
        }
        for news in told {
            self.take_in(now, news);
        }
    }

    fn node_up(&mut self, now: Time, name: String, rack: String, memory_mb: u64, least_mb: u64) {
        if self.nodes.contains_key(&name) {
            return;
        }
        let slot_mb = self.sizes.slot_mb.unwrap_or(least_mb).max(1);
        // Any container may be a map's or a reduce's, so each kind may fill the node.
        let slots = (memory_mb / slot_mb).clamp(1, MOST_SLOTS) as u16;
        let racks = self.racks.len() as u32;
        let rack = *self.racks.entry(rack).or_insert(RackId(racks));
        let spec = NodeSpec {
            name,
            rack,
            map_slots: slots,
            reduce_slots: slots,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 100 << 20,
            disk_bytes: 0,
        };
        // A node that was lost and comes back gets its old number, or the table of nodes would grow with every restart.
        let names = self.core.state().nodes.iter().map(|node| &node.spec.name);
        let again = names.zip(0..).find(|(known, _)| **known == spec.name).map(|(_, number)| NodeId(number));
        self.tell(now, Event::NodeJoined { node: again.unwrap_or(NodeId(self.nodes_seen)), spec });
    }

    fn app_added(&mut self, now: Time, spec: AppSpec) {
        if self.apps.contains_key(&spec.app) {
            return;
        }
        let spec = JobSpec {
            external_id: None,
            id: JobId(self.jobs_seen),
            // The id comes first: an event log that is continued is read for it.
            name: format!("{} {}", spec.app, spec.name),
            user: spec.user,
            pool: spec.queue,
            priority: match spec.priority {
                2.. => Priority::VeryHigh,
                1 => Priority::High,
                _ => Priority::Normal,
            },
            splits: [].into(),
            reduces: 0,
            // Reduces that are held back are not asked for, so those that are asked for may start.
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        self.tell(now, Event::JobOpened(Box::new(spec)));
    }

    fn app_gone(&mut self, now: Time, app: &str, outcome: Outcome) {
        let Some(known) = self.apps.get_mut(app) else { return };
        let job = known.job;
        let mut left: Vec<AttemptId> = known.containers.drain().map(|(_, attempt)| attempt).collect();
        left.sort_unstable();
        for attempt in left {
            self.tell(now, Event::AttemptKilled { attempt });
        }
        self.tell(now, Event::JobEnded { job, outcome });
    }

    fn started(&mut self, now: Time, app: &str, container: String, node: &str, kind: Kind, mut asks: [u32; 2]) {
        let Some(known) = self.apps.get(app).filter(|known| !known.containers.contains_key(&container)) else { return };
        let Some(&node) = self.nodes.get(node) else { return };
        let job = known.job;
        // What it asks for now leaves out what it was just given.
        asks[kind.ix()] = asks[kind.ix()].saturating_add(1);
        self.asks(now, app, asks);
        if let Some(attempt) = self.tell(now, Event::SlotGranted { job, kind, node })
            && let Some(known) = self.apps.get_mut(app)
        {
            known.containers.insert(container, attempt);
        }
    }

    /// Tells the core what an application asks for, where that is news.
    fn asks(&mut self, now: Time, app: &str, asks: [u32; 2]) {
        let Some(job) = self.apps.get(app).map(|known| known.job) else { return };
        let state = self.core.state();
        let believed = state.find(job).map(|jx| Kind::BOTH.map(|kind| state.job(jx).facts(kind).waiting));
        if believed.is_some_and(|believed| believed != asks) {
            self.tell(now, Event::SlotsRequested { job, maps: asks[0], reduces: asks[1] });
        }
    }

    /// How far attempts are, where the core wants to know. YARN has one figure for an application: what it says beyond the tasks that are
    /// done is spread evenly over those that run.
    fn progress(&self) -> Vec<Progress> {
        let mut all = Vec::new();
        if !self.core.wants_progress() {
            return all;
        }
        let state = self.core.state();
        for app in self.apps.values() {
            let wanted = |kind: &Kind| self.core.wants_progress_of(app.job, *kind);
            let Some(job) = state.find(app.job).filter(|_| Kind::BOTH.iter().any(wanted)) else { continue };
            let job = state.job(job);
            let count = |of: fn(&giveway_core::state::Facts) -> u32| {
                Kind::BOTH.iter().map(|&kind| u64::from(of(job.facts(kind)))).sum::<u64>()
            };
            let (finished, running) = (count(|facts| facts.finished), count(|facts| facts.live.len() as u32));
            let whole = u64::from(WHOLE_PPM);
            let known = finished + running + count(|facts| facts.waiting);
            let beyond = (u64::from(app.progress_ppm) * known).saturating_sub(finished * whole);
            if let Some(done) = beyond.checked_div(running).filter(|done| *done > 0) {
                let progress_ppm = done.min(whole - whole / 100) as u32;
                all.extend(app.containers.values().map(|&attempt| Progress { attempt, progress_ppm }));
            }
        }
        all.sort_unstable_by_key(|progress| progress.attempt);
        all
    }
}
