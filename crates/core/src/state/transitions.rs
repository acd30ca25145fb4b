//! The transitions of the state machine: each changes a job, the node concerned and the counts of both.
//!
//! A transition that is not legal in the current state is a bug of the caller and panics. The scheduler refuses an event that would require
//! one.

use super::State;
use super::job_table::JobKey;
use super::node::{Node, Reservation, RunningAttempt};
use super::task::{SpeculativeAttempt, TaskState};
use crate::action::{PreemptAction, Start};
use crate::event::{JobSpec, NodeSpec};
use crate::ids::{AttemptId, Kind, NodeId, PerKind, TaskKey};
use crate::units::{Time, WHOLE_PPM};

/// Which of its task's attempts an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptRole {
    /// The one that the task's state describes.
    Primary,
    /// A speculative one.
    Speculative,
    /// A speculative one that is being killed, because another attempt finished or its job ended.
    StoppingSpeculative,
}

/// What became of a task whose primary attempt ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedPrimary {
    /// Its speculative attempt is the primary one now.
    Replaced,
    /// It is pending again.
    Pending,
}

// Nodes.
impl State {
    /// A node joins, for the first time or after a loss.
    pub(crate) fn add_node(&mut self, node: NodeId, spec: &NodeSpec) {
        let nodes = &mut self.nodes;
        nodes.racks.join(node, spec.rack);
        let joined = Node::new(spec.clone(), nodes.types.classify(spec));
        nodes.types.add(&joined);
        let mut drain = None;
        match nodes.nodes.get_mut(node.0 as usize) {
            Some(lost) => {
                assert!(!lost.up, "{node} is already up");
                drain = lost.exclusion.take();
                *lost = joined;
            }
            None => {
                assert!(node.0 as usize == nodes.nodes.len(), "{node} leaves a gap");
                nodes.nodes.push(joined);
            }
        }
        nodes.up += 1;
        for kind in Kind::BOTH {
            nodes.free[kind] += u32::from(spec.slots(kind));
            nodes.slots[kind] += u32::from(spec.slots(kind));
        }
        if let Some(drain) = drain {
            self.exclude_node(node, *drain);
        }
    }

    /// A node goes down. Its attempts, paused reduces and reservations must have been removed before.
    pub(crate) fn take_node_down(&mut self, node: NodeId) {
        let down = self.nodes.get_mut(node);
        let idle = Kind::BOTH.iter().all(|&kind| down.running[kind].is_empty() && down.reservations[kind].is_empty());
        assert!(down.up && idle && down.paused.is_empty(), "{node} is down or still in use");
        down.up = false;
        // An excluded node's slots do not count.
        let is_excluded = down.exclusion.is_some();
        down.exclusion = down.exclusion.take().filter(|exclusion| exclusion.is_drain());
        let (free, node_type) = (down.free, down.node_type);
        let slots = PerKind::from_fn(|kind| u32::from(down.spec.slots(kind)));
        self.nodes.up -= 1;
        if is_excluded {
            self.nodes.excluded -= 1;
            return;
        }
        self.nodes.types.remove(node_type, slots);
        for kind in Kind::BOTH {
            self.nodes.slots[kind] -= slots[kind];
            self.nodes.free[kind] -= u32::from(free[kind]);
        }
    }
}

// Jobs.
impl State {
    /// Adds a job. Its id must not be that of a live job.
    pub(crate) fn add_job(&mut self, spec: &JobSpec, user: u32, open: bool, now: Time) -> JobKey {
        assert!(self.jobs.find(spec.id).is_none(), "{} is live", spec.id);
        self.jobs.insert(spec, user, open, self.nodes.len(), now)
    }

    /// Marks a job as ended. Its paused reduces are dropped; its running attempts must be requested to stop.
    pub(crate) fn close_job(&mut self, job: JobKey) {
        let closed = self.jobs.get_mut(job);
        closed.closed = true;
        for &(reduce, _) in &closed.paused {
            let node = closed.tasks[Kind::Reduce][reduce as usize].node;
            self.nodes.get_mut(node).paused.retain(|&kept| kept != (job, reduce));
        }
    }

    /// Removes a closed job that holds no slot.
    pub(crate) fn remove_job(&mut self, job: JobKey) {
        let removed = self.jobs.get(job);
        assert!(removed.closed && removed.holds_no_slot(), "{} is still in use", removed.id);
        self.jobs.remove(job);
    }

    /// Sets the number of slots that an open job requests and has not been granted.
    pub(crate) fn set_requested(&mut self, job: JobKey, kind: Kind, slots: u32) {
        let job = self.jobs.get_mut(job);
        assert!(job.is_open(), "only an open job requests slots");
        job.counts[kind].pending = slots;
    }

    /// Adds the entry of a task for a slot that an open job was granted.
    pub(crate) fn add_granted_task(&mut self, job: JobKey, kind: Kind) -> TaskKey {
        self.jobs.get_mut(job).add_task(kind)
    }
}

// Attempts.
impl State {
    /// The role of an attempt that holds a slot; none if it does not hold one.
    pub fn role(&self, attempt: AttemptId) -> Option<(JobKey, AttemptRole)> {
        let key = self.jobs.find(attempt.task.job)?;
        let job = self.jobs.get(key);
        let task = job.find_task(attempt.task.key())?;
        if task.holds_slot() && task.number == attempt.number {
            return Some((key, AttemptRole::Primary));
        }
        let is_it = |other: &&SpeculativeAttempt| (other.task, other.number) == (attempt.task.key(), attempt.number);
        let speculative = job.speculative.iter().find(is_it)?;
        let role = if speculative.stopping { AttemptRole::StoppingSpeculative } else { AttemptRole::Speculative };
        Some((key, role))
    }

    /// Records the progress of an attempt. Progress never decreases; progress of an attempt that has ended is ignored.
    pub(crate) fn set_progress(&mut self, attempt: AttemptId, progress_ppm: u32) {
        if let Some((job, AttemptRole::Primary)) = self.role(attempt) {
            let task = self.jobs.get_mut(job).task_mut(attempt.task.key());
            task.progress_ppm = task.progress_ppm.max(progress_ppm.min(WHOLE_PPM));
        }
    }

    /// Launches a pending map, or a pending reduce from the beginning.
    pub(crate) fn launch(&mut self, job: JobKey, task: TaskKey, node: NodeId, now: Time) -> AttemptId {
        let launched = self.jobs.get_mut(job);
        if task.kind == Kind::Reduce && !launched.is_open() {
            let pending = &mut launched.pending_reduces;
            let at = pending.iter().rposition(|&reduce| reduce == task.index).expect("the reduce is pending");
            pending.remove(at);
        }
        self.start(job, task, node, now)
    }

    /// Launches a paused reduce, on its own node or on another. On another its input is fetched again, so its progress starts anew.
    pub(crate) fn relaunch(&mut self, job: JobKey, reduce: u32, node: NodeId, now: Time) -> (AttemptId, Start) {
        let key = TaskKey::reduce(reduce);
        let resumed = self.jobs.get_mut(job);
        resumed.unlist_paused(reduce);
        let (from, kept_on) = (resumed.attempt(key), resumed.task(key).node);
        let start = if node == kept_on {
            Start::Resumed { from }
        } else {
            resumed.task_mut(key).progress_ppm = 0;
            Start::Migrated { from, node: kept_on }
        };
        self.nodes.get_mut(kept_on).paused.retain(|&kept| kept != (job, reduce));
        (self.start(job, key, node, now), start)
    }

    fn start(&mut self, job: JobKey, task: TaskKey, node: NodeId, now: Time) -> AttemptId {
        let attempt = self.jobs.get_mut(job).start(task, node, now);
        self.take_slot(job, task, attempt.number, node);
        attempt
    }

    /// Only the backend, which grants slots to open jobs by itself, knows more slots than the node declared.
    fn take_slot(&mut self, job: JobKey, task: TaskKey, number: u16, node: NodeId) {
        let is_granted = self.jobs.get(job).is_open();
        assert!(is_granted || self.nodes.get(node).free(task.kind) > 0, "{node} has no free {} slot", task.kind);
        self.nodes.take_slot(node, task.kind, RunningAttempt { job, task: task.index, number });
    }

    /// Launches a second attempt of a running task.
    pub(crate) fn launch_speculative(&mut self, job: JobKey, key: TaskKey, node: NodeId, now: Time) -> AttemptId {
        let speculated = self.jobs.get_mut(job);
        let task = speculated.task_mut(key);
        assert!(task.holds_slot(), "only a running task is speculated");
        let number = task.attempts;
        task.attempts += 1;
        speculated.speculative.push(SpeculativeAttempt { task: key, number, node, launched: now, stopping: false });
        speculated.counts[key.kind].speculative += 1;
        if key.kind == Kind::Map {
            speculated.map_nodes.insert(node.0);
        }
        let attempt = AttemptId { task: key.of(speculated.id), number };
        self.take_slot(job, key, number, node);
        attempt
    }

    /// Requests a running task to stop; returns its attempt and node.
    pub(crate) fn request_stop(&mut self, job: JobKey, key: TaskKey, action: PreemptAction) -> (AttemptId, NodeId) {
        self.jobs.change_tasks(job, key.kind, |job| {
            let task = job.task_mut(key);
            assert!(task.state == TaskState::Running, "only a running task can be requested to stop");
            task.state = TaskState::Stopping(action);
            task.preemptions = task.preemptions.saturating_add(1);
            let node = task.node;
            job.counts[key.kind].stopping += 1;
            (job.attempt(key), node)
        })
    }

    /// Requests a task that holds a slot to be killed because its job ended, whatever was requested of it before.
    pub(crate) fn request_kill(&mut self, job: JobKey, key: TaskKey) -> (AttemptId, NodeId) {
        self.jobs.change_tasks(job, key.kind, |job| {
            let task = job.task_mut(key);
            assert!(task.holds_slot(), "only a task that holds a slot can be killed");
            let was_running = task.state == TaskState::Running;
            task.state = TaskState::Stopping(PreemptAction::Kill);
            let node = task.node;
            job.counts[key.kind].stopping += u32::from(was_running);
            (job.attempt(key), node)
        })
    }

    /// A running task finished. If `count_work`, its work is added to the job's `finished_work_s`.
    pub(crate) fn finish(&mut self, job: JobKey, attempt: AttemptId, output_bytes: u64, count_work: bool, now: Time) {
        let key = attempt.task.key();
        let node = self.jobs.get(job).task(key).node;
        let rates = count_work.then(|| self.rates(node));
        self.jobs.change_tasks(job, key.kind, |job| job.finish(key, output_bytes, rates, now));
        self.free_slot(job, attempt, node);
    }

    /// A reduce that was requested to pause has paused.
    pub(crate) fn pause(&mut self, job: JobKey, attempt: AttemptId, progress_ppm: u32, now: Time) {
        let reduce = attempt.task.index;
        let node = self.jobs.get(job).task(attempt.task.key()).node;
        self.jobs.change_tasks(job, Kind::Reduce, |job| job.pause(reduce, progress_ppm.min(WHOLE_PPM), now));
        self.free_slot(job, attempt, node);
        self.nodes.get_mut(node).paused.push((job, reduce));
    }

    /// An attempt that was requested to stop could not be stopped: it runs as before.
    pub(crate) fn cancel_stop(&mut self, job: JobKey, key: TaskKey) {
        self.jobs.change_tasks(job, key.kind, |job| {
            let task = job.task_mut(key);
            assert!(task.is_stopping(), "only a task that was requested to stop can go on");
            task.state = TaskState::Running;
            job.counts[key.kind].stopping -= 1;
        });
    }

    /// Exempts a running task from preemption.
    pub(crate) fn protect(&mut self, job: JobKey, key: TaskKey) {
        self.jobs.get_mut(job).task_mut(key).protected = true;
    }

    /// Limits how many reduces may be paused on a node at once.
    pub(crate) fn set_pause_limit(&mut self, node: NodeId, attempts: u32) {
        self.nodes.get_mut(node).pause_limit = attempts;
    }

    /// Sets how many slots a node has, by kind. They may be fewer than its attempts until some of these end.
    pub(crate) fn set_slots(&mut self, node: NodeId, slots: PerKind<u16>) {
        self.nodes.set_slots(node, slots);
    }

    /// True if more slots of a node are reserved than are free or being freed.
    pub(crate) fn reserves_missing_slots(&self, node: NodeId, kind: Kind) -> bool {
        let place = self.nodes.get(node);
        let is_stopping = |attempt: &&RunningAttempt| {
            let task = TaskKey { kind, index: attempt.task };
            self.jobs.get(attempt.job).task(task).is_stopping()
        };
        let freed = || place.running(kind).iter().filter(is_stopping).count();
        let reserved = place.reservations(kind).len();
        reserved > 0 && reserved > usize::from(place.free(kind)) + freed()
    }

    /// A paused reduce of an open job ended on its own, finished or not.
    pub(crate) fn end_paused(&mut self, job: JobKey, reduce: u32, finished: bool) {
        let node = self.jobs.get(job).task(TaskKey::reduce(reduce)).node;
        self.nodes.get_mut(node).paused.retain(|&kept| kept != (job, reduce));
        self.jobs.get_mut(job).end_paused(reduce, finished);
    }

    /// The speed and the disk rate of a node.
    fn rates(&self, node: NodeId) -> (f64, f64) {
        let spec = &self.nodes.get(node).spec;
        (f64::from(spec.speed_ppm) / f64::from(WHOLE_PPM), spec.disk_bytes_per_s as f64)
    }

    /// A map that was requested to end early has ended.
    pub(crate) fn end_early(&mut self, job: JobKey, attempt: AttemptId, done: u64, output_bytes: u64, now: Time) {
        let node = self.jobs.get(job).task(attempt.task.key()).node;
        let rates = self.rates(node);
        let index = attempt.task.index;
        self.jobs.change_tasks(job, Kind::Map, |job| job.end_early(index, done, output_bytes, rates, now));
        self.free_slot(job, attempt, node);
    }

    /// A primary attempt ended without a result: its speculative attempt replaces it, or its task is pending again.
    pub(crate) fn fail_primary(
        &mut self,
        job: JobKey,
        attempt: AttemptId,
        lost_with: Option<NodeId>,
        now: Time,
    ) -> FailedPrimary {
        let key = attempt.task.key();
        let node = self.jobs.get(job).task(key).node;
        let outcome = self.jobs.change_tasks(job, key.kind, |failed| {
            let replacement = failed.speculative.iter().position(|other| other.task == key && !other.stopping);
            match replacement {
                Some(at) => {
                    let speculative = failed.speculative.remove(at);
                    failed.counts[key.kind].speculative -= 1;
                    let was_stopping = failed.task(key).is_stopping();
                    failed.counts[key.kind].stopping -= u32::from(was_stopping);
                    let task = failed.task_mut(key);
                    task.state = TaskState::Running;
                    task.progress_ppm = 0;
                    (task.number, task.node, task.launched) =
                        (speculative.number, speculative.node, speculative.launched);
                    failed.launch_order[key.kind].add(key.index, &failed.tasks[key.kind][key.index as usize]);
                    FailedPrimary::Replaced
                }
                None => {
                    failed.stop(key, now);
                    failed.make_pending(key, lost_with);
                    FailedPrimary::Pending
                }
            }
        });
        self.free_slot(job, attempt, node);
        outcome
    }

    /// A speculative attempt ended without a result, or after the other one.
    pub(crate) fn end_speculative(&mut self, job: JobKey, attempt: AttemptId, now: Time) {
        let owner = self.jobs.get_mut(job);
        let is_it = |other: &SpeculativeAttempt| (other.task, other.number) == (attempt.task.key(), attempt.number);
        let at = owner.speculative.iter().position(is_it).expect("the attempt is speculative");
        let ended = owner.speculative.remove(at);
        owner.counts[attempt.task.kind].speculative -= 1;
        owner.ended_service += now.since(ended.launched);
        self.free_slot(job, attempt, ended.node);
    }

    /// A speculative attempt finished first: it becomes the primary one, and the primary one speculative.
    pub(crate) fn promote_speculative(&mut self, job: JobKey, attempt: AttemptId) {
        let key = attempt.task.key();
        self.jobs.change_tasks(job, key.kind, |job| {
            let task = &mut job.tasks[key.kind][key.index as usize];
            if task.is_stopping() {
                task.state = TaskState::Running;
                job.counts[key.kind].stopping -= 1;
            }
            let is_it = |other: &&mut SpeculativeAttempt| (other.task, other.number) == (key, attempt.number);
            let speculative = job.speculative.iter_mut().find(is_it).expect("the attempt is speculative");
            std::mem::swap(&mut task.number, &mut speculative.number);
            std::mem::swap(&mut task.node, &mut speculative.node);
            std::mem::swap(&mut task.launched, &mut speculative.launched);
            job.launch_order[key.kind].add(key.index, task);
        });
    }

    /// Requests the speculative attempts of a task, or of all tasks, to be killed; returns those that were not requested before.
    pub(crate) fn stop_speculative(&mut self, job: JobKey, of: Option<TaskKey>) -> Vec<(AttemptId, NodeId)> {
        let job = self.jobs.get_mut(job);
        let id = job.id;
        let concerned = |other: &&mut SpeculativeAttempt| !other.stopping && of.is_none_or(|task| other.task == task);
        let stop = |other: &mut SpeculativeAttempt| {
            other.stopping = true;
            (AttemptId { task: other.task.of(id), number: other.number }, other.node)
        };
        job.speculative.iter_mut().filter(concerned).map(stop).collect()
    }

    fn free_slot(&mut self, job: JobKey, attempt: AttemptId, node: NodeId) {
        let running = RunningAttempt { job, task: attempt.task.index, number: attempt.number };
        self.nodes.free_slot(node, attempt.task.kind, running);
    }
}

// Losses.
impl State {
    /// The reduces paused on a lost node are pending again, from the beginning; returns them.
    pub(crate) fn lose_paused(&mut self, node: NodeId) -> Vec<(JobKey, u32)> {
        let lost = std::mem::take(&mut self.nodes.get_mut(node).paused);
        for &(job, reduce) in &lost {
            let job = self.jobs.get_mut(job);
            job.unlist_paused(reduce);
            job.counts[Kind::Reduce].paused -= 1;
            job.make_pending(TaskKey::reduce(reduce), Some(node));
        }
        lost
    }

    /// The finished maps of a job whose output is or was on a node.
    pub(crate) fn outputs_on(&self, job: JobKey, node: NodeId) -> Vec<u32> {
        let maps = (0..).zip(&self.jobs.get(job).tasks[Kind::Map]);
        let on_node = maps.filter(|(_, task)| task.state == TaskState::Done && task.node == node);
        on_node.map(|(map, _)| map).collect()
    }

    /// A finished map's output is lost and needed: the map is pending again.
    pub(crate) fn undo_map(&mut self, job: JobKey, map: u32, lost_with: NodeId) {
        let job = self.jobs.get_mut(job);
        job.unneeded_lost_outputs.retain(|&(lost, _)| lost != map);
        job.undo_map(map, lost_with);
    }

    /// A finished map's output is lost, and no reduce needs it.
    pub(crate) fn record_unneeded_loss(&mut self, job: JobKey, map: u32, lost_with: NodeId) {
        self.jobs.get_mut(job).unneeded_lost_outputs.push((map, lost_with));
    }

    /// A reduce of the job fetches from the beginning, so that it needs outputs that were lost while none did: those maps are
    /// pending again. Returns whether there are any.
    pub(crate) fn undo_lost_maps(&mut self, job: JobKey) -> bool {
        let job = self.jobs.get_mut(job);
        let lost = std::mem::take(&mut job.unneeded_lost_outputs);
        lost.iter().for_each(|&(map, node)| job.undo_map(map, node));
        !lost.is_empty()
    }
}

// Reservations.
impl State {
    /// Reserves the next free slot of a node for a job, or for one of its tasks.
    pub(crate) fn reserve(&mut self, node: NodeId, kind: Kind, job: JobKey, task: Option<u32>) {
        let id = self.jobs.get(job).id;
        self.nodes.add_reservation(node, kind, Reservation { job, id, task });
        self.jobs.get_mut(job).counts[kind].reserved += 1;
    }

    /// Removes a reservation of a job, on this node if there is one there; returns whether there was one.
    pub(crate) fn drop_reservation(&mut self, job: JobKey, kind: Kind, node: Option<NodeId>) -> bool {
        if self.jobs.get(job).counts[kind].reserved == 0 {
            return false;
        }
        let id = self.jobs.get(job).id;
        let is_its = |reservation: &Reservation| (reservation.job, reservation.id) == (job, id);
        let found = node.into_iter().chain(self.nodes.ids_reserved(kind)).find_map(|node| {
            let reservations = &self.nodes.get(node).reservations[kind];
            reservations.iter().rposition(is_its).map(|at| (node, at))
        });
        let Some((node, at)) = found else { return false };
        self.nodes.remove_reservation(node, kind, at);
        self.jobs.get_mut(job).counts[kind].reserved -= 1;
        true
    }

    /// Removes the newest reservation of a node; returns its job.
    pub(crate) fn drop_newest_reservation(&mut self, node: NodeId, kind: Kind) -> Option<JobKey> {
        let newest = self.nodes.get(node).reservations[kind].len().checked_sub(1)?;
        let reservation = self.nodes.remove_reservation(node, kind, newest);
        let job = self.jobs.find(reservation.id).filter(|&job| job == reservation.job)?;
        self.jobs.get_mut(job).counts[kind].reserved -= 1;
        Some(job)
    }

    /// Removes the oldest reservation of a node; none of a job that has been removed since.
    pub(crate) fn take_reservation(&mut self, node: NodeId, kind: Kind) -> Option<Reservation> {
        while !self.nodes.get(node).reservations[kind].is_empty() {
            let reservation = self.nodes.remove_reservation(node, kind, 0);
            if self.jobs.find(reservation.id) == Some(reservation.job) {
                self.jobs.get_mut(reservation.job).counts[kind].reserved -= 1;
                return Some(reservation);
            }
        }
        None
    }
}
