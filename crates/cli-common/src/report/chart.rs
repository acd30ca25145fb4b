//! Map and reduce slots over time: the capacity, and the slots in use by each size group.
//!
//! [`Chart`] observes the events and actions of a run. Time is divided into a fixed number of buckets; when a run outgrows them, pairs of buckets are
//! merged and the bucket width doubles. Buckets hold slots times microseconds as integers, so merging loses resolution but no slot time. Other memory
//! grows with the live jobs, attempts and nodes only, not with the length of the run.
//!
//! As in `giveway_sim::metrics`, the chart starts at the first submission, and a kill counts as a preemption only if it was requested for another job or
//! for recovery, not if another attempt of the task finished first or the job ended.

use giveway_core::{Action, Change, End, Event, JobId, JobSpec, Kind, Lifecycle, NodeId, NodeSpec, PerKind, Time};
use giveway_sim::Observer;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of buckets. Twice the resolution of a drawing, because only half of them are in use after a merge.
const BUCKETS_MAX: usize = 600;
/// Initial width of a bucket. Runs of up to six seconds fit without merging.
const INITIAL_WIDTH_US: u64 = 10_000;

/// Observer that records slots over time.
#[derive(Clone)]
pub struct Chart {
    group_of: Arc<dyn Fn(&JobSpec) -> u16 + Send + Sync>,
    groups: usize,
    /// Time of the first submission.
    start: Option<Time>,
    /// End of the time that the buckets cover.
    filled_until: Time,
    width_us: u64,
    buckets: Vec<Bucket>,
    /// Current capacity, by kind.
    slots: [u64; 2],
    /// Slots currently in use, by kind and group.
    used: [Vec<u64>; 2],
    /// Size groups of the live jobs.
    jobs: HashMap<JobId, u16>,
    /// The running attempts with their size groups: an attempt may outlive its job's entry in `jobs`.
    running: Lifecycle<u16>,
    /// Map and reduce slots of the nodes that are up.
    nodes: HashMap<NodeId, [u16; 2]>,
}

#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    by_kind: [KindSeries; 2],
    nodes_lost: u32,
}

/// Totals of a bucket for one kind of slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct KindSeries {
    /// Capacity in slots times microseconds. 128 bits cannot overflow, even with extreme timestamps in an event log.
    slots_us: u128,
    /// Slots in use times microseconds, by group.
    used_us: Vec<u128>,
    preemptions: PreemptionCounts,
}

/// Numbers of preempted attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PreemptionCounts {
    /// Early ends of maps or pauses of reduces: finished work is kept.
    pub(super) work_kept: u32,
    /// Kills: work is lost.
    pub(super) killed: u32,
}

/// A bucket as it is drawn: mean slots and event counts of a time interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChartInterval {
    /// Start and end in seconds after the first submission.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Mean capacity, by kind.
    pub(super) slots: [f64; 2],
    /// Mean slots in use, by kind and group.
    pub(super) used: [Vec<f64>; 2],
    /// Preempted attempts, by kind.
    pub(super) preemptions: [PreemptionCounts; 2],
    pub(super) nodes_lost: u32,
}

impl Chart {
    /// Creates an empty chart. `group_of` returns the size group of a submitted job, smaller than `groups`.
    pub fn new(group_of: impl Fn(&JobSpec) -> u16 + Send + Sync + 'static, groups: usize) -> Chart {
        let groups = groups.max(1);
        Chart {
            group_of: Arc::new(group_of),
            groups,
            start: None,
            filled_until: Time::ZERO,
            width_us: INITIAL_WIDTH_US,
            buckets: Vec::new(),
            slots: [0; 2],
            used: [vec![0; groups], vec![0; groups]],
            jobs: HashMap::new(),
            running: Lifecycle::default(),
            nodes: HashMap::new(),
        }
    }

    /// Length of the run in seconds.
    pub(super) fn length_s(&self) -> f64 {
        self.start.map_or(0.0, |start| self.filled_until.since(start).as_secs_f64())
    }

    /// The chart as numbers: for each interval its start and end in seconds and the mean slots in use, by kind and group.
    pub fn levels(&self) -> Vec<(f64, f64, [Vec<f64>; 2])> {
        self.intervals().map(|interval| (interval.from_s, interval.to_s, interval.used)).collect()
    }

    /// The intervals in the order of time.
    pub(super) fn intervals(&self) -> impl Iterator<Item = ChartInterval> {
        let width_s = self.width_us as f64 / 1e6;
        self.buckets.iter().enumerate().map(move |(ix, bucket)| {
            let from_s = ix as f64 * width_s;
            // The last bucket may have length zero and only event counts: those of the final instant.
            let to_s = ((ix + 1) as f64 * width_s).min(self.length_s()).max(from_s);
            let mean = |slots_us: u128| if to_s > from_s { slots_us as f64 / 1e6 / (to_s - from_s) } else { 0.0 };
            let [map, reduce] = &bucket.by_kind;
            let used = |series: &KindSeries| series.used_us.iter().map(|used_us| mean(*used_us)).collect();
            ChartInterval {
                from_s,
                to_s,
                slots: [mean(map.slots_us), mean(reduce.slots_us)],
                used: [used(map), used(reduce)],
                preemptions: [map.preemptions, reduce.preemptions],
                nodes_lost: bucket.nodes_lost,
            }
        })
    }

    fn on_change(&mut self, now: Time, change: Change<'_, u16>) {
        match change {
            Change::JobSubmitted(spec) => {
                let group = (self.group_of)(spec).min(self.last_group());
                self.jobs.insert(spec.id, group);
                if self.start.is_none() {
                    (self.start, self.filled_until) = (Some(now), now);
                }
            }
            Change::JobClosed { job, .. } => {
                self.fill(now);
                self.jobs.remove(&job);
            }
            Change::NodeJoined { node, spec } => self.on_node_joined(now, node, spec),
            Change::SlotsSet { node, slots } => self.set_slots(now, node, slots),
            Change::NodeLost { node } => self.on_node_lost(now, node),
            Change::Launched { attempt, .. } => {
                self.fill(now);
                let task = attempt.id.task;
                attempt.data = self.jobs.get(&task.job).copied().unwrap_or(self.last_group());
                self.used[task.kind.index()][usize::from(attempt.data)] += 1;
            }
            Change::StopRequested { .. } => {}
            Change::Ended { attempt, end } => {
                self.fill(now);
                let kind = attempt.id.task.kind.index();
                self.used[kind][usize::from(attempt.data)] -= 1;
                match end {
                    End::Paused | End::EndedEarly { .. } => self.preemptions(now, kind).work_kept += 1,
                    End::Killed { preempted: true } => self.preemptions(now, kind).killed += 1,
                    End::Killed { preempted: false }
                    | End::Finished { .. }
                    | End::Failed
                    | End::NodeLost
                    | End::Resynced => {}
                }
            }
        }
    }

    fn on_node_joined(&mut self, now: Time, id: NodeId, spec: &NodeSpec) {
        if self.nodes.contains_key(&id) {
            return;
        }
        self.fill(now);
        let slots = Kind::BOTH.map(|kind| spec.slots(kind));
        self.nodes.insert(id, slots);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.index()] += u64::from(slots[kind.index()]));
    }

    fn set_slots(&mut self, now: Time, id: NodeId, slots: PerKind<u16>) {
        self.fill(now);
        let Some(had) = self.nodes.get_mut(&id) else { return };
        let had = std::mem::replace(had, Kind::BOTH.map(|kind| slots[kind]));
        for kind in Kind::BOTH {
            let all = &mut self.slots[kind.index()];
            *all = *all - u64::from(had[kind.index()]) + u64::from(slots[kind]);
        }
    }

    fn on_node_lost(&mut self, now: Time, id: NodeId) {
        let Some(slots) = self.nodes.remove(&id) else { return };
        self.fill(now);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.index()] -= u64::from(slots[kind.index()]));
        if self.start.is_some() {
            self.bucket(now).nodes_lost += 1;
        }
    }

    /// The preemption counts of a kind, by its index, in the bucket that contains `now`.
    fn preemptions(&mut self, now: Time, kind: usize) -> &mut PreemptionCounts {
        &mut self.bucket(now).by_kind[kind].preemptions
    }

    /// Adds the current capacity and usage to the buckets, from the end of the covered time to `now`. Call before each change of either.
    fn fill(&mut self, now: Time) {
        let Some(start) = self.start else { return };
        let (mut from_us, to_us) = (self.filled_until.since(start).0, now.since(start).0);
        if from_us >= to_us {
            return;
        }
        self.filled_until = now;
        self.bucket(now);
        while from_us < to_us {
            let ix = from_us / self.width_us;
            let until_us = to_us.min((ix + 1).saturating_mul(self.width_us));
            let span_us = u128::from(until_us - from_us);
            for (series, (slots, used)) in
                self.buckets[ix as usize].by_kind.iter_mut().zip(self.slots.iter().zip(&self.used))
            {
                series.slots_us += u128::from(*slots) * span_us;
                series.used_us.iter_mut().zip(used).for_each(|(sum, used)| *sum += u128::from(*used) * span_us);
            }
            from_us = until_us;
        }
    }

    /// The bucket that contains `now`; merges and appends buckets as needed.
    fn bucket(&mut self, now: Time) -> &mut Bucket {
        let at_us = now.since(self.start.unwrap_or(now)).0;
        while at_us / self.width_us >= BUCKETS_MAX as u64 {
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
        let mut running = std::mem::take(&mut self.running);
        running.observe(event, actions, now, &mut |change| self.on_change(now, change));
        self.running = running;
    }
}

impl Bucket {
    fn sum(parts: &[Bucket], groups: usize) -> Bucket {
        let empty = KindSeries { used_us: vec![0; groups], ..KindSeries::default() };
        let mut sum = Bucket { by_kind: [empty.clone(), empty], nodes_lost: 0 };
        for part in parts {
            sum.nodes_lost += part.nodes_lost;
            for (series, more) in sum.by_kind.iter_mut().zip(&part.by_kind) {
                series.slots_us += more.slots_us;
                series.used_us.iter_mut().zip(&more.used_us).for_each(|(sum, used)| *sum += used);
                series.preemptions.work_kept += more.preemptions.work_kept;
                series.preemptions.killed += more.preemptions.killed;
            }
        }
        sum
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use giveway_core::{AttemptId, Hosts, Locality, Outcome, Priority, RackId, Reason, Split, Start, Timer, Work};

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
        let launch = Action::Launch { attempt, node: NodeId(node), work, reason: Reason::Reserved };
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

    /// Job 0 is in group 0, all others in group 1.
    pub(in super::super) fn two_groups() -> Chart {
        Chart::new(|spec| u16::from(spec.id.0 > 0), 2)
    }

    fn used_us(chart: &Chart, kind: Kind, group: usize) -> u128 {
        chart.buckets.iter().map(|bucket| bucket.by_kind[kind.index()].used_us[group]).sum()
    }

    fn slots_us(chart: &Chart, kind: Kind) -> u128 {
        chart.buckets.iter().map(|bucket| bucket.by_kind[kind.index()].slots_us).sum()
    }

    #[test]
    fn merging_buckets_preserves_slot_time() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 5 * S, 0);
        submitted(&mut chart, 5 * S, 1);
        let mut expected = [0u128; 2];
        let mut now_us = 5 * S;
        // From milliseconds to years: dozens of merges.
        for n in 0..52u32 {
            let span_us = 3u64.pow(n / 2) + 1_000 * u64::from(n);
            let attempt = map(n % 2, n);
            launched(&mut chart, now_us, attempt, 0);
            now_us += span_us;
            finished(&mut chart, now_us, attempt);
            expected[n as usize % 2] += u128::from(span_us);
            assert!(chart.buckets.len() <= BUCKETS_MAX);
        }
        assert!(chart.width_us > 1_000 * INITIAL_WIDTH_US);
        assert_eq!([used_us(&chart, Kind::Map, 0), used_us(&chart, Kind::Map, 1)], expected);
        assert_eq!(slots_us(&chart, Kind::Map), 4 * u128::from(now_us - 5 * S));
        assert_eq!(slots_us(&chart, Kind::Reduce), 2 * u128::from(now_us - 5 * S));
        assert_eq!(chart.length_s(), (now_us - 5 * S) as f64 / 1e6);
    }

    #[test]
    fn intervals_are_means_over_their_length() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 0, 1);
        launched(&mut chart, 0, reduce(1, 0), 0);
        finished(&mut chart, 15_000, reduce(1, 0));
        let all: Vec<ChartInterval> = chart.intervals().collect();
        // The run ends in the middle of the second bucket: the mean is over the covered half.
        assert_eq!(all.iter().map(|one| (one.from_s, one.to_s)).collect::<Vec<_>>(), [(0.0, 0.01), (0.01, 0.015)]);
        for interval in &all {
            assert!((interval.used[1][1] - 1.0).abs() < 1e-9 && (interval.slots[0] - 4.0).abs() < 1e-9, "{interval:?}");
        }
    }

    #[test]
    fn a_lost_node_removes_its_slots_and_attempts() {
        let mut chart = two_groups();
        (0..2).for_each(|node| joined(&mut chart, 0, node));
        submitted(&mut chart, 0, 0);
        launched(&mut chart, 0, map(0, 0), 0);
        launched(&mut chart, 0, map(0, 1), 1);
        chart.observe(Time(S), &Event::NodeLost { node: NodeId(1) }, &[]);
        // The late report of a lost attempt is refused by the core.
        let refusal = giveway_core::Refusal::StaleAttempt(map(0, 1));
        chart.observe(
            Time(S),
            &Event::AttemptFinished { attempt: map(0, 1), output_bytes: 0 },
            &[Action::Refuse { refusal }],
        );
        finished(&mut chart, 2 * S, map(0, 0));
        assert_eq!(used_us(&chart, Kind::Map, 0), 3 * u128::from(S));
        assert_eq!(slots_us(&chart, Kind::Map), 12 * u128::from(S));
        assert_eq!(chart.buckets.iter().map(|bucket| bucket.nodes_lost).sum::<u32>(), 1);
    }

    #[test]
    fn an_attempt_uses_one_slot_until_it_ends_or_a_resync() {
        let mut chart = two_groups();
        joined(&mut chart, 0, 0);
        joined(&mut chart, 0, 0);
        submitted(&mut chart, 0, 0);
        // A damaged event log may launch an attempt twice.
        launched(&mut chart, 0, map(0, 0), 0);
        launched(&mut chart, 0, map(0, 0), 0);
        chart.observe(Time(S), &Event::Resynced, &[]);
        launched(&mut chart, 2 * S, map(0, 1), 0);
        finished(&mut chart, 3 * S, map(0, 1));
        assert_eq!(used_us(&chart, Kind::Map, 0), 2 * u128::from(S));
        assert_eq!(slots_us(&chart, Kind::Map), 12 * u128::from(S));
    }

    #[test]
    fn only_preempted_attempts_are_counted() {
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
        let mut preemptions = [PreemptionCounts::default(); 2];
        for interval in chart.intervals() {
            for (sum, more) in preemptions.iter_mut().zip(interval.preemptions) {
                sum.work_kept += more.work_kept;
                sum.killed += more.killed;
            }
        }
        assert_eq!(
            preemptions,
            [PreemptionCounts { work_kept: 1, killed: 1 }, PreemptionCounts { work_kept: 1, killed: 0 }]
        );
        assert!(chart.running.is_empty() && chart.jobs.len() == 1);
    }
}
