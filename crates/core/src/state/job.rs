//! A job, its tasks, and what is counted of them.

use super::bits::Bits;
use super::waiting::Waiting;
use crate::action::{Locality, Work};
use crate::event::{Hint, JobSpec, Priority, Split};
use crate::ids::{AttemptId, JobId, Kind, NodeId, TaskId};
use crate::policy::PreemptAction;
use crate::policy::estimate::Estimate;
use crate::units::{Span, Time, WHOLE_PPM};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// A live job.
#[derive(Debug)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Who submitted it, as an index into the scheduler's list of users.
    pub user: u32,
    /// Urgent or not.
    pub priority: Priority,
    /// When it was submitted.
    pub submitted: Time,
    /// Its place in the order of submission.
    pub seq: u32,
    /// Its input.
    pub splits: Arc<[Split]>,
    /// Its tasks of each kind.
    pub tasks: [Vec<Task>; 2],
    /// The size of its splits, if they are all the same.
    block_bytes: Option<u64>,
    /// What each of its maps wrote when it finished.
    map_outputs: Vec<u64>,
    pasts: FxHashMap<(Kind, u32), Past>,
    /// What is counted of its tasks of each kind.
    pub facts: [Facts; 2],
    /// Its waiting maps, by where their data lies.
    pub waiting_maps: Waiting,
    /// Its waiting reduces; the last one goes first.
    pub waiting_reduces: Vec<u32>,
    /// Its paused reduces, oldest first, each with the count of refusals at which it paused.
    pub paused: VecDeque<(u32, u64)>,
    /// Offers its paused reduces have refused.
    pub refusals: u64,
    /// Finished maps whose output was lost with a node while no reduce needed it any more, and that node.
    pub gone: Vec<(u32, NodeId)>,
    /// Second attempts of running tasks.
    pub twins: Vec<Twin>,
    /// Reduces may start once so many maps are done.
    pub slowstart_maps: u32,
    /// When its first map was launched.
    pub first_launch: Option<Time>,
    /// Since when it has held out for a node with its data.
    pub holding_out: [Option<Time>; 2],
    /// Nodes that run or ran its maps.
    pub map_nodes: Bits,
    /// Input bytes in all.
    pub input_bytes: u64,
    /// Input bytes mapped so far, and what they gave.
    pub mapped_bytes: u64,
    /// Map output so far.
    pub output_bytes: u64,
    /// What is believed of it beforehand.
    pub hint: Option<Hint>,
    /// What every estimate of it is multiplied by.
    pub bias: f64,
    /// What is believed of it now.
    pub estimate: Estimate,
    /// Its class in each of COSHH's two classifications.
    pub classes: [Option<u16>; 2],
    /// Slot time received by attempts that are over.
    pub attained: Span,
    /// True once it is over and only waits for its last attempts to leave their slots.
    pub closed: bool,
    /// True while its tasks become known only as it asks for slots: then it is over when the body says so.
    pub open: bool,
}

/// What is counted of a job's tasks of one kind.
#[derive(Debug, Default)]
pub struct Facts {
    /// Tasks finished.
    pub done: u32,
    /// Tasks that wait for a slot.
    pub waiting: u32,
    /// Tasks paused.
    pub paused: u32,
    /// Tasks that run, including those asked to give way.
    pub live: Vec<u32>,
    /// Of those, the ones asked to give way.
    pub yielding: u32,
    /// Second attempts that run.
    pub twins: u32,
    /// Slots being freed on the job's behalf.
    pub claimed: u32,
    /// Time of finished attempts, each whole task once.
    pub finished_time: Span,
    /// How many tasks that is.
    pub finished: u32,
    /// Slots it is owed.
    pub owed: f64,
    /// The slots its groups were last told it holds.
    pub counted: u32,
    /// Work of the finished tasks: their time on a node of speed 1 beside reading splits, in seconds. Kept under policies that match.
    pub finished_work_s: f64,
}

/// A task and its current attempt. Two of them fill a cache line: there are millions of these, and most just run once from beginning
/// to end. What there is to say of the others is kept apart.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// When its current attempt was launched.
    pub launched: Time,
    /// The node where it runs, is paused, or left its output.
    pub node: NodeId,
    /// How far it has come.
    pub progress_ppm: u32,
    /// Its place in the list of live tasks while it runs.
    pub live_at: u32,
    /// Its split, if it is a map.
    pub split: u32,
    /// The number of its current or last attempt.
    pub number: u16,
    /// Attempts so far.
    pub attempts: u16,
    /// What it is doing.
    pub state: TaskState,
    /// How often it gave way.
    pub gave_way: u8,
    has_past: bool,
}

/// What there is to say of a task that did not just run once from beginning to end.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// From which byte of its split it begins, and how many it has, if it is a part of one that ended early.
    start_bytes: u64,
    bytes: Option<u64>,
    /// When its first attempt was launched.
    first_launched: Option<Time>,
    /// Slot time of earlier attempts whose work was kept.
    served: Span,
    /// The node it was lost with, until it runs again.
    lost_with: Option<NodeId>,
    /// How often it failed on its own.
    failures: u8,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Waits for a slot.
    Waiting,
    /// Runs.
    Running,
    /// Runs, and was asked to give way.
    Yielding(PreemptAction),
    /// Paused; its node keeps its state.
    Paused,
    /// Finished.
    Done,
}

/// A second attempt of a running task.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// The task's kind.
    pub kind: Kind,
    /// The task.
    pub task: u32,
    /// The number of the attempt.
    pub number: u16,
    /// Where it runs.
    pub node: NodeId,
    /// When it was launched.
    pub launched: Time,
    /// Asked to die.
    pub dying: bool,
}

impl Task {
    fn new(split: u32) -> Task {
        Task {
            launched: Time::ZERO,
            node: NodeId::default(),
            progress_ppm: 0,
            live_at: 0,
            split,
            number: 0,
            attempts: 0,
            state: TaskState::Waiting,
            gave_way: 0,
            has_past: false,
        }
    }

    /// True while it holds a slot.
    pub fn is_live(&self) -> bool {
        matches!(self.state, TaskState::Running | TaskState::Yielding(_))
    }
}

impl Facts {
    /// Slots it has, less those it was asked to give back, plus those being freed for it.
    pub fn held(&self) -> u32 {
        (self.live.len() as u32 + self.twins + self.claimed).saturating_sub(self.yielding)
    }

    /// Tasks that want a slot and have none in sight.
    pub fn demand(&self) -> u32 {
        (self.waiting + self.paused).saturating_sub(self.claimed)
    }
}

impl Job {
    /// A job that has just been submitted.
    pub fn new(spec: &JobSpec, user: u32, seq: u32, now: Time) -> Job {
        let maps: Vec<Task> = (0..spec.splits.len() as u32).map(Task::new).collect();
        let reduces = vec![Task::new(0); spec.reduces as usize];
        let first_bytes = spec.splits.first().map(|split| split.bytes);
        let waiting = [maps.len() as u32, spec.reduces];
        let slowstart_maps = (maps.len() as u64 * u64::from(spec.slowstart_ppm)).div_ceil(u64::from(WHOLE_PPM)) as u32;
        Job {
            id: spec.id,
            user,
            priority: spec.priority,
            submitted: now,
            seq,
            waiting_maps: Waiting::new(&spec.splits),
            splits: Arc::clone(&spec.splits),
            block_bytes: first_bytes.filter(|&first| spec.splits.iter().all(|split| split.bytes == first)),
            map_outputs: vec![0; maps.len()],
            tasks: [maps, reduces],
            pasts: FxHashMap::default(),
            facts: waiting.map(|waiting| Facts { waiting, ..Facts::default() }),
            waiting_reduces: (0..spec.reduces).rev().collect(),
            paused: VecDeque::new(),
            refusals: 0,
            gone: Vec::new(),
            twins: Vec::new(),
            slowstart_maps,
            first_launch: None,
            holding_out: [None; 2],
            map_nodes: Bits::default(),
            input_bytes: spec.splits.iter().map(|split| split.bytes).sum(),
            mapped_bytes: 0,
            output_bytes: 0,
            hint: spec.hint,
            bias: f64::from(spec.estimate_bias_ppm) / f64::from(WHOLE_PPM),
            estimate: Estimate::default(),
            classes: [None; 2],
            attained: Span::ZERO,
            closed: false,
            open: false,
        }
    }

    /// A task.
    pub fn task(&self, kind: Kind, index: u32) -> &Task {
        &self.tasks[kind.ix()][index as usize]
    }

    /// What is counted of its tasks of a kind.
    pub fn facts(&self, kind: Kind) -> &Facts {
        &self.facts[kind.ix()]
    }

    /// How many tasks of a kind it has.
    pub fn total(&self, kind: Kind) -> u32 {
        self.tasks[kind.ix()].len() as u32
    }

    /// True once every map is done.
    pub fn maps_done(&self) -> bool {
        self.facts[Kind::Map.ix()].done == self.total(Kind::Map)
    }

    /// True once every task is done and no more can come.
    pub fn is_done(&self) -> bool {
        !self.open && self.maps_done() && self.facts[Kind::Reduce.ix()].done == self.total(Kind::Reduce)
    }

    /// True if tasks of a kind may start: reduces wait for the slow-start.
    pub fn may_start(&self, kind: Kind) -> bool {
        kind == Kind::Map || self.facts[Kind::Map.ix()].done >= self.slowstart_maps
    }

    /// True if an offered slot of this kind is of use to it.
    pub fn wants(&self, kind: Kind) -> bool {
        !self.closed && self.facts(kind).demand() > 0 && self.may_start(kind)
    }

    #[inline]
    fn past(&self, kind: Kind, index: u32) -> Option<&Past> {
        if self.task(kind, index).has_past { self.pasts.get(&(kind, index)) } else { None }
    }

    fn past_mut(&mut self, kind: Kind, index: u32) -> &mut Past {
        self.tasks[kind.ix()][index as usize].has_past = true;
        self.pasts.entry((kind, index)).or_default()
    }

    /// How many bytes of its split a map has.
    pub fn bytes(&self, index: u32) -> u64 {
        let whole = || self.splits[self.task(Kind::Map, index).split as usize].bytes;
        self.part_bytes(index).or(self.block_bytes).unwrap_or_else(whole)
    }

    /// The same of a map that is a part of one that ended early.
    pub fn part_bytes(&self, index: u32) -> Option<u64> {
        self.past(Kind::Map, index)?.bytes
    }

    /// From which byte of its split a map begins.
    pub fn start_bytes(&self, index: u32) -> u64 {
        self.past(Kind::Map, index).map_or(0, |past| past.start_bytes)
    }

    /// Slot time that counts towards a task's result.
    pub fn service(&self, kind: Kind, index: u32, now: Time) -> Span {
        let served = self.past(kind, index).map_or(Span::ZERO, |past| past.served);
        let task = self.task(kind, index);
        if task.is_live() { served + now.since(task.launched) } else { served }
    }

    /// When a task's first attempt was launched.
    pub fn first_launched(&self, kind: Kind, index: u32) -> Time {
        let first = self.past(kind, index).and_then(|past| past.first_launched);
        first.unwrap_or(self.task(kind, index).launched)
    }

    /// The node a task was lost with, until it runs again.
    pub fn lost_with(&self, kind: Kind, index: u32) -> Option<NodeId> {
        self.past(kind, index)?.lost_with
    }

    /// A task failed on its own; returns how often it has.
    pub fn count_failure(&mut self, kind: Kind, index: u32) -> u8 {
        let past = self.past_mut(kind, index);
        past.failures += 1;
        past.failures
    }

    /// The name of a task's current attempt.
    pub fn attempt(&self, kind: Kind, index: u32) -> AttemptId {
        AttemptId { task: TaskId { job: self.id, kind, index }, number: self.task(kind, index).number }
    }

    /// Whether a node ran or runs maps of this job.
    pub fn mapped_on(&self, node: NodeId) -> bool {
        self.map_nodes.has(node.0)
    }

    /// A waiting or paused task starts an attempt; returns the attempt's name.
    pub fn start(&mut self, kind: Kind, index: u32, node: NodeId, now: Time) -> AttemptId {
        let facts = &mut self.facts[kind.ix()];
        let task = &mut self.tasks[kind.ix()][index as usize];
        match task.state {
            TaskState::Waiting => facts.waiting -= 1,
            TaskState::Paused => facts.paused -= 1,
            state => unreachable!("a task that is {state:?} cannot start"),
        }
        let again = (task.attempts > 0).then_some(task.launched);
        task.state = TaskState::Running;
        task.node = node;
        task.number = task.attempts;
        task.attempts += 1;
        task.launched = now;
        task.live_at = facts.live.len() as u32;
        facts.live.push(index);
        if let Some(launched) = again {
            let past = self.past_mut(kind, index);
            past.first_launched.get_or_insert(launched);
            past.lost_with = None;
        }
        if kind == Kind::Map {
            self.waiting_maps.leave(index);
            self.first_launch.get_or_insert(now);
            self.map_nodes.add(node.0);
        }
        self.attempt(kind, index)
    }

    /// A second attempt of a running task starts.
    pub fn start_twin(&mut self, twin: Twin) {
        self.twins.push(twin);
        self.facts[twin.kind.ix()].twins += 1;
        if twin.kind == Kind::Map {
            self.map_nodes.add(twin.node.0);
        }
    }

    /// A live task leaves the list of live tasks; the caller says what becomes of it.
    pub fn stop(&mut self, kind: Kind, index: u32, now: Time) {
        let facts = &mut self.facts[kind.ix()];
        let task = &mut self.tasks[kind.ix()][index as usize];
        assert!(task.is_live(), "a task that is {:?} cannot stop", task.state);
        if matches!(task.state, TaskState::Yielding(_)) {
            facts.yielding -= 1;
        }
        self.attained += now.since(task.launched);
        let at = task.live_at as usize;
        facts.live.swap_remove(at);
        if let Some(&moved) = facts.live.get(at) {
            self.tasks[kind.ix()][moved as usize].live_at = at as u32;
        }
    }

    /// A stopped, done or paused task waits again, from nothing.
    pub fn wait_again(&mut self, kind: Kind, index: u32, lost_with: Option<NodeId>) {
        let task = &mut self.tasks[kind.ix()][index as usize];
        task.state = TaskState::Waiting;
        task.progress_ppm = 0;
        if task.has_past || lost_with.is_some() {
            let past = self.past_mut(kind, index);
            (past.served, past.lost_with) = (Span::ZERO, lost_with);
        }
        self.facts[kind.ix()].waiting += 1;
        match kind {
            Kind::Map => self.waiting_maps.come_back(index),
            Kind::Reduce => self.waiting_reduces.push(index),
        }
    }

    /// A live task finished; its output lies on its node. How much work that was is noted if the node's speed and disk (bytes a second) are
    /// given.
    pub fn finish(&mut self, kind: Kind, index: u32, output_bytes: u64, pace: Option<(f64, f64)>, now: Time) {
        let node_time = self.service(kind, index, now);
        let bytes = if kind == Kind::Map { self.bytes(index) } else { 0 };
        self.stop(kind, index, now);
        let task = &mut self.tasks[kind.ix()][index as usize];
        task.state = TaskState::Done;
        task.progress_ppm = WHOLE_PPM;
        let facts = &mut self.facts[kind.ix()];
        facts.done += 1;
        facts.finished += 1;
        facts.finished_time += node_time;
        if let Some((speed, disk)) = pace {
            facts.finished_work_s += (node_time.as_secs_f64() - bytes as f64 / disk.max(1.0)).max(0.0) * speed;
        }
        if kind == Kind::Map {
            self.mapped_bytes += bytes;
            self.output_bytes += output_bytes;
            self.map_outputs[index as usize] = output_bytes;
        }
    }

    /// A live map ended early: what it did is a finished map, the rest a new one, whose index is returned.
    pub fn split_off(&mut self, index: u32, done_bytes: u64, output_bytes: u64, now: Time) -> Option<u32> {
        let task = &self.tasks[0][index as usize];
        let (split, gave_way) = (task.split, task.gave_way);
        let (start_bytes, bytes) = (self.start_bytes(index), self.bytes(index));
        if done_bytes == 0 {
            self.stop(Kind::Map, index, now);
            self.wait_again(Kind::Map, index, None);
            return None;
        }
        let rest_bytes = bytes - done_bytes;
        self.past_mut(Kind::Map, index).bytes = Some(done_bytes);
        // A part of a split says nothing about how long a whole one takes.
        let Facts { finished, finished_time, .. } = self.facts[0];
        self.finish(Kind::Map, index, output_bytes, None, now);
        self.facts[0].finished = finished;
        self.facts[0].finished_time = finished_time;
        if rest_bytes == 0 {
            return None;
        }
        let rest = self.tasks[0].len() as u32;
        self.tasks[0].push(Task { gave_way, ..Task::new(split) });
        self.map_outputs.push(0);
        let past = self.past_mut(Kind::Map, rest);
        (past.start_bytes, past.bytes) = (start_bytes + done_bytes, Some(rest_bytes));
        self.facts[0].waiting += 1;
        self.waiting_maps.come_back(rest);
        Some(rest)
    }

    /// A live reduce paused; its node keeps its state.
    pub fn pause(&mut self, index: u32, progress_ppm: u32, now: Time) {
        let served = self.service(Kind::Reduce, index, now);
        self.stop(Kind::Reduce, index, now);
        let task = &mut self.tasks[1][index as usize];
        task.state = TaskState::Paused;
        task.progress_ppm = progress_ppm;
        self.past_mut(Kind::Reduce, index).served = served;
        self.facts[1].paused += 1;
        self.paused.push_back((index, self.refusals));
    }

    /// A paused reduce is taken off the list of paused ones, to start or to wait again.
    pub fn unpause(&mut self, index: u32) {
        let at = self.paused.iter().position(|&(task, _)| task == index).expect("a paused task is on the list");
        self.paused.remove(at);
    }

    /// A task becomes known, of whose input nothing is known.
    pub fn add_task(&mut self, kind: Kind) {
        let index = self.total(kind);
        if kind == Kind::Map {
            // One split of which nothing is known does for all of them.
            if self.splits.is_empty() {
                self.splits = Arc::from([Split::default()]);
            }
            self.map_outputs.push(0);
            self.waiting_maps.add(index);
        } else {
            self.waiting_reduces.push(index);
        }
        self.tasks[kind.ix()].push(Task::new(0));
        self.facts[kind.ix()].waiting += 1;
    }

    /// The waiting task that became known last is no longer asked for: nothing is left to do of it, and it leaves nothing anywhere.
    pub fn drop_task(&mut self, kind: Kind) {
        let waits = |task: &Task| task.state == TaskState::Waiting;
        let index = self.tasks[kind.ix()].iter().rposition(waits).expect("the caller counted the waiting tasks");
        let task = &mut self.tasks[kind.ix()][index];
        task.state = TaskState::Done;
        task.node = NodeId(u32::MAX);
        match kind {
            Kind::Map => self.waiting_maps.leave(index as u32),
            Kind::Reduce => self.waiting_reduces.retain(|&waiting| waiting != index as u32),
        }
        self.facts[kind.ix()].waiting -= 1;
        self.facts[kind.ix()].done += 1;
    }

    /// A finished map's output is gone and needed: it waits again.
    pub fn undo_map(&mut self, index: u32, lost_with: NodeId) {
        assert!(self.task(Kind::Map, index).state == TaskState::Done);
        self.mapped_bytes -= self.bytes(index);
        self.output_bytes -= self.map_outputs[index as usize];
        self.facts[0].done -= 1;
        self.wait_again(Kind::Map, index, Some(lost_with));
    }

    /// What an attempt at this task does on a node.
    pub fn map_work(&self, index: u32, locality: Locality) -> Work {
        let split = self.task(Kind::Map, index).split;
        Work::Map { split, start_bytes: self.start_bytes(index), bytes: self.bytes(index), locality }
    }

    /// What its maps will have written in all, as far as one can tell from those that are done.
    pub fn intermediate_bytes(&self) -> Option<f64> {
        (self.mapped_bytes > 0).then(|| self.output_bytes as f64 * self.input_bytes as f64 / self.mapped_bytes as f64)
    }

    /// True if some reduce that is not done has not fetched everything yet.
    pub fn needs_map_output(&self) -> bool {
        self.tasks[1].iter().any(|task| task.state != TaskState::Done && task.progress_ppm < FETCHED_PPM)
    }
}

/// A reduce that has come this far has fetched all its input: the first third of its progress is the shuffle.
pub const FETCHED_PPM: u32 = WHOLE_PPM / 3 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_fill_a_cache_line() {
        assert_eq!(size_of::<Task>(), 32);
    }
}
