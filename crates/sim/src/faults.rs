//! When nodes fall silent and when they come back.
//!
//! Scripted failures come from the cluster's file; random ones alternate between up and down on each node's own clock,
//! drawn from its own stream. A failure that finds its node already down changes nothing, and neither does its repair.

use crate::cluster::{Cluster, Faults, RandomFaults};
use crate::draws::{Draws, Purpose, exponential};
use crate::queue::{NONE, Queue, Tick};
use giveway_core::{Span, Time};
use rand_pcg::Pcg64Mcg;

/// The failures to come.
pub(crate) struct Failures {
    faults: Faults,
    /// By node; empty if nothing fails at random.
    streams: Vec<Pcg64Mcg>,
}

impl Failures {
    /// Puts the first failures in line. Failures of nodes that do not exist never happen.
    pub(crate) fn new(cluster: &Cluster, draws: &Draws, queue: &mut Queue) -> Failures {
        let nodes = cluster.nodes.len() as u32;
        let faults = cluster.faults.clone();
        for (index, fault) in faults.scripted.iter().enumerate().filter(|(_, fault)| fault.node.0 < nodes) {
            queue.push(Time::from_secs_f64(fault.at_s), Tick::Failure { node: fault.node.0, fault: index as u32 });
        }
        let mut streams = Vec::new();
        if let Some(random) = faults.random {
            streams = (0..nodes).map(|node| draws.stream(Purpose::Failure, u64::from(node), 0)).collect();
            for node in 0..nodes {
                let up = exponential(&mut streams[node as usize], random.mean_up);
                push_random(queue, &random, node, Time::ZERO + up);
            }
        }
        Failures { faults, streams }
    }

    /// A failure happened: when its node will be repaired. Puts the next random failure of the node in line.
    pub(crate) fn repaired_at(&mut self, node: u32, fault: u32, now: Time, queue: &mut Queue) -> Time {
        match self.faults.random {
            Some(random) if fault == NONE => {
                let stream = &mut self.streams[node as usize];
                let back = now + exponential(stream, random.mean_down);
                let up = exponential(stream, random.mean_up);
                push_random(queue, &random, node, back + up);
                back
            }
            _ => {
                let back_after_s = self.faults.scripted[fault as usize].back_after_s;
                back_after_s.map_or(Time::NEVER, |back_after_s| now + Span::from_secs_f64(back_after_s))
            }
        }
    }
}

fn push_random(queue: &mut Queue, random: &RandomFaults, node: u32, at: Time) {
    if at < Time::ZERO + random.until {
        queue.push(at, Tick::Failure { node, fault: NONE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ScriptedFault;
    use crate::fixture;
    use giveway_core::NodeId;

    #[test]
    fn scripted_failures_come_back_when_told() {
        let mut cluster = fixture::cluster(2);
        let fault = |node, back_after_s| ScriptedFault { node: NodeId(node), at_s: 10.0, back_after_s };
        cluster.faults.scripted = vec![fault(1, Some(5.0)), fault(0, None), fault(7, None)];
        let mut queue = Queue::new(cluster.heartbeat);
        let mut failures = Failures::new(&cluster, &Draws::new(&cluster, 0), &mut queue);
        let (at, tick) = queue.pop().unwrap();
        assert_eq!((at, tick), (Time::from_secs_f64(10.0), Tick::Failure { node: 1, fault: 0 }));
        assert_eq!(failures.repaired_at(1, 0, at, &mut queue), Time::from_secs_f64(15.0));
        assert_eq!(failures.repaired_at(0, 1, at, &mut queue), Time::NEVER);
        queue.pop().unwrap();
        assert!(queue.pop().is_none(), "a node that does not exist cannot fail");
    }

    #[test]
    fn random_failures_end_when_told() {
        let mut cluster = fixture::cluster(4);
        let (mean_up, mean_down) = (Span::from_secs(100), Span::from_secs(10));
        cluster.faults.random = Some(RandomFaults { mean_up, mean_down, until: Span::from_secs(1_000) });
        let mut queue = Queue::new(cluster.heartbeat);
        let mut failures = Failures::new(&cluster, &Draws::new(&cluster, 0), &mut queue);
        let mut seen = 0;
        while let Some((at, Tick::Failure { node, fault })) = queue.pop() {
            assert!(at < Time::from_secs_f64(1_000.0));
            assert!(failures.repaired_at(node, fault, at, &mut queue) > at);
            seen += 1;
        }
        assert!((15..60).contains(&seen), "{seen}");
    }
}
