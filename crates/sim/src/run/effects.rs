//! Performs the core's actions: launches, stop requests, closing a job, timers.

use super::Simulation;
use crate::attempts::{Activity, Attempt, Running, StopKind, StopOutcome, StopRequest};
use crate::cluster::HeartbeatMode;
use crate::contention::{TaskWork, WorkDone};
use crate::event_queue::{NONE, SimEvent};
use crate::observe::Observer;
use crate::tasks::{MapRun, ReduceProgress, ReduceRun};
use crate::workload::JobPlan;
use giveway_core::{Action, AttemptId, JobId, Locality, NodeId, Span, Start, Time, Timer, Work};

impl Simulation<'_> {
    /// Performs an action, or queues its delivery to a node.
    pub(super) fn perform(&mut self, action: &Action, heartbeating: Option<u32>, observer: &mut impl Observer) {
        let request = |attempt, kind| StopRequest { attempt, kind };
        match *action {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node, work),
            Action::Pause { attempt, node, .. } => {
                self.send_stop_request(node.0, request(attempt, StopKind::Pause), heartbeating)
            }
            Action::EndEarly { attempt, node, .. } => {
                self.send_stop_request(node.0, request(attempt, StopKind::EndEarly), heartbeating)
            }
            Action::Kill { attempt, node, .. } => {
                self.send_stop_request(node.0, request(attempt, StopKind::Kill), heartbeating)
            }
            Action::CloseJob { job, .. } => self.close(job, observer),
            Action::SetTimer { timer, at } => self.set_timer(timer, at),
            // Each launch carries the locality that the core computed, so there is no data to move.
            Action::PlaceReplicas { .. } => {}
            Action::Refuse { .. } => self.stats.refusals += 1,
        }
    }

    /// Sets a timer. It expires one microsecond from now at the earliest; otherwise a core that always sets one would stop virtual time.
    pub(super) fn set_timer(&mut self, timer: Timer, at: Time) {
        let at = at.max(Time(self.now.0 + 1));
        self.timers.set(timer, at);
        if at != self.timers_due {
            self.timers_due = at;
            self.queue.push(at, SimEvent::TimersDue);
        }
    }

    fn launch(&mut self, id: AttemptId, node: NodeId, work: Work) {
        assert!(self.nodes[node.0 as usize].up, "attempt {id} was launched on {node}, which is down");
        (self.last_progress, self.offers_since_progress) = (self.now, 0);
        self.stats.launches += 1;
        let fails_after = self.failures.fails_after(id, node, self.now, &self.streams);
        let (running, end) = match (fails_after, work) {
            (Some(after), _) => (self.launch_failing(id, node, work, after), Time::NEVER),
            (None, Work::Map { split, start_bytes, bytes, locality }) => {
                let plan = &self.workload.jobs[id.task.job.0 as usize];
                let map = MapRun::new(plan, start_bytes, bytes);
                let factor = self.streams.task_factor(plan, id.task.kind, split) * self.streams.attempt_factor(id);
                let ready = self.now + self.cluster.costs.launch;
                if locality == Locality::Node {
                    self.shuffle.pass_page_cache(node.0, map.bytes());
                }
                let work = map.work(plan, &self.node_rates[node.0 as usize], locality, factor);
                let end = self.begin_work(node.0, id, ready, work);
                let key = if map.is_whole(plan) { NONE } else { self.attempts.add(id, node, Activity::Map(map)) };
                (Running::new(id, key, ready), end)
            }
            (None, Work::Reduce { start }) => self.launch_reduce(id, node, start),
        };
        let was_last = self.nodes[node.0 as usize].occupy_slot(id.task.kind, running, end);
        self.schedule_report(node.0, end);
        self.follow_contention(node.0);
        if was_last {
            self.offers.update_free(node.0, &self.nodes[node.0 as usize], id.task.kind, self.now);
        }
    }

    /// Launches an attempt that will fail. The state of the paused reduce that it resumes is lost with it.
    fn launch_failing(&mut self, id: AttemptId, node: NodeId, work: Work, after: Span) -> Running {
        match work {
            Work::Reduce { start: Start::Resumed { from } } => drop(self.take_paused(node, from)),
            Work::Reduce { start: Start::Migrated { from, node } } => drop(self.take_paused(node, from)),
            Work::Reduce { start: Start::Fresh } | Work::Map { .. } => {}
        }
        let ready = self.now + self.cluster.costs.launch;
        let key = self.attempts.add(id, node, Activity::Stopping(StopOutcome::Failed));
        self.queue.push(ready + after, SimEvent::AttemptStopped { attempt: key, version: self.attempts[key].version });
        Running::new(id, key, ready)
    }

    fn launch_reduce(&mut self, id: AttemptId, node: NodeId, start: Start) -> (Running, Time) {
        let costs = &self.cluster.costs;
        let (progress, cost) = match start {
            Start::Fresh => (ReduceProgress::default(), costs.launch),
            Start::Resumed { from } => (self.take_paused(node, from), costs.launch + costs.resume),
            Start::Migrated { from, node } => (self.take_paused(node, from).migrated(), costs.launch),
        };
        let ready = self.now + cost;
        let key = self.attempts.add(id, node, Activity::Reduce(ReduceRun::new(progress)));
        let end = if progress.fetched < 1.0 {
            self.queue.push(ready, SimEvent::ReduceLaunched { attempt: key, version: self.attempts[key].version });
            Time::NEVER
        } else {
            self.sort(key, ready)
        };
        (Running::new(id, key, ready), end)
    }

    fn take_paused(&mut self, node: NodeId, from: AttemptId) -> ReduceProgress {
        let state = &mut self.nodes[node.0 as usize];
        let Some(paused) = state.take_paused(from) else {
            // The core may not have detected yet that the node is down; then nothing can be moved and the reduce starts from the beginning.
            assert!(!state.up, "attempt {from} left no state on {node} to resume from");
            return ReduceProgress::default();
        };
        self.jobs[from.task.job.0 as usize].paused_reduces -= 1;
        paused.progress
    }

    /// Starts the fetch of a reduce whose process has started, unless its job has ended.
    pub(super) fn on_reduce_launched(&mut self, key: u32, version: u32) {
        let attempt = &mut self.attempts[key];
        let shuffle_id = self.jobs[attempt.id.task.job.0 as usize].shuffle_id;
        if attempt.version != version || shuffle_id == NONE {
            return;
        }
        if let Activity::Reduce(reduce) = &mut attempt.activity {
            reduce.fetch =
                Some(self.shuffle.begin_fetch(self.now, shuffle_id, attempt.node, key, reduce.progress.fetched));
        }
        self.queue_fetch_deadlines();
    }

    /// Handles the deadline of a fetch: starts to sort if the fetch is complete.
    pub(super) fn on_fetch_due(&mut self, fetch: u32, version: u32) {
        if let Some(key) = self.shuffle.complete_fetch(self.now, fetch, version) {
            self.shuffle.end_fetch(self.now, fetch);
            let plan = &self.workload.jobs[self.attempts[key].id.task.job.0 as usize];
            self.shuffle.pass_page_cache(self.attempts[key].node, plan.partition_bytes() + plan.reduce_output_bytes);
            let (node, end) = (self.attempts[key].node, self.sort(key, self.now));
            let state = &mut self.nodes[node as usize];
            state.set_end(state.index_of_key(key), end);
            self.schedule_report(node, end);
            self.follow_contention(node);
        }
        self.queue_fetch_deadlines();
    }

    /// Starts to sort at time `from`, with all input fetched; returns the end of the reduce.
    pub(super) fn sort(&mut self, key: u32, from: Time) -> Time {
        let Attempt { id, node, .. } = self.attempts[key];
        let plan = &self.workload.jobs[id.task.job.0 as usize];
        let factor = self.streams.task_factor(plan, id.task.kind, id.task.index) * self.streams.attempt_factor(id);
        let work = match &mut self.attempts[key].activity {
            Activity::Reduce(reduce) => {
                reduce.sort(from, plan, &self.cluster.costs, &self.node_rates[node as usize], factor)
            }
            Activity::Map(_) | Activity::Stopping(_) => unreachable!("only a running reduce fetches"),
        };
        self.begin_work(node, id, from, work)
    }

    /// Lets an attempt work from `begin` on; returns the end of the work, if nothing changes on its node.
    pub(super) fn begin_work(&mut self, node: u32, id: AttemptId, begin: Time, work: TaskWork) -> Time {
        let shared = &mut self.shared_nodes[node as usize];
        if !shared.is_shared() {
            return begin + work.span;
        }
        shared.add(self.now, id, begin, work)
    }

    /// Updates the ends of the attempts on a node whose tasks contend: they change whenever a task there begins or ends.
    pub(super) fn follow_contention(&mut self, node: u32) {
        let shared = &mut self.shared_nodes[node as usize];
        shared.advance(self.now);
        if shared.take_changed() {
            let state = &mut self.nodes[node as usize];
            state.set_ends(|index, id| shared.end(index, id));
            let next_end = state.next_end();
            self.schedule_report(node, next_end);
        }
    }

    /// How far the work of a map is, or of a reduce that has fetched everything.
    pub(super) fn work_done(&self, node: u32, running: &Running, end: Time) -> WorkDone {
        let shared = &self.shared_nodes[node as usize];
        let from = match self.attempts.activity(running.key) {
            Some(Activity::Reduce(reduce)) => reduce.sort_from(),
            _ => running.ready,
        };
        let alone = WorkDone::between(from, end, self.now);
        if shared.is_shared() { shared.done(self.now, running.id()).unwrap_or(alone) } else { alone }
    }

    /// Sends a stop request. It arrives with the response to the node's next heartbeat, or to the heartbeat that is being handled now; with
    /// immediate reporting it arrives at once.
    pub(super) fn send_stop_request(&mut self, node: u32, request: StopRequest, heartbeating: Option<u32>) {
        let state = &self.nodes[node as usize];
        if !state.up {
            return;
        }
        if heartbeating == Some(node) || self.cluster.reporting == HeartbeatMode::Immediate {
            self.handle_stop_request(node, request);
            return;
        }
        self.stop_requests.entry(node).or_default().push(request);
        let at = self.offers.next_heartbeat(node, self.now, state.last_heartbeat);
        self.schedule_heartbeat(node, at);
    }

    /// Handles a stop request on its node. A request for an attempt that has already finished is ignored: the finish is reported instead.
    pub(super) fn handle_stop_request(&mut self, node: u32, request: StopRequest) {
        let Some(index) = self.nodes[node as usize].find(request.attempt) else { return };
        self.follow_contention(node);
        let (running, end) = self.nodes[node as usize].attempt(index);
        let key = running.key;
        let is_stopping = matches!(self.attempts.activity(key), Some(Activity::Stopping(_)));
        if end <= self.now || (is_stopping && request.kind != StopKind::Kill) {
            return;
        }
        let fetching = self.stop_fetch(key);
        let done = self.work_done(node, &running, end);
        let plan = &self.workload.jobs[request.attempt.task.job.0 as usize];
        let costs = &self.cluster.costs;
        let (outcome, cost) = match (request.kind, self.attempts.activity(key)) {
            (StopKind::Pause, Some(Activity::Reduce(reduce))) => {
                let progress = reduce.progress_at(reduce.progress.fetched, done);
                (StopOutcome::Paused(progress), self.pause_cost(plan, node, fetching, progress))
            }
            (StopKind::EndEarly, None) => self.end_early(plan, &MapRun::whole(plan), done),
            (StopKind::EndEarly, Some(Activity::Map(part))) => self.end_early(plan, part, done),
            _ => (StopOutcome::Killed, costs.kill),
        };
        let key = if key == NONE {
            self.attempts.add(request.attempt, NodeId(node), Activity::Stopping(outcome))
        } else {
            let attempt = &mut self.attempts[key];
            attempt.activity = Activity::Stopping(outcome);
            attempt.version += 1;
            key
        };
        self.nodes[node as usize].mark_stopping(index, key);
        self.shared_nodes[node as usize].remove(self.now, request.attempt);
        self.follow_contention(node);
        self.queue
            .push(self.now + cost, SimEvent::AttemptStopped { attempt: key, version: self.attempts[key].version });
    }

    fn end_early(&self, plan: &JobPlan, map: &MapRun, done: WorkDone) -> (StopOutcome, Span) {
        let (done_bytes, output_bytes) = map.processed(plan, done);
        (StopOutcome::EndedEarly { done_bytes, output_bytes, bytes: map.bytes() }, self.cluster.costs.end_early)
    }

    /// The time to pause a reduce: writing the index record and, during the shuffle, flushing memory (Chronos, section III-C; FCS,
    /// section 3).
    fn pause_cost(&self, plan: &JobPlan, node: u32, fetching: bool, progress: ReduceProgress) -> Span {
        let costs = &self.cluster.costs;
        if !fetching {
            return costs.pause;
        }
        let flush_bytes = (plan.partition_bytes() as f64 * progress.fetched).min(costs.pause_flush_bytes as f64);
        costs.pause + Span((flush_bytes / self.node_rates[node as usize].disk_bytes_per_us).round() as u64)
    }

    /// Stops the fetch of a reduce and records its progress; false if the attempt is not fetching.
    pub(super) fn stop_fetch(&mut self, key: u32) -> bool {
        let Some(Activity::Reduce(reduce)) = self.attempts.activity_mut(key) else { return false };
        let Some(fetch) = reduce.fetch.take() else { return false };
        reduce.progress.fetched = self.shuffle.end_fetch(self.now, fetch);
        self.queue_fetch_deadlines();
        true
    }

    /// Closes a job and drops its retained state. Attempts of it that still run only wait to be killed.
    fn close(&mut self, job: JobId, observer: &mut impl Observer) {
        let shuffle_id = std::mem::replace(&mut self.jobs[job.0 as usize].shuffle_id, NONE);
        assert!(shuffle_id != NONE, "{job} was closed but is not live");
        let attempts = &mut self.attempts;
        self.shuffle.close(self.now, shuffle_id, |owner| {
            if let Activity::Reduce(reduce) = &mut attempts[owner].activity {
                reduce.fetch = None;
            }
        });
        self.queue_fetch_deadlines();
        if std::mem::take(&mut self.jobs[job.0 as usize].paused_reduces) > 0 {
            self.nodes.iter_mut().for_each(|node| node.paused.retain(|paused| paused.attempt.task.job != job));
        }
        self.stats.jobs_closed += 1;
        observer.on_job_closed(self.now, self.stats.jobs_closed, self.workload.jobs.len());
    }
}
