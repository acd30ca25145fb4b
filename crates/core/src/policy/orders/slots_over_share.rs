//! Fewest slots for its share first; of equal ones, the shorter remaining time first (hSRTF's proportional mode, eqs. 3 to 5).

use super::{Order, Rank, allocated, milli, ratio};
use crate::ids::Kind;
use crate::policy::{Needs, SlotPolicy, View};
use crate::reason::Measure;
use crate::state::Job;

/// Fewest slots for its share first.
pub struct SlotsOverShare;

impl Order for SlotsOverShare {
    fn needs(&self) -> Needs {
        Needs { remaining_time: true, fair_share: true, ..Needs::NOTHING }
    }

    fn rank(&self, _: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        let share = job.counts(kind).fair_share.max(1e-3);
        let remaining_ms = job.estimate().remaining_time.0 / 1_000;
        let shorter_first = Rank::from(remaining_ms.min(u64::from(u32::MAX)));
        let slots = ratio(allocated(job, kind, extra), share).min((1 << 62) - 1);
        slots << 64 | shorter_first << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, _: View<'_>, job: &Job, kind: Kind) -> Measure {
        let counts = job.counts(kind);
        Measure::SlotsOverShare { allocated: counts.allocated(), share_milli: milli(counts.fair_share) }
    }

    fn check(&self, slots: &SlotPolicy) -> Result<(), String> {
        if slots.share.is_always_computed() {
            return Ok(());
        }
        let hint = "needs share = \"inverse-remaining-time\"; to rank by weight, write \"slots-over-weight\"";
        Err(format!("order = \"slots-over-share\" {hint}"))
    }
}
