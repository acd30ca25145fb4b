//! Reasons: why the scheduler requested an action, and why it refused an event, in terms a user understands.
//!
//! The order of the variants of every enum here is part of the event log's format: add new ones at the end.

use crate::event::JobSpec;
use crate::ids::{AttemptId, JobId, NodeId};
use crate::units::{Span, plural};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why the scheduler requested an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reason {
    /// The job ranks first among those that can use the slot.
    Ranked(RankReason),
    /// The slot was reserved for this job when another attempt was preempted.
    Reserved,
    /// The task's earlier work was lost with a node.
    Recovery {
        /// The lost node.
        lost: NodeId,
    },
    /// A speculative attempt of a straggling task.
    Speculative {
        /// Progress of the straggler, in parts per million.
        progress_ppm: u32,
    },
    /// Preempted for a job that ranks before it; only in the logs of earlier releases.
    PreemptedFor {
        /// The beneficiary.
        job: JobId,
    },
    /// Preempted for a lost task of a job that ranks before it (Chronos, section III-B).
    PreemptedForRecovery {
        /// The beneficiary.
        job: JobId,
    },
    /// Another attempt of the same task finished first.
    OtherAttemptFinished,
    /// Its job ended.
    JobEnded,
    /// A user requested it.
    RequestedByUser,
    /// The cluster's own scheduler granted the slot.
    GrantedByCluster,
    /// Preempted for a job that ranks before it, with what was compared.
    Preempted(Box<PreemptReason>),
    /// A straggling map ends early: its rest is done sooner in another attempt.
    StragglerEnded(Box<StragglerReason>),
    /// The task failed before.
    Retry {
        /// How often; failures on excluded nodes do not count.
        failures: u8,
        /// The node of the last failure.
        failed_on: NodeId,
    },
    /// The node is excluded; if this task succeeds, it is taken back.
    Probe {
        /// The failures the node was excluded for.
        failures: u32,
        /// The number of jobs whose attempts failed there.
        jobs: u32,
    },
}

/// Why a job ranks first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReason {
    /// Why its pool, queue or user comes first, if the policy has such groups. Boxed to keep actions small where there are none.
    pub group: Option<Box<GroupReason>>,
    /// Why it comes first within its group, or among all jobs.
    pub measure: Measure,
    /// Whether the node suits it, if the policy matches jobs to nodes.
    pub node_match: Option<NodeMatch>,
}

/// Why an attempt was preempted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreemptReason {
    /// The job that gets the slot.
    pub beneficiary: JobId,
    /// Why the beneficiary's pool, queue or user comes first, if the policy has such groups and the victim is in another.
    pub group: Option<Box<GroupReason>>,
    /// What the beneficiary is ranked by.
    pub by: Measure,
    /// What the victim's job is ranked by.
    pub victim: Measure,
    /// The factor by which the beneficiary had to be ahead, in thousandths; 1000 for any difference.
    pub margin_milli: u64,
    /// Time that the victim has left at its rate so far, if it can be told.
    pub time_left: Option<Span>,
    /// The guard: attempts with less time left are not preempted.
    pub min_time_left: Span,
}

/// Why a straggling map ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StragglerReason {
    /// Its progress, in parts per million.
    pub progress_ppm: u32,
    /// Time that it has left at its rate so far.
    pub left: Span,
    /// Time in which another attempt does its rest.
    pub again: Span,
    /// The node with a slot for the rest.
    pub node: NodeId,
}

/// What a job was ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Measure {
    /// Priority, then submission time.
    Submission,
    /// Shortest estimated time left.
    RemainingTime(Span),
    /// Fewest slots for its weight.
    SlotsOverWeight {
        /// Slots allocated to the job.
        allocated: u32,
        /// Its weight, in thousandths.
        weight_milli: u64,
    },
    /// Fewest slots for its share.
    SlotsOverShare {
        /// Slots allocated to the job.
        allocated: u32,
        /// Its share, in thousandths of a slot.
        share_milli: u64,
    },
    /// Least work left before and in its reduces (FCS, section 4).
    RemainingWork {
        /// Estimated time until its last map is done.
        shuffle: Span,
        /// Bytes still to reduce.
        reduce_bytes: u64,
    },
    /// Least slot time received so far.
    AttainedService(Span),
    /// Least work left, as the time in which the whole cluster would do it.
    RemainingArea(Span),
    /// The same, and the weighted time until its last map, which counts for reduce slots.
    RemainingAreaAndShuffle {
        /// Time in which the whole cluster would do what is left.
        area: Span,
        /// What the time until its last map adds.
        shuffle: Span,
    },
    /// Its size is not known, so it ranks by the slot time it has received.
    UnknownSize {
        /// Slot time received so far.
        attained: Span,
    },
    /// It has fallen behind fair sharing, and has fewer slots than it needs to catch up.
    Late {
        /// Slots allocated to the job.
        allocated: u32,
        /// The slots it needs, in thousandths.
        share_milli: u64,
    },
    /// It is so small that it may not fall behind fair sharing at all.
    Small {
        /// Slot time that it has left.
        left: Span,
    },
    /// Lowest value of an order that the program brought.
    CustomValue(f64),
}

/// Why a group of jobs comes before the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReason {
    /// Pool, queue or user.
    pub kind: GroupKind,
    /// Its name.
    pub name: Arc<str>,
    /// What it was ranked by.
    pub measure: GroupMeasure,
}

/// What a group of jobs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum GroupKind {
    Pool,
    Queue,
    User,
}

/// What a group was ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum GroupMeasure {
    /// It has less than its guaranteed minimum.
    BelowMinShare {
        /// Slots allocated to its jobs.
        allocated: u32,
        /// Guaranteed slots.
        min_share: u32,
    },
    /// It has the fewest slots for its weight.
    SlotsOverWeight {
        /// Slots allocated to its jobs.
        allocated: u32,
        /// Its weight, in thousandths.
        weight_milli: u64,
    },
    /// It uses the smallest part of its capacity.
    CapacityUsed {
        /// Slots in use, as a part of its capacity, in percent.
        percent: u32,
    },
    /// It has received less slot time than its fair share, and has fewer slots than that now.
    BehindFairShare {
        /// Slots allocated to its jobs.
        allocated: u32,
        /// Slots that it is due.
        due: u32,
    },
}

/// How a node suits a job (COSHH, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeMatch {
    /// The linear program suggests the job's class for this type of node.
    Suggested {
        /// The job's class.
        class: u16,
    },
    /// No job of a suggested class needs the slot.
    Fallback,
}

/// Why a job leaves a slow node to others: its waiting tasks are done sooner on faster nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowNode {
    /// Time of one task on the node.
    pub here: Span,
    /// Time until faster nodes have done the work ahead, the job's waiting tasks and one task more.
    pub elsewhere: Span,
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A live job has this id.
    JobExists(JobId),
    /// No live job has this id.
    UnknownJob(JobId),
    /// A job without splits.
    EmptyJob(JobId),
    /// A job whose bias is zero, whose slow start exceeds one whole, or which has more than [`JobSpec::MAX_REDUCES`] reduces.
    InvalidJob(JobId),
    /// The node never joined, or is down.
    UnknownNode(NodeId),
    /// A node that is up joined again.
    NodeAlreadyUp(NodeId),
    /// A node joined whose number leaves a gap.
    NodeIdGap(NodeId),
    /// A node without slots, speed or disk rate.
    InvalidNode(NodeId),
    /// The attempt has ended, or never existed.
    StaleAttempt(AttemptId),
    /// The attempt was not requested to do this, or cannot.
    NotRequested(AttemptId),
    /// The event is older than the one before it.
    ClockWentBack,
    /// The job has no pending task of this kind.
    NothingPending(JobId),
    /// The job's tasks were all known at submission, so it cannot request slots.
    NotOpen(JobId),
    /// A snapshot contradicts itself, or has an open job.
    InvalidSnapshot,
}

impl Reason {
    /// True if the attempt was stopped so that another job gets its slot.
    pub fn is_preemption(&self) -> bool {
        self.beneficiary().is_some()
    }

    /// The job that gets the slot of a preempted attempt.
    pub fn beneficiary(&self) -> Option<JobId> {
        match self {
            Reason::PreemptedFor { job } | Reason::PreemptedForRecovery { job } => Some(*job),
            Reason::Preempted(preempted) => Some(preempted.beneficiary),
            _ => None,
        }
    }

    /// Ranked first by a measure of the job alone.
    pub fn ranked(measure: Measure) -> Reason {
        Reason::Ranked(RankReason { group: None, measure, node_match: None })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|node| node.to_string()))
    }
}

impl Reason {
    /// The reason as text, with the names of nodes. `Display` has their numbers.
    pub fn text(&self, node_name: impl Fn(NodeId) -> String) -> String {
        match self {
            Reason::Ranked(rank) => rank.to_string(),
            Reason::Reserved => "the slot was reserved for it".into(),
            Reason::Recovery { lost } => format!("reruns work that was lost with {}", node_name(*lost)),
            Reason::Speculative { progress_ppm } => {
                format!("speculative attempt: another attempt of the task is slow, at {} %", progress_ppm / 10_000)
            }
            Reason::PreemptedFor { job } => format!("preempted for {job}"),
            Reason::PreemptedForRecovery { job } => format!("preempted for a lost task of {job}"),
            Reason::OtherAttemptFinished => "another attempt of the task finished first".into(),
            Reason::JobEnded => "its job ended".into(),
            Reason::RequestedByUser => "requested by a user".into(),
            Reason::GrantedByCluster => "granted by the cluster's own scheduler".into(),
            Reason::Preempted(preempted) => preempted.to_string(),
            Reason::StragglerEnded(straggler) => straggler.text(node_name),
            Reason::Retry { failures: 1, failed_on } => format!("retry after a failure on {}", node_name(*failed_on)),
            Reason::Retry { failures, failed_on } => {
                format!("retry after {failures} failures, the last on {}", node_name(*failed_on))
            }
            Reason::Probe { failures, jobs } => {
                let (failures, jobs) = (plural(*failures, "failure"), plural(*jobs, "job"));
                format!("probe: the node is excluded after {failures} of {jobs}")
            }
        }
    }
}

impl fmt::Display for PreemptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "preempted for {}: ", self.beneficiary)?;
        if let Some(group) = &self.group {
            write!(f, "{group}; ")?;
        }
        f.write_str(&self.by.against(&self.victim))?;
        if self.margin_milli > 1_000 {
            write!(f, "; required factor {}", Milli(self.margin_milli))?;
        }
        if !self.min_time_left.is_zero() {
            match self.time_left {
                Some(left) => write!(f, "; {left} left in this attempt")?,
                None => write!(f, "; time left in this attempt unknown")?,
            }
            write!(f, ", protected below {}", self.min_time_left)?;
        }
        Ok(())
    }
}

impl StragglerReason {
    fn text(&self, node_name: impl Fn(NodeId) -> String) -> String {
        let StragglerReason { progress_ppm, left, again, node } = self;
        let (percent, node) = (progress_ppm / 10_000, node_name(*node));
        format!("slow attempt at {percent} %: it has {left} left, and a new attempt on {node} does the rest in {again}")
    }
}

impl RankReason {
    /// What the job is ranked by, without the claim that it comes first.
    pub fn standing(&self) -> String {
        let group = self.group.as_ref().map_or_else(String::new, |group| format!("{group}; "));
        format!("{group}{}{}", self.measure.amount(), self.match_text())
    }

    fn match_text(&self) -> String {
        match self.node_match {
            Some(NodeMatch::Suggested { class }) => format!("; this node is suggested for its class {class}"),
            Some(NodeMatch::Fallback) => "; no job of a class suggested for this node needs the slot".into(),
            None => String::new(),
        }
    }
}

impl fmt::Display for RankReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = &self.group {
            write!(f, "{group}; ")?;
        }
        write!(f, "{}{}", self.measure, self.match_text())
    }
}

/// A number of thousandths, without trailing zeros.
struct Milli(u64);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1e3)
    }
}

impl Measure {
    /// What is measured, and how much of it the job has.
    fn parts(&self) -> (&'static str, String) {
        match *self {
            Measure::Submission => ("priority and submission time", String::new()),
            Measure::RemainingTime(estimate) => ("remaining time", estimate.to_string()),
            Measure::SlotsOverWeight { allocated, weight_milli } => {
                ("slots", format!("{allocated} for weight {}", Milli(weight_milli)))
            }
            Measure::SlotsOverShare { allocated, share_milli: 0 } => {
                ("slots", format!("{allocated} for a share of less than 0.001"))
            }
            Measure::SlotsOverShare { allocated, share_milli } => {
                ("slots", format!("{allocated} for a share of {}", Milli(share_milli)))
            }
            Measure::RemainingWork { shuffle, reduce_bytes } => {
                ("work left", format!("{shuffle} of maps and {} MB to reduce", reduce_bytes / 1_000_000))
            }
            Measure::AttainedService(service) => ("slot time so far", service.to_string()),
            Measure::RemainingArea(area) => ("work left for the whole cluster", area.to_string()),
            Measure::RemainingAreaAndShuffle { area, shuffle } => {
                ("work left for the whole cluster", format!("{area}, and {shuffle} until its last map"))
            }
            Measure::Late { allocated, share_milli } => {
                ("behind fair sharing", format!("{allocated} of the {} slots it is due", Milli(share_milli)))
            }
            Measure::Small { left } => ("small job, slot time left", left.to_string()),
            Measure::UnknownSize { attained } => ("size unknown, slot time so far", attained.to_string()),
            Measure::CustomValue(value) => ("value of the custom order", value.to_string()),
        }
    }

    /// How much of it the job has, to compare it with others that are ranked by the same.
    pub fn number(&self) -> f64 {
        match *self {
            Measure::Submission => 0.0,
            Measure::RemainingTime(time)
            | Measure::RemainingWork { shuffle: time, .. }
            | Measure::AttainedService(time)
            | Measure::RemainingArea(time)
            | Measure::RemainingAreaAndShuffle { area: time, .. }
            | Measure::UnknownSize { attained: time }
            | Measure::Small { left: time } => time.as_secs_f64(),
            Measure::SlotsOverWeight { allocated, weight_milli: of }
            | Measure::SlotsOverShare { allocated, share_milli: of }
            | Measure::Late { allocated, share_milli: of } => 1e3 * f64::from(allocated) / of.max(1) as f64,
            Measure::CustomValue(value) => value,
        }
    }

    /// What the job has.
    pub fn amount(&self) -> String {
        match self.parts() {
            (topic, value) if value.is_empty() => topic.into(),
            (topic, value) => format!("{topic}: {value}"),
        }
    }

    /// What the job has, and what another has.
    fn against(&self, other: &Measure) -> String {
        match (self.parts(), other.parts()) {
            ((topic, value), (same, other)) if topic == same && !value.is_empty() => {
                format!("{topic}: {value} against {other}")
            }
            _ => format!("{}, against {}", self.amount(), other.amount()),
        }
    }
}

/// Why a job with this measure comes first.
impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = match self {
            Measure::Submission => "first by ",
            // Of these it is not the amount that puts them first.
            Measure::Late { .. } | Measure::Small { .. } | Measure::UnknownSize { .. } => "",
            Measure::RemainingTime(_) => "shortest ",
            Measure::CustomValue(_) => "lowest ",
            Measure::SlotsOverWeight { .. } | Measure::SlotsOverShare { .. } => "fewest ",
            Measure::RemainingWork { .. }
            | Measure::RemainingArea(_)
            | Measure::RemainingAreaAndShuffle { .. }
            | Measure::AttainedService(_) => "least ",
        };
        write!(f, "{most}{}", self.amount())
    }
}

impl fmt::Display for SlowNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlowNode { here, elsewhere } = self;
        write!(f, "too slow: a task takes {here} there, and faster nodes do all waiting tasks in {elsewhere}")
    }
}

impl fmt::Display for GroupReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            GroupKind::Pool => "pool",
            GroupKind::Queue => "queue",
            GroupKind::User => "user",
        };
        write!(f, "{kind} {} ", self.name)?;
        match self.measure {
            GroupMeasure::BelowMinShare { allocated, min_share } => {
                write!(f, "is below its min share, with {allocated} of {}", plural(min_share, "slot"))
            }
            GroupMeasure::SlotsOverWeight { allocated, weight_milli } => {
                write!(f, "has {} for weight {}", plural(allocated, "slot"), Milli(weight_milli))
            }
            GroupMeasure::CapacityUsed { percent } => write!(f, "uses {percent} % of its capacity"),
            GroupMeasure::BehindFairShare { allocated, due } => {
                write!(f, "is behind its fair share, with {allocated} of {}", plural(due, "slot"))
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::JobExists(job) => write!(f, "{job} already exists; give each job a new id"),
            Refusal::UnknownJob(job) => write!(f, "{job} does not exist or has ended"),
            Refusal::EmptyJob(job) => write!(f, "{job} has no input split; a job needs at least one map"),
            Refusal::InvalidJob(job) => write!(
                f,
                "{job} has a number out of range: its estimate bias must be over 0, its slow start at most 100 % and its \
                 reduces at most {}",
                JobSpec::MAX_REDUCES
            ),
            Refusal::UnknownNode(node) => write!(f, "{node} is down or unknown; it must join first"),
            Refusal::NodeAlreadyUp(node) => write!(f, "{node} is already up; report its loss before it joins again"),
            Refusal::NodeIdGap(node) => write!(f, "{node} leaves a gap; number nodes from 0 without gaps"),
            Refusal::InvalidNode(node) => write!(f, "{node} has no slots, no speed or no disk rate"),
            Refusal::StaleAttempt(attempt) => write!(f, "attempt {attempt} has ended or is unknown"),
            Refusal::NotRequested(attempt) => write!(f, "attempt {attempt} was not requested to do that"),
            Refusal::NothingPending(job) => {
                write!(f, "{job} has no pending task for that slot; report the slots it requests first")
            }
            Refusal::NotOpen(job) => {
                write!(f, "{job} was submitted with all its tasks; only an open job requests slots")
            }
            Refusal::InvalidSnapshot => write!(f, "the snapshot contradicts itself; use the release that wrote it"),
            Refusal::ClockWentBack => write!(f, "the clock went back; events must be ordered by time"),
        }
    }
}
