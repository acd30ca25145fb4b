//! The loop: events in, actions out.
//!
//! [`Scheduler::handle`] first takes the news in (`news.rs`, `losses.rs`), then, where the event gives occasion, fills free slots (`offer.rs`), frees slots
//! for those who are owed them (`demand.rs`), brings lost work back (`recover.rs`) or renews what is believed (`renew.rs`). A body that grants slots itself
//! tells what it did (`grants.rs`) and asks for the order of jobs. Every choice is asked of the policy's parts; this folder only carries questions and
//! answers.

mod demand;
mod grants;
mod losses;
mod news;
mod offer;
mod recover;
mod renew;

use crate::action::{Action, Refusal};
use crate::event::Event;
use crate::ids::{JobId, Kind, NodeId};
use crate::policy::estimate::FINISHED_ENOUGH;
use crate::policy::matching::Matcher;
use crate::policy::order::{self, HoldingOut, Limits, Ranking, Stage};
use crate::policy::{Fallback, GroupOrder, JobOrder, Policy, Prior, SlotPolicy};
use crate::setup::{Setup, SetupError};
use crate::state::{JobIx, State};
use crate::units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use renew::Level;
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The brain of one cluster.
#[derive(Debug)]
pub struct Scheduler {
    setup: Setup,
    policy: Arc<Policy>,
    now: Time,
    state: State,
    /// For each kind of slot, the lines in which jobs wait for it; all but COSHH have one.
    lines: [Vec<Ranking>; 2],
    /// Whether some line counts the slots of its groups.
    counts_held: bool,
    matcher: Option<Matcher>,
    users: Vec<String>,
    user_of: FxHashMap<String, u32>,
    /// Mean task times of the live jobs at the last renewal.
    averages: Prior,
    /// How far the slots of each kind went at the last renewal.
    levels: [Level; 2],
    /// When the core asked to be woken, if it did.
    wake: Option<Time>,
    /// Tasks that lag behind and may get a second attempt.
    laggards: Vec<(JobId, Kind, u32)>,
    random: Pcg64Mcg,
}

impl Scheduler {
    /// A scheduler for an empty cluster, if the setup makes sense.
    pub fn new(setup: Setup) -> Result<Scheduler, SetupError> {
        setup.check()?;
        let policy = Arc::new(setup.policy.clone());
        let lines = Kind::BOTH.map(|kind| {
            let stages = Stage::of(policy.slot_policy(kind).groups);
            stages.iter().map(|&stage| Ranking::new(stage, kind, &setup.tenants)).collect()
        });
        Ok(Scheduler {
            now: Time::ZERO,
            state: State::default(),
            counts_held: Kind::BOTH.iter().any(|kind| policy.slot_policy(*kind).groups != GroupOrder::Flat),
            lines,
            matcher: policy.matching.map(Matcher::new),
            users: Vec::new(),
            user_of: FxHashMap::default(),
            averages: policy.prior,
            levels: Default::default(),
            wake: None,
            laggards: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(setup.seed),
            policy,
            setup,
        })
    }

    /// Takes in what happened at `now` and appends what to do. Events come in the order of time.
    pub fn handle(&mut self, now: Time, event: &Event, actions: &mut Vec<Action>) {
        if now < self.now {
            actions.push(Action::Refuse { refusal: Refusal::ClockWentBack });
            return;
        }
        self.now = now;
        if let Err(refusal) = self.take_in(event, actions) {
            actions.push(Action::Refuse { refusal });
        }
    }

    fn take_in(&mut self, event: &Event, out: &mut Vec<Action>) -> Result<(), Refusal> {
        match event {
            Event::SlotsOffered { node, progress } => self.node_beat(*node, progress, out),
            Event::AttemptFinished { attempt, output_bytes } => self.attempt_finished(*attempt, *output_bytes, out),
            Event::AttemptPaused { attempt, progress_ppm } => self.attempt_paused(*attempt, *progress_ppm, out),
            Event::AttemptEndedEarly { attempt, done_bytes, output_bytes } => {
                self.attempt_ended_early(*attempt, *done_bytes, *output_bytes, out)
            }
            Event::AttemptKilled { attempt } => self.attempt_over(*attempt, false, out),
            Event::AttemptFailed { attempt } => self.attempt_over(*attempt, true, out),
            Event::JobSubmitted(spec) => self.job_submitted(spec, out),
            Event::JobKilled { job } => self.job_killed(*job, out),
            Event::NodeJoined { node, spec } => self.node_joined(*node, spec),
            Event::NodeLost { node } => self.node_lost(*node, out),
            Event::MapOutputLost { map } => self.output_lost(*map, out),
            Event::YieldRequested { attempt } => self.yield_requested(*attempt, out),
            Event::TimerFired { .. } => {
                self.woke(out);
                Ok(())
            }
            Event::ProgressReported { progress } => {
                self.note_progress(progress);
                Ok(())
            }
            Event::JobOpened(spec) => self.job_opened(spec, out),
            Event::SlotsRequested { job, maps, reduces } => self.tasks_asked(*job, [*maps, *reduces], out),
            Event::SlotGranted { job, kind, node } => self.slot_taken(*job, *kind, *node, out),
            Event::JobEnded { job, outcome } => self.job_ended(*job, *outcome, out),
            Event::Resynced => {
                self.resynced(out);
                Ok(())
            }
        }
    }

    /// What it was made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The facts, to look at.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// COSHH's classes and suggestions, under a policy that matches.
    pub fn matcher(&self) -> Option<&Matcher> {
        self.matcher.as_ref()
    }

    /// True if some task of this kind waits that an offered slot might take. While it is false, a beat without news changes nothing.
    pub fn has_pending(&self, kind: Kind) -> bool {
        self.lines[kind.ix()].iter().any(|line| !line.is_empty())
            || self.state.claims[kind.ix()] > 0
            || self.laggards.iter().any(|&(_, lagging, _)| lagging == kind)
    }

    /// True if progress is used at all: then it should be reported before each `TimerFired`, where it is wanted.
    pub fn wants_progress(&self) -> bool {
        self.policy.compares_attempts() || self.policy.uses_remaining_time()
    }

    /// True if the progress of this job's attempts of a kind is of use now. Reporting more does no harm.
    pub fn wants_progress_of(&self, job: JobId, kind: Kind) -> bool {
        if self.policy.compares_attempts() {
            return true;
        }
        let Some(job) = self.state.find(job).map(|jx| self.state.job(jx)) else { return false };
        let is_telling = kind == Kind::Map || job.maps_done();
        self.policy.uses_remaining_time() && is_telling && job.facts(kind).finished < FINISHED_ENOUGH
    }

    /// The jobs that wait for a slot of this kind on this node, first to be served first: the order, without binding any task.
    pub fn rank(&self, kind: Kind, node: NodeId) -> Vec<JobId> {
        let profile = self.state.up(node).map_or(0, |node| node.profile);
        let mut jobs = Vec::new();
        for pass in 0..self.passes() {
            let line = line_of_pass(&self.lines[kind.ix()], pass);
            let allow = allows(self.matcher.as_ref(), profile, pass);
            let _ = line.walk::<()>(&self.limits(kind), &allow, HoldingOut::All, &mut |jx| {
                let id = self.state.job(jx).id;
                if !jobs.contains(&id) {
                    jobs.push(id);
                }
                ControlFlow::Continue(())
            });
        }
        jobs
    }

    /// How often an offer goes along a line: COSHH's routing has two stages, and a third pass takes the next best.
    fn passes(&self) -> usize {
        match &self.matcher {
            None => 1,
            Some(matcher) if matcher.rules().otherwise == Fallback::Strict => 2,
            Some(_) => 3,
        }
    }

    fn slot_policy(&self, kind: Kind) -> &SlotPolicy {
        self.policy.slot_policy(kind)
    }

    fn limits(&self, kind: Kind) -> Limits {
        Limits { slots: self.state.slots[kind.ix()] }
    }

    /// The line in whose terms jobs are compared: the last stage, which all jobs go through.
    fn line(&self, kind: Kind) -> &Ranking {
        self.lines[kind.ix()].last().expect("every lane has a line")
    }

    /// A job's facts changed: tells its groups what it holds and puts it where it now belongs.
    fn touch(&mut self, jx: JobIx, kind: Kind) {
        let order = self.policy.slot_policy(kind).order;
        let job = self.state.jobs[jx as usize].as_mut().expect("a job index outlived its job");
        let has_node_of_its_own = job.waiting_maps.has_returned() || !job.paused.is_empty();
        let held = job.facts(kind).held();
        let more = i64::from(held) - i64::from(job.facts(kind).counted);
        job.facts[kind.ix()].counted = held;
        let rank = job.wants(kind).then(|| order::job_rank(order, job, kind, 0));
        if self.counts_held {
            self.count_held(jx, kind, more);
        }
        self.lines[kind.ix()].iter_mut().for_each(|line| line.place(jx, rank));
        if has_node_of_its_own {
            self.ask_again(jx, kind);
        }
    }

    /// A job's slots of a kind became more or fewer: tells every line that counts them.
    fn count_held(&mut self, jx: JobIx, kind: Kind, more: i64) {
        if more != 0 {
            let lines = self.lines.iter_mut().flatten().filter(|line| line.counts(kind));
            lines.for_each(|line| line.held_changed(jx, more));
        }
    }

    /// A job takes nothing but a good node until then; this one was not good.
    fn hold_out(&mut self, jx: JobIx, kind: Kind, node: NodeId, until: Time) {
        self.state.holdouts[kind.ix()].hold_out(jx, node, until);
        self.lines[kind.ix()].iter_mut().for_each(|line| line.hold_out(jx, true));
    }

    /// A job no longer holds out: every node asks it again.
    fn ask_again(&mut self, jx: JobIx, kind: Kind) {
        self.state.holdouts[kind.ix()].ask_again(jx);
        self.lines[kind.ix()].iter_mut().for_each(|line| line.hold_out(jx, false));
    }

    /// True if `a` may take a slot from `b`: it would still stand before `b` afterwards.
    fn may_take(&self, a: JobIx, b: JobIx, kind: Kind) -> bool {
        let order: JobOrder = self.slot_policy(kind).order;
        let rank = |jx: JobIx, more| (jx, order::job_rank(order, self.state.job(jx), kind, more));
        a != b && self.line(kind).stays_before(rank(a, 1), rank(b, -1), &self.limits(kind))
    }
}

// Functions of their own, so that jobs may be changed while what they give is in use.

/// The line an offer goes along in a pass: COSHH's third pass goes along the line of its second stage again.
fn line_of_pass(lines: &[Ranking], pass: usize) -> &Ranking {
    &lines[pass.min(lines.len() - 1)]
}

/// Which groups a node of this type may serve in a pass: under COSHH those of the classes it was suggested.
fn allows(matcher: Option<&Matcher>, profile: u16, pass: usize) -> impl Fn(&order::Group) -> bool {
    move |group| match (matcher, group.classes) {
        (Some(matcher), Some(classes)) if pass < 2 => matcher.suggests(pass, profile, classes[pass]),
        _ => true,
    }
}
