//! A job's waiting maps, by where their data lies.
//!
//! Built once, when the job is first asked, as flat lists by node and by rack whose entries are dropped lazily: a task taken through one
//! list stays in the others until somebody looks there. Whether a task still waits is one bit, so that looking does not fetch the
//! task. Tasks that come back (lost, killed, or the rest of one that ended early) are few; they stand in a list of their own that is
//! looked through first, so lost work is not left for last.

use super::bits::Bits;
use crate::action::Locality;
use crate::event::Split;
use crate::ids::{NodeId, RackId};
use crate::state::{Racks, Task};

/// Jobs of up to so many maps are looked through one by one.
const FEW: usize = 8;

/// A job's waiting maps.
#[derive(Debug, Default)]
pub struct Waiting {
    waits: Bits,
    returned: Vec<u32>,
    next_fresh: u32,
    fresh_end: u32,
    by_node: Option<Index>,
    by_rack: Option<Index>,
    has_hosts: bool,
}

/// Lists of tasks by node or by rack, all in one vector. There are as many of these as there are live jobs, and they are looked into at
/// random, so they are small: a task in a list does not say of which node it is, nor a list where it ends. A job with few tasks has fewer
/// lists than there are nodes; then several nodes share a list, and whoever looks there passes over the tasks of the others.
#[derive(Debug)]
struct Index {
    /// By the low bits of the key, where the list begins: those before are known not to wait any more. [`OVER`] once none is left.
    lists: Vec<u32>,
    /// Tasks, list by list, each list in the order of its tasks; the last one of each is marked.
    entries: Vec<u32>,
    /// Keys below this have lists of their own.
    unshared: u32,
}

const OVER: u32 = u32::MAX;
const LAST: u32 = 1 << 31;

impl Index {
    /// Lists the tasks of a job by a key of the nodes that hold their data, which is below `keys`. Each task has the split of its number.
    fn build(splits: &[Split], keys: usize, key_of: impl Fn(NodeId) -> u32) -> Index {
        let replicas: usize = splits.iter().map(|split| split.hosts.len()).sum();
        // First the length of each list, then where its next task goes, which in the end is where it ends.
        let mut lists = vec![0; keys.min(replicas).next_power_of_two()];
        let low_bits = lists.len() - 1;
        each_pair(splits, &key_of, |key, _| lists[key as usize & low_bits] += 1);
        let mut begin = 0;
        for list in &mut lists {
            begin += std::mem::replace(list, begin);
        }
        let mut entries = vec![0; begin as usize];
        each_pair(splits, &key_of, |key, task| {
            let end = &mut lists[key as usize & low_bits];
            entries[*end as usize] = task;
            *end += 1;
        });
        let mut begin = 0;
        for list in &mut lists {
            let end = std::mem::replace(list, if *list == begin { OVER } else { begin });
            if *list != OVER {
                entries[end as usize - 1] |= LAST;
            }
            begin = end;
        }
        let unshared = if keys <= lists.len() { lists.len() as u32 } else { 0 };
        Index { lists, entries, unshared }
    }

    /// The first task of a key that still waits, dropping those at the front of its list that do not. `near` says whether a task that may be
    /// of another key is of this one.
    fn first_waiting(&mut self, key: u32, waits: &Bits, near: impl Fn(u32) -> bool) -> Option<u32> {
        let low_bits = self.lists.len().checked_sub(1)?;
        let list = &mut self.lists[key as usize & low_bits];
        let (mut at, mut at_front) = (*list, true);
        if at == OVER {
            return None;
        }
        loop {
            let entry = self.entries[at as usize];
            let (task, is_last) = (entry & !LAST, entry & LAST != 0);
            let still_waits = waits.has(task);
            if still_waits && (key < self.unshared || near(task)) {
                return Some(task);
            }
            at_front &= !still_waits;
            if at_front {
                *list = if is_last { OVER } else { at + 1 };
            }
            if is_last {
                return None;
            }
            at += 1;
        }
    }
}

/// Visits the key of every replica with its task. Of replicas with one key that are named together, one is enough.
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

impl Waiting {
    /// All maps of a new job wait.
    pub fn new(splits: &[Split]) -> Waiting {
        let has_hosts = splits.iter().any(|split| !split.hosts.is_empty());
        Waiting {
            waits: Bits::below(splits.len() as u32),
            returned: Vec::new(),
            next_fresh: 0,
            fresh_end: splits.len() as u32,
            by_node: None,
            by_rack: None,
            has_hosts,
        }
    }

    /// Whether any input has a known place.
    pub fn has_hosts(&self) -> bool {
        self.has_hosts
    }

    /// Whether tasks came back and may still wait.
    pub fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Whether a task waits.
    pub fn has(&self, task: u32) -> bool {
        self.waits.has(task)
    }

    /// A task waits no longer.
    pub fn leave(&mut self, task: u32) {
        self.waits.remove(task);
    }

    /// A task waits again, or for the first time if it is the rest of another.
    pub fn come_back(&mut self, task: u32) {
        self.waits.add(task);
        self.returned.push(task);
    }

    /// A task becomes known that has no known place.
    pub fn add(&mut self, task: u32) {
        self.waits.add(task);
        if task == self.fresh_end {
            self.fresh_end += 1;
        } else {
            self.returned.push(task);
        }
    }

    /// A waiting task with data on this node, of so many.
    pub fn on_node(&mut self, node: NodeId, nodes: usize, tasks: &[Task], splits: &[Split]) -> Option<u32> {
        let near = |split: u32| splits[split as usize].hosts.contains(&node);
        self.find(tasks, splits, near, |waiting| {
            let index = waiting.by_node.get_or_insert_with(|| Index::build(splits, nodes, |host| host.0));
            index.first_waiting(node.0, &waiting.waits, near)
        })
    }

    /// A waiting task with data in this rack.
    pub fn in_rack(&mut self, rack: RackId, racks: &Racks, tasks: &[Task], splits: &[Split]) -> Option<u32> {
        let near = |split: u32| splits[split as usize].hosts.iter().any(|&host| racks.of(host) == rack);
        self.find(tasks, splits, near, |waiting| {
            let index =
                waiting.by_rack.get_or_insert_with(|| Index::build(splits, racks.end(), |host| racks.of(host).0));
            index.first_waiting(rack.0, &waiting.waits, near)
        })
    }

    /// A waiting task whose split is near: one that came back, or of a job with few tasks, or one that is `indexed`.
    fn find(
        &mut self,
        tasks: &[Task],
        splits: &[Split],
        near: impl Fn(u32) -> bool,
        indexed: impl FnOnce(&mut Waiting) -> Option<u32>,
    ) -> Option<u32> {
        if !self.has_hosts {
            return None;
        }
        self.drop_started();
        let near = |task: &u32| near(tasks[*task as usize].split);
        if let Some(&task) = self.returned.iter().find(|task| near(task)) {
            return Some(task);
        }
        if splits.len() > FEW {
            return indexed(self);
        }
        (self.next_fresh..self.fresh_end).find(|task| self.waits.has(*task) && near(task))
    }

    /// Any waiting task: first those that came back, then in the order of the input.
    pub fn any(&mut self) -> Option<u32> {
        self.drop_started();
        if let Some(&task) = self.returned.first() {
            return Some(task);
        }
        self.next_fresh = self.waits.first_from(self.next_fresh).unwrap_or(self.fresh_end);
        (self.next_fresh < self.fresh_end).then_some(self.next_fresh)
    }

    fn drop_started(&mut self) {
        if !self.returned.is_empty() {
            self.returned.retain(|&task| self.waits.has(task));
        }
    }
}

/// How far a node is from the nearest replica of a split.
pub fn locality(split: &Split, node: NodeId, racks: &Racks) -> Locality {
    if split.hosts.contains(&node) {
        Locality::Node
    } else if split.hosts.iter().any(|&host| racks.of(host) == racks.of(node)) {
        Locality::Rack
    } else {
        Locality::Remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::JobSpec;
    use crate::ids::{JobId, Kind};
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
        Job::new(&spec, 0, 0, Time::ZERO)
    }

    /// The twin: every waiting task that is near, by looking at all of them.
    fn near(job: &Job, is_near: impl Fn(NodeId) -> bool) -> Vec<u32> {
        let waits = |task: &&Task| task.state == TaskState::Waiting;
        let tasks = job.tasks[0].iter().enumerate().filter(|(_, task)| waits(task));
        let holds = |task: &Task| job.splits[task.split as usize].hosts.iter().any(|&host| is_near(host));
        tasks.filter(|(_, task)| holds(task)).map(|(index, _)| index as u32).collect()
    }

    proptest! {
        /// Tasks start, end early, come back: what the lists find is near, and they find something whenever there is something.
        #[test]
        fn the_lists_find_what_a_look_at_everything_finds(
            (nodes, hosts, steps) in prop_oneof![Just(6u32), Just(1_000)].prop_flat_map(|nodes| {
                // On few nodes each has its list; on many, several share one. Some nodes hold nothing at all.
                let hosts = prop::collection::vec(prop::collection::vec(0..nodes, 0..4), 1..40);
                (Just(nodes + 2), hosts, prop::collection::vec((0..nodes + 2, 0..4u8), 0..200))
            }),
        ) {
            let mut racks = Racks::default();
            (0..nodes).for_each(|node| racks.join(NodeId(node), RackId(node / 2)));
            let mut job = job(hosts);
            for (node, step) in steps {
                let node = NodeId(node);
                let Job { waiting_maps, tasks, splits, .. } = &mut job;
                let found = match step {
                    0 => waiting_maps.on_node(node, nodes as usize, &tasks[0], splits),
                    1 => waiting_maps.in_rack(racks.of(node), &racks, &tasks[0], splits),
                    _ => waiting_maps.any(),
                };
                let expected = match step {
                    0 => near(&job, |host| host == node),
                    1 => near(&job, |host| racks.of(host) == racks.of(node)),
                    _ => {
                        let waits = |(_, task): &(usize, &Task)| task.state == TaskState::Waiting;
                        job.tasks[0].iter().enumerate().filter(waits).map(|(index, _)| index as u32).collect()
                    }
                };
                prop_assert_eq!(found.is_some(), !expected.is_empty());
                if let Some(task) = found {
                    prop_assert!(expected.contains(&task));
                    job.start(Kind::Map, task, node, Time::ZERO);
                }
                // Now and then something that runs comes back, whole or in part.
                if step == 3 && let Some(&task) = job.facts[0].live.first() {
                    if node.0.is_multiple_of(2) && job.bytes(task) > 1 {
                        job.split_off(task, 1, 1, Time::ZERO);
                    } else {
                        job.stop(Kind::Map, task, Time::ZERO);
                        job.wait_again(Kind::Map, task, None);
                    }
                }
            }
        }
    }
}
