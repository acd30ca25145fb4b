//! Orders: the rank of a job for a slot.
//!
//! One file per order. To add one: write its file with an [`Order`] implementation and its tests, add a variant to [`JobOrder`] and to
//! `JobOrder::part`. If no `Measure` says what it ranks by, that needs a variant too (CONTRIBUTING.md). A program of one's own [`register`](super::custom::register)s its orders instead.

mod attained_service;
mod custom;
mod remaining_area;
mod remaining_time;
mod remaining_work;
mod slots_over_share;
mod slots_over_weight;
mod submission;

pub use attained_service::AttainedService;
pub use custom::{CustomOrder, JobValue};
pub use remaining_area::{RemainingArea, RemainingAreaAndShuffle};
pub use remaining_time::RemainingTime;
pub use remaining_work::RemainingWork;
pub use slots_over_share::SlotsOverShare;
pub use slots_over_weight::SlotsOverWeight;
pub use submission::Submission;

use super::custom::registered;
use super::{Needs, SlotPolicy, View, estimates};
use crate::ids::Kind;
use crate::reason::Measure;
use crate::state::Job;
use crate::units::Span;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The position of a job or a group in a queue: smaller is sooner, and no two are equal. An order leaves the highest bit zero.
pub type Rank = u128;

/// The order in which jobs get slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, strum::VariantNames)]
#[serde(rename_all = "kebab-case", remote = "Self")]
#[strum(serialize_all = "kebab-case")]
pub enum JobOrder {
    /// By priority, then by submission.
    #[default]
    Submission,
    /// Shortest remaining time first (hSRTF, eq. 1).
    RemainingTime,
    /// Fewest slots for its weight first, where priority is weight (Hadoop's fair scheduler).
    SlotsOverWeight,
    /// Fewest slots for its share first.
    SlotsOverShare,
    /// Least work left before and in the reduces first (FCS, section 4).
    RemainingWork,
    /// Least slot time received first.
    AttainedService,
    /// Least work left, over what the cluster does per second, first.
    RemainingArea,
    /// The same; for reduce slots, jobs that are far from their last map rank later.
    RemainingAreaAndShuffle(RemainingAreaAndShuffle),
    /// Lowest value first, of an order that the program registered. A policy may give its name alone.
    Custom(CustomOrder),
}

/// What an order has to answer.
pub trait Order {
    /// What its rank reads. The scheduler ranks a job again when these, its counts or its share change.
    fn needs(&self) -> Needs;

    /// The rank of a job, if it had `extra` more slots than it has. The job's [`sequence`](Job::sequence) number in the lowest 32 bits
    /// keeps ranks distinct.
    fn rank(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank;

    /// What the rank was computed from.
    fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure;

    /// The rank as a time, where it is one, for a margin between two jobs.
    fn time(&self, _job: &Job, _kind: Kind) -> Option<Span> {
        None
    }

    /// True if of two jobs the one with the longer remaining time always ranks later.
    fn is_by_remaining_time(&self) -> bool {
        false
    }

    /// Checks that the other parts provide what the order needs; otherwise returns what to change.
    fn check(&self, _slots: &SlotPolicy) -> Result<(), String> {
        Ok(())
    }
}

impl JobOrder {
    fn part(&self) -> &dyn Order {
        match self {
            JobOrder::Submission => &Submission,
            JobOrder::RemainingTime => &RemainingTime,
            JobOrder::SlotsOverWeight => &SlotsOverWeight,
            JobOrder::SlotsOverShare => &SlotsOverShare,
            JobOrder::RemainingWork => &RemainingWork,
            JobOrder::AttainedService => &AttainedService,
            JobOrder::RemainingArea => &RemainingArea,
            JobOrder::RemainingAreaAndShuffle(order) => order,
            JobOrder::Custom(order) => order,
        }
    }

    /// Puts an order that is not registered in place of the unknown one of its name.
    pub(super) fn set_custom(&mut self, order: &CustomOrder) {
        if matches!(self, JobOrder::Custom(unknown) if unknown.name() == order.name()) {
            *self = JobOrder::Custom(order.clone());
        }
    }

    pub(super) fn spans_mut(&mut self) -> Option<&mut Span> {
        match self {
            JobOrder::RemainingAreaAndShuffle(order) => Some(&mut order.ahead),
            _ => None,
        }
    }
}

impl Order for JobOrder {
    fn needs(&self) -> Needs {
        self.part().needs()
    }

    fn rank(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        self.part().rank(view, job, kind, extra)
    }

    fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure {
        self.part().measure(view, job, kind)
    }

    fn time(&self, job: &Job, kind: Kind) -> Option<Span> {
        self.part().time(job, kind)
    }

    fn is_by_remaining_time(&self) -> bool {
        self.part().is_by_remaining_time()
    }

    fn check(&self, slots: &SlotPolicy) -> Result<(), String> {
        self.part().check(slots)
    }
}

impl Serialize for JobOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JobOrder::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for JobOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobOrder, D::Error> {
        deserializer.deserialize_any(OrderVisitor)
    }
}

/// Reads the name of an order, or a table of an order and its parameters.
struct OrderVisitor;

impl<'de> de::Visitor<'de> for OrderVisitor {
    type Value = JobOrder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an order, or a table with its parameters")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<JobOrder, E> {
        match registered(name) {
            Some(order) => Ok(JobOrder::Custom(order)),
            None => built_in(name.into_deserializer()),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<JobOrder, A::Error> {
        built_in(MapAccessDeserializer::new(map))
    }
}

/// The derived form, without the names of custom orders.
fn built_in<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobOrder, D::Error> {
    JobOrder::deserialize(deserializer)
}

/// A span as 48 bits of a rank.
fn span_bits(span: Span) -> Rank {
    Rank::from(span.0.min((1 << 48) - 1))
}

/// Slot time received so far, computed now because few orders keep it.
fn attained_service(view: View<'_>, job: &Job) -> Span {
    estimates::attained_service(job, view.now)
}

/// The slots a job would have with `extra` more.
pub(super) fn allocated(job: &Job, kind: Kind, extra: i32) -> f64 {
    (i64::from(job.counts(kind).allocated()) + i64::from(extra)).max(0) as f64
}

/// A quotient as an integer that keeps its order.
pub(super) fn ratio(numerator: f64, denominator: f64) -> Rank {
    (numerator / denominator * (1u64 << 24) as f64) as u64 as Rank
}

/// A number in thousandths, for a reason.
pub(super) fn milli(number: f64) -> u64 {
    (number * 1e3) as u64
}
