//! Events of jobs: submission, slot requests, ends.

use super::{Cluster, Decision, Decisions};
use crate::action::{Action, Outcome};
use crate::event::JobSpec;
use crate::ids::{JobId, Kind, NodeId, PerKind, TaskKey};
use crate::policy::estimates;
use crate::policy::matching::{Classes, UserRights};
use crate::policy::placement::Choice;
use crate::policy::shares::{NewShare, Share};
use crate::reason::{Reason, Refusal};
use crate::state::{Headroom, JobKey};
use crate::units::WHOLE_PPM;

impl Cluster {
    pub(super) fn job_submitted(&mut self, spec: &JobSpec, due: &mut Decisions) -> Result<(), Refusal> {
        if spec.splits.is_empty() && self.state.find(spec.id).is_none() {
            return Err(Refusal::EmptyJob(spec.id));
        }
        self.admit(spec, false, due)
    }

    pub(super) fn job_opened(&mut self, spec: &JobSpec, due: &mut Decisions) -> Result<(), Refusal> {
        self.admit(spec, true, due)
    }

    fn admit(&mut self, spec: &JobSpec, open: bool, due: &mut Decisions) -> Result<(), Refusal> {
        if self.state.find(spec.id).is_some() {
            return Err(Refusal::JobExists(spec.id));
        }
        let over_limit = spec.reduces > JobSpec::MAX_REDUCES;
        if spec.estimate_bias_ppm == 0 || spec.slowstart_ppm > WHOLE_PPM || over_limit {
            return Err(Refusal::InvalidJob(spec.id));
        }
        let user = self.user_number(&spec.user);
        let job = self.state.add_job(spec, user, open, self.now);
        for delayed in self.delayed.iter_mut() {
            delayed.end(job);
        }
        let estimate = estimates::first_estimate(self.view(), self.needs, self.state.job(job), &self.memory.task_times);
        self.state.job_mut(job).set_estimate(estimate);
        self.classify(job, spec);
        self.index_local_nodes(job);
        self.index_input_types(job);
        for kind in Kind::BOTH {
            // An ended job may have had its key.
            self.refusals[kind].set_work_ahead(job, 0.0);
            self.share_with_new(job, kind);
            let groups = self.rankings.groups(kind);
            let slots = self.policy.due_at_once(job, self.state.job(job), kind, groups, &mut self.memory.lags);
            self.state.job_mut(job).set_due(kind, slots, 0);
            self.rank_for(job, kind);
            self.update_refusals(kind);
        }
        due.extend([Decision::PlaceReplicas(job), Decision::SetTimers]);
        due.extend(Kind::BOTH.map(Decision::Preempt));
        Ok(())
    }

    pub(super) fn user_number(&mut self, name: &str) -> u32 {
        if let Some(&user) = self.user_numbers.get(name) {
            return user;
        }
        let user = self.users.len() as u32;
        self.users.push(name.to_owned());
        self.user_numbers.insert(name.to_owned(), user);
        user
    }

    /// Records the nodes with input of a job as local to its maps, if maps wait for such nodes.
    pub(super) fn index_local_nodes(&mut self, job: JobKey) {
        if self.policy.map.placement.delays_maps() {
            for host in self.state.job(job).splits().iter().flat_map(|split| &split.hosts) {
                self.delayed[Kind::Map].add_local(job, *host);
            }
        }
    }

    /// Records the types of nodes with input of a job, if maps wait for such nodes and refuse slow ones.
    pub(super) fn index_input_types(&mut self, job: JobKey) {
        let placement = &self.policy.map.placement;
        if placement.reads_input_types() {
            let (jobs, nodes) = self.state.jobs_and_nodes();
            jobs.get_mut(job).set_input_types(|host| nodes.type_of(host));
        }
    }

    pub(super) fn share_with_new(&mut self, job: JobKey, kind: Kind) {
        let mut level = self.memory.water_levels[kind];
        let share = Share::of_new_job(self.view(), kind, self.policy.slots(kind), job, &mut level);
        self.memory.water_levels[kind] = level;
        match share {
            Some(NewShare::Slots(slots)) => self.state.job_mut(job).set_fair_share(kind, slots),
            Some(NewShare::Recompute) => self.compute_shares(kind),
            None => {}
        }
    }

    /// Assigns a new job to its groups, after classifying it if the policy matches jobs to nodes.
    pub(super) fn classify(&mut self, job: JobKey, spec: &JobSpec) {
        let rights = UserRights::of(&spec.user, &self.setup.tenants);
        let (classes, all_changed) = self.matcher.job_submitted(job, rights, &self.state, self.now);
        self.set_classes(&classes);
        if all_changed {
            self.regroup_all_but(Some(job));
        }
        self.add_to_groups(job, &spec.pool);
    }

    /// Classifies an open job that may have grown, if the policy matches jobs to nodes.
    fn classify_again(&mut self, job: JobKey) {
        let Some((classes, all_changed)) = self.matcher.job_grew(job, &self.state, self.now) else { return };
        self.set_classes(&classes);
        if all_changed {
            self.regroup_all_but(None);
        } else {
            self.regroup(job);
        }
    }

    /// Nodes joined, were lost, excluded or taken back: what jobs are matched to, and what they refuse, follows.
    pub(super) fn nodes_changed(&mut self) {
        if let Some(classes) = self.matcher.nodes_changed(&self.state, self.now) {
            self.set_classes(&classes);
            self.regroup_all_but(None);
        }
        Kind::BOTH.into_iter().for_each(|kind| self.update_refusals(kind));
    }

    fn set_classes(&mut self, classes: &[(JobKey, Classes)]) {
        classes.iter().for_each(|&(job, classes)| self.state.job_mut(job).set_classes(classes));
    }

    pub(super) fn add_to_groups(&mut self, key: JobKey, pool: &str) {
        let job = self.state.job(key);
        let classes = self.matcher.classes_of(job);
        let user = &self.users[job.user() as usize];
        self.rankings.all_mut().for_each(|ranking| ranking.add_job(key, job.user(), user, pool, classes));
    }

    fn regroup_all_but(&mut self, new: Option<JobKey>) {
        let others = self.state.jobs().keys().into_iter().filter(|&job| Some(job) != new);
        others.for_each(|job| self.regroup(job));
    }

    /// Moves a job to the groups of its new classes. Only users are divided into classes, so the name of its pool is
    /// not needed.
    fn regroup(&mut self, job: JobKey) {
        for kind in Kind::BOTH {
            let charged = self.state.job_mut(job).discharge(kind);
            self.charge_groups(job, kind, -charged);
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_rank(job, None));
        }
        self.add_to_groups(job, "");
        for kind in Kind::BOTH {
            let delayed = self.delayed[kind].is_delayed(job, self.now);
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(job, delayed));
        }
        self.rerank_both(job);
    }

    /// An open job requests this many slots.
    pub(super) fn slots_requested(
        &mut self,
        job: JobId,
        requested: PerKind<u32>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        let key = self.open_job(job)?;
        let requested = if self.setup.capabilities.one_slot_pool {
            PerKind::new(0, requested[Kind::Map].saturating_add(requested[Kind::Reduce]))
        } else {
            requested
        };
        if requested.iter().any(|&slots| slots > JobSpec::MAX_REDUCES) {
            return Err(Refusal::InvalidJob(job));
        }
        Kind::BOTH.into_iter().for_each(|kind| self.state.set_requested(key, kind, requested[kind]));
        // The request is the first information about the job's size, so its estimate is computed now and not only when the timer fires.
        let estimate =
            estimates::estimate_request(self.view(), self.needs, self.state.job(key), &self.memory.task_times);
        self.state.job_mut(key).set_estimate(estimate);
        self.classify_again(key);
        for kind in Kind::BOTH {
            let surplus = |job: &crate::state::Job| job.counts(kind).reserved > job.counts(kind).pending;
            while surplus(self.state.job(key)) && self.state.drop_reservation(key, kind, None) {}
            self.compute_shares(kind);
            self.rerank(key, kind);
        }
        due.extend(Kind::BOTH.map(Decision::Preempt));
        Ok(())
    }

    pub(super) fn headroom_set(&mut self, job: JobId, headroom: Headroom, due: &mut Decisions) -> Result<(), Refusal> {
        let key = self.open_job(job)?;
        self.state.job_mut(key).set_headroom(headroom);
        due.extend(Kind::BOTH.map(Decision::Preempt));
        Ok(())
    }

    /// The backend granted a slot to an open job: a task is added for it, so that counts and estimates work as for any job.
    pub(super) fn slot_granted(
        &mut self,
        job: JobId,
        kind: Kind,
        node: NodeId,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let key = self.open_job(job)?;
        let kind = if self.setup.capabilities.one_slot_pool { Kind::Reduce } else { kind };
        self.state.nodes().up(node).ok_or(Refusal::UnknownNode(node))?;
        if self.state.job(key).counts(kind).pending == 0 {
            return Err(Refusal::NothingPending(job));
        }
        // The cluster may have granted another slot than the one that was freed for the job; either way it has one request less.
        self.state.drop_reservation(key, kind, Some(node));
        let task = self.state.add_granted_task(key, kind);
        let choice = match kind {
            Kind::Map => {
                let locality = self.state.job(key).locality(task.index, node, self.state.nodes().racks());
                Choice::Map(task.index, locality)
            }
            Kind::Reduce => Choice::FreshReduce(task.index),
        };
        self.launch(key, node, choice, Reason::GrantedByCluster, out);
        Ok(())
    }

    pub(super) fn job_ended(&mut self, job: JobId, outcome: Outcome, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let key = self.open_job(job)?;
        self.drop_reservations(key);
        self.abort(key, outcome, out);
        Ok(())
    }

    pub(super) fn open_job(&self, job: JobId) -> Result<JobKey, Refusal> {
        let key = self.unclosed_job(job)?;
        if self.state.job(key).is_open() { Ok(key) } else { Err(Refusal::NotOpen(job)) }
    }

    fn unclosed_job(&self, job: JobId) -> Result<JobKey, Refusal> {
        let key = self.state.find(job).filter(|&key| !self.state.job(key).is_closed());
        key.ok_or(Refusal::UnknownJob(job))
    }

    pub(super) fn job_killed(&mut self, job: JobId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let key = self.unclosed_job(job)?;
        self.abort(key, Outcome::Killed, out);
        Ok(())
    }

    /// Gives up the slots that are reserved for a job.
    pub(super) fn drop_reservations(&mut self, job: JobKey) {
        for kind in Kind::BOTH {
            while self.state.drop_reservation(job, kind, None) {}
        }
    }

    /// Closes a job that is not complete: its attempts are killed, its paused reduces dropped.
    pub(crate) fn abort(&mut self, key: JobKey, outcome: Outcome, out: &mut Vec<Action>) {
        for kind in Kind::BOTH {
            for index in self.state.job(key).counts(kind).running.clone() {
                let (attempt, node) = self.state.request_kill(key, TaskKey { kind, index });
                out.push(Action::Kill { attempt, node, reason: Reason::JobEnded });
            }
        }
        for (attempt, node) in self.state.stop_speculative(key, None) {
            out.push(Action::Kill { attempt, node, reason: Reason::JobEnded });
        }
        self.close(key, outcome, out);
    }

    /// Closes a job and removes it from the rankings. It stays live until its last attempt has left its slot.
    pub(super) fn close(&mut self, key: JobKey, outcome: Outcome, out: &mut Vec<Action>) {
        self.state.close_job(key);
        out.push(Action::CloseJob { job: self.state.job(key).id(), outcome });
        if outcome == Outcome::Succeeded && self.needs.remaining_area {
            let mut learned = std::mem::take(&mut self.memory.task_times);
            learned.job_ended(self.view(), self.state.job(key));
            self.memory.task_times = learned;
        }
        if outcome == Outcome::Succeeded {
            self.matcher.job_finished(self.state.job(key));
        }
        self.rerank_both(key);
        self.reap(key);
    }

    /// Removes a closed job once none of its attempts holds a slot.
    pub(super) fn reap(&mut self, key: JobKey) {
        let job = self.state.job(key);
        if !job.is_closed() || !job.holds_no_slot() {
            return;
        }
        for kind in Kind::BOTH {
            let charged = self.state.job_mut(key).discharge(kind);
            self.charge_groups(key, kind, -charged);
        }
        self.state.remove_job(key);
    }
}
