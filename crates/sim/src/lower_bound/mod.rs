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
//! * **cores** and **disks**: all cores form one machine that does what all tasks compute, and all disks one that writes what they write. A
//!   task uses at most one of each at a time, and the tasks of a node no more than it has. What a map reads may come from another node and costs no
//!   disk time there, so only what tasks write counts.
//!
//! Nodes differ in speed. Give each type of slot a value per second, and let the work of a task be its cost on the type where it costs least:
//! then no slot does more work per second than its value, and all slots together are one machine with the sum of their values as speed. This
//! holds for any values. Three are computed, and the largest bound counts: every slot has value 1 (each task runs where it is fastest); every
//! slot has its compute speed (computation is divisible among all slots); every slot has its throughput on this workload's tasks, including
//! reads and writes.
//!
//! Task times are those of the simulator with the noise of the seed, local data, no heartbeat delay, no straggling and nothing to fetch (a
//! reduce may run where all maps ran), and alone on their node. Heartbeats do not add to the bound: a node that stops a task reports at once,
//! with all other ends, so slots need not stay occupied up to the next heartbeat. Pauses and early ends only add costs, and speculative attempts and failures of tasks only add work, so the
//! bound holds with them too.
//!
//! When nodes are down does not depend on the policy, and no slot of theirs works then. So the one machine is slower at these times, by the value of
//! their slots. SRPT is optimal on a machine whose speed changes: measured in work done instead of time, it is a machine of constant speed, and a
//! schedule that has completed more jobs at every amount of work has completed more at every time. The bound for jobs in isolation, and what follows
//! or precedes the one machine, ignores failures.

mod isolated;
mod machine;
mod srpt;

use crate::cluster::Cluster;
use crate::faults;
use crate::workload::Workload;
use giveway_core::{Kind, Time};
pub use isolated::{estimate_all_isolated_s, estimate_isolated_s};
use machine::{Machine, MinimumTimes, VALUES};
use srpt::{SpeedProfile, srpt};

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
    /// What all tasks compute, on one machine as fast as all cores.
    pub cores_s: f64,
    /// What all tasks write, on one machine as fast as all disks.
    pub disks_s: f64,
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
    let speed =
        |kinds: &[Kind], value: usize| SpeedProfile::with_outages(&machine.slots_by_node(kinds, value), &outages);
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
    let hardware = |by_node: &[f64], work: fn(&MinimumTimes) -> f64| {
        mean(one_machine(|_| 0.0, &work, &SpeedProfile::with_outages(by_node, &outages)))
    };
    let cores_s = hardware(&machine.cores_by_node(), |times| times.cores_s);
    let disks_s = hardware(&machine.disks_by_node(), |times| times.disks_s);
    let all = [isolated_s, all_s, maps_s, reduces_s, cores_s, disks_s];
    let mean_completion_s = all.into_iter().fold(0.0, f64::max);
    Some(LowerBound { mean_completion_s, isolated_s, all_s, maps_s, reduces_s, cores_s, disks_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{HeartbeatMode, RandomFaults, SharedHardware, Stragglers};
    use crate::workload::JobPlan;
    use crate::{Observer, Simulation, fixture};
    use giveway_core::policy::catalog;
    use giveway_core::{Action, Event, Span};
    use proptest::prelude::*;

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

    pub(super) fn simulated_s(cluster: &Cluster, workload: &Workload, policy: &str, seed: u64) -> f64 {
        let mut completions = Completions::default();
        let policy = catalog::by_name(policy).unwrap();
        let stats = Simulation::new(cluster, workload, policy, seed).unwrap().run(&mut completions);
        assert_eq!(stats.jobs_unfinished, 0);
        completions.0 / workload.jobs.len() as f64
    }

    proptest! {
        #[test]
        fn no_policy_beats_the_bound(
            seed in any::<u64>(),
            policy in 0usize..8,
            jobs in prop::collection::vec((0u32..120, 1u32..40, 0u32..6, 0u64..40), 1..8),
            speeds in prop::collection::vec(200_000u32..3_000_000, 1..5),
            (noise, reporting, faults, shared) in (0u32..2, 0usize..3, any::<bool>(), prop::option::of((1u16..4, 1u16..3))),
        ) {
            let mut cluster = fixture::cluster(speeds.len() as u32);
            cluster.noise = f64::from(noise) * 0.5;
            cluster.reporting = [HeartbeatMode::Heartbeat, HeartbeatMode::OutOfBand, HeartbeatMode::Immediate][reporting];
            (cluster.heartbeat, cluster.costs.launch) = (Span::from_millis(300), Span::from_millis(100));
            cluster.nodes.iter_mut().zip(&speeds).for_each(|(node, speed)| node.spec.speed_ppm = *speed);
            let disks = speeds.iter().map(|speed| u64::from(speed % 7 + 1) * 20_000_000);
            cluster.nodes.iter_mut().zip(disks).for_each(|(node, disk)| node.spec.disk_bytes_per_s = disk);
            let shared = shared.map(|(cores, disks)| SharedHardware { cores, disks, page_cache_bytes: Some(1 << 30) });
            cluster.nodes.iter_mut().for_each(|node| node.shared = shared);
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

    /// With one core and one disk per node, the jobs need at least the time of the cores or of the disks.
    #[test]
    fn contended_hardware_bounds_the_jobs() {
        let mut cluster = fixture::cluster(2);
        for node in &mut cluster.nodes {
            node.shared = Some(SharedHardware { cores: 1, disks: 1, page_cache_bytes: None });
        }
        let mut plan = fixture::plan(0, 0.0, 100, 0);
        (plan.map_bytes, plan.map_output_bytes, plan.map_compute) = (0, 0, Span::from_secs(10));
        let bound = |plan: JobPlan| lower_bound(&cluster, &fixture::workload(vec![plan]), 0).unwrap();
        let computing = bound(plan.clone());
        assert!((computing.cores_s - 100.0 * 10.0 / 2.0).abs() < 1e-3, "{computing:?}");
        assert_eq!(computing.mean_completion_s, computing.cores_s.max(computing.isolated_s));
        (plan.map_compute, plan.map_output_bytes) = (Span::ZERO, 1 << 30);
        let writing = bound(plan);
        let rate = cluster.nodes[0].spec.disk_bytes_per_s as f64;
        assert!((writing.disks_s - 100.0 * (1u64 << 30) as f64 / rate / 2.0).abs() < 1e-3, "{writing:?}");
    }

    #[test]
    fn without_slots_there_is_no_bound() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.reduce_slots = 0;
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 1)]), 0), None);
        assert!(lower_bound(&cluster, &fixture::workload(vec![fixture::plan(0, 0.0, 1, 0)]), 0).is_some());
        assert_eq!(lower_bound(&cluster, &fixture::workload(vec![]), 0), None);
    }
}
