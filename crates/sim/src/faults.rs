//! When nodes fail and when they are repaired.
//!
//! Scripted failures come from the cluster file. Random ones alternate between up and down times of each node, drawn from the node's own
//! stream. A failure of a node that is already down has no effect, and neither has its repair. A node may also fail the attempts that are
//! launched there while it stays up, like one whose disk is full.

use crate::cluster::{Cluster, Faults, RandomFaults, TaskFailures};
use crate::event_queue::{EventQueue, NONE, SimEvent};
use crate::random_streams::{Purpose, RandomStreams, exponential};
use giveway_core::{AttemptId, NodeId, Span, Time};
use rand_pcg::Pcg64Mcg;

/// Scripted and random failures of a run.
pub(crate) struct Failures {
    faults: Faults,
    /// By node; empty without random failures.
    rngs: Vec<Pcg64Mcg>,
}

impl Failures {
    /// Queues the first failures. Failures of nodes that do not exist are ignored.
    pub(crate) fn new(cluster: &Cluster, streams: &RandomStreams, queue: &mut EventQueue) -> Failures {
        let nodes = cluster.nodes.len() as u32;
        let faults = cluster.faults.clone();
        for (index, fault) in faults.scripted.iter().enumerate().filter(|(_, fault)| fault.node.0 < nodes) {
            queue.push(
                Time::from_secs_f64(fault.at_s),
                SimEvent::NodeFailure { node: fault.node.0, fault: index as u32 },
            );
        }
        let mut rngs = Vec::new();
        if let Some(random) = faults.random {
            rngs = (0..nodes).map(|node| streams.stream(Purpose::Failure, u64::from(node), 0)).collect();
            for node in 0..nodes {
                let up = exponential(&mut rngs[node as usize], random.mean_up);
                push_random(queue, &random, node, Time::ZERO + up);
            }
        }
        Failures { faults, rngs }
    }

    /// The time at which a node that fails now will be repaired. Queues the next random failure of the node.
    pub(crate) fn repaired_at(&mut self, node: u32, fault: u32, now: Time, queue: &mut EventQueue) -> Time {
        match self.faults.random {
            Some(random) if fault == NONE => {
                let rng = &mut self.rngs[node as usize];
                let back = now + exponential(rng, random.mean_down);
                let up = exponential(rng, random.mean_up);
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

impl Failures {
    /// How long an attempt that is launched now will run before it fails; none if it does not fail.
    pub(crate) fn fails_after(
        &self,
        attempt: AttemptId,
        node: NodeId,
        now: Time,
        streams: &RandomStreams,
    ) -> Option<Span> {
        let now_s = now.as_secs_f64();
        let fails = |failing: &&TaskFailures| {
            failing.node == node
                && failing.from_s <= now_s
                && failing.until_s.is_none_or(|until_s| now_s < until_s)
                && streams.of_attempt(Purpose::TaskFailure, attempt) < failing.share
        };
        self.faults.task_failures.iter().find(fails).map(|failing| failing.after)
    }
}

/// The times at which nodes will be down, `(node, from, to)` in the order of `from`, if they begin by `until`. They depend on the cluster and
/// the seed alone.
pub(crate) fn outages(cluster: &Cluster, streams: &RandomStreams, until: Time) -> Vec<(u32, Time, Time)> {
    let mut queue = EventQueue::new(cluster.heartbeat);
    let mut failures = Failures::new(cluster, streams, &mut queue);
    let mut up_from = vec![Time::ZERO; cluster.nodes.len()];
    let mut outages = Vec::new();
    while let Some((at, event)) = queue.pop() {
        let SimEvent::NodeFailure { node, fault } = event else { continue };
        if at > until {
            break;
        }
        let back = failures.repaired_at(node, fault, at, &mut queue);
        // A failure of a node that is down has no effect.
        if up_from[node as usize] <= at {
            up_from[node as usize] = back;
            outages.push((node, at, back));
        }
    }
    outages
}

fn push_random(queue: &mut EventQueue, random: &RandomFaults, node: u32, at: Time) {
    if at < Time::ZERO + random.until {
        queue.push(at, SimEvent::NodeFailure { node, fault: NONE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ScriptedFault;
    use crate::fixture;

    #[test]
    fn scripted_failures_end_at_the_given_time() {
        let mut cluster = fixture::cluster(2);
        let fault = |node, back_after_s| ScriptedFault { node: NodeId(node), at_s: 10.0, back_after_s };
        cluster.faults.scripted = vec![fault(1, Some(5.0)), fault(0, None), fault(7, None)];
        let mut queue = EventQueue::new(cluster.heartbeat);
        let mut failures = Failures::new(&cluster, &RandomStreams::new(&cluster, 0), &mut queue);
        let (at, event) = queue.pop().unwrap();
        assert_eq!((at, event), (Time::from_secs_f64(10.0), SimEvent::NodeFailure { node: 1, fault: 0 }));
        assert_eq!(failures.repaired_at(1, 0, at, &mut queue), Time::from_secs_f64(15.0));
        assert_eq!(failures.repaired_at(0, 1, at, &mut queue), Time::NEVER);
        queue.pop().unwrap();
        assert!(queue.pop().is_none(), "a node that does not exist cannot fail");
    }

    #[test]
    fn an_outage_lasts_until_the_repair_of_its_first_failure() {
        let mut cluster = fixture::cluster(2);
        let fault = |at_s, back_after_s| ScriptedFault { node: NodeId(1), at_s, back_after_s };
        cluster.faults.scripted =
            vec![fault(10.0, Some(5.0)), fault(12.0, Some(60.0)), fault(30.0, None), fault(40.0, Some(1.0))];
        let at = Time::from_secs_f64;
        let expected = [(1, at(10.0), at(15.0)), (1, at(30.0), Time::NEVER)];
        let streams = RandomStreams::new(&cluster, 0);
        assert_eq!(outages(&cluster, &streams, Time::NEVER), expected);
        assert_eq!(outages(&cluster, &streams, at(29.0)), expected[..1]);
    }

    #[test]
    fn no_random_failure_happens_after_until() {
        let mut cluster = fixture::cluster(4);
        let (mean_up, mean_down) = (Span::from_secs(100), Span::from_secs(10));
        cluster.faults.random = Some(RandomFaults { mean_up, mean_down, until: Span::from_secs(1_000) });
        let mut queue = EventQueue::new(cluster.heartbeat);
        let mut failures = Failures::new(&cluster, &RandomStreams::new(&cluster, 0), &mut queue);
        let mut count = 0;
        while let Some((at, SimEvent::NodeFailure { node, fault })) = queue.pop() {
            assert!(at < Time::from_secs_f64(1_000.0));
            assert!(failures.repaired_at(node, fault, at, &mut queue) > at);
            count += 1;
        }
        assert!((15..60).contains(&count), "{count}");
    }
}
