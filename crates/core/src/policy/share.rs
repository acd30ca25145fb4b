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

/// Slots divided among claimants.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// What each gets.
    pub shares: Vec<f64>,
    /// What each unit of weight gets, where neither need nor guarantee says otherwise.
    pub level: f64,
}

/// Divides `slots` by weight, min shares first, nobody over need (max-min fairness).
pub fn divide(slots: f64, claimants: &[Claimant]) -> Division {
    let guarantee = |c: &Claimant| c.min.min(c.need);
    let guaranteed: f64 = claimants.iter().map(guarantee).sum();
    if guaranteed >= slots {
        let part = if guaranteed > 0.0 { slots / guaranteed } else { 0.0 };
        return Division { shares: claimants.iter().map(|c| guarantee(c) * part).collect(), level: 0.0 };
    }
    let total_need: f64 = claimants.iter().map(|c| c.need).sum();
    if total_need <= slots {
        return Division { shares: claimants.iter().map(|c| c.need).collect(), level: f64::INFINITY };
    }
    let level = level(slots, claimants);
    Division { shares: claimants.iter().map(|c| (level * c.weight).max(guarantee(c)).min(c.need)).collect(), level }
}

/// The level of water at which all slots are given out. Whoever's guarantee it passes starts to rise with it, whoever's need it passes
/// stops: between two such points the amount grows in proportion to the weights that rise.
fn level(slots: f64, claimants: &[Claimant]) -> f64 {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * claimants.len());
    let mut amount = 0.0;
    for c in claimants {
        let guarantee = c.min.min(c.need);
        amount += guarantee;
        points.push((guarantee / c.weight, c.weight));
        points.push((c.need / c.weight, -c.weight));
    }
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut at, mut rising) = (0.0, 0.0);
    for (point, change) in points {
        let reached = amount + rising * (point - at);
        if reached >= slots {
            return at + (slots - amount) / rising;
        }
        (amount, at) = (reached, point);
        rising += change;
    }
    at
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
) -> Division {
    let claimant = |job: &Job, starvation: f64| {
        let facts = job.facts(kind);
        let remaining_s = job.estimate.remaining.as_secs_f64().max(1e-3);
        Claimant { weight: starvation / remaining_s, min: 0.0, need: f64::from(facts.held() + facts.demand()) }
    };
    let plain: Vec<Claimant> = jobs.clone().map(|job| claimant(job, 1.0)).collect();
    let first = divide(f64::from(slots[kind.ix()]), &plain).shares;
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
        let shares = divide(10.0, &claimants(&[(1.0, 0.0, 2.0), (1.0, 0.0, 100.0)])).shares;
        assert!((shares[0] - 2.0).abs() < 1e-9 && (shares[1] - 8.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn min_shares_come_first() {
        let shares = divide(10.0, &claimants(&[(1.0, 8.0, 100.0), (1.0, 0.0, 100.0)])).shares;
        assert!((shares[0] - 8.0).abs() < 1e-9 && (shares[1] - 2.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn min_shares_over_the_cluster_are_scaled_down() {
        let shares = divide(10.0, &claimants(&[(1.0, 15.0, 100.0), (1.0, 5.0, 100.0)])).shares;
        assert!((shares.iter().sum::<f64>() - 10.0).abs() < 1e-9 && (shares[0] - 7.5).abs() < 1e-9, "{shares:?}");
    }

    /// The same by trying levels until the amount fits.
    fn divide_slowly(slots: f64, claimants: &[Claimant]) -> Vec<f64> {
        let at = |level: f64| -> Vec<f64> {
            claimants.iter().map(|c| (level * c.weight).max(c.min.min(c.need)).min(c.need)).collect()
        };
        let (mut low, mut high) = (0.0, 1e12);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if at(middle).iter().sum::<f64>() < slots { low = middle } else { high = middle }
        }
        at(high)
    }

    proptest::proptest! {
        #[test]
        fn the_level_is_where_the_amount_fits(
            of in proptest::collection::vec((0.01..10.0f64, 0.0..5.0f64, 0.1..50.0f64), 1..30),
            slots in 1.0..200.0f64,
        ) {
            let claimants = claimants(&of);
            let guaranteed: f64 = claimants.iter().map(|c| c.min.min(c.need)).sum();
            if guaranteed < slots {
                for (fast, slow) in divide(slots, &claimants).shares.iter().zip(divide_slowly(slots, &claimants)) {
                    proptest::prop_assert!((fast - slow).abs() < 1e-6, "{fast} {slow}");
                }
            }
        }
    }

    #[test]
    fn nobody_gets_more_than_of_use() {
        assert_eq!(divide(10.0, &claimants(&[(1.0, 0.0, 2.0), (3.0, 0.0, 4.0)])).shares, vec![2.0, 4.0]);
        assert_eq!(divide(10.0, &[]).shares, Vec::<f64>::new());
    }
}
