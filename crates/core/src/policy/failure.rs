//! Chronos (section III-B): which running attempt makes room for lost work.

use crate::ids::{Kind, NodeId};
use crate::policy::order::{Rank, Ranking};
use crate::policy::preempt::may_give_way;
use crate::policy::{Guards, JobOrder, order};
use crate::state::{JobIx, State};
use crate::units::Time;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// A running attempt that could make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its job.
    pub jx: JobIx,
    /// Its task.
    pub task: u32,
    /// Where it runs.
    pub node: NodeId,
}

/// Where a job stands in the base policy's own terms: the ranks of its groups from the top, then its own.
pub fn standing(ranking: &Ranking, order: JobOrder, state: &State, jx: JobIx, kind: Kind) -> SmallVec<[Rank; 4]> {
    let mut ranks = ranking.group_ranks(jx);
    ranks.push(order::job_rank(order, state.job(jx), kind, 0));
    ranks
}

/// The candidate on these nodes whose job ranks last, and among its attempts the one that has come least far.
pub fn last_in_rank(
    ranking: &Ranking,
    order: JobOrder,
    state: &State,
    kind: Kind,
    nodes: impl Iterator<Item = NodeId>,
    now: Time,
) -> Option<Candidate> {
    let mut last = None;
    for node in nodes {
        let Some(place) = state.up(node) else { continue };
        for &(jx, task, number) in &place.running[kind.ix()] {
            let job = state.job(jx);
            if job.closed
                || job.task(kind, task).number != number
                || !may_give_way(job, kind, task, &Guards::default(), now)
            {
                continue;
            }
            let key = (standing(ranking, order, state, jx, kind), Reverse(job.task(kind, task).progress_ppm));
            let last_so_far = last.get_or_insert_with(|| (key.clone(), Candidate { jx, task, node }));
            if key > last_so_far.0 {
                *last_so_far = (key, Candidate { jx, task, node });
            }
        }
    }
    last.map(|(_, candidate)| candidate)
}
