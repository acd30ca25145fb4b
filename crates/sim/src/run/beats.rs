//! What nodes say: which attempts have ended, how far the others are, and that slots are free.

use super::Simulation;
use crate::attempts::{Attempt, Kept, Run, Running, Stop, Whose};
use crate::cluster::Word;
use crate::nodes::Node;
use crate::observe::Observer;
use crate::queue::{NONE, Tick};
use giveway_core::{AttemptId, Event, Kind, NodeId, Progress, Time, WHOLE_PPM};

impl Simulation<'_> {
    /// A node was expected to have something to say. What it had to say may have been said, or been overtaken.
    pub(super) fn beat_if_news(&mut self, node: u32, observer: &mut impl Observer) {
        let now = self.now;
        let state = &self.nodes[node as usize];
        if state.up && (state.next_end() <= now || self.orders.contains_key(&node)) {
            self.beat(node, observer);
        }
        // Only now, so that what was launched in this beat did not get in line one by one.
        let state = &mut self.nodes[node as usize];
        if state.expected == now {
            state.expected = Time::NEVER;
            let next_end = state.next_end();
            self.expect_report(node, next_end);
        }
    }

    /// A node's turn to offer free slots.
    pub(super) fn offer(&mut self, node: u32, version: u32, observer: &mut impl Observer) {
        if !self.offers.came_up(version) {
            return;
        }
        let state = &self.nodes[node as usize];
        if state.up && state.last_beat != self.now {
            self.offers_since += 1;
            self.beat(node, observer);
        }
    }

    /// One heartbeat: ended attempts are reported, orders received, free slots offered.
    fn beat(&mut self, node: u32, observer: &mut impl Observer) {
        let now = self.now;
        self.nodes[node as usize].last_beat = now;
        while let Some(at) = self.nodes[node as usize].next_ended(now) {
            self.report_end(node, at, observer);
        }
        for order in self.orders.remove(&node).unwrap_or_default() {
            self.obey(node, order);
        }
        self.offer_slots(node, observer);
    }

    /// Offers a node's free slots, if the core could want them.
    fn offer_slots(&mut self, node: u32, observer: &mut impl Observer) {
        let state = &self.nodes[node as usize];
        if Kind::BOTH.into_iter().any(|kind| state.has_free(kind) && self.scheduler.has_pending(kind)) {
            self.tell(&Event::SlotsOffered { node: NodeId(node), progress: Vec::new() }, Some(node), observer);
        }
    }

    /// Something has happened: every node offers its free slots, the next one first in its turn.
    pub(super) fn offer_everywhere(&mut self, observer: &mut impl Observer) {
        let nodes = self.nodes.len() as u32;
        self.first_to_offer = (self.first_to_offer + 1) % nodes.max(1);
        for node in (self.first_to_offer..nodes).chain(0..self.first_to_offer) {
            self.offer_slots(node, observer);
        }
    }

    /// An attempt has done its task.
    fn report_end(&mut self, node: u32, at: usize, observer: &mut impl Observer) {
        let running = self.vacate(node, at);
        let attempt = running.id();
        let plan = &self.workload.jobs[attempt.task.job.0 as usize];
        let output_bytes = match (attempt.task.kind, self.attempts.run(running.place)) {
            (Kind::Map, Some(Run::Map(part))) => part.output_bytes(),
            (Kind::Map, _) => plan.map_output_bytes,
            (Kind::Reduce, _) => plan.reduce_output_bytes,
        };
        if attempt.task.kind == Kind::Map {
            self.add_output(attempt, output_bytes, node);
        }
        self.tell(&Event::AttemptFinished { attempt, output_bytes }, Some(node), observer);
    }

    /// An attempt has paused, ended early or been killed. Its node says so at once and offers the slot.
    pub(super) fn stopped(&mut self, place: u32, version: u32, observer: &mut impl Observer) {
        let Attempt { id, node, version: current, ref run } = self.attempts[place];
        let Run::Stopping(stop) = *run else { return };
        if version != current {
            return;
        }
        self.vacate(node, self.nodes[node as usize].at(place));
        let job = &mut self.jobs[id.task.job.0 as usize];
        let event = match stop {
            // Nothing is kept for a job that is over.
            _ if job.pool == NONE => Event::AttemptKilled { attempt: id },
            Stop::Killed => Event::AttemptKilled { attempt: id },
            Stop::Paused(done) => {
                self.nodes[node as usize].kept.push(Kept { from: id, done });
                job.kept += 1;
                Event::AttemptPaused { attempt: id, progress_ppm: done.ppm() }
            }
            Stop::EndedEarly { done_bytes, output_bytes, bytes } => {
                if done_bytes > 0 {
                    if done_bytes < bytes {
                        self.shuffle.divide(job.pool);
                    }
                    self.add_output(id, output_bytes, node);
                }
                Event::AttemptEndedEarly { attempt: id, done_bytes, output_bytes }
            }
        };
        self.tell(&event, Some(node), observer);
        self.beat(node, observer);
    }

    /// Says how far the attempts of live nodes are, those that `wanted` picks out. Nothing is offered thereby: that would give a policy that
    /// asks for progress more offers than one that does not.
    pub(super) fn report_progress(&mut self, wanted: impl Fn(Whose) -> bool, observer: &mut impl Observer) {
        let mut progress = std::mem::take(&mut self.progress);
        progress.clear();
        for node in self.nodes.iter().filter(|node| node.up) {
            let running = node.running().filter(|(running, _)| wanted(running.whose()));
            progress.extend(running.map(|(running, end)| self.progress_of(running, end)));
        }
        let event = Event::ProgressReported { progress };
        self.tell(&event, None, observer);
        if let Event::ProgressReported { progress } = event {
            self.progress = progress;
        }
    }

    fn progress_of(&self, running: &Running, end: Time) -> Progress {
        let progress_ppm = match self.attempts.run(running.place) {
            None | Some(Run::Map(_)) => part_ppm(self.now.since(running.ready).0, end.since(running.ready).0),
            Some(Run::Reduce(reduce)) => {
                let fetched = reduce.fetch.map_or(reduce.done.fetched, |fetch| self.shuffle.fetched(self.now, fetch));
                reduce.done(fetched, end, self.now).ppm()
            }
            Some(Run::Stopping(Stop::Paused(done))) => done.ppm(),
            Some(Run::Stopping(Stop::EndedEarly { done_bytes, bytes, .. })) => part_ppm(*done_bytes, *bytes),
            Some(Run::Stopping(Stop::Killed)) => 0,
        };
        Progress { attempt: running.id(), progress_ppm }
    }

    /// The attempt in this place of a node's list leaves its slot.
    fn vacate(&mut self, node: u32, at: usize) -> Running {
        let state = &mut self.nodes[node as usize];
        let (running, is_first_free) = state.leave(at);
        self.attempts.remove(running.place);
        if is_first_free {
            self.offers.note(node, state, running.whose().kind(), self.now);
        }
        running
    }

    /// Reduces of the job may now fetch the output of a map. A job that is over has no use for it.
    fn add_output(&mut self, map: AttemptId, output_bytes: u64, node: u32) {
        let job = map.task.job.0 as usize;
        let pool = self.jobs[job].pool;
        if pool != NONE && self.workload.jobs[job].reduces > 0 {
            self.shuffle.add_output(self.now, pool, map.task.index, output_bytes, node);
            self.plan_fetches();
        }
    }

    /// Puts the instants in line that the shuffle has reckoned.
    pub(super) fn plan_fetches(&mut self) {
        for (fetch, version, at) in self.shuffle.due() {
            self.queue.push(at, Tick::Fetched { fetch, version });
        }
    }

    /// Sees to it that the end of an attempt will be reported.
    pub(super) fn expect_report(&mut self, node: u32, end: Time) {
        let Node { last_beat, expected, .. } = self.nodes[node as usize];
        // A beat before the end will look further.
        if end == Time::NEVER || expected <= end {
            return;
        }
        let at = end.max(self.now);
        let with_beats = self.cluster.word == Word::WithBeats;
        self.expect_beat(node, if with_beats { self.offers.next_beat(node, at, last_beat) } else { at });
    }

    /// Puts a beat in line, unless an earlier one is there: that one will look further.
    pub(super) fn expect_beat(&mut self, node: u32, at: Time) {
        let state = &mut self.nodes[node as usize];
        if at < state.expected {
            state.expected = at;
            self.queue.push(at, Tick::Beat { node });
        }
    }
}

fn part_ppm(part: u64, whole: u64) -> u32 {
    if whole == 0 || part >= whole {
        return if part == 0 { 0 } else { WHOLE_PPM };
    }
    (u128::from(part) * u128::from(WHOLE_PPM) / u128::from(whole)) as u32
}
