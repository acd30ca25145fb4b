//! Carries out preemption and recovery: stops victims and reserves their slots for the beneficiaries.

use super::Scheduler;
use crate::action::{Action, PreemptAction};
use crate::ids::Kind;
use crate::policy::Recovery;
use crate::policy::preemption::{self, Preemption, Round, Victim};
use crate::policy::recovery::{self, LostTask, RecoverySlot};
use crate::reason::{PreemptReason, Reason};
use crate::state::JobKey;
use std::sync::Arc;

impl Scheduler {
    /// Lets jobs that may take slots of a kind take them.
    pub(super) fn preempt(&mut self, kind: Kind, out: &mut Vec<Action>) {
        let policy = Arc::clone(&self.policy);
        for rule in &policy.slots(kind).preempt {
            let mut starvation = std::mem::take(&mut self.cluster.memory.starvation[kind]);
            let mut round = Round::new(rule, kind, self.comparison(), &mut starvation);
            self.cluster.memory.starvation[kind] = starvation;
            while let Some(victim) = round.next(self.comparison()) {
                let reason = self.preempt_reason(rule, &victim);
                self.cluster.stop_attempt(victim.job, victim.task, rule.action, reason, out);
                self.cluster.reserve(victim.node, kind, victim.beneficiary, None);
            }
            if let Some(at) = round.look_again_at() {
                self.cluster.preempt_by(at, out);
            }
        }
    }

    fn preempt_reason(&self, rule: &Preemption, victim: &Victim) -> Reason {
        let (kind, view) = (victim.task.kind, self.view());
        let [beneficiary, owner] = [victim.beneficiary, victim.job].map(|job| self.state.job(job));
        let slots = self.state.nodes().slots()[kind];
        let group_of = |job| self.rankings.groups(kind).group_reason(job, slots);
        let (group, of_victim) = (group_of(victim.beneficiary), group_of(victim.job));
        // Between jobs of one pool, queue or user it explains nothing.
        let is_same = group.as_ref().zip(of_victim.as_ref()).is_some_and(|(group, other)| group.name == other.name);
        Reason::Preempted(Box::new(PreemptReason {
            beneficiary: beneficiary.id(),
            group: group.filter(|_| !is_same),
            by: self.policy.measure(view, beneficiary, kind),
            victim: self.policy.measure(view, owner, kind),
            margin_milli: (rule.margin * 1e3) as u64,
            time_left: preemption::time_left(owner, victim.task, self.now),
            min_time_left: rule.guards.min_time_left,
        }))
    }

    /// Finds slots for lost tasks, if the policy recovers them at once. The others are pending like any task.
    pub(super) fn recover(&mut self, mut lost: Vec<LostTask>, out: &mut Vec<Action>) {
        if !self.policy.recovery.is_immediate() {
            return;
        }
        recovery::sort_lost(&mut lost, self.comparison());
        for lost in lost {
            let (kind, task) = (lost.task.kind, Some(lost.task.index));
            match recovery::find_slot(lost, self.comparison()) {
                Some(RecoverySlot::Free(node)) => self.cluster.reserve(node, kind, lost.job, task),
                Some(RecoverySlot::Preempt(victim)) => {
                    let reason = Reason::PreemptedForRecovery { job: self.state.job(lost.job).id() };
                    self.cluster.stop_attempt(victim.job, victim.task, Recovery::preempt_action(kind), reason, out);
                    self.cluster.reserve(victim.node, kind, lost.job, task);
                }
                None => {}
            }
        }
    }

    /// Frees slots for an open job that requests some for lost work, beyond those that are free, by pausing attempts that rank lower.
    pub(super) fn recover_open_job(&mut self, key: JobKey, out: &mut Vec<Action>) {
        let (kind, able) = (Kind::Reduce, self.setup.capabilities);
        if !self.policy.recovery.is_immediate() || !able.one_slot_pool || !able.pause_reduces {
            return;
        }
        let job = self.state.job(key);
        let (id, counts) = (job.id(), job.counts(kind));
        if !job.gets_freed_slots() {
            return;
        }
        let lost = job.recovering().min(counts.pending).saturating_sub(counts.reserved);
        for _ in preemption::unreserved(self.view(), kind)..lost {
            let Some(victim) = recovery::find_victim(key, kind, self.comparison()) else { break };
            let reason = Reason::PreemptedForRecovery { job: id };
            self.cluster.stop_attempt(victim.job, victim.task, PreemptAction::Pause, reason, out);
            self.cluster.reserve(victim.node, kind, key, None);
        }
    }

    /// Looks again for slots for lost tasks that found none, if the policy does.
    pub(super) fn recover_again(&mut self, out: &mut Vec<Action>) {
        if self.policy.recovery.retries() {
            self.recover(recovery::lost_tasks(self.view()), out);
        }
    }
}
