//! How many slots each job is owed.
//!
//! Both rules end in the same filling: everybody gets in proportion to weight, nobody more than can be used, and what is left over is
//! handed on until it is used up.

use super::estimate::remaining_time;
use crate::ids::Kind;
use crate::state::Job;
use crate::units::Time;

/// Someone who is owed slots.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// In proportion to what.
    pub weight: f64,
    /// Guaranteed in any case, as far as it is needed.
    pub min: f64,
    /// The most that is of use.
    pub need: f64,
}

/// Divides `slots` by weight, min shares first, nobody over need (max-min fairness).
pub fn divide(slots: f64, claimants: &[Claimant]) -> Vec<f64> {
    let mut shares: Vec<f64> = claimants.iter().map(|claimant| claimant.min.min(claimant.need)).collect();
    let guaranteed: f64 = shares.iter().sum();
    if guaranteed >= slots {
        let part = if guaranteed > 0.0 { slots / guaranteed } else { 0.0 };
        shares.iter_mut().for_each(|share| *share *= part);
        return shares;
    }
    // The level of water is the slots each unit of weight gets; whoever's need or guarantee it passes stops or starts rising there.
    let amount =
        |level: f64| -> f64 { claimants.iter().map(|c| (level * c.weight).max(c.min.min(c.need)).min(c.need)).sum() };
    let total_need: f64 = claimants.iter().map(|claimant| claimant.need).sum();
    if total_need <= slots {
        return claimants.iter().map(|claimant| claimant.need).collect();
    }
    let (mut low, mut high) = (0.0, 1.0);
    while amount(high) < slots {
        high *= 2.0;
    }
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if amount(middle) < slots { low = middle } else { high = middle }
    }
    for (share, c) in shares.iter_mut().zip(claimants) {
        *share = (high * c.weight).max(c.min.min(c.need)).min(c.need);
    }
    shares
}

/// Against what the starvation ratio measures the time a job will have taken (hSRTF, eq. 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Alone on its share: one while a job gets what it was promised, more when it was kept waiting.
    OnItsShare,
    /// Alone on the whole cluster, as the paper writes. For a job of many waves that is the inverse of its share, so that the product of both is
    /// the same for every job and eq. 3 is undone.
    OnTheCluster,
}

/// hSRTF, eqs. 3 and 4: shares in inverse proportion to remaining time, adding up to the cluster; each then multiplied by its starvation
/// ratio (eq. 5) and scaled back to the cluster.
pub fn inverse_remaining<'a>(
    jobs: impl Iterator<Item = &'a Job> + Clone,
    kind: Kind,
    slots: [u32; 2],
    alone: Alone,
    now: Time,
) -> Vec<f64> {
    let claimant = |job: &Job, starvation: f64| {
        let facts = job.facts(kind);
        let remaining_s = job.estimate.remaining.as_secs_f64().max(1e-3);
        Claimant { weight: starvation / remaining_s, min: 0.0, need: f64::from(facts.held() + facts.demand()) }
    };
    let plain: Vec<Claimant> = jobs.clone().map(|job| claimant(job, 1.0)).collect();
    let first = divide(f64::from(slots[kind.ix()]), &plain);
    let starved: Vec<Claimant> = jobs
        .zip(&first)
        .map(|(job, &share)| claimant(job, starvation_ratio(job, kind, share, slots, alone, now)))
        .collect();
    divide(f64::from(slots[kind.ix()]), &starved)
}

/// hSRTF, eq. 5: `(time since launch + remaining time on this share) / makespan alone`.
pub fn starvation_ratio(job: &Job, kind: Kind, share: f64, slots: [u32; 2], alone: Alone, now: Time) -> f64 {
    // The share of one lane stands for the same part of the other: the paper knows only one share.
    let part = (share / f64::from(slots[kind.ix()].max(1))).max(1e-6);
    let capacity = slots.map(|slots| (f64::from(slots) * part).max(1.0));
    let left = Kind::BOTH.map(|kind| job.total(kind) - job.facts(kind).done);
    let on_share = remaining_time(left, capacity, job.estimate.task);
    let since_launch = now.since(job.submitted);
    let makespan = match alone {
        Alone::OnItsShare => remaining_time(Kind::BOTH.map(|kind| job.total(kind)), capacity, job.estimate.task),
        Alone::OnTheCluster => job.estimate.alone,
    };
    let alone_s = makespan.as_secs_f64().max(1e-3);
    ((since_launch + on_share).as_secs_f64() / alone_s).max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimants(of: &[(f64, f64, f64)]) -> Vec<Claimant> {
        of.iter().map(|&(weight, min, need)| Claimant { weight, min, need }).collect()
    }

    #[test]
    fn surplus_is_handed_on() {
        let shares = divide(10.0, &claimants(&[(1.0, 0.0, 2.0), (1.0, 0.0, 100.0)]));
        assert!((shares[0] - 2.0).abs() < 1e-9 && (shares[1] - 8.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn min_shares_come_first() {
        let shares = divide(10.0, &claimants(&[(1.0, 8.0, 100.0), (1.0, 0.0, 100.0)]));
        assert!((shares[0] - 8.0).abs() < 1e-9 && (shares[1] - 2.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn min_shares_over_the_cluster_are_scaled_down() {
        let shares = divide(10.0, &claimants(&[(1.0, 15.0, 100.0), (1.0, 5.0, 100.0)]));
        assert!((shares.iter().sum::<f64>() - 10.0).abs() < 1e-9 && (shares[0] - 7.5).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn nobody_gets_more_than_of_use() {
        assert_eq!(divide(10.0, &claimants(&[(1.0, 0.0, 2.0), (3.0, 0.0, 4.0)])), vec![2.0, 4.0]);
        assert_eq!(divide(10.0, &[]), Vec::<f64>::new());
    }
}
