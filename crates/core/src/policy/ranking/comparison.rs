//! The rankings of a scheduler, and comparisons of jobs by them.

use super::Ranking;
use crate::ids::{Kind, PerKind};
use crate::policy::groups::NOT_GUARANTEED;
use crate::policy::orders::{Order, Rank};
use crate::policy::{Policy, View, lag};
use crate::state::{Job, JobKey};
use crate::tenants::Tenants;
use crate::units::Span;
use smallvec::{SmallVec, smallvec};

/// The rankings of a scheduler: for each kind one per routing stage.
#[derive(Debug)]
pub struct Rankings {
    stages: PerKind<Vec<Ranking>>,
    /// By job, its rank while it holds slots that it may lose; kept for kinds whose victims are chosen by rank.
    victims: PerKind<Vec<Option<Rank>>>,
}

impl Rankings {
    /// Empty rankings for a policy.
    pub fn new(policy: &Policy, tenants: &Tenants) -> Rankings {
        let of_kind = |kind: Kind| {
            let stages = policy.slots(kind).groups.stages();
            stages.iter().map(|&stage| Ranking::new(stage, kind, tenants)).collect()
        };
        Rankings { stages: PerKind::from_fn(of_kind), victims: PerKind::default() }
    }

    /// The rankings of a kind, one per routing stage.
    #[inline]
    pub fn stages(&self, kind: Kind) -> &[Ranking] {
        &self.stages[kind]
    }

    /// The rankings of a kind, for changing.
    #[inline]
    pub fn stages_mut(&mut self, kind: Kind) -> &mut [Ranking] {
        &mut self.stages[kind]
    }

    /// All rankings of both kinds, for changing.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Ranking> {
        self.stages.iter_mut().flatten()
    }

    /// The ranking that jobs are compared by: the last stage, which all jobs pass.
    pub fn last(&self, kind: Kind) -> &Ranking {
        self.stages[kind].last().expect("every group order has a stage")
    }
}

impl Rankings {
    /// Sets the rank of a job that holds slots of a kind which it may lose, or that it holds none.
    #[inline]
    pub fn set_victim(&mut self, job: JobKey, kind: Kind, rank: Option<Rank>) {
        let victims = &mut self.victims[kind];
        if victims.len() <= job.index() {
            victims.resize(job.index() + 1, None);
        }
        victims[job.index()] = rank;
    }

    /// The jobs that hold slots of a kind which they may lose, and their ranks.
    pub fn victims(&self, kind: Kind) -> impl Iterator<Item = (JobKey, Rank)> {
        (0..).map(JobKey::from_number).zip(&self.victims[kind]).filter_map(|(job, &rank)| Some((job, rank?)))
    }

    /// The ranking with the policy's groups, and what they are entitled to.
    pub fn groups(&self, kind: Kind) -> &Ranking {
        self.stages[kind].first().expect("every group order has a stage")
    }

    /// The ranking whose min shares come before the ranks of jobs, if there is one.
    pub fn guarantee(&self, kind: Kind) -> Option<&Ranking> {
        self.stages[kind].iter().find(|ranking| ranking.guarantees())
    }

    /// The ranking that can guarantee slots to groups, for changing.
    pub fn guarantee_mut(&mut self, kind: Kind) -> Option<&mut Ranking> {
        self.stages[kind].iter_mut().find(|ranking| ranking.stage.is_guarantee())
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
    /// [`Capabilities::slots_stay_in_pool`](crate::Capabilities::slots_stay_in_pool).
    pub slots_stay_in_pool: bool,
}

impl<'a> Comparison<'a> {
    /// The rank of a job within its group, if it had `extra` more slots.
    pub fn rank(&self, job: &Job, kind: Kind, extra: i32) -> Rank {
        self.policy.rank(self.view, job, kind, extra)
    }

    /// The same as [`Rankings::victims`], computed now.
    pub fn count_victims(self, kind: Kind) -> impl Iterator<Item = (JobKey, Rank)> {
        let victims = self.view.state.jobs().iter().filter(move |(_, job)| job.may_lose_slot(kind));
        victims.map(move |(key, job)| (key, self.rank(job, kind, 0)))
    }

    /// The ranks of a job and of its groups.
    pub fn standing(&self, job: JobKey, kind: Kind) -> Standing {
        self.standing_with(self.rank(self.view.state.job(job), kind, 0), job, kind)
    }

    /// The same, given its own rank.
    pub fn standing_with(&self, rank: Rank, job: JobKey, kind: Kind) -> Standing {
        let mut ranks = self.rankings.last(kind).group_ranks(job);
        if let Some(guarantee) = self.rankings.guarantee(kind) {
            ranks.push(guarantee.guaranteed_rank(job, 0));
        }
        ranks.push(rank);
        ranks
    }

    /// True if `a` may take a slot from `b`: it would still rank before `b` afterwards.
    pub fn may_take(self, a: JobKey, b: JobKey, kind: Kind) -> bool {
        self.claim(a, kind).may_take(b)
    }

    /// True if a slot that `b` gives up can become one of `a`.
    pub fn can_use_slots_of(self, a: JobKey, b: JobKey) -> bool {
        let pool_of = |job| self.view.state.job(job).pool();
        !self.slots_stay_in_pool || pool_of(a) == pool_of(b)
    }

    /// A job as one that may take slots of a kind.
    pub fn claim(self, job: JobKey, kind: Kind) -> Claim<'a> {
        let of = self.view.state.job(job);
        let guarantee = self.rankings.guarantee(kind);
        Claim {
            jobs: self,
            job,
            kind,
            rank: self.rank(of, kind, 1),
            time: self.policy.slots(kind).order.time(of, kind),
            is_due: self.policy.max_lag.is_some() && lag::is_due(of, kind, 0),
            guarantee,
            by_min_share: smallvec![None; guarantee.map_or(0, Ranking::group_count)],
        }
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
}

/// A job that may take slots of others, to be compared with many of them. It holds while no slot changes hands.
pub struct Claim<'a> {
    jobs: Comparison<'a>,
    job: JobKey,
    kind: Kind,
    /// Its rank if it had one more slot.
    rank: Rank,
    /// Its rank as a time.
    time: Option<Span>,
    is_due: bool,
    guarantee: Option<&'a Ranking>,
    /// By group, the answer of [`Claim::compare_min_shares`], where it was computed.
    by_min_share: SmallVec<[Option<Option<bool>>; 16]>,
}

impl Claim<'_> {
    /// The job's rank if it had one more slot.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// True if it may take a slot from another: it would still rank before that one afterwards.
    pub fn may_take(&mut self, from: JobKey) -> bool {
        if from == self.job {
            return false;
        }
        if let Some(by_min_share) = self.compare_min_shares(from) {
            return by_min_share;
        }
        let state = self.jobs.view.state;
        let theirs = self.jobs.rank(state.job(from), self.kind, -1);
        let slots = state.nodes().slots()[self.kind];
        self.jobs.rankings.last(self.kind).stays_before((self.job, self.rank), (from, theirs), slots)
    }

    /// Whether it may take a slot from another because of min shares: none if the min shares do not decide. Min shares are compared as in
    /// [`Ranking::stays_before`], with the slot already moved.
    fn compare_min_shares(&mut self, from: JobKey) -> Option<bool> {
        let guarantee = self.guarantee?;
        let (own, other) = (guarantee.group_of(self.job), guarantee.group_of(from));
        if own == other {
            return None;
        }
        *self.by_min_share[other].get_or_insert_with(|| {
            let [ours, theirs] = [(self.job, 1), (from, -1)].map(|(job, extra)| guarantee.guaranteed_rank(job, extra));
            (ours.min(theirs) < NOT_GUARANTEED).then_some(ours < theirs)
        })
    }

    /// True if neither min shares nor lags decide whether it may take a slot from another, but the order of jobs.
    pub fn compare_by_order(&mut self, from: JobKey) -> bool {
        let Comparison { view, policy, .. } = self.jobs;
        let is_due = policy.max_lag.is_some() && lag::is_due(view.state.job(from), self.kind, -1);
        !is_due && self.compare_min_shares(from).is_none()
    }

    /// True if it is ahead of another by this factor, where both ranks are times: then the two will not soon change places. A job that is due
    /// by its age or its pool's min share needs no margin.
    pub fn is_ahead_by(&mut self, margin: f64, other: JobKey) -> bool {
        let (jobs, kind) = (self.jobs, self.kind);
        let last = jobs.rankings.last(kind);
        if margin <= 1.0 || self.is_due || last.group_of(self.job) != last.group_of(other) {
            return true;
        }
        if self.compare_min_shares(other).is_some() {
            return true;
        }
        match (self.time, jobs.policy.slots(kind).order.time(jobs.view.state.job(other), kind)) {
            (Some(ours), Some(theirs)) => ours.as_secs_f64() * margin < theirs.as_secs_f64(),
            _ => true,
        }
    }
}
