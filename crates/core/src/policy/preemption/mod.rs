//! Preemption: who may take slots now, from which attempt, and what protects an attempt.
//!
//! `trigger.rs` says which jobs request slots, `victims.rs` in which order attempts are considered, `guards.rs` which are protected; `for_paused.rs` finds slots
//! for paused reduces, on their own nodes. A [`Round`] combines them and yields one victim at a time; the scheduler stops the victim and reserves its slot before it takes the next,
//! because both change the ranks. Under every policy, a slot is taken only if the beneficiary would still rank before the victim's job
//! afterwards ([`Ranking::stays_before`](super::ranking::Ranking::stays_before), ADR 3), or if it is taken because of shares and both then keep
//! theirs ([`Comparison::keep_their_shares`]).

mod for_paused;
mod guards;
mod trigger;
mod victims;

pub use guards::{Guards, is_preemptable, time_left};
pub use trigger::{Starvation, Trigger, unreserved};
pub use victims::{AttemptOrder, VictimOrder};

use super::orders::Rank;
use super::ranking::Comparison;
use super::{Needs, SlotPolicy, View, area, lag};
use crate::action::PreemptAction;
use crate::ids::{Kind, NodeId, TaskKey};
use crate::state::{Job, JobKey, RunningAttempt, TaskState};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use trigger::SlotRequest;
use victims::{Preference, Prospects, Victims};

/// A rule by which jobs take slots from others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preemption {
    /// Which jobs may request slots.
    pub trigger: Trigger,
    /// Which job's attempts are victims first.
    pub victims: VictimOrder,
    /// Which attempt of such a job is a victim first.
    pub attempts: AttemptOrder,
    /// How the victim is stopped.
    pub action: PreemptAction,
    /// The beneficiary's rank, as a time, is at least this many times smaller than the victim's; 1 for any difference.
    #[serde(default = "no_margin", skip_serializing_if = "is_no_margin")]
    pub margin: f64,
    /// Whether a paused reduce may take the slot of an attempt on its own node, where its state is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_paused: bool,
    /// Whether the beneficiary's work limits what it takes: one slot for each second of it, and from attempts that guards protect for longer than it takes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_work: bool,
    /// Which attempts are protected.
    #[serde(default)]
    pub guards: Guards,
}

impl Preemption {
    pub(super) fn check(&self, kind: Kind, slots: &SlotPolicy) -> Result<(), String> {
        match (kind, self.action) {
            (Kind::Map, PreemptAction::Pause) => {
                return Err("maps cannot pause; write action = \"end-early\" or \"kill\"".into());
            }
            (Kind::Reduce, PreemptAction::EndEarly) => {
                return Err("reduces cannot end early; write action = \"pause\" or \"kill\"".into());
            }
            _ => {}
        }
        if slots.share.is_none() && (self.trigger.compares_shares() || self.victims.compares_shares()) {
            let hint = "set share = \"weighted\" or \"inverse-remaining-time\"";
            return Err(format!("this preemption compares shares; {hint}"));
        }
        if !(self.margin.is_finite() && self.margin >= 1.0) {
            return Err("a preemption's margin is a factor of at least 1; write for example 1.25".into());
        }
        self.trigger.check(slots)?;
        self.victims.check()?;
        self.guards.check()
    }

    /// What it reads: victims are chosen by comparing attempts.
    pub(super) fn needs(&self) -> Needs {
        Needs { attempt_progress: true, ..Needs::NOTHING } | self.victims.needs()
    }

    /// True if one more attempt may be stopped on a node: paused ones occupy it.
    fn may_stop_more(&self, view: View<'_>, node: NodeId) -> bool {
        self.action != PreemptAction::Pause || may_pause_more(view, node)
    }

    /// Which attempts are protected from a beneficiary.
    fn guards_for(&self, beneficiary: &Job) -> Guards {
        let limited = self.by_work && !area::is_unknown(beneficiary);
        let work_left = || Span::from_secs_f64(lag::work_left_s(beneficiary));
        if limited { self.guards.for_beneficiary(work_left()) } else { self.guards }
    }

    pub(super) fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        self.trigger.spans_mut().into_iter().chain([&mut self.guards.min_runtime, &mut self.guards.min_time_left])
    }
}

/// Any difference in rank is enough.
pub const NO_MARGIN: f64 = 1.0;

fn no_margin() -> f64 {
    NO_MARGIN
}

fn is_no_margin(margin: &f64) -> bool {
    *margin == NO_MARGIN
}

/// An attempt to be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The job that gets the slot.
    pub beneficiary: JobKey,
    /// The victim's job.
    pub job: JobKey,
    /// The victim's task.
    pub task: TaskKey,
    /// Where it runs.
    pub node: NodeId,
}

/// One round of preemption for slots of a kind under one rule.
pub struct Round<'a> {
    rule: &'a Preemption,
    kind: Kind,
    requests: std::vec::IntoIter<SlotRequest>,
    request: Option<Request>,
    victims: Victims,
    /// Most requests find nothing, for the same reason as the one before.
    prospects: Vec<Prospects>,
    /// True if victims are in the order of rank, last first: a job that ranks after one of them ranks after all that follow.
    victims_by_rank: bool,
    end: End,
    /// When to look again, because attempts that a beneficiary may take were launched too recently.
    look_again_at: Option<Time>,
}

/// A request that is being served.
struct Request {
    of: SlotRequest,
    preference: Preference,
    /// Which of the round's prospects are its own.
    prospects: usize,
    /// Which of these victims is considered.
    at: usize,
}

/// Where the search for victims ends: those from `at` on rank before jobs of this rank, and of any later one.
struct End {
    at: usize,
    rank: Rank,
}

impl End {
    /// True if a job may not take slots from the victim at a position, nor from those that follow.
    fn is_reached(&self, at: usize, request: &SlotRequest, rank: impl FnOnce() -> Rank) -> bool {
        at >= self.at && !request.is_guaranteed && rank() >= self.rank
    }
}

/// True if one more reduce may be paused on a node: those that are paused there, or are about to, are below its limit.
pub fn may_pause_more(view: View<'_>, node: NodeId) -> bool {
    let node = view.state.node(node);
    if node.pause_limit() == u32::MAX {
        return true;
    }
    let is_pausing = |attempt: &&RunningAttempt| {
        let task = view.state.job(attempt.job).task(TaskKey::reduce(attempt.task));
        task.state() == TaskState::Stopping(PreemptAction::Pause)
    };
    let pausing = node.running(Kind::Reduce).iter().filter(is_pausing).count();
    node.paused().len() + pausing < node.pause_limit() as usize
}

impl<'a> Round<'a> {
    /// A round with the requests that the trigger allows now.
    pub fn new(rule: &'a Preemption, kind: Kind, jobs: Comparison<'_>, starvation: &mut Starvation) -> Round<'a> {
        let requests = trigger::requests(rule, kind, jobs, starvation);
        let victims = if requests.is_empty() { Victims::default() } else { Victims::of(rule, kind, jobs) };
        let slots = jobs.policy.slots(kind);
        let by_rank = jobs.rankings.compares_jobs_by_rank(kind, slots.groups.has_groups());
        let victims_by_rank = rule.victims.follows_rank(&slots.order) && by_rank;
        Round {
            rule,
            kind,
            requests: requests.into_iter(),
            request: None,
            victims,
            prospects: Vec::new(),
            victims_by_rank,
            end: End { at: usize::MAX, rank: Rank::MAX },
            look_again_at: None,
        }
    }

    /// When to look again, because attempts that could be taken are too young: at the end of the first one's protection, but not more often
    /// than twice in the time for which attempts are protected from this beneficiary.
    pub fn look_again_at(&self) -> Option<Time> {
        self.look_again_at
    }

    /// The next victim, if there is one. The caller stops it and reserves its slot for the beneficiary before it calls again.
    pub fn next(&mut self, jobs: Comparison<'_>) -> Option<Victim> {
        while self.victims.len() > 0 {
            if let Some(victim) = self.next_for_request(jobs) {
                return Some(victim);
            }
            let request = self.requests.next()?;
            self.request = self.begin(request, jobs);
        }
        None
    }

    /// A request that is to be served; none if it cannot take a slot from anybody.
    fn begin(&mut self, of: SlotRequest, jobs: Comparison<'_>) -> Option<Request> {
        let rank = || jobs.rank(jobs.view.state.job(of.job), self.kind, 1);
        if !of.for_paused && self.end.is_reached(0, &of, rank) {
            return None;
        }
        let preference = Preference::new(self.rule, self.kind, jobs, of.job);
        let prospects = Prospects::find(&mut self.prospects, &preference, self.look_again_at, jobs);
        Some(Request { of, preference, prospects, at: 0 })
    }

    /// The next victim for the present request, if there is one.
    fn next_for_request(&mut self, jobs: Comparison<'_>) -> Option<Victim> {
        let request = self.request.as_mut().filter(|request| request.of.slots > 0)?;
        let beneficiary = request.of.job;
        if request.of.for_paused {
            let victim = for_paused::victim(self.rule, beneficiary, jobs);
            request.of.slots = if victim.is_some() { request.of.slots - 1 } else { 0 };
            return victim;
        }
        let prospects = &mut self.prospects[request.prospects];
        let mut claim = jobs.claim(beneficiary, self.kind);
        while let Some(at) = prospects.get(request.at, self.victims.len()) {
            if self.end.is_reached(at, &request.of, || claim.rank()) {
                return None;
            }
            let candidate = self.victims.get(at);
            let victim = candidate.job;
            if !self.rule.trigger.is_of_pools() && !jobs.can_use_slots_of(beneficiary, victim) {
                request.at += 1;
                continue;
            }
            let by_share = self.rule.trigger.is_below_share() && jobs.keep_their_shares(beneficiary, victim, self.kind);
            if !by_share && !claim.may_take(victim) {
                if self.victims_by_rank && claim.compare_by_order(victim) {
                    self.end = End { at, rank: claim.rank() };
                }
                request.at += 1;
                continue;
            }
            if !claim.is_ahead_by(self.rule.margin, victim) {
                request.at += 1;
                continue;
            }
            let Some(index) = candidate.next_attempt(self.rule, self.kind, jobs, &request.preference) else {
                let earliest = request.preference.look_again_from(jobs.view.now);
                let at = candidate.young_until().map(|until| until.max(earliest));
                self.look_again_at = self.look_again_at.into_iter().chain(at).min();
                prospects.remove(request.at);
                continue;
            };
            let task = TaskKey { kind: self.kind, index };
            let node = jobs.view.state.job(victim).task(task).node();
            if self.rule.may_stop_more(jobs.view, node) {
                request.of.slots -= 1;
                return Some(Victim { beneficiary, job: victim, task, node });
            }
        }
        None
    }
}
