//! Carries out preemption and recovery: stops victims and reserves their slots for the beneficiaries.

use super::Scheduler;
use crate::action::{Action, PreemptAction};
use crate::ids::{JobId, Kind, NodeId, TaskKey};
use crate::policy::Recovery;
use crate::policy::preemption::{self, Preemption, Round, Victim};
use crate::policy::recovery::{self, LostTask, RecoverySlot};
use crate::reason::{PreemptReason, Reason, Refusal};
use crate::state::JobKey;
use std::sync::Arc;

impl Scheduler {
    pub(super) fn preempt_both(&mut self, out: &mut Vec<Action>) {
        Kind::BOTH.into_iter().for_each(|kind| self.preempt(kind, out));
    }

    /// Lets jobs that may take slots of a kind take them.
    pub(super) fn preempt(&mut self, kind: Kind, out: &mut Vec<Action>) {
        if !self.decides {
            return;
        }
        let policy = Arc::clone(&self.policy);
        for rule in &policy.slots(kind).preempt {
            let mut starvation = std::mem::take(&mut self.memory.starvation[kind]);
            let mut round = Round::new(rule, kind, self.comparison(), &mut starvation);
            self.memory.starvation[kind] = starvation;
            while let Some(victim) = round.next(self.comparison()) {
                let reason = self.preempt_reason(rule, &victim);
                self.stop_attempt(victim.job, victim.task, rule.action, reason, out);
                self.reserve(victim.node, kind, victim.beneficiary, None);
            }
            if let Some(at) = round.look_again_at(self.now) {
                self.preempt_by(at, out);
            }
        }
    }

    fn preempt_reason(&self, rule: &Preemption, victim: &Victim) -> Reason {
        let (kind, view) = (victim.task.kind, self.view());
        let [beneficiary, owner] = [victim.beneficiary, victim.job].map(|job| self.state.job(job));
        let slots = self.state.nodes().slots()[kind];
        Reason::Preempted(Box::new(PreemptReason {
            beneficiary: beneficiary.id(),
            group: self.rankings.groups(kind).group_reason(victim.beneficiary, slots),
            by: self.policy.measure(view, beneficiary, kind),
            victim: self.policy.measure(view, owner, kind),
            margin_milli: (rule.margin * 1e3) as u64,
            time_left: preemption::time_left(owner, victim.task, self.now),
            min_time_left: rule.guards.min_time_left,
        }))
    }

    /// Finds slots for lost tasks, if the policy recovers them at once. The others are pending like any task.
    pub(super) fn recover(&mut self, mut lost: Vec<LostTask>, out: &mut Vec<Action>) {
        if !self.policy.recovery.is_immediate() || !self.decides {
            return;
        }
        recovery::sort_lost(&mut lost, self.comparison());
        for lost in lost {
            let (kind, task) = (lost.task.kind, Some(lost.task.index));
            match recovery::find_slot(lost, self.comparison()) {
                Some(RecoverySlot::Free(node)) => self.reserve(node, kind, lost.job, task),
                Some(RecoverySlot::Preempt(victim)) => {
                    let reason = Reason::PreemptedForRecovery { job: self.state.job(lost.job).id() };
                    self.stop_attempt(victim.job, victim.task, Recovery::preempt_action(kind), reason, out);
                    self.reserve(victim.node, kind, lost.job, task);
                }
                None => {}
            }
        }
    }

    /// An open job requests slots for lost work. If the policy recovers at once, the job ranks first until it has them, and slots that are not
    /// free are freed by pausing attempts that rank lower.
    pub(super) fn recovery_requested(&mut self, job: JobId, slots: u32, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let (key, kind) = (self.open_job(job)?, Kind::Reduce);
        self.state.job_mut(key).set_recovering(slots);
        let able = self.setup.capabilities.one_slot_pool && self.setup.capabilities.pause_reduces;
        if !self.policy.recovery.is_immediate() || !able || !self.decides {
            return Ok(());
        }
        let counts = self.state.job(key).counts(kind);
        let lost = slots.min(counts.pending).saturating_sub(counts.reserved);
        for _ in preemption::unreserved(self.view(), kind)..lost {
            let Some(victim) = recovery::find_victim(key, kind, self.comparison()) else { break };
            let reason = Reason::PreemptedForRecovery { job };
            self.stop_attempt(victim.job, victim.task, PreemptAction::Pause, reason, out);
            self.reserve(victim.node, kind, key, None);
        }
        Ok(())
    }

    /// Looks again for slots for lost tasks that found none, if the policy does.
    pub(super) fn recover_again(&mut self, out: &mut Vec<Action>) {
        if self.policy.recovery.retries() {
            self.recover(recovery::lost_tasks(self.view()), out);
        }
    }

    pub(super) fn stop_attempt(
        &mut self,
        job: JobKey,
        task: TaskKey,
        action: PreemptAction,
        reason: Reason,
        out: &mut Vec<Action>,
    ) {
        let (attempt, node) = self.state.request_stop(job, task, action);
        out.push(match action {
            PreemptAction::Pause => Action::Pause { attempt, node, reason },
            PreemptAction::EndEarly => Action::EndEarly { attempt, node, reason },
            PreemptAction::Kill => Action::Kill { attempt, node, reason },
        });
        self.rerank(job, task.kind);
    }

    pub(super) fn reserve(&mut self, node: NodeId, kind: Kind, job: JobKey, task: Option<u32>) {
        self.state.reserve(node, kind, job, task);
        self.rerank(job, kind);
    }
}
