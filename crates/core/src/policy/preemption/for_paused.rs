//! Slots for paused reduces. A paused reduce resumes only on the node that keeps its state, so that its job looks at the attempts there and at no others.

use super::guards::is_preemptable;
use super::{Preemption, Victim};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::policy::View;
use crate::policy::ranking::Comparison;
use crate::state::{JobKey, RunningAttempt};

/// The attempt whose slot a paused reduce of the beneficiary may take, if there is one: of those on the first such node, one of the job that ranks last.
pub(super) fn victim(rule: &Preemption, beneficiary: JobKey, jobs: Comparison<'_>) -> Option<Victim> {
    let kind = Kind::Reduce;
    let (view, state) = (jobs.view, jobs.view.state);
    let guards = rule.guards_for(state.job(beneficiary));
    let mut claim = jobs.claim(beneficiary, kind);
    let mut may_take = |attempt: &&RunningAttempt| {
        let (victim, task) = (attempt.job, TaskKey { kind, index: attempt.task });
        !state.job(victim).is_closed()
            && jobs.can_use_slots_of(beneficiary, victim)
            && is_preemptable(state.job(victim), task, &guards, view.now)
            && claim.may_take(victim)
            && claim.is_ahead_by(rule.margin, victim)
    };
    state.job(beneficiary).paused().iter().find_map(|&(index, _)| {
        let node = state.job(beneficiary).task(TaskKey::reduce(index)).node();
        if !needs_slot(view, beneficiary, node) || !rule.may_stop_more(view, node) {
            return None;
        }
        let takeable = state.node(node).running(kind).iter().filter(&mut may_take);
        let last = takeable.max_by_key(|attempt| (jobs.standing(attempt.job, kind), attempt.task))?;
        Some(Victim { beneficiary, job: last.job, task: TaskKey { kind, index: last.task }, node })
    })
}

/// True if a usable node has no slot for a paused reduce of a job, neither free nor reserved.
fn needs_slot(view: View<'_>, job: JobKey, id: NodeId) -> bool {
    let node = view.state.node(id);
    let reservations = node.reservations(Kind::Reduce);
    let has_slot = usize::from(node.free(Kind::Reduce)) > reservations.len();
    view.state.nodes().is_usable(id) && !has_slot && reservations.iter().all(|of| of.job != job)
}
