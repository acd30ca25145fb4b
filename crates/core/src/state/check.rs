//! What must hold at any time, checked the slow and obvious way.
//!
//! The counts beside the facts make decisions cheap; this counts everything again from nothing and compares.

use super::{State, TaskState};
use crate::ids::{Kind, NodeId};

impl State {
    /// Says what does not hold, if anything. It walks everything: for tests, and for whoever suspects the core.
    pub fn check(&self) -> Result<(), String> {
        for kind in Kind::BOTH {
            self.check_nodes(kind)?;
        }
        self.live().try_for_each(|(jx, _)| self.check_job(jx))
    }

    fn check_nodes(&self, kind: Kind) -> Result<(), String> {
        let ix = kind.ix();
        let (mut free, mut slots, mut claims) = (0, 0, 0);
        for (at, node) in self.nodes.iter().enumerate() {
            let (has, runs) = (usize::from(node.spec.slots(kind)), node.running[ix].len());
            claims += node.claims[ix].len() as u32;
            if !node.up {
                if runs > 0 || !node.paused.is_empty() || !node.claims[ix].is_empty() {
                    return Err(format!("node {at} is down and still has work or claims"));
                }
                continue;
            }
            if runs + usize::from(node.free[ix]) != has {
                return Err(format!("node {at} has {has} {kind} slots, {runs} in use and {} free", node.free[ix]));
            }
            free += u32::from(node.free[ix]);
            slots += has as u32;
            for &(jx, task, number) in &node.running[ix] {
                let job = self.job(jx);
                let first = job.task(kind, task);
                let is_first = first.is_live() && first.number == number && first.node == NodeId(at as u32);
                let is_twin = job.twins.iter().any(|twin| (twin.kind, twin.task, twin.number) == (kind, task, number));
                if !is_first && !is_twin {
                    return Err(format!("node {at} runs {kind} {task}.{number} of {}, which does not", job.id));
                }
            }
        }
        if (free, slots, claims) != (self.free[ix], self.slots[ix], self.claims[ix]) {
            return Err(format!(
                "{kind}: counted {free} free of {slots}, {claims} claims; kept {:?} {:?} {:?}",
                self.free, self.slots, self.claims
            ));
        }
        Ok(())
    }

    fn check_job(&self, jx: u32) -> Result<(), String> {
        let job = self.job(jx);
        for kind in Kind::BOTH {
            let facts = job.facts(kind);
            let count = |wanted: fn(&TaskState) -> bool| {
                job.tasks[kind.ix()].iter().filter(|task| wanted(&task.state)).count() as u32
            };
            let counted = (
                count(|state| *state == TaskState::Done),
                count(|state| *state == TaskState::Waiting),
                count(|state| *state == TaskState::Paused),
                count(|state| matches!(state, TaskState::Running | TaskState::Yielding(_))),
                count(|state| matches!(state, TaskState::Yielding(_))),
            );
            let kept = (facts.done, facts.waiting, facts.paused, facts.live.len() as u32, facts.yielding);
            if counted != kept {
                return Err(format!(
                    "{}: {kind} tasks done, waiting, paused, live, yielding: counted {counted:?}, kept {kept:?}",
                    job.id
                ));
            }
            let claims = self
                .nodes
                .iter()
                .flat_map(|node| &node.claims[kind.ix()])
                .filter(|claim| (claim.jx, claim.job) == (jx, job.id));
            if claims.count() as u32 != facts.claimed {
                return Err(format!("{}: {} {kind} claims kept, not so many on the nodes", job.id, facts.claimed));
            }
        }
        let waits = |task: &TaskState| *task == TaskState::Waiting;
        if let Some(task) = (0..job.total(Kind::Map))
            .find(|&task| job.waiting_maps.has(task) != waits(&job.task(Kind::Map, task).state))
        {
            return Err(format!("{}: map {task} is on the list of those that wait, or not, and it is not so", job.id));
        }
        let input: u64 = job.splits.iter().map(|split| split.bytes).sum();
        let tasks: u64 = (0..job.total(Kind::Map)).map(|task| job.bytes(task)).sum();
        if input != tasks {
            return Err(format!("{}: {input} bytes of input, {tasks} bytes in its maps", job.id));
        }
        for &(task, _) in &job.paused {
            let node = job.task(Kind::Reduce, task).node;
            if !self.node(node).paused.contains(&(jx, task)) && !job.closed {
                return Err(format!("{}: reduce {task} is paused and {node} does not keep it", job.id));
            }
        }
        Ok(())
    }
}
