//! Pending maps that have run before, or that are the rest of one that ended early, in the order in which they returned.
//!
//! Under preemption a large job has thousands of them, and every offer of a node searches one with input there. So from some number on they are
//! also listed by node and by rack. Entries are dropped lazily: one that is no longer current stays until a search meets it or until most
//! entries are like that.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// At most this many are searched one by one.
const SCAN_MAX: usize = 8;

/// With more entries than this, and most of them not current, those are removed.
const COMPACT_MIN: usize = 32;

/// Returned maps.
#[derive(Clone, Debug, Default)]
pub(super) struct ReturnedMaps {
    /// By map that is pending, the number of the entry that is current.
    current: FxHashMap<u32, u32>,
    next_number: u32,
    /// In the order of return.
    queue: VecDeque<Entry>,
    by_node: Lists,
    by_rack: Lists,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    map: u32,
    number: u32,
}

/// Entries by key.
#[derive(Clone, Debug, Default)]
struct Lists {
    by_key: FxHashMap<u32, VecDeque<Entry>>,
    /// Entries with a lower number are in the lists.
    listed_until: u32,
}

impl ReturnedMaps {
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// All of them, in the order of return.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.queue.iter().filter(|entry| is_current(&self.current, **entry)).map(|entry| entry.map)
    }

    /// A map is pending again.
    pub(super) fn push(&mut self, map: u32) {
        let entry = Entry { map, number: self.next_number };
        self.next_number += 1;
        self.current.insert(map, entry.number);
        if self.queue.len() > COMPACT_MIN && self.queue.len() > 2 * self.current.len() {
            let current = &self.current;
            self.queue.retain(|entry| is_current(current, *entry));
            for lists in [&mut self.by_node, &mut self.by_rack] {
                lists.by_key.values_mut().for_each(|list| list.retain(|entry| is_current(current, *entry)));
                lists.by_key.retain(|_, list| !list.is_empty());
            }
        }
        self.queue.push_back(entry);
    }

    /// A map was launched.
    pub(super) fn remove(&mut self, map: u32) {
        if !self.current.is_empty() {
            self.current.remove(&map);
        }
    }

    /// The accepted one that returned first.
    pub(super) fn first(&mut self, accepts: &dyn Fn(u32) -> bool) -> Option<u32> {
        if self.is_empty() {
            self.queue.clear();
            return None;
        }
        first_accepted(&self.current, &mut self.queue, accepts)
    }

    /// The first accepted one with input on a node. `nodes_of` returns the nodes that hold the input of a map.
    pub(super) fn first_on_node<I: Iterator<Item = u32>>(
        &mut self,
        node: u32,
        nodes_of: impl Fn(u32) -> I,
        accepts: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        first_with(&self.current, &self.queue, self.next_number, &mut self.by_node, (node, nodes_of), accepts)
    }

    /// The first accepted one with input in a rack. `racks_of` returns the racks that hold the input of a map, possibly several times.
    pub(super) fn first_in_rack<I: Iterator<Item = u32>>(
        &mut self,
        rack: u32,
        racks_of: impl Fn(u32) -> I,
        accepts: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        first_with(&self.current, &self.queue, self.next_number, &mut self.by_rack, (rack, racks_of), accepts)
    }
}

fn is_current(current: &FxHashMap<u32, u32>, entry: Entry) -> bool {
    current.get(&entry.map) == Some(&entry.number)
}

fn first_with<I: Iterator<Item = u32>>(
    current: &FxHashMap<u32, u32>,
    queue: &VecDeque<Entry>,
    next_number: u32,
    lists: &mut Lists,
    (key, keys_of): (u32, impl Fn(u32) -> I),
    accepts: &dyn Fn(u32) -> bool,
) -> Option<u32> {
    if current.is_empty() {
        return None;
    }
    if current.len() <= SCAN_MAX {
        let is_near = |entry: &Entry| keys_of(entry.map).any(|of| of == key);
        let found = |entry: &&Entry| is_current(current, **entry) && is_near(entry) && accepts(entry.map);
        return queue.iter().find(found).map(|entry| entry.map);
    }
    let listed = queue.partition_point(|entry| entry.number < lists.listed_until);
    for entry in queue.range(listed..).filter(|entry| is_current(current, **entry)) {
        for key in keys_of(entry.map) {
            let list = lists.by_key.entry(key).or_default();
            if list.back() != Some(entry) {
                list.push_back(*entry);
            }
        }
    }
    lists.listed_until = next_number;
    first_accepted(current, lists.by_key.get_mut(&key)?, accepts)
}

/// The first current entry of a list that is accepted. Entries before the first current one are dropped.
fn first_accepted(
    current: &FxHashMap<u32, u32>,
    list: &mut VecDeque<Entry>,
    accepts: &dyn Fn(u32) -> bool,
) -> Option<u32> {
    while list.front().is_some_and(|entry| !is_current(current, *entry)) {
        list.pop_front();
    }
    list.iter().find(|entry| is_current(current, **entry) && accepts(entry.map)).map(|entry| entry.map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Maps return and are launched again: every search finds the one that returned first among those with the key.
        #[test]
        fn searches_agree_with_a_plain_list(steps in prop::collection::vec((0..60u32, 0..6u8), 0..600)) {
            let keys = |map: u32| [map % 5, map % 7].into_iter();
            let mut maps = ReturnedMaps::default();
            let mut plain: Vec<u32> = Vec::new();
            for (map, step) in steps {
                if step < 4 && !plain.contains(&map) {
                    maps.push(map);
                    plain.push(map);
                } else if plain.contains(&map) {
                    maps.remove(map);
                    plain.retain(|other| *other != map);
                }
                let key = map % 7;
                let accepts = |map: u32| !(map + u32::from(step)).is_multiple_of(3);
                let mut accepted = plain.iter().copied().filter(|map| accepts(*map));
                prop_assert_eq!(maps.first(&accepts), accepted.clone().next());
                let first = accepted.find(|map| keys(*map).any(|of| of == key));
                if step % 2 == 0 {
                    prop_assert_eq!(maps.first_on_node(key, keys, &accepts), first);
                }
                prop_assert_eq!(maps.first_in_rack(key, keys, &accepts), first);
                prop_assert_eq!(maps.is_empty(), plain.is_empty());
                prop_assert!(maps.queue.len() <= COMPACT_MIN + 2 * 60 + 2);
            }
        }
    }
}
