//! The text of a figure over several seeds: its mean and its 95 % interval.

pub use giveway_sim::statistics::Estimate;
use giveway_sim::statistics::VANISHED;
use serde::{Deserialize, Serialize};

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
    fn a_half_and_a_double_cancel_out() {
        let estimate = Estimate::of_changes(&[-0.5, 1.0]);
        assert!(estimate.mean.abs() < 1e-12, "{estimate:?}");
        assert_eq!(Unit::Change.show(Estimate::of_changes(&[-1.0]).mean), "at most 1/1000");
        assert_eq!(Unit::Change.show_estimate(Estimate::of_changes(&[-1.0; 8])), "at most 1/1000");
        // A seed without a figure is left out.
        assert_eq!(Estimate::of_changes(&[f64::NAN, 0.5]).mean, 0.5);
    }
}
