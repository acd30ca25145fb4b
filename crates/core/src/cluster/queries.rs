//! Queries for backends and reports. They read the state and change nothing.

use super::Cluster;
use crate::event::{NodeSpec, Progress};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::policy::estimates;
use crate::policy::matching::{Matcher, Routing};
use crate::policy::ranking::Visits;
use crate::reason::{RankReason, SlowNode};
use crate::setup::Setup;
use crate::state::{Exclusion, Job, JobKey, State, TaskState};
use crate::units::{Span, Time, WHOLE_PPM};
use rustc_hash::FxHashSet;
use std::fmt;
use std::ops::ControlFlow;

/// The status of a live job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// True once the job has ended and only waits for its last attempts to leave their slots.
    pub closed: bool,
    /// Its maps and its reduces.
    pub tasks: PerKind<KindStatus>,
}

/// Counts over a job's tasks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KindStatus {
    /// All tasks; of an open job, those known so far.
    pub total: u32,
    /// Finished tasks.
    pub done: u32,
    /// Finished whole tasks; parts of maps that ended early do not count.
    pub finished: u32,
    /// Tasks that hold a slot.
    pub running: u32,
    /// Of the running tasks, those requested to stop.
    pub stopping: u32,
    /// Paused tasks.
    pub paused: u32,
    /// Tasks that need a slot.
    pub pending: u32,
    /// Slots it is entitled to under the policy's share; zero if the policy has none.
    pub fair_share: f64,
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus<'a> {
    /// Its id.
    pub id: NodeId,
    /// Its slots, speed and disk.
    pub spec: &'a NodeSpec,
    /// False after a loss.
    pub up: bool,
    /// Slots in use, by kind.
    pub used: PerKind<u16>,
    /// Free slots, by kind.
    pub free: PerKind<u16>,
    /// Reduces paused there.
    pub paused: u32,
    /// Its exclusion, if it gets no tasks because it failed those of several jobs or is drained.
    pub excluded: Option<Exclusion>,
}

/// The output of a finished map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOutput {
    /// The attempt that wrote it.
    pub attempt: AttemptId,
    /// The node that stores it.
    pub node: NodeId,
    /// Index of the split in the job's input.
    pub split: u32,
    /// First mapped byte of the split.
    pub start_bytes: u64,
    /// Number of mapped bytes.
    pub bytes: u64,
}

/// Why pending tasks of a job do not run.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocked {
    /// Reduces wait until this many maps are done (slow start).
    SlowStart {
        /// Maps that must be done.
        maps: u32,
    },
    /// No node with slots of the kind is up.
    NoSlots,
    /// The job waits for a slot; one entry per type of node if the policy tells them apart.
    Queued(Vec<QueuePosition>),
    /// Slots are reserved for all its pending tasks, or its pool or queue may not grow.
    NotQueued,
    /// All its pending tasks have failed before and wait before a retry.
    BackingOff {
        /// When the first of them may run again.
        until: Time,
    },
}

/// A job's position among the jobs that need a slot of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuePosition {
    /// A node of the type that the position is for.
    pub node: NodeId,
    /// The jobs that come before it, first to be served first.
    pub ahead: Vec<JobId>,
    /// What it is ranked by, and whether it refuses the node.
    pub reason: PositionReason,
}

/// Why a job has its position, and why it may not use it.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionReason {
    /// What it is ranked by.
    pub rank: RankReason,
    /// The times compared, if it leaves nodes of this type to others because they are slow.
    pub refused: Option<SlowNode>,
}

impl fmt::Display for PositionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rank.fmt(f)?;
        self.refused.map_or(Ok(()), |refused| write!(f, "; {refused}"))
    }
}

// The cluster.
impl Cluster {
    /// The setup it was made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The state, for tests and tools. Backends use the other queries.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// COSHH's classes and suggestions, under a policy that matches jobs to nodes.
    pub fn matcher(&self) -> Option<&Matcher> {
        Some(&self.matcher).filter(|matcher| matcher.is_used())
    }

    /// Number of nodes that have ever joined; their ids are below it.
    pub fn node_count(&self) -> usize {
        self.state.nodes().len()
    }

    /// All nodes that have ever joined, by id.
    pub fn nodes(&self) -> impl Iterator<Item = NodeStatus<'_>> {
        self.state.nodes().iter().map(|(id, node)| NodeStatus {
            id,
            spec: node.spec(),
            up: node.is_up(),
            used: PerKind::from_fn(|kind| node.running(kind).len() as u16),
            free: PerKind::from_fn(|kind| node.free(kind)),
            paused: node.paused().len() as u32,
            excluded: node.exclusion().copied(),
        })
    }

    /// A node, if it is up.
    pub fn node_up(&self, node: NodeId) -> Option<&NodeSpec> {
        self.state.nodes().up(node).map(|node| node.spec())
    }

    /// Free slots of a node, by kind; none if it is down.
    pub fn free_slots(&self, node: NodeId) -> PerKind<u16> {
        self.state.nodes().up(node).map_or(PerKind::default(), |node| PerKind::from_fn(|kind| node.free(kind)))
    }

    /// Free and all slots of a kind, of the nodes that are up.
    pub fn slots(&self, kind: Kind) -> (u32, u32) {
        (self.state.nodes().free()[kind], self.state.nodes().slots()[kind])
    }

    /// True if some pending or straggling task of a kind might use an offered slot. While it is false for both kinds, an offer without
    /// progress changes nothing.
    pub fn has_pending(&self, kind: Kind) -> bool {
        self.rankings.stages(kind).iter().any(|ranking| !ranking.is_empty())
            || self.state.nodes().reservations()[kind] > 0
            || !self.memory.stragglers[kind].is_empty()
    }

    /// True if the policy uses progress. Then backends report it before each timer fires, for the jobs and kinds for which
    /// [`Cluster::needs_progress_of`] is true.
    pub fn needs_progress(&self) -> bool {
        self.needs.progress()
    }

    /// The time without a heartbeat after which a node is lost: the backend's own, or the policy's if that is shorter.
    pub fn node_expiry(&self, of_backend: Span) -> Span {
        self.policy.node_expiry.map_or(of_backend, |expiry| expiry.min(of_backend))
    }

    /// True if the progress of this job's attempts of a kind is used now. Reporting more does no harm.
    pub fn needs_progress_of(&self, job: JobId, kind: Kind) -> bool {
        if self.needs.attempt_progress {
            return true;
        }
        let Some(job) = self.find(job) else { return false };
        self.needs.remaining_time && estimates::reads_progress(job, kind)
    }

    /// True if this progress says much that is new of how long the maps of a job take: none has finished, and the attempt is twice as far as was last reported.
    pub fn is_early_progress(&self, progress: &Progress) -> bool {
        let task = progress.attempt.task;
        let Some(job) = self.find(task.job).filter(|_| task.kind == Kind::Map) else { return false };
        let reported_ppm = job.task(task.key()).progress_ppm();
        job.counts(Kind::Map).finished == 0 && progress.progress_ppm >= (2 * reported_ppm).max(WHOLE_PPM / 100)
    }
}

// Jobs.
impl Cluster {
    fn find(&self, job: JobId) -> Option<&Job> {
        self.state.find(job).map(|key| self.state.job(key))
    }

    /// Number of live jobs. A job is live until its last attempt has left its slot.
    pub fn live_job_count(&self) -> usize {
        self.state.jobs().len()
    }

    /// The live jobs that have not ended.
    pub fn running_jobs(&self) -> impl Iterator<Item = JobId> {
        self.state.jobs().iter().filter(|(_, job)| !job.is_closed()).map(|(_, job)| job.id())
    }

    /// True if a job is live and has not ended.
    pub fn is_running(&self, job: JobId) -> bool {
        self.find(job).is_some_and(|job| !job.is_closed())
    }

    /// The status of a live job.
    pub fn job_status(&self, job: JobId) -> Option<JobStatus> {
        let job = self.find(job)?;
        let tasks = PerKind::from_fn(|kind| {
            let counts = job.counts(kind);
            KindStatus {
                total: job.total(kind),
                done: counts.done,
                finished: counts.finished,
                running: counts.running.len() as u32,
                stopping: counts.stopping,
                paused: counts.paused,
                pending: counts.pending,
                fair_share: counts.fair_share,
            }
        });
        Some(JobStatus { closed: job.is_closed(), tasks })
    }

    /// The outputs of a live job's finished maps that are not lost.
    pub fn map_outputs(&self, job: JobId) -> Vec<MapOutput> {
        let Some(job) = self.find(job) else { return Vec::new() };
        let maps = (0..job.task_end(Kind::Map)).filter(|&map| !job.has_lost_output(map));
        maps.filter_map(|map| map_output(job, map)).collect()
    }

    /// The output of one map attempt of a live job.
    pub fn map_output(&self, attempt: AttemptId) -> Option<MapOutput> {
        map_output(self.find(attempt.task.job)?, attempt.task.index).filter(|output| output.attempt == attempt)
    }

    /// Why a live job's pending tasks of a kind do not run; none if there are none.
    pub fn blocked(&self, job: JobId, kind: Kind) -> Option<Blocked> {
        let key = self.state.find(job)?;
        let live = self.state.job(key);
        if live.counts(kind).pending + live.counts(kind).paused == 0 {
            return None;
        }
        if !live.may_start(kind) {
            return Some(Blocked::SlowStart { maps: live.slowstart_maps() });
        }
        if self.state.nodes().slots()[kind] == 0 {
            return Some(Blocked::NoSlots);
        }
        if live.counts(kind).backing_off == live.counts(kind).pending + live.counts(kind).paused
            && let Some(until) = live.next_retry(kind)
        {
            return Some(Blocked::BackingOff { until });
        }
        let positions: Vec<QueuePosition> = self
            .policy
            .distinct_nodes(&self.matcher, &self.state)
            .into_iter()
            .filter_map(|node| self.queue_position(key, kind, node))
            .collect();
        Some(if positions.is_empty() { Blocked::NotQueued } else { Blocked::Queued(positions) })
    }

    fn queue_position(&self, key: JobKey, kind: Kind, node: NodeId) -> Option<QueuePosition> {
        let job = self.state.job(key);
        let mut ahead = self.rank(kind, node);
        ahead.truncate(ahead.iter().position(|&other| other == job.id())?);
        let routing = Routing::new(&self.matcher, node);
        let ranking = self.rankings.last(kind);
        let reason = RankReason {
            group: ranking.group_reason(key, self.state.nodes().slots()[kind]),
            measure: self.policy.measure(self.view(), job, kind),
            node_match: routing.node_match(1, job),
        };
        let placement = &self.policy.slots(kind).placement;
        let ahead_s = self.refusals[kind].work_ahead_s(key);
        let refused = placement.refuses(job, key, kind, node, self.state.nodes(), ahead_s);
        Some(QueuePosition { node, ahead, reason: PositionReason { rank: reason, refused } })
    }
}

// Orders.
impl Cluster {
    /// The jobs that need a slot of a kind on a node, first to be served first. No task is bound.
    pub fn rank(&self, kind: Kind, node: NodeId) -> Vec<JobId> {
        let routing = Routing::new(&self.matcher, node);
        let mut jobs = Vec::new();
        let mut seen = FxHashSet::default();
        for pass in 0..routing.passes(self.rankings.stages(kind)) {
            let ranking = routing.ranking(self.rankings.stages(kind), pass);
            let allow = |group: &_| routing.allows(pass, group);
            let slots = self.state.nodes().slots()[kind];
            let _ = ranking.search::<()>(slots, &allow, Visits::All, &mut |job| {
                let id = self.state.job(job).id();
                if seen.insert(id) {
                    jobs.push(id);
                }
                ControlFlow::Continue(())
            });
        }
        jobs
    }

    /// The jobs that need a slot of either kind, first to be served first, for a backend whose slots have no kind. Merges the rankings of
    /// both kinds: by rank if both have the same order and groups, otherwise by position, maps first.
    pub fn rank_jobs(&self) -> Vec<JobId> {
        let [maps, reduces] = Kind::BOTH.map(|kind| self.ranked(kind));
        let (map, reduce) = (&self.policy.map, &self.policy.reduce);
        let alike = (&map.order, map.groups) == (&reduce.order, reduce.groups);
        let comparison = self.comparison();
        let (mut next_map, mut next_reduce) = (0, 0);
        let mut jobs = Vec::new();
        let mut seen = FxHashSet::default();
        loop {
            let map_first = match (maps.get(next_map), reduces.get(next_reduce)) {
                (Some(&map), Some(&reduce)) if alike => {
                    comparison.standing(map, Kind::Map) <= comparison.standing(reduce, Kind::Reduce)
                }
                (Some(_), Some(_)) => next_map <= next_reduce,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let (list, next) = if map_first { (&maps, &mut next_map) } else { (&reduces, &mut next_reduce) };
            let id = self.state.job(list[*next]).id();
            *next += 1;
            if seen.insert(id) {
                jobs.push(id);
            }
        }
        // A backend that grants slots by this ranking must grant those that were freed for a job to that job, and lost work comes before all.
        let is_reserved = |job: &Job| Kind::BOTH.iter().any(|&kind| job.counts(kind).reserved > 0);
        let unlisted = self.state.jobs().iter().filter(|(_, job)| is_reserved(job) && !seen.contains(&job.id()));
        let mut unlisted: Vec<JobId> = unlisted.map(|(_, job)| job.id()).collect();
        unlisted.sort_unstable();
        jobs.extend(unlisted);
        let recovers = self.policy.recovery.is_immediate();
        jobs.sort_by_cached_key(|&job| {
            let job = self.find(job);
            let lost = recovers && job.is_some_and(|job| job.recovering() > 0);
            (!lost, !job.is_some_and(is_reserved))
        });
        jobs
    }

    pub(crate) fn ranked(&self, kind: Kind) -> Vec<JobKey> {
        let mut jobs = Vec::new();
        let slots = self.state.nodes().slots()[kind];
        let _ = self.rankings.last(kind).search::<()>(slots, &|_| true, Visits::All, &mut |job| {
            jobs.push(job);
            ControlFlow::Continue(())
        });
        jobs
    }
}

fn map_output(job: &Job, map: u32) -> Option<MapOutput> {
    let key = TaskKey::map(map);
    let task = job.find_task(key).filter(|task| task.state() == TaskState::Done)?;
    Some(MapOutput {
        attempt: job.attempt(key),
        node: task.node(),
        split: task.split(),
        start_bytes: job.map_start_bytes(map),
        bytes: job.map_bytes(map),
    })
}
