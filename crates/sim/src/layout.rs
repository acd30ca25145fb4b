//! Placement of a job's input replicas, and the job as it is submitted to the core.
//!
//! When a job arrives, its [`JobPlan`] becomes a [`JobSpec`] with a split for each map and nodes for each replica. The nodes are those of the
//! recorded job, or depend on the seed and the job number alone, so every policy finds the same input on the same nodes.

use crate::cluster::Cluster;
use crate::random_streams::{Purpose, RandomStreams, below, unit};
use crate::tasks::sort_span;
use crate::workload::{JobPlan, Workload};
use giveway_core::{Hint, Hosts, JobSpec, NodeId, Span, Split, WHOLE_PPM};
use rand::Rng;

/// Nodes by rack, for drawing replica locations.
pub(crate) struct Layout {
    /// All nodes, those of a rack together.
    nodes: Vec<u32>,
    /// By node, the range of its rack in `nodes`.
    rack: Vec<(u32, u32)>,
    /// Replicas of each block, at most one for each node.
    replicas: usize,
    /// Link rate of the reference node.
    net_bytes_per_s: f64,
}

impl Layout {
    pub(crate) fn new(cluster: &Cluster) -> Layout {
        let rack_of = |node: u32| cluster.nodes[node as usize].spec.rack;
        let mut nodes: Vec<u32> = (0..cluster.nodes.len() as u32).collect();
        nodes.sort_by_key(|node| (rack_of(*node), *node));
        let mut rack = vec![(0, 0); nodes.len()];
        for members in nodes.chunk_by(|a, b| rack_of(*a) == rack_of(*b)) {
            let begin = nodes.iter().position(|node| *node == members[0]).unwrap_or(0) as u32;
            for member in members {
                rack[*member as usize] = (begin, begin + members.len() as u32);
            }
        }
        // The first node is the reference node of hints; without a link rate it is assumed to fetch at 100 MB/s.
        let link = cluster.nodes.first().map(|node| node.net_bytes_per_s as f64).filter(|rate| *rate > 0.0);
        Layout {
            replicas: (cluster.replicas as usize).min(nodes.len()),
            net_bytes_per_s: link.unwrap_or(100e6),
            nodes,
            rack,
        }
    }

    /// The job as it is submitted.
    pub(crate) fn spec(
        &self,
        cluster: &Cluster,
        workload: &Workload,
        plan: &JobPlan,
        streams: &RandomStreams,
    ) -> JobSpec {
        let mut rng = streams.stream(Purpose::Layout, u64::from(plan.id.0), 0);
        let recorded = plan.input.as_ref().filter(|input| input.nodes == self.nodes.len());
        let mut hosts = |map: u32| match recorded.and_then(|input| input.hosts.get(map as usize)) {
            Some(hosts) => hosts.clone(),
            None => self.hosts(&mut rng),
        };
        let splits = (0..plan.maps).map(|map| Split { bytes: plan.map_bytes, hosts: hosts(map) }).collect();
        JobSpec {
            external_id: None,
            id: plan.id,
            name: plan.name.clone(),
            user: plan.user.clone(),
            pool: plan.pool.clone(),
            priority: plan.priority,
            splits,
            reduces: plan.reduces,
            slowstart_ppm: plan.slowstart_ppm,
            hint: workload.hints.then(|| self.hint(cluster, plan)),
            estimate_bias_ppm: bias_ppm(workload.estimate_error, plan, streams),
        }
    }

    /// Replica locations as HDFS chooses them: one on any node, one in another rack, one more in that rack, the others on any node.
    fn hosts(&self, rng: &mut impl Rng) -> Hosts {
        let all = self.nodes.len() as u32;
        let rack = |host: NodeId| self.rack[host.0 as usize];
        let mut hosts = Hosts::from_buf([NodeId::default(); 4]);
        hosts.resize(self.replicas, NodeId::default());
        let slots: &mut [NodeId] = &mut hosts;
        let mut drawn = 0;
        while drawn < slots.len() {
            let index = match slots[..drawn] {
                [first] if rack(first).1 - rack(first).0 < all => {
                    let (begin, end) = rack(first);
                    let outside = below(rng, all - (end - begin));
                    if outside < begin { outside } else { outside + (end - begin) }
                }
                // Unless the two replicas already occupy the whole rack.
                [first, second] if rack(second).1 - rack(second).0 > 1 + u32::from(rack(first) == rack(second)) => {
                    let (begin, end) = rack(second);
                    begin + below(rng, end - begin)
                }
                _ => below(rng, all),
            };
            let host = NodeId(self.nodes[index as usize]);
            if !slots[..drawn].contains(&host) {
                slots[drawn] = host;
                drawn += 1;
            }
        }
        hosts
    }

    /// Task durations on the reference node (COSHH's task scheduling process). Reading the input of a map is not included: the core adds
    /// it from each node's disk rate.
    fn hint(&self, cluster: &Cluster, plan: &JobPlan) -> Hint {
        let fetch = Span::from_secs_f64(plan.partition_bytes() as f64 / self.net_bytes_per_s);
        let sort = sort_span(&cluster.costs, plan.partition_bytes() as f64);
        Hint { map: plan.map_compute, reduce: fetch + sort + plan.reduce_compute }
    }
}

fn bias_ppm(error: f64, plan: &JobPlan, streams: &RandomStreams) -> u32 {
    if error <= 0.0 {
        return WHOLE_PPM;
    }
    let mut rng = streams.stream(Purpose::Bias, u64::from(plan.id.0), 0);
    let bias = 1.0 + error * (2.0 * unit(&mut rng) - 1.0);
    // The core refuses a bias of zero, which would make every estimate zero.
    (bias * f64::from(WHOLE_PPM)).round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::workload::RecordedInput;
    use giveway_core::RackId;

    #[test]
    fn hints_do_not_include_reading() {
        let cluster = fixture::cluster(3);
        let plan = fixture::plan(0, 0.0, 4, 1);
        assert!(plan.map_bytes > 0);
        assert_eq!(Layout::new(&cluster).hint(&cluster, &plan).map, plan.map_compute);
    }

    #[test]
    fn recorded_input_is_used_on_a_cluster_of_as_many_nodes() {
        let hosts: Hosts = [NodeId(2)].into_iter().collect();
        let input = RecordedInput { nodes: 3, hosts: vec![hosts.clone(); 40].into() };
        let plan = JobPlan { input: Some(input), ..fixture::plan(0, 0.0, 40, 1) };
        let workload = fixture::workload(vec![plan]);
        let is_used = |nodes: u32| {
            let cluster = fixture::cluster(nodes);
            let spec =
                Layout::new(&cluster).spec(&cluster, &workload, &workload.jobs[0], &RandomStreams::new(&cluster, 1));
            spec.splits.iter().all(|split| split.hosts == hosts)
        };
        assert_eq!([2, 3, 4].map(is_used), [false, true, false]);
    }

    #[test]
    fn three_replicas_are_in_two_racks() {
        let mut cluster = fixture::cluster(12);
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            node.spec.rack = RackId(index as u32 % 3);
        }
        cluster.replicas = 3;
        let layout = Layout::new(&cluster);
        let mut rng = RandomStreams::new(&cluster, 1).stream(Purpose::Layout, 0, 0);
        for _ in 0..200 {
            let hosts = layout.hosts(&mut rng);
            let rack = |index: usize| hosts[index].0 % 3;
            assert_eq!(hosts.len(), 3);
            assert_ne!(rack(0), rack(1));
            assert_eq!(rack(1), rack(2));
            assert_ne!(hosts[1], hosts[2]);
        }
    }

    #[test]
    fn replicas_are_distinct_and_spread_evenly() {
        let mut cluster = fixture::cluster(10);
        cluster.replicas = 3;
        let layout = Layout::new(&cluster);
        let mut rng = RandomStreams::new(&cluster, 2).stream(Purpose::Layout, 0, 0);
        let mut held = [0u32; 10];
        for _ in 0..2_000 {
            for host in layout.hosts(&mut rng) {
                held[host.0 as usize] += 1;
            }
        }
        assert!(held.iter().all(|count| (500..700).contains(count)), "{held:?}");
    }

    #[test]
    fn a_small_cluster_has_fewer_replicas() {
        let mut cluster = fixture::cluster(2);
        cluster.nodes[1].spec.rack = RackId(1);
        cluster.replicas = 3;
        let mut rng = RandomStreams::new(&cluster, 3).stream(Purpose::Layout, 0, 0);
        assert_eq!(Layout::new(&cluster).hosts(&mut rng).len(), 2);
    }

    #[test]
    fn the_layout_depends_on_seed_and_job_alone() {
        let cluster = fixture::cluster(20);
        let workload = fixture::workload(vec![fixture::plan(0, 0.0, 5, 1), fixture::plan(1, 1.0, 5, 1)]);
        let layout = Layout::new(&cluster);
        let spec = |job: usize, seed| {
            layout.spec(&cluster, &workload, &workload.jobs[job], &RandomStreams::new(&cluster, seed))
        };
        assert_eq!(spec(0, 1).splits, spec(0, 1).splits);
        assert_ne!(spec(0, 1).splits, spec(1, 1).splits);
        assert_ne!(spec(0, 1).splits, spec(0, 2).splits);
    }

    #[test]
    fn bias_stays_within_the_error() {
        let cluster = fixture::cluster(2);
        let streams = RandomStreams::new(&cluster, 5);
        for job in 0..100 {
            let bias = bias_ppm(0.4, &fixture::plan(job, 0.0, 1, 0), &streams);
            assert!((600_000..=1_400_000).contains(&bias), "{bias}");
        }
        assert_eq!(bias_ppm(0.0, &fixture::plan(0, 0.0, 1, 0), &streams), WHOLE_PPM);
    }
}
