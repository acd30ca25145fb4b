//! Reports from nodes to the core: ended attempts, progress of the others, free slots.

use super::Simulation;
use crate::attempts::{Activity, Attempt, JobAndKind, PausedReduce, Running, StopOutcome};
use crate::cluster::HeartbeatMode;
use crate::event_queue::{NONE, SimEvent};
use crate::nodes::Node;
use crate::observe::Observer;
use giveway_core::{AttemptId, Event, Kind, NodeId, Progress, Time, WHOLE_PPM};

impl Simulation<'_> {
    /// Handles a queued heartbeat. The node may have nothing left to report or receive by now.
    pub(super) fn heartbeat_if_due(&mut self, node: u32, observer: &mut impl Observer) {
        let now = self.now;
        self.follow_contention(node);
        let state = &self.nodes[node as usize];
        if state.up && (state.next_end() <= now || self.stop_requests.contains_key(&node)) {
            self.heartbeat(node, observer);
        }
        // Scheduled only now, so that launches during this heartbeat do not queue one event each.
        let state = &mut self.nodes[node as usize];
        if state.heartbeat_due == now {
            state.heartbeat_due = Time::NEVER;
            let next_end = state.next_end();
            self.schedule_report(node, next_end);
        }
    }

    /// Handles a queued slot offer, unless it is stale.
    pub(super) fn on_offer_due(&mut self, node: u32, version: u32, observer: &mut impl Observer) {
        if !self.offers.take_scheduled(version) {
            return;
        }
        if self.cluster.reporting == HeartbeatMode::Immediate && self.queue.has_event_at(self.now) {
            // After the last event of this instant all nodes offer.
            self.state_changed = true;
            return;
        }
        let state = &self.nodes[node as usize];
        if state.up && state.last_heartbeat != self.now {
            self.offers_since_progress += 1;
            self.heartbeat(node, observer);
        }
    }

    /// One heartbeat: reports ended attempts, receives stop requests, offers free slots.
    fn heartbeat(&mut self, node: u32, observer: &mut impl Observer) {
        let now = self.now;
        self.follow_contention(node);
        self.nodes[node as usize].last_heartbeat = now;
        while let Some(index) = self.nodes[node as usize].next_ended(now) {
            self.report_end(node, index, observer);
        }
        for request in self.stop_requests.remove(&node).unwrap_or_default() {
            self.handle_stop_request(node, request);
        }
        self.offer_slots(node, observer);
    }

    /// Offers a node's free slots, if the core has pending tasks for one of them.
    fn offer_slots(&mut self, node: u32, observer: &mut impl Observer) {
        let state = &self.nodes[node as usize];
        if Kind::BOTH.into_iter().any(|kind| state.has_free(kind) && self.scheduler.has_pending(kind)) {
            self.send_event(&Event::SlotsOffered { node: NodeId(node), progress: Vec::new() }, Some(node), observer);
        }
    }

    /// Lets every node offer its free slots. The starting node rotates from round to round.
    pub(super) fn offer_from_all_nodes(&mut self, observer: &mut impl Observer) {
        let nodes = self.nodes.len() as u32;
        self.first_offering_node = (self.first_offering_node + 1) % nodes.max(1);
        for node in (self.first_offering_node..nodes).chain(0..self.first_offering_node) {
            self.offer_slots(node, observer);
        }
    }

    /// Reports that an attempt has finished its task.
    fn report_end(&mut self, node: u32, index: usize, observer: &mut impl Observer) {
        let running = self.release_slot(node, index);
        let attempt = running.id();
        let plan = &self.workload.jobs[attempt.task.job.0 as usize];
        let output_bytes = match (attempt.task.kind, self.attempts.activity(running.key)) {
            (Kind::Map, Some(Activity::Map(part))) => part.output_bytes(),
            (Kind::Map, _) => plan.map_output_bytes,
            (Kind::Reduce, _) => plan.reduce_output_bytes,
        };
        if attempt.task.kind == Kind::Map {
            self.add_output(attempt, output_bytes, node);
        }
        self.send_event(&Event::AttemptFinished { attempt, output_bytes }, Some(node), observer);
    }

    /// Handles the end of an attempt that paused, ended early or was killed. Its node reports that and offers the slot without delay.
    pub(super) fn on_attempt_stopped(&mut self, key: u32, version: u32, observer: &mut impl Observer) {
        let Attempt { id, node, version: current, ref activity } = self.attempts[key];
        let Activity::Stopping(outcome) = *activity else { return };
        if version != current {
            return;
        }
        self.release_slot(node, self.nodes[node as usize].index_of_key(key));
        let job = &mut self.jobs[id.task.job.0 as usize];
        let event = match outcome {
            // Nothing is retained for a job that has ended.
            _ if job.shuffle_id == NONE => Event::AttemptKilled { attempt: id },
            StopOutcome::Killed => Event::AttemptKilled { attempt: id },
            StopOutcome::Failed => Event::AttemptFailed { attempt: id },
            StopOutcome::Paused(progress) => {
                self.nodes[node as usize].paused.push(PausedReduce { attempt: id, progress });
                job.paused_reduces += 1;
                Event::AttemptPaused { attempt: id, progress_ppm: progress.ppm() }
            }
            StopOutcome::EndedEarly { done_bytes, output_bytes, bytes } => {
                if done_bytes > 0 {
                    if done_bytes < bytes {
                        self.shuffle.add_piece(job.shuffle_id);
                    }
                    self.add_output(id, output_bytes, node);
                }
                Event::AttemptEndedEarly { attempt: id, done_bytes, output_bytes }
            }
        };
        self.send_event(&event, Some(node), observer);
        self.heartbeat(node, observer);
    }

    /// Reports the progress of attempts on live nodes, for the jobs and kinds that `is_wanted` selects. The report offers no slots: otherwise
    /// a policy that needs progress would receive more offers than one that does not.
    pub(super) fn report_progress(&mut self, is_wanted: impl Fn(JobAndKind) -> bool, observer: &mut impl Observer) {
        let mut progress = std::mem::take(&mut self.progress);
        progress.clear();
        (0..self.nodes.len() as u32).for_each(|node| self.follow_contention(node));
        for (number, node) in (0..).zip(&self.nodes).filter(|(_, node)| node.up) {
            let running = node.running().filter(|(running, _)| is_wanted(running.job_and_kind()));
            progress.extend(running.map(|(running, end)| self.progress_of(number, running, end)));
        }
        let event = Event::ProgressReported { progress };
        self.send_event(&event, None, observer);
        if let Event::ProgressReported { progress } = event {
            self.progress = progress;
        }
    }

    fn progress_of(&self, node: u32, running: &Running, end: Time) -> Progress {
        let progress_ppm = match self.attempts.activity(running.key) {
            None | Some(Activity::Map(_)) => {
                let done = self.work_done(node, running, end);
                ratio_ppm(done.spent.0, done.whole.0)
            }
            Some(Activity::Reduce(reduce)) => {
                let fetched =
                    reduce.fetch.map_or(reduce.progress.fetched, |fetch| self.shuffle.fetched(self.now, fetch));
                reduce.progress_at(fetched, self.work_done(node, running, end)).ppm()
            }
            Some(Activity::Stopping(StopOutcome::Paused(progress))) => progress.ppm(),
            Some(Activity::Stopping(StopOutcome::EndedEarly { done_bytes, bytes, .. })) => {
                ratio_ppm(*done_bytes, *bytes)
            }
            Some(Activity::Stopping(StopOutcome::Killed | StopOutcome::Failed)) => 0,
        };
        Progress { attempt: running.id(), progress_ppm }
    }

    /// Frees the slot of the attempt at this index of a node's list.
    fn release_slot(&mut self, node: u32, index: usize) -> Running {
        let state = &mut self.nodes[node as usize];
        let (running, is_first_free) = state.release_slot(index);
        self.shared_nodes[node as usize].remove(self.now, running.id());
        self.attempts.remove(running.key);
        if is_first_free {
            self.offers.update_free(node, state, running.job_and_kind().kind(), self.now);
        }
        running
    }

    /// Makes the output of a map available to the reduces of its job. Output of an ended job is ignored.
    fn add_output(&mut self, map: AttemptId, output_bytes: u64, node: u32) {
        let job = map.task.job.0 as usize;
        let shuffle_id = self.jobs[job].shuffle_id;
        if shuffle_id != NONE && self.workload.jobs[job].reduces > 0 {
            self.shuffle.add_output(self.now, shuffle_id, map.task.index, output_bytes, node);
            self.queue_fetch_deadlines();
        }
    }

    /// Queues the deadlines that the shuffle has computed.
    pub(super) fn queue_fetch_deadlines(&mut self) {
        for (fetch, version, at) in self.shuffle.take_deadlines() {
            self.queue.push(at, SimEvent::FetchDue { fetch, version });
        }
    }

    /// Ensures that a heartbeat is queued that reports the end of an attempt.
    pub(super) fn schedule_report(&mut self, node: u32, end: Time) {
        let Node { last_heartbeat, heartbeat_due, .. } = self.nodes[node as usize];
        // An earlier heartbeat schedules the next one itself.
        if end == Time::NEVER || heartbeat_due <= end {
            return;
        }
        let at = end.max(self.now);
        let at = match self.cluster.reporting {
            HeartbeatMode::Heartbeat => self.offers.next_heartbeat(node, at, last_heartbeat),
            HeartbeatMode::OutOfBand | HeartbeatMode::Immediate => at,
        };
        self.schedule_heartbeat(node, at);
    }

    /// Queues a heartbeat, unless an earlier one is queued: that one schedules the next itself.
    pub(super) fn schedule_heartbeat(&mut self, node: u32, at: Time) {
        let state = &mut self.nodes[node as usize];
        if at < state.heartbeat_due {
            state.heartbeat_due = at;
            self.queue.push(at, SimEvent::Heartbeat { node });
        }
    }
}

fn ratio_ppm(part: u64, whole: u64) -> u32 {
    if whole == 0 || part >= whole {
        return if part == 0 { 0 } else { WHOLE_PPM };
    }
    (u128::from(part) * u128::from(WHOLE_PPM) / u128::from(whole)) as u32
}
