//! Recovery from a log: events are applied with the actions that were recorded with them. Nothing is decided again, so a release may decide
//! otherwise than the one that wrote the log.
//!
//! An action that follows from the event alone is in effect already, and is not applied twice.

use super::{Cluster, Decisions};
use crate::action::{Action, PreemptAction, Start, Work};
use crate::event::{Event, Hosts};
use crate::ids::{AttemptId, JobId, NodeId};
use crate::lifecycle;
use crate::reason::{Reason, Refusal};
use crate::state::{AttemptRole, TaskState};
use crate::units::Time;
use thiserror::Error;

/// Why a record cannot be applied to the state that the records before it gave.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RecordError {
    /// The event was accepted when it was recorded, and contradicts the state now.
    #[error("its event is refused: {0}")]
    Event(Refusal),
    /// An action contradicts the state.
    #[error("its action contradicts the records before it: {0:?}")]
    Action(Box<Action>),
}

impl Cluster {
    /// Applies an event and the actions that it had when it was recorded. Deterministic, and independent of what the policy would decide now.
    /// Reservations are not recorded: there are none afterwards.
    pub fn apply_recorded(&mut self, now: Time, event: &Event, recorded: &[Action]) -> Result<(), RecordError> {
        // A refused event has changed nothing.
        if lifecycle::refusal(recorded).is_some() {
            return Ok(());
        }
        self.apply(now, event, &mut Vec::new(), &mut Decisions::new()).map_err(RecordError::Event)?;
        let fits = |action: &&Action| self.apply_action(action).is_none();
        match recorded.iter().find(fits) {
            Some(action) => Err(RecordError::Action(Box::new(action.clone()))),
            None => Ok(()),
        }
    }

    /// None if the action contradicts the state.
    fn apply_action(&mut self, action: &Action) -> Option<()> {
        match action {
            Action::Launch { attempt, node, work, reason } => self.apply_launch(*attempt, *node, *work, reason),
            Action::Pause { attempt, reason, .. } => self.apply_stop(*attempt, PreemptAction::Pause, reason),
            Action::EndEarly { attempt, reason, .. } => self.apply_stop(*attempt, PreemptAction::EndEarly, reason),
            Action::Kill { attempt, reason, .. } => self.apply_stop(*attempt, PreemptAction::Kill, reason),
            Action::PlaceReplicas { job, hosts } => self.apply_replicas(*job, hosts),
            Action::CloseJob { job, outcome } => {
                let open = self.state.find(*job).filter(|&key| !self.state.job(key).is_closed());
                if let Some(key) = open {
                    self.close(key, *outcome, &mut Vec::new());
                }
                Some(())
            }
            Action::SetTimer { timer, at } => {
                self.timers.set(*timer, *at);
                Some(())
            }
            Action::Refuse { .. } => None,
        }
    }

    fn apply_launch(&mut self, attempt: AttemptId, node: NodeId, work: Work, reason: &Reason) -> Option<()> {
        if self.state.role(attempt).is_some() {
            return Some(());
        }
        let (task, key) = (attempt.task.key(), self.state.find(attempt.task.job)?);
        let job = self.state.job(key);
        let state = job.find_task(task)?.state();
        let has_slot = self.state.nodes().up(node).is_some_and(|up| up.free(task.kind) > 0);
        if job.is_closed() || job.is_open() || !has_slot {
            return None;
        }
        let launched = match state {
            TaskState::Running | TaskState::Stopping(_) => self.state.launch_speculative(key, task, node, self.now),
            TaskState::Paused => self.state.relaunch(key, task.index, node, self.now).0,
            TaskState::Pending => {
                // It may have waited less after a failure than it would now.
                self.state.end_back_off(key, task, Time::NEVER);
                self.state.launch(key, task, node, self.now)
            }
            TaskState::Done => return None,
        };
        if launched != attempt {
            return None;
        }
        if matches!(reason, Reason::Probe { .. }) {
            self.set_probe(node, attempt);
        }
        self.index_map_node(key, task.kind, node);
        if matches!(work, Work::Reduce { start: Start::Fresh | Start::Migrated { .. } }) {
            self.run_lost_maps_again(key);
        }
        self.rerank(key, task.kind);
        Some(())
    }

    fn apply_stop(&mut self, attempt: AttemptId, action: PreemptAction, reason: &Reason) -> Option<()> {
        let Some((key, role)) = self.state.role(attempt) else {
            // The event was the loss of its node, or ended its job.
            return Some(());
        };
        let task = attempt.task.key();
        let is_running = self.state.job(key).task(task).state() == TaskState::Running;
        match role {
            AttemptRole::Primary if *reason == Reason::JobEnded => drop(self.state.request_kill(key, task)),
            AttemptRole::Primary if is_running => drop(self.state.request_stop(key, task, action)),
            AttemptRole::Primary | AttemptRole::StoppingSpeculative => {}
            AttemptRole::Speculative => drop(self.state.stop_speculative(key, Some(task))),
        }
        self.rerank(key, task.kind);
        Some(())
    }

    fn apply_replicas(&mut self, job: JobId, hosts: &[Hosts]) -> Option<()> {
        let key = self.state.find(job)?;
        let nodes = self.state.nodes().len() as u32;
        let is_known = hosts.iter().flatten().all(|host| host.0 < nodes);
        if !is_known || hosts.len() != self.state.job(key).splits().len() {
            return None;
        }
        self.move_input(key, hosts);
        Some(())
    }
}
