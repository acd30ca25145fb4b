//! Water filling: dividing slots by weight, with a guaranteed minimum and a maximum for each claimant (max-min fairness).

/// A job or group among which slots are divided.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// Slots are divided in proportion to it.
    pub weight: f64,
    /// Guaranteed slots, as far as they are needed.
    pub min: f64,
    /// The most slots it can use.
    pub need: f64,
}

/// Slots divided among claimants.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Slots of each claimant, in the order given.
    pub shares: Vec<f64>,
    /// Slots per unit of weight where neither minimum nor need decides; infinite if there are enough slots for all.
    pub level: f64,
}

/// Divides `slots` by weight, guaranteed minimums first and no claimant beyond its need; what one cannot use goes to the others.
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

/// The level at which all slots are used. A claimant's amount rises with the level between its minimum and its need, so the total is
/// linear in the level between these points.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn claimants(of: &[(f64, f64, f64)]) -> Vec<Claimant> {
        of.iter().map(|&(weight, min, need)| Claimant { weight, min, need }).collect()
    }

    #[test]
    fn what_one_cannot_use_goes_to_the_others() {
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

    /// The reference implementation: bisection of the level.
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
        fn the_level_agrees_with_bisection(
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
    fn no_claimant_gets_more_than_it_needs() {
        assert_eq!(divide(10.0, &claimants(&[(1.0, 0.0, 2.0), (3.0, 0.0, 4.0)])).shares, vec![2.0, 4.0]);
        assert_eq!(divide(10.0, &[]).shares, Vec::<f64>::new());
    }
}
