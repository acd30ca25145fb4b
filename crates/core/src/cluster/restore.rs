//! Snapshots: what a scheduler knows as plain data, and a scheduler that continues from that.

use super::Cluster;
use crate::action::Action;
use crate::ids::{Kind, NodeId, PerKind, TaskKey};
use crate::policy::matching::{Classes, UserRights};
use crate::policy::ranking::{GroupNumbers, Ranking};
use crate::policy::{PolicyState, estimates};
use crate::reason::Refusal;
use crate::snapshot::{Snapshot, TimersSnapshot};
use crate::state::JobKey;
use crate::timer::Timer;
use crate::units::Time;

impl Cluster {
    /// Everything that decisions depend on. A scheduler that continues from it decides as this one does.
    pub fn snapshot(&self) -> Snapshot {
        let keys = self.state.jobs().keys();
        let delayed = |kind: Kind| {
            let is_delayed = |key: &JobKey| self.rankings.last(kind).is_delayed(*key);
            keys.iter().copied().filter(is_delayed).map(|key| (key, self.delayed[kind].until(key))).collect()
        };
        let work_ahead = |kind: Kind| keys.iter().map(|&key| (key, self.refusals[kind].work_ahead_s(key))).collect();
        let mut state = self.state.clone();
        state.discharge_all();
        Snapshot {
            state,
            policy: self.policy_state(),
            delayed_until: PerKind::from_fn(delayed),
            work_ahead_s: PerKind::from_fn(work_ahead),
            timers: Some(TimersSnapshot { expiries: self.timers, retries: self.retries.iter().copied().collect() }),
        }
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
        restored.state = snapshot.state.without_jobs();
        for (node, known) in snapshot.state.nodes().iter() {
            restored.matcher.node_joined(node, known.spec());
        }
        restored.nodes_changed();
        let knows_classes = restored.restore_policy(&snapshot.policy)?;
        for key in snapshot.state.jobs().by_submission() {
            restored.restore_job(snapshot, key, knows_classes)?;
        }
        match &snapshot.timers {
            Some(timers) => restored.restore_computed(snapshot, timers),
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

    fn restore_job(&mut self, snapshot: &Snapshot, key: JobKey, knows_classes: bool) -> Result<(), Refusal> {
        let spec = snapshot.state.job(key).spec();
        let user = self.user_number(&spec.user);
        self.state.add_job_of(&snapshot.state, key, user);
        let job = self.state.job_mut(key);
        let (classes, now) = (job.classes(), self.now);
        let is_possible = |kind: &Kind| job.delayed_since(*kind) <= Some(now);
        if !Kind::BOTH.iter().all(is_possible) {
            return Err(Refusal::InvalidSnapshot);
        }
        if snapshot.timers.is_none() {
            self.index_input_types(key);
            let first =
                estimates::first_estimate(self.view(), self.needs, self.state.job(key), &self.memory.task_times);
            self.state.job_mut(key).set_estimate(first);
        }
        if !knows_classes {
            self.state.job_mut(key).set_classes(Classes::default());
            self.classify(key, &spec);
        } else if self.matcher.knows(user, classes) {
            self.add_to_groups(key, &spec.pool);
        } else {
            return Err(Refusal::InvalidSnapshot);
        }
        self.index_local_nodes(key);
        let nodes = (0..self.state.nodes().len() as u32).map(NodeId);
        let map_nodes: Vec<NodeId> = nodes.filter(|&node| self.state.job(key).mapped_on(node)).collect();
        map_nodes.into_iter().for_each(|node| self.index_map_node(key, Kind::Map, node));
        Ok(())
    }

    /// Sets what was computed and decided before, and ranks all jobs by it.
    fn restore_computed(&mut self, snapshot: &Snapshot, timers: &TimersSnapshot) {
        for kind in Kind::BOTH {
            let is_live = |key: JobKey| self.state.jobs().is_live(key);
            for &(key, ahead_s) in snapshot.work_ahead_s[kind].iter().filter(|(key, _)| is_live(*key)) {
                self.refusals[kind].set_work_ahead(key, ahead_s);
            }
            for key in self.state.jobs().by_submission() {
                self.rank_for(key, kind);
            }
            let is_live = |key: JobKey| self.state.jobs().is_live(key);
            for &(key, until) in snapshot.delayed_until[kind].iter().filter(|(key, _)| is_live(*key)) {
                self.delayed[kind].restore(key, until);
                self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(key, true));
            }
        }
        (self.timers, self.retries) = (timers.expiries, timers.retries.iter().copied().collect());
    }

    /// Computes what a snapshot for another setup does not have.
    fn compute_anew(&mut self) {
        for job in self.state.jobs().keys() {
            for kind in Kind::BOTH {
                self.share_with_new(job, kind);
                self.rank_for(job, kind);
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
