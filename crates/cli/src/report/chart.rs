//! Slots over time: how many there were, and how many each size group held, map and reduce apart.
//!
//! [`Chart`] watches a run through the event log alone. A run may last a minute or a year, so time is cut into a fixed number of
//! buckets; when a run outgrows them, neighbours are merged and every bucket is twice as wide. Buckets hold slots times
//! microseconds in whole numbers, so merging loses detail but no slot time. What is kept besides grows with what is live at once
//! (jobs, attempts, nodes), never with what has been.
//!
//! The chart begins with the first submission, as the figures of `giveway_sim::metrics` do, and counts preemption as they do: an
//! attempt that was killed because another did its task first, or because its job was over, has not given way to anybody.

use giveway_core::{Action, AttemptId, Event, JobId, JobSpec, Kind, NodeId, Reason, Time};
use giveway_sim::Observer;
use std::collections::HashMap;
use std::sync::Arc;

/// How many buckets there are at most. Twice what a drawing can show, for between one merging and the next half are in use.
const BUCKETS: usize = 600;
/// How wide a bucket is at first: a run of six seconds fits without merging.
const WIDTH_AT_FIRST_US: u64 = 10_000;

/// Watches a run and keeps its slots over time.
#[derive(Clone)]
pub struct Chart {
    group_of: Arc<dyn Fn(&JobSpec) -> u16 + Send + Sync>,
    groups: usize,
    /// When the first job was submitted.
    begin: Option<Time>,
    /// Up to when the buckets are filled.
    filled: Time,
    width_us: u64,
    buckets: Vec<Bucket>,
    /// Slots that are there now, and slots each group holds now, by kind.
    slots: [u64; 2],
    held: [Vec<u64>; 2],
    /// Groups of the live jobs.
    jobs: HashMap<JobId, u16>,
    running: HashMap<AttemptId, Running>,
    /// Slots of the nodes that are up.
    nodes: HashMap<NodeId, [u16; 2]>,
}

/// An attempt that holds a slot. It may outlive its job, so it knows its group.
#[derive(Clone, Copy, Debug)]
struct Running {
    node: NodeId,
    group: u16,
    gives_way: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    lanes: [Lane; 2],
    nodes_lost: u32,
}

/// What a bucket holds for one kind of slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lane {
    /// Slots times microseconds, there and held by each group. Wide enough for any event log, even one with absurd instants.
    slots_us: u128,
    held_us: Vec<u128>,
    marks: Marks,
}

/// How often attempts gave way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// With their work kept: early ends of maps, pauses of reduces.
    pub(super) kept: u32,
    /// Killed, with their work lost.
    pub(super) killed: u32,
}

/// A stretch of time as it is drawn: means over it, and what happened in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Seconds since the first submission.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// By kind.
    pub(super) slots: [f64; 2],
    /// By kind and group.
    pub(super) held: [Vec<f64>; 2],
    /// By kind.
    pub(super) marks: [Marks; 2],
    pub(super) nodes_lost: u32,
}

impl Chart {
    /// Begins to watch. `group_of` puts each job into its size group when it is submitted; there are `groups` of them.
    pub fn new(group_of: impl Fn(&JobSpec) -> u16 + Send + Sync + 'static, groups: usize) -> Chart {
        let groups = groups.max(1);
        Chart {
            group_of: Arc::new(group_of),
            groups,
            begin: None,
            filled: Time::ZERO,
            width_us: WIDTH_AT_FIRST_US,
            buckets: Vec::new(),
            slots: [0; 2],
            held: [vec![0; groups], vec![0; groups]],
            jobs: HashMap::new(),
            running: HashMap::new(),
            nodes: HashMap::new(),
        }
    }

    /// How long the run was, in seconds.
    pub(super) fn length_s(&self) -> f64 {
        self.begin.map_or(0.0, |begin| self.filled.since(begin).as_secs_f64())
    }

    /// The run as numbers: for each stretch its beginning and end in seconds and, by kind, the slots each group held on the mean.
    pub fn levels(&self) -> Vec<(f64, f64, [Vec<f64>; 2])> {
        self.stretches().map(|stretch| (stretch.from_s, stretch.to_s, stretch.held)).collect()
    }

    /// The run, stretch by stretch.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let width_s = self.width_us as f64 / 1e6;
        self.buckets.iter().enumerate().map(move |(ix, bucket)| {
            let from_s = ix as f64 * width_s;
            // The last bucket may have marks and no length: what happened at the very end.
            let to_s = ((ix + 1) as f64 * width_s).min(self.length_s()).max(from_s);
            let mean = |slots_us: u128| if to_s > from_s { slots_us as f64 / 1e6 / (to_s - from_s) } else { 0.0 };
            let [map, reduce] = &bucket.lanes;
            let held = |lane: &Lane| lane.held_us.iter().map(|held_us| mean(*held_us)).collect();
            Stretch {
                from_s,
                to_s,
                slots: [mean(map.slots_us), mean(reduce.slots_us)],
                held: [held(map), held(reduce)],
                marks: [map.marks, reduce.marks],
                nodes_lost: bucket.nodes_lost,
            }
        })
    }

    fn happened(&mut self, now: Time, event: &Event) {
        match event {
            Event::SlotsOffered { .. }
            | Event::ProgressReported { .. }
            | Event::TimerFired { .. }
            | Event::JobKilled { .. }
            | Event::MapOutputLost { .. }
            | Event::YieldRequested { .. }
            | Event::SlotsRequested { .. }
            | Event::SlotGranted { .. }
            | Event::JobEnded { .. }
            | Event::Resynced => {}
            Event::JobSubmitted(spec) | Event::JobOpened(spec) => {
                let group = (self.group_of)(spec).min(self.last_group());
                self.jobs.insert(spec.id, group);
                if self.begin.is_none() {
                    (self.begin, self.filled) = (Some(now), now);
                }
            }
            Event::NodeJoined { node, spec } => {
                if self.nodes.contains_key(node) {
                    return;
                }
                self.fill(now);
                let slots = Kind::BOTH.map(|kind| spec.slots(kind));
                self.nodes.insert(*node, slots);
                Kind::BOTH.iter().for_each(|kind| self.slots[kind.ix()] += u64::from(slots[kind.ix()]));
            }
            Event::NodeLost { node } => self.lost(now, *node),
            Event::AttemptFinished { attempt, .. } | Event::AttemptFailed { attempt } => {
                self.ended(now, *attempt);
            }
            Event::AttemptPaused { attempt, .. } | Event::AttemptEndedEarly { attempt, .. } => {
                if self.ended(now, *attempt).is_some() {
                    self.bucket(now).lanes[attempt.task.kind.ix()].marks.kept += 1;
                }
            }
            Event::AttemptKilled { attempt } => {
                if self.ended(now, *attempt).is_some_and(|gone| gone.gives_way) {
                    self.bucket(now).lanes[attempt.task.kind.ix()].marks.killed += 1;
                }
            }
        }
    }

    fn asked(&mut self, now: Time, action: &Action) {
        match action {
            Action::Launch { attempt, node, .. } => {
                self.fill(now);
                let group = self.jobs.get(&attempt.task.job).copied().unwrap_or(self.last_group());
                let before = self.running.insert(*attempt, Running { node: *node, group, gives_way: false });
                // An event log that launches an attempt twice is broken; count its slot once.
                if before.is_none() {
                    self.held[attempt.task.kind.ix()][usize::from(group)] += 1;
                }
            }
            Action::Kill {
                attempt, reason: Reason::PreemptedFor { .. } | Reason::PreemptedForRecovery { .. }, ..
            } => {
                if let Some(victim) = self.running.get_mut(attempt) {
                    victim.gives_way = true;
                }
            }
            Action::CloseJob { job, .. } => {
                self.fill(now);
                self.jobs.remove(job);
            }
            _ => {}
        }
    }

    fn lost(&mut self, now: Time, id: NodeId) {
        let Some(slots) = self.nodes.remove(&id) else { return };
        self.fill(now);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.ix()] -= u64::from(slots[kind.ix()]));
        let held = &mut self.held;
        // Counting down does not care for the order of a hash table.
        self.running.retain(|attempt, running| {
            let stays = running.node != id;
            held[attempt.task.kind.ix()][usize::from(running.group)] -= u64::from(!stays);
            stays
        });
        if self.begin.is_some() {
            self.bucket(now).nodes_lost += 1;
        }
    }

    fn ended(&mut self, now: Time, attempt: AttemptId) -> Option<Running> {
        let gone = self.running.remove(&attempt)?;
        self.fill(now);
        self.held[attempt.task.kind.ix()][usize::from(gone.group)] -= 1;
        Some(gone)
    }

    /// Fills the buckets with the levels that have been since the last change.
    fn fill(&mut self, now: Time) {
        let Some(begin) = self.begin else { return };
        let (mut from_us, to_us) = (self.filled.since(begin).0, now.since(begin).0);
        if from_us >= to_us {
            return;
        }
        self.filled = now;
        self.bucket(now);
        while from_us < to_us {
            let ix = from_us / self.width_us;
            let until_us = to_us.min((ix + 1).saturating_mul(self.width_us));
            let span_us = u128::from(until_us - from_us);
            for (lane, (slots, held)) in
                self.buckets[ix as usize].lanes.iter_mut().zip(self.slots.iter().zip(&self.held))
            {
                lane.slots_us += u128::from(*slots) * span_us;
                lane.held_us.iter_mut().zip(held).for_each(|(sum, held)| *sum += u128::from(*held) * span_us);
            }
            from_us = until_us;
        }
    }

    /// The bucket of an instant, after as much merging as it takes to have one.
    fn bucket(&mut self, now: Time) -> &mut Bucket {
        let at_us = now.since(self.begin.unwrap_or(now)).0;
        while at_us / self.width_us >= BUCKETS as u64 {
            self.width_us *= 2;
            let merged = self.buckets.chunks(2).map(|pair| Bucket::sum(pair, self.groups)).collect();
            self.buckets = merged;
        }
        let ix = (at_us / self.width_us) as usize;
        if self.buckets.len() <= ix {
            self.buckets.resize(ix + 1, Bucket::sum(&[], self.groups));
        }
        &mut self.buckets[ix]
    }

    fn last_group(&self) -> u16 {
        (self.groups - 1) as u16
    }
}

impl Observer for Chart {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        // What the core refused has not happened.
        if !actions.iter().any(|action| matches!(action, Action::Refuse { .. })) {
            self.happened(now, event);
        }
        for action in actions {
            self.asked(now, action);
        }
    }
}

impl Bucket {
    fn sum(parts: &[Bucket], groups: usize) -> Bucket {
        let empty = Lane { held_us: vec![0; groups], ..Lane::default() };
        let mut sum = Bucket { lanes: [empty.clone(), empty], nodes_lost: 0 };
        for part in parts {
            sum.nodes_lost += part.nodes_lost;
            for (lane, more) in sum.lanes.iter_mut().zip(&part.lanes) {
                lane.slots_us += more.slots_us;
                lane.held_us.iter_mut().zip(&more.held_us).for_each(|(sum, held)| *sum += held);
                lane.marks.kept += more.marks.kept;
                lane.marks.killed += more.marks.killed;
            }
        }
        sum
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use giveway_core::Timer;
    use giveway_core::{Hosts, Locality, NodeSpec, Outcome, Priority, RackId, Split, Start, Work};

    const S: u64 = 1_000_000;

    pub(in super::super) fn joined(chart: &mut Chart, at_us: u64, node: u32) {
        let spec = NodeSpec {
            name: format!("node-{node}"),
            rack: RackId(0),
            map_slots: 4,
            reduce_slots: 2,
            speed_ppm: 1_000_000,
            disk_bytes_per_s: 1,
            disk_bytes: 1,
        };
        chart.observe(Time(at_us), &Event::NodeJoined { node: NodeId(node), spec }, &[]);
    }

    pub(in super::super) fn submitted(chart: &mut Chart, at_us: u64, job: u32) {
        let spec = JobSpec {
            external_id: None,
            id: JobId(job),
            name: "sort".into(),
            user: "a".into(),
            pool: "a".into(),
            priority: Priority::Normal,
            splits: vec![Split { bytes: 1, hosts: Hosts::new() }].into(),
            reduces: 1,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: 1_000_000,
        };
        chart.observe(Time(at_us), &Event::JobSubmitted(Box::new(spec)), &[]);
    }

    pub(in super::super) fn launched(chart: &mut Chart, at_us: u64, attempt: AttemptId, node: u32) {
        let work = match attempt.task.kind {
            Kind::Map => Work::Map { split: 0, start_bytes: 0, bytes: 1, locality: Locality::Node },
            Kind::Reduce => Work::Reduce { start: Start::Fresh },
        };
        let launch = Action::Launch { attempt, node: NodeId(node), work, reason: Reason::SubmissionOrder };
        chart.observe(Time(at_us), &Event::SlotsOffered { node: NodeId(node), progress: vec![] }, &[launch]);
    }

    fn finished(chart: &mut Chart, at_us: u64, attempt: AttemptId) {
        chart.observe(Time(at_us), &Event::AttemptFinished { attempt, output_bytes: 0 }, &[]);
    }

    fn map(job: u32, index: u32) -> AttemptId {
        AttemptId::new(JobId(job), Kind::Map, index, 0)
    }

    fn reduce(job: u32, index: u32) -> AttemptId {
        AttemptId::new(JobId(job), Kind::Reduce, index, 0)
    }

    /// Job 0 is small, all others are large.
    pub(in super::super) fn two_groups() -> Chart {
        Chart::new(|spec| u16::from(spec.id.0 > 0), 2)
    }

    fn held_us(chart: &Chart, kind: Kind, group: usize) -> u128 {
        chart.buckets.iter().map(|bucket| bucket.lanes[kind.ix()].held_us[group]).sum()
    }

    fn slots_us(chart: &Chart, kind: Kind) -> u128 {
        chart.buckets.iter().map(|bucket| bucket.lanes[kind.ix()].slots_us).sum()
    }

    #[test]
    fn merging_buckets_keeps_all_slot_time() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 5 * S, 0);
        submitted(&mut chart, 5 * S, 1);
        let mut expected = [0u128; 2];
        let mut now_us = 5 * S;
        // From milliseconds to years: dozens of mergings.
        for n in 0..52u32 {
            let span_us = 3u64.pow(n / 2) + 1_000 * u64::from(n);
            let attempt = map(n % 2, n);
            launched(&mut chart, now_us, attempt, 0);
            now_us += span_us;
            finished(&mut chart, now_us, attempt);
            expected[n as usize % 2] += u128::from(span_us);
            assert!(chart.buckets.len() <= BUCKETS);
        }
        assert!(chart.width_us > 1_000 * WIDTH_AT_FIRST_US);
        assert_eq!([held_us(&chart, Kind::Map, 0), held_us(&chart, Kind::Map, 1)], expected);
        assert_eq!(slots_us(&chart, Kind::Map), 4 * u128::from(now_us - 5 * S));
        assert_eq!(slots_us(&chart, Kind::Reduce), 2 * u128::from(now_us - 5 * S));
        assert_eq!(chart.length_s(), (now_us - 5 * S) as f64 / 1e6);
    }

    #[test]
    fn stretches_are_means_over_their_time() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 0, 1);
        launched(&mut chart, 0, reduce(1, 0), 0);
        finished(&mut chart, 15_000, reduce(1, 0));
        let all: Vec<Stretch> = chart.stretches().collect();
        // The second bucket is half over: its mean is over that half.
        assert_eq!(all.iter().map(|one| (one.from_s, one.to_s)).collect::<Vec<_>>(), [(0.0, 0.01), (0.01, 0.015)]);
        for stretch in &all {
            assert!((stretch.held[1][1] - 1.0).abs() < 1e-9 && (stretch.slots[0] - 4.0).abs() < 1e-9, "{stretch:?}");
        }
    }

    #[test]
    fn a_lost_node_takes_its_slots_and_what_ran_there() {
        let mut chart = two_groups();
        (0..2).for_each(|node| joined(&mut chart, 0, node));
        submitted(&mut chart, 0, 0);
        launched(&mut chart, 0, map(0, 0), 0);
        launched(&mut chart, 0, map(0, 1), 1);
        chart.observe(Time(S), &Event::NodeLost { node: NodeId(1) }, &[]);
        // News of the attempt that was lost comes too late, and the core says so.
        let refusal = giveway_core::Refusal::StaleAttempt(map(0, 1));
        chart.observe(
            Time(S),
            &Event::AttemptFinished { attempt: map(0, 1), output_bytes: 0 },
            &[Action::Refuse { refusal }],
        );
        finished(&mut chart, 2 * S, map(0, 0));
        assert_eq!(held_us(&chart, Kind::Map, 0), 3 * u128::from(S));
        assert_eq!(slots_us(&chart, Kind::Map), 12 * u128::from(S));
        assert_eq!(chart.buckets.iter().map(|bucket| bucket.nodes_lost).sum::<u32>(), 1);
    }

    #[test]
    fn only_those_who_gave_way_are_marked() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 0, 0);
        submitted(&mut chart, 0, 1);
        (0..4).for_each(|index| launched(&mut chart, 0, map(1, index), 0));
        launched(&mut chart, 0, reduce(1, 0), 0);
        let kill = |index, reason| Action::Kill { attempt: map(1, index), node: NodeId(0), reason };
        let kills = [kill(0, Reason::PreemptedFor { job: JobId(0) }), kill(1, Reason::OtherAttemptFinished)];
        chart.observe(Time(S), &Event::TimerFired { timer: Timer::Estimates }, &kills);
        chart.observe(Time(S), &Event::AttemptKilled { attempt: map(1, 0) }, &[]);
        chart.observe(Time(S), &Event::AttemptKilled { attempt: map(1, 1) }, &[]);
        let early = Event::AttemptEndedEarly { attempt: map(1, 2), done_bytes: 1, output_bytes: 1 };
        chart.observe(Time(S), &early, &[]);
        chart.observe(Time(S), &Event::AttemptPaused { attempt: reduce(1, 0), progress_ppm: 1 }, &[]);
        let closed = [Action::CloseJob { job: JobId(1), outcome: Outcome::Succeeded }];
        chart.observe(Time(2 * S), &Event::AttemptFinished { attempt: map(1, 3), output_bytes: 0 }, &closed);
        let mut marks = [Marks::default(); 2];
        for stretch in chart.stretches() {
            for (sum, more) in marks.iter_mut().zip(stretch.marks) {
                sum.kept += more.kept;
                sum.killed += more.killed;
            }
        }
        assert_eq!(marks, [Marks { kept: 1, killed: 1 }, Marks { kept: 1, killed: 0 }]);
        assert!(chart.running.is_empty() && chart.jobs.len() == 1);
    }
}
