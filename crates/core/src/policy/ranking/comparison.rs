//! The rankings of a scheduler, and comparisons of jobs by them.

use super::Ranking;
use crate::ids::{Kind, PerKind};
use crate::policy::groups::NOT_GUARANTEED;
use crate::policy::orders::{Order, Rank};
use crate::policy::{Policy, View, lag};
use crate::state::{Job, JobKey};
use crate::tenants::Tenants;
use smallvec::SmallVec;

/// The rankings of a scheduler: for each kind one per routing stage.
#[derive(Debug)]
pub struct Rankings(PerKind<Vec<Ranking>>);

impl Rankings {
    /// Empty rankings for a policy.
    pub fn new(policy: &Policy, tenants: &Tenants) -> Rankings {
        Rankings(PerKind::from_fn(|kind| {
            let stages = policy.slots(kind).groups.stages();
            stages.iter().map(|&stage| Ranking::new(stage, kind, tenants)).collect()
        }))
    }

    /// The rankings of a kind, one per routing stage.
    #[inline]
    pub fn stages(&self, kind: Kind) -> &[Ranking] {
        &self.0[kind]
    }

    /// The rankings of a kind, for changing.
    #[inline]
    pub fn stages_mut(&mut self, kind: Kind) -> &mut [Ranking] {
        &mut self.0[kind]
    }

    /// All rankings of both kinds, for changing.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Ranking> {
        self.0.iter_mut().flatten()
    }

    /// The ranking that jobs are compared by: the last stage, which all jobs pass.
    pub fn last(&self, kind: Kind) -> &Ranking {
        self.0[kind].last().expect("every group order has a stage")
    }
}

impl Rankings {
    /// The ranking with the policy's groups, and what they are entitled to.
    pub fn groups(&self, kind: Kind) -> &Ranking {
        self.0[kind].first().expect("every group order has a stage")
    }

    /// The ranking whose min shares come before the ranks of jobs, if there is one.
    pub fn guarantee(&self, kind: Kind) -> Option<&Ranking> {
        self.0[kind].iter().find(|ranking| ranking.guarantees())
    }

    /// The ranking that can guarantee slots to groups, for changing.
    pub fn guarantee_mut(&mut self, kind: Kind) -> Option<&mut Ranking> {
        self.0[kind].iter_mut().find(|ranking| ranking.stage.is_guarantee())
    }

    /// True if jobs compare by their own ranks, apart from slots that are guaranteed to groups.
    pub fn compares_jobs_by_rank(&self, kind: Kind, has_groups: bool) -> bool {
        !has_groups || self.groups(kind).stage.is_guarantee()
    }
}

/// The ranks of a job's groups from the top, then its own: smaller is sooner.
pub type Standing = SmallVec<[Rank; 2]>;

/// Ranks and comparisons of jobs under a policy.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// What the orders read.
    pub view: View<'a>,
    /// The orders.
    pub policy: &'a Policy,
    /// The groups.
    pub rankings: &'a Rankings,
}

impl Comparison<'_> {
    /// The rank of a job within its group, if it had `extra` more slots.
    pub fn rank(&self, job: &Job, kind: Kind, extra: i32) -> Rank {
        self.policy.rank(self.view, job, kind, extra)
    }

    /// The ranks of a job and of its groups.
    pub fn standing(&self, job: JobKey, kind: Kind) -> Standing {
        let mut ranks = self.rankings.last(kind).group_ranks(job);
        if let Some(guarantee) = self.rankings.guarantee(kind) {
            ranks.push(guarantee.guaranteed_rank(job, 0));
        }
        ranks.push(self.rank(self.view.state.job(job), kind, 0));
        ranks
    }

    /// True if `a` may take a slot from `b`: it would still rank before `b` afterwards.
    pub fn may_take(&self, a: JobKey, b: JobKey, kind: Kind) -> bool {
        let state = self.view.state;
        if a == b {
            return false;
        }
        if let Some(by_min_share) = self.compare_min_shares(a, b, kind) {
            return by_min_share;
        }
        let with = |job: JobKey, extra| (job, self.rank(state.job(job), kind, extra));
        self.rankings.last(kind).stays_before(with(a, 1), with(b, -1), state.nodes().slots()[kind])
    }

    /// True if a slot of `b` moved to `a`, which is in the same group, would leave `a` with at most its share and `b` with at least its own. Then
    /// neither has a claim to a slot of the other, so that slots cannot move back and forth although the two may rank equal.
    pub fn keep_their_shares(&self, a: JobKey, b: JobKey, kind: Kind) -> bool {
        let last = self.rankings.last(kind);
        let [ours, theirs] = [a, b].map(|job| self.view.state.job(job).counts(kind));
        a != b
            && last.group_of(a) == last.group_of(b)
            && f64::from(ours.allocated()) + 1.0 <= ours.fair_share
            && f64::from(theirs.allocated()) - 1.0 >= theirs.fair_share
    }

    /// Whether `a` may take a slot from `b` because of min shares: none if the min shares do not decide. Min shares are compared as in
    /// [`Ranking::stays_before`], with the slot already moved.
    fn compare_min_shares(&self, a: JobKey, b: JobKey, kind: Kind) -> Option<bool> {
        let guarantee = self.rankings.guarantee(kind)?;
        if guarantee.group_of(a) == guarantee.group_of(b) {
            return None;
        }
        let [ours, theirs] = [(a, 1), (b, -1)].map(|(job, extra)| guarantee.guaranteed_rank(job, extra));
        (ours.min(theirs) < NOT_GUARANTEED).then_some(ours < theirs)
    }

    /// True if neither min shares nor lags decide whether `a` may take a slot from `b`, but the order of jobs.
    pub fn compare_by_order(&self, a: JobKey, b: JobKey, kind: Kind) -> bool {
        let is_due = self.policy.max_lag.is_some() && lag::is_due(self.view.state.job(b), kind, -1);
        !is_due && self.compare_min_shares(a, b, kind).is_none()
    }

    /// True if `a` is ahead of `b` by this factor, where both ranks are times: then the two will not soon change places. A job that is due
    /// by its age or its pool's min share needs no margin.
    pub fn is_ahead_by(&self, margin: f64, a: JobKey, b: JobKey, kind: Kind) -> bool {
        let last = self.rankings.last(kind);
        let is_due = self.policy.max_lag.is_some() && lag::is_due(self.view.state.job(a), kind, 0);
        if margin <= 1.0 || is_due || last.group_of(a) != last.group_of(b) {
            return true;
        }
        if self.compare_min_shares(a, b, kind).is_some() {
            return true;
        }
        let time = |job: JobKey| self.policy.slots(kind).order.time(self.view.state.job(job), kind);
        match (time(a), time(b)) {
            (Some(ours), Some(theirs)) => ours.as_secs_f64() * margin < theirs.as_secs_f64(),
            _ => true,
        }
    }
}
