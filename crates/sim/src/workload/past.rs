//! Workloads from event logs: what ran once, to be run again under other policies.
//!
//! An event log says when each job came, which of its tasks finished and how long they took, on which nodes. That becomes a workload of the same jobs, whose
//! tasks all take what the job's tasks took on the mean, and a cluster of the same nodes. What a task read, fetched and waited for the machine is part
//! of its time here, not modelled again; a reduce's time counts from when its job's last map was done, because until then it waited. Work that never came
//! to its end is left out, and so are jobs that finished nothing.
//!
//! A cluster that gives slots itself (YARN) is known by what it did. Its nodes' slots are a guess, for maps, reduces and application masters share them: so it
//! has as many map slots here as maps ran on the mean while more were asked for, and as many reduce slots as reduces ever ran at once. A job comes when it
//! first asks for what it then ran: before that its application master had to start.

use super::generate::{GROUPS, group_of};
use super::{JobPlan, Workload};
use crate::cluster::{Cluster, Costs, Faults, NodeModel, Stragglers, Word};
use giveway_core::event_log::{EventLogError, EventLogReader, Record};
use giveway_core::{Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, NodeSpec, Span, TaskId, Time, WHOLE_PPM};
use rustc_hash::FxHashMap;
use thiserror::Error;

/// Why an event log gives no workload.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PastError {
    /// It cannot be read.
    #[error(transparent)]
    EventLog(#[from] EventLogError),
    /// Nothing ran.
    #[error("no task finished on this event log, so there is nothing to run again")]
    Empty,
}

/// What an event log tells of one job.
struct PastJob {
    plan: JobPlan,
    /// Time of its finished tasks on a node of speed 1.
    took: [Span; 2],
    finished: [u32; 2],
    /// What its maps wrote for the reduces.
    output_bytes: u64,
    last_map_done: Time,
    /// Maps done when its first reduce started.
    maps_before_reduces: Option<u32>,
    /// What it asks for, if it is one whose tasks become known as it asks.
    asks: [u32; 2],
    /// Since when it has asked for anything, until it gets it.
    asks_since: Option<Time>,
    begun: bool,
}

/// What a cluster that gives slots itself was seen to do.
#[derive(Default)]
struct Seen {
    /// Time in which maps were asked for that did not run, and slot time of those that ran then.
    short_of_slots: Span,
    maps_then: Span,
    reduces_at_once: u32,
}

/// What an event log told so far.
#[derive(Default)]
struct Past {
    nodes: Vec<NodeSpec>,
    jobs: Vec<PastJob>,
    by_id: FxHashMap<JobId, usize>,
    running: FxHashMap<AttemptId, (Time, NodeId)>,
    /// Time of attempts whose work was kept.
    served: FxHashMap<TaskId, Span>,
    seen: Option<Seen>,
    last: Time,
}

/// The jobs and the cluster of an event log. An event log that was cut short is used as far as it is whole.
pub fn from_event_log(event_log: &[u8], name: &str) -> Result<(Workload, Cluster), PastError> {
    let reader = EventLogReader::open(event_log)?;
    let tenants = reader.setup().tenants.clone();
    let mut past = Past::default();
    for record in reader {
        match record {
            Ok(record) => past.take_in(&record),
            Err(EventLogError::Truncated { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    past.nodes_as_seen();
    // Nodes of a cluster that gives slots itself beat for them.
    let word = if past.seen.is_some() { Word::EndsAtOnce } else { Word::AtOnce };
    let cluster = cluster(name, std::mem::take(&mut past.nodes), word);
    let jobs: Vec<JobPlan> = past.jobs.into_iter().filter_map(PastJob::plan).collect();
    if jobs.is_empty() || cluster.nodes.is_empty() {
        return Err(PastError::Empty);
    }
    Ok((Workload::numbered(name, tenants, &GROUPS, jobs), cluster))
}

impl Past {
    fn take_in(&mut self, record: &Record) {
        let now = record.now;
        self.pass(now);
        let refused = record.actions.iter().any(|action| matches!(action, Action::Refuse { .. }));
        match &record.event {
            _ if refused => {}
            Event::NodeJoined { node, spec } if node.0 as usize == self.nodes.len() => self.nodes.push(spec.clone()),
            Event::NodeLost { node } => self.running.retain(|_, (_, runs_on)| runs_on != node),
            Event::JobSubmitted(spec) | Event::JobOpened(spec) => {
                self.by_id.insert(spec.id, self.jobs.len());
                self.jobs.push(PastJob::new(spec, now));
            }
            Event::AttemptFinished { attempt, output_bytes } => self.finished(now, *attempt, *output_bytes),
            Event::AttemptEndedEarly { attempt, output_bytes, .. } => self.finished(now, *attempt, *output_bytes),
            Event::AttemptPaused { attempt, .. } => {
                if let Some((launched, _)) = self.running.remove(attempt) {
                    *self.served.entry(attempt.task).or_default() += now.since(launched);
                }
            }
            Event::AttemptKilled { attempt } | Event::AttemptFailed { attempt } => {
                self.running.remove(attempt);
            }
            Event::Resynced => self.running.clear(),
            Event::SlotsRequested { job, maps, reduces } => {
                self.seen.get_or_insert_default();
                if let Some(&at) = self.by_id.get(job) {
                    self.jobs[at].asked([*maps, *reduces], now);
                }
            }
            Event::JobEnded { job, .. } => {
                self.by_id.remove(job).into_iter().for_each(|at| self.jobs[at].asks = [0; 2]);
            }
            _ => {}
        }
        for action in &record.actions {
            let Action::Launch { attempt, node, .. } = action else { continue };
            self.running.insert(*attempt, (now, *node));
            if let Some(&at) = self.by_id.get(&attempt.task.job) {
                self.jobs[at].launched(attempt.task.kind);
            }
        }
        let reduces = self.at_work(Kind::Reduce);
        if let Some(seen) = &mut self.seen {
            seen.reduces_at_once = seen.reduces_at_once.max(reduces);
        }
    }

    fn at_work(&self, kind: Kind) -> u32 {
        self.running.keys().filter(|attempt| attempt.task.kind == kind).count() as u32
    }

    /// Time passes in which nothing changes.
    fn pass(&mut self, now: Time) {
        let maps = u64::from(self.at_work(Kind::Map));
        let short = self.by_id.values().any(|&at| self.jobs[at].asks[0] > 0);
        if let Some(seen) = self.seen.as_mut().filter(|_| short) {
            seen.short_of_slots += now.since(self.last);
            seen.maps_then += now.since(self.last).times(maps);
        }
        self.last = now;
    }

    /// Gives the nodes of a cluster that gives slots itself the slots they were seen to have.
    fn nodes_as_seen(&mut self) {
        let Some(seen) = &self.seen else { return };
        let all = self.nodes.len() as u32;
        let spread = |slots: u32, node: u32| (slots / all + u32::from(node < slots % all)) as u16;
        let maps = (seen.maps_then.as_secs_f64() / seen.short_of_slots.as_secs_f64()).round() as u32;
        for (node, number) in self.nodes.iter_mut().zip(0..) {
            if maps > 0 {
                node.map_slots = spread(maps, number);
            }
            // Never none at all: the node would be none.
            node.reduce_slots = spread(seen.reduces_at_once, number).max(1);
        }
    }

    fn finished(&mut self, now: Time, attempt: AttemptId, output_bytes: u64) {
        let Some((launched, node)) = self.running.remove(&attempt) else { return };
        let Some(&at) = self.by_id.get(&attempt.task.job) else { return };
        let (job, kind) = (&mut self.jobs[at], attempt.task.kind);
        let began = if kind == Kind::Reduce { launched.max(job.last_map_done) } else { launched };
        let took = now.since(began) + self.served.remove(&attempt.task).unwrap_or_default();
        let speed = self.nodes.get(node.0 as usize).map_or(WHOLE_PPM, |node| node.speed_ppm);
        job.took[kind.index()] += took.scaled(f64::from(speed) / f64::from(WHOLE_PPM));
        job.finished[kind.index()] += 1;
        if kind == Kind::Map {
            job.last_map_done = now;
            job.output_bytes += output_bytes;
        }
    }
}

impl PastJob {
    fn new(spec: &JobSpec, now: Time) -> PastJob {
        let plan = JobPlan {
            id: JobId(0),
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
        };
        PastJob {
            plan,
            took: [Span::ZERO; 2],
            finished: [0; 2],
            output_bytes: 0,
            last_map_done: Time::ZERO,
            maps_before_reduces: None,
            asks: [0; 2],
            asks_since: None,
            begun: false,
        }
    }

    /// It asks for so many slots now.
    fn asked(&mut self, asks: [u32; 2], now: Time) {
        if asks == [0, 0] {
            self.asks_since = None;
        } else {
            self.asks_since.get_or_insert(now);
        }
        self.asks = asks;
    }

    /// One of its tasks starts.
    fn launched(&mut self, kind: Kind) {
        if kind == Kind::Reduce {
            self.maps_before_reduces.get_or_insert(self.finished[0]);
        }
        self.asks[kind.index()] = self.asks[kind.index()].saturating_sub(1);
        // The first one shows that this is what it came for, and not its application master.
        if let Some(since) = self.asks_since.take().filter(|_| !self.begun) {
            self.plan.submit = since;
        }
        self.begun = true;
    }

    fn plan(self) -> Option<JobPlan> {
        let PastJob { mut plan, took, finished, output_bytes, maps_before_reduces, .. } = self;
        if finished == [0, 0] {
            return None;
        }
        let mean = |kind: Kind| took[kind.index()].scaled(1.0 / f64::from(finished[kind.index()].max(1)));
        // The simulator knows no job without a map; one that takes no time changes nothing.
        (plan.maps, plan.reduces) = (finished[0].max(1), finished[1]);
        (plan.map_compute, plan.reduce_compute) = (mean(Kind::Map), mean(Kind::Reduce));
        // Until now the input of all maps.
        plan.map_bytes /= u64::from(plan.maps);
        plan.map_output_bytes = output_bytes / u64::from(plan.maps);
        plan.group = group_of(plan.maps);
        if let Some(before) = maps_before_reduces {
            plan.slowstart_ppm = (u64::from(before) * u64::from(WHOLE_PPM) / u64::from(plan.maps)) as u32;
        }
        Some(plan)
    }
}

/// The nodes of an event log, where nothing costs anything beside the tasks themselves, and bytes move in no time: what that took is in the tasks' times.
fn cluster(name: &str, nodes: Vec<NodeSpec>, word: Word) -> Cluster {
    const AT_ONCE: u64 = 1 << 50;
    let node =
        |spec: NodeSpec| NodeModel { spec: NodeSpec { disk_bytes_per_s: AT_ONCE, ..spec }, net_bytes_per_s: AT_ONCE };
    let costs = Costs { launch: Span::ZERO, sort_per_gb: Span::ZERO, ..Costs::default() };
    Cluster {
        name: format!("the nodes of {name}"),
        replicas: nodes.len().min(3) as u32,
        nodes: nodes.into_iter().map(node).collect(),
        heartbeat: Span::from_secs(1),
        word,
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
    use giveway_core::{Capabilities, Setup};

    /// Writes what it sees as an event log.
    struct Scribe {
        writer: EventLogWriter,
        event_log: Vec<u8>,
        ended: Vec<JobId>,
    }

    impl Observer for Scribe {
        fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
            self.writer.record(now, event, actions, &mut self.event_log).unwrap();
            self.ended.extend(actions.iter().filter_map(|action| match action {
                Action::CloseJob { job, .. } => Some(*job),
                _ => None,
            }));
        }
    }

    fn run(cluster: &Cluster, workload: &Workload, policy: &str) -> Scribe {
        let policy = catalog::by_name(policy).unwrap();
        let setup = Setup {
            policy: policy.clone(),
            tenants: workload.tenants.clone(),
            capabilities: Capabilities::ALL,
            seed: 1,
        };
        let (writer, event_log) = EventLogWriter::begin(&setup).unwrap();
        let mut scribe = Scribe { writer, event_log, ended: Vec::new() };
        Simulation::new(cluster, workload, policy, 1).unwrap().run(&mut scribe);
        scribe.writer.clone().close(&mut scribe.event_log);
        scribe
    }

    #[test]
    fn what_ran_once_runs_again_in_the_same_order() {
        let jobs = vec![fixture::plan(0, 0.0, 40, 2), fixture::plan(1, 30.0, 3, 1), fixture::plan(2, 45.0, 6, 0)];
        let workload = fixture::workload(jobs);
        for policy in ["fifo", "hsrtf-pr", "hsrtf-prp-pause"] {
            let first = run(&fixture::cluster(3), &workload, policy);
            let (again, cluster) = from_event_log(&first.event_log, "an event log").unwrap();
            let shape = |jobs: &[JobPlan]| -> Vec<(String, Time, u32)> {
                jobs.iter().map(|job| (job.name.clone(), job.submit, job.reduces)).collect()
            };
            assert_eq!(shape(&again.jobs), shape(&workload.jobs), "{policy}");
            assert!(again.jobs.iter().zip(&workload.jobs).all(|(again, first)| again.maps >= first.maps));
            assert!(again.jobs[0].map_compute > Span::from_secs(10), "reading is part of a map's time");
            assert_eq!(run(&cluster, &again, policy).ended, first.ended, "{policy}");
        }
    }

    #[test]
    fn a_cluster_that_gives_slots_itself_is_known_by_what_it_did() {
        let setup = Setup { capabilities: Capabilities::ORDER_ONLY, ..Setup::new(catalog::by_name("fifo").unwrap()) };
        let mut core = giveway_core::Scheduler::new(setup.clone()).unwrap();
        let (mut writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        let mut tell = |secs: u64, event: Event| -> Option<AttemptId> {
            let (now, mut actions) = (Time::ZERO + Span::from_secs(secs), Vec::new());
            core.handle(now, &event, &mut actions);
            writer.record(now, &event, &actions, &mut event_log).unwrap();
            actions.iter().find_map(|action| match action {
                Action::Launch { attempt, .. } => Some(*attempt),
                _ => None,
            })
        };
        for (node, model) in fixture::cluster(2).nodes.into_iter().enumerate() {
            tell(0, Event::NodeJoined { node: NodeId(node as u32), spec: model.spec });
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
        tell(1, Event::JobOpened(Box::new(spec)));
        tell(1, Event::SlotsRequested { job, maps: 1, reduces: 0 });
        tell(2, Event::SlotsRequested { job, maps: 0, reduces: 0 });
        tell(10, Event::SlotsRequested { job, maps: 9, reduces: 0 });
        let (mut ends, mut reduce) = (Vec::new(), None);
        // Three at a time, each for ten seconds; then the reduce, from the first map's end on.
        for round in 0..3u64 {
            let kinds =
                if round == 1 { vec![Kind::Map, Kind::Map, Kind::Map, Kind::Reduce] } else { vec![Kind::Map; 3] };
            if round == 1 {
                tell(20, Event::SlotsRequested { job, maps: 6, reduces: 1 });
            }
            for kind in kinds {
                let attempt = tell(10 + 10 * round, Event::SlotGranted { job, kind, node }).unwrap();
                let end = if kind == Kind::Map { 20 + 10 * round } else { 45 };
                if kind == Kind::Map {
                    ends.push((end, attempt));
                } else {
                    reduce = Some(attempt);
                }
            }
            for (end, attempt) in ends.drain(..) {
                tell(end, Event::AttemptFinished { attempt, output_bytes: 0 });
            }
        }
        tell(45, Event::AttemptFinished { attempt: reduce.unwrap(), output_bytes: 0 });
        tell(50, Event::JobEnded { job, outcome: giveway_core::Outcome::Succeeded });
        writer.close(&mut event_log);
        let (workload, cluster) = from_event_log(&event_log, "an event log").unwrap();
        let plan = &workload.jobs[0];
        assert_eq!((plan.submit, plan.maps, plan.reduces), (Time::from_secs_f64(10.0), 9, 1));
        assert_eq!((plan.map_compute, plan.reduce_compute), (Span::from_secs(10), Span::from_secs(5)));
        assert_eq!((cluster.slots(Kind::Map), cluster.slots(Kind::Reduce)), (3, 2));
    }

    #[test]
    fn a_event_log_on_which_nothing_finished_gives_nothing() {
        let setup = Setup::new(catalog::by_name("fifo").unwrap());
        let (writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        writer.close(&mut event_log);
        assert_eq!(from_event_log(&event_log, "empty").unwrap_err(), PastError::Empty);
        assert!(matches!(from_event_log(b"no event log", "x"), Err(PastError::EventLog(EventLogError::NotAnEventLog))));
    }
}
