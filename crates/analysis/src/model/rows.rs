//! Jobs and nodes.

use super::columns::Ended;
use giveway_core::event::{JobSpec, NodeSpec};
use giveway_core::state::Job;
use giveway_core::{JobId, Kind, Outcome, Priority, Span, Time};
use serde::Serialize;
use strum::IntoStaticStr;

/// A job and its counts so far. Browsers get it as JSON, with times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct JobRow {
    /// Its id in the log.
    pub id: JobId,
    /// Its name, chosen by its user.
    pub name: String,
    /// The user who submitted it.
    pub user: String,
    /// Its pool or queue.
    pub pool: String,
    pub priority: Priority,
    /// The id that the cluster's own manager gave it, such as a YARN application id.
    pub external_id: Option<String>,
    /// Maps and reduces at submission.
    pub tasks: [u32; 2],
    pub input_bytes: u64,
    /// When it was submitted.
    #[serde(serialize_with = "seconds")]
    pub submitted: Time,
    /// When its first task was launched.
    #[serde(serialize_with = "seconds_if_any")]
    pub started: Option<Time>,
    #[serde(serialize_with = "seconds_if_any")]
    pub ended: Option<Time>,
    #[serde(serialize_with = "in_lower_case")]
    pub outcome: Option<Outcome>,
    /// Slots it holds, by kind.
    pub running: [u32; 2],
    /// Tasks done, by kind; pieces of maps that ended early do not count.
    pub done: [u32; 2],
    /// When its last map finished, once all have.
    #[serde(skip)]
    pub maps_ended: Option<Time>,
    /// Slot time of the work of its tasks, by kind; of reduces what follows the last map.
    #[serde(skip)]
    pub work_time: [Span; 2],
    /// By kind, the sum of the squares of the times of its finished tasks, in square seconds.
    #[serde(skip)]
    pub work_squares: [f64; 2],
    /// Bytes that its maps have written for its reduces.
    #[serde(skip)]
    pub map_output_bytes: u64,
    /// Reduces that are paused.
    pub paused: u32,
    pub pauses: u32,
    /// Reduces that continued after a pause.
    pub resumes: u32,
    /// Maps that ended early.
    pub early_ends: u32,
    /// Attempts killed for another job.
    pub kills: u32,
    pub failures: u32,
    /// Launches that repeat work lost with a node.
    pub recovered: u32,
    /// Slot time of attempts that were killed for another job.
    #[serde(rename = "lost_s", serialize_with = "seconds_of")]
    pub lost_to_preemption: Span,
    /// Slot time of attempts that were lost with a node.
    #[serde(rename = "lost_with_nodes_s", serialize_with = "seconds_of")]
    pub lost_with_nodes: Span,
    /// Version of the model at its last change.
    #[serde(skip)]
    pub version: u64,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum JobState {
    /// It holds no slot, and has not ended.
    Waiting,
    /// It holds a slot.
    Running,
    /// It ended with success.
    Succeeded,
    Killed,
    Failed,
}

impl From<Outcome> for JobState {
    fn from(outcome: Outcome) -> JobState {
        match outcome {
            Outcome::Succeeded => JobState::Succeeded,
            Outcome::Killed => JobState::Killed,
            Outcome::Failed => JobState::Failed,
        }
    }
}

impl JobRow {
    /// Takes over what is known of a job that ran before the log began. Preemptions are counted from here on.
    pub(crate) fn go_on_from(&mut self, job: &Job, now: Time, version: u64) {
        if self.started.is_some() {
            return;
        }
        self.started = job.first_launch();
        for kind in Kind::BOTH {
            let counts = job.counts(kind);
            let waited = Span::from_secs_f64(counts.finished_wait_s);
            (self.running[kind.index()], self.done[kind.index()]) = (counts.running.len() as u32, counts.done);
            self.work_time[kind.index()] = Span(counts.finished_time.0.saturating_sub(waited.0));
        }
        self.maps_ended = (job.maps_done() && !job.is_open()).then_some(now);
        self.paused = job.paused().len() as u32;
        self.version = version;
    }

    pub(crate) fn new(spec: &JobSpec, now: Time, version: u64) -> JobRow {
        JobRow {
            id: spec.id,
            name: spec.name.clone(),
            user: spec.user.clone(),
            pool: spec.pool.clone(),
            priority: spec.priority,
            external_id: spec.external_id.clone(),
            tasks: [u32::try_from(spec.splits.len()).unwrap_or(u32::MAX), spec.reduces],
            input_bytes: spec.splits.iter().fold(0, |sum, split| sum.saturating_add(split.bytes)),
            submitted: now,
            started: None,
            ended: None,
            outcome: None,
            running: [0; 2],
            done: [0; 2],
            maps_ended: None,
            work_time: [Span::ZERO; 2],
            work_squares: [0.0; 2],
            map_output_bytes: 0,
            paused: 0,
            pauses: 0,
            resumes: 0,
            early_ends: 0,
            kills: 0,
            failures: 0,
            recovered: 0,
            lost_to_preemption: Span::ZERO,
            lost_with_nodes: Span::ZERO,
            version,
        }
    }

    /// What it does now.
    pub fn state(&self) -> JobState {
        match self.outcome {
            Some(outcome) => outcome.into(),
            None if self.running == [0; 2] => JobState::Waiting,
            None => JobState::Running,
        }
    }

    /// True if half of its tasks are done, but not all.
    pub fn is_half_done(&self) -> bool {
        let (done, tasks) = (self.done.iter().sum::<u32>(), self.tasks.iter().sum::<u32>());
        self.ended.is_none() && done * 2 >= tasks && done < tasks
    }

    /// Mean time of its finished tasks of a kind, of reduces after the last map; none without any.
    pub fn mean_task_time(&self, kind: Kind) -> Option<Span> {
        let done = self.done[kind.index()];
        (done > 0).then(|| self.work_time[kind.index()].scaled(1.0 / f64::from(done)))
    }

    /// The variance of the times of its finished tasks of a kind, relative to the square of their mean; none with fewer than two.
    pub fn relative_variance(&self, kind: Kind) -> Option<f64> {
        let done = f64::from(self.done[kind.index()]);
        let mean_s = self.mean_task_time(kind).filter(|time| done > 1.0 && !time.is_zero())?.as_secs_f64();
        let variance = (self.work_squares[kind.index()] / done - mean_s * mean_s).max(0.0);
        Some(variance / (mean_s * mean_s) * done / (done - 1.0))
    }

    /// Bytes that its maps will have written when all are done, if the others write as much as those that are; none without any.
    pub fn expected_map_output(&self) -> Option<f64> {
        let [done, _] = self.done;
        (done > 0).then(|| self.map_output_bytes as f64 * f64::from(self.tasks[0]) / f64::from(done))
    }

    /// How long a task that was launched then has worked: a reduce works when all maps have ended.
    pub fn worked(&self, kind: Kind, launched: Time, now: Time) -> Span {
        match kind {
            Kind::Map => now.since(launched),
            Kind::Reduce => self.maps_ended.map_or(Span::ZERO, |ended| now.since(ended.max(launched))),
        }
    }

    pub(super) fn on_end(&mut self, kind: Kind, ended: Ended, launched: Time, now: Time) {
        let held = now.since(launched);
        match ended {
            Ended::Finished => {
                self.done[kind.index()] += 1;
                let worked = self.worked(kind, launched, now);
                self.work_time[kind.index()] += worked;
                self.work_squares[kind.index()] += worked.as_secs_f64().powi(2);
                if kind == Kind::Map && self.done[0] >= self.tasks[0] {
                    self.maps_ended = Some(now);
                }
            }
            Ended::Paused => {
                self.pauses += 1;
                self.paused += 1;
                // What a paused reduce has done counts when it finishes.
                self.work_time[kind.index()] += self.worked(kind, launched, now);
            }
            Ended::EndedEarly => {
                self.early_ends += 1;
                self.work_time[kind.index()] += held;
            }
            Ended::KilledForOther => {
                self.kills += 1;
                self.lost_to_preemption += held;
            }
            Ended::Failed => self.failures += 1,
            Ended::NodeLost => self.lost_with_nodes += held,
            Ended::Running | Ended::Killed | Ended::Resynced => {}
        }
    }
}

/// A time in which a node got no tasks but probes, or none at all because an administrator drained it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exclusion {
    /// From when.
    #[serde(serialize_with = "seconds")]
    pub from: Time,
    /// Until when; none if it lasts.
    #[serde(serialize_with = "seconds_if_any")]
    pub until: Option<Time>,
    /// The failures it was excluded for; none if it was drained.
    pub failures: u32,
    /// The jobs whose tasks failed there.
    pub jobs: u32,
    /// True if an administrator drained it.
    pub drained: bool,
}

fn seconds<S: serde::Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

fn seconds_if_any<S: serde::Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
    time.map(Time::as_secs_f64).serialize(to)
}

fn seconds_of<S: serde::Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_secs_f64())
}

fn in_lower_case<S: serde::Serializer>(outcome: &Option<Outcome>, to: S) -> Result<S::Ok, S::Error> {
    outcome.map(JobState::from).serialize(to)
}

fn speed<S: serde::Serializer>(speed_ppm: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(f64::from(*speed_ppm) / 1e6)
}

fn intervals<S: serde::Serializer>(up: &[(Time, Option<Time>)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(up.iter().map(|(from, until)| (from.as_secs_f64(), until.map(Time::as_secs_f64))))
}

/// A node. Browsers get it as JSON, with times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct NodeRow {
    pub name: String,
    pub rack: u32,
    /// Its map and reduce slots.
    pub slots: [u16; 2],
    /// Compute speed, in parts per million of the reference node's.
    #[serde(rename = "speed", serialize_with = "speed")]
    pub speed_ppm: u32,
    /// When it was up: from, and until if it was lost.
    #[serde(serialize_with = "intervals")]
    pub up: Vec<(Time, Option<Time>)>,
    /// When it was excluded, because it had failed tasks of several jobs.
    pub exclusions: Vec<Exclusion>,
    /// Version of the model at its last change.
    #[serde(skip)]
    pub version: u64,
    /// By kind, which slots are in use. A slot has no number in the scheduler; here each attempt takes the lowest free one, for drawing.
    #[serde(skip)]
    lanes: [Vec<bool>; 2],
}

impl NodeRow {
    pub(super) fn new(spec: &NodeSpec, now: Time, version: u64) -> NodeRow {
        NodeRow {
            name: spec.name.clone(),
            rack: spec.rack.0,
            slots: [spec.map_slots, spec.reduce_slots],
            speed_ppm: spec.speed_ppm,
            up: vec![(now, None)],
            exclusions: Vec::new(),
            version,
            lanes: [Vec::new(), Vec::new()],
        }
    }

    pub(super) fn rejoin(&mut self, spec: &NodeSpec, now: Time, version: u64) {
        let NodeRow { up, exclusions, lanes, .. } = self;
        let (up, exclusions, lanes) = (std::mem::take(up), std::mem::take(exclusions), std::mem::take(lanes));
        *self = NodeRow { up, exclusions, lanes, ..NodeRow::new(spec, now, version) };
        self.up.push((now, None));
    }

    pub(super) fn lose(&mut self, now: Time, version: u64) {
        self.version = version;
        if let Some((_, until @ None)) = self.up.last_mut() {
            *until = Some(now);
        }
    }

    /// Sets whether it is excluded now, for how many failures of how many jobs; returns whether that has changed.
    pub(super) fn set_excluded(&mut self, now: Time, excluded: Option<(u32, u32)>, version: u64) -> bool {
        let last = self.exclusions.last().filter(|of| of.until.is_none()).map(|of| (of.failures, of.jobs));
        let changed = last != excluded;
        if changed {
            self.version = version;
            self.exclusions.iter_mut().for_each(|of| of.until = of.until.or(Some(now)));
            self.exclusions.extend(excluded.map(|(failures, jobs)| {
                let drained = failures == 0;
                Exclusion { from: now, until: None, failures, jobs, drained }
            }));
        }
        changed
    }

    /// True if an administrator drains it.
    pub fn is_drained(&self) -> bool {
        self.exclusions.last().is_some_and(|of| of.until.is_none() && of.drained)
    }

    /// True if it gets no tasks but probes, or is drained.
    pub fn is_excluded(&self) -> bool {
        self.exclusions.last().is_some_and(|of| of.until.is_none())
    }

    /// False after a loss.
    pub fn is_up(&self) -> bool {
        self.up.last().is_some_and(|(_, until)| until.is_none())
    }

    pub(super) fn take_lane(&mut self, kind: Kind) -> u16 {
        let lanes = &mut self.lanes[kind.index()];
        let lane = lanes.iter().position(|used| !used).unwrap_or(lanes.len());
        match lanes.get_mut(lane) {
            Some(used) => *used = true,
            None => lanes.push(true),
        }
        u16::try_from(lane).unwrap_or(u16::MAX)
    }

    pub(super) fn free_lane(&mut self, kind: Kind, lane: u16) {
        if let Some(used) = self.lanes[kind.index()].get_mut(usize::from(lane)) {
            *used = false;
        }
    }
}
