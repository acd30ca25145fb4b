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
    pub(super) const DEFAULT: Migration = Migration::ForLocality(0.95);

    pub(super) fn is_default(&self) -> bool {
        *self == Migration::DEFAULT
    }

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
    if let Some(reduce) = job.next_pending_reduce(offer.node, offer.now)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::PreemptAction;
    use crate::ids::{NodeId, TaskKey};
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::State;

    /// A job with this many reduces, of which the first is paused on node 0 of two nodes.
    fn paused_on_node_0(reduces: u32) -> (State, JobKey) {
        let mut state = cluster(2, 1, 1);
        let job = submit(&mut state, &job(0, 1, reduces));
        let attempt = state.launch(job, TaskKey::reduce(0), NodeId(0), at(0.0));
        state.request_stop(job, TaskKey::reduce(0), PreemptAction::Pause);
        state.pause(job, attempt, 500_000, at(10.0));
        (state, job)
    }

    fn choose(state: &mut State, job: JobKey, node: u32, migration: Migration) -> Option<Choice> {
        let placement = Placement { migration, ..Placement::default() };
        let (jobs, nodes) = state.jobs_and_nodes();
        choose_reduce(&placement, jobs.get_mut(job), job, Offer { node: NodeId(node), nodes, now: at(20.0) })
    }

    #[test]
    fn the_formula_at_its_boundaries() {
        // L = 0: D = M ln 2. L = 0.95: D = M ln 21.
        for (locality, nodes, expected) in [(0.0, 10, 7), (0.95, 1, 3), (0.95, 20, 61), (0.95, 0, 0)] {
            let refusals = refusals_before_migration(Migration::ForLocality(locality), nodes);
            assert_eq!(refusals, expected, "L = {locality}, M = {nodes}");
        }
        assert_eq!(Migration::ForLocality(0.0).check(), Ok(()));
        for locality in [-0.1, 1.0, f64::NAN] {
            assert!(Migration::ForLocality(locality).check().is_err(), "L = {locality}");
        }
    }

    #[test]
    fn a_paused_reduce_migrates_with_the_offer_after_d_refusals_have_been_exceeded() {
        let (mut state, job) = paused_on_node_0(1);
        // D = 2: refused 0, 1 and 2 times before, it refuses; refused 3 times, it migrates.
        for refused in 0..3 {
            assert_eq!(choose(&mut state, job, 1, Migration::AfterRefusals(2)), None, "refused {refused} times");
        }
        assert_eq!(choose(&mut state, job, 1, Migration::AfterRefusals(2)), Some(Choice::PausedReduce(0)));
        assert_eq!(choose(&mut state, job, 1, Migration::Never), None);
    }

    #[test]
    fn the_own_node_and_pending_reduces_need_no_refusals() {
        let (mut state, job) = paused_on_node_0(2);
        assert_eq!(choose(&mut state, job, 0, Migration::Never), Some(Choice::PausedReduce(0)), "its own node");
        assert_eq!(choose(&mut state, job, 1, Migration::Never), Some(Choice::FreshReduce(1)), "a pending reduce");
        assert_eq!(state.job(job).refused_offers(), 0);
    }
}
