//! By priority, then by submission (Hadoop's FIFO scheduler, and its capacity scheduler within a queue).

use super::{Order, Rank};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;

/// By priority, then by submission.
pub struct Submission;

impl Order for Submission {
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn rank(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        Rank::from(job.priority() as u8) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, _: &Job, _: Kind) -> Measure {
        Measure::Submission
    }
}
