//! Snapshots: what a scheduler knows as plain data, and a scheduler that continues from that.

use super::Scheduler;
use crate::action::Action;
use crate::ids::{Kind, NodeId, PerKind, TaskKey};
use crate::policy::matching::{Matcher, UserRights};
use crate::policy::{PolicyState, StarvedGroups, estimates};
use crate::reason::Refusal;
use crate::snapshot::{JobSnapshot, Snapshot};
use crate::state::Inconsistent;
use crate::units::Time;

impl From<Inconsistent> for Refusal {
    fn from(_: Inconsistent) -> Refusal {
        Refusal::InvalidSnapshot
    }
}

impl Scheduler {
    /// What is known of the cluster now. None if there is an open job: its tasks are known to its cluster only.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut jobs: Vec<_> = self.state.jobs().iter().map(|(_, job)| job).collect();
        if jobs.iter().any(|job| job.is_open()) {
            return None;
        }
        jobs.sort_by_key(|job| job.sequence());
        Some(Snapshot {
            nodes: self.state.node_snapshots(),
            jobs: jobs.into_iter().map(|job| job.snapshot()).collect(),
            policy: self.policy_state(),
        })
    }

    /// What the policy has learned, of all parts.
    fn policy_state(&self) -> PolicyState {
        let starved = |kind: Kind| {
            let groups = self.rankings.last(kind);
            let name = |group: usize| groups.group_facts(group).name.to_string();
            StarvedGroups { names: (0..groups.group_count()).map(name).collect(), since: self.starvation[kind].clone() }
        };
        PolicyState {
            starvation: PerKind::from_fn(starved),
            matcher: self.matcher.as_ref().map(Matcher::memory),
            users: self.users.clone(),
            rng: Some(self.rng.clone()),
            ..self.memory.clone()
        }
    }

    /// Replaces everything by what is in a snapshot. All timers are set anew.
    pub(super) fn restored(&mut self, snapshot: &Snapshot, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let mut restored = Scheduler::new(self.setup.clone()).map_err(|_| Refusal::InvalidSnapshot)?;
        restored.now = self.now;
        restored.memory.task_times =
            snapshot.policy.task_times.clone().restored(self.policy.prior, self.policy.task_start);
        let knows_classes = restored.restore_users(&snapshot.policy)?;
        for (node, known) in (0..).map(NodeId).zip(&snapshot.nodes) {
            restored.node_joined(node, &known.spec)?;
            restored.state.restore_node(node, known);
        }
        restored.match_nodes();
        snapshot.jobs.iter().try_for_each(|job| restored.restore_job(job, knows_classes))?;
        let groups = PerKind::from_fn(|kind| restored.rankings.groups(kind));
        restored.memory.lags = snapshot.policy.lags.clone().renumbered(groups);
        restored.starvation = PerKind::from_fn(|kind| {
            let StarvedGroups { names, since } = &snapshot.policy.starvation[kind];
            since.renumbered(names, restored.rankings.last(kind))
        });
        if let Some(rng) = &snapshot.policy.rng {
            restored.rng = rng.clone();
        }
        restored.restore_retries();
        restored.compute_estimates();
        restored.set_retry_timer(out);
        restored.set_timers(out);
        *self = restored;
        Ok(())
    }

    /// Numbers users as before and lets the matcher continue with what was learned; returns whether it does.
    fn restore_users(&mut self, policy: &PolicyState) -> Result<bool, Refusal> {
        for (number, name) in (0..).zip(&policy.users) {
            if self.user_number(name) != number {
                return Err(Refusal::InvalidSnapshot);
            }
        }
        let (Some(matcher), Some(memory)) = (&mut self.matcher, &policy.matcher) else { return Ok(false) };
        let rights = self.users.iter().map(|user| UserRights::of(user, &self.setup.tenants)).collect();
        if matcher.restore(memory.clone(), rights) { Ok(true) } else { Err(Refusal::InvalidSnapshot) }
    }

    fn restore_job(&mut self, snapshot: &JobSnapshot, knows_classes: bool) -> Result<(), Refusal> {
        if snapshot.memory.delayed_since.iter().flatten().any(|&since| since > self.now) {
            return Err(Refusal::InvalidSnapshot);
        }
        let user = self.user_number(&snapshot.spec.user);
        let job = self.state.restore_job(user, snapshot)?;
        let first = estimates::first_estimate(self.view(), self.needs, self.state.job(job), &self.memory.task_times);
        self.state.job_mut(job).set_estimate(first);
        match &self.matcher {
            Some(matcher) if knows_classes => {
                if !matcher.knows(user, snapshot.memory.classes) {
                    return Err(Refusal::InvalidSnapshot);
                }
                self.state.job_mut(job).set_classes(snapshot.memory.classes);
                self.add_to_groups(job, &snapshot.spec.pool);
            }
            _ => self.classify(job, &snapshot.spec),
        }
        self.index_local_nodes(job);
        self.index_input_types(job);
        let nodes = (0..self.state.nodes().len() as u32).map(NodeId);
        let map_nodes: Vec<NodeId> = nodes.filter(|&node| self.state.job(job).mapped_on(node)).collect();
        map_nodes.into_iter().for_each(|node| self.index_map_node(job, Kind::Map, node));
        for kind in Kind::BOTH {
            self.share_with_new(job, kind);
            self.rerank(job, kind);
        }
        Ok(())
    }

    /// Lets failed tasks and excluded nodes wait as long as they had to.
    fn restore_retries(&mut self) {
        let mut ended = Vec::new();
        for (key, job) in self.state.jobs().iter() {
            for kind in Kind::BOTH {
                for task in (0..job.task_end(kind)).map(|index| TaskKey { kind, index }) {
                    let retry_at = job.retry_at(task).filter(|_| !job.is_closed());
                    match retry_at {
                        Some(at) if at <= self.now => ended.push((key, task)),
                        Some(at) => drop(self.retries.insert((at, Some(task.of(job.id()))))),
                        None => {}
                    }
                    let elsewhere_until = job.elsewhere_until(task).filter(|&at| at > self.now && at != Time::NEVER);
                    self.retries.extend(elsewhere_until.map(|at| (at, None)));
                }
            }
        }
        for (job, task) in ended {
            self.state.end_back_off(job, task, self.now);
            self.rerank(job, task.kind);
        }
        let probes = self.state.nodes().iter().filter_map(|(_, node)| node.exclusion()).map(|of| of.probe_at);
        self.retries.extend(probes.filter(|&at| at > self.now && at != Time::NEVER).map(|at| (at, None)));
    }
}
