//! Placement: which task of a job runs on a node that offers a slot, or whether the job waits for a better offer.
//!
//! Maps run near their input (`delay.rs`: delay scheduling), reduces near their job's maps (`colocation.rs`), paused reduces on the node that
//! keeps their state (`migration.rs`). Jobs may leave slow nodes to others (`refuse_slow.rs`).
//!
//! A job is passed mutably, but placement changes only what it keeps with the job itself: since when it is delayed, and how many offers it has
//! refused. (Searching a job's pending maps also drops launched ones from the index.)

mod colocation;
mod delay;
mod delayed_jobs;
mod migration;
mod node_filter;
mod refuse_slow;

pub use delay::nearest_map;
pub use delayed_jobs::DelayedJobs;
pub use migration::{Migration, refusals_before_migration};
pub use node_filter::{CustomNodeFilter, NodeFilter};
pub use refuse_slow::waiting_work_s;
pub use refuse_slow::{Refusals, task_time_s};

use crate::action::Locality;
use crate::ids::{Kind, NodeId, TaskKey};
use crate::policy::Needs;
use crate::policy::custom::Custom;
use crate::reason::SlowNode;
use crate::state::bit_set::BitSet;
use crate::state::{Job, JobKey, NodeTable};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Which task of a job runs on which node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Placement {
    /// The most tasks launched on a node per offer. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tasks_per_offer: Option<u32>,
    /// The most maps launched on a node per offer whose input is in another rack. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_off_rack_per_offer: Option<u32>,
    /// How long a job waits for a node with its input (delay scheduling).
    #[serde(skip_serializing_if = "is_zero")]
    pub node_locality_delay: Span,
    /// How long it then waits for a rack with its input.
    #[serde(skip_serializing_if = "is_zero")]
    pub rack_locality_delay: Span,
    /// Neither wait is longer than this for each megabyte of one of the job's splits: a small one is read from anywhere in no time. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality_delay_per_mb: Option<Span>,
    /// Only jobs with at most this many maps wait. No limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max_maps: Option<u32>,
    /// Maps that failed or were lost run before the others of their job, wherever their input is (Hadoop 1).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed_maps_first: bool,
    /// How long a reduce waits for a node that ran maps of its job (hSRTF, section 3.4).
    #[serde(skip_serializing_if = "is_zero")]
    pub colocation_delay: Span,
    /// When a paused reduce moves to another node.
    #[serde(skip_serializing_if = "Migration::is_default")]
    pub migration: Migration,
    /// Refuse a node if nodes with less than this fraction (0-1) of its task time will finish the job's waiting tasks sooner. None are
    /// refused by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_slow: Option<f64>,
    /// Which nodes a job may use at all, by a filter that the program registered. Every node by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_filter: Option<CustomNodeFilter>,
}

impl Default for Placement {
    fn default() -> Placement {
        Placement {
            max_tasks_per_offer: None,
            max_off_rack_per_offer: None,
            node_locality_delay: Span::ZERO,
            rack_locality_delay: Span::ZERO,
            locality_delay_per_mb: None,
            delay_max_maps: None,
            failed_maps_first: false,
            colocation_delay: Span::ZERO,
            migration: Migration::DEFAULT,
            refuse_slow: None,
            node_filter: None,
        }
    }
}

/// Serde passes references.
fn is_zero(span: &Span) -> bool {
    span.is_zero()
}

/// An offered slot.
#[derive(Clone, Copy)]
pub struct Offer<'a> {
    /// The node that offers it.
    pub node: NodeId,
    /// All nodes.
    pub nodes: &'a NodeTable,
    /// When.
    pub now: Time,
}

/// The nodes that a job accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedNodes {
    /// None if it accepts all types.
    refused_types: Option<SmallVec<[bool; 4]>>,
    /// Those that a filter rejects.
    rejected: BitSet,
    /// The job, if it has paused reduces: the nodes that keep them are accepted.
    paused_job: Option<JobKey>,
}

impl AcceptedNodes {
    /// True if a node is one of them.
    pub fn contains(&self, node: NodeId, nodes: &NodeTable) -> bool {
        if self.are_all() {
            return true;
        }
        let keeps_paused = |job: JobKey| nodes.get(node).paused().iter().any(|&(owner, _)| owner == job);
        let is_refused = self.refused_types.as_ref().is_some_and(|refused| refused[nodes.type_of(node)]);
        !is_refused && !self.rejected.contains(node.0) || self.paused_job.is_some_and(keeps_paused)
    }

    /// True if some node of a type may be one of them.
    pub fn may_contain_type(&self, node_type: usize) -> bool {
        self.paused_job.is_some() || self.refused_types.as_ref().is_none_or(|refused| !refused[node_type])
    }

    /// True if some nodes are accepted although their type is refused.
    pub fn have_exceptions(&self) -> bool {
        self.paused_job.is_some()
    }

    /// True if all nodes are.
    pub fn are_all(&self) -> bool {
        self.refused_types.is_none() && self.rejected.is_empty()
    }
}

/// A task for an offered slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A map, and how near its input is.
    Map(u32, Locality),
    /// A reduce that starts from the beginning.
    FreshReduce(u32),
    /// A paused reduce: it resumes if its state is on the node, and migrates otherwise.
    PausedReduce(u32),
}

impl Choice {
    /// The chosen task.
    pub fn task(self) -> TaskKey {
        match self {
            Choice::Map(index, _) => TaskKey::map(index),
            Choice::FreshReduce(index) | Choice::PausedReduce(index) => TaskKey::reduce(index),
        }
    }

    /// True if its input is in another rack.
    pub fn is_off_rack(self) -> bool {
        matches!(self, Choice::Map(_, Locality::Remote))
    }
}

/// Nodes offer their slots now and then: a shorter wait would last until the next offer, and that may be long.
const LEAST_DELAY: Span = Span::from_millis(100);

impl Placement {
    /// The keys that have no effect on slots of a kind. Policy files may not have them; event logs of earlier releases do.
    pub fn keys_without_effect(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Map => &["colocation_delay", "migration"],
            Kind::Reduce => &[
                "max_off_rack_per_offer",
                "node_locality_delay",
                "rack_locality_delay",
                "locality_delay_per_mb",
                "delay_max_maps",
                "failed_maps_first",
            ],
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.max_tasks_per_offer == Some(0) {
            return Err("placement.max_tasks_per_offer = 0 would launch nothing; leave it out for no limit".into());
        }
        if self.max_off_rack_per_offer == Some(0) {
            let problem = "placement.max_off_rack_per_offer = 0 would starve jobs without local input";
            return Err(format!("{problem}; write at least 1"));
        }
        if self.refuse_slow.is_some_and(|threshold| !(threshold > 0.0 && threshold < 1.0)) {
            return Err("placement.refuse_slow is a fraction between 0 and 1; write for example 0.75".into());
        }
        self.node_filter.as_ref().map_or(Ok(()), Custom::check)?;
        self.migration.check()
    }

    pub(super) fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let delays = [&mut self.node_locality_delay, &mut self.rack_locality_delay, &mut self.colocation_delay];
        delays.into_iter().chain(&mut self.locality_delay_per_mb)
    }

    /// How long a job waits for a node with its input, and then for a rack.
    fn locality_delays(&self, job: &Job) -> [Span; 2] {
        let split_mb = || job.input_bytes() as f64 / 1e6 / job.splits().len().max(1) as f64;
        let by_input = self.locality_delay_per_mb.map(|per_mb| per_mb.scaled(split_mb()));
        let most = by_input.map(|most| if most < LEAST_DELAY { Span::ZERO } else { most });
        [self.node_locality_delay, self.rack_locality_delay].map(|delay| most.map_or(delay, |most| delay.min(most)))
    }

    pub(super) fn needs(&self) -> Needs {
        let compares_work = self.refuse_slow.is_some();
        Needs { remaining_area: compares_work, attempt_progress: compares_work, ..Needs::NOTHING }
    }

    /// The times compared if a job refuses a node because it is slow, given the work of the jobs that rank before it, in seconds at speed 1. A
    /// node that keeps a paused reduce of the job is not refused.
    pub fn refuses(
        &self,
        job: &Job,
        key: JobKey,
        kind: Kind,
        node: NodeId,
        nodes: &NodeTable,
        ahead_s: f64,
    ) -> Option<SlowNode> {
        let threshold = self.refuse_slow?;
        if kind == Kind::Reduce && nodes.get(node).paused().iter().any(|&(owner, _)| owner == key) {
            return None;
        }
        refuse_slow::too_slow(threshold, job, kind, nodes.type_of(node), nodes.types(), ahead_s)
    }

    /// Which nodes a job accepts if no other job is before it: all but those that [`Placement::refuses`] names.
    pub fn accepted_nodes(&self, job: &Job, key: JobKey, kind: Kind, nodes: &NodeTable) -> AcceptedNodes {
        let compares = self.refuse_slow.filter(|_| nodes.types().len() > 1);
        let refused_types = compares.map(|threshold| refuse_slow::refused_types(threshold, job, kind, nodes.types()));
        let paused_job = (kind == Kind::Reduce && !job.paused().is_empty()).then_some(key);
        let mut rejected = BitSet::default();
        if let Some(filter) = self.node_filter.as_ref().and_then(Custom::part) {
            let refused = nodes.ids_up().filter(|&node| !filter.accepts(job, kind, node, nodes));
            refused.for_each(|node| rejected.insert(node.0));
        }
        AcceptedNodes { refused_types, rejected, paused_job }
    }

    /// True if a job may use a node at all: no filter rejects it, or it keeps a paused reduce of the job.
    pub fn may_use(&self, job: &Job, key: JobKey, kind: Kind, node: NodeId, nodes: &NodeTable) -> bool {
        let Some(filter) = self.node_filter.as_ref().and_then(Custom::part) else { return true };
        let keeps_paused = || nodes.get(node).paused().iter().any(|&(owner, _)| owner == key);
        filter.accepts(job, kind, node, nodes) || kind == Kind::Reduce && keeps_paused()
    }

    /// The task of a job for an offered slot; none if the job waits for a better offer.
    pub fn choose(&self, job: &mut Job, key: JobKey, kind: Kind, offer: Offer<'_>) -> Option<Choice> {
        if !self.may_use(job, key, kind, offer.node, offer.nodes) {
            return None;
        }
        match kind {
            Kind::Map => delay::choose_map(self, job, offer).map(|(map, locality)| Choice::Map(map, locality)),
            Kind::Reduce => migration::choose_reduce(self, job, key, offer),
        }
    }

    /// Until when a job that has just refused an offer will refuse every offer of a node that is not local; none if that cannot be told
    /// because it has tasks with a node of their own (paused reduces), or tasks that may accept any node (failed and lost ones).
    pub fn delayed_until(&self, job: &Job, kind: Kind) -> Option<Time> {
        let since = job.delayed_since(kind)?;
        match kind {
            Kind::Map => (!self.may_accept_any_node(job)).then(|| since + self.locality_delays(job)[0]),
            Kind::Reduce => job.paused().is_empty().then(|| since + self.colocation_delay),
        }
    }

    /// True if maps of a job may accept nodes that are not local: those that failed, on nodes that they avoid for a while, and lost ones if
    /// they come first.
    pub fn may_accept_any_node(&self, job: &Job) -> bool {
        !job.failed_on().is_empty() || self.failed_maps_first && job.has_lost_work()
    }

    /// True if maps wait for nodes with their input.
    pub fn delays_maps(&self) -> bool {
        !self.node_locality_delay.is_zero()
    }

    /// True if the types of the nodes with a job's input make a difference: maps wait for such nodes, but not for slow ones.
    pub fn reads_input_types(&self) -> bool {
        self.delays_maps() && self.refuse_slow.is_some()
    }

    /// True if reduces wait for nodes that ran maps of their job.
    pub fn delays_reduces(&self) -> bool {
        !self.colocation_delay.is_zero()
    }
}
