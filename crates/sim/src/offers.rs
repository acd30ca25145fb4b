//! Who offers free slots next.
//!
//! While the core is has_pending, nodes with free slots beat in turn, as their places on the grid come round. Only the next
//! one is in line; when it has beaten, the one after it is looked up. While the core is not has_pending, nobody beats in
//! vain.

use crate::nodes::Node;
use crate::queue::{Queue, Tick};
use crate::ring::{Grid, Ring};
use giveway_core::{Kind, Time};

/// The chain of offers.
pub(crate) struct Offers {
    grid: Grid,
    free: [Ring; 2],
    has_pending: [bool; 2],
    /// When the offer in line is due; never if there is none.
    armed: Time,
    version: u32,
}

impl Offers {
    pub(crate) fn new(grid: Grid, nodes: usize) -> Offers {
        Offers {
            grid,
            free: [Ring::new(nodes), Ring::new(nodes)],
            has_pending: [false; 2],
            armed: Time::NEVER,
            version: 0,
        }
    }

    /// When a node beats next: now, if its turn is now and it has not beaten yet.
    pub(crate) fn next_beat(&self, node: u32, now: Time, last_beat: Time) -> Time {
        if last_beat == now { self.grid.beat_after(node, now) } else { self.grid.beat_from(node, now) }
    }

    /// A node's free slots have changed.
    pub(crate) fn note(&mut self, index: u32, node: &Node, kind: Kind, now: Time) {
        let free = node.has_free(kind);
        let joins = self.free[kind.index()].set(index, free) && free;
        // One that frees a slot between its beats may come before the one in line.
        if joins && self.has_pending[kind.index()] && self.armed != Time::NEVER {
            let at = self.next_beat(index, now, node.last_beat);
            if at < self.armed {
                self.disarm();
            }
        }
    }

    fn disarm(&mut self) {
        self.armed = Time::NEVER;
        self.version += 1;
    }

    /// An offer came up: whether it is the one in line. It no longer is then.
    pub(crate) fn came_up(&mut self, version: u32) -> bool {
        let current = version == self.version;
        if current {
            self.armed = Time::NEVER;
        }
        current
    }

    /// Puts the next offer in line, if anyone is has_pending and none is there yet.
    pub(crate) fn arm(&mut self, now: Time, has_pending: [bool; 2], nodes: &[Node], queue: &mut Queue) {
        let rose = Kind::BOTH.iter().any(|kind| has_pending[kind.index()] && !self.has_pending[kind.index()]);
        self.has_pending = has_pending;
        if has_pending == [false; 2] || (self.armed != Time::NEVER && !rose) {
            return;
        }
        let next =
            Kind::BOTH.iter().filter(|kind| has_pending[kind.index()]).filter_map(|kind| self.next(*kind, now, nodes));
        let Some((at, node)) = next.min() else { return };
        if at < self.armed {
            self.version += 1;
            self.armed = at;
            queue.push(at, Tick::Offer { node, version: self.version });
        }
    }

    /// The next node with a free slot of this kind, and when it beats.
    fn next(&self, kind: Kind, now: Time, nodes: &[Node]) -> Option<(Time, u32)> {
        let ring = &self.free[kind.index()];
        let first = ring.next_from(self.grid.node_from(now))?;
        let mut node = first;
        loop {
            let at = self.grid.beat_from(node, now);
            // One that has had its turn at this very instant stands last, whatever its place.
            if at > now || nodes[node as usize].last_beat != now {
                return Some((at, node));
            }
            node = ring.next_from(node + 1)?;
            if node == first {
                return Some((self.grid.beat_after(node, now), node));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn offers_go_round_by_the_grid_and_stop_when_nobody_is_hungry() {
        let cluster = fixture::cluster(3);
        let mut nodes: Vec<Node> = cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect();
        let mut offers = Offers::new(Grid::new(&cluster), 3);
        let mut queue = Queue::new(cluster.heartbeat);
        for node in [0, 2] {
            offers.note(node, &nodes[node as usize], Kind::Map, Time::ZERO);
        }
        let mut seen = Vec::new();
        let mut now = Time(1);
        for _ in 0..4 {
            offers.arm(now, [true, false], &nodes, &mut queue);
            let (at, Tick::Offer { node, version }) = queue.pop().unwrap() else { panic!("not an offer") };
            assert!(offers.came_up(version));
            (now, nodes[node as usize].last_beat) = (at, at);
            seen.push((at.0 / 1_000_000, node));
        }
        assert_eq!(seen, [(2, 2), (3, 0), (5, 2), (6, 0)]);
        offers.arm(now, [false, false], &nodes, &mut queue);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_single_node_offers_once_an_interval() {
        let cluster = fixture::cluster(1);
        let mut nodes = vec![Node::new(&cluster.nodes[0].spec)];
        let mut offers = Offers::new(Grid::new(&cluster), 1);
        let mut queue = Queue::new(cluster.heartbeat);
        offers.note(0, &nodes[0], Kind::Reduce, Time::ZERO);
        nodes[0].last_beat = Time(3_000_000);
        offers.arm(Time(3_000_000), [false, true], &nodes, &mut queue);
        assert_eq!(queue.pop().unwrap().0, Time(6_000_000));
    }

    #[test]
    fn a_slot_freed_between_beats_comes_before_the_one_in_line() {
        let cluster = fixture::cluster(3);
        let nodes: Vec<Node> = cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect();
        let mut offers = Offers::new(Grid::new(&cluster), 3);
        let mut queue = Queue::new(cluster.heartbeat);
        offers.note(2, &nodes[2], Kind::Map, Time::ZERO);
        offers.arm(Time(1), [true, false], &nodes, &mut queue);
        offers.note(1, &nodes[1], Kind::Map, Time(1));
        offers.arm(Time(1), [true, false], &nodes, &mut queue);
        let (at, Tick::Offer { node, version }) = queue.pop().unwrap() else { panic!("not an offer") };
        assert_eq!((at, node), (Time(1_000_000), 1));
        assert!(offers.came_up(version));
        let (_, Tick::Offer { version, .. }) = queue.pop().unwrap() else { panic!("not an offer") };
        assert!(!offers.came_up(version), "the old one has been overtaken");
    }
}
