//! Snapshots: what a scheduler knows as plain data, and a scheduler that continues from that.

use super::Cluster;
use crate::action::Action;
use crate::ids::{Kind, NodeId, PerKind, TaskKey};
use crate::policy::matching::UserRights;
use crate::policy::ranking::{GroupNumbers, Ranking};
use crate::policy::{PolicyState, estimates};
use crate::reason::Refusal;
use crate::snapshot::{JobMemory, JobSnapshot, Snapshot, TimersSnapshot};
use crate::state::{Inconsistent, Job, JobKey};
use crate::timer::Timer;
use crate::units::Time;

impl From<Inconsistent> for Refusal {
    fn from(_: Inconsistent) -> Refusal {
        Refusal::InvalidSnapshot
    }
}

impl Cluster {
    /// Everything that decisions depend on. A scheduler that continues from it decides as this one does.
    pub fn snapshot(&self) -> Snapshot {
        let mut jobs: Vec<_> = self.state.jobs().iter().collect();
        jobs.sort_by_key(|(_, job)| job.sequence());
        Snapshot {
            nodes: self.state.node_snapshots(),
            jobs: jobs.into_iter().map(|(key, job)| self.job_snapshot(key, job)).collect(),
            keys: self.state.job_keys(),
            node_types: self.state.node_types(),
            policy: self.policy_state(),
            timers: Some(TimersSnapshot { expiries: self.timers, retries: self.retries.iter().copied().collect() }),
        }
    }

    fn job_snapshot(&self, key: JobKey, job: &Job) -> JobSnapshot {
        let snapshot = job.snapshot(key);
        let memory = JobMemory {
            delayed_until: PerKind::from_fn(|kind| {
                let is_delayed = self.rankings.last(kind).is_delayed(key);
                is_delayed.then(|| self.delayed[kind].until(key))
            }),
            work_ahead_s: PerKind::from_fn(|kind| self.refusals[kind].work_ahead_s(key)),
            ..snapshot.memory
        };
        JobSnapshot { memory, ..snapshot }
    }

    fn policy_state(&self) -> PolicyState {
        PolicyState {
            groups: PerKind::from_fn(|kind| self.rankings.stages(kind).iter().map(Ranking::memory).collect()),
            matcher: self.matcher.memory(),
            users: self.users.clone(),
            rng: Some(self.rng.clone()),
            ..self.memory.clone()
        }
    }

    /// Replaces everything by what is in a snapshot.
    pub(super) fn restored(&mut self, snapshot: &Snapshot, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let mut restored = Cluster::new(self.setup.clone()).map_err(|_| Refusal::InvalidSnapshot)?;
        restored.now = self.now;
        restored.restore_nodes(snapshot)?;
        let knows_classes = restored.restore_policy(&snapshot.policy)?;
        restored.state.restore_keys(&snapshot.keys, snapshot.jobs.len())?;
        let is_exact = snapshot.timers.is_some();
        for job in &snapshot.jobs {
            restored.restore_job(job, knows_classes, is_exact)?;
        }
        restored.state.check_keys()?;
        match &snapshot.timers {
            Some(timers) => restored.restore_computed(snapshot, timers)?,
            None => restored.compute_anew(),
        }
        for timer in Timer::ALL {
            let expiry = restored.timers.expiry(timer);
            out.extend(expiry.map(|at| Action::SetTimer { timer, at }));
        }
        restored.set_retry_timer(out);
        restored.set_timers(out);
        *self = restored;
        Ok(())
    }

    fn restore_nodes(&mut self, snapshot: &Snapshot) -> Result<(), Refusal> {
        self.state.restore_node_types(&snapshot.node_types)?;
        for (node, known) in (0..).map(NodeId).zip(&snapshot.nodes) {
            self.node_joined(node, &known.spec)?;
            self.state.restore_node(node, known);
        }
        self.nodes_changed();
        Ok(())
    }

    /// Sets what the policy has learned; returns whether it knows the classes of jobs.
    fn restore_policy(&mut self, policy: &PolicyState) -> Result<bool, Refusal> {
        for (number, name) in (0..).zip(&policy.users) {
            if self.user_number(name) != number {
                return Err(Refusal::InvalidSnapshot);
            }
        }
        let restore = |ranking: &mut Ranking, memory| ranking.restore(memory).ok_or(Refusal::InvalidSnapshot);
        let (mut first, mut last) = <(PerKind<GroupNumbers>, PerKind<GroupNumbers>)>::default();
        for kind in Kind::BOTH {
            // Another policy may have other stages.
            let stages = self.rankings.stages_mut(kind).iter_mut().zip(&policy.groups[kind]);
            let numbers = stages.map(|(ranking, memory)| restore(ranking, memory)).collect::<Result<Vec<_>, _>>()?;
            first[kind] = numbers.first().cloned().unwrap_or_default();
            last[kind] = numbers.last().cloned().unwrap_or_default();
        }
        self.memory = PolicyState {
            task_times: policy.task_times.clone().restored(self.policy.prior, self.policy.task_start),
            lags: policy.lags.renumbered(&first),
            starvation: PerKind::from_fn(|kind| policy.starvation[kind].renumbered(&last[kind])),
            water_levels: policy.water_levels,
            stragglers: policy.stragglers.clone(),
            ..PolicyState::default()
        };
        if let Some(rng) = &policy.rng {
            self.rng = rng.clone();
        }
        let Some(memory) = policy.matcher.as_ref().filter(|_| self.matcher.is_used()) else { return Ok(false) };
        let rights = self.users.iter().map(|user| UserRights::of(user, &self.setup.tenants)).collect();
        if self.matcher.restore(memory.clone(), rights) { Ok(true) } else { Err(Refusal::InvalidSnapshot) }
    }

    fn restore_job(&mut self, snapshot: &JobSnapshot, knows_classes: bool, is_exact: bool) -> Result<(), Refusal> {
        let memory = &snapshot.memory;
        if memory.delayed_since.iter().flatten().any(|&since| since > self.now) {
            return Err(Refusal::InvalidSnapshot);
        }
        let user = self.user_number(&snapshot.spec.user);
        let job = self.state.restore_job(user, snapshot)?;
        if is_exact {
            let nodes = self.state.nodes().len() as u32;
            self.state.job_mut(job).restore_computed(memory, nodes)?;
        } else {
            self.index_input_types(job);
            self.state.job_mut(job).restore_lags(memory)?;
            let task_times = &self.memory.task_times;
            let first = estimates::first_estimate(self.view(), self.needs, self.state.job(job), task_times);
            self.state.job_mut(job).set_estimate(first);
        }
        if !knows_classes {
            self.classify(job, &snapshot.spec);
        } else if self.matcher.knows(user, memory.classes) {
            self.state.job_mut(job).set_classes(memory.classes);
            self.add_to_groups(job, &snapshot.spec.pool);
        } else {
            return Err(Refusal::InvalidSnapshot);
        }
        self.index_local_nodes(job);
        let nodes = (0..self.state.nodes().len() as u32).map(NodeId);
        let map_nodes: Vec<NodeId> = nodes.filter(|&node| self.state.job(job).mapped_on(node)).collect();
        map_nodes.into_iter().for_each(|node| self.index_map_node(job, Kind::Map, node));
        Ok(())
    }

    /// Sets what was computed and decided before, and ranks all jobs by it.
    fn restore_computed(&mut self, snapshot: &Snapshot, timers: &TimersSnapshot) -> Result<(), Refusal> {
        for (node, known) in (0..).map(NodeId).zip(&snapshot.nodes) {
            self.state.restore_node_order(node, &known.order)?;
        }
        for (kind, job) in Kind::BOTH.into_iter().flat_map(|kind| snapshot.jobs.iter().map(move |job| (kind, job))) {
            let key = JobKey::from_number(job.memory.key);
            self.refusals[kind].set_work_ahead(key, job.memory.work_ahead_s[kind]);
            self.rerank(key, kind);
            if let Some(until) = job.memory.delayed_until[kind] {
                self.delayed[kind].restore(key, until);
                self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(key, true));
            }
        }
        (self.timers, self.retries) = (timers.expiries, timers.retries.iter().copied().collect());
        Ok(())
    }

    /// Computes what a snapshot of an earlier release does not have.
    fn compute_anew(&mut self) {
        for job in self.state.jobs().keys() {
            for kind in Kind::BOTH {
                self.share_with_new(job, kind);
                self.rerank(job, kind);
            }
        }
        self.restore_retries();
        self.compute_estimates();
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
