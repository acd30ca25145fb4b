//! The scheduler: events in, actions out.
//!
//! [`Scheduler::handle`] lets the [`Cluster`] apply an event, and takes the decisions that are due then: it fills free slots (`assign.rs`) and frees slots for
//! jobs that are entitled to them or have lost work (`preempt.rs`). Every choice is made by a part of the policy; this module asks the parts, has the cluster
//! apply their answers, and emits the actions.

mod assign;
mod preempt;

use crate::action::{Action, Outcome, PreemptAction};
use crate::cluster::{Cluster, Decision, Decisions};
use crate::event::{Event, Hosts};
use crate::ids::{Kind, NodeId};
use crate::policy::matching;
use crate::reason::Reason;
use crate::setup::{Setup, SetupError};
use crate::state::JobKey;
use crate::units::Time;
use std::ops::Deref;

/// The scheduler of one cluster. It answers the queries of [`Cluster`].
#[derive(Debug)]
pub struct Scheduler {
    cluster: Cluster,
}

impl Deref for Scheduler {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl From<Cluster> for Scheduler {
    fn from(cluster: Cluster) -> Scheduler {
        Scheduler { cluster }
    }
}

impl Scheduler {
    /// A scheduler for an empty cluster, if the setup is valid.
    pub fn new(setup: Setup) -> Result<Scheduler, SetupError> {
        Cluster::new(setup).map(Scheduler::from)
    }

    /// Applies an event that happened at `now` and appends the actions that follow from it. Events must be ordered by time. An event that
    /// contradicts the state changes nothing and is answered by [`Action::Refuse`].
    pub fn handle(&mut self, now: Time, event: &Event, actions: &mut Vec<Action>) {
        let mut due = Decisions::new();
        match self.cluster.apply(now, event, actions, &mut due) {
            Ok(()) => due.into_iter().for_each(|decision| self.decide(decision, actions)),
            Err(refusal) => actions.push(Action::Refuse { refusal }),
        }
    }

    fn decide(&mut self, decision: Decision, out: &mut Vec<Action>) {
        match decision {
            Decision::PlaceReplicas(job) => self.place_replicas(job, out),
            Decision::FillSlots(node) => self.fill_slots(node, out),
            Decision::Preempt(kind) => self.preempt(kind, out),
            Decision::Recover(lost) => self.recover(lost, out),
            Decision::RecoverAgain => self.recover_again(out),
            Decision::RecoverOpenJob(job) => self.recover_open_job(job, out),
            Decision::EndStragglers => self.end_stragglers(out),
            Decision::FailJob(job) => self.cluster.abort(job, Outcome::Failed, out),
            Decision::SetTimers => self.cluster.set_timers(out),
        }
    }

    fn fill_slots(&mut self, node: NodeId, out: &mut Vec<Action>) {
        if self.setup.capabilities.bind_tasks {
            self.assign(node, out);
        } else if self.setup.capabilities.pause_reduces {
            self.resume_paused(node, out);
        }
    }

    /// Moves the input of a new job to nodes that are suggested for it, if the policy does.
    fn place_replicas(&mut self, key: JobKey, out: &mut Vec<Action>) {
        let job = self.state.job(key);
        let nodes = self.matcher.replica_nodes(job, &self.state);
        if nodes.is_empty() {
            return;
        }
        let replicas: Vec<usize> = job.splits().iter().map(|split| split.hosts.len()).collect();
        let id = job.id();
        let rng = &mut self.cluster.rng;
        let hosts: Vec<Hosts> = replicas.into_iter().map(|count| matching::choose_hosts(&nodes, count, rng)).collect();
        self.cluster.move_input(key, &hosts);
        out.push(Action::PlaceReplicas { job: id, hosts });
    }

    /// Lets straggling maps end early where the policy keeps their work: the rest runs elsewhere.
    fn end_stragglers(&mut self, out: &mut Vec<Action>) {
        let mut rescues = self.policy.rescues(self.view());
        while let Some((straggler, rescue)) = rescues.next(self.view(), &self.policy.map.placement) {
            let reason = Reason::StragglerEnded(Box::new(rescue.reason));
            self.cluster.stop_attempt(straggler.job, straggler.task, PreemptAction::EndEarly, reason, out);
            self.cluster.reserve(rescue.node, Kind::Map, straggler.job, None);
        }
    }
}
