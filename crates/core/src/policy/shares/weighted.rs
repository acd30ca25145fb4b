//! Hadoop's fair scheduler: slots go to pools by weight, min shares first; a pool's slots to its jobs by weight.

use super::water_filling::{Claimant, divide};
use crate::ids::Kind;
use crate::policy::View;
use crate::policy::groups::Rights;
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
    shares_by(view, kind, ranking, &|job| startable(job, kind), &|job| present_need(job, kind))
}

/// The share of every job that needs something: groups are divided by what their jobs need of their group, jobs by what they need themselves.
pub fn shares_by(
    view: View<'_>,
    kind: Kind,
    ranking: &Ranking,
    need_of_group: &dyn Fn(&Job) -> f64,
    need: &dyn Fn(&Job) -> f64,
) -> Vec<(JobKey, f64)> {
    let groups = shares_of_groups(view, kind, ranking, need_of_group);
    let mut members: Vec<Vec<(JobKey, &Job)>> = vec![Vec::new(); groups.len()];
    for (key, job) in view.state.jobs().iter().filter(|(_, job)| !job.is_closed()) {
        if need(job) > 0.0 {
            members[ranking.group_of(key)].push((key, job));
        }
    }
    let mut shares = Vec::new();
    for (group, members) in groups.into_iter().zip(members) {
        let claimants: Vec<Claimant> = members.iter().map(|(_, job)| claimant(job, need)).collect();
        shares.extend(members.iter().map(|&(key, _)| key).zip(divide(group.fair, &claimants).shares));
    }
    shares
}

fn claimant(job: &Job, need: &dyn Fn(&Job) -> f64) -> Claimant {
    Claimant { weight: job.priority().weight(), min: 0.0, need: need(job) }
}

/// The slots that a job has or can use now.
fn present_need(job: &Job, kind: Kind) -> f64 {
    let counts = job.counts(kind);
    f64::from(if job.may_start(kind) { counts.allocated() + counts.demand() } else { counts.allocated() })
}

/// The same, but nothing before the slow start.
fn startable(job: &Job, kind: Kind) -> f64 {
    if job.may_start(kind) { present_need(job, kind) } else { 0.0 }
}

/// The share of every group of a ranking: a group's share is divided among the groups inside it and its own jobs together.
pub fn group_shares(view: View<'_>, kind: Kind, ranking: &Ranking) -> Vec<GroupShare> {
    shares_of_groups(view, kind, ranking, &|job| startable(job, kind))
}

fn shares_of_groups(view: View<'_>, kind: Kind, ranking: &Ranking, need: &dyn Fn(&Job) -> f64) -> Vec<GroupShare> {
    let count = ranking.group_count();
    let all_slots = view.state.nodes().slots();
    let mut own_need = vec![0.0; count];
    for (key, job) in view.state.jobs().iter().filter(|(_, job)| !job.is_closed()) {
        own_need[ranking.group_of(key)] += need(job);
    }
    // A group's number is larger than its parent's, so that going backwards meets children first.
    let mut need = own_need.clone();
    for at in (1..count).rev() {
        need[ranking.parent_of(at)] += need[at];
    }
    let rights: Vec<Rights> = (0..count).map(|at| ranking.rights(at, all_slots)).collect();
    let mut shares: Vec<GroupShare> = rights
        .iter()
        .zip(&need)
        .map(|(rights, &need)| GroupShare { min: rights.min, fair: 0.0, need: need.min(rights.max) })
        .collect();
    shares[0].fair = f64::from(all_slots[kind]);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    (1..count).for_each(|child| children[ranking.parent_of(child)].push(child));
    for (at, inside) in children.into_iter().enumerate() {
        let mut claimants = vec![Claimant { weight: 1.0, min: 0.0, need: own_need[at] }];
        claimants.extend(inside.iter().map(|&child| Claimant {
            weight: rights[child].weight,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{JobSpec, Priority};
    use crate::policy::groups::RoutingStage;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::tenants::Tenants;

    /// Map shares of jobs, each in its pool, on 16 map slots.
    fn shares(pools: &str, jobs: &[(&str, JobSpec)]) -> Vec<f64> {
        let tenants: Tenants = toml::from_str(pools).unwrap();
        let mut ranking = Ranking::new(RoutingStage::FairPools, Kind::Map, &tenants);
        let mut state = cluster(4, 4, 1);
        for (pool, spec) in jobs {
            let key = submit(&mut state, spec);
            ranking.add_job(key, 0, "ann", pool, None);
        }
        let mut shares = job_shares(View { now: at(0.0), state: &state }, Kind::Map, &ranking);
        shares.sort_by_key(|&(key, _)| key);
        shares.into_iter().map(|(_, share)| (share * 1e6).round() / 1e6).collect()
    }

    const NESTED: &str = "[[pools]]\nname='a'\n[[pools]]\nname='b'\nweight=3.0\n\
        [[pools]]\nname='b1'\nparent='b'\n[[pools]]\nname='b2'\nparent='b'";

    #[test]
    fn a_pools_share_is_divided_among_its_children() {
        // a : b is 1 : 3 of 16 slots; b1 and b2 halve the 12 of b.
        assert_eq!(
            shares(NESTED, &[("a", job(0, 20, 0)), ("b1", job(1, 20, 0)), ("b2", job(2, 20, 0))]),
            [4.0, 6.0, 6.0]
        );
    }

    #[test]
    fn jobs_beside_child_pools_count_as_one_child_of_weight_1() {
        // The job in b itself needs 2 of its third of 12 slots; b1 and b2 halve the rest.
        let jobs = [("a", job(0, 20, 0)), ("b", job(1, 2, 0)), ("b1", job(2, 20, 0)), ("b2", job(3, 20, 0))];
        assert_eq!(shares(NESTED, &jobs), [4.0, 2.0, 5.0, 5.0]);
    }

    #[test]
    fn min_shares_of_children_come_out_of_their_parents_share() {
        let pools = NESTED.replace("name='b1'", "name='b1'\nmin_maps=9");
        let jobs = [("a", job(0, 20, 0)), ("b1", job(1, 20, 0)), ("b2", job(2, 20, 0))];
        assert_eq!(shares(&pools, &jobs), [4.0, 9.0, 3.0]);
    }

    #[test]
    fn jobs_divide_their_pools_share_by_priority_and_need() {
        // a needs 6 slots, fewer than its half. In b, 10 slots by weight 2 : 1, but the high job needs only 5.
        let high = JobSpec { priority: Priority::High, ..job(1, 5, 0) };
        let pools = "[[pools]]\nname='a'\n[[pools]]\nname='b'";
        assert_eq!(shares(pools, &[("a", job(0, 6, 0)), ("b", high), ("b", job(2, 20, 0))]), [6.0, 5.0, 5.0]);
    }
}
