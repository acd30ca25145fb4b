//! Shortest remaining time first (hSRTF, section 3.1 and eq. 1).

use super::{Order, Rank, span_bits};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;
use crate::units::Span;

/// Shortest remaining time first.
pub struct RemainingTime;

impl Order for RemainingTime {
    fn needs(&self) -> Needs {
        Needs { remaining_time: true, ..Needs::NOTHING }
    }

    fn rank(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        span_bits(job.estimate().remaining_time) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, job: &Job, _: Kind) -> Measure {
        Measure::RemainingTime(job.estimate().remaining_time)
    }

    fn time(&self, job: &Job, _: Kind) -> Option<Span> {
        Some(job.estimate().remaining_time)
    }

    fn is_by_remaining_time(&self) -> bool {
        true
    }
}
