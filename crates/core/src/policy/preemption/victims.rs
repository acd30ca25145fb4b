//! The order in which jobs, and attempts of a job, are considered as victims.

use super::{Guards, Preemption, is_preemptable};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::policy::orders::{CustomOrder, Order, Rank};
use crate::policy::placement::AcceptedNodes;
use crate::policy::ranking::{Comparison, Standing};
use crate::policy::{Needs, View};
use crate::state::bit_set::BitSet;
use crate::state::{Job, JobKey, Task, TaskCounts, TaskState};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which job's attempts are victims first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimOrder {
    /// The job that ranks last.
    LowestRank,
    /// The job with the longest remaining time (hSRTF, section 3.3).
    LongestRemainingTime,
    /// The job with the most slots over its share.
    MostOverShare,
    /// The job with the largest value, of an order that the program registered.
    Custom(CustomOrder),
}

/// Which attempt of a job is a victim first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOrder {
    /// The one with the least progress.
    LeastProgress,
    /// The one that was launched last.
    Newest,
    /// One on a node that holds input of the beneficiary; then the one with the least progress (hSRTF, section 6).
    NearData,
}

impl VictimOrder {
    pub(super) fn compares_shares(&self) -> bool {
        *self == VictimOrder::MostOverShare
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let VictimOrder::Custom(order) = self { order.check() } else { Ok(()) }
    }

    /// Puts an order that is not registered in place of the unknown one of its name.
    pub(in crate::policy) fn set_custom(&mut self, order: &CustomOrder) {
        if matches!(self, VictimOrder::Custom(unknown) if unknown.name() == order.name()) {
            *self = VictimOrder::Custom(order.clone());
        }
    }

    /// What it reads.
    pub(super) fn needs(&self) -> Needs {
        if let VictimOrder::Custom(order) = self { order.needs() } else { Needs::NOTHING }
    }

    /// True if victims come in the order of rank, last first.
    pub(super) fn follows_rank(&self, order: &impl Order) -> bool {
        match self {
            VictimOrder::LowestRank => true,
            VictimOrder::LongestRemainingTime => order.is_by_remaining_time(),
            VictimOrder::MostOverShare | VictimOrder::Custom(_) => false,
        }
    }
}

impl AttemptOrder {
    /// True if the order has to be computed for each beneficiary.
    pub(super) fn depends_on_beneficiary(self) -> bool {
        self == AttemptOrder::NearData
    }
}

/// The jobs that may lose attempts, first victim first. Most rounds look at a few of them, so they are sorted only as far as they are read.
#[derive(Default)]
pub(super) struct Victims {
    sorted: Vec<VictimJob>,
    /// Those that follow.
    rest: BinaryHeap<(Standing, JobKey)>,
}

/// A job that may lose attempts.
pub(super) struct VictimJob {
    pub(super) job: JobKey,
    /// Those that the present beneficiary may take and that run where its input is; none if they have not been computed.
    near: Option<Takeable>,
    /// None if they have not been computed.
    preemptable: Option<Box<Preemptable>>,
}

/// The attempts of a job that no guard protects.
struct Preemptable {
    /// The guards that were asked. They are the same for most beneficiaries.
    guards: Guards,
    attempts: Vec<u32>,
    /// The types of nodes that they run on.
    on_type: SmallVec<[bool; 4]>,
    /// When the first attempt that was launched too recently has run long enough.
    young_until: Option<Time>,
    /// Those that a beneficiary may take; none if they have not been computed.
    takeable: Option<Takeable>,
}

/// Attempts that may be taken. Few of them are, so they are not sorted.
struct Takeable {
    /// None if any beneficiary may take them.
    beneficiary: Option<JobKey>,
    attempts: BinaryHeap<Reverse<AttemptRank>>,
}

/// Whether an attempt is far from the beneficiary's input, its progress, when it was launched, and its task: the smallest is the first victim.
type AttemptRank = (bool, u32, Reverse<Time>, u32);

/// About so many attempts run on the nodes with the replicas of a split.
const ATTEMPTS_NEAR_A_SPLIT: usize = 24;

/// What decides which attempts a beneficiary may take, and which first.
#[derive(Clone)]
pub(super) struct Preference {
    beneficiary: JobKey,
    accepted: AcceptedNodes,
    /// The nodes that hold its input; computed when attempts are first sorted by it.
    near: OnceCell<BitSet>,
    /// Which attempts are protected from it.
    guards: Guards,
}

impl Preference {
    pub(super) fn new(rule: &Preemption, kind: Kind, jobs: Comparison<'_>, beneficiary: JobKey) -> Preference {
        let (job, nodes) = (jobs.view.state.job(beneficiary), jobs.view.state.nodes());
        let accepted = jobs.policy.slots(kind).placement.accepted_nodes(job, beneficiary, kind, nodes);
        Preference { beneficiary, accepted, near: OnceCell::new(), guards: rule.guards_for(job) }
    }

    /// The first time to look again for attempts that are too young now.
    pub(super) fn look_again_from(&self, now: Time) -> Time {
        now + self.guards.min_runtime.scaled(0.5)
    }

    fn near(&self, view: View<'_>) -> &BitSet {
        self.near.get_or_init(|| {
            let mut near = BitSet::default();
            let splits = view.state.job(self.beneficiary).splits();
            splits.iter().flat_map(|split| &split.hosts).for_each(|host| near.insert(host.0));
            near
        })
    }

    /// True if the beneficiary can use the slot of an attempt on a node: it does not refuse or avoid the node.
    fn accepts(&self, node: NodeId, kind: Kind, jobs: Comparison<'_>) -> bool {
        let (state, nodes) = (jobs.view.state, jobs.view.state.nodes());
        let avoids =
            || jobs.policy.failures.job_avoids(state.job(self.beneficiary), self.beneficiary, kind, node, nodes, None);
        self.accepted.contains(node, nodes) && !avoids()
    }

    /// True if it is the same for all beneficiaries.
    fn is_common(&self, rule: &Preemption, jobs: Comparison<'_>) -> bool {
        let has_failed = !jobs.view.state.job(self.beneficiary).failed_on().is_empty();
        self.accepted.are_all() && !has_failed && !rule.attempts.depends_on_beneficiary()
    }

    /// True if what the beneficiary may take depends on its guards and on the types of nodes that it refuses, and on nothing else.
    fn is_shareable(&self, jobs: Comparison<'_>) -> bool {
        !self.accepted.have_exceptions() && jobs.view.state.job(self.beneficiary).failed_on().is_empty()
    }
}

/// The victims that may still have an attempt for some beneficiaries.
///
/// During a round attempts are stopped and none is added. So a victim that has no attempt for one beneficiary has none for the next with the same guards that refuses the
/// same nodes.
pub(super) struct Prospects {
    /// That of the first of these beneficiaries.
    preference: Preference,
    /// False if it is of no use to other beneficiaries.
    is_shared: bool,
    /// Positions among the victims, in their order, as far as they were read.
    read: Vec<u32>,
    /// The position after the last one that was read.
    next: u32,
}

impl Prospects {
    /// The position in `all` of the prospects for a preference; they are added if there are none. `look_again_at` is when to look again for young attempts of
    /// the victims so far.
    pub(super) fn find(
        all: &mut Vec<Prospects>,
        preference: &Preference,
        look_again_at: Option<Time>,
        jobs: Comparison<'_>,
    ) -> usize {
        let is_shared = preference.is_shareable(jobs);
        let accepts = |of: &Prospects| is_shared && of.is_shared && of.preference.accepted == preference.accepted;
        let known = all.iter().position(|of| accepts(of) && of.preference.guards == preference.guards);
        known.unwrap_or_else(|| {
            // A victim without an attempt for those from whom less is protected has none here either. It may have a younger one to look at again later, but that
            // makes no difference where another has to be looked at first.
            let covers = |of: &&Prospects| accepts(of) && preference.guards.protect_all_of(&of.preference.guards);
            let is_early = look_again_at.is_some_and(|at| at <= preference.look_again_from(jobs.view.now));
            let covering = all.iter().rev().find(covers).filter(|_| is_early);
            let (read, next) = covering.map_or((Vec::new(), 0), |of| (of.read.clone(), of.next));
            all.retain(|known| known.is_shared);
            all.push(Prospects { preference: preference.clone(), is_shared, read, next });
            all.len() - 1
        })
    }

    /// The n-th of them, as a position among this many victims.
    pub(super) fn get(&mut self, n: usize, victims: usize) -> Option<usize> {
        if n == self.read.len() && (self.next as usize) < victims {
            self.read.push(self.next);
            self.next += 1;
        }
        self.read.get(n).map(|&at| at as usize)
    }

    /// Removes the n-th of them, which was read.
    pub(super) fn remove(&mut self, n: usize) {
        self.read.remove(n);
    }
}

impl Victims {
    /// The jobs with running attempts.
    pub(super) fn of(rule: &Preemption, kind: Kind, jobs: Comparison<'_>) -> Victims {
        let state = jobs.view.state;
        let is_within_share = |counts: &TaskCounts| f64::from(counts.allocated()) <= counts.fair_share;
        let keeps_all = |job: JobKey| rule.trigger.is_below_share() && is_within_share(state.job(job).counts(kind));
        // Most live jobs run, and the list is long on a large cluster: it does not grow step by step.
        let mut rest: Vec<(Standing, JobKey)> = Vec::with_capacity(state.jobs().len());
        if rule.victims == VictimOrder::LowestRank {
            let victims = jobs.rankings.victims(kind).filter(|&(key, _)| !keeps_all(key));
            rest.extend(victims.map(|(key, rank)| (jobs.standing_with(rank, key, kind), key)));
            debug_assert!(jobs.rankings.victims(kind).eq(jobs.count_victims(kind)), "victims follow every change");
            return Victims { sorted: Vec::new(), rest: rest.into() };
        }
        // The largest is the first victim.
        let place = |job: &Job| -> Rank {
            let by = |number: u64| Rank::from(number) << 32 | Rank::from(job.sequence());
            match &rule.victims {
                VictimOrder::LowestRank => jobs.rank(job, kind, 0),
                VictimOrder::LongestRemainingTime => by(job.estimate().remaining_time.0),
                VictimOrder::MostOverShare => {
                    let counts = job.counts(kind);
                    let over_milli = ((f64::from(counts.allocated()) - counts.fair_share) * 1e3) as i64;
                    by(over_milli.abs_diff(i64::MIN))
                }
                VictimOrder::Custom(order) => order.rank_of(jobs.view, job, kind, 0),
            }
        };
        let running = state.jobs().iter().filter(|&(key, job)| job.may_lose_slot(kind) && !keeps_all(key));
        rest.extend(running.map(|(key, job)| (smallvec![place(job)], key)));
        Victims { sorted: Vec::new(), rest: rest.into() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sorted.len() + self.rest.len()
    }

    /// The victim at a position, which is below their number.
    pub(super) fn get(&mut self, at: usize) -> &mut VictimJob {
        while self.sorted.len() <= at {
            let (_, job) = self.rest.pop().expect("there are so many victims");
            self.sorted.push(VictimJob { job, near: None, preemptable: None });
        }
        &mut self.sorted[at]
    }
}

impl VictimJob {
    /// The next attempt that the beneficiary may take, if there is one.
    pub(super) fn next_attempt(
        &mut self,
        rule: &Preemption,
        kind: Kind,
        jobs: Comparison<'_>,
        preference: &Preference,
    ) -> Option<u32> {
        if let Some(near) = self.next_near(rule, kind, jobs, preference) {
            return Some(near);
        }
        if self.preemptable.as_ref().is_none_or(|of| of.guards != preference.guards) {
            self.preemptable = Some(Box::new(Preemptable::of(preference.guards, kind, jobs.view, self.job)));
        }
        let preemptable = self.preemptable.as_mut()?;
        let beneficiary = (!preference.is_common(rule, jobs)).then_some(preference.beneficiary);
        if preemptable.takeable.as_ref().is_none_or(|of| of.beneficiary != beneficiary) {
            let attempts = preemptable.takeable_by(rule, kind, jobs, self.job, preference);
            preemptable.takeable = Some(Takeable { beneficiary, attempts });
        }
        preemptable.takeable.as_mut()?.next(|index| jobs.view.state.job(self.job).task(TaskKey { kind, index }))
    }

    /// The same, of those that run where the beneficiary's input is, if they come first and there are fewer of them than the job has in all. Otherwise none: all
    /// attempts are looked at then, these among them.
    fn next_near(
        &mut self,
        rule: &Preemption,
        kind: Kind,
        jobs: Comparison<'_>,
        preference: &Preference,
    ) -> Option<u32> {
        let (view, victim) = (jobs.view, jobs.view.state.job(self.job));
        let splits = view.state.job(preference.beneficiary).splits().len();
        let are_few = splits * ATTEMPTS_NEAR_A_SPLIT <= victim.counts(kind).running.len();
        if rule.attempts != AttemptOrder::NearData || !are_few {
            return None;
        }
        let task = |index: u32| victim.task(TaskKey { kind, index });
        let beneficiary = Some(preference.beneficiary);
        let mut near = self.near.take().filter(|near| near.beneficiary == beneficiary).unwrap_or_else(|| {
            let nodes = preference.near(view).iter().map(NodeId).filter(|&node| view.state.nodes().is_usable(node));
            let accepted = nodes.filter(|&node| preference.accepts(node, kind, jobs));
            let attempts = accepted.flat_map(|node| view.state.node(node).running(kind));
            let is_takeable =
                |index: u32| is_preemptable(victim, TaskKey { kind, index }, &preference.guards, view.now);
            let own = attempts.filter(|of| of.job == self.job && of.number == task(of.task).number());
            let takeable = own.map(|of| of.task).filter(|&index| is_takeable(index));
            let attempts: Vec<_> = takeable.map(|index| Reverse(rank(rule, index, task(index), false))).collect();
            Takeable { beneficiary, attempts: attempts.into() }
        });
        let next = near.next(task);
        self.near = Some(near);
        next
    }

    /// When the first attempt that was launched too recently has run long enough.
    pub(super) fn young_until(&self) -> Option<Time> {
        self.preemptable.as_ref()?.young_until
    }
}

impl Takeable {
    /// Takes the first victim. An attempt may have been stopped since they were computed.
    fn next<'a>(&mut self, task: impl Fn(u32) -> &'a Task) -> Option<u32> {
        loop {
            let Reverse((.., index)) = self.attempts.pop()?;
            if task(index).state() == TaskState::Running {
                return Some(index);
            }
        }
    }
}

/// The rank of an attempt among victims.
fn rank(rule: &Preemption, index: u32, task: &Task, is_far: bool) -> AttemptRank {
    let progress_ppm = if rule.attempts == AttemptOrder::Newest { 0 } else { task.progress_ppm() };
    (is_far, progress_ppm, Reverse(task.launched()), index)
}

impl Preemptable {
    fn of(guards: Guards, kind: Kind, view: View<'_>, victim: JobKey) -> Preemptable {
        let (job, nodes) = (view.state.job(victim), view.state.nodes());
        let mut found = Preemptable {
            guards,
            attempts: Vec::new(),
            on_type: SmallVec::from_elem(false, nodes.types().len()),
            young_until: None,
            takeable: None,
        };
        for index in job.running_oldest_first(kind) {
            let key = TaskKey { kind, index };
            // Of a large job, many attempts are too young: this one and those that follow.
            found.young_until = guards.young_until(job, key, view.now);
            if found.young_until.is_some() {
                break;
            }
            let node = job.task(key).node();
            if is_preemptable(job, key, &guards, view.now) && nodes.is_usable(node) {
                found.attempts.push(index);
                found.on_type[nodes.type_of(node)] = true;
            }
        }
        found
    }

    /// Those that a beneficiary may take.
    fn takeable_by(
        &self,
        rule: &Preemption,
        kind: Kind,
        jobs: Comparison<'_>,
        victim: JobKey,
        preference: &Preference,
    ) -> BinaryHeap<Reverse<AttemptRank>> {
        let accepts_type = |(at, &is_used): (usize, &bool)| is_used && preference.accepted.may_contain_type(at);
        if !(0..).zip(&self.on_type).any(accepts_type) {
            return BinaryHeap::new();
        }
        let job = jobs.view.state.job(victim);
        let task = |index: u32| job.task(TaskKey { kind, index });
        let may_take = |&index: &u32| preference.accepts(task(index).node(), kind, jobs);
        let near = (rule.attempts == AttemptOrder::NearData).then(|| preference.near(jobs.view));
        let rank = |index: u32| {
            let is_far = near.is_some_and(|near| !near.contains(task(index).node().0));
            Reverse(rank(rule, index, task(index), is_far))
        };
        self.attempts.iter().copied().filter(may_take).map(rank).collect::<Vec<_>>().into()
    }
}

#[cfg(test)]
mod tests;
