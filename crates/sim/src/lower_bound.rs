//! A lower bound on the mean completion time of a workload, reported with every result.
//!
//! The true optimum is intractable, so constraints are relaxed until the problem can be solved exactly. No schedule can beat any of these
//! relaxations, so the largest one is the bound:
//!
//! * **isolated**: every job has the cluster to itself.
//! * **all**: all slots form one machine that does the work of all jobs and switches between jobs at no cost. On one machine, shortest
//!   remaining processing time first is optimal (Schrage, 1968).
//! * **maps**: the same for map slots and maps; after that each job's reduces have the cluster to themselves.
//! * **reduces**: each job's maps have the cluster to themselves; then the same for reduce slots and what reduces do after the last map.
//!
//! Nodes differ in speed. Give each type of slot a value per second, and let the work of a task be its cost on the type where it costs least:
//! then no slot does more work per second than its value, and all slots together are one machine with the sum of their values as speed. This
//! holds for any values. Three are computed, and the largest bound counts: every slot has value 1 (each task runs where it is fastest); every
//! slot has its compute speed (computation is divisible among all slots); every slot has its throughput on this workload's tasks, including
//! reads and writes.
//!
//! Task times are those of the simulator with the noise of the seed, local data, no heartbeat delay, no straggling and nothing to fetch (a
//! reduce may run where all maps ran). Pauses and early ends only add costs, and speculative attempts and failures of tasks only add work, so the
//! bound holds with them too.
//!
//! When nodes are down does not depend on the policy, and no slot of theirs works then. So the one machine is slower at these times, by the value of
//! their slots. SRPT is optimal on a machine whose speed changes: measured in work done instead of time, it is a machine of constant speed, and a
//! schedule that has completed more jobs at every amount of work has completed more at every time. The bound for jobs in isolation, and what follows
//! or precedes the one machine, ignores failures.

use crate::cluster::{Cluster, HeartbeatMode};
use crate::faults;
use crate::random_streams::RandomStreams;
use crate::tasks::{MapRun, NodeRates, ReduceProgress, ReduceRun};
use crate::workload::{JobPlan, Workload};
use giveway_core::{Kind, Locality, Time, WHOLE_PPM};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Lower bounds on the mean completion time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerBound {
    /// The largest of the others.
    pub mean_completion_s: f64,
    /// Every job has the cluster to itself.
    pub isolated_s: f64,
    /// All work on one machine as fast as all slots.
    pub all_s: f64,
    /// All maps on one machine as fast as all map slots, then each job's reduces.
    pub maps_s: f64,
    /// Each job's maps, then all reduces on one machine as fast as all reduce slots.
    pub reduces_s: f64,
}

/// Computes the bound of a workload on a cluster; none without jobs, or if a job needs slots of a kind that no node has.
pub fn lower_bound(cluster: &Cluster, workload: &Workload, seed: u64) -> Option<LowerBound> {
    let machine = Machine::new(cluster, &workload.jobs, seed);
    let jobs: Vec<(f64, MinimumTimes)> = workload
        .jobs
        .iter()
        .map(|plan| Some((plan.submit.as_secs_f64(), machine.minimum_times(plan)?)))
        .collect::<Option<_>>()?;
    if jobs.is_empty() {
        return None;
    }
    let submitted: f64 = jobs.iter().map(|(submit_s, _)| submit_s).sum();
    // The sums below are subject to rounding errors; the bound must not be rounded up.
    let mean = |ends: f64| ((ends - submitted) / jobs.len() as f64 * (1.0 - 1e-9)).max(0.0);
    let largest = |ends: &dyn Fn(usize) -> f64| (0..VALUES).map(ends).fold(0.0, f64::max);
    let one_machine = |from: fn(&MinimumTimes) -> f64, work: &dyn Fn(&MinimumTimes) -> f64, speed: &SpeedProfile| {
        srpt(jobs.iter().map(|(at_s, times)| (at_s + from(times), work(times))), speed)
    };
    // By then one machine with all nodes would have done everything; later outages are ignored.
    let last_s = jobs.iter().map(|(submit_s, _)| *submit_s).fold(0.0, f64::max);
    let work_s: f64 = jobs.iter().map(|(_, times)| times.map_phase_s + times.reduce_tail_s).sum();
    let outages = faults::outages(cluster, &machine.streams, Time::from_secs_f64(last_s + work_s));
    let speed = |kinds: &[Kind], value: usize| machine.speed_profile(cluster, &outages, kinds, value);
    let reduce_tails: f64 = jobs.iter().map(|(_, times)| times.reduce_tail_s).sum();
    let isolated_s =
        mean(jobs.iter().map(|(submit_s, times)| submit_s + times.map_phase_s + times.reduce_tail_s).sum());
    let all_s = mean(largest(&|value| one_machine(|_| 0.0, &|times| times.all_s[value], &speed(&Kind::BOTH, value))));
    let maps_s = mean(
        reduce_tails
            + largest(&|value| one_machine(|_| 0.0, &|times| times.maps_s[value], &speed(&[Kind::Map], value))),
    );
    let reduces_s = mean(largest(&|value| {
        let tail = |times: &MinimumTimes| times.reduce_tails_s[value];
        one_machine(|times| times.map_phase_s, &tail, &speed(&[Kind::Reduce], value))
    }));
    let mean_completion_s = isolated_s.max(all_s).max(maps_s).max(reduces_s);
    Some(LowerBound { mean_completion_s, isolated_s, all_s, maps_s, reduces_s })
}

/// Number of slot valuations: 1, compute speed, throughput.
const VALUES: usize = 3;

/// Lower bounds on the times of one job.
#[derive(Clone, Copy, Debug, Default)]
struct MinimumTimes {
    /// From its start to the end of its maps, in isolation.
    map_phase_s: f64,
    /// From the end of its maps to the end of its reduces, in isolation.
    reduce_tail_s: f64,
    /// By valuation, all of its tasks on all slots.
    all_s: [f64; VALUES],
    /// By valuation, its maps on the map slots.
    maps_s: [f64; VALUES],
    /// By valuation, what its reduces do after the last map, on the reduce slots.
    reduce_tails_s: [f64; VALUES],
}

/// Nodes with equal rates.
struct NodeType {
    rates: NodeRates,
    /// By kind, the number of slots.
    slots: [f64; 2],
    /// By kind, the value of one slot for each valuation.
    values: [[f64; VALUES]; 2],
}

/// The cluster as one machine.
struct Machine<'a> {
    cluster: &'a Cluster,
    types: Vec<NodeType>,
    /// By node, the index of its type.
    type_of: Vec<usize>,
    /// By kind, the total value of all slots for each valuation.
    capacity: [[f64; VALUES]; 2],
    streams: RandomStreams,
    /// The smallest factor that straggling can put on the compute time of an attempt.
    straggler_factor_min: f64,
}

impl<'a> Machine<'a> {
    fn new(cluster: &'a Cluster, plans: &[JobPlan], seed: u64) -> Machine<'a> {
        let mut types: Vec<NodeType> = Vec::new();
        let mut type_of = Vec::new();
        let mut known = Vec::new();
        for (node, rates) in cluster.nodes.iter().zip(NodeRates::of_nodes(cluster)) {
            let key = (node.spec.speed_ppm, node.spec.disk_bytes_per_s, node.net_bytes_per_s);
            let at = known.iter().position(|other| *other == key).unwrap_or_else(|| {
                let speed = f64::from(node.spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM);
                known.push(key);
                types.push(NodeType { rates, slots: [0.0; 2], values: [[1.0, speed, 1.0]; 2] });
                types.len() - 1
            });
            type_of.push(at);
            Kind::BOTH.iter().for_each(|kind| types[at].slots[kind.index()] += f64::from(node.spec.slots(*kind)));
        }
        let stragglers = cluster.stragglers;
        let straggler_factor_min = if stragglers.share > 0.0 { stragglers.factor.clamp(0.0, 1.0) } else { 1.0 };
        let mut machine = Machine {
            cluster,
            types,
            type_of,
            capacity: [[0.0; VALUES]; 2],
            streams: RandomStreams::new(cluster, seed),
            straggler_factor_min,
        };
        machine.value_by_throughput(plans);
        let total = |kind: usize, value: usize| {
            machine.types.iter().map(|of| of.slots[kind] * of.values[kind][value]).sum::<f64>()
        };
        machine.capacity = [0, 1].map(|kind| std::array::from_fn(|value| total(kind, value)));
        machine
    }

    /// The speed of the one machine of these kinds of slots over time, as a fraction of that with all nodes up.
    fn speed_profile(
        &self,
        cluster: &Cluster,
        outages: &[(u32, Time, Time)],
        kinds: &[Kind],
        value: usize,
    ) -> SpeedProfile {
        let all: f64 = kinds.iter().map(|kind| self.capacity[kind.index()][value]).sum();
        let mut changes = Vec::new();
        for &(node, from, to) in outages {
            let (Some(model), Some(of)) = (cluster.nodes.get(node as usize), self.type_of.get(node as usize)) else {
                continue;
            };
            let slots = |kind: Kind| f64::from(model.spec.slots(kind)) * self.types[*of].values[kind.index()][value];
            let lost = kinds.iter().map(|&kind| slots(kind)).sum::<f64>() / all.max(1e-9);
            changes.push((from.as_secs_f64(), -lost));
            if to != Time::NEVER {
                changes.push((to.as_secs_f64(), lost));
            }
        }
        SpeedProfile::new(changes)
    }

    /// Sets the third valuation: the rate at which a slot would do all these jobs, scaled so that slots of a kind have value 1 on average.
    fn value_by_throughput(&mut self, plans: &[JobPlan]) {
        for kind in Kind::BOTH {
            let throughput = |of: &NodeType| {
                let all_s =
                    plans.iter().map(|plan| self.task_s(plan, kind, &of.rates, 1.0) * f64::from(count(plan, kind)));
                1.0 / all_s.sum::<f64>().max(1e-9)
            };
            let throughputs: Vec<f64> = self.types.iter().map(throughput).collect();
            let slots: f64 = self.types.iter().map(|of| of.slots[kind.index()]).sum();
            let total: f64 = self.types.iter().zip(&throughputs).map(|(of, rate)| of.slots[kind.index()] * rate).sum();
            if total > 0.0 {
                self.types
                    .iter_mut()
                    .zip(throughputs)
                    .for_each(|(of, rate)| of.values[kind.index()][2] = rate * slots / total);
            }
        }
    }

    /// The least time for which a task occupies a slot.
    fn task_s(&self, plan: &JobPlan, kind: Kind, rates: &NodeRates, factor: f64) -> f64 {
        let launch_s = self.cluster.costs.launch.as_secs_f64();
        match kind {
            Kind::Map => {
                let map = MapRun::new(plan, 0, plan.map_bytes);
                launch_s + map.span(plan, rates, Locality::Node, factor).as_secs_f64()
            }
            Kind::Reduce => launch_s + self.reduce_tail_s(plan, rates, factor),
        }
    }

    /// The least time for which a reduce occupies a slot after the last map. It may be launched while maps still run; sorting, computing and
    /// writing come after them.
    fn reduce_tail_s(&self, plan: &JobPlan, rates: &NodeRates, factor: f64) -> f64 {
        let work = ReduceRun::new(ReduceProgress::default()).sort(Time::ZERO, plan, &self.cluster.costs, rates, factor);
        work.span.as_secs_f64()
    }

    fn minimum_times(&self, plan: &JobPlan) -> Option<MinimumTimes> {
        let task = |kind| move |rates: &NodeRates, factor| self.task_s(plan, kind, rates, factor);
        let maps = self.tasks(plan, Kind::Map, task(Kind::Map))?;
        let reduces = self.tasks(plan, Kind::Reduce, task(Kind::Reduce))?;
        let tails = self.tasks(plan, Kind::Reduce, |rates, factor| self.reduce_tail_s(plan, rates, factor))?;
        let on = |work: [f64; VALUES], capacity: &dyn Fn(usize) -> f64| -> [f64; VALUES] {
            std::array::from_fn(|value| if work[value] > 0.0 { work[value] / capacity(value) } else { 0.0 })
        };
        let maps_s = on(maps.work, &|value| self.capacity[0][value]);
        let reduce_tails_s = on(tails.work, &|value| self.capacity[1][value]);
        let all = std::array::from_fn(|value| maps.work[value] + reduces.work[value]);
        Some(MinimumTimes {
            map_phase_s: maps_s.into_iter().fold(maps.longest_s, f64::max),
            reduce_tail_s: reduce_tails_s.into_iter().fold(tails.longest_s, f64::max),
            all_s: on(all, &|value| self.capacity[0][value] + self.capacity[1][value]),
            maps_s,
            reduce_tails_s,
        })
    }

    /// All tasks of a kind, each where it costs least; none if no node has a slot for them.
    fn tasks(&self, plan: &JobPlan, kind: Kind, time_s: impl Fn(&NodeRates, f64) -> f64) -> Option<Tasks> {
        let count = count(plan, kind);
        let mut tasks = Tasks::default();
        if count == 0 {
            return Some(tasks);
        }
        // Without noise all tasks of a job are equal.
        let (distinct, each) = if self.cluster.noise > 0.0 { (count, 1.0) } else { (1, f64::from(count)) };
        for index in 0..distinct {
            let factor = self.streams.task_factor(plan.id, kind, index) * self.straggler_factor_min;
            let mut least = [f64::INFINITY; VALUES];
            for of in self.types.iter().filter(|of| of.slots[kind.index()] > 0.0) {
                let time_s = time_s(&of.rates, factor);
                least
                    .iter_mut()
                    .zip(of.values[kind.index()])
                    .for_each(|(least, value)| *least = least.min(value * time_s));
            }
            if least[0] == f64::INFINITY {
                return None;
            }
            tasks.longest_s = tasks.longest_s.max(least[0]);
            tasks.work.iter_mut().zip(least).for_each(|(work, least)| *work += least * each);
        }
        Some(tasks)
    }
}

fn count(plan: &JobPlan, kind: Kind) -> u32 {
    if kind == Kind::Map { plan.maps } else { plan.reduces }
}

/// All tasks of one kind of one job.
#[derive(Clone, Copy, Debug, Default)]
struct Tasks {
    /// The longest one, on the node type where it is shortest.
    longest_s: f64,
    /// By valuation, the work of all of them.
    work: [f64; VALUES],
}

/// The speed of a machine over time, as a fraction of its full speed.
struct SpeedProfile {
    /// From each of these times on, the speed; until the first, full speed.
    speeds: Vec<(f64, f64)>,
}

impl SpeedProfile {
    /// Full speed, with these changes: the time and the amount, in any order.
    fn new(mut changes: Vec<(f64, f64)>) -> SpeedProfile {
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut speed = 1.0;
        let faster = |(at_s, change): (f64, f64)| {
            speed += change;
            // Rounding must not make the machine slower than it is.
            (at_s, (speed + 1e-9).clamp(0.0, 1.0))
        };
        SpeedProfile { speeds: changes.into_iter().map(faster).collect() }
    }

    /// When a machine that starts at `from` has worked for this long at full speed; infinite if it never will.
    fn end_s(&self, from: f64, mut work: f64) -> f64 {
        let mut next = self.speeds.partition_point(|&(at_s, _)| at_s <= from);
        let mut now = from;
        loop {
            let speed = if next == 0 { 1.0 } else { self.speeds[next - 1].1 };
            let until = self.speeds.get(next).map_or(f64::INFINITY, |&(at_s, _)| at_s);
            if speed > 0.0 && now + work / speed <= until {
                return now + work / speed;
            }
            if until == f64::INFINITY {
                return f64::INFINITY;
            }
            work -= (until - now) * speed;
            (now, next) = (until, next + 1);
        }
    }

    /// The work done between two times, in seconds at full speed.
    fn work_between(&self, from: f64, to: f64) -> f64 {
        let mut next = self.speeds.partition_point(|&(at_s, _)| at_s <= from);
        let (mut now, mut work) = (from, 0.0);
        while now < to {
            let speed = if next == 0 { 1.0 } else { self.speeds[next - 1].1 };
            let until = self.speeds.get(next).map_or(to, |&(at_s, _)| at_s.min(to));
            work += (until - now) * speed;
            (now, next) = (until, next + 1);
        }
        work
    }
}

/// The smallest possible sum of completion times on one machine, given arrival and processing time at full speed of each job: at every arrival
/// and completion, the machine continues with the job that has the least remaining time.
fn srpt(jobs: impl Iterator<Item = (f64, f64)>, speed: &SpeedProfile) -> f64 {
    let mut jobs: Vec<(f64, f64)> = jobs.collect();
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut arrivals = jobs.into_iter().peekable();
    let mut ready: BinaryHeap<Reverse<Remaining>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0, 0.0);
    loop {
        while let Some((_, work)) = arrivals.next_if(|(from, _)| *from <= now) {
            ready.push(Reverse(Remaining(work)));
        }
        let next = arrivals.peek().map(|(from, _)| *from);
        let Some(Reverse(Remaining(remaining))) = ready.pop() else {
            match next {
                Some(next) => now = next,
                None => return sum,
            }
            continue;
        };
        let end = speed.end_s(now, remaining);
        match next {
            Some(next) if end > next => {
                ready.push(Reverse(Remaining(remaining - speed.work_between(now, next))));
                now = next;
            }
            _ => {
                // All nodes down for ever: the jobs never end, and the bound says nothing about them.
                if end == f64::INFINITY {
                    return sum + now * (1 + ready.len()) as f64;
                }
                now = end;
                sum += now;
            }
        }
    }
}

/// Remaining processing time, in seconds.
#[derive(PartialEq)]
struct Remaining(f64);

impl Eq for Remaining {}

impl PartialOrd for Remaining {
    fn partial_cmp(&self, other: &Remaining) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Remaining {
    fn cmp(&self, other: &Remaining) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Estimates how long a job runs alone on the cluster, in seconds from its first map to its end: waves of maps, then waves of reduces, with
/// local data, without noise, with half a heartbeat of delay for each task. Used for slowdowns where the job was not simulated in isolation.
pub fn estimate_isolated_s(plan: &JobPlan, cluster: &Cluster) -> f64 {
    isolated_s(&Machine::new(cluster, &[], 0), plan)
}

/// [`estimate_isolated_s`] of every job of a workload, by job number.
pub fn estimate_all_isolated_s(cluster: &Cluster, workload: &Workload) -> Vec<f64> {
    let machine = Machine::new(cluster, &[], 0);
    workload.jobs.iter().map(|plan| isolated_s(&machine, plan)).collect()
}

/// As [`estimate_isolated_s`], with the machine made of the cluster.
fn isolated_s(machine: &Machine<'_>, plan: &JobPlan) -> f64 {
    let cluster = machine.cluster;
    let heartbeat_s =
        if cluster.reporting == HeartbeatMode::Heartbeat { cluster.heartbeat.as_secs_f64() / 2.0 } else { 0.0 };
    let map_s = |rates: &NodeRates| heartbeat_s + machine.task_s(plan, Kind::Map, rates, 1.0);
    let maps_s = machine.waves_s(Kind::Map, plan.maps, &map_s);
    if plan.reduces == 0 {
        return maps_s;
    }
    let reduce_tail_s = |rates: &NodeRates| heartbeat_s + machine.reduce_tail_s(plan, rates, 1.0);
    // The reduces of a node share its link.
    let slots = cluster.slots(Kind::Reduce).max(1);
    let reduces_per_node = f64::from(plan.reduces.min(slots)) / cluster.nodes.len().max(1) as f64;
    let fetch_s =
        |rates: &NodeRates| plan.partition_bytes() as f64 * reduces_per_node.max(1.0) / rates.net_bytes_per_us / 1e6;
    // The first wave of reduces fetches while maps run, except the output of the last maps.
    let first_map_s = machine.waves_s(Kind::Map, 1, &map_s);
    let fetch_after_maps_s = |rates: &NodeRates| {
        let wave = first_map_s / maps_s.max(first_map_s);
        (fetch_s(rates) * wave).max(fetch_s(rates) - (maps_s - first_map_s))
    };
    let first_s = machine
        .waves_s(Kind::Reduce, plan.reduces.min(slots), &|rates| fetch_after_maps_s(rates) + reduce_tail_s(rates));
    let later = plan.reduces - plan.reduces.min(slots);
    let later_s = machine.waves_s(Kind::Reduce, later, &|rates| {
        heartbeat_s + fetch_s(rates) + machine.task_s(plan, Kind::Reduce, rates, 1.0)
    });
    maps_s + first_s + later_s
}

impl Machine<'_> {
    /// The time for `count` equal tasks if every slot runs one after the other.
    fn waves_s(&self, kind: Kind, count: u32, time_s: &dyn Fn(&NodeRates) -> f64) -> f64 {
        let usable = || self.types.iter().filter(|of| of.slots[kind.index()] > 0.0);
        let times: Vec<(f64, f64)> = usable().map(|of| (time_s(&of.rates).max(1e-6), of.slots[kind.index()])).collect();
        if count == 0 || times.is_empty() {
            return 0.0;
        }
        let done = |by_s: f64| times.iter().map(|(time_s, slots)| (by_s / time_s + 1e-9).floor() * slots).sum::<f64>();
        let fastest = times.iter().fold(f64::INFINITY, |least, (time_s, _)| least.min(*time_s));
        let (mut low, mut high) = (0.0, fastest * f64::from(count));
        while high - low > 1e-6 * high {
            let middle = (low + high) / 2.0;
            if done(middle) >= f64::from(count) { high = middle } else { low = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{RandomFaults, Stragglers};
    use crate::{Observer, Simulation, fixture};
    use giveway_core::policy::catalog;
    use giveway_core::{Action, Event, Span};
    use proptest::prelude::*;

    /// SRPT in steps of one second: each second goes to the job that has arrived and has the least remaining time.
    fn srpt_by_seconds(jobs: &[(u32, u32)]) -> u64 {
        let mut remaining: Vec<u32> = jobs.iter().map(|(_, work)| *work).collect();
        let mut sum: u64 = jobs.iter().filter(|(_, work)| *work == 0).map(|(from, _)| u64::from(*from)).sum();
        for now in 0.. {
            let arrived = (0..jobs.len()).filter(|job| jobs[*job].0 <= now && remaining[*job] > 0);
            if let Some(job) = arrived.min_by_key(|job| remaining[*job]) {
                remaining[job] -= 1;
                sum += if remaining[job] == 0 { u64::from(now) + 1 } else { 0 };
            }
            if remaining.iter().all(|remaining| *remaining == 0) {
                break;
            }
        }
        sum
    }

    /// The sum of all completion times, in seconds.
    #[derive(Default)]
    struct Completions(f64);

    impl Observer for Completions {
        fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
            if let Event::JobSubmitted(_) = event {
                self.0 -= now.as_secs_f64();
            }
            self.0 += actions.iter().filter(|action| matches!(action, Action::CloseJob { .. })).count() as f64
                * now.as_secs_f64();
        }
    }

    fn simulated_s(cluster: &Cluster, workload: &Workload, policy: &str, seed: u64) -> f64 {
        let mut completions = Completions::default();
        let policy = catalog::by_name(policy).unwrap();
        let stats = Simulation::new(cluster, workload, policy, seed).unwrap().run(&mut completions);
        assert_eq!(stats.jobs_unfinished, 0);
        completions.0 / workload.jobs.len() as f64
    }

    proptest! {
        #[test]
        fn srpt_matches_the_one_second_reference(jobs in prop::collection::vec((0u32..30, 0u32..12), 0..12)) {
            let exact = srpt(jobs.iter().map(|(from, work)| (f64::from(*from), f64::from(*work))), &SpeedProfile::new(vec![]));
            prop_assert_eq!(exact, srpt_by_seconds(&jobs) as f64);
        }

        /// At half speed from the beginning, everything takes twice as long.
        #[test]
        fn srpt_follows_the_speed(jobs in prop::collection::vec((0u32..30, 0u32..12), 0..12)) {
            let jobs = || jobs.iter().map(|(from, work)| (f64::from(*from), f64::from(*work)));
            let half = srpt(jobs(), &SpeedProfile::new(vec![(0.0, -0.5)]));
            let double = srpt(jobs().map(|(from, work)| (from, 2.0 * work)), &SpeedProfile::new(vec![]));
            prop_assert!((half - double).abs() < 1e-4, "{half} and {double}");
            // A pause of ten seconds delays no job by more than that, and none is sooner.
            let pause = SpeedProfile::new(vec![(20.0, -1.0), (30.0, 1.0)]);
            let (paused, full) = (srpt(jobs(), &pause), srpt(jobs(), &SpeedProfile::new(vec![])));
            prop_assert!(full - 1e-4 <= paused && paused <= full + 10.0 * jobs().count() as f64 + 1e-4);
        }

        #[test]
        fn no_policy_beats_the_bound(
            seed in any::<u64>(),
            policy in 0usize..8,
            jobs in prop::collection::vec((0u32..120, 1u32..40, 0u32..6, 0u64..40), 1..8),
            speeds in prop::collection::vec(200_000u32..3_000_000, 1..5),
            (noise, reporting, faults) in (0u32..2, 0usize..3, any::<bool>()),
        ) {
            let mut cluster = fixture::cluster(speeds.len() as u32);
            cluster.noise = f64::from(noise) * 0.5;
            cluster.reporting = [HeartbeatMode::Heartbeat, HeartbeatMode::OutOfBand, HeartbeatMode::Immediate][reporting];
            (cluster.heartbeat, cluster.costs.launch) = (Span::from_millis(300), Span::from_millis(100));
            cluster.nodes.iter_mut().zip(&speeds).for_each(|(node, speed)| node.spec.speed_ppm = *speed);
            let disks = speeds.iter().map(|speed| u64::from(speed % 7 + 1) * 20_000_000);
            cluster.nodes.iter_mut().zip(disks).for_each(|(node, disk)| node.spec.disk_bytes_per_s = disk);
            if faults {
                let (mean_up, mean_down, until) = (Span::from_secs(300), Span::from_secs(60), Span::from_secs(900));
                cluster.faults.random = Some(RandomFaults { mean_up, mean_down, until });
                cluster.stragglers = Stragglers { share: 0.2, factor: 3.0 };
            }
            let plans = jobs.iter().enumerate().map(|(job, (submit, maps, reduces, compute_s))| {
                let mut plan = fixture::plan(job as u32, f64::from(*submit), *maps, *reduces);
                (plan.map_compute, plan.reduce_compute) = (Span::from_secs(*compute_s), Span::from_secs(40 - compute_s));
                plan
            });
            let workload = numbered(plans.collect());
            let policy = ["fifo", "fair", "hsrtf-pup", "hsrtf-prp", "fcs", "chronos(fifo)", "coshh", "giveway"][policy];
            let bound = lower_bound(&cluster, &workload, seed).unwrap();
            let simulated_s = simulated_s(&cluster, &workload, policy, seed);
            prop_assert!(simulated_s >= bound.mean_completion_s, "{policy}: {simulated_s} beats {bound:?}");
            prop_assert!(bound.mean_completion_s > 0.0);
        }
    }

    fn numbered(mut jobs: Vec<JobPlan>) -> Workload {
        jobs.sort_by_key(|plan| plan.submit);
        jobs.iter_mut().enumerate().for_each(|(job, plan)| plan.id.0 = job as u32);
        fixture::workload(jobs)
    }

    #[test]
    fn one_small_job_is_bounded_by_its_own_length() {
        let mut cluster = fixture::cluster(1);
        cluster.costs.sort_per_gb = Span::ZERO;
        let mut plan = fixture::plan(0, 5.0, 1, 1);
        (plan.map_bytes, plan.map_output_bytes, plan.reduce_output_bytes) = (0, 0, 0);
        let bound = lower_bound(&cluster, &fixture::workload(vec![plan]), 0).unwrap();
        // Launching and computing the map, then computing the reduce.
        assert!((bound.mean_completion_s - (1.0 + 10.0 + 20.0)).abs() < 1e-6, "{bound:?}");
    }

    #[test]
    fn many_jobs_are_bounded_by_their_work() {
        let cluster = fixture::cluster(2);
        let jobs = (0..20).map(|job| fixture::plan(job, 0.0, 100, 0)).collect();
        let workload = fixture::workload(jobs);
        let bound = lower_bound(&cluster, &workload, 0).unwrap();
        assert_eq!(bound.mean_completion_s, bound.maps_s);
        let simulated_s = simulated_s(&cluster, &workload, "fifo", 0);
        // One after the other is optimal here, except for the delay of heartbeats.
        assert!(bound.mean_completion_s > 0.8 * simulated_s, "{bound:?} {simulated_s}");
    }

    #[test]
    fn the_three_valuations_are_as_documented() {
        let mut cluster = fixture::cluster(2);
        cluster.nodes[1].spec.speed_ppm = 10 * WHOLE_PPM;
        let mut plan = fixture::plan(0, 0.0, 1_000, 0);
        (plan.map_bytes, plan.map_output_bytes, plan.map_compute) = (0, 0, Span::from_secs(100));
        let machine = Machine::new(&cluster, std::slice::from_ref(&plan), 0);
        let times = machine.minimum_times(&plan).unwrap();
        // With 1 s to launch, a map takes 11 s on the fast node: 1000 maps on 8 such slots, or on slots of value 1 and 10.
        assert!((times.maps_s[0] - 1_000.0 * 11.0 / 8.0).abs() < 1e-6, "{times:?}");
        assert!((times.maps_s[1] - 1_000.0 * 101.0 / 44.0).abs() < 1e-6, "{times:?}");
        // All maps are equal, so the valuation by throughput is exact: 4/101 and 4/11 maps per second.
        assert!((times.maps_s[2] - 1_000.0 / (4.0 / 101.0 + 4.0 / 11.0)).abs() < 1e-6, "{times:?}");
    }

    #[test]
    fn without_slots_there_is_no_bound() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.reduce_slots = 0;
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 1)]), 0), None);
        assert!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 0)]), 0).is_some());
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![]), 0), None);
    }

    #[test]
    fn the_isolated_estimate_is_close_to_the_simulation() {
        for (maps, reduces) in [(1, 0), (1, 1), (20, 2), (100, 10), (300, 40)] {
            let cluster = fixture::cluster(5);
            let plan = fixture::plan(0, 0.0, maps, reduces);
            let estimate_s = estimate_isolated_s(&plan, &cluster);
            let simulated_s = simulated_s(&cluster, &fixture::workload(vec![plan]), "fifo", 0);
            let ratio = estimate_s / simulated_s;
            assert!((0.7..1.3).contains(&ratio), "{maps} maps, {reduces} reduces: {estimate_s} s, {simulated_s} s");
        }
    }
}
