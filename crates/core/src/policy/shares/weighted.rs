//! Hadoop's fair scheduler: slots go to pools by weight, min shares first; a pool's slots to its jobs by weight.

use super::water_filling::{Claimant, divide};
use crate::ids::Kind;
use crate::policy::View;
use crate::policy::ranking::Ranking;
use crate::state::{Job, JobKey};

/// What a group is entitled to.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupShare {
    /// Guaranteed slots.
    pub min: f64,
    /// Its fair share. After the division this is what is left for its own jobs, without the groups inside it.
    pub fair: f64,
    /// The most slots it can use.
    pub need: f64,
}

/// The share of every job that has or needs a slot.
pub(super) fn job_shares(view: View<'_>, kind: Kind, ranking: &Ranking) -> Vec<(JobKey, f64)> {
    let groups = group_shares(view, kind, ranking);
    let mut members: Vec<Vec<(JobKey, &Job)>> = vec![Vec::new(); groups.len()];
    for (key, job) in view.state.jobs().iter().filter(|(_, job)| !job.is_closed()) {
        if job.counts(kind).allocated() + job.counts(kind).demand() > 0 {
            members[ranking.group_of(key)].push((key, job));
        }
    }
    let mut shares = Vec::new();
    for (group, members) in groups.into_iter().zip(members) {
        let claimants: Vec<Claimant> = members.iter().map(|(_, job)| claimant(job, kind)).collect();
        shares.extend(members.iter().map(|&(key, _)| key).zip(divide(group.fair, &claimants).shares));
    }
    shares
}

fn claimant(job: &Job, kind: Kind) -> Claimant {
    let counts = job.counts(kind);
    let need = if job.may_start(kind) { counts.allocated() + counts.demand() } else { counts.allocated() };
    Claimant { weight: job.priority().weight(), min: 0.0, need: f64::from(need) }
}

/// The share of every group of a ranking: a group's share is divided among the groups inside it and its own jobs together.
pub fn group_shares(view: View<'_>, kind: Kind, ranking: &Ranking) -> Vec<GroupShare> {
    let count = ranking.group_count();
    let mut own_need = vec![0.0; count];
    let jobs = view.state.jobs().iter().filter(|(_, job)| !job.is_closed() && job.may_start(kind));
    for (key, job) in jobs {
        let counts = job.counts(kind);
        own_need[ranking.group_of(key)] += f64::from(counts.allocated() + counts.demand());
    }
    // A group's number is larger than its parent's, so that going backwards meets children first.
    let mut need = own_need.clone();
    for at in (1..count).rev() {
        need[ranking.parent_of(at)] += need[at];
    }
    let guaranteed = (0..count).map(|at| f64::from(ranking.group_facts(at).min_share));
    let mut shares: Vec<GroupShare> =
        guaranteed.zip(&need).map(|(min, &need)| GroupShare { min, fair: 0.0, need }).collect();
    shares[0].fair = f64::from(view.state.nodes().slots()[kind]);
    for at in 0..count {
        let inside: Vec<usize> = (at + 1..count).filter(|&child| ranking.parent_of(child) == at).collect();
        let mut claimants = vec![Claimant { weight: 1.0, min: 0.0, need: own_need[at] }];
        claimants.extend(inside.iter().map(|&child| Claimant {
            weight: ranking.group_facts(child).weight,
            min: shares[child].min,
            need: shares[child].need,
        }));
        let division = divide(shares[at].fair, &claimants).shares;
        shares[at].fair = division[0];
        for (child, fair) in inside.into_iter().zip(&division[1..]) {
            shares[child].fair = *fair;
        }
    }
    shares
}
