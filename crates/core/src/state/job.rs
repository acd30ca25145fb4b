//! A job, its tasks, and what is counted of them.

use super::waiting::Waiting;
use crate::action::{Locality, Work};
use crate::event::{Hint, JobSpec, Priority, Split};
use crate::ids::{AttemptId, JobId, Kind, NodeId, TaskId};
use crate::policy::GiveWay;
use crate::policy::estimate::Estimate;
use crate::units::{Span, Time, WHOLE_PPM};
use std::collections::VecDeque;

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
    pub splits: Vec<Split>,
    /// Its tasks of each kind.
    pub tasks: [Vec<Task>; 2],
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
    /// Nodes that run or ran its maps, one bit each.
    pub map_nodes: Vec<u64>,
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
    /// Work of the finished tasks: their time on a node of speed 1, in seconds.
    pub finished_work_s: f64,
}

/// A task and its current attempt. One cache line: there are millions of these, and most have no past.
#[derive(Debug)]
pub struct Task {
    /// What it is doing.
    pub state: TaskState,
    /// How often it gave way.
    pub gave_way: u8,
    /// How often it failed on its own.
    pub failures: u8,
    /// The number of its current or last attempt.
    pub number: u16,
    /// Attempts so far.
    pub attempts: u16,
    /// The node where it runs, is paused, or left its output.
    pub node: NodeId,
    /// How far it has come.
    pub done_ppm: u32,
    /// Its place in the list of live tasks while it runs.
    pub live_at: u32,
    /// Its split, if it is a map.
    pub split: u32,
    /// The node it was lost with, until it runs again.
    pub lost_with: Option<NodeId>,
    /// How many bytes of the split.
    pub bytes: u64,
    /// What it wrote when it finished.
    pub output_bytes: u64,
    /// When its current attempt was launched.
    pub launched: Time,
    past: Option<Box<Past>>,
}

/// What there is to say of a task that did not just run once from beginning to end.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// From which byte of its split it begins: not zero for the rest of one that ended early.
    start_bytes: u64,
    /// When its first attempt was launched.
    first_launched: Option<Time>,
    /// Slot time of earlier attempts whose work was kept.
    served: Span,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Waits for a slot.
    Waiting,
    /// Runs.
    Running,
    /// Runs, and was asked to give way.
    Yielding(GiveWay),
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
    fn new(split: u32, start_bytes: u64, bytes: u64) -> Task {
        let past = (start_bytes > 0).then(|| Box::new(Past { start_bytes, ..Past::default() }));
        Task {
            state: TaskState::Waiting,
            gave_way: 0,
            failures: 0,
            number: 0,
            attempts: 0,
            node: NodeId::default(),
            done_ppm: 0,
            live_at: 0,
            split,
            lost_with: None,
            bytes,
            output_bytes: 0,
            launched: Time::ZERO,
            past,
        }
    }

    /// True while it holds a slot.
    pub fn is_live(&self) -> bool {
        matches!(self.state, TaskState::Running | TaskState::Yielding(_))
    }

    /// Slot time that counts towards its result.
    pub fn service(&self, now: Time) -> Span {
        let served = self.past().served;
        if self.is_live() { served + now.since(self.launched) } else { served }
    }

    /// From which byte of its split it begins.
    pub fn start_bytes(&self) -> u64 {
        self.past().start_bytes
    }

    /// When its first attempt was launched.
    pub fn first_launched(&self) -> Time {
        self.past().first_launched.unwrap_or(self.launched)
    }

    fn past(&self) -> Past {
        self.past.as_deref().copied().unwrap_or_default()
    }

    fn past_mut(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// An attempt begins on a node.
    fn begin(&mut self, node: NodeId, now: Time) {
        if self.attempts > 0 {
            let launched = self.launched;
            self.past_mut().first_launched.get_or_insert(launched);
        }
        self.state = TaskState::Running;
        self.node = node;
        self.number = self.attempts;
        self.attempts += 1;
        self.launched = now;
        self.lost_with = None;
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
        let maps: Vec<Task> =
            spec.splits.iter().enumerate().map(|(i, split)| Task::new(i as u32, 0, split.bytes)).collect();
        let reduces: Vec<Task> = (0..spec.reduces).map(|_| Task::new(0, 0, 0)).collect();
        let waiting = [maps.len() as u32, spec.reduces];
        let slowstart_maps = (maps.len() as u64 * u64::from(spec.slowstart_ppm)).div_ceil(u64::from(WHOLE_PPM)) as u32;
        Job {
            id: spec.id,
            user,
            priority: spec.priority,
            submitted: now,
            seq,
            waiting_maps: Waiting::new(&spec.splits),
            splits: spec.splits.clone(),
            tasks: [maps, reduces],
            facts: waiting.map(|waiting| Facts { waiting, ..Facts::default() }),
            waiting_reduces: (0..spec.reduces).rev().collect(),
            paused: VecDeque::new(),
            refusals: 0,
            gone: Vec::new(),
            twins: Vec::new(),
            slowstart_maps,
            first_launch: None,
            holding_out: [None; 2],
            map_nodes: Vec::new(),
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

    /// The name of a task's current attempt.
    pub fn attempt(&self, kind: Kind, index: u32) -> AttemptId {
        AttemptId { task: TaskId { job: self.id, kind, index }, number: self.task(kind, index).number }
    }

    /// Whether a node ran or runs maps of this job.
    pub fn mapped_on(&self, node: NodeId) -> bool {
        self.map_nodes.get(node.0 as usize / 64).is_some_and(|word| word >> (node.0 % 64) & 1 == 1)
    }

    fn note_map_on(&mut self, node: NodeId) {
        let word = node.0 as usize / 64;
        if self.map_nodes.len() <= word {
            self.map_nodes.resize(word + 1, 0);
        }
        self.map_nodes[word] |= 1 << (node.0 % 64);
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
        task.begin(node, now);
        task.live_at = facts.live.len() as u32;
        facts.live.push(index);
        if kind == Kind::Map {
            self.first_launch.get_or_insert(now);
            self.note_map_on(node);
        }
        self.attempt(kind, index)
    }

    /// A second attempt of a running task starts.
    pub fn start_twin(&mut self, twin: Twin) {
        self.twins.push(twin);
        self.facts[twin.kind.ix()].twins += 1;
        if twin.kind == Kind::Map {
            self.note_map_on(twin.node);
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
        task.done_ppm = 0;
        if let Some(past) = &mut task.past {
            past.served = Span::ZERO;
        }
        task.lost_with = lost_with;
        self.facts[kind.ix()].waiting += 1;
        match kind {
            Kind::Map => self.waiting_maps.come_back(index),
            Kind::Reduce => self.waiting_reduces.push(index),
        }
    }

    /// A live task finished; its output lies on its node.
    pub fn finish(&mut self, kind: Kind, index: u32, output_bytes: u64, speed: f64, now: Time) {
        let node_time = self.task(kind, index).service(now);
        self.stop(kind, index, now);
        let task = &mut self.tasks[kind.ix()][index as usize];
        task.state = TaskState::Done;
        task.done_ppm = WHOLE_PPM;
        task.output_bytes = output_bytes;
        let facts = &mut self.facts[kind.ix()];
        facts.done += 1;
        facts.finished += 1;
        facts.finished_time += node_time;
        facts.finished_work_s += node_time.as_secs_f64() * speed;
        if kind == Kind::Map {
            self.mapped_bytes += task.bytes;
            self.output_bytes += output_bytes;
        }
    }

    /// A live map ended early: what it did is a finished map, the rest a new one, whose index is returned.
    pub fn split_off(&mut self, index: u32, done_bytes: u64, output_bytes: u64, now: Time) -> Option<u32> {
        let task = &self.tasks[0][index as usize];
        let (split, start_bytes, bytes, gave_way) = (task.split, task.start_bytes(), task.bytes, task.gave_way);
        if done_bytes == 0 {
            self.stop(Kind::Map, index, now);
            self.wait_again(Kind::Map, index, None);
            return None;
        }
        let rest_bytes = bytes - done_bytes;
        self.tasks[0][index as usize].bytes = done_bytes;
        // A part of a split says nothing about how long a whole one takes.
        let Facts { finished, finished_time, finished_work_s, .. } = self.facts[0];
        self.finish(Kind::Map, index, output_bytes, 1.0, now);
        self.facts[0].finished = finished;
        self.facts[0].finished_time = finished_time;
        self.facts[0].finished_work_s = finished_work_s;
        if rest_bytes == 0 {
            return None;
        }
        let rest = self.tasks[0].len() as u32;
        let mut task = Task::new(split, start_bytes + done_bytes, rest_bytes);
        task.gave_way = gave_way;
        self.tasks[0].push(task);
        self.facts[0].waiting += 1;
        self.waiting_maps.come_back(rest);
        Some(rest)
    }

    /// A live reduce paused; its node keeps its state.
    pub fn pause(&mut self, index: u32, done_ppm: u32, now: Time) {
        let served = self.task(Kind::Reduce, index).service(now);
        self.stop(Kind::Reduce, index, now);
        let task = &mut self.tasks[1][index as usize];
        task.state = TaskState::Paused;
        task.done_ppm = done_ppm;
        task.past_mut().served = served;
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
        let mut split = 0;
        if kind == Kind::Map {
            split = self.splits.len() as u32;
            self.splits.push(Split::default());
            self.waiting_maps.add(index);
        } else {
            self.waiting_reduces.push(index);
        }
        self.tasks[kind.ix()].push(Task::new(split, 0, 0));
        self.facts[kind.ix()].waiting += 1;
    }

    /// The waiting task that became known last is no longer asked for: nothing is left to do of it, and it leaves nothing anywhere.
    pub fn drop_task(&mut self, kind: Kind) {
        let waits = |task: &Task| task.state == TaskState::Waiting;
        let index = self.tasks[kind.ix()].iter().rposition(waits).expect("the caller counted the waiting tasks");
        let task = &mut self.tasks[kind.ix()][index];
        task.state = TaskState::Done;
        task.node = NodeId(u32::MAX);
        self.waiting_reduces.retain(|&waiting| kind == Kind::Map || waiting != index as u32);
        self.facts[kind.ix()].waiting -= 1;
        self.facts[kind.ix()].done += 1;
    }

    /// A finished map's output is gone and needed: it waits again.
    pub fn undo_map(&mut self, index: u32, lost_with: NodeId) {
        let task = &self.tasks[0][index as usize];
        assert!(task.state == TaskState::Done);
        self.mapped_bytes -= task.bytes;
        self.output_bytes -= task.output_bytes;
        self.facts[0].done -= 1;
        self.wait_again(Kind::Map, index, Some(lost_with));
    }

    /// What an attempt at this task does on a node.
    pub fn map_work(&self, index: u32, locality: Locality) -> Work {
        let task = self.task(Kind::Map, index);
        Work::Map { split: task.split, start_bytes: task.start_bytes(), bytes: task.bytes, locality }
    }

    /// What its maps will have written in all, as far as one can tell from those that are done.
    pub fn intermediate_bytes(&self) -> Option<f64> {
        (self.mapped_bytes > 0).then(|| self.output_bytes as f64 * self.input_bytes as f64 / self.mapped_bytes as f64)
    }

    /// True if some reduce that is not done has not fetched everything yet.
    pub fn needs_map_output(&self) -> bool {
        self.tasks[1].iter().any(|task| task.state != TaskState::Done && task.done_ppm < FETCHED_PPM)
    }
}

/// A reduce that has come this far has fetched all its input: the first third of its progress is the shuffle.
pub const FETCHED_PPM: u32 = WHOLE_PPM / 3 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_cache_line() {
        assert_eq!(size_of::<Task>(), 64);
    }
}
