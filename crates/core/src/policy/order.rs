//! Whose turn it is: every waiting job stands in a line, smallest rank first.
//!
//! A [`Ranking`] is a tree: groups (pools, queues, users) stand in line below the root, jobs stand in line inside their group. Ranks
//! are integers and never tied. They change with the events: whoever's facts changed is moved, nobody else is looked at, so a
//! decision costs the same on ten nodes and on ten thousand. Jobs that hold out for a better node stand beside the line, where a walk on
//! behalf of one node finds those for which it is good without a look at the others.

pub use super::line::Rank;

use super::line::Line;
use super::{GroupOrder, JobOrder};
use crate::action::Reason;
use crate::ids::Kind;
use crate::state::bits::Bits;
use crate::state::{Job, JobIx};
use crate::tenants::Tenants;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::ControlFlow;

const ROOT: u32 = 0;
const SPAN_BITS: u64 = (1 << 48) - 1;

/// The rank of a job for a kind of slot, if it held `more` slots than it does.
pub fn job_rank(order: JobOrder, job: &Job, kind: Kind, more: i32) -> Rank {
    let seq = Rank::from(job.seq);
    match order {
        JobOrder::Submission => Rank::from(job.priority as u8) << 32 | seq,
        JobOrder::RemainingTime => Rank::from(job.estimate.remaining.0.min(SPAN_BITS)) << 32 | seq,
        JobOrder::SlotsOverWeight => ratio(held(job, kind, more), job.priority.weight()) << 32 | seq,
        JobOrder::SlotsOverShare => {
            let owed = job.facts(kind).owed.max(1e-3);
            let remaining_ms = job.estimate.remaining.0 / 1_000;
            let shorter_first = Rank::from(remaining_ms.min(u64::from(u32::MAX)));
            ratio(held(job, kind, more), owed) << 64 | shorter_first << 32 | seq
        }
        JobOrder::RemainingWork => {
            let shuffle = Rank::from(job.estimate.shuffle.0.min(SPAN_BITS));
            let bytes = Rank::from(job.estimate.reduce_bytes.min(SPAN_BITS));
            shuffle << 80 | bytes << 32 | seq
        }
        JobOrder::AttainedService => Rank::from(job.estimate.attained.0.min(SPAN_BITS)) << 32 | seq,
    }
}

fn held(job: &Job, kind: Kind, more: i32) -> f64 {
    (i64::from(job.facts(kind).held()) + i64::from(more)).max(0) as f64
}

/// Why a job that stands first stands first.
pub fn reason(order: JobOrder, job: &Job, kind: Kind) -> Reason {
    match order {
        JobOrder::Submission => Reason::SubmissionOrder,
        JobOrder::RemainingTime => Reason::RemainingTime { estimate: job.estimate.remaining },
        JobOrder::SlotsOverWeight => Reason::SlotsOverWeight { allocated: job.facts(kind).held() },
        JobOrder::SlotsOverShare => {
            let facts = job.facts(kind);
            Reason::SlotsOverShare { allocated: facts.held(), share_milli: (facts.owed * 1e3) as u64 }
        }
        JobOrder::RemainingWork => {
            Reason::RemainingWork { shuffle: job.estimate.shuffle, bytes: job.estimate.reduce_bytes }
        }
        JobOrder::AttainedService => Reason::AttainedService { service: job.estimate.attained },
    }
}

/// A quotient as an integer that keeps its order.
fn ratio(held: f64, weight: f64) -> Rank {
    (held / weight * (1u64 << 24) as f64) as u64 as Rank
}

/// How the groups of a ranking are ordered. COSHH's routing has two stages, each with an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All jobs in one line.
    Flat,
    /// Fair pools.
    FairPools,
    /// Capacity queues.
    CapacityQueues,
    /// Users below their min share, furthest first (COSHH, Algorithm 2, first loop).
    UsersBelowMin,
    /// Users by slots for their weight (COSHH, Algorithm 2, second loop).
    UsersByShare,
}

impl Stage {
    /// The stages an order of groups goes through.
    pub fn of(groups: GroupOrder) -> &'static [Stage] {
        match groups {
            GroupOrder::Flat => &[Stage::Flat],
            GroupOrder::FairPools => &[Stage::FairPools],
            GroupOrder::CapacityQueues => &[Stage::CapacityQueues],
            GroupOrder::Users => &[Stage::UsersBelowMin, Stage::UsersByShare],
        }
    }
}

/// Jobs in line, in groups.
#[derive(Debug)]
pub struct Ranking {
    stage: Stage,
    kind: Kind,
    groups: Vec<Group>,
    by_name: FxHashMap<(u32, String), u32>,
    entries: Vec<Entry>,
}

/// A pool, a queue, a user, or a user's jobs of one class.
#[derive(Debug)]
pub struct Group {
    parent: u32,
    /// Share beyond the guarantee, in proportion to its siblings.
    pub weight: f64,
    /// Slots guaranteed.
    pub min: u32,
    /// Its own part of all slots.
    pub capacity: f64,
    /// The part of all slots it may grow to.
    pub max_capacity: f64,
    user_limit: f64,
    /// The classes of its jobs in COSHH's two classifications, if it is a user's jobs of one class.
    pub classes: Option<[Option<u16>; 2]>,
    /// Slots its jobs hold.
    pub held: u32,
    /// Since when it has been starved of its min share, and of half its fair share.
    pub starved: [Option<crate::units::Time>; 2],
    listed: Option<Rank>,
    groups: Line,
    jobs: Line,
    /// Its jobs that wait and hold out; they are not among `jobs`.
    aside: Bits,
    aside_count: u32,
    users: FxHashMap<u32, UserUse>,
    active_users: u32,
}

/// What a user has and wants in one queue.
#[derive(Clone, Copy, Debug, Default)]
struct UserUse {
    held: u32,
    listed: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    group: u32,
    user: u32,
    listed: Option<Rank>,
    holds_out: bool,
}

/// Which of the jobs that hold out a walk visits.
#[derive(Clone, Copy)]
pub enum HoldingOut<'a> {
    /// All of them.
    All,
    /// Those of this set.
    Of(&'a Bits),
}

/// What the walk along the line needs to know of a group beside its rank.
pub struct Limits {
    /// All slots of the kind.
    pub slots: u32,
}

impl Group {
    fn new(parent: u32) -> Group {
        Group {
            parent,
            weight: 1.0,
            min: 0,
            capacity: 1.0,
            max_capacity: 1.0,
            user_limit: 1.0,
            classes: None,
            held: 0,
            starved: [None; 2],
            listed: None,
            groups: Line::default(),
            jobs: Line::default(),
            aside: Bits::default(),
            aside_count: 0,
            users: FxHashMap::default(),
            active_users: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.jobs.is_empty() && self.aside_count == 0
    }

    /// A job of the group gets in line, or stands aside.
    fn enter(&mut self, rank: Rank, jx: JobIx, holds_out: bool) {
        if holds_out {
            self.aside.add(jx);
            self.aside_count += 1;
        } else {
            self.jobs.insert(rank, jx);
        }
    }

    fn leave(&mut self, rank: Rank, jx: JobIx, holds_out: bool) {
        if holds_out {
            self.aside.remove(jx);
            self.aside_count -= 1;
        } else {
            self.jobs.remove(rank);
        }
    }

    /// Where its parent stands among the groups.
    pub fn parent(&self) -> usize {
        self.parent as usize
    }

    fn rank(&self, stage: Stage, index: u32, more: i64) -> Rank {
        let held = (i64::from(self.held) + more).max(0) as f64;
        // A slot that fills the min share to the brim is still one of the guaranteed ones.
        let guaranteed = i64::from(self.held) + more.min(0) < i64::from(self.min);
        let rank = match stage {
            Stage::Flat => 0,
            Stage::FairPools if guaranteed => ratio(held, f64::from(self.min)),
            Stage::FairPools | Stage::UsersByShare => 1 << 64 | ratio(held, self.weight),
            Stage::CapacityQueues => ratio(held, self.capacity),
            // The furthest below comes first: the complement of the distance ranks it.
            Stage::UsersBelowMin => {
                Rank::from(u64::MAX) - ratio((f64::from(self.min) - held).max(0.0) * self.weight, 1.0)
            }
        };
        rank << 32 | Rank::from(index)
    }

    /// True while the user limit lets this user's jobs grow.
    fn admits_user(&self, user: u32, slots: u32) -> bool {
        if self.user_limit >= 1.0 {
            return true;
        }
        let held = self.users.get(&user).map_or(0, |used| used.held);
        let queue = (self.capacity * f64::from(slots)).max(f64::from(self.held));
        let part = self.user_limit.max(1.0 / f64::from(self.active_users.max(1)));
        f64::from(held) < (queue * part).ceil().max(1.0)
    }

    /// True while the elastic limit lets it grow.
    fn may_grow(&self, slots: u32) -> bool {
        self.max_capacity >= 1.0 || f64::from(self.held) < (self.max_capacity * f64::from(slots)).ceil()
    }
}

impl Ranking {
    /// An empty line, with the declared groups in it.
    pub fn new(stage: Stage, kind: Kind, tenants: &Tenants) -> Ranking {
        let mut ranking =
            Ranking { stage, kind, groups: vec![Group::new(ROOT)], by_name: FxHashMap::default(), entries: Vec::new() };
        match stage {
            Stage::Flat => {}
            Stage::FairPools | Stage::CapacityQueues => {
                for pool in &tenants.pools {
                    ranking.declare_pool(tenants, &pool.name);
                }
            }
            Stage::UsersBelowMin | Stage::UsersByShare => {
                for user in &tenants.users {
                    let group = ranking.group(ROOT, &user.name);
                    ranking.groups[group as usize].weight = user.weight;
                    ranking.groups[group as usize].min = user.min_share;
                }
            }
        }
        ranking
    }

    fn declare_pool(&mut self, tenants: &Tenants, name: &str) -> u32 {
        let Some(pool) = tenants.pools.iter().find(|pool| pool.name == name) else { return self.group(ROOT, name) };
        if let Some(&group) = self.by_name.get(&(ROOT, pool.name.clone())) {
            return group;
        }
        let parent = pool.parent.as_ref().map_or(ROOT, |parent| self.declare_pool(tenants, parent));
        let siblings = tenants.pools.iter().filter(|other| other.parent == pool.parent);
        let claimed: f64 = siblings.clone().filter_map(|other| other.capacity).sum();
        let unclaimed = siblings.filter(|other| other.capacity.is_none()).count().max(1) as f64;
        // Queues that do not say what is theirs share what the others leave; never nothing, or they could not be ranked.
        let capacity = pool.capacity.unwrap_or(((100.0 - claimed) / unclaimed).max(1.0)) / 100.0;
        let of_parent = &self.groups[parent as usize];
        let mut group = Group::new(parent);
        group.weight = pool.weight;
        group.min = [pool.min_maps, pool.min_reduces][self.kind.ix()];
        group.capacity = capacity * of_parent.capacity;
        group.max_capacity = (pool.max_capacity / 100.0 * of_parent.max_capacity).max(group.capacity);
        group.user_limit = pool.user_limit / 100.0;
        let index = self.groups.len() as u32;
        self.groups.push(group);
        // Pools are named without their ancestors, as in Hadoop's files, so all names live under the root.
        self.by_name.insert((ROOT, pool.name.clone()), index);
        index
    }

    /// The group of this name under a parent; made if it is new.
    fn group(&mut self, parent: u32, name: &str) -> u32 {
        if let Some(&group) = self.by_name.get(&(parent, name.to_owned())) {
            return group;
        }
        let index = self.groups.len() as u32;
        self.groups.push(Group::new(parent));
        self.by_name.insert((parent, name.to_owned()), index);
        index
    }

    /// Gives a new job its group; it stands in no line yet.
    pub fn join(&mut self, jx: JobIx, user: u32, user_name: &str, pool: &str, classes: Option<[Option<u16>; 2]>) {
        let group = match self.stage {
            Stage::Flat => ROOT,
            Stage::FairPools | Stage::CapacityQueues => self.group(ROOT, pool),
            Stage::UsersBelowMin | Stage::UsersByShare => {
                let group = self.group(ROOT, user_name);
                match classes {
                    None => group,
                    Some(classes) => self.class_group(group, classes),
                }
            }
        };
        if self.entries.len() <= jx as usize {
            self.entries.resize(jx as usize + 1, Entry::default());
        }
        self.entries[jx as usize] = Entry { group, user, listed: None, holds_out: false };
    }

    fn class_group(&mut self, user: u32, classes: [Option<u16>; 2]) -> u32 {
        let name = format!("{:?}/{:?}", classes[0], classes[1]);
        let group = self.group(user, &name);
        self.groups[group as usize].classes = Some(classes);
        group
    }

    /// The line is empty.
    pub fn is_empty(&self) -> bool {
        self.groups[ROOT as usize].is_empty()
    }

    /// Puts a job in line at a rank, moves it there, or takes it out of the line.
    pub fn place(&mut self, jx: JobIx, rank: Option<Rank>) {
        let entry = self.entries[jx as usize];
        if entry.listed == rank {
            return;
        }
        self.entries[jx as usize].listed = rank;
        let group = &mut self.groups[entry.group as usize];
        match (entry.listed, rank) {
            // Who stands aside has no place that could change.
            (Some(_), Some(_)) if entry.holds_out => return,
            (Some(old), Some(new)) => return group.jobs.shift(old, new, jx),
            (Some(old), None) => group.leave(old, jx, entry.holds_out),
            (None, Some(new)) => group.enter(new, jx, entry.holds_out),
            (None, None) => return,
        }
        self.count_user(entry.group, entry.user, 0, if rank.is_some() { 1 } else { -1 });
        self.relist(entry.group);
    }

    /// A job begins or ceases to hold out: it stands aside, or in line again.
    pub fn hold_out(&mut self, jx: JobIx, holds_out: bool) {
        let entry = &mut self.entries[jx as usize];
        let before = std::mem::replace(&mut entry.holds_out, holds_out);
        if let Some(rank) = entry.listed.filter(|_| before != holds_out) {
            let group = &mut self.groups[entry.group as usize];
            group.leave(rank, jx, before);
            group.enter(rank, jx, holds_out);
        }
    }

    fn count_user(&mut self, group: u32, user: u32, held: i64, listed: i64) {
        if self.stage != Stage::CapacityQueues {
            return;
        }
        let group = &mut self.groups[group as usize];
        let used = group.users.entry(user).or_default();
        let was_active = used.held + used.listed > 0;
        used.held = (i64::from(used.held) + held) as u32;
        used.listed = (i64::from(used.listed) + listed) as u32;
        let is_active = used.held + used.listed > 0;
        group.active_users = (i64::from(group.active_users) + i64::from(is_active) - i64::from(was_active)) as u32;
        if !is_active {
            group.users.remove(&user);
        }
    }

    /// Whether slots of this kind are counted here. Pools and queues have rights to each kind apart; a user's min share and share
    /// are slots of either kind (COSHH, sections 2.1 and 5.1); where there are no groups, there is nothing to count.
    pub fn counts(&self, kind: Kind) -> bool {
        match self.stage {
            Stage::Flat => false,
            Stage::FairPools | Stage::CapacityQueues => self.kind == kind,
            Stage::UsersBelowMin | Stage::UsersByShare => true,
        }
    }

    /// A job's slots became more or fewer; its group and those above it move.
    pub fn held_changed(&mut self, jx: JobIx, more: i64) {
        let entry = self.entries[jx as usize];
        self.count_user(entry.group, entry.user, more, 0);
        let mut at = entry.group;
        while at != ROOT {
            let group = &mut self.groups[at as usize];
            group.held = u32::try_from(i64::from(group.held) + more).expect("a group holds no fewer than no slots");
            self.relist(at);
            at = self.groups[at as usize].parent;
        }
    }

    /// Puts a group where it now belongs in its parent's line.
    fn relist(&mut self, at: u32) {
        if at == ROOT {
            return;
        }
        let group = &self.groups[at as usize];
        let (old, parent) = (group.listed, group.parent);
        let new = (!group.is_empty()).then(|| group.rank(self.stage, at, 0));
        if old == new {
            return;
        }
        self.groups[at as usize].listed = new;
        let line = &mut self.groups[parent as usize].groups;
        match (old, new) {
            (Some(old), Some(new)) => return line.shift(old, new, at),
            (Some(old), None) => line.remove(old),
            (None, Some(new)) => line.insert(new, at),
            (None, None) => return,
        }
        self.relist(parent);
    }

    /// Walks along the line, group by group, until `visit` breaks off. Groups that may not grow, or that `allow` turns away, are
    /// passed over whole; of the jobs that hold out, `holding_out` says which are visited, each in its place.
    pub fn walk<B>(
        &self,
        limits: &Limits,
        allow: &impl Fn(&Group) -> bool,
        holding_out: HoldingOut<'_>,
        visit: &mut impl FnMut(JobIx) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.walk_group(ROOT, limits, allow, holding_out, visit)
    }

    fn walk_group<B>(
        &self,
        at: u32,
        limits: &Limits,
        allow: &impl Fn(&Group) -> bool,
        holding_out: HoldingOut<'_>,
        visit: &mut impl FnMut(JobIx) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let group = &self.groups[at as usize];
        for (_, child) in group.groups.iter() {
            let child_group = &self.groups[child as usize];
            let below_min = self.stage != Stage::UsersBelowMin
                || child_group.classes.is_some()
                || child_group.held < child_group.min;
            if below_min && child_group.may_grow(limits.slots) && allow(child_group) {
                self.walk_group(child, limits, allow, holding_out, visit)?;
            }
        }
        let mut admitted = |jx: JobIx| {
            let admits = group.admits_user(self.entries[jx as usize].user, limits.slots);
            if admits { visit(jx) } else { ControlFlow::Continue(()) }
        };
        let mut aside = SmallVec::<[(Rank, JobIx); 8]>::new();
        if group.aside_count > 0 {
            self.find_aside(group, holding_out, &mut aside);
        }
        for (rank, jx) in group.jobs.iter() {
            while let Some(&(_, sooner)) = aside.last().filter(|(other, _)| *other < rank) {
                aside.pop();
                admitted(sooner)?;
            }
            admitted(jx)?;
        }
        aside.into_iter().rev().try_for_each(|(_, jx)| admitted(jx))
    }

    /// Finds the jobs of a group that hold out and are to be visited all the same, last to first.
    fn find_aside(&self, group: &Group, holding_out: HoldingOut<'_>, aside: &mut SmallVec<[(Rank, JobIx); 8]>) {
        let find = |jx: JobIx| aside.extend(self.entries[jx as usize].listed.map(|rank| (rank, jx)));
        match holding_out {
            HoldingOut::All => group.aside.iter().for_each(find),
            HoldingOut::Of(jobs) => group.aside.shared(jobs).for_each(find),
        }
        aside.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// True if `a`, given one of `b`'s slots, would still stand before `b` without it. Whoever takes a slot by this rule cannot lose it
    /// back by the same rule, so preemption does not go in circles.
    pub fn stays_before(&self, a: (JobIx, Rank), b: (JobIx, Rank), limits: &Limits) -> bool {
        let (ga, gb) = (self.entries[a.0 as usize].group, self.entries[b.0 as usize].group);
        if ga == gb {
            return a.1 < b.1;
        }
        let (path_a, path_b) = (self.path(ga), self.path(gb));
        let shared = path_a.iter().zip(&path_b).take_while(|(x, y)| x == y).count();
        match (path_a.get(shared), path_b.get(shared)) {
            (Some(&a), Some(&b)) => {
                let (group_a, group_b) = (&self.groups[a as usize], &self.groups[b as usize]);
                group_a.may_grow(limits.slots) && group_a.rank(self.stage, a, 1) < group_b.rank(self.stage, b, -1)
            }
            // One's group lies inside the other's: jobs of inner groups stand before those beside them.
            (Some(_), None) => true,
            _ => false,
        }
    }

    /// The groups from below the root down to this one.
    fn path(&self, mut at: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while at != ROOT {
            path.push(at);
            at = self.groups[at as usize].parent;
        }
        path.reverse();
        path
    }

    /// The ranks of the groups a job stands in, from the top.
    pub fn group_ranks(&self, jx: JobIx) -> SmallVec<[Rank; 4]> {
        let path = self.path(self.entries[jx as usize].group);
        path.into_iter().map(|group| self.groups[group as usize].rank(self.stage, group, 0)).collect()
    }

    /// The group a job stands in directly below the root, which carries the rights of its pool or user.
    pub fn top_group(&self, jx: JobIx) -> u32 {
        self.path(self.entries[jx as usize].group).first().copied().unwrap_or(ROOT)
    }

    /// The group a job stands in.
    pub fn group_of(&self, jx: JobIx) -> u32 {
        self.entries[jx as usize].group
    }

    /// All groups; the first is the root.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// All groups, to change what is noted about them.
    pub fn groups_mut(&mut self) -> &mut [Group] {
        &mut self.groups
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

    /// The twin: the jobs of a group and of those below it, sorted anew.
    fn in_order(ranking: &Ranking, at: u32, out: &mut Vec<JobIx>) {
        let mut inner: Vec<(Rank, u32)> = (1..ranking.groups.len() as u32)
            .filter(|&group| ranking.groups[group as usize].parent == at && group != at)
            .map(|group| (ranking.groups[group as usize].rank(ranking.stage, group, 0), group))
            .collect();
        inner.sort();
        inner.into_iter().for_each(|(_, group)| in_order(ranking, group, out));
        let mut jobs: Vec<(Rank, JobIx)> = ranking
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.group == at)
            .filter_map(|(jx, entry)| Some((entry.listed?, jx as JobIx)))
            .collect();
        jobs.sort();
        out.extend(jobs.into_iter().map(|(_, jx)| jx));
    }

    fn walked(ranking: &Ranking, holding_out: HoldingOut<'_>) -> Vec<JobIx> {
        let mut walked = Vec::new();
        let _ = ranking.walk::<()>(&Limits { slots: 1_000 }, &|_| true, holding_out, &mut |jx| {
            walked.push(jx);
            ControlFlow::Continue(())
        });
        walked
    }

    proptest! {
        /// Jobs come, go, gain and lose slots, hold out: the line is always what sorting everything anew would give.
        #[test]
        fn the_line_is_always_sorted(
            stage in prop_oneof![Just(Stage::Flat), Just(Stage::FairPools), Just(Stage::CapacityQueues)],
            pools in prop::collection::vec(0..5usize, JOBS as usize),
            steps in prop::collection::vec((0..JOBS, 0..6u8, 0..50u64), 0..150),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            let mut held = [0i64; JOBS as usize];
            for (jx, &pool) in pools.iter().enumerate() {
                ranking.join(jx as JobIx, 0, "ann", ["a", "b", "b1", "b2", "new"][pool], None);
            }
            for (jx, step, value) in steps {
                match step {
                    0 => ranking.place(jx, Some(Rank::from(value) << 32 | Rank::from(jx))),
                    1 => ranking.place(jx, None),
                    4 => ranking.hold_out(jx, true),
                    5 => ranking.hold_out(jx, false),
                    2 => {
                        held[jx as usize] += 1;
                        ranking.held_changed(jx, 1);
                    }
                    _ if held[jx as usize] > 0 => {
                        held[jx as usize] -= 1;
                        ranking.held_changed(jx, -1);
                    }
                    _ => {}
                }
                let mut even = Bits::default();
                (0..JOBS).step_by(2).for_each(|jx| even.add(jx));
                let mut sorted = Vec::new();
                in_order(&ranking, ROOT, &mut sorted);
                prop_assert_eq!(ranking.is_empty(), sorted.is_empty());
                prop_assert_eq!(walked(&ranking, HoldingOut::All), sorted.clone());
                // A walk for a node that is good for even jobs meets all but the odd ones that hold out.
                sorted.retain(|&jx| jx % 2 == 0 || !ranking.entries[jx as usize].holds_out);
                prop_assert_eq!(walked(&ranking, HoldingOut::Of(&even)), sorted);
            }
        }

        /// Whoever may take a slot cannot lose it back by the same rule.
        #[test]
        fn taking_does_not_go_in_circles(
            stage in prop_oneof![Just(Stage::FairPools), Just(Stage::CapacityQueues)],
            pools in prop::collection::vec(0..5usize, 2),
            held in prop::collection::vec(0..20i64, 2),
            ranks in prop::collection::vec(0..1_000u64, 2),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            for jx in 0..2 {
                ranking.join(jx as JobIx, 0, "ann", ["a", "b", "b1", "b2", "new"][pools[jx]], None);
                ranking.held_changed(jx as JobIx, held[jx]);
            }
            prop_assume!(held[1] > 0);
            let limits = Limits { slots: 1_000 };
            // Jobs' own ranks stand still here; groups' ranks move with the slot.
            let rank = |jx: usize| (jx as JobIx, Rank::from(ranks[jx]) << 32 | jx as Rank);
            if ranking.stays_before(rank(0), rank(1), &limits) {
                ranking.held_changed(0, 1);
                ranking.held_changed(1, -1);
                prop_assert!(!ranking.stays_before(rank(1), rank(0), &limits));
            }
        }
    }
}
