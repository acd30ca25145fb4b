//! The life of jobs and attempts, as a fold over events and actions.
//!
//! Metrics, reports, the engine's job table and readers of event logs all follow attempts from launch to end. They do it with a [`Lifecycle`]: it
//! keeps the running attempts and turns each record (event and actions) into [`Change`]s, so that what counts as a launch or an end is
//! defined once. Refused events, ends of unknown attempts and second launches of an attempt give no change. A lost node ends its attempts, and
//! a resync ends all. An attempt that ends after its job closed gives a change too: the observer decides whether it counts.

use crate::action::{Action, Locality, Outcome, PreemptAction, Start, Work};
use crate::event::{Event, JobSpec, NodeSpec};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::reason::{Reason, Refusal};
use crate::snapshot::Snapshot;
use crate::state::{Node, State};
use crate::units::Time;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// The running attempts of a cluster. `T` is what the observer keeps with each attempt.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle<T = ()> {
    running: FxHashMap<AttemptId, RunningAttempt<T>>,
}

/// An attempt that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningAttempt<T = ()> {
    /// Its id.
    pub id: AttemptId,
    /// Its node.
    pub node: NodeId,
    /// When it was launched.
    pub launched: Time,
    /// Its input range, or where it starts.
    pub work: Work,
    /// What the scheduler has last requested of it, if anything. A kill is final: later requests do not replace it.
    pub stop: Option<StopRequest>,
    /// What the observer keeps with it.
    pub data: T,
}

/// A request to stop an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// How.
    pub action: PreemptAction,
    /// True if another job, or a lost task, gets the slot.
    pub preempted: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It completed its task.
    Finished {
        /// Bytes of its output.
        output_bytes: u64,
    },
    /// It paused.
    Paused,
    /// It ended early after a part of its input.
    EndedEarly {
        /// Input bytes mapped; zero if nothing was.
        done_bytes: u64,
        /// Bytes of its output.
        output_bytes: u64,
    },
    /// It was killed.
    Killed {
        /// True if the kill was requested for another job or a lost task; false if the job ended or another attempt of the task finished.
        preempted: bool,
    },
    /// It failed.
    Failed,
    /// Its node was lost, or its worker process was.
    NodeLost,
    /// The backend lost track of it. If it still runs, the backend reports it again, under a new attempt.
    Resynced,
}

impl End {
    /// True if the attempt left a result: its task is done, or a part of it.
    pub fn has_result(self) -> bool {
        match self {
            End::Finished { .. } => true,
            End::EndedEarly { done_bytes, .. } => done_bytes > 0,
            End::Paused | End::Killed { .. } | End::Failed | End::NodeLost | End::Resynced => false,
        }
    }
}

/// Why the scheduler refused the event that it answered with these actions; none if it accepted the event.
pub fn refusal(actions: &[Action]) -> Option<Refusal> {
    actions.iter().find_map(|action| match action {
        Action::Refuse { refusal } => Some(*refusal),
        _ => None,
    })
}

/// A change in the life of a job, a node or an attempt.
#[derive(Debug)]
pub enum Change<'a, T = ()> {
    /// A job was submitted, with all tasks or open.
    JobSubmitted(&'a JobSpec),
    /// A job ended. Its attempts may end later.
    JobClosed {
        /// The ended job.
        job: JobId,
        /// Success, kill or failure.
        outcome: Outcome,
    },
    /// A node joined.
    NodeJoined {
        /// Its id.
        node: NodeId,
        /// Its slots, speed and disk.
        spec: &'a NodeSpec,
    },
    /// The number of slots of a node changed.
    SlotsSet {
        /// Its id.
        node: NodeId,
        /// Slots in all, taken and free, by kind.
        slots: PerKind<u16>,
    },
    /// A node was lost. The ends of its attempts follow.
    NodeLost {
        /// Its id.
        node: NodeId,
    },
    /// An attempt was launched.
    Launched {
        /// The attempt, for setting its `data`.
        attempt: &'a mut RunningAttempt<T>,
        /// Why its task was chosen.
        reason: &'a Reason,
    },
    /// A running attempt was requested to stop.
    StopRequested {
        /// The attempt.
        attempt: &'a RunningAttempt<T>,
        /// How it is to stop.
        request: StopRequest,
        /// Why it was chosen.
        reason: &'a Reason,
    },
    /// An attempt ended.
    Ended {
        /// The attempt.
        attempt: RunningAttempt<T>,
        /// How.
        end: End,
    },
}

impl<T: Default> Lifecycle<T> {
    /// The running attempts of a snapshot.
    pub fn restored(snapshot: &Snapshot) -> Lifecycle<T> {
        Lifecycle { running: running(&snapshot.state).map(|attempt| (attempt.id, attempt)).collect() }
    }

    /// Follows one record and calls `on_change` for each change, in order. The lifecycle is already updated then.
    pub fn observe(&mut self, event: &Event, actions: &[Action], now: Time, on_change: &mut impl FnMut(Change<'_, T>)) {
        if refusal(actions).is_none() {
            self.observe_event(event, on_change);
        }
        actions.iter().for_each(|action| self.observe_action(action, now, on_change));
    }

    fn observe_event(&mut self, event: &Event, on_change: &mut impl FnMut(Change<'_, T>)) {
        match event {
            Event::JobSubmitted(spec) | Event::JobOpened(spec) => on_change(Change::JobSubmitted(spec)),
            Event::NodeJoined { node, spec } => on_change(Change::NodeJoined { node: *node, spec }),
            Event::NodeSlotsSet { node, slots } => on_change(Change::SlotsSet { node: *node, slots: *slots }),
            Event::NodeLost { node } => {
                on_change(Change::NodeLost { node: *node });
                for attempt in self.on_node(*node) {
                    self.end(attempt, End::NodeLost, on_change);
                }
            }
            Event::AttemptFinished { attempt, output_bytes } => {
                self.end(*attempt, End::Finished { output_bytes: *output_bytes }, on_change);
            }
            Event::AttemptFailed { attempt } => self.end(*attempt, End::Failed, on_change),
            Event::AttemptLost { attempt } => self.end(*attempt, End::NodeLost, on_change),
            Event::AttemptKilled { attempt } => {
                let requested = self.get(*attempt).and_then(|attempt| attempt.stop);
                let preempted = requested.is_some_and(|stop| stop.action == PreemptAction::Kill && stop.preempted);
                self.end(*attempt, End::Killed { preempted }, on_change);
            }
            Event::AttemptPaused { attempt, .. } => self.end(*attempt, End::Paused, on_change),
            Event::AttemptEndedEarly { attempt, done_bytes, output_bytes } => {
                let end = End::EndedEarly { done_bytes: *done_bytes, output_bytes: *output_bytes };
                self.end(*attempt, end, on_change);
            }
            Event::Resynced => {
                let mut running: Vec<AttemptId> = self.running.keys().copied().collect();
                running.sort_unstable();
                running.into_iter().for_each(|attempt| self.end(attempt, End::Resynced, on_change));
            }
            Event::StopFailed { attempt } => {
                if let Some(attempt) = self.running.get_mut(attempt) {
                    attempt.stop = None;
                }
            }
            Event::Restored(snapshot) => self.restore(snapshot),
            Event::AttemptProtected { .. }
            | Event::RecoveryRequested { .. }
            | Event::PauseLimitSet { .. }
            | Event::HeadroomSet { .. }
            | Event::NodeDrained { .. }
            | Event::NodeIncluded { .. }
            | Event::JobKilled { .. }
            | Event::SlotsOffered { .. }
            | Event::TimerFired { .. }
            | Event::ProgressReported { .. }
            | Event::MapOutputLost { .. }
            | Event::YieldRequested { .. }
            | Event::SlotsRequested { .. }
            | Event::SlotGranted { .. }
            | Event::JobEnded { .. } => {}
        }
    }

    /// The running attempts are those of a snapshot. Those that are known already keep what is known of them. There is no change: their
    /// launches were observed, or are in an earlier log.
    fn restore(&mut self, snapshot: &Snapshot) {
        let mut known = std::mem::take(&mut self.running);
        self.running = running(&snapshot.state)
            .map(|attempt| (attempt.id, known.remove(&attempt.id).unwrap_or(attempt)))
            .collect();
    }

    fn observe_action(&mut self, action: &Action, now: Time, on_change: &mut impl FnMut(Change<'_, T>)) {
        match action {
            Action::Launch { attempt: id, node, work, reason } => {
                let Entry::Vacant(entry) = self.running.entry(*id) else { return };
                let (id, node, work) = (*id, *node, *work);
                let attempt = RunningAttempt { id, node, launched: now, work, stop: None, data: T::default() };
                on_change(Change::Launched { attempt: entry.insert(attempt), reason });
            }
            Action::Pause { attempt, reason, .. } => self.stop(*attempt, PreemptAction::Pause, reason, on_change),
            Action::EndEarly { attempt, reason, .. } => self.stop(*attempt, PreemptAction::EndEarly, reason, on_change),
            Action::Kill { attempt, reason, .. } => self.stop(*attempt, PreemptAction::Kill, reason, on_change),
            Action::CloseJob { job, outcome } => on_change(Change::JobClosed { job: *job, outcome: *outcome }),
            Action::PlaceReplicas { .. } | Action::SetTimer { .. } | Action::Refuse { .. } => {}
        }
    }

    fn stop(
        &mut self,
        attempt: AttemptId,
        action: PreemptAction,
        reason: &Reason,
        on_change: &mut impl FnMut(Change<'_, T>),
    ) {
        let Some(attempt) = self.running.get_mut(&attempt) else { return };
        let preempted = reason.is_preemption();
        let request = StopRequest { action, preempted };
        if attempt.stop.is_none_or(|stop| stop.action != PreemptAction::Kill) {
            attempt.stop = Some(request);
        }
        on_change(Change::StopRequested { attempt, request, reason });
    }

    fn end(&mut self, attempt: AttemptId, end: End, on_change: &mut impl FnMut(Change<'_, T>)) {
        if let Some(attempt) = self.running.remove(&attempt) {
            on_change(Change::Ended { attempt, end });
        }
    }
}

/// The attempts that hold a slot. The locality of maps and the start of reduces are not known any more.
fn running<T: Default>(state: &State) -> impl Iterator<Item = RunningAttempt<T>> {
    let on_node = |(node, known): (NodeId, &Node)| {
        let of_kind = |kind: Kind| known.running(kind).iter().map(move |of| (kind, *of));
        let all: Vec<_> = Kind::BOTH.into_iter().flat_map(of_kind).collect();
        all.into_iter().map(move |(kind, of)| (node, kind, of))
    };
    state.nodes().iter().flat_map(on_node).map(|(node, kind, of)| {
        let (job, key) = (state.job(of.job), TaskKey { kind, index: of.task });
        let id = AttemptId { task: key.of(job.id()), number: of.number };
        let (launched, stop) = job.launched_and_stop(key, of.number);
        let work = match kind {
            Kind::Map => job.map_work(of.task, Locality::Remote),
            Kind::Reduce => Work::Reduce { start: Start::Fresh },
        };
        RunningAttempt { id, node, launched, work, stop, data: T::default() }
    })
}

impl<T> Lifecycle<T> {
    /// A running attempt.
    pub fn get(&self, attempt: AttemptId) -> Option<&RunningAttempt<T>> {
        self.running.get(&attempt)
    }

    /// Number of running attempts.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// True if no attempt runs.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The running attempts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &RunningAttempt<T>> {
        self.running.values()
    }

    /// The attempts that run on a node, by id.
    pub fn on_node(&self, node: NodeId) -> Vec<AttemptId> {
        let mut attempts: Vec<AttemptId> = self.iter().filter(|one| one.node == node).map(|one| one.id).collect();
        attempts.sort_unstable();
        attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Start;
    use crate::ids::Kind;
    use crate::reason::Refusal;

    fn attempt(index: u32) -> AttemptId {
        AttemptId::new(JobId(1), Kind::Reduce, index, 0)
    }

    fn launch(index: u32, node: u32) -> Action {
        let work = Work::Reduce { start: Start::Fresh };
        Action::Launch { attempt: attempt(index), node: NodeId(node), work, reason: Reason::Reserved }
    }

    fn changes(lifecycle: &mut Lifecycle, event: Event, actions: &[Action]) -> Vec<String> {
        let mut changes = Vec::new();
        lifecycle.observe(&event, actions, Time(7), &mut |change| {
            changes.push(match change {
                Change::Launched { attempt, .. } => format!("{} launched on {}", attempt.id, attempt.node),
                Change::StopRequested { attempt, request, .. } => format!("{} {request:?}", attempt.id),
                Change::Ended { attempt, end } => format!("{} {end:?}", attempt.id),
                Change::NodeLost { node } => format!("{node} lost"),
                other => format!("{other:?}"),
            });
        });
        changes
    }

    fn offered() -> Event {
        Event::SlotsOffered { node: NodeId(0), progress: Vec::new() }
    }

    #[test]
    fn an_attempt_is_launched_stopped_and_ended_once() {
        let mut lifecycle = Lifecycle::default();
        assert_eq!(
            changes(&mut lifecycle, offered(), &[launch(0, 3), launch(0, 3)]),
            ["job 1 reduce 0.0 launched on node 3"]
        );
        let reason = Reason::PreemptedFor { job: JobId(2) };
        let pause = Action::Pause { attempt: attempt(0), node: NodeId(3), reason };
        let stopped = changes(&mut lifecycle, offered(), &[pause]);
        assert_eq!(stopped, ["job 1 reduce 0.0 StopRequest { action: Pause, preempted: true }"]);
        let paused = Event::AttemptPaused { attempt: attempt(0), progress_ppm: 1 };
        assert_eq!(changes(&mut lifecycle, paused.clone(), &[]), ["job 1 reduce 0.0 Paused"]);
        assert_eq!(changes(&mut lifecycle, paused, &[]), [""; 0]);
        assert!(lifecycle.is_empty());
    }

    #[test]
    fn a_lost_node_ends_its_attempts_and_no_others() {
        let mut lifecycle = Lifecycle::default();
        changes(&mut lifecycle, offered(), &[launch(2, 1), launch(0, 1), launch(1, 2)]);
        let lost = changes(&mut lifecycle, Event::NodeLost { node: NodeId(1) }, &[]);
        assert_eq!(lost, ["node 1 lost", "job 1 reduce 0.0 NodeLost", "job 1 reduce 2.0 NodeLost"]);
        assert_eq!(lifecycle.len(), 1);
    }

    fn kill(reason: Reason) -> Action {
        Action::Kill { attempt: attempt(0), node: NodeId(1), reason }
    }

    #[test]
    fn a_kill_for_another_job_stays_one_if_the_job_ends_before_the_attempt() {
        let mut lifecycle = Lifecycle::default();
        let preempted_for = || Reason::PreemptedFor { job: JobId(2) };
        changes(&mut lifecycle, offered(), &[launch(0, 1)]);
        changes(&mut lifecycle, offered(), &[kill(preempted_for())]);
        changes(&mut lifecycle, Event::JobKilled { job: JobId(1) }, &[kill(Reason::JobEnded)]);
        let killed = || Event::AttemptKilled { attempt: attempt(0) };
        assert_eq!(changes(&mut lifecycle, killed(), &[]), ["job 1 reduce 0.0 Killed { preempted: true }"]);
        // A pause for another job was requested, but the end of the job killed the attempt.
        let pause = Action::Pause { attempt: attempt(0), node: NodeId(1), reason: preempted_for() };
        changes(&mut lifecycle, offered(), &[launch(0, 1), pause]);
        changes(&mut lifecycle, Event::JobKilled { job: JobId(1) }, &[kill(Reason::JobEnded)]);
        assert_eq!(changes(&mut lifecycle, killed(), &[]), ["job 1 reduce 0.0 Killed { preempted: false }"]);
    }

    #[test]
    fn a_resync_ends_all_attempts_and_they_may_be_launched_again() {
        let mut lifecycle = Lifecycle::default();
        changes(&mut lifecycle, offered(), &[launch(1, 1), launch(0, 2)]);
        let ended = changes(&mut lifecycle, Event::Resynced, &[]);
        assert_eq!(ended, ["job 1 reduce 0.0 Resynced", "job 1 reduce 1.0 Resynced"]);
        assert_eq!(changes(&mut lifecycle, offered(), &[launch(0, 2)]), ["job 1 reduce 0.0 launched on node 2"]);
    }

    #[test]
    fn a_refused_event_changes_nothing() {
        let mut lifecycle = Lifecycle::default();
        changes(&mut lifecycle, offered(), &[launch(0, 1)]);
        let refuse = Action::Refuse { refusal: Refusal::StaleAttempt(attempt(0)) };
        let refused = changes(&mut lifecycle, Event::AttemptFailed { attempt: attempt(0) }, &[refuse]);
        assert_eq!((refused.len(), lifecycle.len()), (0, 1));
    }
}
