//! Attempts that are launched and stopped, and slots that are reserved: by decisions and by events.

use super::Cluster;
use crate::action::{Action, PreemptAction, Start, Work};
use crate::event::Hosts;
use crate::ids::{AttemptId, Kind, NodeId, TaskKey};
use crate::policy::placement::Choice;
use crate::reason::Reason;
use crate::state::JobKey;

impl Cluster {
    pub(crate) fn launch(
        &mut self,
        job: JobKey,
        node: NodeId,
        choice: Choice,
        reason: Reason,
        out: &mut Vec<Action>,
    ) -> AttemptId {
        let task = choice.task();
        let (attempt, work) = match choice {
            Choice::Map(map, locality) => {
                let work = self.state.job(job).map_work(map, locality);
                (self.state.launch(job, task, node, self.now), work)
            }
            Choice::FreshReduce(_) => {
                (self.state.launch(job, task, node, self.now), Work::Reduce { start: Start::Fresh })
            }
            Choice::PausedReduce(reduce) => {
                let (attempt, start) = self.state.relaunch(job, reduce, node, self.now);
                (attempt, Work::Reduce { start })
            }
        };
        out.push(Action::Launch { attempt, node, work, reason });
        if task.kind == Kind::Map && self.policy.map.placement.delays_maps() {
            for host in self.state.job_mut(job).nodes_without_pending_maps(task.index) {
                self.delayed[Kind::Map].remove_local(job, host);
            }
        }
        self.index_map_node(job, task.kind, node);
        if matches!(work, Work::Reduce { start: Start::Fresh | Start::Migrated { .. } }) {
            self.run_lost_maps_again(job);
        }
        self.rerank(job, task.kind);
        attempt
    }

    /// Records a node that runs a map of a job as local to its reduces, if reduces wait for such nodes.
    pub(crate) fn index_map_node(&mut self, job: JobKey, kind: Kind, node: NodeId) {
        if kind == Kind::Map && self.policy.reduce.placement.delays_reduces() {
            self.delayed[Kind::Reduce].add_local(job, node);
        }
    }

    pub(crate) fn stop_attempt(
        &mut self,
        job: JobKey,
        task: TaskKey,
        action: PreemptAction,
        reason: Reason,
        out: &mut Vec<Action>,
    ) {
        let (attempt, node) = self.state.request_stop(job, task, action);
        out.push(match action {
            PreemptAction::Pause => Action::Pause { attempt, node, reason },
            PreemptAction::EndEarly => Action::EndEarly { attempt, node, reason },
            PreemptAction::Kill => Action::Kill { attempt, node, reason },
        });
        self.rerank(job, task.kind);
    }

    pub(crate) fn reserve(&mut self, node: NodeId, kind: Kind, job: JobKey, task: Option<u32>) {
        self.state.reserve(node, kind, job, task);
        self.rerank(job, kind);
    }

    /// Moves the input of a job to other nodes, split by split.
    pub(crate) fn move_input(&mut self, job: JobKey, hosts: &[Hosts]) {
        let mut hosts = hosts.iter();
        self.state.job_mut(job).place_replicas(|_| hosts.next().cloned().unwrap_or_default());
        self.index_local_nodes(job);
        self.index_input_types(job);
        self.rerank_both(job);
    }
}
