//! Delay scheduling: a job waits a while for a node, then for a rack, that holds its input (Hadoop's fair scheduler).

use super::{Offer, Placement, refuse_slow};
use crate::action::Locality;
use crate::ids::Kind;
use crate::state::Job;

/// The pending map whose input is nearest to the offered slot.
pub fn nearest_map(job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    match job.node_local_map(offer.node, offer.nodes.racks(), offer.now) {
        Some(map) => Some((map, Locality::Node)),
        None => nearest_other_map(job, offer),
    }
}

/// The nearest pending map, given that none has input on the node.
fn nearest_other_map(job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    let racks = offer.nodes.racks();
    if racks.several()
        && let Some(map) = job.rack_local_map(offer.node, racks, offer.now)
    {
        return Some((map, Locality::Rack));
    }
    let map = job.any_pending_map(offer.node, offer.now)?;
    Some((map, job.locality(map, offer.node, racks)))
}

/// A pending map for the offered slot, if the job does not wait for a nearer one.
pub(super) fn choose_map(placement: &Placement, job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    let racks = offer.nodes.racks();
    if placement.failed_maps_first
        && let Some(map) = job.failed_map(offer.node, offer.now)
    {
        return Some((map, job.locality(map, offer.node, racks)));
    }
    if let Some(map) = job.node_local_map(offer.node, racks, offer.now) {
        job.end_delay(Kind::Map);
        return Some((map, Locality::Node));
    }
    let is_small = placement.delay_max_maps.is_none_or(|most| job.total(Kind::Map) <= most);
    let [for_node, for_rack] = placement.locality_delays(job);
    let delay = for_node + for_rack;
    let refuses_local = |job: &Job| {
        placement.refuse_slow.is_some_and(|threshold| !refuse_slow::has_fast_input(threshold, job, offer.nodes))
    };
    if !is_small || !job.has_input_locations() || delay.is_zero() || refuses_local(job) {
        return nearest_other_map(job, offer);
    }
    let waited = offer.now.since(job.begin_delay(Kind::Map, offer.now));
    if waited < for_node {
        return None;
    }
    // With a single rack every node is rack-local.
    if waited < delay && racks.several() {
        return job.rack_local_map(offer.node, racks, offer.now).map(|map| (map, Locality::Rack));
    }
    nearest_other_map(job, offer)
}
