//! Statistics of figures over several seeds: means with intervals, and whether a difference may be chance.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// How often signs are drawn at random, where there are too many combinations to try all.
const DRAWS: u32 = 20_000;
/// With up to this many seeds all combinations of signs are tried.
const ALL_SIGNS_MAX: usize = 14;

/// Mean over seeds with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean; NaN without values.
    pub mean: f64,
    /// Lower and upper end of the interval; `None` for a single value.
    pub interval: Option<(f64, f64)>,
}

/// Number of resamples of the bootstrap.
const RESAMPLES: usize = 2_000;
/// With fewer values than this, resampling them says little: the interval is their whole range.
const BOOTSTRAP_VALUES_MIN: usize = 5;

/// The smallest change that is told apart from others.
pub const VANISHED: f64 = -0.999;

impl Estimate {
    /// A value without an interval.
    pub fn single(value: f64) -> Estimate {
        Estimate { mean: value, interval: None }
    }

    /// The mean of these values, one per seed, with a percentile bootstrap interval, which never leaves the range of the values. NaN and
    /// infinities are ignored.
    pub fn of(values: &[f64]) -> Estimate {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        match values.len() {
            0 => Estimate::single(f64::NAN),
            1 => Estimate::single(values[0]),
            count if count < BOOTSTRAP_VALUES_MIN => {
                let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
                let range = values.iter().fold((low, high), |(low, high), value| (low.min(*value), high.max(*value)));
                Estimate { mean: mean(&values), interval: Some(range) }
            }
            _ => Estimate { mean: mean(&values), interval: Some(bootstrap(&values)) },
        }
    }

    /// The mean of relative changes (0.1 is 10 % more), one per seed: their geometric mean, so that a half and a double cancel out. What
    /// vanishes counts as a thousandth.
    pub fn of_changes(changes: &[f64]) -> Estimate {
        let known = changes.iter().filter(|change| !change.is_nan());
        let logs: Vec<f64> = known.map(|change| change.max(VANISHED).ln_1p()).collect();
        let logs = Estimate::of(&logs);
        Estimate { mean: logs.mean.exp_m1(), interval: logs.interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())) }
    }

    /// True for changes to nothing, or almost: their size is not known.
    pub fn has_vanished(&self) -> bool {
        self.mean <= VANISHED + 1e-9
    }

    /// Lower end of the interval; the mean for a single value.
    pub fn lower(&self) -> f64 {
        self.interval.map_or(self.mean, |(low, _)| low)
    }

    /// Upper end of the interval; the mean for a single value.
    pub fn upper(&self) -> f64 {
        self.interval.map_or(self.mean, |(_, high)| high)
    }

    /// True if the interval contains the value.
    pub fn contains(&self, value: f64) -> bool {
        (self.lower()..=self.upper()).contains(&value)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle 95 % of the means of random resamples. Always the same for the same values.
fn bootstrap(values: &[f64]) -> (f64, f64) {
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let mut resampled_mean = || {
        let sum: f64 = (0..values.len()).map(|_| values[random.random_range(0..values.len())]).sum();
        sum / values.len() as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resampled_mean()).collect();
    means.sort_unstable_by(f64::total_cmp);
    (means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40])
}

/// The two-sided permutation test of paired differences: how often their sum is as far from zero if each had its sign by chance.
pub fn sign_flip_p(differences: &[f64]) -> f64 {
    if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
        return f64::NAN;
    }
    let observed = differences.iter().sum::<f64>().abs();
    // Sums in another order differ in their last bits.
    let is_as_far = |sum: f64| sum.abs() >= observed * (1.0 - 1e-9);
    let flipped = |signs: u64| {
        differences
            .iter()
            .enumerate()
            .map(|(at, difference)| if signs >> at & 1 == 1 { -difference } else { *difference })
            .sum()
    };
    if differences.len() <= ALL_SIGNS_MAX {
        let all = 1u64 << differences.len();
        return (0..all).filter(|&signs| is_as_far(flipped(signs))).count() as f64 / all as f64;
    }
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let drawn = |random: &mut Pcg64Mcg| {
        differences
            .iter()
            .map(|difference| if random.random_bool(0.5) { -difference } else { *difference })
            .sum::<f64>()
    };
    let as_far = (0..DRAWS).filter(|_| is_as_far(drawn(&mut random))).count();
    // The observed signs are one of the combinations.
    (as_far + 1) as f64 / f64::from(DRAWS + 1)
}

/// Holm's correction: each p-value times the number of those that are not smaller, and never below that of a smaller one.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&at| !p[at].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = p.to_vec();
    let mut largest = 0.0f64;
    for (smaller, &at) in order.iter().enumerate() {
        largest = largest.max(p[at] * (order.len() - smaller) as f64).min(1.0);
        corrected[at] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_mean_and_stay_within_the_values() {
        let values = [0.9, 1.0, 0.95, 0.99, 1.0, 0.97, 0.98, 1.0];
        let estimate = Estimate::of(&values);
        assert!(estimate.contains(estimate.mean) && estimate.upper() <= 1.0 && estimate.lower() >= 0.9, "{estimate:?}");
        assert!(estimate.upper() - estimate.lower() > 0.01, "{estimate:?}");
        assert_eq!(Estimate::of(&[1.0, 3.0]).interval, Some((1.0, 3.0)));
    }

    #[test]
    fn equal_signs_are_as_unlikely_as_tossing_a_coin_that_often() {
        assert_eq!(sign_flip_p(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 32.0);
        assert_eq!(sign_flip_p(&[0.1, -0.1]), 1.0);
        assert_eq!(sign_flip_p(&[0.0; 4]), 1.0, "policies that do not differ");
        assert!(sign_flip_p(&[]).is_nan() && sign_flip_p(&[1.0, f64::NAN]).is_nan());
        let drawn = sign_flip_p(&[1.0; 20]);
        assert!(drawn < 0.001, "{drawn}");
        let mixed: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 1.0 } else { -0.9 }).collect();
        assert!(sign_flip_p(&mixed) > 0.5);
    }

    #[test]
    fn many_comparisons_raise_the_probability_of_chance() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        let with_missing = holm(&[f64::NAN, 0.02]);
        assert!(with_missing[0].is_nan() && with_missing[1] == 0.02);
    }
}
