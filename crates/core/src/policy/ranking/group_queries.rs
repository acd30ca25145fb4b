//! Queries on the groups of a ranking: which job comes first across groups, and what a group is entitled to.

use super::{GroupIndex, ROOT, Ranking, Standing};
use crate::ids::PerKind;
use crate::policy::groups::{Group, NOT_GUARANTEED, Rights};
use crate::policy::orders::Rank;
use crate::reason::GroupReason;
use crate::state::JobKey;
use smallvec::SmallVec;

impl Ranking {
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
    pub fn group_ranks(&self, job: JobKey) -> Standing {
        if self.group_of(job) == ROOT as usize {
            return Standing::new();
        }
        let mut ranks: Standing = self.groups_of(job).map(|group| self.group_rank(group as GroupIndex, 0)).collect();
        ranks.reverse();
        ranks
    }

    /// The jobs that are queued, in no order.
    pub fn queued(&self) -> impl Iterator<Item = JobKey> {
        (0..)
            .map(JobKey::from_number)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.queued.is_some())
            .map(|(job, _)| job)
    }

    /// The index of the group a job is in; below [`Ranking::group_count`].
    pub fn group_of(&self, job: JobKey) -> usize {
        self.entries[job.index()].group as usize
    }

    /// The groups a job is in, its own first, without the root.
    pub fn groups_of(&self, job: JobKey) -> impl Iterator<Item = usize> {
        let parent = |&group: &GroupIndex| Some(self.groups[group as usize].parent);
        let own = self.entries[job.index()].group;
        std::iter::successors(Some(own), parent).take_while(|&group| group != ROOT).map(|group| group as usize)
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
    pub(super) fn guarantees(&self) -> bool {
        self.stage.is_guarantee() && !self.is_unused
    }

    /// The rank of a job while a slot is guaranteed to any of its groups, if they had `extra` more; [`NOT_GUARANTEED`] otherwise.
    pub(super) fn guaranteed_rank(&self, job: JobKey, extra: i64) -> Rank {
        let groups = self.groups_of(job).map(|group| &self.groups[group].facts);
        groups
            .filter(|group| group.guaranteed() > 0)
            .map(|group| group.guaranteed_rank(extra))
            .min()
            .unwrap_or(NOT_GUARANTEED)
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
