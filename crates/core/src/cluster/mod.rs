//! The cluster as a policy sees it: facts, and what the policy has learned and computed from them. It follows events and actions and decides nothing.
//!
//! `Cluster::apply` applies an event to the state (`job_events.rs`, `attempt_events.rs`, `node_events.rs`, `failures.rs`, `timers.rs`) and keeps estimates,
//! shares and rankings current. What follows from the event alone is an action at once; what has to be decided is returned as `Decision`s, for the
//! [`Scheduler`](crate::Scheduler). Whoever has recorded actions applies those instead (`recorded.rs`). `queries.rs` answers questions of backends.

mod attempt_events;
mod attempts;
mod failures;
mod job_events;
mod node_events;
mod node_refusals;
mod queries;
mod recorded;
mod restore;
mod timers;

pub use node_refusals::NodeRefusals;
pub use queries::{Blocked, JobStatus, KindStatus, MapOutput, NodeStatus, PositionReason, QueuePosition};
pub use recorded::RecordError;

use crate::action::Action;
use crate::event::Event;
use crate::ids::{Kind, NodeId, PerKind, TaskId};
use crate::policy::matching::Matcher;
use crate::policy::placement::{DelayedJobs, Refusals};
use crate::policy::ranking::{Comparison, Rankings};
use crate::policy::recovery::LostTask;
use crate::policy::{Needs, Policy, PolicyState, TaskTimes, View};
use crate::reason::Refusal;
use crate::setup::{Setup, SetupError};
use crate::state::{Headroom, JobKey, State};
use crate::timer::Timers;
use crate::units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cluster, and the memory of its policy.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) setup: Setup,
    pub(crate) policy: Arc<Policy>,
    pub(crate) needs: Needs,
    pub(crate) now: Time,
    pub(crate) state: State,
    pub(crate) rankings: Rankings,
    /// True if some slots are allocated by groups.
    pub(crate) has_groups: bool,
    pub(crate) delayed: PerKind<DelayedJobs>,
    /// Which nodes the queued jobs refuse, if they refuse slow ones.
    pub(crate) refusals: PerKind<Refusals>,
    pub(crate) matcher: Matcher,
    pub(crate) users: Vec<String>,
    pub(crate) user_numbers: FxHashMap<String, u32>,
    /// What the policy has learned.
    pub(crate) memory: PolicyState,
    pub(crate) timers: Timers,
    /// When the retry timer has to fire, and the tasks that may run again then.
    pub(crate) retries: BTreeSet<(Time, Option<TaskId>)>,
    pub(crate) rng: Pcg64Mcg,
}

/// What has to be decided after an event, in this order.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Which nodes should hold the input of a new job.
    PlaceReplicas(JobKey),
    /// Which tasks get the free slots of a node.
    FillSlots(NodeId),
    /// Which attempts give way to jobs that may take slots of a kind.
    Preempt(Kind),
    /// Where lost tasks run again.
    Recover(Vec<LostTask>),
    /// Where lost tasks that found no slot before run again.
    RecoverAgain,
    /// Which attempts give way to an open job that requests slots for lost work.
    RecoverOpenJob(JobKey),
    /// Which straggling maps end early.
    EndStragglers,
    /// That a job fails, because a task of it failed too often.
    FailJob(JobKey),
    /// When the timers fire.
    SetTimers,
}

pub(crate) type Decisions = SmallVec<[Decision; 2]>;

impl Cluster {
    /// An empty cluster, if the setup is valid.
    pub fn new(setup: Setup) -> Result<Cluster, SetupError> {
        setup.check()?;
        let policy = Arc::new(setup.policy.clone());
        Ok(Cluster {
            needs: policy.needs(),
            now: Time::ZERO,
            state: State::default(),
            rankings: Rankings::new(&policy, &setup.tenants),
            has_groups: Kind::BOTH.iter().any(|&kind| policy.slots(kind).groups.has_groups()),
            delayed: PerKind::default(),
            refusals: PerKind::from_fn(|kind| Refusals::new(&policy.slots(kind).placement)),
            matcher: Matcher::new(policy.matching, &setup.tenants),
            users: Vec::new(),
            user_numbers: FxHashMap::default(),
            memory: PolicyState {
                task_times: TaskTimes::new(policy.prior, policy.task_start),
                ..PolicyState::default()
            },
            timers: Timers::default(),
            retries: BTreeSet::new(),
            rng: Pcg64Mcg::seed_from_u64(setup.seed),
            policy,
            setup,
        })
    }

    /// Applies an event that happened at `now`. Appends the actions that follow from it alone, and what has to be decided.
    pub(crate) fn apply(
        &mut self,
        now: Time,
        event: &Event,
        out: &mut Vec<Action>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        if now < self.now {
            return Err(Refusal::ClockWentBack);
        }
        self.now = now;
        let freed = self.node_of_ending(event);
        match event {
            Event::SlotsOffered { node, progress } => self.slots_offered(*node, progress, due)?,
            Event::AttemptFinished { attempt, output_bytes } => {
                self.attempt_finished(*attempt, *output_bytes, out, due)?;
            }
            Event::AttemptPaused { attempt, progress_ppm } => self.attempt_paused(*attempt, *progress_ppm)?,
            Event::AttemptEndedEarly { attempt, done_bytes, output_bytes } => {
                self.attempt_ended_early(*attempt, *done_bytes, *output_bytes, out, due)?;
            }
            Event::AttemptKilled { attempt } => self.attempt_ended(*attempt)?,
            Event::AttemptLost { attempt } => self.attempt_lost(*attempt, due)?,
            Event::AttemptFailed { attempt } => self.attempt_failed(*attempt, out, due)?,
            Event::JobSubmitted(spec) => self.job_submitted(spec, due)?,
            Event::JobKilled { job } => self.job_killed(*job, out)?,
            Event::NodeJoined { node, spec } => self.node_joined(*node, spec)?,
            Event::NodeLost { node } => self.node_lost(*node, due)?,
            Event::MapOutputLost { map } => self.map_output_lost(*map, due)?,
            Event::YieldRequested { attempt } => self.yield_requested(*attempt, out)?,
            Event::TimerFired { timer } => self.timer_fired(*timer, out, due),
            Event::ProgressReported { progress } => self.set_progress(progress),
            Event::JobOpened(spec) => self.job_opened(spec, due)?,
            Event::SlotsRequested { job, maps, reduces } => {
                self.slots_requested(*job, PerKind::new(*maps, *reduces), due)?;
            }
            Event::SlotGranted { job, kind, node } => self.slot_granted(*job, *kind, *node, out)?,
            Event::JobEnded { job, outcome } => self.job_ended(*job, *outcome, out)?,
            Event::Resynced => self.resynced(),
            Event::StopFailed { attempt } => self.stop_failed(*attempt)?,
            Event::AttemptProtected { attempt } => self.attempt_protected(*attempt)?,
            Event::RecoveryRequested { job, slots } => self.recovery_requested(*job, *slots, due)?,
            Event::PauseLimitSet { node, attempts } => self.pause_limit_set(*node, *attempts)?,
            Event::NodeSlotsSet { node, slots } => self.node_slots_set(*node, *slots, due)?,
            Event::HeadroomSet { job, slots, freed } => {
                self.headroom_set(*job, Headroom { slots: *slots, freed: *freed }, due)?
            }
            Event::NodeDrained { node } => self.node_drained(*node)?,
            Event::NodeIncluded { node } => self.node_included(*node)?,
            Event::Restored(snapshot) => self.restored(snapshot, out)?,
        }
        if let Some(node) = freed
            && self.drop_missing_reservations(node)
        {
            due.push(Decision::Preempt(Kind::Reduce));
        }
        Ok(())
    }

    /// The node where an attempt ends or pauses, for backends that change the number of a node's slots: it may leave none.
    fn node_of_ending(&self, event: &Event) -> Option<NodeId> {
        let (Event::AttemptPaused { attempt, .. }
        | Event::AttemptKilled { attempt }
        | Event::AttemptFinished { attempt, .. }
        | Event::AttemptFailed { attempt }) = event
        else {
            return None;
        };
        let (job, _) = self.state.role(*attempt).filter(|_| self.setup.capabilities.one_slot_pool)?;
        Some(self.state.node_of(job, *attempt))
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { now: self.now, state: &self.state }
    }

    pub(crate) fn comparison(&self) -> Comparison<'_> {
        let slots_stay_in_pool = self.setup.capabilities.slots_stay_in_pool;
        Comparison { view: self.view(), policy: &self.policy, rankings: &self.rankings, slots_stay_in_pool }
    }

    /// Ranks a job again after its counts of a kind changed.
    pub(crate) fn rerank(&mut self, job: JobKey, kind: Kind) {
        self.rank_for(job, kind);
        if kind == Kind::Map && self.needs.running_maps {
            self.rank_for(job, Kind::Reduce);
        }
    }

    /// Ranks a job for slots of a kind by its present counts and estimates, and charges its groups for its allocation.
    pub(super) fn rank_for(&mut self, job: JobKey, kind: Kind) {
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
        let ranks_victims = self.policy.slots(kind).ranks_victims();
        let (needs_slot, is_victim) = (ranked.needs_slot(kind), ranks_victims && ranked.may_lose_slot(kind));
        let rank = (needs_slot || is_victim).then(|| self.policy.rank(view, ranked, kind, 0));
        if ranks_victims {
            self.rankings.set_victim(job, kind, rank.filter(|_| is_victim));
        }
        let rank = rank.filter(|_| needs_slot);
        if rank.is_some() && self.refusals[kind].are_possible() {
            let refused = self.refusals[kind].of(job, ranked, kind, self.state.nodes());
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_refused(job, refused));
        }
        self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_rank(job, rank));
        if must_be_visited {
            self.end_delay(job, kind);
        }
    }

    fn rerank_both(&mut self, job: JobKey) {
        Kind::BOTH.into_iter().for_each(|kind| self.rank_for(job, kind));
    }

    /// Computes the work ahead of each job that needs a slot, and with it the types of nodes that it refuses.
    fn update_refusals(&mut self, kind: Kind) {
        let queued = self.refusals[kind].update(self.rankings.last(kind), kind, &self.state);
        queued.into_iter().for_each(|job| self.rank_for(job, kind));
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
    pub(crate) fn end_delay(&mut self, job: JobKey, kind: Kind) {
        if self.delayed[kind].end(job) {
            self.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(job, false));
        }
    }
}
