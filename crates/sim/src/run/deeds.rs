//! What the core asks for: launches, orders, closing a job, waking.

use super::Simulation;
use crate::attempts::{Attempt, Demand, Order, Run, Running, Stop};
use crate::cluster::Word;
use crate::observe::Observer;
use crate::queue::{NONE, Tick};
use crate::tasks::{Done, MapRun, ReduceRun};
use crate::workload::JobPlan;
use giveway_core::{Action, AttemptId, JobId, NodeId, Span, Start, Time, Timer, Work};

impl Simulation<'_> {
    /// Carries out an action, or sends it on its way.
    pub(super) fn carry_out(&mut self, action: &Action, beating: Option<u32>, observer: &mut impl Observer) {
        match *action {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node, work),
            Action::Pause { attempt, node, .. } => self.send(node.0, Order { attempt, what: Demand::Pause }, beating),
            Action::EndEarly { attempt, node, .. } => {
                self.send(node.0, Order { attempt, what: Demand::EndEarly }, beating)
            }
            Action::Kill { attempt, node, .. } => self.send(node.0, Order { attempt, what: Demand::Kill }, beating),
            Action::CloseJob { job, .. } => self.close(job, observer),
            Action::SetTimer { timer, at } => self.set_timer(timer, at),
            // The core itself says with each launch how near its data is, so there is nothing to move.
            Action::PlaceReplicas { .. } => {}
            Action::Refuse { .. } => self.totals.refusals += 1,
        }
    }

    /// Sets a timer. It expires a microsecond from now at the earliest, or a core that always sets one would stop the clock.
    fn set_timer(&mut self, timer: Timer, at: Time) {
        let at = at.max(Time(self.now.0 + 1));
        self.timers.set(timer, at);
        if at != self.timer_tick {
            self.timer_tick = at;
            self.queue.push(at, Tick::Timers);
        }
    }

    fn launch(&mut self, id: AttemptId, node: NodeId, work: Work) {
        assert!(self.nodes[node.0 as usize].up, "attempt {id} was launched on {node}, which is down");
        (self.stirred, self.offers_since) = (self.now, 0);
        self.totals.launches += 1;
        let (running, end) = match work {
            Work::Map { split, start_bytes, bytes, locality } => {
                let plan = &self.workload.jobs[id.task.job.0 as usize];
                let map = MapRun::new(plan, start_bytes, bytes);
                let factor = self.draws.task_factor(id.task.job, id.task.kind, split) * self.draws.attempt_factor(id);
                let ready = self.now + self.cluster.costs.launch;
                let end = ready + map.span(plan, &self.paces[node.0 as usize], locality, factor);
                let place = if map.is_whole(plan) { NONE } else { self.attempts.add(id, node, Run::Map(map)) };
                (Running::new(id, place, ready), end)
            }
            Work::Reduce { start } => self.launch_reduce(id, node, start),
        };
        let was_last = self.nodes[node.0 as usize].enter(id.task.kind, running, end);
        self.expect_report(node.0, end);
        if was_last {
            self.offers.note(node.0, &self.nodes[node.0 as usize], id.task.kind, self.now);
        }
    }

    fn launch_reduce(&mut self, id: AttemptId, node: NodeId, start: Start) -> (Running, Time) {
        let costs = &self.cluster.costs;
        let (done, cost) = match start {
            Start::Fresh => (Done::default(), costs.launch),
            Start::Resumed { from } => (self.take_kept(node, from), costs.launch + costs.resume),
            Start::Migrated { from, node } => (self.take_kept(node, from).migrated(), costs.launch),
        };
        let ready = self.now + cost;
        let place = self.attempts.add(id, node, Run::Reduce(ReduceRun::new(done)));
        let end = if done.fetched < 1.0 {
            self.queue.push(ready, Tick::Launched { attempt: place, version: self.attempts[place].version });
            Time::NEVER
        } else {
            self.sort(place, ready)
        };
        (Running::new(id, place, ready), end)
    }

    fn take_kept(&mut self, node: NodeId, from: AttemptId) -> Done {
        let state = &mut self.nodes[node.0 as usize];
        let Some(kept) = state.take_kept(from) else {
            // The core may not know yet that the node is gone; then there is nothing to move, and all begins again.
            assert!(!state.up, "attempt {from} left nothing on {node} to go on from");
            return Done::default();
        };
        self.jobs[from.task.job.0 as usize].kept -= 1;
        kept.done
    }

    /// A reduce is up and begins to fetch, unless its job ended meanwhile.
    pub(super) fn launched(&mut self, place: u32, version: u32) {
        let attempt = &mut self.attempts[place];
        let pool = self.jobs[attempt.id.task.job.0 as usize].pool;
        if attempt.version != version || pool == NONE {
            return;
        }
        if let Run::Reduce(reduce) = &mut attempt.run {
            reduce.fetch = Some(self.shuffle.begin(self.now, pool, attempt.node, place, reduce.done.fetched));
        }
        self.plan_fetches();
    }

    /// A reduce may have fetched everything.
    pub(super) fn fetched(&mut self, fetch: u32, version: u32) {
        if let Some(place) = self.shuffle.fell_due(self.now, fetch, version) {
            self.shuffle.end(self.now, fetch);
            let (node, end) = (self.attempts[place].node, self.sort(place, self.now));
            let state = &mut self.nodes[node as usize];
            state.set_end(state.at(place), end);
            self.expect_report(node, end);
        }
        self.plan_fetches();
    }

    /// A reduce has everything and sorts from this instant on; returns its end.
    fn sort(&mut self, place: u32, from: Time) -> Time {
        let Attempt { id, node, .. } = self.attempts[place];
        let plan = &self.workload.jobs[id.task.job.0 as usize];
        let factor = self.draws.task_factor(id.task.job, id.task.kind, id.task.index) * self.draws.attempt_factor(id);
        match &mut self.attempts[place].run {
            Run::Reduce(reduce) => reduce.sort(from, plan, &self.cluster.costs, &self.paces[node as usize], factor),
            Run::Map(_) | Run::Stopping(_) => unreachable!("only a reduce at work fetches"),
        }
    }

    /// Sends an order: it travels with the answer to the node's next heartbeat, or to the one that is being answered
    /// now, or where word travels at once.
    fn send(&mut self, node: u32, order: Order, beating: Option<u32>) {
        let state = &self.nodes[node as usize];
        if !state.up {
            return;
        }
        if beating == Some(node) || self.cluster.word == Word::AtOnce {
            self.obey(node, order);
            return;
        }
        self.orders.entry(node).or_default().push(order);
        let at = self.offers.next_beat(node, self.now, state.last_beat);
        self.expect_beat(node, at);
    }

    /// A node receives an order. One for an attempt that has ended comes too late: its end will be reported instead.
    pub(super) fn obey(&mut self, node: u32, order: Order) {
        let Some(at) = self.nodes[node as usize].find(order.attempt) else { return };
        let (Running { place, ready, .. }, end) = self.nodes[node as usize].attempt(at);
        let again = matches!(self.attempts.run(place), Some(Run::Stopping(_)));
        if end <= self.now || (again && order.what != Demand::Kill) {
            return;
        }
        let fetching = self.stop_fetching(place);
        let plan = &self.workload.jobs[order.attempt.task.job.0 as usize];
        let costs = &self.cluster.costs;
        let (stop, cost) = match (order.what, self.attempts.run(place)) {
            (Demand::Pause, Some(Run::Reduce(reduce))) => {
                let done = reduce.done(reduce.done.fetched, end, self.now);
                (Stop::Paused(done), self.pause_cost(plan, node, fetching, done))
            }
            (Demand::EndEarly, None) => self.end_early(plan, &MapRun::whole(plan), ready, end),
            (Demand::EndEarly, Some(Run::Map(part))) => self.end_early(plan, part, ready, end),
            _ => (Stop::Killed, costs.kill),
        };
        let place = if place == NONE {
            self.attempts.add(order.attempt, NodeId(node), Run::Stopping(stop))
        } else {
            let attempt = &mut self.attempts[place];
            attempt.run = Run::Stopping(stop);
            attempt.version += 1;
            place
        };
        self.nodes[node as usize].stop(at, place);
        self.queue.push(self.now + cost, Tick::Stopped { attempt: place, version: self.attempts[place].version });
    }

    fn end_early(&self, plan: &JobPlan, map: &MapRun, ready: Time, end: Time) -> (Stop, Span) {
        let (done_bytes, output_bytes) = map.done(plan, ready, end, self.now);
        (Stop::EndedEarly { done_bytes, output_bytes, bytes: map.bytes() }, self.cluster.costs.end_early)
    }

    /// Pausing writes the index record, and in the shuffle flushes what is in memory (Chronos, section III-C; FCS,
    /// section 3).
    fn pause_cost(&self, plan: &JobPlan, node: u32, fetching: bool, done: Done) -> Span {
        let costs = &self.cluster.costs;
        if !fetching {
            return costs.pause;
        }
        let flush_bytes = (plan.partition_bytes() as f64 * done.fetched).min(costs.pause_flush_bytes as f64);
        costs.pause + Span((flush_bytes / self.paces[node as usize].disk_bytes_per_us).round() as u64)
    }

    /// If the attempt is a reduce that fetches, it stops and remembers how far it has come; true if it was one.
    pub(super) fn stop_fetching(&mut self, place: u32) -> bool {
        let Some(Run::Reduce(reduce)) = self.attempts.run_mut(place) else { return false };
        let Some(fetch) = reduce.fetch.take() else { return false };
        reduce.done.fetched = self.shuffle.end(self.now, fetch);
        self.plan_fetches();
        true
    }

    /// A job is over: all that was kept for it goes. Attempts of it that still run do no more than wait to be killed.
    fn close(&mut self, job: JobId, observer: &mut impl Observer) {
        let place = &mut self.jobs[job.0 as usize];
        let pool = std::mem::replace(&mut place.pool, NONE);
        assert!(pool != NONE, "{job} was closed and is not live");
        let attempts = &mut self.attempts;
        self.shuffle.close(self.now, pool, |orphan| {
            if let Run::Reduce(reduce) = &mut attempts[orphan].run {
                reduce.fetch = None;
            }
        });
        self.plan_fetches();
        if std::mem::take(&mut self.jobs[job.0 as usize].kept) > 0 {
            self.nodes.iter_mut().for_each(|node| node.kept.retain(|kept| kept.from.task.job != job));
        }
        self.totals.jobs_closed += 1;
        observer.closed(self.now, self.totals.jobs_closed, self.workload.jobs.len());
    }
}
