//! Maps YARN applications to jobs and containers to attempts, and drives the scheduler core with the plug-in's messages.
//!
//! Every message about an application carries its current outstanding asks, and the core receives a `SlotsRequested` only if they differ from its
//! state. A message that is lost, duplicated or reordered is therefore corrected by the next one. A snapshot follows the same rule: running attempts
//! become pending (`Resynced`), nodes and applications missing from the snapshot are removed, and its messages are then applied like any others. The
//! first snapshot differs only in that there is nothing to remove.
//!
//! YARN's containers serve maps and reduces alike. A policy that preempts has to know when no slot is left, so for such a policy all containers,
//! those of application masters included, are reduces in the core (`Capabilities::one_slot_pool`), although events name them as what they are. Other policies see maps and reduces apart.

mod container_events;
mod nodes;

use crate::containers::{Container, Order, reported_progress};
use crate::event_log::{EventLogFile, EventLogFileError};
use crate::wire::{AppSpec, NO_HEADROOM_LIMIT, PluginMessage};
use container_events::{GrantedContainer, LoggedOrder};
use giveway_core::{
    Action, AttemptId, Capabilities, Event, JobId, JobSpec, Kind, NodeId, Outcome, Policy, PreemptAction, Priority,
    RackId, Scheduler, Setup, SetupError, Tenants, Time, Timers, WHOLE_PPM,
};
use nodes::NodeReport;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use thiserror::Error;

/// What the plug-in can do for a policy that preempts.
const PREEMPTING: Capabilities = Capabilities {
    pause_reduces: true,
    kill_attempts: true,
    one_slot_pool: true,
    slots_stay_in_pool: true,
    ..Capabilities::ORDER_ONLY
};

/// True if a policy does more than rank applications: it frees slots by pausing or killing.
fn preempts(policy: &Policy) -> bool {
    [PreemptAction::Pause, PreemptAction::Kill].into_iter().any(|action| policy.preempts_by(action, true))
}

/// Why a registry cannot be opened.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The policy is invalid, or needs a capability that YARN does not have.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The event log file cannot be used.
    #[error(transparent)]
    EventLog(#[from] EventLogFileError),
    /// Replaying the event log gave other actions than it records.
    #[error("cannot continue the event log: this release decides differently at record {record}; use a new file")]
    ReplayMismatch {
        /// Number of the first differing record, counted from 1.
        record: u64,
    },
    /// A job in the event log has no `external_id`, so it was not written by a sidecar.
    #[error("cannot continue the event log: record {record} opens a job without a YARN application id; use a new file")]
    MissingAppId {
        /// Number of the first such record, counted from 1.
        record: u64,
    },
}

/// Numbers of registered objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Nodes that are up.
    pub nodes: usize,
    pub apps: usize,
    /// Allocated containers of those applications, without those of application masters.
    pub containers: usize,
}

/// An active application.
#[derive(Debug)]
struct App {
    job: JobId,
    may_pause: bool,
    containers: FxHashMap<String, Container>,
    /// Containers that were demoted when the snapshot was taken, with node and kind. The core learns of them when they are promoted.
    demoted: FxHashMap<String, (String, Kind)>,
    progress_ppm: u32,
    /// Containers whose task is done, by kind.
    finished: [u64; 2],
    /// The last outstanding asks, by kind.
    asks: [u32; 2],
    /// Of those, the asks for lost work.
    recovery_asks: u32,
    /// How many of them the maxima of its queues allow, and whether its queue would get what its containers leave.
    headroom: (u32, bool),
    /// The classes of nodes that were last reported as suggested.
    suggested: Option<Vec<u16>>,
}

/// The scheduler core, its event log, and the mapping between YARN's ids and the core's.
#[derive(Debug)]
pub struct AppRegistry {
    core: Scheduler,
    event_log: Option<EventLogFile>,
    apps: FxHashMap<String, App>,
    app_ids: FxHashMap<JobId, String>,
    /// Nodes that are up, by `host:port`.
    nodes: FxHashMap<String, NodeId>,
    /// Incremented whenever `nodes` changes.
    nodes_version: u64,
    /// What was last counted on nodes and the core has not been told.
    counts: BTreeMap<NodeId, NodeReport>,
    /// Nodes where a paused container fits.
    can_resume: FxHashSet<NodeId>,
    racks: FxHashMap<String, RackId>,
    next_node_number: u32,
    next_job_number: u32,
    timers: Timers,
    /// When the last snapshot was applied.
    snapshot_at: Time,
    /// True if all containers are one pool of slots, because the policy preempts.
    one_pool: bool,
    /// Application id and container id of each attempt.
    index: FxHashMap<AttemptId, (String, String)>,
    /// Orders for the plug-in that have not been sent yet.
    orders: Vec<LoggedOrder>,
    /// Since when nodes are up of which none can pause containers, if the policy needs that. None once that was reported.
    no_pause_since: Option<Time>,
    no_pause_reported: bool,
    /// Messages of a snapshot that has started and not ended.
    snapshot: Option<Vec<PluginMessage>>,
    /// The core's actions for the last event; reused to avoid allocation.
    actions: Vec<Action>,
    warning: Option<String>,
}

impl AppRegistry {
    /// Creates an empty registry. If `event_log` names a file that exists, its events are replayed to restore the state.
    pub fn open(policy: Policy, event_log: Option<&Path>) -> Result<AppRegistry, RegistryError> {
        let tenants = Tenants::default();
        let one_pool = preempts(&policy);
        let able = if one_pool { PREEMPTING } else { Capabilities::ORDER_ONLY };
        let capabilities = Capabilities { refuse_nodes: policy.compares_nodes(), ..able };
        let setup = Setup { policy, tenants, capabilities, seed: 0 };
        let core = Scheduler::new(setup.clone())?;
        let mut registry = AppRegistry {
            core,
            event_log: None,
            apps: FxHashMap::default(),
            app_ids: FxHashMap::default(),
            nodes: FxHashMap::default(),
            nodes_version: 0,
            counts: BTreeMap::new(),
            can_resume: FxHashSet::default(),
            racks: FxHashMap::default(),
            next_node_number: 0,
            next_job_number: 0,
            timers: Timers::default(),
            snapshot_at: Time::ZERO,
            one_pool,
            index: FxHashMap::default(),
            orders: Vec::new(),
            no_pause_since: None,
            no_pause_reported: false,
            snapshot: None,
            actions: Vec::new(),
            warning: None,
        };
        if let Some(path) = event_log {
            let (mut number, mut fault) = (0, None);
            let event_log = EventLogFile::open(path, &setup, |record| {
                number += 1;
                registry.actions.clear();
                registry.core.handle(record.now, &record.event, &mut registry.actions);
                if registry.actions != record.actions {
                    fault.get_or_insert(RegistryError::ReplayMismatch { record: number });
                }
                if matches!(&record.event, Event::JobOpened(spec) if spec.external_id.is_none()) {
                    fault.get_or_insert(RegistryError::MissingAppId { record: number });
                }
                registry.index_event(&record.event);
            })?;
            if let Some(fault) = fault {
                return Err(fault);
            }
            registry.event_log = Some(event_log);
            registry.warning = None;
        }
        Ok(registry)
    }

    /// Time of the first new event, on the event log's clock. Later calls must not pass an earlier `now`.
    pub fn start_time(&self) -> Time {
        self.event_log.as_ref().map_or(Time::ZERO, EventLogFile::start_time)
    }

    /// The earliest expiry of the core's timers.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.next()
    }

    pub fn policy_name(&self) -> &str {
        &self.core.setup().policy.name
    }

    /// True if the policy runs lost work again at once.
    pub fn recovers_at_once(&self) -> bool {
        self.core.setup().policy.recovery.is_immediate()
    }

    /// Handles a message of the plug-in. Returns true if the message completed a snapshot, which was then applied.
    pub fn on_message(&mut self, now: Time, message: PluginMessage) -> bool {
        match (&mut self.snapshot, message) {
            (_, PluginMessage::SnapshotStarted) => self.snapshot = Some(Vec::new()),
            (Some(_), PluginMessage::SnapshotEnded) => {
                let messages = self.snapshot.take().unwrap_or_default();
                self.apply_snapshot(now, messages);
                return true;
            }
            (Some(messages), message) => messages.push(message),
            (None, message) => self.apply(now, message),
        }
        false
    }

    /// Fires the timers that have expired by `now`, after reporting the progress that the core decides by.
    pub fn fire_timers(&mut self, now: Time) {
        let mut expired = self.timers.expire(now);
        let progress = if expired.is_some() { self.attempt_progress(now) } else { Vec::new() };
        if !progress.is_empty() {
            self.submit_event(now, Event::ProgressReported { progress });
        }
        while let Some(timer) = expired {
            self.submit_event(now, Event::TimerFired { timer });
            expired = self.timers.expire(now);
        }
    }

    /// Ids of the applications with outstanding asks, in the order in which they are to be served.
    pub fn ranking(&self) -> Vec<String> {
        self.core.rank_jobs().into_iter().filter_map(|job| self.app_ids.get(&job).cloned()).collect()
    }

    /// Number of nodes, applications and containers.
    pub fn counts(&self) -> ClusterCounts {
        ClusterCounts {
            nodes: self.nodes.len(),
            apps: self.apps.len(),
            containers: self.apps.values().map(|app| app.containers.len()).sum(),
        }
    }

    /// Takes the last warning since the previous call: an event that the core refused, or a failed write of the event log.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Writes buffered records to the event log file. If that fails, the event log is given up and ranking continues.
    pub fn flush(&mut self) {
        if let Some(event_log) = &mut self.event_log
            && let Err(error) = event_log.flush()
        {
            self.abandon_event_log(&error);
        }
    }

    /// Closes the event log.
    pub fn close(mut self) -> io::Result<()> {
        self.event_log.take().map_or(Ok(()), EventLogFile::close)
    }

    fn abandon_event_log(&mut self, error: &dyn std::error::Error) {
        self.warning = Some(format!("cannot write the event log: {error}; it ends here, ranking continues"));
        self.event_log = None;
    }

    /// Gives an event to the core and records it. Returns the attempt that the core launched, if any.
    fn submit_event(&mut self, now: Time, event: Event) -> Option<AttemptId> {
        self.actions.clear();
        self.core.handle(now, &event, &mut self.actions);
        if let Some(event_log) = &mut self.event_log
            && let Err(error) = event_log.record(now, &event, &self.actions)
        {
            self.abandon_event_log(&error);
        }
        for action in std::mem::take(&mut self.actions) {
            if let Some(order) = Order::of(&action) {
                let beneficiary = match &action {
                    Action::Pause { reason, .. } | Action::Kill { reason, .. } => reason.beneficiary(),
                    _ => None,
                };
                self.carry_out(now, order, beneficiary);
            }
            self.actions.push(action);
        }
        self.index_event(&event)
    }

    /// Updates the id maps and timers for an event and the core's actions in `self.actions`. Returns the attempt that the core launched, if any.
    fn index_event(&mut self, event: &Event) -> Option<AttemptId> {
        if let Some(refusal) = giveway_core::refusal(&self.actions) {
            self.warning = Some(format!("the scheduler core refused an event: {refusal}; it was ignored"));
            return None;
        }
        match event {
            Event::NodeJoined { node, spec } => {
                self.next_node_number = self.next_node_number.max(node.0 + 1);
                self.nodes.insert(spec.name.clone(), *node);
                self.nodes_version += 1;
            }
            Event::NodeLost { node } => {
                self.nodes.retain(|_, other| other != node);
                self.nodes_version += 1;
            }
            Event::JobOpened(spec) => {
                self.next_job_number = self.next_job_number.max(spec.id.0 + 1);
                if let Some(app_id) = &spec.external_id {
                    self.app_ids.insert(spec.id, app_id.clone());
                    let app = App {
                        job: spec.id,
                        may_pause: false,
                        containers: FxHashMap::default(),
                        demoted: FxHashMap::default(),
                        progress_ppm: 0,
                        finished: [0; 2],
                        asks: [0; 2],
                        recovery_asks: 0,
                        headroom: (NO_HEADROOM_LIMIT, true),
                        suggested: None,
                    };
                    self.apps.insert(app_id.clone(), app);
                }
            }
            Event::HeadroomSet { job, slots, freed } => {
                let app = self.app_ids.get(job).and_then(|app_id| self.apps.get_mut(app_id));
                app.into_iter().for_each(|app| app.headroom = (*slots, *freed));
            }
            Event::JobEnded { job, .. } => {
                if let Some(app_id) = self.app_ids.remove(job) {
                    self.apps.remove(&app_id);
                }
            }
            _ => {}
        }
        let mut launched = None;
        for action in &self.actions {
            match action {
                Action::SetTimer { timer, at } => self.timers.set(*timer, *at),
                Action::Launch { attempt, .. } => launched = Some(*attempt),
                _ => {}
            }
        }
        launched
    }

    fn apply(&mut self, now: Time, message: PluginMessage) {
        match message {
            PluginMessage::SnapshotStarted | PluginMessage::SnapshotEnded => {}
            // The last message of a batch.
            PluginMessage::Heartbeat => self.apply_counts(now),
            PluginMessage::NodeAdded { name, rack, slots, pausable, can_resume, speed_ppm } => {
                self.node_reported(now, NodeReport { name, rack, slots, pausable, can_resume, speed_ppm });
            }
            PluginMessage::NodeRemoved { name } => {
                if let Some(&node) = self.nodes.get(&name) {
                    self.submit_event(now, Event::NodeLost { node });
                    self.forget_containers_on(node);
                }
            }
            PluginMessage::AppAdded(spec) => self.app_added(now, spec),
            PluginMessage::AppRemoved { app_id, outcome } => self.app_removed(now, &app_id, outcome),
            PluginMessage::AppUpdated {
                app_id,
                progress_ppm,
                outstanding_asks,
                recovery_asks,
                headroom: slots,
                gets_freed: freed,
            } => {
                let begins = |app: &App| app.asks == [0; 2] && outstanding_asks != [0; 2];
                if self.apps.get(&app_id).is_some_and(begins) {
                    self.apply_counts(now);
                }
                if let Some(app) = self.apps.get_mut(&app_id) {
                    app.progress_ppm = progress_ppm.min(WHOLE_PPM);
                    let (job, changed) = (app.job, app.recovery_asks != recovery_asks);
                    app.recovery_asks = recovery_asks;
                    let had = std::mem::replace(&mut app.headroom, (slots, freed));
                    // A limit counts for the asks that come with it.
                    if slots < had.0 {
                        self.update_asks(now, &app_id, outstanding_asks);
                    }
                    if self.one_pool && (slots, freed) != had {
                        self.submit_event(now, Event::HeadroomSet { job, slots, freed });
                    }
                    self.update_asks(now, &app_id, outstanding_asks);
                    if changed && self.core.setup().policy.recovery.is_immediate() {
                        self.submit_event(now, Event::RecoveryRequested { job, slots: recovery_asks });
                    }
                }
            }
            PluginMessage::ContainerAllocated {
                app_id,
                container_id,
                node,
                kind,
                is_master,
                is_demoted,
                outstanding_asks,
            } => {
                if is_demoted && self.one_pool {
                    if let Some(app) = self.apps.get_mut(&app_id) {
                        app.demoted.insert(container_id, (node, kind));
                    }
                    self.update_asks(now, &app_id, outstanding_asks);
                } else if is_master && !self.one_pool {
                    self.update_asks(now, &app_id, outstanding_asks);
                } else if let Some(&node) = self.nodes.get(&node) {
                    let granted = GrantedContainer { id: container_id, node, kind, is_master };
                    self.container_allocated(now, &app_id, granted, outstanding_asks);
                }
            }
            PluginMessage::ContainerUpdated { app_id, container_id, update } => {
                self.container_updated(now, &app_id, &container_id, update);
            }
            PluginMessage::ContainerProgress { app_id, container_id, progress_ppm } => {
                let app = self.apps.get_mut(&app_id);
                if let Some(container) = app.and_then(|app| app.containers.get_mut(&container_id)) {
                    container.progress_ppm = Some(reported_progress(container.kind, progress_ppm));
                }
            }
            PluginMessage::ContainerReleased { app_id, container_id, succeeded, outstanding_asks } => {
                let released = self.apps.get_mut(&app_id).and_then(|app| {
                    app.demoted.remove(&container_id);
                    app.containers.remove(&container_id)
                });
                if let Some(Container { attempt, kind, is_master, .. }) = released {
                    self.index.remove(&attempt);
                    if let Some(app) = self.apps.get_mut(&app_id).filter(|_| succeeded && !is_master) {
                        app.finished[kind.index()] += 1;
                    }
                    let event = match succeeded {
                        true => Event::AttemptFinished { attempt, output_bytes: 0 },
                        // Not `AttemptFailed`: the application master decides whether a failed task fails its job.
                        false => Event::AttemptKilled { attempt },
                    };
                    self.submit_event(now, event);
                }
                self.update_asks(now, &app_id, outstanding_asks);
            }
        }
    }

    fn apply_snapshot(&mut self, now: Time, messages: Vec<PluginMessage>) {
        self.snapshot_at = now;
        if self.next_node_number > 0 {
            self.submit_event(now, Event::Resynced);
        }
        for app in self.apps.values_mut() {
            app.containers.clear();
            app.demoted.clear();
        }
        self.index.clear();
        let (mut node_names, mut app_ids) = (FxHashSet::default(), FxHashSet::default());
        for message in &messages {
            match message {
                PluginMessage::NodeAdded { name, .. } => node_names.insert(name.clone()),
                PluginMessage::AppAdded(spec) => app_ids.insert(spec.app_id.clone()),
                // Ended below, with its real outcome.
                PluginMessage::AppRemoved { app_id, .. } => app_ids.insert(app_id.clone()),
                _ => false,
            };
        }
        // Sorted, because the order of a hash map must not affect the event log.
        let mut lost_nodes: Vec<NodeId> =
            self.nodes.iter().filter(|(name, _)| !node_names.contains(*name)).map(|(_, &node)| node).collect();
        lost_nodes.sort_unstable();
        for node in lost_nodes {
            self.submit_event(now, Event::NodeLost { node });
        }
        let mut ended_jobs: Vec<JobId> =
            self.apps.iter().filter(|(app_id, _)| !app_ids.contains(*app_id)).map(|(_, app)| app.job).collect();
        ended_jobs.sort_unstable();
        for job in ended_jobs {
            self.submit_event(now, Event::JobEnded { job, outcome: Outcome::Killed });
        }
        for message in messages {
            self.apply(now, message);
        }
        self.apply_counts(now);
    }

    fn app_added(&mut self, now: Time, spec: AppSpec) {
        let (app_id, may_pause) = (spec.app_id.clone(), spec.may_pause);
        if !self.apps.contains_key(&app_id) {
            self.open_job(now, spec);
        }
        if let Some(app) = self.apps.get_mut(&app_id) {
            app.may_pause = may_pause;
        }
    }

    fn open_job(&mut self, now: Time, spec: AppSpec) {
        let spec = JobSpec {
            id: JobId(self.next_job_number),
            // With the id, because application names are not unique and reports show only this name.
            name: format!("{} {}", spec.app_id, spec.name),
            external_id: Some(spec.app_id),
            user: spec.user,
            pool: spec.queue,
            priority: match spec.priority {
                2.. => Priority::VeryHigh,
                1 => Priority::High,
                _ => Priority::Normal,
            },
            splits: [].into(),
            reduces: 0,
            // MapReduce's slow start is applied by the application master: it asks only for reduces that may start.
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        self.submit_event(now, Event::JobOpened(Box::new(spec)));
    }

    fn app_removed(&mut self, now: Time, app_id: &str, outcome: Outcome) {
        let Some(app) = self.apps.get_mut(app_id) else { return };
        let job = app.job;
        let mut running: Vec<AttemptId> = app.containers.drain().map(|(_, one)| one.attempt).collect();
        running.sort_unstable();
        for attempt in running {
            self.index.remove(&attempt);
            self.submit_event(now, Event::AttemptKilled { attempt });
        }
        self.submit_event(now, Event::JobEnded { job, outcome });
    }

    /// Submits an application's outstanding asks, if they differ from the pending tasks in the core's state.
    fn update_asks(&mut self, now: Time, app_id: &str, outstanding_asks: [u32; 2]) {
        let Some(app) = self.apps.get_mut(app_id) else { return };
        app.asks = outstanding_asks;
        self.update_pending(now, app_id, outstanding_asks);
    }

    /// The same for asks that count a container which is about to be granted.
    fn update_pending(&mut self, now: Time, app_id: &str, asks: [u32; 2]) {
        let Some(job) = self.apps.get(app_id).map(|app| app.job) else { return };
        let pending = self.pending(job);
        if pending.is_some_and(|pending| pending != self.pooled(asks)) {
            let [maps, reduces] = asks;
            self.submit_event(now, Event::SlotsRequested { job, maps, reduces });
        }
    }

    /// The pending tasks of a job in the core's state.
    fn pending(&self, job: JobId) -> Option<[u32; 2]> {
        self.core.job_status(job).map(|status| Kind::BOTH.map(|kind| status.tasks[kind].pending))
    }

    /// Asks as the core counts them: in one pool, all of them are reduces.
    fn pooled(&self, [maps, reduces]: [u32; 2]) -> [u32; 2] {
        if self.one_pool { [0, maps.saturating_add(reduces)] } else { [maps, reduces] }
    }
}
