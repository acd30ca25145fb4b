//! A job's pending maps, indexed by the nodes and racks that hold their input.
//!
//! The index is built when it is first used, as flat lists by node and by rack. Entries are dropped lazily: a map found through one list
//! stays in the others until a search meets it there. Whether a map is still pending is one bit, so that a search does not read the
//! task itself. Maps that become pending again (lost, killed, or the rest of one that ended early) are in a list of their own
//! (`returned_maps.rs`) that is searched first, so that lost work does not run last.

use super::bit_set::BitSet;
use super::racks::Racks;
use super::returned_maps::ReturnedMaps;
use super::task::Task;
use crate::event::Split;
use crate::ids::{NodeId, RackId};
use serde::{Deserialize, Serialize};

/// Jobs with at most this many maps are searched without an index.
const INDEX_MIN_MAPS: usize = 8;

/// A job's pending maps.
///
/// What is stored of them are those that have run before, in the order in which they are launched: the rest follows from the tasks of the job.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<u32>", into = "Vec<u32>")]
pub(super) struct PendingMaps {
    pending: BitSet,
    /// `None` if there are none, as for most jobs at most times: searches read this often.
    returned: Option<Box<ReturnedMaps>>,
    /// Of those the ones that [`PendingMaps::take_newly_returned`] has not reported.
    newly_returned: Vec<u32>,
    /// No map before this one is pending, except for those in `returned`.
    next_fresh: u32,
    fresh_end: u32,
    by_node: Option<Index>,
    by_rack: Option<Index>,
    has_hosts: bool,
}

/// Lists of maps by node or by rack.
///
/// There is one index per live job, read at random, so what counts is the number of cache lines that a search reads. A job with few maps
/// has fewer lists than there are nodes; then several nodes share a list, and a search skips the maps of the others.
#[derive(Debug)]
struct Index {
    /// By the low bits of the key.
    lists: Vec<List>,
    /// The entries of all lists, list by list.
    entries: Vec<Entry>,
}

/// A list in ascending order of maps, without those at its front that are no longer pending.
#[derive(Clone, Copy, Debug)]
struct List {
    /// A copy of its first entry, because most lists of a large cluster have only one.
    first: Entry,
    /// Where the list continues, unless `first` is the last entry.
    next: u32,
}

/// A map with input on the node or in the rack that is the key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    /// The map; with the bit [`LAST`] if it is the last of its list.
    map: u32,
}

const LAST: u32 = 1 << 31;

/// The first entry of an empty list.
const NONE: Entry = Entry { key: u32::MAX, map: u32::MAX };

impl Index {
    /// Lists a job's maps by a key of the nodes that hold their input. Keys are below `keys`. Map number n has split n.
    fn build(splits: &[Split], keys: usize, key_of: impl Fn(NodeId) -> u32) -> Index {
        let replicas: usize = splits.iter().map(|split| split.hosts.len()).sum();
        // In the first pass the length of each list, in the second its next free position, which in the end is its end.
        let mut ends = vec![0; keys.min(replicas).next_power_of_two()];
        let low_bits = ends.len() - 1;
        each_pair(splits, &key_of, |key, _| ends[key as usize & low_bits] += 1);
        let mut begin = 0;
        for end in &mut ends {
            begin += std::mem::replace(end, begin);
        }
        let mut entries = vec![NONE; begin as usize];
        each_pair(splits, &key_of, |key, map| {
            let end = &mut ends[key as usize & low_bits];
            entries[*end as usize] = Entry { key, map };
            *end += 1;
        });
        let mut begin = 0;
        let list = |end: u32| {
            let begin = std::mem::replace(&mut begin, end);
            if begin == end {
                return List { first: NONE, next: 0 };
            }
            entries[end as usize - 1].map |= LAST;
            List { first: entries[begin as usize], next: begin + 1 }
        };
        Index { lists: ends.into_iter().map(list).collect(), entries }
    }

    /// The first pending map of a key. Launched maps at the front of the list are dropped.
    fn first_pending(&mut self, key: u32, pending: &BitSet, accepts: &dyn Fn(u32) -> bool) -> Option<u32> {
        let low_bits = self.lists.len().checked_sub(1)?;
        let list = &mut self.lists[key as usize & low_bits];
        if list.first.map == NONE.map {
            return None;
        }
        let (List { first: mut entry, mut next }, mut at_front) = (*list, true);
        loop {
            let (map, is_last) = (entry.map & !LAST, entry.map & LAST != 0);
            let still_pending = pending.contains(map);
            if still_pending && entry.key == key && accepts(map) {
                return Some(map);
            }
            at_front &= !still_pending;
            if is_last {
                if at_front {
                    list.first = NONE;
                }
                return None;
            }
            entry = self.entries[next as usize];
            next += 1;
            if at_front {
                *list = List { first: entry, next };
            }
        }
    }
}

/// Calls `visit` with the key of every replica and its map. Of consecutive replicas with the same key only the first counts.
fn each_pair(splits: &[Split], key_of: impl Fn(NodeId) -> u32, mut visit: impl FnMut(u32, u32)) {
    for (task, split) in splits.iter().enumerate() {
        let mut last = None;
        for &host in &split.hosts {
            let key = key_of(host);
            if last != Some(key) {
                visit(key, task as u32);
            }
            last = Some(key);
        }
    }
}

impl Clone for PendingMaps {
    /// Without the indexes, which are built when they are first used.
    fn clone(&self) -> PendingMaps {
        let &PendingMaps { next_fresh, fresh_end, has_hosts, .. } = self;
        let (pending, returned, newly_returned) =
            (self.pending.clone(), self.returned.clone(), self.newly_returned.clone());
        PendingMaps {
            pending,
            returned,
            newly_returned,
            next_fresh,
            fresh_end,
            by_node: None,
            by_rack: None,
            has_hosts,
        }
    }
}

impl From<PendingMaps> for Vec<u32> {
    fn from(maps: PendingMaps) -> Vec<u32> {
        maps.returned().collect()
    }
}

impl From<Vec<u32>> for PendingMaps {
    fn from(returned: Vec<u32>) -> PendingMaps {
        let mut maps = PendingMaps::default();
        returned.into_iter().for_each(|map| maps.returned.get_or_insert_default().push(map));
        maps
    }
}

impl PendingMaps {
    /// The maps of a new job, one per split.
    pub(super) fn new(splits: &[Split]) -> PendingMaps {
        let has_hosts = splits.iter().any(|split| !split.hosts.is_empty());
        PendingMaps {
            pending: BitSet::below(splits.len() as u32),
            returned: None,
            newly_returned: Vec::new(),
            next_fresh: 0,
            fresh_end: splits.len() as u32,
            by_node: None,
            by_rack: None,
            has_hosts,
        }
    }

    /// Those that were read from a snapshot, of a job with these pending maps.
    pub(super) fn complete(&mut self, pending: BitSet, splits: &[Split]) {
        *self = PendingMaps { pending, returned: self.returned.take(), ..PendingMaps::new(splits) };
    }

    /// True if the location of some input is known.
    pub(super) fn has_hosts(&self) -> bool {
        self.has_hosts
    }

    /// True if [`PendingMaps::take_newly_returned`] has something to report.
    #[inline]
    pub(super) fn has_newly_returned(&self) -> bool {
        !self.newly_returned.is_empty()
    }

    /// The maps that have become pending again, or were added as the rest of another, since the last call.
    pub(super) fn take_newly_returned(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.newly_returned)
    }

    /// True if a map is pending.
    pub(super) fn contains(&self, task: u32) -> bool {
        self.pending.contains(task)
    }

    /// Those that have run before, or are the rest of one that ended early, in the order in which they are launched.
    pub(super) fn returned(&self) -> impl Iterator<Item = u32> + '_ {
        self.returned.iter().flat_map(|returned| returned.iter())
    }

    /// A map was launched.
    pub(super) fn remove(&mut self, task: u32) {
        self.pending.remove(task);
        if let Some(returned) = &mut self.returned {
            returned.remove(task);
            if returned.is_empty() {
                self.returned = None;
            }
        }
    }

    /// A map is pending again, or is the rest of one that ended early.
    pub(super) fn add_returned(&mut self, task: u32) {
        self.pending.insert(task);
        self.returned.get_or_insert_default().push(task);
        self.newly_returned.push(task);
    }

    /// A pending map with input on a node. Node ids are below `nodes`; `accepts` is asked of maps that have run before.
    pub(super) fn on_node(
        &mut self,
        node: NodeId,
        nodes: usize,
        tasks: &[Task],
        splits: &[Split],
        accepts: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        if !self.has_hosts {
            return None;
        }
        let hosts = |task: u32| splits[tasks[task as usize].split as usize].hosts.iter();
        if let Some(returned) = &mut self.returned
            && let Some(task) = returned.first_on_node(node.0, |task| hosts(task).map(|host| host.0), accepts)
        {
            return Some(task);
        }
        let near = |split: u32| splits[split as usize].hosts.contains(&node);
        self.first_fresh(tasks, splits, near, accepts, |maps| {
            let index = maps.by_node.get_or_insert_with(|| Index::build(splits, nodes, |host| host.0));
            index.first_pending(node.0, &maps.pending, accepts)
        })
    }

    /// False if certainly no pending map has input on a node.
    pub(super) fn may_be_on_node(&mut self, node: NodeId) -> bool {
        match &mut self.by_node {
            Some(index) if self.returned.is_none() => index.first_pending(node.0, &self.pending, &|_| true).is_some(),
            _ => true,
        }
    }

    /// A pending map with input in a rack.
    pub(super) fn in_rack(
        &mut self,
        rack: RackId,
        racks: &Racks,
        tasks: &[Task],
        splits: &[Split],
        accepts: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        if !self.has_hosts {
            return None;
        }
        let hosts = |task: u32| splits[tasks[task as usize].split as usize].hosts.iter();
        let racks_of = |task: u32| hosts(task).map(|&host| racks.of(host).0);
        if let Some(returned) = &mut self.returned
            && let Some(task) = returned.first_in_rack(rack.0, racks_of, accepts)
        {
            return Some(task);
        }
        let near = |split: u32| splits[split as usize].hosts.iter().any(|&host| racks.of(host) == rack);
        self.first_fresh(tasks, splits, near, accepts, |maps| {
            let index =
                maps.by_rack.get_or_insert_with(|| Index::build(splits, racks.id_end(), |host| racks.of(host).0));
            index.first_pending(rack.0, &maps.pending, accepts)
        })
    }

    /// A pending map that has not run before and whose split is `near`, found without or through an index.
    fn first_fresh(
        &mut self,
        tasks: &[Task],
        splits: &[Split],
        near: impl Fn(u32) -> bool,
        accepts: &dyn Fn(u32) -> bool,
        indexed: impl FnOnce(&mut PendingMaps) -> Option<u32>,
    ) -> Option<u32> {
        if splits.len() > INDEX_MIN_MAPS {
            return indexed(self);
        }
        let is_near = |task: u32| near(tasks[task as usize].split);
        (self.next_fresh..self.fresh_end).find(|task| self.pending.contains(*task) && is_near(*task) && accepts(*task))
    }

    /// The first accepted one of the maps that returned.
    pub(super) fn first_returned(&mut self, accepts: &dyn Fn(u32) -> bool) -> Option<u32> {
        self.returned.as_mut()?.first(accepts)
    }

    /// Any pending map: first those that returned, then in the order of the input.
    pub(super) fn any(&mut self, accepts: &dyn Fn(u32) -> bool) -> Option<u32> {
        if let Some(task) = self.first_returned(accepts) {
            return Some(task);
        }
        self.next_fresh = self.pending.first_from(self.next_fresh).unwrap_or(self.fresh_end);
        // A map that returned is no longer fresh.
        let mut fresh = Some(self.next_fresh);
        while let Some(task) = fresh.filter(|&task| task < self.fresh_end) {
            if accepts(task) {
                return Some(task);
            }
            fresh = self.pending.first_from(task + 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::JobSpec;
    use crate::ids::{JobId, Kind, TaskKey};
    use crate::state::{Job, TaskState};
    use crate::units::{Time, WHOLE_PPM};
    use proptest::prelude::*;

    fn job(hosts: Vec<Vec<u32>>) -> Job {
        let splits = hosts.into_iter().map(|on| Split { bytes: 100, hosts: on.into_iter().map(NodeId).collect() });
        let spec = JobSpec {
            external_id: None,
            id: JobId(0),
            name: String::new(),
            user: String::new(),
            pool: String::new(),
            priority: Default::default(),
            splits: splits.collect(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        Job::new(&spec, 0, 0, false, u32::MAX as usize, Time::ZERO)
    }

    fn pending(job: &Job) -> impl Iterator<Item = (u32, &Task)> {
        (0..).zip(&job.tasks[Kind::Map]).filter(|(_, task)| task.state == TaskState::Pending)
    }

    /// The reference implementation: every pending map that is near, found by looking at all maps.
    fn near(job: &Job, is_near: impl Fn(NodeId) -> bool) -> Vec<u32> {
        let holds = |task: &Task| job.splits[task.split as usize].hosts.iter().any(|&host| is_near(host));
        pending(job).filter(|(_, task)| holds(task)).map(|(map, _)| map).collect()
    }

    proptest! {
        /// Maps start, end early and become pending again: the index finds a near map whenever there is one, and no other.
        #[test]
        fn the_index_agrees_with_a_full_search(
            (nodes, hosts, steps) in prop_oneof![Just(6u32), Just(1_000)].prop_flat_map(|nodes| {
                // With few nodes each has a list of its own; with many, several share one. Some nodes hold no replica.
                let hosts = prop::collection::vec(prop::collection::vec(0..nodes, 0..4), 1..40);
                (Just(nodes + 2), hosts, prop::collection::vec((0..nodes + 2, 0..4u8), 0..200))
            }),
        ) {
            let mut racks = Racks::default();
            (0..nodes).for_each(|node| racks.join(NodeId(node), RackId(node / 2)));
            let mut job = job(hosts);
            for (node, step) in steps {
                let node = NodeId(node);
                let found = match step {
                    0 => job.node_local_map(node, &racks, Time::ZERO),
                    1 => job.rack_local_map(node, &racks, Time::ZERO),
                    _ => job.any_pending_map(node, Time::ZERO),
                };
                let expected = match step {
                    0 => near(&job, |host| host == node),
                    1 => near(&job, |host| racks.of(host) == racks.of(node)),
                    _ => pending(&job).map(|(map, _)| map).collect(),
                };
                prop_assert_eq!(found.is_some(), !expected.is_empty());
                if let Some(map) = found {
                    prop_assert!(expected.contains(&map));
                    job.start(TaskKey::map(map), node, Time::ZERO);
                }
                // Some running maps become pending again, whole or in part.
                if step == 3 && let Some(&map) = job.counts[Kind::Map].running.first() {
                    if node.0.is_multiple_of(2) && job.map_bytes(map) > 1 {
                        job.end_early(map, 1, 1, (1.0, 1.0), Time::ZERO);
                    } else {
                        job.stop(TaskKey::map(map), Time::ZERO);
                        job.make_pending(TaskKey::map(map), None);
                    }
                }
            }
        }
    }
}
