//! Which task of a job for this node: near its data, near its maps, or where it paused; or wait for a better offer.

use super::{Migration, Placement};
use crate::action::Locality;
use crate::ids::{Kind, NodeId};
use crate::state::waiting::locality;
use crate::state::{Job, JobIx, Node, Racks};
use crate::units::{Span, Time};

/// Where the offered slot is.
#[derive(Clone, Copy)]
pub struct Offer<'a> {
    /// The node that offers it.
    pub node: NodeId,
    /// All nodes.
    pub nodes: &'a [Node],
    /// Their racks.
    pub racks: &'a Racks,
    /// When.
    pub now: Time,
}

/// A reduce for an offered slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceChoice {
    /// One that has never run, or whose work was lost.
    Fresh(u32),
    /// One that paused here.
    Resumed(u32),
    /// One that paused elsewhere and has waited long enough.
    Migrated(u32),
}

/// A waiting map of the job for this node, as near to its data as can be had.
pub fn nearest_map(job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    match node_map(job, offer) {
        Some(task) => Some((task, Locality::Node)),
        None => next_nearest_map(job, offer),
    }
}

fn node_map(job: &mut Job, offer: Offer<'_>) -> Option<u32> {
    job.waiting_maps.on_node(offer.node, offer.racks.nodes(), &job.tasks[0], &job.splits)
}

/// The same, where it is known that no data is on the node.
fn next_nearest_map(job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    if offer.racks.several()
        && let Some(task) = rack_map(job, offer)
    {
        return Some((task, Locality::Rack));
    }
    any_map(job, offer)
}

fn rack_map(job: &mut Job, offer: Offer<'_>) -> Option<u32> {
    job.waiting_maps.in_rack(offer.racks.of(offer.node), offer.racks, &job.tasks[0], &job.splits)
}

fn any_map(job: &mut Job, offer: Offer<'_>) -> Option<(u32, Locality)> {
    let task = job.waiting_maps.any()?;
    let split = &job.splits[job.tasks[0][task as usize].split as usize];
    Some((task, locality(split, offer.node, offer.racks)))
}

/// A waiting map of the job for this node, if it does not rather hold out for a nearer one (delay scheduling).
pub fn choose_map(job: &mut Job, offer: Offer<'_>, placement: &Placement) -> Option<(u32, Locality)> {
    if let Some(task) = node_map(job, offer) {
        job.holding_out[0] = None;
        return Some((task, Locality::Node));
    }
    let few = placement.delay_max_maps.is_none_or(|most| job.total(Kind::Map) <= most);
    let waits = few
        && job.waiting_maps.has_hosts()
        && !(placement.node_locality_delay + placement.rack_locality_delay).is_zero();
    if !waits {
        return next_nearest_map(job, offer);
    }
    let since = *job.holding_out[0].get_or_insert(offer.now);
    let waited = offer.now.since(since);
    if waited < placement.node_locality_delay {
        return None;
    }
    // In a single rack, everything is near the rack.
    if waited < placement.node_locality_delay + placement.rack_locality_delay && offer.racks.several() {
        return rack_map(job, offer).map(|task| (task, Locality::Rack));
    }
    next_nearest_map(job, offer)
}

/// A reduce of the job for this node (FCS, Algorithm 2, lines 4 to 17).
///
/// One that paused here or never ran is taken at once, unless it holds out for a node with maps of its job (hSRTF, section 3.4). Fallback
/// the one that paused longest ago moves here, once more offers were refused than its patience allows.
pub fn choose_reduce(
    job: &mut Job,
    jx: JobIx,
    offer: Offer<'_>,
    placement: &Placement,
    nodes_up: u32,
) -> Option<ReduceChoice> {
    if !job.paused.is_empty() {
        let here = &offer.nodes[offer.node.0 as usize];
        if let Some(&(_, task)) = here.paused.iter().find(|&&(owner, _)| owner == jx) {
            return Some(ReduceChoice::Resumed(task));
        }
    }
    if let Some(&task) = job.waiting_reduces.last()
        && !holds_out_for_maps(job, offer, placement.colocate)
    {
        return Some(ReduceChoice::Fresh(task));
    }
    let &(oldest, paused_at) = job.paused.front()?;
    if job.refusals - paused_at > patience(placement.migrate, nodes_up) {
        return Some(ReduceChoice::Migrated(oldest));
    }
    job.refusals += 1;
    None
}

/// Until when a job that has just refused an offer will refuse every offer of a node that is no better, if that can be told: tasks that came back
/// or are paused have nodes of their own.
pub fn holds_out_until(job: &Job, kind: Kind, placement: &Placement) -> Option<Time> {
    let since = job.holding_out[kind.ix()]?;
    match kind {
        Kind::Map => (!job.waiting_maps.has_returned()).then(|| since + placement.node_locality_delay),
        Kind::Reduce => job.paused.is_empty().then(|| since + placement.colocate),
    }
}

fn holds_out_for_maps(job: &mut Job, offer: Offer<'_>, colocate: Span) -> bool {
    if colocate.is_zero() || job.mapped_on(offer.node) {
        job.holding_out[1] = None;
        return false;
    }
    let since = *job.holding_out[1].get_or_insert(offer.now);
    offer.now.since(since) < colocate
}

/// After how many refused offers a paused reduce moves (FCS, section 4: D = -M ln((1-L) / (1+(1-L)))).
pub fn patience(migrate: Migration, nodes: u32) -> u64 {
    match migrate {
        Migration::Never => u64::MAX,
        Migration::AfterRefusals(most) => u64::from(most),
        Migration::ForLocality(locality) => {
            let off = 1.0 - locality;
            (-f64::from(nodes) * (off / (1.0 + off)).ln()).round() as u64
        }
    }
}
