//! Migration: a paused reduce resumes on its own node, or moves to another after it has refused enough offers (FCS, Algorithm 2).

use super::{Choice, Offer, Placement, colocation};
use crate::state::{Job, JobKey};
use serde::{Deserialize, Serialize};

/// When a paused reduce moves to another node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// Never: it waits for its own node.
    Never,
    /// After this many refused offers.
    AfterRefusals(u32),
    /// After as many refused offers as give this probability of finding its own node again: D = -M ln((1-L) / (1+(1-L))).
    ForLocality(f64),
}

impl Migration {
    pub(super) fn check(self) -> Result<(), String> {
        match self {
            Migration::ForLocality(locality) if !(0.0..1.0).contains(&locality) => {
                Err("placement.migration.for-locality must be at least 0 and below 1".into())
            }
            _ => Ok(()),
        }
    }
}

/// A reduce of the job for the offered slot (FCS, Algorithm 2, lines 4 to 17).
///
/// One that paused on the node, or that is pending, is taken at once, unless it waits for a node with maps of its job. Otherwise the one that
/// has been paused longest moves here, once enough offers were refused.
pub(super) fn choose_reduce(placement: &Placement, job: &mut Job, key: JobKey, offer: Offer<'_>) -> Option<Choice> {
    if !job.paused().is_empty()
        && let Some(&(_, reduce)) = offer.nodes.get(offer.node).paused().iter().find(|&&(owner, _)| owner == key)
    {
        return Some(Choice::PausedReduce(reduce));
    }
    if let Some(reduce) = job.next_pending_reduce()
        && !colocation::waits_for_maps_node(job, offer, placement.colocation_delay)
    {
        return Some(Choice::FreshReduce(reduce));
    }
    let &(oldest, refused_before) = job.paused().front()?;
    let refused = job.refused_offers() - refused_before;
    if refused > refusals_before_migration(placement.migration, offer.nodes.up_count()) {
        return Some(Choice::PausedReduce(oldest));
    }
    job.refuse_offer();
    None
}

/// How many offers a paused reduce refuses before it moves (FCS, section 4: D = -M ln((1-L) / (1+(1-L)))).
pub fn refusals_before_migration(migration: Migration, nodes: u32) -> u64 {
    match migration {
        Migration::Never => u64::MAX,
        Migration::AfterRefusals(most) => u64::from(most),
        Migration::ForLocality(locality) => {
            let off = 1.0 - locality;
            (-f64::from(nodes) * (off / (1.0 + off)).ln()).round() as u64
        }
    }
}
