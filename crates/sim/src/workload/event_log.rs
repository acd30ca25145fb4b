//! Workloads from event logs: the jobs of a recorded run, to be simulated under other policies.
//!
//! An event log contains when each job was submitted, which of its tasks finished, how long they took, and on which nodes. It becomes a workload
//! of the same jobs, each of whose tasks takes its recorded time, and a cluster of the same nodes. Reading, fetching and waiting for the machine are
//! part of that time and not modelled again; the time of a reduce counts from the end of its job's last map, because until then it waited. Work
//! that was not finished is left out, and so are jobs without a finished task.
//!
//! A cluster that grants slots itself (YARN) is modelled by what was observed. The slots of its nodes are an estimate, because maps, reduces and
//! application masters share them: it gets as many map slots as maps were running in the mean while more were requested, and as many reduce
//! slots as the largest number of reduces that were running at the same time. Under a policy that preempts it gets as many map slots as the largest
//! number of maps, because a map that waits then gets the slot of another task. A job is submitted when it first requests the slots for its tasks;
//! before that its application master had to start. Attempts that are protected from preemption are application masters and no tasks.

use super::generate::{GROUPS, group_of};
use super::recorded::{LeftOut, RecordedJob, RecordedRun};
use super::{JobPlan, RecordedInput, Workload};
use crate::cluster::{Cluster, Costs, Faults, HeartbeatMode, NodeModel, Stragglers};
use giveway_core::event_log::{EventLogError, EventLogReader, Record};
use giveway_core::{
    Action, AttemptId, Change, End, Event, Hosts, JobId, JobSpec, Kind, Lifecycle, NodeSpec, Outcome, PerKind,
    RunningAttempt, Span, TaskId, Time, WHOLE_PPM, Work, refusal,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Add;
use std::sync::Arc;
use thiserror::Error;

/// An event log that does not give a workload.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum EventLogWorkloadError {
    /// The event log is invalid.
    #[error(transparent)]
    EventLog(#[from] EventLogError),
    /// The event log contains no finished task.
    #[error("the event log contains no finished task; use the log of a run in which at least one task finished")]
    Empty,
}

/// Largest size that stands in for an unknown one: times of a log may be wrong, and sums of sizes must not overflow.
const STAND_IN_BYTES_MAX: u64 = 1 << 50;

/// One job of an event log.
struct LoggedJob {
    plan: JobPlan,
    /// The nodes that have each split.
    hosts: Vec<Hosts>,
    /// Index and time of its finished tasks, scaled to a node of speed 1.
    finished: PerKind<Vec<(u32, Span)>>,
    /// Total map output.
    output_bytes: u64,
    last_map_done: Time,
    /// Number of maps done when its first reduce was launched.
    maps_before_reduces: Option<u32>,
    /// By kind, slots requested and not yet granted, for clusters that grant slots themselves.
    requested: [u32; 2],
    /// When the pending request began; none without one.
    requested_since: Option<Time>,
    /// Whether any of its tasks has been launched.
    started_tasks: bool,
    first_map: Option<Time>,
    last_task_done: Time,
    /// When and how it ended; none if it was live at the end of the log.
    ended: Option<(Time, Outcome)>,
}

/// Observations of a cluster that grants slots itself.
#[derive(Default)]
struct ObservedCluster {
    /// Time in which requested maps were not running, and slot time of the running maps in it.
    map_shortage: Span,
    map_time_while_short: Span,
    /// By kind, the largest number of tasks that were running at the same time.
    max_running: [u32; 2],
}

/// State while reading an event log.
#[derive(Default)]
struct EventLogWorkload {
    nodes: Vec<NodeSpec>,
    jobs: Vec<LoggedJob>,
    /// Index in `jobs` of the jobs that have not ended.
    by_id: FxHashMap<JobId, usize>,
    running: Lifecycle,
    /// Time of attempts that were paused or ended early, by [`whole_task`].
    retained_time: FxHashMap<TaskId, Span>,
    /// Running attempts that are no tasks.
    protected: FxHashSet<AttemptId>,
    /// For tasks in granted slots, what they are: if all slots are one pool, their ids name them all reduces.
    granted: FxHashMap<TaskId, Kind>,
    /// True if all slots are one pool.
    one_slot_pool: bool,
    /// Only for clusters that grant slots themselves.
    observed: Option<ObservedCluster>,
    /// The largest number of nodes that store the same split; 0 if the log does not tell.
    replicas: u32,
    /// Time of the last record.
    last_time: Time,
}

/// Returns the jobs, the cluster and the recorded times of an event log. A truncated event log is used up to its last complete record.
pub fn from_event_log(event_log: &[u8], name: &str) -> Result<RecordedRun, EventLogWorkloadError> {
    let reader = EventLogReader::open(event_log)?;
    let (tenants, policy) = (reader.setup().tenants.clone(), reader.setup().policy.clone());
    let one_slot_pool = reader.setup().capabilities.one_slot_pool;
    let mut log = EventLogWorkload { one_slot_pool, ..EventLogWorkload::default() };
    for record in reader {
        match record {
            Ok(record) => log.apply(&record),
            Err(EventLogError::Truncated { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    log.set_observed_slots();
    // Nodes of a cluster that grants slots itself offer them with heartbeats.
    let granted = log.observed.is_some();
    let reporting = if granted { HeartbeatMode::OutOfBand } else { HeartbeatMode::Immediate };
    let mut cluster = recorded_cluster(name, std::mem::take(&mut log.nodes), reporting);
    if log.replicas > 0 {
        cluster.replicas = log.replicas.min(cluster.nodes.len() as u32);
    }
    // As the workload is numbered; the sort is stable.
    log.jobs.sort_by_key(|job| job.plan.submit);
    let (mut plans, mut recorded, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for job in log.jobs {
        let number = Some(job.plan.id.0);
        let (name, record) = (job.plan.name.clone(), RecordedJob { number, ..job.recorded(granted) });
        match job.plan(cluster.nodes.len()) {
            Some(plan) => {
                plans.push(plan);
                recorded.push(record);
            }
            None => left_out.push(LeftOut { job: name, reason: "no finished task" }),
        }
    }
    if plans.is_empty() || cluster.nodes.is_empty() {
        return Err(EventLogWorkloadError::Empty);
    }
    let workload = Workload::numbered(name, tenants, &GROUPS, plans);
    Ok(RecordedRun { workload, cluster, policy: Some(policy), jobs: recorded, left_out })
}

impl EventLogWorkload {
    fn apply(&mut self, record: &Record) {
        let now = record.now;
        self.advance(now);
        if refusal(&record.actions).is_none() {
            self.apply_requests(now, &record.event);
        }
        if let Event::SlotGranted { kind, .. } = record.event {
            let launched = record.actions.iter().find_map(|action| match action {
                Action::Launch { attempt, .. } => Some(attempt.task),
                _ => None,
            });
            self.granted.extend(launched.map(|task| (task, kind)));
        }
        let mut running = std::mem::take(&mut self.running);
        running.observe(&record.event, &record.actions, now, &mut |change| self.apply_change(now, change));
        self.running = running;
    }

    fn kind_of(&self, task: TaskId) -> Kind {
        self.granted.get(&task).copied().unwrap_or(task.kind)
    }

    /// Number of running tasks of a kind.
    fn running_tasks(&self, kind: Kind) -> u32 {
        let of_kind = |attempt: &&RunningAttempt| self.kind_of(attempt.id.task) == kind;
        self.running.iter().filter(of_kind).filter(|attempt| !self.protected.contains(&attempt.id)).count() as u32
    }

    /// The requests of open jobs, for clusters that grant slots themselves.
    fn apply_requests(&mut self, now: Time, event: &Event) {
        match event {
            Event::SlotsRequested { job, maps, reduces } => {
                self.observed.get_or_insert_default();
                if let Some(&at) = self.by_id.get(job) {
                    self.jobs[at].set_requested([*maps, *reduces], now);
                }
            }
            Event::AttemptProtected { attempt } => {
                self.protected.insert(*attempt);
                if let Some(&at) = self.by_id.get(&attempt.task.job) {
                    self.jobs[at].start_later();
                }
            }
            Event::JobEnded { job, outcome } => {
                if let Some(at) = self.by_id.remove(job) {
                    self.jobs[at].requested = [0; 2];
                    self.jobs[at].ended = Some((now, *outcome));
                }
            }
            _ => {}
        }
    }

    fn apply_change(&mut self, now: Time, change: Change<'_>) {
        match change {
            Change::NodeJoined { node, spec } => {
                // A lost node that came back is the same node.
                if node.0 as usize == self.nodes.len() {
                    self.nodes.push(spec.clone());
                }
            }
            Change::JobSubmitted(spec) => {
                self.replicas = spec.splits.iter().map(|split| split.hosts.len() as u32).fold(self.replicas, u32::max);
                self.by_id.insert(spec.id, self.jobs.len());
                self.jobs.push(LoggedJob::new(spec, now));
            }
            Change::Launched { attempt, .. } => {
                let kind = self.kind_of(attempt.id.task);
                if let Some(&at) = self.by_id.get(&attempt.id.task.job) {
                    self.jobs[at].on_launch(kind, now);
                }
            }
            Change::Ended { attempt, .. } if self.protected.remove(&attempt.id) => {}
            Change::Ended { attempt, end } => match end {
                End::Finished { output_bytes } => self.on_finish(now, &attempt, output_bytes),
                End::EndedEarly { output_bytes, .. } => {
                    *self.retained_time.entry(whole_task(&attempt)).or_default() += now.since(attempt.launched);
                    if let Some(&at) = self.by_id.get(&attempt.id.task.job) {
                        self.jobs[at].output_bytes += output_bytes;
                    }
                }
                End::Paused => {
                    *self.retained_time.entry(whole_task(&attempt)).or_default() += now.since(attempt.launched);
                }
                End::Killed { .. } | End::Failed | End::NodeLost | End::Resynced => {}
            },
            Change::JobClosed { job, outcome } => {
                if let Some(&at) = self.by_id.get(&job) {
                    self.jobs[at].ended = Some((now, outcome));
                }
            }
            // The cluster is that of the slots that were seen in use.
            Change::NodeLost { .. } | Change::StopRequested { .. } | Change::SlotsSet { .. } => {}
        }
    }

    /// Accounts for the time since the last record.
    fn advance(&mut self, now: Time) {
        let span = now.since(self.last_time);
        self.last_time = now;
        if span == Span::ZERO || self.observed.is_none() {
            return;
        }
        let running = Kind::BOTH.map(|kind| self.running_tasks(kind));
        let maps_requested = self.by_id.values().any(|&at| self.jobs[at].requested[0] > 0);
        let Some(observed) = &mut self.observed else { return };
        observed.max_running = [0, 1].map(|kind| observed.max_running[kind].max(running[kind]));
        if maps_requested {
            observed.map_shortage += span;
            observed.map_time_while_short += span.times(u64::from(running[0]));
        }
    }

    /// Sets the slots of the nodes to the observed ones, for a cluster that grants slots itself.
    fn set_observed_slots(&mut self) {
        let Some(observed) = &self.observed else { return };
        let node_count = self.nodes.len() as u32;
        let per_node = |slots: u32, node: u32| (slots / node_count + u32::from(node < slots % node_count)) as u16;
        let [max_maps, max_reduces] = observed.max_running;
        let mean_maps = observed.map_time_while_short.as_secs_f64() / observed.map_shortage.as_secs_f64();
        let maps = if self.one_slot_pool { max_maps } else { mean_maps.round() as u32 };
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            if maps > 0 {
                node.map_slots = per_node(maps, number);
            }
            // At least one of each: the simulator needs a map slot also for a map that takes no time.
            node.map_slots = node.map_slots.max(1);
            node.reduce_slots = per_node(max_reduces, number).max(1);
        }
    }

    fn on_finish(&mut self, now: Time, attempt: &RunningAttempt, output_bytes: u64) {
        let task = attempt.id.task;
        let kind = self.kind_of(task);
        let Some(&at) = self.by_id.get(&task.job) else { return };
        let job = &mut self.jobs[at];
        let began = if kind == Kind::Reduce { attempt.launched.max(job.last_map_done) } else { attempt.launched };
        let whole = whole_task(attempt);
        let task_time = now.since(began) + self.retained_time.remove(&whole).unwrap_or_default();
        let speed = self.nodes.get(attempt.node.0 as usize).map_or(WHOLE_PPM, |node| node.speed_ppm);
        job.finished[kind].push((whole.index, task_time.scaled(f64::from(speed) / f64::from(WHOLE_PPM))));
        job.last_task_done = now;
        if kind == Kind::Map {
            job.last_map_done = now;
            job.output_bytes += output_bytes;
        }
    }
}

impl LoggedJob {
    fn new(spec: &JobSpec, now: Time) -> LoggedJob {
        let plan = JobPlan {
            id: spec.id,
            name: spec.name.clone(),
            user: spec.user.clone(),
            pool: spec.pool.clone(),
            priority: spec.priority,
            submit: now,
            group: 0,
            maps: 0,
            map_bytes: spec.splits.iter().map(|split| split.bytes).sum(),
            map_compute: Span::ZERO,
            map_output_bytes: 0,
            reduces: 0,
            reduce_compute: Span::ZERO,
            reduce_output_bytes: 0,
            slowstart_ppm: spec.slowstart_ppm,
            relative_ppm: PerKind::default(),
            input: None,
        };
        let hosts = spec.splits.iter().map(|split| split.hosts.clone()).collect();
        LoggedJob {
            plan,
            hosts,
            finished: PerKind::default(),
            output_bytes: 0,
            last_map_done: Time::ZERO,
            maps_before_reduces: None,
            requested: [0; 2],
            requested_since: None,
            started_tasks: false,
            first_map: None,
            last_task_done: now,
            ended: None,
        }
    }

    /// The recorded times. `granted`: on a cluster that grants slots itself, where the application's own end is later than that of its tasks.
    fn recorded(&self, granted: bool) -> RecordedJob {
        let wait_s = self.first_map.map(|first| first.since(self.plan.submit).as_secs_f64());
        match self.ended {
            Some((ended, Outcome::Succeeded)) => {
                let ended = if granted { self.last_task_done } else { ended };
                RecordedJob {
                    number: None,
                    completion_s: Some(ended.since(self.plan.submit).as_secs_f64()),
                    wait_s,
                    not_compared: None,
                }
            }
            Some((_, Outcome::Killed)) => RecordedJob::not_compared("killed when it was recorded"),
            Some((_, Outcome::Failed)) => RecordedJob::not_compared("failed when it was recorded"),
            None => RecordedJob::not_compared("without an end in the event log"),
        }
    }

    /// Sets the number of requested slots, by kind.
    fn set_requested(&mut self, requested: [u32; 2], now: Time) {
        if requested == [0, 0] {
            self.requested_since = None;
        } else {
            self.requested_since.get_or_insert(now);
        }
        self.requested = requested;
    }

    /// Records the launch of one of its tasks.
    fn on_launch(&mut self, kind: Kind, now: Time) {
        match kind {
            Kind::Map => _ = self.first_map.get_or_insert(now),
            Kind::Reduce => _ = self.maps_before_reduces.get_or_insert(self.finished[Kind::Map].len() as u32),
        }
        self.requested[kind.index()] = self.requested[kind.index()].saturating_sub(1);
        // The first launch shows that the pending request is for tasks and not for the application master.
        if let Some(since) = self.requested_since.take().filter(|_| !self.started_tasks) {
            self.plan.submit = since;
        }
        self.started_tasks = true;
    }

    /// What was launched last is not one of its tasks: none has been launched yet.
    fn start_later(&mut self) {
        (self.started_tasks, self.requested_since, self.maps_before_reduces) = (false, None, None);
    }

    /// The job, recorded on a cluster of `nodes` nodes; `None` if none of its tasks finished.
    fn plan(self, nodes: usize) -> Option<JobPlan> {
        let LoggedJob { mut plan, hosts, mut finished, output_bytes, maps_before_reduces, .. } = self;
        if finished.iter().all(Vec::is_empty) {
            return None;
        }
        // The simulator needs at least one map; one that takes no time has no effect.
        (plan.maps, plan.reduces) = (finished[Kind::Map].len().max(1) as u32, finished[Kind::Reduce].len() as u32);
        (plan.map_compute, plan.reduce_compute) = (mean(&finished[Kind::Map]), mean(&finished[Kind::Reduce]));
        finished.iter_mut().for_each(|tasks| tasks.sort_by_key(|(index, _)| *index));
        let is_known = |hosts: &&Hosts| !hosts.is_empty() && hosts.iter().all(|host| (host.0 as usize) < nodes);
        let input = finished[Kind::Map].iter().map(|(index, _)| hosts.get(*index as usize).filter(is_known).cloned());
        plan.input = input.collect::<Option<_>>().map(|hosts| RecordedInput { nodes, hosts });
        plan.relative_ppm = finished.map(relative_ppm);
        // Where sizes are not known, as on YARN, the reduces' slot time stands in for them: transfers take no time here, but some policies compare
        // what jobs have left to reduce.
        let stand_in = plan.reduce_compute.times(u64::from(plan.reduces)).0.min(STAND_IN_BYTES_MAX);
        let known = |bytes: u64| if bytes > 0 { bytes } else { stand_in };
        // So far the input of all maps.
        plan.map_bytes = known(plan.map_bytes) / u64::from(plan.maps);
        plan.map_output_bytes = known(output_bytes) / u64::from(plan.maps);
        plan.group = group_of(plan.maps);
        if let Some(before) = maps_before_reduces {
            plan.slowstart_ppm = (u64::from(before) * u64::from(WHOLE_PPM) / u64::from(plan.maps)) as u32;
        }
        Some(plan)
    }
}

/// The task of which an attempt is a part: the rest of a map that ended early is a part of the map of the whole split.
fn whole_task(attempt: &RunningAttempt) -> TaskId {
    match attempt.work {
        Work::Map { split, start_bytes, .. } if start_bytes > 0 => TaskId { index: split, ..attempt.id.task },
        Work::Map { .. } | Work::Reduce { .. } => attempt.id.task,
    }
}

fn mean(tasks: &[(u32, Span)]) -> Span {
    tasks.iter().map(|(_, time)| *time).fold(Span::ZERO, Add::add).scaled(1.0 / tasks.len().max(1) as f64)
}

/// The times of the tasks in millionths of their mean, in the same order.
fn relative_ppm(tasks: Vec<(u32, Span)>) -> Arc<[u64]> {
    let mean = mean(&tasks);
    if mean.is_zero() || tasks.iter().all(|(_, time)| *time == mean) {
        return Arc::default();
    }
    let relative = |time: Span| time.as_secs_f64() / mean.as_secs_f64();
    tasks.into_iter().map(|(_, time)| (relative(time) * f64::from(WHOLE_PPM)).round() as u64).collect()
}

/// The nodes of an event log, without the costs of a launch and with instant transfers: both are part of the recorded task times.
pub fn recorded_cluster(name: &str, nodes: Vec<NodeSpec>, reporting: HeartbeatMode) -> Cluster {
    const INSTANT_BYTES_PER_S: u64 = 1 << 50;
    let node = |spec: NodeSpec| NodeModel {
        spec: NodeSpec { disk_bytes_per_s: INSTANT_BYTES_PER_S, ..spec },
        net_bytes_per_s: INSTANT_BYTES_PER_S,
        shared: None,
    };
    let stops = if reporting == HeartbeatMode::Immediate { Costs::engine() } else { Costs::default() };
    let costs = Costs { launch: Span::ZERO, sort_per_gb: Span::ZERO, ..stops };
    Cluster {
        name: name.to_owned(),
        replicas: nodes.len().min(3) as u32,
        nodes: nodes.into_iter().map(node).collect(),
        heartbeat: Span::from_secs(1),
        reporting,
        lost_after: Span::from_secs(600),
        block_bytes: 128 << 20,
        cross_rack: 1.0,
        costs,
        noise: 0.0,
        stragglers: Stragglers::default(),
        faults: Faults::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Observer, Simulation, fixture};
    use giveway_core::event_log::EventLogWriter;
    use giveway_core::policy::catalog;
    use giveway_core::{Action, Capabilities, NodeId, Setup};

    /// Writes an event log, and records the order in which jobs end.
    struct LogWriter {
        writer: EventLogWriter,
        event_log: Vec<u8>,
        ended: Vec<JobId>,
    }

    impl Observer for LogWriter {
        fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
            self.writer.record(now, event, actions, &mut self.event_log).unwrap();
            self.ended.extend(actions.iter().filter_map(|action| match action {
                Action::CloseJob { job, .. } => Some(*job),
                _ => None,
            }));
        }
    }

    fn run(cluster: &Cluster, workload: &Workload, policy: &str) -> LogWriter {
        let policy = catalog::by_name(policy).unwrap();
        let setup = Setup {
            policy: policy.clone(),
            tenants: workload.tenants.clone(),
            capabilities: Capabilities::ALL,
            seed: 1,
        };
        let (writer, event_log) = EventLogWriter::begin(&setup).unwrap();
        let mut log_writer = LogWriter { writer, event_log, ended: Vec::new() };
        Simulation::new(cluster, workload, policy, 1).unwrap().run(&mut log_writer);
        log_writer.writer.clone().close(&mut log_writer.event_log);
        log_writer
    }

    #[test]
    fn a_recorded_run_is_repeated_in_the_same_order() {
        let jobs = vec![fixture::plan(0, 0.0, 40, 2), fixture::plan(1, 30.0, 3, 1), fixture::plan(2, 45.0, 6, 0)];
        let workload = fixture::workload(jobs);
        for policy in ["fifo", "hsrtf-pr", "hsrtf-prp-pause"] {
            let first = run(&fixture::cluster(3), &workload, policy);
            let recorded = from_event_log(&first.event_log, "an event log").unwrap();
            let (again, cluster) = (recorded.workload, recorded.cluster);
            let shape = |jobs: &[JobPlan]| -> Vec<(String, Time, u32, u32)> {
                jobs.iter().map(|job| (job.name.clone(), job.submit, job.maps, job.reduces)).collect()
            };
            assert_eq!(shape(&again.jobs), shape(&workload.jobs), "{policy}");
            assert!(again.jobs[0].map_compute > Span::from_secs(10), "reading is part of a map's time");
            assert_eq!(run(&cluster, &again, policy).ended, first.ended, "{policy}");
            assert_eq!(recorded.policy.map(|policy| policy.name).as_deref(), Some(policy));
            assert!(recorded.jobs.iter().all(|job| job.completion_s > job.wait_s && job.not_compared.is_none()));
        }
    }

    #[test]
    fn a_recorded_run_with_tasks_of_unequal_length_is_repeated_to_the_same_times() {
        let nodes = fixture::cluster(3).nodes.into_iter().map(|node| node.spec).collect();
        let mut cluster = recorded_cluster("three nodes", nodes, HeartbeatMode::Immediate);
        (cluster.noise, cluster.replicas) = (0.5, 2);
        let jobs = vec![fixture::plan(0, 0.0, 40, 4), fixture::plan(1, 30.0, 7, 2)];
        let first = from_event_log(&run(&cluster, &fixture::workload(jobs), "fair").event_log, "first").unwrap();
        assert_eq!((first.cluster.noise, first.cluster.replicas), (0.0, 2));
        let input = first.workload.jobs[0].input.as_ref().unwrap();
        assert_eq!((input.nodes, input.hosts.len()), (3, 40));
        assert!(input.hosts.iter().all(|hosts| hosts.len() == 2), "as many as replicas");
        let again = from_event_log(&run(&first.cluster, &first.workload, "fair").event_log, "again").unwrap();
        for (first, again) in first.jobs.iter().zip(&again.jobs) {
            let (first_s, again_s) = (first.completion_s.unwrap(), again.completion_s.unwrap());
            assert!((first_s - again_s).abs() < 0.001, "{first_s} s, then {again_s} s");
        }
    }

    #[test]
    fn slots_of_a_cluster_that_grants_them_itself_are_estimated() {
        let setup = Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(catalog::by_name("fifo").unwrap()) };
        let mut core = giveway_core::Scheduler::new(setup.clone()).unwrap();
        let (mut writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        let mut record = |secs: u64, event: Event| -> Option<AttemptId> {
            let (now, mut actions) = (Time::ZERO + Span::from_secs(secs), Vec::new());
            core.handle(now, &event, &mut actions);
            writer.record(now, &event, &actions, &mut event_log).unwrap();
            actions.iter().find_map(|action| match action {
                Action::Launch { attempt, .. } => Some(*attempt),
                _ => None,
            })
        };
        for (node, model) in fixture::cluster(2).nodes.into_iter().enumerate() {
            record(0, Event::NodeJoined { node: NodeId(node as u32), spec: model.spec });
        }
        let (job, node) = (JobId(0), NodeId(0));
        let spec = JobSpec {
            external_id: None,
            id: job,
            name: "application".into(),
            user: "ann".into(),
            pool: "ours".into(),
            priority: giveway_core::Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        record(1, Event::JobOpened(Box::new(spec)));
        record(1, Event::SlotsRequested { job, maps: 1, reduces: 0 });
        record(2, Event::SlotsRequested { job, maps: 0, reduces: 0 });
        record(10, Event::SlotsRequested { job, maps: 9, reduces: 0 });
        let (mut ends, mut reduce) = (Vec::new(), None);
        // Three maps at a time, each for ten seconds; the reduce is launched when the first maps end.
        for round in 0..3u64 {
            let kinds =
                if round == 1 { vec![Kind::Map, Kind::Map, Kind::Map, Kind::Reduce] } else { vec![Kind::Map; 3] };
            if round == 1 {
                record(20, Event::SlotsRequested { job, maps: 6, reduces: 1 });
            }
            for kind in kinds {
                let attempt = record(10 + 10 * round, Event::SlotGranted { job, kind, node }).unwrap();
                let end = if kind == Kind::Map { 20 + 10 * round } else { 45 };
                if kind == Kind::Map {
                    ends.push((end, attempt));
                } else {
                    reduce = Some(attempt);
                }
            }
            for (end, attempt) in ends.drain(..) {
                record(end, Event::AttemptFinished { attempt, output_bytes: 0 });
            }
        }
        record(45, Event::AttemptFinished { attempt: reduce.unwrap(), output_bytes: 0 });
        record(50, Event::JobEnded { job, outcome: giveway_core::Outcome::Succeeded });
        writer.close(&mut event_log);
        let RecordedRun { workload, cluster, jobs, .. } = from_event_log(&event_log, "an event log").unwrap();
        assert_eq!(jobs[0].completion_s, Some(35.0), "to the end of its last task");
        let plan = &workload.jobs[0];
        assert_eq!((plan.submit, plan.maps, plan.reduces), (Time::from_secs_f64(10.0), 9, 1));
        assert_eq!((plan.map_compute, plan.reduce_compute), (Span::from_secs(10), Span::from_secs(5)));
        assert_eq!((cluster.slots(Kind::Map), cluster.slots(Kind::Reduce)), (3, 2));
    }

    #[test]
    fn a_log_of_one_slot_pool_gives_jobs_without_application_masters() {
        let capabilities =
            Capabilities { pause_reduces: true, kill_attempts: true, one_slot_pool: true, ..Capabilities::ORDER_ONLY };
        let setup = Setup { capabilities, ..Setup::new(catalog::by_name("fcs").unwrap()) };
        let mut core = giveway_core::Scheduler::new(setup.clone()).unwrap();
        let (mut writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        let mut record = |secs: u64, event: Event| -> Option<AttemptId> {
            let (now, mut actions) = (Time::ZERO + Span::from_secs(secs), Vec::new());
            core.handle(now, &event, &mut actions);
            writer.record(now, &event, &actions, &mut event_log).unwrap();
            actions.iter().find_map(|action| match action {
                Action::Launch { attempt, .. } => Some(*attempt),
                _ => None,
            })
        };
        let (job, node) = (JobId(0), NodeId(0));
        let spec = fixture::cluster(1).nodes[0].spec.clone();
        record(0, Event::NodeJoined { node, spec: NodeSpec { map_slots: 0, reduce_slots: 3, ..spec } });
        let spec = JobSpec {
            external_id: None,
            id: job,
            name: "application".into(),
            user: "ann".into(),
            pool: "ours".into(),
            priority: giveway_core::Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        record(1, Event::JobOpened(Box::new(spec)));
        record(1, Event::SlotsRequested { job, maps: 1, reduces: 0 });
        let master = record(2, Event::SlotGranted { job, kind: Kind::Map, node }).unwrap();
        record(2, Event::AttemptProtected { attempt: master });
        record(10, Event::SlotsRequested { job, maps: 2, reduces: 0 });
        for attempt in [0, 1].map(|_| record(12, Event::SlotGranted { job, kind: Kind::Map, node }).unwrap()) {
            record(20, Event::AttemptFinished { attempt, output_bytes: 0 });
        }
        record(20, Event::SlotsRequested { job, maps: 0, reduces: 1 });
        let reduce = record(21, Event::SlotGranted { job, kind: Kind::Reduce, node }).unwrap();
        record(25, Event::AttemptFinished { attempt: reduce, output_bytes: 0 });
        record(30, Event::AttemptFinished { attempt: master, output_bytes: 0 });
        record(30, Event::JobEnded { job, outcome: giveway_core::Outcome::Succeeded });
        writer.close(&mut event_log);
        let RecordedRun { workload, cluster, .. } = from_event_log(&event_log, "an event log").unwrap();
        let plan = &workload.jobs[0];
        assert_eq!((plan.submit, plan.maps, plan.reduces), (Time::from_secs_f64(10.0), 2, 1));
        assert_eq!((plan.map_compute, plan.reduce_compute), (Span::from_secs(8), Span::from_secs(4)));
        assert_eq!((cluster.slots(Kind::Map), cluster.slots(Kind::Reduce)), (2, 1));
        assert_eq!(run(&cluster, &workload, "fcs").ended, [JobId(0)]);
    }

    #[test]
    fn an_event_log_without_finished_tasks_is_an_error() {
        let setup = Setup::new(catalog::by_name("fifo").unwrap());
        let (writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        writer.close(&mut event_log);
        assert_eq!(from_event_log(&event_log, "empty").unwrap_err(), EventLogWorkloadError::Empty);
        assert!(matches!(
            from_event_log(b"no event log", "x"),
            Err(EventLogWorkloadError::EventLog(EventLogError::NotAnEventLog))
        ));
    }
}
