//! The run: one clock, one line of things to come, one core to talk to.
//!
//! [`Simulation::step`] takes the next tick and lets it happen; what the core answers is carried out at once or put in
//! line. `beats` is what nodes say (ends of attempts, offers, progress), `deeds` is what the core asks for (launches,
//! orders, closing a job), `outages` is what goes wrong. Nothing in this folder chooses anything.
//!
//! A run ends when every job is over, nothing runs any more and every failure has been noticed. It also ends, with jobs
//! unfinished, when nothing is left that could move it on: a policy may starve a job, but it cannot make the simulator
//! turn for ever.

mod beats;
mod deeds;
mod outages;

use crate::attempts::{Attempts, Order};
use crate::cluster::{Cluster, Word};
use crate::draws::Draws;
use crate::faults::Failures;
use crate::layout::Layout;
use crate::nodes::Node;
use crate::observe::{Observer, Totals};
use crate::offers::Offers;
use crate::queue::{NONE, Queue, Tick};
use crate::ring::Grid;
use crate::shuffle::Shuffle;
use crate::tasks::Pace;
use crate::workload::Workload;
use giveway_core::{
    Action, Capabilities, Event, JobId, Kind, NodeId, Policy, Progress, Scheduler, Setup, SetupError, Span, Time,
    Timers,
};
use rustc_hash::FxHashMap;

/// How long nothing but offers and wakes may happen before a run counts as stuck. Longer than any patience a policy has
/// reason to ask for, short enough to simulate in a moment.
const STUCK_AFTER: Span = Span::from_secs(2 * 3_600);
/// How many rounds of offers must have been in vain besides, for patience may be counted in refusals; but not after
/// this long.
const STUCK_ROUNDS: u64 = 8;
const STUCK_ANYWAY_AFTER: Span = Span::from_secs(24 * 3_600);

/// A cluster, a workload and a policy, in motion.
pub struct Simulation<'a> {
    cluster: &'a Cluster,
    workload: &'a Workload,
    scheduler: Scheduler,
    now: Time,
    queue: Queue,
    draws: Draws,
    layout: Layout,
    failures: Failures,
    paces: Vec<Pace>,
    nodes: Vec<Node>,
    attempts: Attempts,
    shuffle: Shuffle,
    offers: Offers,
    /// Orders on their way, by node.
    orders: FxHashMap<u32, Vec<Order>>,
    /// By job.
    jobs: Vec<Place>,
    timers: Timers,
    /// The tick that was last queued for an expiry.
    timer_tick: Time,
    /// Nodes that have failed without the core knowing.
    silent: usize,
    /// When something last happened that was neither an offer nor a wake, and the offers since.
    stirred: Time,
    offers_since: u64,
    actions: Vec<Action>,
    /// Lent to the core with each report of progress, and taken back.
    progress: Vec<Progress>,
    /// By job: whose progress is to be reported, maps and reduces.
    wanted: Vec<[bool; 2]>,
    begun: bool,
    /// Whether the core has been told anything in this tick, and whether anything but offers and progress.
    was_told: bool,
    has_news: bool,
    /// Whether the core could use slots of each kind after the last tick.
    has_pending: [bool; 2],
    /// Who offers first where all do.
    first_to_offer: u32,
    totals: Totals,
}

/// What is remembered of a job while it is live; a few bytes once it is over.
#[derive(Clone, Copy)]
struct Place {
    /// Its pool of map output; none if it is not live.
    pool: u32,
    /// How many of its reduces have left something on a node.
    kept: u32,
}

impl<'a> Simulation<'a> {
    /// Joins a cluster, a workload and a policy, if the policy makes sense for them.
    pub fn new(
        cluster: &'a Cluster,
        workload: &'a Workload,
        policy: Policy,
        seed: u64,
    ) -> Result<Simulation<'a>, SetupError> {
        let tenants = workload.tenants.clone();
        let scheduler = Scheduler::new(Setup { policy, tenants, capabilities: Capabilities::ALL, seed })?;
        let draws = Draws::new(cluster, seed);
        let mut queue = Queue::new(cluster.heartbeat);
        if let Some(first) = workload.jobs.first() {
            queue.push(first.submit, Tick::Arrival);
        }
        Ok(Simulation {
            scheduler,
            now: Time::ZERO,
            draws,
            layout: Layout::new(cluster),
            failures: Failures::new(cluster, &draws, &mut queue),
            queue,
            paces: Pace::of_nodes(cluster),
            nodes: cluster.nodes.iter().map(|node| Node::new(&node.spec)).collect(),
            attempts: Attempts::default(),
            shuffle: Shuffle::new(cluster),
            offers: Offers::new(Grid::new(cluster), cluster.nodes.len()),
            orders: FxHashMap::default(),
            jobs: vec![Place { pool: NONE, kept: 0 }; workload.jobs.len()],
            timers: Timers::default(),
            timer_tick: Time::NEVER,
            silent: 0,
            stirred: Time::ZERO,
            offers_since: 0,
            actions: Vec::new(),
            progress: Vec::new(),
            wanted: Vec::new(),
            begun: false,
            was_told: false,
            has_news: false,
            has_pending: [false; 2],
            first_to_offer: 0,
            totals: Totals::default(),
            cluster,
            workload,
        })
    }

    /// Runs to the end.
    pub fn run(&mut self, observer: &mut impl Observer) -> Totals {
        while self.step(observer) {}
        self.totals()
    }

    /// Lets the next thing happen; false if nothing is left to happen.
    pub fn step(&mut self, observer: &mut impl Observer) -> bool {
        if !self.begun {
            self.begun = true;
            self.join_all(observer);
        }
        if self.is_over() {
            return false;
        }
        let Some((at, tick)) = self.queue.pop() else { return false };
        self.now = at.max(self.now);
        self.totals.ticks += 1;
        if tick.stirs() {
            (self.stirred, self.offers_since) = (self.now, 0);
        }
        self.happen(tick, observer);
        if std::mem::take(&mut self.has_news) && self.cluster.word == Word::AtOnce {
            self.offer_everywhere(observer);
        }
        if std::mem::take(&mut self.was_told) {
            self.has_pending = [self.scheduler.has_pending(Kind::Map), self.scheduler.has_pending(Kind::Reduce)];
        }
        self.offers.arm(self.now, self.has_pending, &self.nodes, &mut self.queue);
        true
    }

    /// What the run has come to so far.
    pub fn totals(&self) -> Totals {
        Totals { jobs_unfinished: self.workload.jobs.len() - self.totals.jobs_closed, ..self.totals }
    }

    /// The core, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The virtual clock.
    pub fn now(&self) -> Time {
        self.now
    }

    fn is_over(&self) -> bool {
        if self.totals.jobs_closed == self.workload.jobs.len() {
            return self.silent == 0 && self.nodes.iter().all(|node| node.is_idle());
        }
        let quiet = self.now.since(self.stirred);
        let patience_over = self.offers_since > STUCK_ROUNDS * self.nodes.len() as u64 || quiet > STUCK_ANYWAY_AFTER;
        !self.queue.stirs() && quiet > STUCK_AFTER && patience_over
    }

    fn happen(&mut self, tick: Tick, observer: &mut impl Observer) {
        match tick {
            Tick::Beat { node } => self.beat_if_news(node, observer),
            Tick::Offer { node, version } => self.offer(node, version, observer),
            Tick::Fetched { fetch, version } => self.fetched(fetch, version),
            Tick::Launched { attempt, version } => self.launched(attempt, version),
            Tick::Stopped { attempt, version } => self.stopped(attempt, version, observer),
            Tick::Arrival => self.arrive(observer),
            Tick::Timers => self.timers_expired(observer),
            Tick::Failure { node, fault } => self.fail(node, fault),
            Tick::Loss { node, outage } => self.lose(node, outage, observer),
            Tick::Return { node, outage } => self.come_back(node, outage, observer),
        }
    }

    /// Tells the core and carries out its answer. `beating` is the node whose heartbeat this is part of: orders for it
    /// travel back with the answer to that very heartbeat.
    fn tell(&mut self, event: &Event, beating: Option<u32>, observer: &mut impl Observer) {
        let mut actions = std::mem::take(&mut self.actions);
        self.scheduler.handle(self.now, event, &mut actions);
        self.totals.events += 1;
        self.was_told = true;
        self.has_news |= !matches!(event, Event::SlotsOffered { .. } | Event::ProgressReported { .. });
        self.totals.end = self.now;
        observer.saw(self.now, event, &actions);
        for action in &actions {
            self.carry_out(action, beating, observer);
        }
        actions.clear();
        self.actions = actions;
    }

    fn join_all(&mut self, observer: &mut impl Observer) {
        for node in 0..self.nodes.len() as u32 {
            self.join(node, observer);
        }
    }

    fn join(&mut self, node: u32, observer: &mut impl Observer) {
        let spec = self.cluster.nodes[node as usize].spec.clone();
        self.tell(&Event::NodeJoined { node: NodeId(node), spec }, None, observer);
        self.note_free(node);
    }

    fn note_free(&mut self, node: u32) {
        for kind in Kind::BOTH {
            self.offers.note(node, &self.nodes[node as usize], kind, self.now);
        }
    }

    /// The next job arrives, and the one after it gets in line.
    fn arrive(&mut self, observer: &mut impl Observer) {
        let plan = &self.workload.jobs[self.totals.jobs_submitted];
        assert!(plan.id == JobId(self.totals.jobs_submitted as u32), "jobs are numbered by arrival");
        self.totals.jobs_submitted += 1;
        if let Some(next) = self.workload.jobs.get(self.totals.jobs_submitted) {
            self.queue.push(next.submit.max(self.now), Tick::Arrival);
        }
        let spec = self.layout.spec(self.cluster, self.workload, plan, &self.draws);
        let output_bytes = plan.map_output_bytes.saturating_mul(u64::from(plan.maps));
        let maps = if plan.reduces > 0 { plan.maps } else { 0 };
        self.jobs[plan.id.0 as usize].pool = self.shuffle.open(maps, output_bytes, plan.reduces);
        let live = self.totals.jobs_submitted - self.totals.jobs_closed;
        self.totals.jobs_live_max = self.totals.jobs_live_max.max(live);
        self.tell(&Event::JobSubmitted(Box::new(spec)), None, observer);
    }

    fn timers_expired(&mut self, observer: &mut impl Observer) {
        let mut expired = self.timers.expire(self.now);
        if expired.is_some() && self.scheduler.needs_progress() {
            // Most jobs have finished enough tasks to be judged by those: asking them would only cost time.
            let mut wanted = std::mem::take(&mut self.wanted);
            wanted.clear();
            wanted.resize(self.totals.jobs_submitted, [false; 2]);
            for (_, job) in self.scheduler.state().live() {
                wanted[job.id.0 as usize] = Kind::BOTH.map(|kind| self.scheduler.needs_progress_of(job.id, kind));
            }
            self.report_progress(|whose| wanted[whose.job().0 as usize][whose.kind().index()], observer);
            self.wanted = wanted;
        }
        while let Some(timer) = expired {
            self.tell(&Event::TimerFired { timer }, None, observer);
            expired = self.timers.expire(self.now);
        }
    }
}
