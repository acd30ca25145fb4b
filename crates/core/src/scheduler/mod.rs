//! The scheduler: events in, actions out.
//!
//! [`Scheduler::handle`] applies an event to the state (`job_events.rs`, `attempt_events.rs`, `node_events.rs`, `timers.rs`). If the event
//! requires it, it fills free slots (`assign.rs`) or frees slots for jobs that are entitled to them (`preempt.rs`). `queries.rs` answers
//! questions of backends. Every choice is made by a part of the policy; this module asks the parts, applies their answers to the state,
//! emits the actions and keeps the rankings current.

mod assign;
mod attempt_events;
mod failures;
mod job_events;
mod node_events;
mod node_refusals;
mod preempt;
mod queries;
mod recorded;
mod restore;
mod timers;

pub use node_refusals::NodeRefusals;
pub use queries::{Blocked, JobStatus, KindStatus, MapOutput, NodeStatus, PositionReason, QueuePosition};
pub use recorded::RecordError;

use crate::action::Action;
use crate::event::Event;
use crate::ids::{Kind, PerKind, TaskId};
use crate::policy::matching::Matcher;
use crate::policy::placement::{DelayedJobs, Refusals};
use crate::policy::ranking::{Comparison, Rankings, Visits};
use crate::policy::{Needs, Policy, PolicyState, TaskTimes, View};
use crate::reason::Refusal;
use crate::setup::{Setup, SetupError};
use crate::snapshot::Snapshot;
use crate::state::{JobKey, State};
use crate::timer::Timers;
use crate::units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The scheduler of one cluster.
#[derive(Debug)]
pub struct Scheduler {
    setup: Setup,
    policy: Arc<Policy>,
    needs: Needs,
    now: Time,
    state: State,
    rankings: Rankings,
    /// True if some slots are allocated by groups.
    has_groups: bool,
    delayed: PerKind<DelayedJobs>,
    /// Which nodes the queued jobs refuse, if they refuse slow ones.
    refusals: PerKind<Refusals>,
    matcher: Option<Matcher>,
    users: Vec<String>,
    user_numbers: FxHashMap<String, u32>,
    /// What the policy has learned.
    memory: PolicyState,
    timers: Timers,
    /// When the retry timer has to fire, and the tasks that may run again then.
    retries: BTreeSet<(Time, Option<TaskId>)>,
    rng: Pcg64Mcg,
    /// False while recorded actions are applied: then nothing is decided.
    decides: bool,
}

impl Scheduler {
    /// A scheduler for an empty cluster, if the setup is valid.
    pub fn new(setup: Setup) -> Result<Scheduler, SetupError> {
        setup.check()?;
        let policy = Arc::new(setup.policy.clone());
        Ok(Scheduler {
            needs: policy.needs(),
            now: Time::ZERO,
            state: State::default(),
            rankings: Rankings::new(&policy, &setup.tenants),
            has_groups: Kind::BOTH.iter().any(|&kind| policy.slots(kind).groups.has_groups()),
            delayed: PerKind::default(),
            refusals: PerKind::default(),
            matcher: policy.matching.map(|rules| Matcher::new(rules, &setup.tenants)),
            users: Vec::new(),
            user_numbers: FxHashMap::default(),
            memory: PolicyState {
                task_times: TaskTimes::new(policy.prior, policy.task_start),
                ..PolicyState::default()
            },
            timers: Timers::default(),
            retries: BTreeSet::new(),
            rng: Pcg64Mcg::seed_from_u64(setup.seed),
            decides: true,
            policy,
            setup,
        })
    }

    /// Applies an event that happened at `now` and appends the actions that follow from it. Events must be ordered by time. An event that
    /// contradicts the state changes nothing and is answered by [`Action::Refuse`].
    pub fn handle(&mut self, now: Time, event: &Event, actions: &mut Vec<Action>) {
        if now < self.now {
            actions.push(Action::Refuse { refusal: Refusal::ClockWentBack });
            return;
        }
        self.now = now;
        if let Err(refusal) = self.apply(event, actions) {
            actions.push(Action::Refuse { refusal });
        }
    }

    fn apply(&mut self, event: &Event, out: &mut Vec<Action>) -> Result<(), Refusal> {
        match event {
            Event::SlotsOffered { node, progress } => self.slots_offered(*node, progress, out)?,
            Event::AttemptFinished { attempt, output_bytes } => self.attempt_finished(*attempt, *output_bytes, out)?,
            Event::AttemptPaused { attempt, progress_ppm } => self.attempt_paused(*attempt, *progress_ppm)?,
            Event::AttemptEndedEarly { attempt, done_bytes, output_bytes } => {
                self.attempt_ended_early(*attempt, *done_bytes, *output_bytes, out)?;
            }
            Event::AttemptKilled { attempt } => self.attempt_lost(*attempt)?,
            Event::AttemptFailed { attempt } => self.attempt_failed(*attempt, out)?,
            Event::JobSubmitted(spec) => self.job_submitted(spec, out)?,
            Event::JobKilled { job } => self.job_killed(*job, out)?,
            Event::NodeJoined { node, spec } => self.node_joined(*node, spec)?,
            Event::NodeLost { node } => self.node_lost(*node, out)?,
            Event::MapOutputLost { map } => self.map_output_lost(*map, out)?,
            Event::YieldRequested { attempt } => self.yield_requested(*attempt, out)?,
            Event::TimerFired { timer } => self.timer_fired(*timer, out),
            Event::ProgressReported { progress } => self.set_progress(progress),
            Event::JobOpened(spec) => self.job_opened(spec, out)?,
            Event::SlotsRequested { job, maps, reduces } => {
                self.slots_requested(*job, PerKind::new(*maps, *reduces), out)?;
            }
            Event::SlotGranted { job, kind, node } => self.slot_granted(*job, *kind, *node, out)?,
            Event::JobEnded { job, outcome } => self.job_ended(*job, *outcome, out)?,
            Event::Resynced => self.resynced(),
            Event::StopFailed { attempt } => self.stop_failed(*attempt)?,
            Event::AttemptProtected { attempt } => self.attempt_protected(*attempt)?,
            Event::RecoveryRequested { job, slots } => self.recovery_requested(*job, *slots, out)?,
            Event::PauseLimitSet { node, attempts } => self.pause_limit_set(*node, *attempts)?,
            Event::Restored(snapshot) => self.restored(snapshot, out)?,
            Event::RestoredVersion2(old) => self.restored(&Snapshot::from((**old).clone()), out)?,
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { now: self.now, state: &self.state }
    }

    fn comparison(&self) -> Comparison<'_> {
        Comparison { view: self.view(), policy: &self.policy, rankings: &self.rankings }
    }

    /// Ranks a job again after its counts or estimates changed, and charges its groups for its allocation.
    fn rerank(&mut self, job: JobKey, kind: Kind) {
        let changed = self.state.job_mut(job);
        let allocated = changed.charge(kind);
        // The index of delayed jobs must contain the nodes that are local to returned maps. It does not contain those that keep paused
        // reduces, nor those of maps that may accept any, so a job that has such tasks must not be skipped.
        let must_be_visited = match kind {
            Kind::Map => {
                let placement = &self.policy.map.placement;
                if changed.has_newly_returned_maps() {
                    for split in changed.take_returned_splits().filter(|_| placement.delays_maps()) {
                        split.hosts.iter().for_each(|&host| self.delayed[kind].add_local(job, host));
                    }
                }
                placement.may_accept_any_node(changed)
            }
            Kind::Reduce => !changed.paused().is_empty(),
        };
        if self.has_groups {
            self.charge_groups(job, kind, allocated);
        }
        let view = View { now: self.now, state: &self.state };
        let ranked = self.state.job(job);
        let rank = ranked.needs_slot(kind).then(|| self.policy.rank(view, ranked, kind, 0));
        if let Some(threshold) = self.policy.slots(kind).placement.refuse_slow
            && rank.is_some()
        {
            let refused = self.refusals[kind].of(threshold, job, ranked, kind, self.state.nodes());
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_refused(job, refused));
        }
        self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_rank(job, rank));
        if must_be_visited {
            self.end_delay(job, kind);
        }
    }

    fn rerank_both(&mut self, job: JobKey) {
        Kind::BOTH.into_iter().for_each(|kind| self.rerank(job, kind));
    }

    /// Computes the work ahead of each job that needs a slot, and with it the types of nodes that it refuses.
    fn update_refusals(&mut self, kind: Kind) {
        let placement = &self.policy.slots(kind).placement;
        if placement.refuse_slow.is_none() {
            return;
        }
        let refusals = &mut self.refusals[kind];
        if !refusals.are_current(self.state.nodes()) {
            refusals.follow_types(self.state.nodes());
        }
        if self.state.nodes().types().len() < 2 {
            return;
        }
        let (mut queued, mut ahead_s) = (Vec::new(), 0.0);
        let slots = self.state.nodes().slots()[kind];
        let _ = self.rankings.last(kind).search::<()>(slots, &|_| true, Visits::All, &mut |job| {
            refusals.set_work_ahead(job, ahead_s);
            ahead_s += placement.work_s(self.state.job(job), kind);
            queued.push(job);
            ControlFlow::Continue(())
        });
        queued.into_iter().for_each(|job| self.rerank(job, kind));
    }

    fn charge_groups(&mut self, job: JobKey, kind: Kind, slots: i64) {
        if slots != 0 {
            self.rankings
                .all_mut()
                .filter(|ranking| ranking.counts(kind))
                .for_each(|ranking| ranking.charge(job, slots));
        }
    }

    /// Ends a job's delay: it considers offers of every node again.
    fn end_delay(&mut self, job: JobKey, kind: Kind) {
        if self.delayed[kind].end(job) {
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(job, false));
        }
    }
}
