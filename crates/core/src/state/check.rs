//! Invariants: everything is counted again, slowly, and compared with the counts that are kept.

use super::{JobKey, State, TaskState};
use crate::ids::{Kind, NodeId, TaskKey};
use std::collections::BTreeMap;

impl State {
    /// Describes a violated invariant, if there is one. Reads everything: for tests and for fault diagnosis.
    pub fn check(&self) -> Result<(), String> {
        for kind in Kind::BOTH {
            self.check_nodes(kind)?;
            let stopping: u32 = self.jobs.iter().map(|(_, job)| job.counts(kind).stopping).sum();
            if stopping != self.jobs.stopping(kind) {
                let kept = self.jobs.stopping(kind);
                return Err(format!("{kind} tasks requested to stop: counted {stopping}, kept {kept}"));
            }
        }
        self.jobs.iter().try_for_each(|(job, _)| self.check_job(job))
    }

    fn check_nodes(&self, kind: Kind) -> Result<(), String> {
        let (mut free, mut slots, mut reservations) = (0, 0, 0);
        let mut by_job = BTreeMap::new();
        for (id, node) in self.nodes.iter() {
            let (has, runs) = (usize::from(node.spec.slots(kind)), node.running[kind].len());
            reservations += node.reservations[kind].len() as u32;
            for reservation in &node.reservations[kind] {
                *by_job.entry((reservation.job, reservation.id)).or_insert(0) += 1;
            }
            if self.nodes.reserved[kind].contains(&id) == node.reservations[kind].is_empty() {
                return Err(format!("{id} is not kept as a node with {kind} reservations, or has none"));
            }
            if !node.up {
                if runs > 0 || !node.paused.is_empty() || !node.reservations[kind].is_empty() {
                    return Err(format!("{id} is down and still has attempts or reservations"));
                }
                continue;
            }
            if usize::from(node.free[kind]) != has.saturating_sub(runs) {
                return Err(format!("{id} has {has} {kind} slots, {runs} in use and {} free", node.free[kind]));
            }
            if node.exclusion.is_none() {
                free += u32::from(node.free[kind]);
                slots += has as u32;
            }
            self.check_running(id, kind)?;
        }
        let kept = (self.nodes.free[kind], self.nodes.slots[kind], self.nodes.reservations[kind]);
        if (free, slots, reservations) != kept {
            let counted = (free, slots, reservations);
            return Err(format!("{kind} slots free, in all, reserved: counted {counted:?}, kept {kept:?}"));
        }
        if by_job != self.nodes.reserved_by_job[kind] {
            let kept = &self.nodes.reserved_by_job[kind];
            return Err(format!("{kind} reservations by job: counted {by_job:?}, kept {kept:?}"));
        }
        let of_types: u32 = self.nodes.types().iter().map(|of| of.slots[kind]).sum();
        if of_types != slots {
            return Err(format!("{kind} slots: counted {slots}, kept by type {of_types}"));
        }
        Ok(())
    }

    fn check_running(&self, node: NodeId, kind: Kind) -> Result<(), String> {
        for attempt in self.node(node).running(kind) {
            let job = self.job(attempt.job);
            let key = TaskKey { kind, index: attempt.task };
            let task = job.task(key);
            let is_primary = task.holds_slot() && task.number == attempt.number && task.node == node;
            let is_speculative =
                job.speculative.iter().any(|other| (other.task, other.number) == (key, attempt.number));
            if !is_primary && !is_speculative {
                let (id, index, number) = (job.id, attempt.task, attempt.number);
                return Err(format!("{node} lists {id} {kind} {index}.{number} as running, its job does not"));
            }
        }
        Ok(())
    }

    fn check_job(&self, key: JobKey) -> Result<(), String> {
        let job = self.job(key);
        for kind in Kind::BOTH {
            let counts = job.counts(kind);
            let count = |wanted: fn(&TaskState) -> bool| {
                job.tasks[kind].iter().filter(|task| wanted(&task.state)).count() as u32
            };
            // The pending tasks of an open job have no entry yet.
            let pending = if job.is_open() { counts.pending } else { count(|state| *state == TaskState::Pending) };
            let counted = (
                count(|state| *state == TaskState::Done) - job.released[kind],
                pending,
                count(|state| *state == TaskState::Paused),
                count(|state| matches!(state, TaskState::Running | TaskState::Stopping(_))),
                count(|state| matches!(state, TaskState::Stopping(_))),
            );
            let kept = (counts.done, counts.pending, counts.paused, counts.running.len() as u32, counts.stopping);
            if counted != kept {
                return Err(format!(
                    "{}: {kind} tasks done, pending, paused, running, stopping: counted {counted:?}, kept {kept:?}",
                    job.id
                ));
            }
            let by_launch: Vec<u32> = job.running_oldest_first(kind).collect();
            let (mut listed, mut running) = (by_launch.clone(), counts.running.clone());
            listed.sort_unstable();
            running.sort_unstable();
            let launched = |&index: &u32| job.tasks[kind][index as usize].launched;
            if listed != running || !by_launch.is_sorted_by_key(launched) {
                return Err(format!("{}: running {kind} tasks {running:?}, by launch {by_launch:?}", job.id));
            }
            let tasks = (0..job.task_end(kind)).map(|index| TaskKey { kind, index });
            let backing_off = tasks.filter(|&task| job.retry_at(task).is_some()).count() as u32;
            if backing_off != counts.backing_off {
                let kept = counts.backing_off;
                return Err(format!("{}: {kind} tasks backing off: counted {backing_off}, kept {kept}", job.id));
            }
            let reservations = self.nodes.nodes.iter().flat_map(|node| &node.reservations[kind]);
            let reserved = reservations.filter(|reservation| (reservation.job, reservation.id) == (key, job.id));
            let on_nodes = reserved.count() as u32;
            if on_nodes != counts.reserved {
                let kept = counts.reserved;
                return Err(format!("{}: reserved {kind} slots: {on_nodes} on the nodes, kept {kept}", job.id));
            }
        }
        self.check_maps(key)?;
        for &(reduce, _) in &job.paused {
            let node = job.task(TaskKey::reduce(reduce)).node;
            if !self.node(node).paused.contains(&(key, reduce)) && !job.closed {
                return Err(format!("{}: reduce {reduce} is paused, {node} does not list it", job.id));
            }
        }
        Ok(())
    }

    fn check_maps(&self, key: JobKey) -> Result<(), String> {
        let job = self.job(key);
        let maps = 0..job.task_end(Kind::Map);
        let is_pending = |map: u32| job.is_ready(TaskKey::map(map));
        let wrong = |&map: &u32| job.pending_maps.contains(map) != is_pending(map);
        if let Some(map) = maps.clone().find(wrong).filter(|_| !job.is_open()) {
            return Err(format!("{}: the index of pending maps is wrong about map {map}", job.id));
        }
        let input: u64 = job.splits.iter().map(|split| split.bytes).sum();
        let mapped: u64 = maps.map(|map| job.map_bytes(map)).sum();
        if input != mapped {
            return Err(format!("{}: {input} bytes of input, {mapped} bytes in its maps", job.id));
        }
        Ok(())
    }
}
