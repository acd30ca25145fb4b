//! A job's waiting maps, by where their data lies.
//!
//! Built once when the job arrives, as flat lists by node and by rack whose entries are dropped lazily: a task taken through one
//! list stays in the others until somebody looks there. Tasks that come back (lost, killed, or the rest of one that ended early)
//! are few; they stand in a list of their own that is looked through first, so lost work is not left for last.

use crate::action::Locality;
use crate::event::Split;
use crate::ids::{NodeId, RackId};
use crate::state::{Task, TaskState};

/// Jobs of up to so many maps are looked through one by one.
const FEW: usize = 8;

/// A job's waiting maps.
#[derive(Debug, Default)]
pub struct Waiting {
    returned: Vec<u32>,
    next_fresh: u32,
    fresh_end: u32,
    by_node: Index,
    by_rack: Option<Index>,
    has_hosts: bool,
}

/// Lists of tasks by node or by rack, all in one vector.
#[derive(Debug, Default)]
struct Index {
    /// Sorted by key. A job with many tasks has a list for every key, which then is found without a search.
    lists: Vec<List>,
    tasks: Vec<u32>,
}

/// Where one key's tasks stand; those before `next` are known not to wait any more.
#[derive(Clone, Copy, Debug)]
struct List {
    key: u32,
    next: u32,
    end: u32,
}

impl Index {
    /// Lists `(key, task)` pairs, which come in the order of their tasks.
    fn build(pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Index {
        let (count, keys) = pairs.clone().fold((0, 0), |(count, keys), (key, _)| (count + 1, keys.max(key + 1)));
        if keys as usize <= 2 * count { Index::build_full(pairs, keys, count) } else { Index::build_sparse(pairs) }
    }

    fn build_full(pairs: impl Iterator<Item = (u32, u32)> + Clone, keys: u32, count: usize) -> Index {
        let mut lists: Vec<List> = (0..keys).map(|key| List { key, next: 0, end: 0 }).collect();
        for (key, _) in pairs.clone() {
            lists[key as usize].end += 1;
        }
        let mut begin = 0;
        for list in &mut lists {
            let length = list.end;
            (list.next, list.end) = (begin, begin);
            begin += length;
        }
        let mut tasks = vec![0; count];
        for (key, task) in pairs {
            let end = &mut lists[key as usize].end;
            tasks[*end as usize] = task;
            *end += 1;
        }
        Index { lists, tasks }
    }

    fn build_sparse(pairs: impl Iterator<Item = (u32, u32)>) -> Index {
        let mut pairs: Vec<(u32, u32)> = pairs.collect();
        pairs.sort_unstable();
        let mut lists: Vec<List> = Vec::new();
        for (at, &(key, _)) in pairs.iter().enumerate() {
            let at = at as u32;
            match lists.last_mut() {
                Some(list) if list.key == key => list.end = at + 1,
                _ => lists.push(List { key, next: at, end: at + 1 }),
            }
        }
        Index { lists, tasks: pairs.into_iter().map(|(_, task)| task).collect() }
    }

    fn list(&mut self, key: u32) -> Option<&mut List> {
        let at = match self.lists.get(key as usize) {
            Some(list) if list.key == key => key as usize,
            _ => self.lists.binary_search_by_key(&key, |list| list.key).ok()?,
        };
        Some(&mut self.lists[at])
    }

    /// The first task of a key's list that still waits, dropping those that do not.
    fn first_waiting(&mut self, key: u32, all: &[Task]) -> Option<u32> {
        let List { mut next, end, .. } = *self.list(key)?;
        while next < end && all[self.tasks[next as usize] as usize].state != TaskState::Waiting {
            next += 1;
        }
        self.list(key)?.next = next;
        (next < end).then(|| self.tasks[next as usize])
    }
}

impl Waiting {
    /// All maps of a new job wait.
    pub fn new(splits: &[Split]) -> Waiting {
        let has_hosts = splits.iter().any(|split| !split.hosts.is_empty());
        let pairs = splits.iter().enumerate();
        let pairs = pairs.flat_map(|(task, split)| split.hosts.iter().map(move |host| (host.0, task as u32)));
        let by_node = if splits.len() > FEW { Index::build(pairs) } else { Index::default() };
        Waiting {
            returned: Vec::new(),
            next_fresh: 0,
            fresh_end: splits.len() as u32,
            by_node,
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

    /// A task waits again, or for the first time if it is the rest of another.
    pub fn come_back(&mut self, task: u32) {
        self.returned.push(task);
    }

    /// A task becomes known that has no known place.
    pub fn add(&mut self, task: u32) {
        if task == self.fresh_end {
            self.fresh_end += 1;
        } else {
            self.returned.push(task);
        }
    }

    /// A waiting task with data on this node.
    pub fn on_node(&mut self, node: NodeId, tasks: &[Task], splits: &[Split]) -> Option<u32> {
        let holds = |task: &u32| splits[tasks[*task as usize].split as usize].hosts.contains(&node);
        self.find(tasks, splits, holds, |waiting| waiting.by_node.first_waiting(node.0, tasks))
    }

    /// A waiting task with data in this rack.
    pub fn in_rack(
        &mut self,
        rack: RackId,
        rack_of: &impl Fn(NodeId) -> RackId,
        tasks: &[Task],
        splits: &[Split],
    ) -> Option<u32> {
        let in_rack =
            |task: &u32| splits[tasks[*task as usize].split as usize].hosts.iter().any(|&host| rack_of(host) == rack);
        self.find(tasks, splits, in_rack, |waiting| {
            let index = waiting.by_rack.get_or_insert_with(|| {
                let pairs = splits.iter().enumerate();
                Index::build(
                    pairs.flat_map(|(task, split)| split.hosts.iter().map(move |&host| (rack_of(host).0, task as u32))),
                )
            });
            index.first_waiting(rack.0, tasks)
        })
    }

    fn find(
        &mut self,
        tasks: &[Task],
        splits: &[Split],
        near: impl Fn(&u32) -> bool,
        indexed: impl FnOnce(&mut Waiting) -> Option<u32>,
    ) -> Option<u32> {
        if !self.has_hosts {
            return None;
        }
        self.drop_started(tasks);
        if let Some(&task) = self.returned.iter().find(|task| near(task)) {
            return Some(task);
        }
        if splits.len() > FEW {
            return indexed(self);
        }
        (self.next_fresh..self.fresh_end).find(|task| tasks[*task as usize].state == TaskState::Waiting && near(task))
    }

    /// Any waiting task: first those that came back, then in the order of the input.
    pub fn any(&mut self, tasks: &[Task]) -> Option<u32> {
        self.drop_started(tasks);
        if let Some(&task) = self.returned.first() {
            return Some(task);
        }
        while self.next_fresh < self.fresh_end {
            if tasks[self.next_fresh as usize].state == TaskState::Waiting {
                return Some(self.next_fresh);
            }
            self.next_fresh += 1;
        }
        None
    }

    fn drop_started(&mut self, tasks: &[Task]) {
        if !self.returned.is_empty() {
            self.returned.retain(|&task| tasks[task as usize].state == TaskState::Waiting);
        }
    }
}

/// How far a node is from the nearest replica of a split.
pub fn locality(split: &Split, node: NodeId, rack_of: impl Fn(NodeId) -> RackId) -> Locality {
    if split.hosts.contains(&node) {
        Locality::Node
    } else if split.hosts.iter().any(|&host| rack_of(host) == rack_of(node)) {
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
    use crate::state::Job;
    use crate::units::{Time, WHOLE_PPM};
    use proptest::prelude::*;

    const NODES: u32 = 6;

    fn rack_of(node: NodeId) -> RackId {
        RackId(node.0 / 2)
    }

    fn job(hosts: Vec<Vec<u32>>) -> Job {
        let splits = hosts.into_iter().map(|on| Split { bytes: 100, hosts: on.into_iter().map(NodeId).collect() });
        let spec = JobSpec {
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
            hosts in prop::collection::vec(prop::collection::vec(0..NODES, 0..4), 1..40),
            steps in prop::collection::vec((0..NODES, 0..4u8), 0..200),
        ) {
            let mut job = job(hosts);
            for (node, step) in steps {
                let node = NodeId(node);
                let Job { waiting_maps, tasks, splits, .. } = &mut job;
                let found = match step {
                    0 => waiting_maps.on_node(node, &tasks[0], splits),
                    1 => waiting_maps.in_rack(rack_of(node), &rack_of, &tasks[0], splits),
                    _ => waiting_maps.any(&tasks[0]),
                };
                let expected = match step {
                    0 => near(&job, |host| host == node),
                    1 => near(&job, |host| rack_of(host) == rack_of(node)),
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
                    if node.0.is_multiple_of(2) && job.task(Kind::Map, task).bytes > 1 {
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
