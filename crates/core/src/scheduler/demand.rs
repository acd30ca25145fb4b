//! Slots are freed for those who are owed them.
//!
//! Who may demand, whose attempts go, and how, are the policy's [`Preemption`]s. Whatever they say, a slot is only taken if the taker would still
//! stand before the giver afterwards, and a freed slot is promised to the taker.

use super::Scheduler;
use super::news::Role;
use crate::action::{Action, Reason, Refusal};
use crate::ids::{AttemptId, Kind, NodeId};
use crate::policy::failure::standing;
use crate::policy::order::HoldingOut;
use crate::policy::preempt;
use crate::policy::{AttemptOrder, GroupOrder, JobOrder, PreemptAction, Preemption, PreemptionTrigger, VictimOrder};
use crate::state::{Claim, Facts, JobIx, TaskState};
use crate::units::Time;
use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A job that may have to give slots.
struct Giver {
    jx: JobIx,
    /// Its attempts that may give way, last to go first; none if nobody has asked yet.
    going: Option<Vec<u32>>,
}

impl Scheduler {
    /// Lets every job that may demand slots of a kind now do so.
    pub(super) fn demand_slots(&mut self, kind: Kind, out: &mut Vec<Action>) {
        let policy = Arc::clone(&self.policy);
        for preemption in &policy.slot_policy(kind).preempt {
            let demands = self.demands(kind, preemption);
            if demands.is_empty() {
                continue;
            }
            let mut givers = self.givers(kind, preemption);
            for (taker, slots) in demands {
                self.take_slots(taker, slots, &mut givers, kind, preemption, out);
                if givers.is_empty() {
                    break;
                }
            }
        }
    }

    /// Jobs that may demand slots, first in line first, and how many beyond those that are free anyway.
    fn demands(&mut self, kind: Kind, preemption: &Preemption) -> Vec<(JobIx, u32)> {
        let ix = kind.ix();
        let mut available = self.unclaimed(kind);
        let mut left = self.state.slots[ix];
        let starved = match preemption.when {
            PreemptionTrigger::Starved { min_share, fair_share } => {
                Some(self.starved_groups(kind, [min_share, fair_share]))
            }
            _ => None,
        };
        let mut demands = Vec::new();
        let mut owed_to_group = starved.unwrap_or_default();
        let line = self.lines[ix].last().expect("every lane has a line");
        let state = &self.state;
        let _ = line.walk::<()>(&self.limits(kind), &|_| true, HoldingOut::All, &mut |jx| {
            let facts = state.job(jx).facts(kind);
            // A paused task waits for its own node; freeing a slot elsewhere would not help it.
            let waiting = facts.waiting.saturating_sub(facts.claimed);
            let wanted = match preemption.when {
                PreemptionTrigger::Outranked => waiting,
                PreemptionTrigger::BelowShare => waiting.min((facts.owed.floor() as u32).saturating_sub(facts.held())),
                PreemptionTrigger::Starved { .. } => {
                    let owed = &mut owed_to_group[line.group_of(jx) as usize];
                    let wanted = waiting.min(*owed);
                    *owed -= wanted;
                    wanted
                }
            };
            let beyond = wanted.saturating_sub(available).min(left);
            available = available.saturating_sub(wanted);
            left -= beyond;
            if beyond > 0 {
                demands.push((jx, beyond));
            }
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        demands
    }

    /// Free slots that nobody was promised. A claim on a slot that is still being freed takes none of those that are free.
    pub(super) fn unclaimed(&self, kind: Kind) -> u32 {
        let being_freed: u32 = self.state.live().map(|(_, job)| job.facts(kind).yielding).sum();
        let on_free_slots = self.state.claims[kind.ix()].saturating_sub(being_freed);
        self.state.free[kind.ix()].saturating_sub(on_free_slots)
    }

    /// Slots each group may demand because it has been starved for longer than its patience (Hadoop's fair scheduler).
    fn starved_groups(&mut self, kind: Kind, patience: [crate::units::Span; 2]) -> Vec<u32> {
        let fair = self.fair_shares_of_groups(kind);
        let now: Time = self.now;
        let line = self.lines[kind.ix()].last_mut().expect("every lane has a line");
        let mut owed = vec![0; fair.len()];
        for ((group, share), owed) in line.groups_mut().iter_mut().zip(fair).zip(&mut owed) {
            let lacks = [share.min.min(share.need), (share.fair / 2.0).min(share.need)];
            for (level, lack) in lacks.into_iter().enumerate() {
                if f64::from(group.held) >= lack {
                    group.starved[level] = None;
                    continue;
                }
                let since = *group.starved[level].get_or_insert(now);
                if now.since(since) >= patience[level] {
                    let target = if level == 0 { share.min } else { share.fair }.min(share.need);
                    *owed = (*owed).max((target - f64::from(group.held)).ceil().max(0.0) as u32);
                }
            }
        }
        owed
    }

    /// Jobs that run something they could give, in the order in which they give way. Who demands a share takes only from those over theirs.
    fn givers(&self, kind: Kind, preemption: &Preemption) -> Vec<Giver> {
        let by_share = preemption.when == PreemptionTrigger::BelowShare;
        let running = |facts: &Facts| {
            facts.live.len() as u32 > facts.yielding && !(by_share && f64::from(facts.held()) <= facts.owed)
        };
        let jobs = self.state.live().filter(|(_, job)| !job.closed && running(job.facts(kind)));
        let mut givers: Vec<JobIx> = jobs.map(|(jx, _)| jx).collect();
        let order = self.slot_policy(kind).order;
        match preemption.whom {
            VictimOrder::LowestRank => {
                givers.sort_by_cached_key(|&jx| Reverse(standing(self.line(kind), order, &self.state, jx, kind)));
            }
            VictimOrder::LongestRemainingTime => {
                givers.sort_by_key(|&jx| Reverse((self.state.job(jx).estimate.remaining, self.state.job(jx).seq)));
            }
            VictimOrder::MostOverShare => {
                givers.sort_by_cached_key(|&jx| {
                    let facts = self.state.job(jx).facts(kind);
                    let over_milli = ((f64::from(facts.held()) - facts.owed) * 1e3) as i64;
                    Reverse((over_milli, self.state.job(jx).seq))
                });
            }
        }
        givers.into_iter().map(|jx| Giver { jx, going: None }).collect()
    }

    /// Takes slots for a job from those who can give some. Givers that have nothing left to give are taken off the list; all of them are, if
    /// nobody who comes after this taker can take anything either.
    fn take_slots(
        &mut self,
        taker: JobIx,
        mut slots: u32,
        givers: &mut Vec<Giver>,
        kind: Kind,
        preemption: &Preemption,
        out: &mut Vec<Action>,
    ) {
        let lane = self.policy.slot_policy(kind);
        let by_rank = preemption.whom == VictimOrder::LowestRank
            || (preemption.whom == VictimOrder::LongestRemainingTime && lane.order == JobOrder::RemainingTime);
        // Takers come in the order of rank. If givers do too, the first refusal speaks for all that follow.
        let refusal_is_final = by_rank && lane.groups == GroupOrder::Flat;
        let mut at = 0;
        while slots > 0 && at < givers.len() {
            let giver = givers[at].jx;
            if !self.may_take(taker, giver, kind) {
                if refusal_is_final {
                    givers.truncate(at);
                }
                at += 1;
                continue;
            }
            let mut going = match givers[at].going.take() {
                Some(going) => going,
                None => self.in_order_to_stay(giver, taker, kind, preemption),
            };
            while slots > 0 && !going.is_empty() && self.may_take(taker, giver, kind) {
                let task = going.pop().expect("not empty");
                let node = self.state.job(giver).task(kind, task).node;
                let reason = Reason::PreemptedFor { job: self.state.job(taker).id };
                self.ask_to_give_way(giver, kind, task, preemption.how, reason, out);
                self.claim(node, kind, taker, None);
                slots -= 1;
            }
            if going.is_empty() {
                givers.remove(at);
                continue;
            }
            // What is near one taker's data may be far from the next one's.
            givers[at].going = (preemption.attempt != AttemptOrder::NearData).then_some(going);
            at += 1;
        }
    }

    /// The attempts of a job that may give way, last to go first.
    fn in_order_to_stay(&self, giver: JobIx, taker: JobIx, kind: Kind, preemption: &Preemption) -> Vec<u32> {
        let splits = &self.state.job(taker).splits;
        let holds_data = |node: NodeId| splits.iter().any(|split| split.hosts.contains(&node));
        let job = self.state.job(giver);
        let mut going =
            preempt::in_order_to_go(job, kind, preemption.attempt, &preemption.spare, &holds_data, self.now);
        going.reverse();
        going
    }

    /// A person asked that an attempt give way. Its slot is promised to nobody: the line decides.
    pub(super) fn yield_requested(&mut self, attempt: AttemptId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let (jx, role) = self.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let (kind, index) = (attempt.task.kind, attempt.task.index);
        let able = self.setup.capabilities;
        let (how, able) = match kind {
            Kind::Map => (PreemptAction::EndEarly, able.end_maps_early),
            Kind::Reduce => (PreemptAction::Pause, able.pause_reduces),
        };
        let job = self.state.job(jx);
        let twinned = job.twins.iter().any(|twin| (twin.kind, twin.task) == (kind, index));
        if !able || twinned || role != Role::First || job.closed || job.task(kind, index).state != TaskState::Running {
            return Err(Refusal::NotRequested(attempt));
        }
        self.ask_to_give_way(jx, kind, index, how, Reason::RequestedByUser, out);
        Ok(())
    }

    /// Asks a running attempt to give way.
    pub(super) fn ask_to_give_way(
        &mut self,
        jx: JobIx,
        kind: Kind,
        index: u32,
        how: PreemptAction,
        reason: Reason,
        out: &mut Vec<Action>,
    ) {
        let job = self.state.job_mut(jx);
        let (attempt, node) = (job.attempt(kind, index), job.task(kind, index).node);
        let task = &mut job.tasks[kind.ix()][index as usize];
        assert!(task.state == TaskState::Running, "only a running attempt can be asked to give way");
        task.state = TaskState::Yielding(how);
        task.gave_way = task.gave_way.saturating_add(1);
        job.facts[kind.ix()].yielding += 1;
        out.push(match how {
            PreemptAction::Pause => Action::Pause { attempt, node, reason },
            PreemptAction::EndEarly => Action::EndEarly { attempt, node, reason },
            PreemptAction::Kill => Action::Kill { attempt, node, reason },
        });
        self.touch(jx, kind);
    }

    /// Promises a node's next free slot to a job.
    pub(super) fn claim(&mut self, node: NodeId, kind: Kind, jx: JobIx, task: Option<u32>) {
        let job = self.state.job(jx).id;
        self.state.node_mut(node).claims[kind.ix()].push(Claim { jx, job, task });
        self.state.claims[kind.ix()] += 1;
        self.state.job_mut(jx).facts[kind.ix()].claimed += 1;
        self.touch(jx, kind);
    }
}
