//! Least work left first: by the time until its last map is done, then by the bytes still to reduce (FCS, section 4).

use super::{Order, Rank, span_bits};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;

/// Least work left before and in the reduces first.
pub struct RemainingWork;

impl Order for RemainingWork {
    fn needs(&self) -> Needs {
        Needs { attempt_progress: true, remaining_work: true, ..Needs::NOTHING }
    }

    fn rank(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        // 47 bits: the highest bit of a rank belongs to `lag.rs`.
        let shuffle = span_bits(job.estimate().remaining_shuffle).min((1 << 47) - 1);
        let bytes = Rank::from(job.estimate().remaining_reduce_bytes.min((1 << 48) - 1));
        shuffle << 80 | bytes << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, job: &Job, _: Kind) -> Measure {
        let estimate = job.estimate();
        let (shuffle, reduce_bytes) = (estimate.remaining_shuffle, estimate.remaining_reduce_bytes);
        Measure::RemainingWork { shuffle, reduce_bytes }
    }
}
