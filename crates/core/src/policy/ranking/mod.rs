//! The ranking: all jobs that need a slot of a kind, sorted by rank.
//!
//! A [`Ranking`] is a tree: groups (pools, queues, users) are queued below the root, jobs are queued in their group. When the counts or
//! estimates of a job change, only that job and its groups are moved, so that the cost of a decision does not grow with the number of
//! nodes. Jobs that wait for a local node (delay scheduling) are kept apart from the queue, so that a search for a node visits only those
//! of them for which that node is local.

mod comparison;
mod job_queues;
mod rank_queue;
mod sorted_on_demand;

pub use comparison::{Comparison, Rankings};
pub use job_queues::TypeSet;

use super::groups::{Group, GroupSource, Rights, RoutingStage};
use super::orders::Rank;
use crate::ids::{Kind, PerKind};
use crate::reason::GroupReason;
use crate::state::JobKey;
use crate::state::bit_set::BitSet;
use crate::tenants::Tenants;
use job_queues::JobQueues;
use rank_queue::RankQueue;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sorted_on_demand::SortedOnDemand;
use std::ops::ControlFlow;

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
    /// True if it is for min shares and no group has one: then no search finds a job, and none is queued.
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

/// A job in the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    group: GroupIndex,
    user: u32,
    /// Its rank, if it needs a slot.
    queued: Option<Rank>,
    delayed: bool,
    /// The types of nodes that it refuses.
    refused: TypeSet,
}

/// The jobs that a search visits.
#[derive(Clone, Copy)]
pub enum Visits<'a> {
    /// All jobs.
    All,
    /// Those that may accept a node.
    For {
        /// The type of the node: jobs that refuse it are left out.
        node_type: usize,
        /// The jobs that the node may be local to: of the delayed jobs only these.
        local: &'a BitSet,
        /// Jobs that keep paused reduces on the node, each with one of them: they do not refuse it.
        paused_here: &'a [(JobKey, u32)],
    },
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
        if facts.min_share > 0 {
            let mut above = parent;
            while above != ROOT {
                self.groups[above as usize].facts.min_share_inside = true;
                above = self.groups[above as usize].parent;
            }
        }
        // Pools are named without their ancestors, as in Hadoop's files, so all names are found under the root.
        self.add_group(parent, facts, (ROOT, pool.name.clone()))
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

    /// Visits the jobs in the order of their ranks, group by group, until `visit` breaks. Groups that may not grow, or that `allow` rejects,
    /// are skipped with all their jobs. `slots` is the number of all slots of the kind.
    pub fn search<B>(
        &self,
        slots: u32,
        allow: &impl Fn(&Group) -> bool,
        visits: Visits<'_>,
        visit: &mut impl FnMut(JobKey) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.search_group(ROOT, slots, allow, visits, visit)
    }

    fn search_group<B>(
        &self,
        at: GroupIndex,
        slots: u32,
        allow: &impl Fn(&Group) -> bool,
        visits: Visits<'_>,
        visit: &mut impl FnMut(JobKey) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let group = &self.groups[at as usize];
        for (_, child) in group.groups.iter() {
            let facts = &self.groups[child as usize].facts;
            if self.stage.admits(facts, slots) && allow(facts) {
                self.search_group(child, slots, allow, visits, visit)?;
            }
        }
        if at != ROOT && !self.stage.serves_jobs_of(&group.facts) {
            return ControlFlow::Continue(());
        }
        let limits_users = group.facts.limits_users();
        let mut visit_admitted = |number: u32| {
            let job = JobKey::from_number(number);
            let admitted = !limits_users || group.facts.admits_user(self.entries[job.index()].user, slots);
            if admitted { visit(job) } else { ControlFlow::Continue(()) }
        };
        let (types, mut apart) = match visits {
            Visits::All => {
                let ranked = |job: u32| Some((self.entries[job as usize].queued?, job));
                (TypeSet::MAX, SortedOnDemand::new(group.delayed.iter().filter_map(ranked).collect()))
            }
            Visits::For { node_type, local, paused_here } => {
                (1 << node_type, self.find_apart(at, 1 << node_type, local, paused_here))
            }
        };
        group.jobs.visit(types, |rank, job| {
            while apart.first_rank().is_some_and(|sooner| sooner < rank) {
                apart.take_first().map_or(ControlFlow::Continue(()), &mut visit_admitted)?;
            }
            visit_admitted(job)
        })?;
        while let Some(job) = apart.take_first() {
            visit_admitted(job)?;
        }
        ControlFlow::Continue(())
    }

    /// The jobs of a group that a search for a node visits although they are not in the queues that accept its type.
    fn find_apart(
        &self,
        at: GroupIndex,
        node_type: TypeSet,
        local: &BitSet,
        paused_here: &[(JobKey, u32)],
    ) -> SortedOnDemand {
        let group = &self.groups[at as usize];
        let mut apart = SmallVec::new();
        if group.delayed_count > 0 {
            group.delayed.intersection(local).for_each(|job| {
                let entry = &self.entries[job as usize];
                if let Some(rank) = entry.queued.filter(|_| entry.refused & node_type == 0) {
                    apart.push((rank, job));
                }
            });
        }
        let refuses = |entry: &Entry| entry.group == at && entry.refused & node_type != 0;
        let mut last = None;
        for &(job, _) in paused_here.iter().filter(|(job, _)| refuses(&self.entries[job.index()])) {
            if last.replace(job) != Some(job) {
                apart.extend(self.entries[job.index()].queued.map(|rank| (rank, job.number())));
            }
        }
        SortedOnDemand::new(apart)
    }

    /// True if job `a`, given one of `b`'s slots, would still rank before `b` without it. `a` and `b` come with the ranks they would then
    /// have. A slot that was taken by this rule cannot be taken back by it, so preemption does not cycle (ADR 3).
    pub fn stays_before(&self, a: (JobKey, Rank), b: (JobKey, Rank), slots: u32) -> bool {
        let (group_a, group_b) = (self.entries[a.0.index()].group, self.entries[b.0.index()].group);
        if group_a == group_b {
            return a.1 < b.1;
        }
        let (path_a, path_b) = (self.path(group_a), self.path(group_b));
        let common = path_a.iter().zip(&path_b).take_while(|(x, y)| x == y).count();
        match (path_a.get(common), path_b.get(common)) {
            (Some(&a), Some(&b)) => {
                self.groups[a as usize].facts.may_grow(slots) && self.group_rank(a, 1) < self.group_rank(b, -1)
            }
            // One group is inside the other: jobs of inner groups come before those beside them.
            (Some(_), None) => true,
            _ => false,
        }
    }

    /// The groups from below the root down to this one.
    fn path(&self, mut at: GroupIndex) -> SmallVec<[GroupIndex; 4]> {
        let mut path = SmallVec::new();
        while at != ROOT {
            path.push(at);
            at = self.groups[at as usize].parent;
        }
        path.reverse();
        path
    }

    /// The ranks of a job's groups from the top, which compare jobs of different groups.
    pub fn group_ranks(&self, job: JobKey) -> SmallVec<[Rank; 4]> {
        let path = self.path(self.entries[job.index()].group);
        path.into_iter().map(|group| self.group_rank(group, 0)).collect()
    }

    /// The index of the group a job is in; below [`Ranking::group_count`].
    pub fn group_of(&self, job: JobKey) -> usize {
        self.entries[job.index()].group as usize
    }

    /// Number of groups; the root is number 0, and a group's number is larger than its parent's.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The facts of a group.
    pub fn group_facts(&self, group: usize) -> &Group {
        &self.groups[group].facts
    }

    /// What a group is entitled to, given all slots.
    pub fn rights(&self, group: usize, slots: PerKind<u32>) -> Rights {
        self.stage.rights(&self.groups[group].facts, self.kind, slots)
    }

    /// True if its min shares come before the ranks of jobs, and some group has one.
    fn guarantees(&self) -> bool {
        self.stage.is_guarantee() && !self.is_unused
    }

    /// The ranks of a job's groups from the top while their slots are guaranteed, if they had `extra` more.
    fn guaranteed_ranks(&self, job: JobKey, extra: i64) -> SmallVec<[Rank; 4]> {
        let path = self.path(self.entries[job.index()].group);
        path.into_iter().map(|group| self.groups[group as usize].facts.guaranteed_rank(extra)).collect()
    }

    /// The parent of a group; the root's is itself.
    pub fn parent_of(&self, group: usize) -> usize {
        self.groups[group].parent as usize
    }

    /// Why a job's pool, queue or user comes first; none without groups.
    #[inline]
    pub fn group_reason(&self, job: JobKey, slots: u32) -> Option<Box<GroupReason>> {
        let group = self.entries[job.index()].group;
        if group == ROOT {
            return None;
        }
        let mut at = &self.groups[group as usize];
        if at.facts.classes.is_some() {
            at = &self.groups[at.parent as usize];
        }
        self.stage.reason(&at.facts, slots).map(Box::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::Pool;
    use proptest::prelude::*;

    const JOBS: u32 = 12;

    fn pool(name: &str, parent: Option<&str>, weight: f64, min: u32) -> Pool {
        Pool {
            name: name.into(),
            parent: parent.map(String::from),
            weight,
            min_maps: min,
            min_reduces: min,
            capacity: None,
            max_capacity: 100.0,
            user_limit: 100.0,
        }
    }

    fn tenants() -> Tenants {
        let pools = vec![
            pool("a", None, 1.0, 2),
            pool("b", None, 2.0, 0),
            pool("b1", Some("b"), 1.0, 1),
            pool("b2", Some("b"), 3.0, 0),
        ];
        Tenants { users: Vec::new(), pools }
    }

    fn key(number: u32) -> JobKey {
        JobKey::from_number(number)
    }

    /// The reference implementation: the jobs of a group and of those below it, sorted anew.
    fn sorted(ranking: &Ranking, at: GroupIndex, out: &mut Vec<JobKey>) {
        let mut inner: Vec<(Rank, u32)> = (1..ranking.groups.len() as u32)
            .filter(|&group| ranking.groups[group as usize].parent == at && group != at)
            .map(|group| (ranking.group_rank(group, 0), group))
            .collect();
        inner.sort();
        inner.into_iter().for_each(|(_, group)| sorted(ranking, group, out));
        let mut jobs: Vec<(Rank, JobKey)> = (0..)
            .zip(&ranking.entries)
            .filter(|(_, entry)| entry.group == at)
            .filter_map(|(job, entry)| Some((entry.queued?, key(job))))
            .collect();
        jobs.sort();
        out.extend(jobs.into_iter().map(|(_, job)| job));
    }

    fn visited(ranking: &Ranking, visits: Visits<'_>) -> Vec<JobKey> {
        let mut visited = Vec::new();
        let _ = ranking.search::<()>(1_000, &|_| true, visits, &mut |job| {
            visited.push(job);
            ControlFlow::Continue(())
        });
        visited
    }

    proptest! {
        /// Jobs come and go, gain and lose slots, are delayed: a search always visits them as sorting everything anew would order them.
        #[test]
        fn a_search_visits_jobs_in_order(
            stage in prop_oneof![
                Just(RoutingStage::Flat),
                Just(RoutingStage::FairPools),
                Just(RoutingStage::CapacityQueues)
            ],
            pools in prop::collection::vec(0..5usize, JOBS as usize),
            steps in prop::collection::vec((0..JOBS, 0..7u8, 0..50u64), 0..150),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            let mut held = [0i64; JOBS as usize];
            for (job, &pool) in pools.iter().enumerate() {
                ranking.add_job(key(job as u32), 0, "ann", ["a", "b", "b1", "b2", "new"][pool], None);
            }
            for (job, step, value) in steps {
                match step {
                    0 => ranking.set_rank(key(job), Some(Rank::from(value) << 32 | Rank::from(job))),
                    1 => ranking.set_rank(key(job), None),
                    4 => ranking.set_delayed(key(job), true),
                    5 => ranking.set_delayed(key(job), false),
                    6 => ranking.set_refused(key(job), value % 4),
                    2 => {
                        held[job as usize] += 1;
                        ranking.charge(key(job), 1);
                    }
                    _ if held[job as usize] > 0 => {
                        held[job as usize] -= 1;
                        ranking.charge(key(job), -1);
                    }
                    _ => {}
                }
                let mut even = BitSet::default();
                (0..JOBS).step_by(2).for_each(|job| even.insert(job));
                let mut expected = Vec::new();
                sorted(&ranking, ROOT, &mut expected);
                prop_assert_eq!(ranking.is_empty(), expected.is_empty());
                prop_assert_eq!(visited(&ranking, Visits::All), expected.clone());
                // A search for a node of type 1 that is local to the even jobs and keeps two paused reduces of job 4 visits all but the odd
                // jobs that are delayed and those that refuse the type.
                let paused_here = &[(key(4), 0), (key(4), 1)];
                let visits = Visits::For { node_type: 1, local: &even, paused_here };
                expected.retain(|&job| {
                    let entry = &ranking.entries[job.index()];
                    let accepts = entry.refused & 2 == 0 || job == key(4);
                    accepts && (job.number() % 2 == 0 || !entry.delayed)
                });
                prop_assert_eq!(visited(&ranking, visits), expected);
            }
        }

        /// A slot that was taken cannot be taken back by the same rule.
        #[test]
        fn preemption_does_not_cycle(
            stage in prop_oneof![Just(RoutingStage::FairPools), Just(RoutingStage::CapacityQueues)],
            pools in prop::collection::vec(0..5usize, 2),
            held in prop::collection::vec(0..20i64, 2),
            ranks in prop::collection::vec(0..1_000u64, 2),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            for job in 0..2 {
                ranking.add_job(key(job as u32), 0, "ann", ["a", "b", "b1", "b2", "new"][pools[job]], None);
                ranking.charge(key(job as u32), held[job]);
            }
            prop_assume!(held[1] > 0);
            // The jobs' own ranks stay the same here; the ranks of their groups change with the slot.
            let rank = |job: usize| (key(job as u32), Rank::from(ranks[job]) << 32 | job as Rank);
            if ranking.stays_before(rank(0), rank(1), 1_000) {
                ranking.charge(key(0), 1);
                ranking.charge(key(1), -1);
                prop_assert!(!ranking.stays_before(rank(1), rank(0), 1_000));
            }
        }
    }
}
