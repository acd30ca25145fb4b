//! The cluster as one machine: what its slots, cores and disks can do per second, and the least that each job needs of them.

use crate::cluster::{Cluster, NodeModel};
use crate::contention::TaskWork;
use crate::random_streams::RandomStreams;
use crate::tasks::{MapRun, NodeRates, ReduceProgress, ReduceRun};
use crate::workload::JobPlan;
use giveway_core::{Kind, Locality, Time, WHOLE_PPM};

/// Number of slot valuations: 1, compute speed, throughput.
pub(super) const VALUES: usize = 3;

/// Lower bounds on the times of one job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinimumTimes {
    /// From its start to the end of its maps, in isolation.
    pub(super) map_phase_s: f64,
    /// From the end of its maps to the end of its reduces, in isolation.
    pub(super) reduce_tail_s: f64,
    /// By valuation, all of its tasks on all slots.
    pub(super) all_s: [f64; VALUES],
    /// By valuation, its maps on the map slots.
    pub(super) maps_s: [f64; VALUES],
    /// By valuation, what its reduces do after the last map, on the reduce slots.
    pub(super) reduce_tails_s: [f64; VALUES],
    /// What it computes, on all cores.
    pub(super) cores_s: f64,
    /// What it writes, on all disks.
    pub(super) disks_s: f64,
}

/// Nodes with equal rates.
pub(super) struct NodeType {
    pub(super) rates: NodeRates,
    /// Compute speed of a core.
    speed: f64,
    /// By kind, the number of slots.
    pub(super) slots: [f64; 2],
    /// By kind, the value of one slot for each valuation.
    values: [[f64; VALUES]; 2],
}

/// The cluster as one machine.
pub(super) struct Machine<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) types: Vec<NodeType>,
    /// By node, the index of its type.
    type_of: Vec<usize>,
    /// By kind, the total value of all slots for each valuation.
    capacity: [[f64; VALUES]; 2],
    /// Compute speed of all cores.
    cores: f64,
    /// Bytes per second of all disks.
    disks: f64,
    pub(super) streams: RandomStreams,
    /// The smallest factor that straggling can put on the compute time of an attempt.
    straggler_factor_min: f64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(cluster: &'a Cluster, plans: &[JobPlan], seed: u64) -> Machine<'a> {
        let mut types: Vec<NodeType> = Vec::new();
        let mut type_of = Vec::new();
        let mut known = Vec::new();
        for (node, rates) in cluster.nodes.iter().zip(NodeRates::of_nodes(cluster)) {
            let key = (node.spec.speed_ppm, node.spec.disk_bytes_per_s, node.net_bytes_per_s);
            let at = known.iter().position(|other| *other == key).unwrap_or_else(|| {
                let speed = f64::from(node.spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM);
                known.push(key);
                types.push(NodeType { rates, speed, slots: [0.0; 2], values: [[1.0, speed, 1.0]; 2] });
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
            cores: 0.0,
            disks: 0.0,
            streams: RandomStreams::new(cluster, seed),
            straggler_factor_min,
        };
        machine.value_by_throughput(plans);
        let total = |kind: usize, value: usize| {
            machine.types.iter().map(|of| of.slots[kind] * of.values[kind][value]).sum::<f64>()
        };
        machine.capacity = [0, 1].map(|kind| std::array::from_fn(|value| total(kind, value)));
        machine.cores = machine.cores_by_node().iter().sum();
        machine.disks = machine.disks_by_node().iter().sum();
        machine
    }

    /// The value of each node's slots of these kinds.
    pub(super) fn slots_by_node(&self, kinds: &[Kind], value: usize) -> Vec<f64> {
        let values = self.type_of.iter().map(|&of| self.types[of].values);
        let slots = |(node, values): (&NodeModel, [[f64; VALUES]; 2])| {
            kinds.iter().map(|kind| f64::from(node.spec.slots(*kind)) * values[kind.index()][value]).sum()
        };
        self.cluster.nodes.iter().zip(values).map(slots).collect()
    }

    /// The compute speed of each node's cores. A task uses at most one, so a node whose tasks do not contend has one per slot.
    pub(super) fn cores_by_node(&self) -> Vec<f64> {
        let speeds = self.type_of.iter().map(|&of| self.types[of].speed);
        let cores = |node: &NodeModel| {
            node.shared.map_or(all_slots(node), |shared| f64::from(shared.cores).min(all_slots(node)))
        };
        self.cluster.nodes.iter().zip(speeds).map(|(node, speed)| cores(node) * speed).collect()
    }

    /// The bytes per second of each node's disks. A task uses at most one at a time.
    pub(super) fn disks_by_node(&self) -> Vec<f64> {
        let disks = |node: &NodeModel| {
            node.shared.map_or(all_slots(node), |shared| f64::from(shared.disks).min(all_slots(node)))
        };
        let rates = self.type_of.iter().map(|&of| self.types[of].rates.disk_bytes_per_us * 1e6);
        self.cluster.nodes.iter().zip(rates).map(|(node, rate)| disks(node) * rate).collect()
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
    pub(super) fn task_s(&self, plan: &JobPlan, kind: Kind, rates: &NodeRates, factor: f64) -> f64 {
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
    pub(super) fn reduce_tail_s(&self, plan: &JobPlan, rates: &NodeRates, factor: f64) -> f64 {
        self.reduce_work(plan, rates, factor).span.as_secs_f64()
    }

    /// What a reduce does after it has fetched everything.
    fn reduce_work(&self, plan: &JobPlan, rates: &NodeRates, factor: f64) -> TaskWork {
        ReduceRun::new(ReduceProgress::default()).sort(Time::ZERO, plan, &self.cluster.costs, rates, factor)
    }

    /// What a task computes, in seconds of a core of speed 1, on the type of node where that is least. That type is the same for every
    /// factor, because only merging takes as long on a slow core, so the sum over all tasks is that of tasks with the mean factor.
    fn compute_s(&self, plan: &JobPlan, kind: Kind, factor: f64) -> f64 {
        let on = |of: &NodeType| {
            let work = match kind {
                Kind::Map => MapRun::whole(plan).work(plan, &of.rates, Locality::Node, factor),
                Kind::Reduce => self.reduce_work(plan, &of.rates, factor),
            };
            work.span.as_secs_f64() * work.cpu * of.speed
        };
        self.types.iter().filter(|of| of.slots[kind.index()] > 0.0).map(on).fold(f64::INFINITY, f64::min)
    }

    /// What all tasks of a kind compute, on all cores, and what they write to a disk of their node, on all disks. Maps may read from other nodes.
    fn hardware_s(&self, plan: &JobPlan, kind: Kind, tasks: &Tasks) -> [f64; 2] {
        let count = f64::from(count(plan, kind));
        if count == 0.0 {
            return [0.0; 2];
        }
        // The simulator rounds the times of each task.
        const ROUNDING: f64 = 1.0 - 1e-6;
        let compute_s = self.compute_s(plan, kind, tasks.factors / count) * count * ROUNDING;
        let bytes = if kind == Kind::Map { plan.map_output_bytes } else { plan.reduce_output_bytes };
        [compute_s / self.cores.max(1e-9), bytes as f64 * count / self.disks.max(1e-9)]
    }

    pub(super) fn minimum_times(&self, plan: &JobPlan) -> Option<MinimumTimes> {
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
        let map_hardware = self.hardware_s(plan, Kind::Map, &maps);
        let reduce_hardware = self.hardware_s(plan, Kind::Reduce, &reduces);
        let longest = |slots: [f64; VALUES], hardware: [f64; 2], longest_s: f64| {
            slots.into_iter().chain(hardware).fold(longest_s, f64::max)
        };
        Some(MinimumTimes {
            map_phase_s: longest(maps_s, map_hardware, maps.longest_s),
            reduce_tail_s: longest(reduce_tails_s, reduce_hardware, tails.longest_s),
            cores_s: map_hardware[0] + reduce_hardware[0],
            disks_s: map_hardware[1] + reduce_hardware[1],
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
        let all_equal = self.cluster.noise == 0.0 && plan.relative_ppm[kind].is_empty();
        let (distinct, each) = if all_equal { (1, f64::from(count)) } else { (count, 1.0) };
        for index in 0..distinct {
            let factor = self.streams.task_factor(plan, kind, index) * self.straggler_factor_min;
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
            tasks.factors += factor * each;
            tasks.longest_s = tasks.longest_s.max(least[0]);
            tasks.work.iter_mut().zip(least).for_each(|(work, least)| *work += least * each);
        }
        Some(tasks)
    }
}

fn all_slots(node: &NodeModel) -> f64 {
    Kind::BOTH.iter().map(|kind| f64::from(node.spec.slots(*kind))).sum()
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
    /// The sum of their factors on the compute time.
    factors: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use giveway_core::Span;

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
}
