//! The ranking: all jobs that need a slot of a kind, sorted by rank.
//!
//! A [`Ranking`] is a tree: groups (pools, queues, users) are queued below the root, jobs are queued in their group. When the counts or
//! estimates of a job change, only that job and its groups are moved, so that the cost of a decision does not grow with the number of
//! nodes. Jobs that wait for a local node (delay scheduling) are kept apart from the queue, so that a search for a node visits only those
//! of them for which that node is local.

mod comparison;
mod group_queries;
mod job_queues;
mod memory;
mod rank_queue;
mod search;
mod sorted_on_demand;

pub use comparison::{Claim, Comparison, Rankings, Standing};
pub use job_queues::TypeSet;
pub use memory::{GroupNumbers, GroupsMemory};
pub use search::Visits;

use super::groups::{Group, GroupSource, RoutingStage};
use super::orders::Rank;
use crate::ids::Kind;
use crate::state::JobKey;
use crate::state::bit_set::BitSet;
use crate::tenants::Tenants;
use job_queues::JobQueues;
use rank_queue::RankQueue;
use rustc_hash::FxHashMap;

/// The index of a group in a ranking.
type GroupIndex = u32;

const ROOT: GroupIndex = 0;

/// The jobs that need a slot of a kind, in groups, for one routing stage.
#[derive(Debug)]
pub struct Ranking {
    stage: RoutingStage,
    kind: Kind,
    groups: Vec<GroupNode>,
    by_name: FxHashMap<(GroupIndex, String), GroupIndex>,
    entries: Vec<Entry>,
    /// True if it is for guaranteed slots and no group has had any: then no search finds a job, and none is queued.
    is_unused: bool,
}

/// A group in the tree.
#[derive(Debug)]
struct GroupNode {
    parent: GroupIndex,
    facts: Group,
    /// Its rank in its parent's queue, if it has jobs that need a slot.
    queued: Option<Rank>,
    groups: RankQueue,
    jobs: JobQueues,
    /// Its jobs that need a slot and are delayed; they are not among `jobs`.
    delayed: BitSet,
    delayed_count: u32,
}

/// A job in the tree. Aligned so that it is in one cache line: a search reads the entries of many jobs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Entry {
    group: GroupIndex,
    user: u32,
    /// Its rank, if it needs a slot.
    queued: Option<Rank>,
    delayed: bool,
    /// The types of nodes that it refuses.
    refused: TypeSet,
}

impl GroupNode {
    fn new(parent: GroupIndex, facts: Group) -> GroupNode {
        GroupNode {
            parent,
            facts,
            queued: None,
            groups: RankQueue::default(),
            jobs: JobQueues::default(),
            delayed: BitSet::default(),
            delayed_count: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.jobs.is_empty() && self.delayed_count == 0
    }

    fn insert(&mut self, rank: Rank, job: JobKey, entry: &Entry) {
        if entry.delayed {
            self.delayed.insert(job.number());
            self.delayed_count += 1;
        } else {
            self.jobs.insert(entry.refused, rank, job.number());
        }
    }

    fn remove(&mut self, rank: Rank, job: JobKey, entry: &Entry) {
        if entry.delayed {
            self.delayed.remove(job.number());
            self.delayed_count -= 1;
        } else {
            self.jobs.remove(entry.refused, rank);
        }
    }
}

impl Ranking {
    /// An empty ranking with the declared groups.
    pub fn new(stage: RoutingStage, kind: Kind, tenants: &Tenants) -> Ranking {
        let root = GroupNode::new(ROOT, Group::undeclared(""));
        let (by_name, entries) = Default::default();
        let mut ranking = Ranking { stage, kind, groups: vec![root], by_name, entries, is_unused: false };
        match stage.source() {
            GroupSource::None => {}
            GroupSource::Pool => tenants.pools.iter().for_each(|pool| {
                ranking.declare_pool(tenants, &pool.name);
            }),
            GroupSource::User => {
                for user in &tenants.users {
                    let group = ranking.group(ROOT, &user.name);
                    let facts = &mut ranking.groups[group as usize].facts;
                    (facts.weight, facts.min_share) = (user.weight, user.min_share);
                }
            }
        }
        ranking.mark_guarantees();
        // Groups that are not declared have no min share.
        ranking.is_unused = stage.is_guarantee() && ranking.groups.iter().all(|group| group.facts.min_share == 0);
        ranking
    }

    fn declare_pool(&mut self, tenants: &Tenants, name: &str) -> GroupIndex {
        let Some(pool) = tenants.pools.iter().find(|pool| pool.name == name) else { return self.group(ROOT, name) };
        if let Some(&group) = self.by_name.get(&(ROOT, pool.name.clone())) {
            return group;
        }
        let parent = pool.parent.as_ref().map_or(ROOT, |parent| self.declare_pool(tenants, parent));
        let facts = Group::pool(tenants, pool, &self.groups[parent as usize].facts, self.kind);
        // Pools are named without their ancestors, as in Hadoop's files, so all names are found under the root.
        self.add_group(parent, facts, (ROOT, pool.name.clone()))
    }

    /// Marks the groups that contain one with guaranteed slots.
    fn mark_guarantees(&mut self) {
        self.groups.iter_mut().for_each(|group| group.facts.guarantee_inside = false);
        // A group's number is larger than its parent's, so that going backwards meets children first.
        for at in (1..self.groups.len()).rev() {
            let GroupNode { parent, ref facts, .. } = self.groups[at];
            if facts.guaranteed() > 0 || facts.guarantee_inside {
                self.groups[parent as usize].facts.guarantee_inside = true;
            }
        }
    }

    /// Sets the slots that each group is due because it is behind its fair share. `charged` are the slots of each job of the kind, needed when the first group
    /// is guaranteed any: until then none is counted.
    pub fn set_due_shares(&mut self, due: &[u32], charged: impl Iterator<Item = (JobKey, u32)>) {
        debug_assert!(self.stage.is_guarantee());
        if self.is_unused && due.iter().all(|&slots| slots == 0) {
            return;
        }
        for (group, &slots) in self.groups.iter_mut().zip(due) {
            group.facts.due_share = slots;
        }
        self.mark_guarantees();
        if std::mem::take(&mut self.is_unused) {
            charged.filter(|&(_, slots)| slots > 0).for_each(|(job, slots)| self.charge(job, i64::from(slots)));
        }
        (1..self.groups.len() as GroupIndex).for_each(|at| self.requeue(at));
    }

    fn add_group(&mut self, parent: GroupIndex, facts: Group, name: (GroupIndex, String)) -> GroupIndex {
        let index = self.groups.len() as GroupIndex;
        self.groups.push(GroupNode::new(parent, facts));
        self.by_name.insert(name, index);
        index
    }

    /// The group of a name under a parent, added if it is new.
    fn group(&mut self, parent: GroupIndex, name: &str) -> GroupIndex {
        match self.by_name.get(&(parent, name.to_owned())) {
            Some(&group) => group,
            None => self.add_group(parent, Group::undeclared(name), (parent, name.to_owned())),
        }
    }

    /// Assigns a job to its group. It is not queued yet.
    pub fn add_job(&mut self, job: JobKey, user: u32, user_name: &str, pool: &str, classes: Option<[Option<u16>; 2]>) {
        let group = match self.stage.source() {
            GroupSource::None => ROOT,
            GroupSource::Pool => self.group(ROOT, pool),
            GroupSource::User => {
                let group = self.group(ROOT, user_name);
                classes.map_or(group, |classes| self.class_group(group, classes))
            }
        };
        if self.entries.len() <= job.index() {
            self.entries.resize(job.index() + 1, Entry::default());
        }
        self.entries[job.index()] = Entry { group, user, ..Entry::default() };
    }

    fn class_group(&mut self, user: GroupIndex, classes: [Option<u16>; 2]) -> GroupIndex {
        let group = self.group(user, &format!("{:?}/{:?}", classes[0], classes[1]));
        self.groups[group as usize].facts.classes = Some(classes);
        group
    }

    /// True if no job needs a slot.
    pub fn is_empty(&self) -> bool {
        self.groups[ROOT as usize].is_empty()
    }

    /// Queues a job at a rank, moves it there, or removes it from its queue. Most calls change nothing.
    #[inline]
    pub fn set_rank(&mut self, job: JobKey, rank: Option<Rank>) {
        if !self.is_unused && self.entries[job.index()].queued != rank {
            self.move_to_rank(job, rank);
        }
    }

    fn move_to_rank(&mut self, job: JobKey, rank: Option<Rank>) {
        let entry = self.entries[job.index()];
        self.entries[job.index()].queued = rank;
        let group = &mut self.groups[entry.group as usize];
        match (entry.queued, rank) {
            // A delayed job is in no queue.
            (Some(_), Some(_)) if entry.delayed => return,
            (Some(old), Some(new)) => return group.jobs.change_rank(entry.refused, old, new, job.number()),
            (Some(old), None) => group.remove(old, job, &entry),
            (None, Some(new)) => group.insert(new, job, &entry),
            (None, None) => return,
        }
        if self.stage.counts_users() {
            let waiting = if rank.is_some() { 1 } else { -1 };
            self.groups[entry.group as usize].facts.count_user(entry.user, 0, waiting);
        }
        self.requeue(entry.group);
    }

    /// Sets whether a job is delayed: then only nodes that are local to it should offer it a slot.
    pub fn set_delayed(&mut self, job: JobKey, delayed: bool) {
        self.change_entry(job, Entry { delayed, ..self.entries[job.index()] });
    }

    /// Sets the types of nodes that a job refuses.
    #[inline]
    pub fn set_refused(&mut self, job: JobKey, refused: TypeSet) {
        if self.entries[job.index()].refused != refused {
            self.change_entry(job, Entry { refused, ..self.entries[job.index()] });
        }
    }

    /// The types of nodes that a job refuses; none if it needs no slot.
    pub fn refused(&self, job: JobKey) -> TypeSet {
        let entry = &self.entries[job.index()];
        if entry.queued.is_some() { entry.refused } else { 0 }
    }

    fn change_entry(&mut self, job: JobKey, new: Entry) {
        let old = std::mem::replace(&mut self.entries[job.index()], new);
        if let Some(rank) = new.queued
            && (old.delayed, old.refused) != (new.delayed, new.refused)
        {
            let group = &mut self.groups[new.group as usize];
            group.remove(rank, job, &old);
            group.insert(rank, job, &new);
        }
    }

    /// True if slots of a kind count for its groups.
    pub fn counts(&self, kind: Kind) -> bool {
        !self.is_unused && self.stage.counts(self.kind, kind)
    }

    /// A job's allocation changed: its group and those above it are charged and moved.
    pub fn charge(&mut self, job: JobKey, slots: i64) {
        let entry = self.entries[job.index()];
        if self.stage.counts_users() {
            self.groups[entry.group as usize].facts.count_user(entry.user, slots, 0);
        }
        let mut at = entry.group;
        while at != ROOT {
            let facts = &mut self.groups[at as usize].facts;
            let allocated = i64::from(facts.allocated) + slots;
            facts.allocated = u32::try_from(allocated).expect("a group's allocation is not negative");
            self.requeue(at);
            at = self.groups[at as usize].parent;
        }
    }

    /// Moves a group to its present rank in its parent's queue.
    fn requeue(&mut self, at: GroupIndex) {
        if at == ROOT {
            return;
        }
        let group = &self.groups[at as usize];
        let (old, parent) = (group.queued, group.parent);
        let new = (!group.is_empty()).then(|| self.group_rank(at, 0));
        if old == new {
            return;
        }
        self.groups[at as usize].queued = new;
        let queue = &mut self.groups[parent as usize].groups;
        match (old, new) {
            (Some(old), Some(new)) => return queue.change_rank(old, new, at),
            (Some(old), None) => queue.remove(old),
            (None, Some(new)) => queue.insert(new, at),
            (None, None) => return,
        }
        self.requeue(parent);
    }

    fn group_rank(&self, at: GroupIndex, extra: i64) -> Rank {
        self.stage.rank(&self.groups[at as usize].facts, extra) << 32 | Rank::from(at)
    }
}
