//! A figure over several seeds: its mean, its 95 % interval, and its text form.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

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
const VANISHED: f64 = -0.999;

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

/// Unit and text form of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A relative change (0.1 is +10 %).
    #[default]
    Change,
    /// A fraction (0-1), printed in percent.
    Fraction,
    Seconds,
    /// A number without a unit.
    Plain,
}

impl Unit {
    /// The text of a value; `-` if it is not finite.
    pub fn show(self, value: f64) -> String {
        if value.is_finite() { self.form(value).show(value) } else { "-".into() }
    }

    /// The text of an estimate: the mean and the ends of its interval.
    pub fn show_estimate(self, estimate: Estimate) -> String {
        let mean = self.show(estimate.mean);
        let is_vanished = self == Unit::Change && estimate.has_vanished();
        let interval = estimate.interval.filter(|_| estimate.mean.is_finite() && !is_vanished);
        let Some((low, high)) = interval else { return mean };
        let form = self.form(estimate.mean);
        format!("{mean} ({} to {})", form.number(low), form.number(high))
    }

    fn form(self, value: f64) -> Form {
        match self {
            // Near -100 %, percentages hide whether little or nothing is left.
            Unit::Change if value <= VANISHED + 1e-9 => Form::Vanished,
            Unit::Change if value <= -0.8 => Form::Divided,
            Unit::Change if value >= 4.0 => Form::Times,
            Unit::Change => Form::SignedPercent,
            Unit::Fraction => Form::Percent,
            Unit::Seconds => Form::Number { decimals: if value.abs() >= 100.0 { 0 } else { 1 }, suffix: " s" },
            Unit::Plain if value.abs() >= 100.0 => Form::Number { decimals: 0, suffix: "" },
            Unit::Plain => Form::Number { decimals: if value.abs() >= 0.1 { 2 } else { 4 }, suffix: "" },
        }
    }
}

/// How a value and the ends of its interval are printed.
#[derive(Clone, Copy)]
enum Form {
    /// A change to nothing, or almost.
    Vanished,
    /// A change of -96 % as `1/25`.
    Divided,
    /// A change of +500 % as `6.0x`.
    Times,
    SignedPercent,
    Percent,
    Number {
        decimals: usize,
        suffix: &'static str,
    },
}

impl Form {
    fn show(self, value: f64) -> String {
        let suffix = match self {
            Form::Vanished | Form::Divided | Form::Times => "",
            Form::SignedPercent | Form::Percent => " %",
            Form::Number { suffix, .. } => suffix,
        };
        self.number(value) + suffix
    }

    /// The number without its unit.
    fn number(self, value: f64) -> String {
        match self {
            Form::Vanished => "at most 1/1000".into(),
            Form::Divided => format!("1/{:.1}", 1.0 / (1.0 + value)),
            Form::Times => format!("{:.1}x", 1.0 + value),
            Form::SignedPercent => format!("{:+.1}", value * 100.0).replace('-', "−"),
            Form::Percent => format!("{:.1}", value * 100.0),
            Form::Number { decimals, .. } => format!("{value:.decimals$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_printed_with_their_intervals() {
        let estimate = |mean, low, high| Estimate { mean, interval: Some((low, high)) };
        assert_eq!(Unit::Change.show_estimate(estimate(-0.256, -0.268, -0.244)), "−25.6 % (−26.8 to −24.4)");
        assert_eq!(Unit::Seconds.show_estimate(estimate(312.4, 308.0, 316.0)), "312 s (308 to 316)");
        assert_eq!(Unit::Change.show_estimate(estimate(-0.96, -0.98, -0.95)), "1/25.0 (1/50.0 to 1/20.0)");
        assert_eq!(Unit::Change.show(5.0), "6.0x");
        assert_eq!(Unit::Plain.show_estimate(Estimate::single(1.5)), "1.50");
        assert_eq!(Unit::Fraction.show(0.125), "12.5 %");
        assert_eq!(Unit::Seconds.show_estimate(Estimate::of(&[])), "-");
    }

    #[test]
    fn intervals_hold_the_mean_and_stay_within_the_values() {
        let values = [0.9, 1.0, 0.95, 0.99, 1.0, 0.97, 0.98, 1.0];
        let estimate = Estimate::of(&values);
        assert!(estimate.contains(estimate.mean) && estimate.upper() <= 1.0 && estimate.lower() >= 0.9, "{estimate:?}");
        assert!(estimate.upper() - estimate.lower() > 0.01, "{estimate:?}");
        assert_eq!(Estimate::of(&[1.0, 3.0]).interval, Some((1.0, 3.0)));
    }

    #[test]
    fn a_half_and_a_double_cancel_out() {
        let estimate = Estimate::of_changes(&[-0.5, 1.0]);
        assert!(estimate.mean.abs() < 1e-12, "{estimate:?}");
        assert_eq!(Unit::Change.show(Estimate::of_changes(&[-1.0]).mean), "at most 1/1000");
        assert_eq!(Unit::Change.show_estimate(Estimate::of_changes(&[-1.0; 8])), "at most 1/1000");
        // A seed without a figure is left out.
        assert_eq!(Estimate::of_changes(&[f64::NAN, 0.5]).mean, 0.5);
    }
}
