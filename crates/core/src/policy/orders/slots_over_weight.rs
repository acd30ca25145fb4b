//! Fewest slots for its weight first, where priority is weight (Hadoop's fair scheduler, within a pool).

use super::{Order, Rank, allocated, milli, ratio};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;

/// Fewest slots for its weight first.
pub struct SlotsOverWeight;

impl Order for SlotsOverWeight {
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn rank(&self, _: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        ratio(allocated(job, kind, extra), job.priority().weight()) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, job: &Job, kind: Kind) -> Measure {
        let weight_milli = milli(job.priority().weight());
        Measure::SlotsOverWeight { allocated: job.counts(kind).allocated(), weight_milli }
    }
}
