//! How good a schedule could be at best: a lower bound on the mean completion time, printed beside every result.
//!
//! The true optimum cannot be found, so some of what makes scheduling hard is dropped and the rest is solved exactly.
//! No policy, however clever or lucky, can do better than any of these relaxations, so the largest of them counts:
//!
//! * **alone**: every job has the cluster to itself.
//! * **all**: all slots are one machine that does all work of all jobs, and changes from one job to another at no cost.
//!   On one machine, shortest remaining processing time first is optimal (Schrage, 1968).
//! * **maps**: the same for the map slots and the maps; each job's reduces then have the cluster to themselves.
//! * **reduces**: each job's maps have the cluster to themselves; then the same for the reduce slots and what reduces
//!   do after the last map.
//!
//! Nodes differ. Give each type of slot a value per second and let a task be worth what it costs on the type where it
//! costs least: then no slot earns more than its value, and all slots together are a machine as fast as the sum of
//! their values. This holds for any values. Three are tried, and the largest bound counts: every slot is worth 1 (each
//! task runs where it is fastest); every slot is worth its speed (computing is shared among all slots as their speeds
//! allow); every slot is worth the pace at which it does this workload's tasks, reading and writing included.
//!
//! Task times are the simulator's own, with the noise of the seed, the data on the node, nothing to wait for at
//! heartbeats, no ill luck and nothing to fetch (a reduce may sit where all maps ran). Failures only take capacity
//! away, pauses and early ends only add costs, and copies only add work: the bound holds with them too.

use crate::cluster::{Cluster, Word};
use crate::draws::Draws;
use crate::tasks::{Done, MapRun, Pace, ReduceRun};
use crate::workload::{JobPlan, Workload};
use giveway_core::{Kind, Locality, Time, WHOLE_PPM};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Lower bounds on the mean completion time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The largest of the others.
    pub mean_completion_s: f64,
    /// Every job has the cluster to itself.
    pub alone_s: f64,
    /// All work on one machine as fast as all slots.
    pub all_s: f64,
    /// All maps on one machine as fast as all map slots, then each job's reduces.
    pub maps_s: f64,
    /// Each job's maps, then all reduces on one machine as fast as all reduce slots.
    pub reduces_s: f64,
}

/// The bound for a workload on a cluster; none without jobs, or if a job needs slots of a kind that no node has.
pub fn lower_bound(cluster: &Cluster, workload: &Workload, seed: u64) -> Option<Bound> {
    let machine = Machine::new(cluster, &workload.jobs, seed);
    let jobs: Vec<(f64, Needs)> = workload
        .jobs
        .iter()
        .map(|plan| Some((plan.submit.as_secs_f64(), machine.needs(plan)?)))
        .collect::<Option<_>>()?;
    if jobs.is_empty() {
        return None;
    }
    let submitted: f64 = jobs.iter().map(|(submit_s, _)| submit_s).sum();
    // The sums below are rounded; the bound must not be rounded up.
    let mean = |ends: f64| ((ends - submitted) / jobs.len() as f64 * (1.0 - 1e-9)).max(0.0);
    let largest = |ends: &dyn Fn(usize) -> f64| (0..VALUES).map(ends).fold(0.0, f64::max);
    let one_machine = |from: fn(&Needs) -> f64, work: &dyn Fn(&Needs) -> f64| {
        srpt(jobs.iter().map(|(at_s, needs)| (at_s + from(needs), work(needs))))
    };
    let tails: f64 = jobs.iter().map(|(_, needs)| needs.tail_s).sum();
    let alone_s = mean(jobs.iter().map(|(submit_s, needs)| submit_s + needs.head_s + needs.tail_s).sum());
    let all_s = mean(largest(&|value| one_machine(|_| 0.0, &|needs| needs.all_s[value])));
    let maps_s = mean(tails + largest(&|value| one_machine(|_| 0.0, &|needs| needs.maps_s[value])));
    let reduces_s = mean(largest(&|value| one_machine(|needs| needs.head_s, &|needs| needs.tails_s[value])));
    let mean_completion_s = alone_s.max(all_s).max(maps_s).max(reduces_s);
    Some(Bound { mean_completion_s, alone_s, all_s, maps_s, reduces_s })
}

/// How many ways there are to value a slot: as 1, as its speed, as its pace.
const VALUES: usize = 3;

/// What a job needs at least, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// From its beginning to the end of its maps, alone.
    head_s: f64,
    /// From there to the end of its reduces, alone.
    tail_s: f64,
    /// All of it on all slots, for each way to value them.
    all_s: [f64; VALUES],
    /// Its maps on the map slots.
    maps_s: [f64; VALUES],
    /// What its reduces do after the last map, on the reduce slots.
    tails_s: [f64; VALUES],
}

/// Nodes of one pace.
struct Type {
    pace: Pace,
    /// By kind: how many.
    slots: [f64; 2],
    /// By kind: what one is worth.
    values: [[f64; VALUES]; 2],
}

/// The cluster as the bound sees it.
struct Machine<'a> {
    cluster: &'a Cluster,
    types: Vec<Type>,
    /// By kind: all slots together, for each way to value them.
    capacity: [[f64; VALUES]; 2],
    draws: Draws,
    /// The least an attempt's compute time is multiplied by.
    luck: f64,
}

impl<'a> Machine<'a> {
    fn new(cluster: &'a Cluster, plans: &[JobPlan], seed: u64) -> Machine<'a> {
        let mut types: Vec<Type> = Vec::new();
        let mut known = Vec::new();
        for (node, pace) in cluster.nodes.iter().zip(Pace::of_nodes(cluster)) {
            let key = (node.spec.speed_ppm, node.spec.disk_bytes_per_s, node.net_bytes_per_s);
            let at = known.iter().position(|other| *other == key).unwrap_or_else(|| {
                let speed = f64::from(node.spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM);
                known.push(key);
                types.push(Type { pace, slots: [0.0; 2], values: [[1.0, speed, 1.0]; 2] });
                types.len() - 1
            });
            Kind::BOTH.iter().for_each(|kind| types[at].slots[kind.index()] += f64::from(node.spec.slots(*kind)));
        }
        let stragglers = cluster.stragglers;
        let luck = if stragglers.share > 0.0 { stragglers.factor.clamp(0.0, 1.0) } else { 1.0 };
        let mut machine =
            Machine { cluster, types, capacity: [[0.0; VALUES]; 2], draws: Draws::new(cluster, seed), luck };
        machine.value_pace(plans);
        let total = |kind: usize, value: usize| {
            machine.types.iter().map(|of| of.slots[kind] * of.values[kind][value]).sum::<f64>()
        };
        machine.capacity = [0, 1].map(|kind| std::array::from_fn(|value| total(kind, value)));
        machine
    }

    /// Values slots by how fast they would do all these jobs, so that slots of a kind are worth 1 on average.
    fn value_pace(&mut self, plans: &[JobPlan]) {
        for kind in Kind::BOTH {
            let pace = |of: &Type| {
                let all_s =
                    plans.iter().map(|plan| self.task_s(plan, kind, &of.pace, 1.0) * f64::from(count(plan, kind)));
                1.0 / all_s.sum::<f64>().max(1e-9)
            };
            let paces: Vec<f64> = self.types.iter().map(pace).collect();
            let slots: f64 = self.types.iter().map(|of| of.slots[kind.index()]).sum();
            let worth: f64 = self.types.iter().zip(&paces).map(|(of, pace)| of.slots[kind.index()] * pace).sum();
            if worth > 0.0 {
                self.types.iter_mut().zip(paces).for_each(|(of, pace)| of.values[kind.index()][2] = pace * slots / worth);
            }
        }
    }

    /// How long a task holds a slot at least.
    fn task_s(&self, plan: &JobPlan, kind: Kind, pace: &Pace, factor: f64) -> f64 {
        let launch_s = self.cluster.costs.launch.as_secs_f64();
        match kind {
            Kind::Map => {
                let map = MapRun::new(plan, 0, plan.map_bytes);
                launch_s + map.span(plan, pace, Locality::Node, factor).as_secs_f64()
            }
            Kind::Reduce => launch_s + self.tail_s(plan, pace, factor),
        }
    }

    /// How long a reduce still holds a slot after the last map. It can be given its slot and be launched while maps
    /// still run; sorting, computing and writing must come after them.
    fn tail_s(&self, plan: &JobPlan, pace: &Pace, factor: f64) -> f64 {
        let end = ReduceRun::new(Done::default()).sort(Time::ZERO, plan, &self.cluster.costs, pace, factor);
        end.as_secs_f64()
    }

    fn needs(&self, plan: &JobPlan) -> Option<Needs> {
        let task = |kind| move |pace: &Pace, factor| self.task_s(plan, kind, pace, factor);
        let maps = self.tasks(plan, Kind::Map, task(Kind::Map))?;
        let reduces = self.tasks(plan, Kind::Reduce, task(Kind::Reduce))?;
        let tails = self.tasks(plan, Kind::Reduce, |pace, factor| self.tail_s(plan, pace, factor))?;
        let on = |work: [f64; VALUES], capacity: &dyn Fn(usize) -> f64| -> [f64; VALUES] {
            std::array::from_fn(|value| if work[value] > 0.0 { work[value] / capacity(value) } else { 0.0 })
        };
        let maps_s = on(maps.work, &|value| self.capacity[0][value]);
        let tails_s = on(tails.work, &|value| self.capacity[1][value]);
        let all = std::array::from_fn(|value| maps.work[value] + reduces.work[value]);
        Some(Needs {
            head_s: maps_s.into_iter().fold(maps.longest_s, f64::max),
            tail_s: tails_s.into_iter().fold(tails.longest_s, f64::max),
            all_s: on(all, &|value| self.capacity[0][value] + self.capacity[1][value]),
            maps_s,
            tails_s,
        })
    }

    /// All tasks of a kind, each where it costs least; none if there is no slot for them.
    fn tasks(&self, plan: &JobPlan, kind: Kind, time_s: impl Fn(&Pace, f64) -> f64) -> Option<Tasks> {
        let count = count(plan, kind);
        let mut tasks = Tasks::default();
        if count == 0 {
            return Some(tasks);
        }
        // Without noise all tasks of a job are alike.
        let (kinds, each) = if self.cluster.noise > 0.0 { (count, 1.0) } else { (1, f64::from(count)) };
        for index in 0..kinds {
            let factor = self.draws.task_factor(plan.id, kind, index) * self.luck;
            let mut least = [f64::INFINITY; VALUES];
            for of in self.types.iter().filter(|of| of.slots[kind.index()] > 0.0) {
                let time_s = time_s(&of.pace, factor);
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
    /// The longest one, where it is shortest.
    longest_s: f64,
    /// All of them, for each way to value slots.
    work: [f64; VALUES],
}

/// The least possible sum of completion instants on one machine, given when each job comes and how long it takes:
/// whenever a job comes or ends, the one with the least left goes on.
fn srpt(jobs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut jobs: Vec<(f64, f64)> = jobs.collect();
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut coming = jobs.into_iter().peekable();
    let mut waiting: BinaryHeap<Reverse<Left>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0, 0.0);
    loop {
        while let Some((_, work)) = coming.next_if(|(from, _)| *from <= now) {
            waiting.push(Reverse(Left(work)));
        }
        let next = coming.peek().map(|(from, _)| *from);
        match (waiting.pop(), next) {
            (None, None) => return sum,
            (None, Some(next)) => now = next,
            (Some(Reverse(Left(left))), Some(next)) if now + left > next => {
                waiting.push(Reverse(Left(left - (next - now))));
                now = next;
            }
            (Some(Reverse(Left(left))), _) => {
                now += left;
                sum += now;
            }
        }
    }
}

/// Time left, in order of length.
#[derive(PartialEq)]
struct Left(f64);

impl Eq for Left {}

impl PartialOrd for Left {
    fn partial_cmp(&self, other: &Left) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Left {
    fn cmp(&self, other: &Left) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// About how long a job runs alone on the cluster, from its first map to its end: waves of maps, then waves of reduces,
/// with local data, without noise, with half a heartbeat of waiting for each task. An estimate, for slowdowns where the
/// job was not run alone.
pub fn alone_s(plan: &JobPlan, cluster: &Cluster) -> f64 {
    let machine = Machine::new(cluster, &[], 0);
    let beat_s = if cluster.word == Word::WithBeats { cluster.heartbeat.as_secs_f64() / 2.0 } else { 0.0 };
    let map_s = |pace: &Pace| beat_s + machine.task_s(plan, Kind::Map, pace, 1.0);
    let maps_s = machine.waves_s(Kind::Map, plan.maps, &map_s);
    if plan.reduces == 0 {
        return maps_s;
    }
    let tail_s = |pace: &Pace| beat_s + machine.tail_s(plan, pace, 1.0);
    // The reduces of a node share its link.
    let slots = cluster.slots(Kind::Reduce).max(1);
    let beside = f64::from(plan.reduces.min(slots)) / cluster.nodes.len().max(1) as f64;
    let fetch_s = |pace: &Pace| plan.partition_bytes() as f64 * beside.max(1.0) / pace.net_bytes_per_us / 1e6;
    // The first wave fetches while maps run; the output of the last maps comes after them.
    let first_map_s = machine.waves_s(Kind::Map, 1, &map_s);
    let behind_s = |pace: &Pace| {
        let wave = first_map_s / maps_s.max(first_map_s);
        (fetch_s(pace) * wave).max(fetch_s(pace) - (maps_s - first_map_s))
    };
    let first_s = machine.waves_s(Kind::Reduce, plan.reduces.min(slots), &|pace| behind_s(pace) + tail_s(pace));
    let later = plan.reduces - plan.reduces.min(slots);
    let later_s = machine
        .waves_s(Kind::Reduce, later, &|pace| beat_s + fetch_s(pace) + machine.task_s(plan, Kind::Reduce, pace, 1.0));
    maps_s + first_s + later_s
}

impl Machine<'_> {
    /// How long so many equal tasks take if every slot takes one after the other.
    fn waves_s(&self, kind: Kind, count: u32, time_s: &dyn Fn(&Pace) -> f64) -> f64 {
        let usable = || self.types.iter().filter(|of| of.slots[kind.index()] > 0.0);
        let times: Vec<(f64, f64)> = usable().map(|of| (time_s(&of.pace).max(1e-6), of.slots[kind.index()])).collect();
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

    /// SRPT by the clock: each second goes to the job that is here and has the least left.
    fn srpt_by_seconds(jobs: &[(u32, u32)]) -> u64 {
        let mut left: Vec<u32> = jobs.iter().map(|(_, work)| *work).collect();
        let mut sum: u64 = jobs.iter().filter(|(_, work)| *work == 0).map(|(from, _)| u64::from(*from)).sum();
        for now in 0.. {
            let here = (0..jobs.len()).filter(|job| jobs[*job].0 <= now && left[*job] > 0);
            if let Some(job) = here.min_by_key(|job| left[*job]) {
                left[job] -= 1;
                sum += if left[job] == 0 { u64::from(now) + 1 } else { 0 };
            }
            if left.iter().all(|left| *left == 0) {
                break;
            }
        }
        sum
    }

    /// The sum of completions.
    #[derive(Default)]
    struct Completions(f64);

    impl Observer for Completions {
        fn saw(&mut self, now: Time, event: &Event, actions: &[Action]) {
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
        let totals = Simulation::new(cluster, workload, policy, seed).unwrap().run(&mut completions);
        assert_eq!(totals.jobs_unfinished, 0);
        completions.0 / workload.jobs.len() as f64
    }

    proptest! {
        #[test]
        fn srpt_is_what_the_clock_says(jobs in prop::collection::vec((0u32..30, 0u32..12), 0..12)) {
            let exact = srpt(jobs.iter().map(|(from, work)| (f64::from(*from), f64::from(*work))));
            prop_assert_eq!(exact, srpt_by_seconds(&jobs) as f64);
        }

        #[test]
        fn no_policy_beats_the_bound(
            seed in any::<u64>(),
            policy in 0usize..7,
            jobs in prop::collection::vec((0u32..120, 1u32..40, 0u32..6, 0u64..40), 1..8),
            speeds in prop::collection::vec(200_000u32..3_000_000, 1..5),
            (noise, word, faults) in (0u32..2, 0usize..3, any::<bool>()),
        ) {
            let mut cluster = fixture::cluster(speeds.len() as u32);
            cluster.noise = f64::from(noise) * 0.5;
            cluster.word = [Word::WithBeats, Word::EndsAtOnce, Word::AtOnce][word];
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
            let policy = ["fifo", "fair", "hsrtf-pup", "hsrtf-prp", "fcs", "chronos(fifo)", "coshh"][policy];
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
        // One after the other is optimal here, but for the time lost between heartbeats.
        assert!(bound.mean_completion_s > 0.8 * simulated_s, "{bound:?} {simulated_s}");
    }

    #[test]
    fn every_way_to_value_slots_is_what_it_says() {
        let mut cluster = fixture::cluster(2);
        cluster.nodes[1].spec.speed_ppm = 10 * WHOLE_PPM;
        let mut plan = fixture::plan(0, 0.0, 1_000, 0);
        (plan.map_bytes, plan.map_output_bytes, plan.map_compute) = (0, 0, Span::from_secs(100));
        let machine = Machine::new(&cluster, std::slice::from_ref(&plan), 0);
        let needs = machine.needs(&plan).unwrap();
        // With 1 s to launch, the fast node needs 11 s a map: 1000 maps on 8 such slots, against slots of 1 and of 10.
        assert!((needs.maps_s[0] - 1_000.0 * 11.0 / 8.0).abs() < 1e-6, "{needs:?}");
        assert!((needs.maps_s[1] - 1_000.0 * 101.0 / 44.0).abs() < 1e-6, "{needs:?}");
        // All maps are alike: sharing them by pace is exact. 4/101 and 4/11 of a map each second.
        assert!((needs.maps_s[2] - 1_000.0 / (4.0 / 101.0 + 4.0 / 11.0)).abs() < 1e-6, "{needs:?}");
    }

    #[test]
    fn no_slots_give_no_bound() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.reduce_slots = 0;
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 1)]), 0), None);
        assert!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 0)]), 0).is_some());
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![]), 0), None);
    }

    #[test]
    fn the_estimate_of_a_job_alone_is_near_its_simulation() {
        for (maps, reduces) in [(1, 0), (1, 1), (20, 2), (100, 10), (300, 40)] {
            let cluster = fixture::cluster(5);
            let plan = fixture::plan(0, 0.0, maps, reduces);
            let estimate_s = alone_s(&plan, &cluster);
            let simulated_s = simulated_s(&cluster, &fixture::workload(vec![plan]), "fifo", 0);
            let ratio = estimate_s / simulated_s;
            assert!((0.7..1.3).contains(&ratio), "{maps} maps, {reduces} reduces: {estimate_s} s, {simulated_s} s");
        }
    }
}
