//! The order in which jobs, and attempts of a job, are considered as victims.

use super::{Guards, Preemption, is_preemptable};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::policy::View;
use crate::policy::orders::Order;
use crate::policy::placement::AcceptedNodes;
use crate::policy::ranking::Comparison;
use crate::state::bit_set::BitSet;
use crate::state::{JobKey, TaskCounts, TaskState};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::cmp::Reverse;

/// Which job's attempts are victims first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimOrder {
    /// The job that ranks last.
    LowestRank,
    /// The job with the longest remaining time (hSRTF, section 3.3).
    LongestRemainingTime,
    /// The job with the most slots over its share.
    MostOverShare,
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
    pub(super) fn compares_shares(self) -> bool {
        self == VictimOrder::MostOverShare
    }

    /// True if victims come in the order of rank, last first.
    pub(super) fn follows_rank(self, order: &impl Order) -> bool {
        match self {
            VictimOrder::LowestRank => true,
            VictimOrder::LongestRemainingTime => order.is_by_remaining_time(),
            VictimOrder::MostOverShare => false,
        }
    }
}

impl AttemptOrder {
    /// True if the order has to be computed for each beneficiary.
    pub(super) fn depends_on_beneficiary(self) -> bool {
        self == AttemptOrder::NearData
    }
}

/// A job that may lose attempts.
pub(super) struct VictimJob {
    pub(super) job: JobKey,
    /// None if they have not been computed.
    preemptable: Option<Box<Preemptable>>,
}

/// The attempts of a job that no guard protects.
struct Preemptable {
    /// The guards that were asked. They are the same for most beneficiaries.
    guards: Guards,
    attempts: Vec<u32>,
    /// How many of them run on each type of nodes.
    by_type: SmallVec<[u32; 4]>,
    /// When the first attempt that was launched too recently has run long enough.
    young_until: Option<Time>,
    /// Those that a beneficiary may take, last victim first; none if they have not been computed.
    takeable: Option<Takeable>,
}

struct Takeable {
    /// None if any beneficiary may take them.
    beneficiary: Option<JobKey>,
    attempts: Vec<u32>,
}

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

    fn near(&self, view: View<'_>) -> &BitSet {
        self.near.get_or_init(|| {
            let mut near = BitSet::default();
            let splits = view.state.job(self.beneficiary).splits();
            splits.iter().flat_map(|split| &split.hosts).for_each(|host| near.insert(host.0));
            near
        })
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
    /// Positions among the victims, in their order.
    pub(super) victims: Vec<u32>,
}

impl Prospects {
    /// The position in `all` of the prospects for a preference; they are added if there are none.
    pub(super) fn find(
        all: &mut Vec<Prospects>,
        preference: &Preference,
        victims: usize,
        jobs: Comparison<'_>,
    ) -> usize {
        let is_shared = preference.is_shareable(jobs);
        let allows = |of: &Preference| (of.guards, &of.accepted) == (preference.guards, &preference.accepted);
        let known = all.iter().position(|known| is_shared && known.is_shared && allows(&known.preference));
        known.unwrap_or_else(|| {
            all.retain(|known| known.is_shared);
            all.push(Prospects { preference: preference.clone(), is_shared, victims: (0..victims as u32).collect() });
            all.len() - 1
        })
    }
}

impl VictimJob {
    fn new(job: JobKey) -> VictimJob {
        VictimJob { job, preemptable: None }
    }

    /// The next attempt that the beneficiary may take, if there is one.
    pub(super) fn next_attempt(
        &mut self,
        rule: &Preemption,
        kind: Kind,
        jobs: Comparison<'_>,
        preference: &Preference,
    ) -> Option<u32> {
        if self.preemptable.as_ref().is_none_or(|of| of.guards != preference.guards) {
            self.preemptable = Some(Box::new(Preemptable::of(preference.guards, kind, jobs.view, self.job)));
        }
        let preemptable = self.preemptable.as_mut()?;
        let beneficiary = (!preference.is_common(rule, jobs)).then_some(preference.beneficiary);
        if preemptable.takeable.as_ref().is_none_or(|of| of.beneficiary != beneficiary) {
            let attempts = attempts_last_first(rule, kind, jobs, self.job, preference, preemptable);
            preemptable.takeable = Some(Takeable { beneficiary, attempts });
        }
        // An attempt may have been stopped for a paused reduce since.
        let runs =
            |index: u32| jobs.view.state.job(self.job).task(TaskKey { kind, index }).state() == TaskState::Running;
        loop {
            let index = preemptable.takeable.as_mut()?.attempts.pop()?;
            preemptable.remove(kind, jobs.view, self.job, index);
            if runs(index) {
                return Some(index);
            }
        }
    }

    /// When the first attempt that was launched too recently has run long enough.
    pub(super) fn young_until(&self) -> Option<Time> {
        self.preemptable.as_ref()?.young_until
    }
}

impl Preemptable {
    fn of(guards: Guards, kind: Kind, view: View<'_>, victim: JobKey) -> Preemptable {
        let (job, nodes) = (view.state.job(victim), view.state.nodes());
        let mut found = Preemptable {
            guards,
            attempts: Vec::new(),
            by_type: SmallVec::from_elem(0, nodes.types().len()),
            young_until: None,
            takeable: None,
        };
        for &index in &job.counts(kind).running {
            let key = TaskKey { kind, index };
            let node = job.task(key).node();
            if is_preemptable(job, key, &guards, view.now) {
                if nodes.is_usable(node) {
                    found.attempts.push(index);
                    found.by_type[nodes.type_of(node)] += 1;
                }
            } else if let Some(until) = guards.young_until(job, key, view.now) {
                found.young_until = Some(found.young_until.map_or(until, |sooner| sooner.min(until)));
            }
        }
        found
    }

    fn remove(&mut self, kind: Kind, view: View<'_>, victim: JobKey, index: u32) {
        if let Some(at) = self.attempts.iter().position(|&attempt| attempt == index) {
            self.attempts.remove(at);
            let node = view.state.job(victim).task(TaskKey { kind, index }).node();
            self.by_type[view.state.nodes().type_of(node)] -= 1;
        }
    }
}

/// The jobs with running attempts, first victim first.
pub(super) fn victim_jobs(rule: &Preemption, kind: Kind, jobs: Comparison<'_>) -> Vec<VictimJob> {
    let state = jobs.view.state;
    let is_victim = |counts: &TaskCounts| {
        let within_share = f64::from(counts.allocated()) <= counts.fair_share;
        counts.running.len() as u32 > counts.stopping && !(rule.trigger.is_below_share() && within_share)
    };
    let running = state.jobs().iter().filter(|(_, job)| !job.is_closed() && is_victim(job.counts(kind)));
    let mut victims: Vec<JobKey> = running.map(|(key, _)| key).collect();
    match rule.victims {
        VictimOrder::LowestRank => victims.sort_by_cached_key(|&job| Reverse(jobs.standing(job, kind))),
        VictimOrder::LongestRemainingTime => victims.sort_by_key(|&job| {
            let job = state.job(job);
            Reverse((job.estimate().remaining_time, job.sequence()))
        }),
        VictimOrder::MostOverShare => victims.sort_by_cached_key(|&job| {
            let job = state.job(job);
            let counts = job.counts(kind);
            let over_milli = ((f64::from(counts.allocated()) - counts.fair_share) * 1e3) as i64;
            Reverse((over_milli, job.sequence()))
        }),
    }
    victims.into_iter().map(VictimJob::new).collect()
}

/// The attempts of a job that a beneficiary may take, last victim first.
fn attempts_last_first(
    rule: &Preemption,
    kind: Kind,
    jobs: Comparison<'_>,
    victim: JobKey,
    preference: &Preference,
    preemptable: &Preemptable,
) -> Vec<u32> {
    let Preference { beneficiary, accepted, .. } = preference;
    let has_accepted_type = (0..).zip(&preemptable.by_type).any(|(at, &n)| n > 0 && accepted.may_contain_type(at));
    if !has_accepted_type {
        return Vec::new();
    }
    let view = jobs.view;
    let (job, nodes) = (view.state.job(victim), view.state.nodes());
    let task = |index: u32| job.task(TaskKey { kind, index });
    // A slot that the beneficiary would refuse is of no use to it.
    let may_take = |&index: &u32| {
        let node = task(index).node();
        let avoided =
            || jobs.policy.failures.job_avoids(view.state.job(*beneficiary), *beneficiary, kind, node, nodes, None);
        accepted.contains(node, nodes) && !avoided()
    };
    let mut attempts: Vec<u32> = preemptable.attempts.iter().copied().filter(may_take).collect();
    let newest_first = |index: u32| Reverse(task(index).launched());
    match rule.attempts {
        AttemptOrder::LeastProgress => attempts.sort_by_key(|&i| (task(i).progress_ppm(), newest_first(i), i)),
        AttemptOrder::Newest => attempts.sort_by_key(|&i| (newest_first(i), i)),
        AttemptOrder::NearData => {
            let near = if attempts.len() > 1 { Some(preference.near(view)) } else { None };
            let is_far = |node: NodeId| near.is_some_and(|near| !near.contains(node.0));
            attempts.sort_by_cached_key(|&i| (is_far(task(i).node()), task(i).progress_ppm(), newest_first(i), i));
        }
    }
    attempts.reverse();
    attempts
}
