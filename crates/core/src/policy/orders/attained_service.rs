//! Least slot time received first (least attained service). Needs no estimate of a job's size.

use super::{Order, Rank, span_bits};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;
use crate::units::Span;

/// Least slot time received first.
pub struct AttainedService;

impl Order for AttainedService {
    fn needs(&self) -> Needs {
        Needs { attained_service: true, ..Needs::NOTHING }
    }

    fn rank(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        span_bits(job.estimate().attained_service) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, job: &Job, _: Kind) -> Measure {
        Measure::AttainedService(job.estimate().attained_service)
    }

    fn time(&self, job: &Job, _: Kind) -> Option<Span> {
        Some(job.estimate().attained_service)
    }
}
