//! What one transition changes in a job. `transitions.rs` combines these steps with those of nodes.

use super::application::application;
use super::bit_set::BitSet;
use super::estimate::Estimate;
use super::job::{Job, TaskCounts};
use super::pending_maps::PendingMaps;
use super::task::{Task, TaskHistory, TaskState};
use crate::event::{JobSpec, Split};
use crate::ids::{AttemptId, Kind, NodeId, PerKind, TaskKey};
use crate::units::{Span, Time, WHOLE_PPM};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

impl Job {
    pub(super) fn new(spec: &JobSpec, user: u32, sequence: u32, open: bool, nodes: usize, now: Time) -> Job {
        let requested = PerKind::new(spec.splits.len() as u32, spec.reduces);
        // An open job's tasks are counted until they run.
        let (mut splits, reduces) = if open { ([].into(), 0) } else { (Arc::clone(&spec.splits), spec.reduces) };
        // A replica on a node that never joined is of no use, and waiting for that node would only delay the job.
        let nodes = nodes as u32;
        if splits.iter().any(|split| split.hosts.iter().any(|host| host.0 >= nodes)) {
            Arc::make_mut(&mut splits).iter_mut().for_each(|split| split.hosts.retain(|host| host.0 < nodes));
        }
        let maps: Vec<Task> = (0..splits.len() as u32).map(Task::new).collect();
        let first_bytes = splits.first().map(|split| split.bytes);
        let slowstart_maps = (maps.len() as u64 * u64::from(spec.slowstart_ppm)).div_ceil(u64::from(WHOLE_PPM)) as u32;
        Job {
            id: spec.id,
            application: application(&spec.user, &spec.name).into(),
            spec: Box::new(JobSpec { splits: Arc::from([]), ..spec.clone() }),
            user,
            priority: spec.priority,
            submitted: now,
            sequence,
            pending_maps: PendingMaps::new(&splits),
            block_bytes: first_bytes.filter(|&first| splits.iter().all(|split| split.bytes == first)),
            map_outputs: vec![0; maps.len()],
            tasks: PerKind::new(maps, vec![Task::new(0); reduces as usize]),
            released: PerKind::default(),
            histories: FxHashMap::default(),
            has_lost_work: false,
            counts: requested.map(|pending| TaskCounts { pending, ..TaskCounts::default() }),
            launch_order: PerKind::default(),
            pending_reduces: (0..reduces).rev().collect(),
            paused: VecDeque::new(),
            refused_offers: 0,
            unneeded_lost_outputs: Vec::new(),
            speculative: Vec::new(),
            slowstart_maps,
            first_launch: None,
            delayed_since: PerKind::default(),
            map_nodes: BitSet::default(),
            input_types: 0,
            input_bytes: splits.iter().map(|split| split.bytes).sum(),
            splits,
            mapped_bytes: 0,
            output_bytes: 0,
            maps_done_at: None,
            hint: spec.hint,
            estimate_bias: f64::from(spec.estimate_bias_ppm) / f64::from(WHOLE_PPM),
            estimate: Estimate::default(),
            classes: [None; 2],
            ended_service: Span::ZERO,
            failed_on: SmallVec::new(),
            closed: false,
            open,
            recovering: 0,
            headroom: None,
        }
    }

    pub(super) fn history_mut(&mut self, task: TaskKey) -> &mut TaskHistory {
        self.tasks[task.kind][task.index as usize].has_history = true;
        self.histories.entry(task).or_default()
    }

    #[inline]
    pub(super) fn task_mut(&mut self, task: TaskKey) -> &mut Task {
        &mut self.tasks[task.kind][task.index as usize]
    }

    /// A pending or paused task starts an attempt.
    pub(super) fn start(&mut self, key: TaskKey, node: NodeId, now: Time) -> AttemptId {
        let counts = &mut self.counts[key.kind];
        let task = &mut self.tasks[key.kind][key.index as usize];
        match task.state {
            TaskState::Pending => counts.pending -= 1,
            TaskState::Paused => counts.paused -= 1,
            state => unreachable!("a task that is {state:?} cannot start"),
        }
        let launched_before = (task.attempts > 0).then_some(task.launched);
        task.state = TaskState::Running;
        task.node = node;
        task.number = task.attempts;
        task.attempts += 1;
        task.launched = now;
        task.running_position = counts.running.len() as u32;
        counts.running.push(key.index);
        self.launch_order[key.kind].add(key.index, task);
        if let Some(launched) = launched_before {
            let history = self.history_mut(key);
            history.first_launched.get_or_insert(launched);
            history.lost_with = None;
        }
        if key.kind == Kind::Map {
            self.pending_maps.remove(key.index);
            self.first_launch.get_or_insert(now);
            self.map_nodes.insert(node.0);
        }
        self.attempt(key)
    }

    /// A running task leaves the list of running tasks; the caller sets its new state.
    pub(super) fn stop(&mut self, key: TaskKey, now: Time) {
        let counts = &mut self.counts[key.kind];
        let task = &mut self.tasks[key.kind][key.index as usize];
        assert!(task.holds_slot(), "a task that is {:?} cannot stop", task.state);
        counts.stopping -= u32::from(task.is_stopping());
        self.ended_service += now.since(task.launched);
        let at = task.running_position as usize;
        counts.running.swap_remove(at);
        if let Some(&moved) = counts.running.get(at) {
            self.tasks[key.kind][moved as usize].running_position = at as u32;
        }
        self.launch_order[key.kind].drop_ended(counts.running.len(), &self.tasks[key.kind]);
    }

    /// A stopped, done or paused task is pending again, from the beginning. The task of an open job is released instead, because the
    /// backend will request a new slot.
    pub(super) fn make_pending(&mut self, key: TaskKey, lost_with: Option<NodeId>) {
        self.has_lost_work |= lost_with.is_some();
        self.counts[key.kind].pending += 1;
        if self.open {
            let task = self.task_mut(key);
            (task.state, task.node) = (TaskState::Done, NodeId(u32::MAX));
            self.released[key.kind] += 1;
            return;
        }
        let task = self.task_mut(key);
        task.state = TaskState::Pending;
        task.progress_ppm = 0;
        if task.has_history || lost_with.is_some() {
            let history = self.history_mut(key);
            (history.kept_service, history.kept_wait, history.lost_with) = (Span::ZERO, Span::ZERO, lost_with);
        }
        match key.kind {
            Kind::Map => self.pending_maps.add_returned(key.index),
            Kind::Reduce => self.pending_reduces.push(key.index),
        }
    }

    /// A running task finished; a map's output is on its node. `rates` are the node's speed and disk rate, if the work is to be counted.
    pub(super) fn finish(&mut self, key: TaskKey, output_bytes: u64, rates: Option<(f64, f64)>, now: Time) {
        let service = self.service(key, now);
        let waited = self.wait_for_maps(key, now);
        let bytes = if key.kind == Kind::Map { self.map_bytes(key.index) } else { 0 };
        // The time of a part of a split says nothing about the time of a whole one.
        let is_whole = key.kind == Kind::Reduce || self.part_bytes(key.index).is_none();
        self.stop(key, now);
        let task = self.task_mut(key);
        task.state = TaskState::Done;
        task.progress_ppm = WHOLE_PPM;
        let counts = &mut self.counts[key.kind];
        counts.done += 1;
        if is_whole {
            counts.finished += 1;
            counts.finished_time += service;
            if let Some((speed, disk)) = rates {
                counts.finished_work_s += (service.as_secs_f64() - bytes as f64 / disk.max(1.0)).max(0.0) * speed;
                counts.finished_wait_s += waited.as_secs_f64() * speed;
            }
        } else if let Some((speed, disk)) = rates {
            let whole = self.splits[self.task(key).split as usize].bytes.max(1);
            let counts = &mut self.counts[key.kind];
            counts.finished_parts += bytes as f64 / whole as f64;
            counts.finished_parts_work_s += (service.as_secs_f64() - bytes as f64 / disk.max(1.0)).max(0.0) * speed;
        }
        if key.kind == Kind::Map {
            self.mapped_bytes += bytes;
            self.output_bytes += output_bytes;
            self.map_outputs[key.index as usize] = output_bytes;
            self.note_maps_done(now);
        }
    }

    /// Records when all maps are done.
    fn note_maps_done(&mut self, now: Time) {
        self.maps_done_at = if self.maps_done() { self.maps_done_at.or(Some(now)) } else { None };
    }

    /// A running map ended early: the mapped bytes are a finished map, the rest becomes a new pending one.
    pub(super) fn end_early(&mut self, map: u32, done_bytes: u64, output_bytes: u64, rates: (f64, f64), now: Time) {
        let key = TaskKey::map(map);
        let (split, preemptions) = (self.task(key).split, self.task(key).preemptions);
        let (start_bytes, bytes) = (self.map_start_bytes(map), self.map_bytes(map));
        if done_bytes == 0 {
            self.stop(key, now);
            self.make_pending(key, None);
            return;
        }
        let rest_bytes = bytes - done_bytes;
        self.history_mut(key).bytes = Some(done_bytes);
        self.finish(key, output_bytes, Some(rates), now);
        if rest_bytes == 0 {
            return;
        }
        let rest = TaskKey::map(self.tasks[Kind::Map].len() as u32);
        self.tasks[Kind::Map].push(Task { preemptions, ..Task::new(split) });
        self.map_outputs.push(0);
        let history = self.history_mut(rest);
        (history.start_bytes, history.bytes) = (start_bytes + done_bytes, Some(rest_bytes));
        self.counts[Kind::Map].pending += 1;
        self.pending_maps.add_returned(rest.index);
        self.note_maps_done(now);
    }

    /// A running reduce paused; its node keeps its state.
    pub(super) fn pause(&mut self, reduce: u32, progress_ppm: u32, now: Time) {
        let key = TaskKey::reduce(reduce);
        let (kept_service, kept_wait) = (self.service(key, now), self.wait_for_maps(key, now));
        self.stop(key, now);
        let task = self.task_mut(key);
        task.state = TaskState::Paused;
        task.progress_ppm = progress_ppm;
        let history = self.history_mut(key);
        (history.kept_service, history.kept_wait) = (kept_service, kept_wait);
        self.counts[Kind::Reduce].paused += 1;
        self.paused.push_back((reduce, self.refused_offers));
    }

    /// A paused reduce of an open job ended on its own, with or without a result.
    pub(super) fn end_paused(&mut self, reduce: u32, finished: bool) {
        let key = TaskKey::reduce(reduce);
        self.unlist_paused(reduce);
        self.counts[Kind::Reduce].paused -= 1;
        if !finished {
            self.make_pending(key, None);
            return;
        }
        let service = self.history(key).map_or(Span::ZERO, |history| history.kept_service);
        let task = self.task_mut(key);
        (task.state, task.progress_ppm) = (TaskState::Done, WHOLE_PPM);
        let counts = &mut self.counts[Kind::Reduce];
        counts.done += 1;
        counts.finished += 1;
        counts.finished_time += service;
    }

    /// A paused reduce leaves the list of paused ones.
    pub(super) fn unlist_paused(&mut self, reduce: u32) {
        let at = self.paused.iter().position(|&(task, _)| task == reduce).expect("a paused reduce is listed");
        self.paused.remove(at);
    }

    /// Adds the entry of a task that an open job runs in a slot it was granted. The task stays pending.
    pub(super) fn add_task(&mut self, kind: Kind) -> TaskKey {
        let key = TaskKey { kind, index: self.tasks[kind].len() as u32 };
        if kind == Kind::Map {
            // Nothing is known of its input; one split of no bytes serves all of them.
            if self.splits.is_empty() {
                self.splits = Arc::from([Split::default()]);
            }
            self.map_outputs.push(0);
        }
        self.tasks[kind].push(Task::new(0));
        key
    }

    /// The tasks that an open job requests are added to those it has, and no more can be requested.
    pub(super) fn close_task_list(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        for kind in Kind::BOTH {
            // Tasks that are no longer requested count as done, on whichever node.
            self.counts[kind].done += std::mem::take(&mut self.released[kind]);
            let released = self.tasks[kind].iter_mut().filter(|task| task.node == NodeId(u32::MAX));
            released.for_each(|task| task.node = NodeId::default());
            for _ in 0..self.counts[kind].pending {
                let added = self.add_task(kind);
                match kind {
                    Kind::Map => self.pending_maps.add_returned(added.index),
                    Kind::Reduce => self.pending_reduces.push(added.index),
                }
            }
        }
        self.recovering = 0;
        self.headroom = None;
    }

    /// A finished map's output is lost and needed: it is pending again.
    pub(super) fn undo_map(&mut self, map: u32, lost_with: NodeId) {
        let key = TaskKey::map(map);
        assert!(self.task(key).state == TaskState::Done, "only a finished map can be undone");
        self.mapped_bytes -= self.map_bytes(map);
        self.output_bytes -= self.map_outputs[map as usize];
        self.counts[Kind::Map].done -= 1;
        self.maps_done_at = None;
        self.make_pending(key, Some(lost_with));
    }
}
