//! Triggers: which jobs may request slots of others, and how many.

use super::Preemption;
use crate::ids::Kind;
use crate::policy::SlotPolicy;
use crate::policy::View;
use crate::policy::ranking::{Comparison, GroupNumbers, Ranking, Visits};
use crate::policy::shares::weighted::group_shares;
use crate::policy::{area, lag};
use crate::state::{Job, JobKey};
use crate::units::{Span, Time};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Which jobs may request slots now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A job with pending tasks that ranks before a running one.
    Outranked,
    /// A job with pending tasks that has less than its share.
    BelowShare,
    /// A pool that has been below its min share, or below half its fair share, for too long (Hadoop's fair scheduler).
    Starved {
        /// How long a pool may be below its min share.
        min_share_timeout: Span,
        /// How long a pool may be below half its fair share.
        fair_share_timeout: Span,
    },
}

impl Trigger {
    pub(super) fn compares_shares(self) -> bool {
        match self {
            Trigger::Outranked => false,
            Trigger::BelowShare | Trigger::Starved { .. } => true,
        }
    }

    /// True if jobs below their share take slots of jobs over theirs, and of no others.
    pub(super) fn is_below_share(self) -> bool {
        self == Trigger::BelowShare
    }

    /// True if pools take slots of other pools, and not jobs of other jobs.
    pub(super) fn is_of_pools(self) -> bool {
        matches!(self, Trigger::Starved { .. })
    }

    pub(super) fn check(self, slots: &SlotPolicy) -> Result<(), String> {
        match self {
            Trigger::Starved { .. } if !slots.groups.has_fair_pools() => {
                Err("only pools can be starved; set groups = \"fair-pools\", or another trigger".into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn spans_mut(&mut self) -> Vec<&mut Span> {
        match self {
            Trigger::Outranked | Trigger::BelowShare => Vec::new(),
            Trigger::Starved { min_share_timeout, fair_share_timeout } => vec![min_share_timeout, fair_share_timeout],
        }
    }
}

/// A job that requests slots of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotRequest {
    pub(super) job: JobKey,
    pub(super) slots: u32,
    /// True if the slots are for paused tasks, each of which needs one on its own node.
    pub(super) for_paused: bool,
    /// True if the slots are among those that its pool lacks to what is guaranteed to it.
    pub(super) is_guaranteed: bool,
}

/// The jobs that may request slots, first in rank first, and how many beyond those that are free.
pub(super) fn requests(
    rule: &Preemption,
    kind: Kind,
    jobs: Comparison<'_>,
    starvation: &mut Starvation,
) -> Vec<SlotRequest> {
    let trigger = rule.trigger;
    let state = jobs.view.state;
    let ranking = jobs.rankings.last(kind);
    let mut available = unreserved(jobs.view, kind);
    let mut left = state.nodes().slots()[kind];
    let mut due = match trigger {
        Trigger::Outranked | Trigger::BelowShare => Vec::new(),
        Trigger::Starved { min_share_timeout, fair_share_timeout } => {
            starvation.due(jobs.view, kind, ranking, [min_share_timeout, fair_share_timeout])
        }
    };
    let mut requests = Vec::new();
    if !is_scarce(rule, kind, jobs, available) {
        return requests;
    }
    let mut request = |job: JobKey, is_guaranteed: bool| {
        let counts = state.job(job).counts(kind);
        let of_use = if rule.by_work { slots_of_use(state.job(job)) } else { u32::MAX };
        // A slot that is freed elsewhere would not help a paused task: it waits for its own node.
        let pending = counts.pending.saturating_sub(counts.reserved);
        let wanted = match trigger {
            Trigger::Outranked => pending.min(of_use),
            Trigger::BelowShare => pending.min((counts.fair_share.floor() as u32).saturating_sub(counts.allocated())),
            Trigger::Starved { .. } => {
                let due = &mut due[ranking.group_of(job)];
                let wanted = pending.min(*due);
                *due -= wanted;
                wanted
            }
        };
        let free = state.job(job).within_headroom(available);
        let lacking = if state.job(job).gets_freed_slots() { wanted.saturating_sub(free) } else { 0 };
        let slots = lacking.min(left);
        available -= wanted.min(free);
        left -= slots;
        if slots > 0 {
            requests.push(SlotRequest { job, slots, for_paused: false, is_guaranteed });
        }
        if rule.for_paused && kind == Kind::Reduce && counts.paused > 0 {
            requests.push(SlotRequest { job, slots: counts.paused.min(left), for_paused: true, is_guaranteed });
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // Jobs whose pools are below what is guaranteed to them request before all others, until they have requested what their pools lack.
    let mut have_requested = FxHashSet::default();
    let slots = state.nodes().slots()[kind];
    let mut ended = ControlFlow::Continue(());
    if let Some(guarantee) = jobs.rankings.guarantee(kind) {
        let facts = |group: usize| guarantee.group_facts(group);
        let lacks = |group: usize| facts(group).guaranteed().saturating_sub(facts(group).allocated);
        let mut lacking: Vec<u32> = (0..guarantee.group_count()).map(lacks).collect();
        ended = guarantee.search::<()>(slots, &|_| true, Visits::All, &mut |job| {
            if guarantee.groups_of(job).all(|group| lacking[group] == 0) {
                return ControlFlow::Continue(());
            }
            let counts = state.job(job).counts(kind);
            guarantee.groups_of(job).for_each(|group| lacking[group] = lacking[group].saturating_sub(counts.demand()));
            have_requested.insert(job);
            request(job, true)
        });
    }
    if ended.is_continue() {
        let _ = ranking.search::<()>(slots, &|_| true, Visits::All, &mut |job| {
            if have_requested.contains(&job) { ControlFlow::Continue(()) } else { request(job, false) }
        });
    }
    requests
}

/// True if jobs may request slots: those that are free are not enough for all pending tasks, or some are for paused ones.
fn is_scarce(rule: &Preemption, kind: Kind, jobs: Comparison<'_>, mut available: u32) -> bool {
    let for_paused = rule.for_paused && kind == Kind::Reduce;
    jobs.rankings.last(kind).queued().any(|job| {
        let job = jobs.view.state.job(job);
        let counts = job.counts(kind);
        let pending = counts.pending.saturating_sub(counts.reserved);
        let free = job.within_headroom(available);
        let is_enough = pending <= free;
        available -= pending.min(free);
        !is_enough || for_paused && counts.paused > 0
    })
}

/// The slots for which a job is worth a preemption each: one for each second of slot time that it has left.
fn slots_of_use(job: &Job) -> u32 {
    if area::is_unknown(job) { u32::MAX } else { lag::work_left_s(job).ceil().max(1.0) as u32 }
}

/// Free slots without a reservation. A reservation of a slot that is still being freed takes none of them.
pub fn unreserved(view: View<'_>, kind: Kind) -> u32 {
    let reservations = view.state.nodes().reservations()[kind];
    let on_free_slots = reservations.saturating_sub(view.state.jobs().stopping(kind));
    view.state.nodes().free()[kind].saturating_sub(on_free_slots)
}

/// Since when each pool has been below its min share and below half its fair share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Starvation {
    since: Vec<[Option<Time>; 2]>,
}

impl Starvation {
    /// The same for groups with other numbers.
    pub fn renumbered(&self, numbers: &GroupNumbers) -> Starvation {
        Starvation { since: numbers.renumber(&self.since, &[None; 2]) }
    }

    /// The slots that each group may request because it has been starved for longer than the timeouts allow.
    fn due(&mut self, view: View<'_>, kind: Kind, ranking: &Ranking, timeouts: [Span; 2]) -> Vec<u32> {
        let shares = group_shares(view, kind, ranking);
        self.since.resize(shares.len(), [None; 2]);
        let mut due = vec![0; shares.len()];
        for (group, share) in shares.into_iter().enumerate() {
            let allocated = f64::from(ranking.group_facts(group).allocated);
            let thresholds = [share.min.min(share.need), (share.fair / 2.0).min(share.need)];
            let targets = [share.min.min(share.need), share.fair.min(share.need)];
            for level in 0..2 {
                if allocated >= thresholds[level] {
                    self.since[group][level] = None;
                    continue;
                }
                let since = *self.since[group][level].get_or_insert(view.now);
                if view.now.since(since) >= timeouts[level] {
                    due[group] = due[group].max((targets[level] - allocated).ceil().max(0.0) as u32);
                }
            }
        }
        due
    }
}
