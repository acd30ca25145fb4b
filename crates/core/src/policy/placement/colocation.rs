//! Co-location: a reduce waits a while for a node that runs or ran maps of its job (hSRTF, section 3.4).

use super::Offer;
use crate::ids::Kind;
use crate::state::Job;
use crate::units::Span;

/// True if the job's reduces wait for another node than the one that offers.
pub(super) fn waits_for_maps_node(job: &mut Job, offer: Offer<'_>, delay: Span) -> bool {
    if delay.is_zero() || job.mapped_on(offer.node) {
        job.end_delay(Kind::Reduce);
        return false;
    }
    offer.now.since(job.begin_delay(Kind::Reduce, offer.now)) < delay
}
