//! Lost work runs again at once, near its data, in the place of what ranks lower (Chronos, section III-B).

use super::Scheduler;
use super::losses::Lost;
use crate::action::{Action, Reason};
use crate::ids::{Kind, NodeId};
use crate::policy::PreemptAction;
use crate::policy::failure::{self, standing};

impl Scheduler {
    /// Finds a place for each lost task, those of the job that ranks first before the others.
    pub(super) fn recover(&mut self, mut lost: Vec<Lost>, out: &mut Vec<Action>) {
        lost.sort_by_cached_key(|lost| {
            let order = self.slot_policy(lost.kind).order;
            (standing(self.line(lost.kind), order, &self.state, lost.jx, lost.kind), lost.kind, lost.task)
        });
        for lost in lost {
            // A reduce before its slow-start waits for its maps, not for a slot.
            if self.state.job(lost.jx).may_start(lost.kind) {
                self.make_room(lost, out);
            }
        }
    }

    fn make_room(&mut self, lost: Lost, out: &mut Vec<Action>) {
        let Lost { jx, kind, task } = lost;
        let near: Vec<NodeId> = match kind {
            Kind::Map => {
                let job = self.state.job(jx);
                let hosts = &job.splits[job.task(kind, task).split as usize].hosts;
                hosts.iter().copied().filter(|&host| self.state.up(host).is_some()).collect()
            }
            Kind::Reduce => Vec::new(),
        };
        // Without a place near the data, any place is as good as another.
        let places = if near.is_empty() { self.state.up_nodes().collect() } else { near };
        let unclaimed = |&&node: &&NodeId| {
            let node = self.state.node(node);
            usize::from(node.free[kind.ix()]) > node.claims[kind.ix()].len()
        };
        if let Some(&node) = places.iter().find(unclaimed) {
            self.claim(node, kind, jx, Some(task));
            return;
        }
        let order = self.slot_policy(kind).order;
        let candidate = failure::last_in_rank(self.line(kind), order, &self.state, kind, places.into_iter(), self.now);
        let Some(candidate) = candidate.filter(|candidate| self.may_take(jx, candidate.jx, kind)) else { return };
        let how = match kind {
            Kind::Map => PreemptAction::EndEarly,
            Kind::Reduce => PreemptAction::Pause,
        };
        let reason = Reason::PreemptedForRecovery { job: self.state.job(jx).id };
        self.ask_to_give_way(candidate.jx, kind, candidate.task, how, reason, out);
        self.claim(candidate.node, kind, jx, Some(task));
    }
}
