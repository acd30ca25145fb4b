//! News is taken in: each event changes the facts, or is refused.

use super::Scheduler;
use crate::action::{Action, Outcome, Reason, Refusal};
use crate::event::{Hosts, JobSpec, NodeSpec, Progress};
use crate::ids::{AttemptId, JobId, Kind, NodeId};
use crate::policy::matching::UserRights;
use crate::policy::{JobOrder, PreemptAction, estimate};
use crate::state::waiting::Waiting;
use crate::state::{Job, JobIx, Node, TaskState};
use crate::units::{Span, WHOLE_PPM};
use rand::RngExt;
use std::sync::Arc;

/// A task that fails so often fails its job, as in Hadoop.
const MOST_FAILURES: u8 = 4;
/// More reduces than this in one job are taken for a mistake.
pub(super) const MOST_REDUCES: u32 = 10_000_000;

impl Scheduler {
    pub(super) fn node_joined(&mut self, node: NodeId, spec: &NodeSpec) -> Result<(), Refusal> {
        let at = node.0 as usize;
        if at > self.state.nodes.len() {
            return Err(Refusal::NodeIdGap(node));
        }
        if self.state.up(node).is_some() {
            return Err(Refusal::NodeAlreadyUp(node));
        }
        if (spec.map_slots, spec.reduce_slots) == (0, 0) || spec.speed_ppm == 0 || spec.disk_bytes_per_s == 0 {
            return Err(Refusal::InvalidNode(node));
        }
        let is_back = at < self.state.nodes.len();
        let profile = self.matcher.as_mut().map_or(0, |matcher| matcher.node_up(node, spec, is_back));
        self.state.racks.join(node, spec.rack);
        let joined = Node::new(spec.clone(), profile);
        if at == self.state.nodes.len() {
            self.state.nodes.push(joined);
        } else {
            self.state.nodes[at] = joined;
        }
        self.state.nodes_up += 1;
        for kind in Kind::BOTH {
            self.state.free[kind.ix()] += u32::from(spec.slots(kind));
            self.state.slots[kind.ix()] += u32::from(spec.slots(kind));
        }
        self.match_again();
        Ok(())
    }

    /// Nodes came or went: COSHH's suggestions follow.
    pub(super) fn match_again(&mut self) {
        if self.matcher.as_mut().is_some_and(|matcher| matcher.nodes_changed(&mut self.state, self.now)) {
            self.regroup_all_but(None);
        }
    }

    pub(super) fn node_beat(
        &mut self,
        node: NodeId,
        progress: &[Progress],
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if self.state.up(node).is_none() {
            return Err(Refusal::UnknownNode(node));
        }
        self.note_progress(progress);
        if self.setup.capabilities.bind_tasks {
            self.offer(node, out);
        }
        Ok(())
    }

    pub(super) fn note_progress(&mut self, progress: &[Progress]) {
        for &Progress { attempt, progress_ppm } in progress {
            // It may have crossed the end of the attempt on its way: then it is no news.
            if let Some((jx, Role::First)) = self.role(attempt) {
                let task = &mut self.state.job_mut(jx).tasks[attempt.task.kind.ix()][attempt.task.index as usize];
                task.progress_ppm = task.progress_ppm.max(progress_ppm.min(WHOLE_PPM));
            }
        }
    }

    pub(super) fn job_submitted(&mut self, spec: &JobSpec, out: &mut Vec<Action>) -> Result<(), Refusal> {
        if spec.splits.is_empty() && self.state.find(spec.id).is_none() {
            return Err(Refusal::EmptyJob(spec.id));
        }
        self.admit(spec, false, out)
    }

    /// A job comes in, if it makes sense; one that is open may have no tasks yet.
    pub(super) fn admit(&mut self, spec: &JobSpec, open: bool, out: &mut Vec<Action>) -> Result<(), Refusal> {
        if self.state.find(spec.id).is_some() {
            return Err(Refusal::JobExists(spec.id));
        }
        if spec.estimate_bias_ppm == 0 || spec.slowstart_ppm > WHOLE_PPM || spec.reduces > MOST_REDUCES {
            return Err(Refusal::InvalidJob(spec.id));
        }
        let user = self.user(&spec.user);
        let seq = self.state.next_seq();
        let mut job = Job::new(spec, user, seq, self.now);
        job.open = open;
        // Replicas on nodes that never joined are of no use and would only make the job hold out for them.
        let known = self.state.nodes.len() as u32;
        if job.splits.iter().any(|split| split.hosts.iter().any(|host| host.0 >= known)) {
            Arc::make_mut(&mut job.splits).iter_mut().for_each(|split| split.hosts.retain(|host| host.0 < known));
            job.waiting_maps = Waiting::new(&job.splits);
        }
        job.estimate = estimate::estimate(&job, [None; 2], self.state.slots, self.averages);
        (job.estimate.shuffle, job.estimate.reduce_bytes) =
            estimate::remaining_work(&job, self.now, job.estimate.task[0]);
        let jx = self.state.admit(job);
        self.classify(jx, spec, out);
        self.note_data(jx);
        for kind in Kind::BOTH {
            if self.policy.slot_policy(kind).share.follows_remaining() {
                self.share_of_new(jx, kind);
            }
            self.touch(jx, kind);
        }
        self.wake_later(out);
        for kind in Kind::BOTH {
            self.demand_slots(kind, out);
        }
        Ok(())
    }

    /// Nodes with data of a job are good for its maps, where maps hold out for that.
    fn note_data(&mut self, jx: JobIx) {
        if self.policy.map.placement.node_locality_delay.is_zero() {
            return;
        }
        let job = self.state.jobs[jx as usize].as_ref().expect("just admitted");
        for host in job.splits.iter().flat_map(|split| &split.hosts) {
            self.state.holdouts[Kind::Map.ix()].note_good(jx, *host);
        }
    }

    fn user(&mut self, name: &str) -> u32 {
        if let Some(&user) = self.user_of.get(name) {
            return user;
        }
        let user = self.users.len() as u32;
        self.users.push(name.to_owned());
        self.user_of.insert(name.to_owned(), user);
        user
    }

    /// Gives a new job its groups, and under COSHH its classes first.
    fn classify(&mut self, jx: JobIx, spec: &JobSpec, out: &mut Vec<Action>) {
        let declared = self.setup.tenants.users.iter().find(|user| user.name == spec.user);
        let rights = declared.map_or(UserRights { weight: 1.0, min_share: 0 }, |user| UserRights {
            weight: user.weight,
            min_share: user.min_share,
        });
        let anew =
            self.matcher.as_mut().is_some_and(|matcher| matcher.job_arrived(jx, rights, &mut self.state, self.now));
        if anew {
            self.regroup_all_but(Some(jx));
        }
        self.join_lines(jx, &spec.pool);
        if self.matcher.as_ref().is_some_and(|matcher| matcher.rules().place_replicas) {
            self.place_replicas(jx, out);
        }
    }

    fn join_lines(&mut self, jx: JobIx, pool: &str) {
        let job = self.state.job(jx);
        let classes = self.matcher.is_some().then_some(job.classes);
        for line in self.lines.iter_mut().flatten() {
            line.join(jx, job.user, &self.users[job.user as usize], pool, classes);
        }
    }

    fn regroup_all_but(&mut self, new: Option<JobIx>) {
        let others: Vec<JobIx> = self.state.live().map(|(jx, _)| jx).filter(|&jx| Some(jx) != new).collect();
        others.into_iter().for_each(|jx| self.regroup(jx));
    }

    /// A job's classes may have changed: it leaves its groups and joins those it now belongs to. Only users have classes, so no pool is needed.
    fn regroup(&mut self, jx: JobIx) {
        for kind in Kind::BOTH {
            let facts = &mut self.state.job_mut(jx).facts[kind.ix()];
            let held = i64::from(std::mem::take(&mut facts.counted));
            self.count_held(jx, kind, -held);
            self.lines[kind.ix()].iter_mut().for_each(|line| line.place(jx, None));
        }
        self.join_lines(jx, "");
        for kind in Kind::BOTH {
            let holds_out = self.state.holdouts[kind.ix()].holds_out(jx, self.now);
            self.lines[kind.ix()].iter_mut().for_each(|line| line.hold_out(jx, holds_out));
        }
        Kind::BOTH.into_iter().for_each(|kind| self.touch(jx, kind));
    }

    /// COSHH, section 3.2: replicas go to random nodes among those suggested for the first job that uses the data.
    fn place_replicas(&mut self, jx: JobIx, out: &mut Vec<Action>) {
        let job = self.state.job(jx);
        let block_bytes = job.splits.iter().map(|split| split.bytes).max().unwrap_or(0);
        let matcher = self.matcher.as_ref().expect("only with matching");
        let nodes = matcher.suggested_nodes(job, block_bytes, &self.state);
        if nodes.is_empty() || nodes.len() as u32 == self.state.nodes_up {
            return;
        }
        let random = &mut self.random;
        let splits = Arc::make_mut(&mut self.state.jobs[jx as usize].as_mut().expect("just admitted").splits);
        for split in splits.iter_mut() {
            let replicas = split.hosts.len().min(nodes.len());
            split.hosts = random_sample(&nodes, replicas, random);
        }
        let hosts = splits.iter().map(|split| split.hosts.clone()).collect();
        let job = self.state.job_mut(jx);
        job.waiting_maps = Waiting::new(&job.splits);
        out.push(Action::PlaceReplicas { job: job.id, hosts });
    }

    pub(super) fn attempt_finished(
        &mut self,
        attempt: AttemptId,
        output_bytes: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let (kind, index) = (attempt.task.kind, attempt.task.index);
        let (jx, role) = self.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        match role {
            Role::Dying => {
                self.end_twin(jx, attempt);
                self.bury(jx);
                return Ok(());
            }
            Role::Twin => self.swap_twin(jx, attempt),
            Role::First => {}
        }
        let job = self.state.job(jx);
        let (node, closed, could_start) = (job.task(kind, index).node, job.closed, job.may_start(Kind::Reduce));
        let pace = self.matcher.is_some().then(|| {
            let spec = &self.state.node(node).spec;
            (f64::from(spec.speed_ppm) / f64::from(WHOLE_PPM), spec.disk_bytes_per_s as f64)
        });
        let now = self.now;
        self.state.job_mut(jx).finish(kind, index, output_bytes, pace, now);
        self.state.leave_slot(node, kind, jx, index, attempt.number);
        self.kill_twins(jx, kind, index, out);
        if closed {
            self.touch(jx, kind);
            self.bury(jx);
            return Ok(());
        }
        self.task_done(jx, kind, could_start, out);
        Ok(())
    }

    /// A task of a job was done: its reduces may start, or the job may be over.
    fn task_done(&mut self, jx: JobIx, kind: Kind, could_start: bool, out: &mut Vec<Action>) {
        if self.state.job(jx).is_done() {
            self.close(jx, Outcome::Succeeded, out);
            return;
        }
        self.touch(jx, kind);
        if kind == Kind::Map && self.state.job(jx).total(Kind::Reduce) > 0 {
            let by_work = self.slot_policy(Kind::Reduce).order == JobOrder::RemainingWork;
            let may_start = self.state.job(jx).may_start(Kind::Reduce);
            if by_work {
                self.renew_shuffle(jx);
            }
            if by_work || may_start != could_start {
                self.touch(jx, Kind::Reduce);
            }
            if may_start && !could_start {
                self.demand_slots(Kind::Reduce, out);
            }
        }
    }

    pub(super) fn attempt_paused(
        &mut self,
        attempt: AttemptId,
        progress_ppm: u32,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if self.is_over(attempt) {
            return self.attempt_over(attempt, false, out);
        }
        let (jx, index) = self.yielding(attempt, PreemptAction::Pause)?;
        let (node, now) = (self.state.job(jx).task(Kind::Reduce, index).node, self.now);
        self.state.job_mut(jx).pause(index, progress_ppm.min(WHOLE_PPM), now);
        self.state.leave_slot(node, Kind::Reduce, jx, index, attempt.number);
        self.state.node_mut(node).paused.push((jx, index));
        self.touch(jx, Kind::Reduce);
        Ok(())
    }

    pub(super) fn attempt_ended_early(
        &mut self,
        attempt: AttemptId,
        done_bytes: u64,
        output_bytes: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if self.is_over(attempt) {
            return self.attempt_over(attempt, false, out);
        }
        let (jx, index) = self.yielding(attempt, PreemptAction::EndEarly)?;
        let job = self.state.job(jx);
        if done_bytes > job.bytes(index) {
            return Err(Refusal::NotRequested(attempt));
        }
        let (node, could_start, now) = (job.task(Kind::Map, index).node, job.may_start(Kind::Reduce), self.now);
        self.state.job_mut(jx).split_off(index, done_bytes, output_bytes, now);
        self.state.leave_slot(node, Kind::Map, jx, index, attempt.number);
        self.task_done(jx, Kind::Map, could_start, out);
        Ok(())
    }

    /// True if the attempt's job was closed while it was giving way: what it kept is of no use any more.
    fn is_over(&self, attempt: AttemptId) -> bool {
        self.role(attempt).is_some_and(|(jx, _)| self.state.job(jx).closed)
    }

    /// An attempt that was asked to give way in this manner.
    fn yielding(&self, attempt: AttemptId, how: PreemptAction) -> Result<(JobIx, u32), Refusal> {
        match self.role(attempt) {
            Some((jx, Role::First)) => {
                let state = self.state.job(jx).task(attempt.task.kind, attempt.task.index).state;
                if state == TaskState::Yielding(how) {
                    Ok((jx, attempt.task.index))
                } else {
                    Err(Refusal::NotRequested(attempt))
                }
            }
            Some(_) => Err(Refusal::NotRequested(attempt)),
            None => Err(Refusal::StaleAttempt(attempt)),
        }
    }

    /// An attempt was killed or failed: its task begins again, or its job fails.
    pub(super) fn attempt_over(
        &mut self,
        attempt: AttemptId,
        failed: bool,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let (kind, index) = (attempt.task.kind, attempt.task.index);
        let (jx, role) = self.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let too_often = failed && self.state.job_mut(jx).count_failure(kind, index) >= MOST_FAILURES;
        if role == Role::First {
            self.end_first(jx, attempt, None);
        } else {
            self.end_twin(jx, attempt);
        }
        if too_often && !self.state.job(jx).closed {
            self.abandon(jx, Outcome::Failed, out);
        }
        self.bury(jx);
        Ok(())
    }

    pub(super) fn job_killed(&mut self, job: JobId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let jx = self.state.find(job).filter(|&jx| !self.state.job(jx).closed).ok_or(Refusal::UnknownJob(job))?;
        self.abandon(jx, Outcome::Killed, out);
        self.bury(jx);
        Ok(())
    }

    /// Closes a job before its time: what runs is killed, what is paused is forgotten.
    pub(super) fn abandon(&mut self, jx: JobIx, outcome: Outcome, out: &mut Vec<Action>) {
        let paused: Vec<u32> = self.state.job(jx).paused.iter().map(|&(task, _)| task).collect();
        for task in paused {
            let node = self.state.job(jx).task(Kind::Reduce, task).node;
            self.state.node_mut(node).paused.retain(|&kept| kept != (jx, task));
        }
        for kind in Kind::BOTH {
            for index in self.state.job(jx).facts(kind).live.clone() {
                let job = self.state.job_mut(jx);
                let (attempt, node) = (job.attempt(kind, index), job.task(kind, index).node);
                let task = &mut job.tasks[kind.ix()][index as usize];
                if task.state == TaskState::Running {
                    job.facts[kind.ix()].yielding += 1;
                }
                task.state = TaskState::Yielding(PreemptAction::Kill);
                out.push(Action::Kill { attempt, node, reason: Reason::JobEnded });
            }
        }
        let twins: Vec<(Kind, u32)> = self.state.job(jx).twins.iter().map(|twin| (twin.kind, twin.task)).collect();
        twins.into_iter().for_each(|(kind, index)| self.kill_twins(jx, kind, index, out));
        self.close(jx, outcome, out);
    }

    /// A job is over: says so, and takes it out of every line. Its place is freed once its last attempt has left.
    fn close(&mut self, jx: JobIx, outcome: Outcome, out: &mut Vec<Action>) {
        let job = self.state.job_mut(jx);
        job.closed = true;
        out.push(Action::CloseJob { job: job.id, outcome });
        if outcome == Outcome::Succeeded
            && let Some(matcher) = &mut self.matcher
        {
            matcher.job_finished(self.state.job(jx));
        }
        Kind::BOTH.into_iter().for_each(|kind| self.touch(jx, kind));
        self.bury(jx);
    }

    /// Frees a closed job's place once nothing of it holds a slot.
    pub(super) fn bury(&mut self, jx: JobIx) {
        let Some(job) = &self.state.jobs[jx as usize] else { return };
        if !job.closed || !job.twins.is_empty() || Kind::BOTH.iter().any(|&kind| !job.facts(kind).live.is_empty()) {
            return;
        }
        for kind in Kind::BOTH {
            let held = i64::from(self.state.job(jx).facts(kind).counted);
            self.count_held(jx, kind, -held);
        }
        self.state.remove(jx);
    }

    /// T_rs follows the maps as they finish; the rest of the estimate waits for its renewal.
    fn renew_shuffle(&mut self, jx: JobIx) {
        let now = self.now;
        let job = self.state.job_mut(jx);
        let facts = job.facts(Kind::Map);
        let (left, done, running) = (job.total(Kind::Map) - facts.done, facts.done, facts.live.len() as u32);
        let elapsed = job.first_launch.map_or(Span::ZERO, |first| now.since(first));
        let shuffle = estimate::remaining_shuffle(left, done, elapsed, running, job.estimate.task[0]);
        job.estimate.shuffle = shuffle.scaled(job.bias);
    }

    /// Which of its task's attempts this is, if it is one that holds a slot.
    pub(super) fn role(&self, attempt: AttemptId) -> Option<(JobIx, Role)> {
        let jx = self.state.find(attempt.task.job)?;
        let job = self.state.job(jx);
        let task = job.tasks[attempt.task.kind.ix()].get(attempt.task.index as usize)?;
        if task.is_live() && task.number == attempt.number {
            return Some((jx, Role::First));
        }
        let twin = job.twins.iter().find(|twin| {
            (twin.kind, twin.task, twin.number) == (attempt.task.kind, attempt.task.index, attempt.number)
        })?;
        Some((jx, if twin.dying { Role::Dying } else { Role::Twin }))
    }
}

/// Which of its task's attempts an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one the task's state speaks of.
    First,
    /// A second one.
    Twin,
    /// One that was outrun and asked to die.
    Dying,
}

fn random_sample(nodes: &[NodeId], count: usize, random: &mut rand_pcg::Pcg64Mcg) -> Hosts {
    let mut hosts = Hosts::new();
    while hosts.len() < count {
        let node = nodes[random.random_range(0..nodes.len())];
        if !hosts.contains(&node) {
            hosts.push(node);
        }
    }
    hosts
}
