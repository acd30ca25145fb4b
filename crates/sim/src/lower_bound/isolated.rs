//! An estimate of how long a job runs alone on the cluster.

use super::machine::Machine;
use crate::cluster::{Cluster, HeartbeatMode};
use crate::tasks::NodeRates;
use crate::workload::{JobPlan, Workload};
use giveway_core::Kind;

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
    use super::super::tests::simulated_s;
    use super::*;
    use crate::fixture;

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
