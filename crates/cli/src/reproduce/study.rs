//! The results of reproducing one paper: headlines with our figures, directions by seed, figures, and sensitivity to parameters that we chose.

use crate::report::{Chart, text};
use crate::table::interval;
use serde::Serialize;

/// The results for one paper.
#[derive(Serialize)]
pub struct Study {
    /// Short name of the paper, also the base name of its page.
    pub paper: &'static str,
    /// Title of its page.
    pub title: &'static str,
    /// What was run and how it was measured, in a few sentences.
    pub about: &'static str,
    /// The paper's main claims with our figures.
    pub headlines: Vec<Headline>,
    /// Claims that must hold for nearly every seed.
    pub directions: Vec<Direction>,
    /// Our counterparts of the paper's figures and tables.
    pub figures: Vec<Figure>,
    /// The headlines' figures under other choices of parameters that the paper does not give.
    pub sensitivity: Vec<SensitivityTable>,
}

/// Mean over seeds with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean; NaN without values.
    pub mean: f64,
    /// Half the width of the interval; `None` for a single value.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from these values, one per seed. NaN and infinities are ignored.
    pub fn of(values: &[f64]) -> Estimate {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return Estimate { mean: f64::NAN, half_width: None };
        }
        let (mean, half_width) = interval(&values);
        Estimate { mean, half_width: half_width.is_finite().then_some(half_width) }
    }

    fn lower(&self) -> f64 {
        self.mean - self.half_width.unwrap_or(0.0)
    }

    /// Upper end of the interval; the mean for a single value.
    pub fn upper(&self) -> f64 {
        self.mean + self.half_width.unwrap_or(0.0)
    }
}

/// Unit and text form of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A relative change (0.1 is +10 %).
    Change,
    /// A fraction (0-1), printed in percent.
    Fraction,
    /// Seconds.
    Seconds,
    /// A number without a unit.
    Plain,
}

impl Unit {
    /// The text of a value; `-` if it is not finite.
    pub fn show(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "-".into(),
            Unit::Change => format!("{:+.1} %", value * 100.0).replace('-', "−"),
            Unit::Fraction => format!("{:.1} %", value * 100.0),
            Unit::Seconds if value.abs() >= 100.0 => format!("{value:.0} s"),
            Unit::Seconds => format!("{value:.1} s"),
            Unit::Plain if value.abs() >= 100.0 => format!("{value:.0}"),
            Unit::Plain => format!("{value:.2}"),
        }
    }

    /// The text of an estimate: mean and half width of the interval.
    pub fn show_estimate(self, estimate: Estimate) -> String {
        let Some(half_width) = estimate.half_width else { return self.show(estimate.mean) };
        let half_width = match self {
            Unit::Change | Unit::Fraction => format!("{:.1}", half_width * 100.0),
            Unit::Seconds if estimate.mean.abs() >= 100.0 => format!("{half_width:.0}"),
            Unit::Seconds => format!("{half_width:.1}"),
            Unit::Plain => format!("{half_width:.2}"),
        };
        let mean = self.show(estimate.mean);
        match mean.split_once(' ') {
            Some((number, unit)) => format!("{number} ± {half_width} {unit}"),
            None => format!("{mean} ± {half_width}"),
        }
    }
}

/// Result of comparing a claim with our figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Same direction and a similar size.
    Confirmed,
    /// Same direction, but less than half or more than twice the size.
    DirectionOnly,
    /// Opposite direction, or no significant difference.
    NotConfirmed,
}

impl Verdict {
    /// Text for tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotConfirmed => "not confirmed",
        }
    }
}

/// A main claim of a paper with our figure.
#[derive(Clone, Debug, Serialize)]
pub struct Headline {
    /// The claim.
    pub claim: String,
    /// Section, table or figure of the paper that makes it.
    pub section: &'static str,
    /// The paper's figure; NaN if the paper gives no number.
    pub paper: f64,
    /// Our figure.
    pub ours: Estimate,
    /// Unit of both.
    pub unit: Unit,
    /// Result of the comparison.
    pub verdict: Verdict,
    /// Explanation of our figure.
    pub reason: &'static str,
}

/// A size is similar to the paper's if it is larger or smaller by at most this factor.
const SIMILAR_FACTOR: f64 = 2.0;

fn is_similar(ours: f64, paper: f64) -> bool {
    (1.0 / SIMILAR_FACTOR..=SIMILAR_FACTOR).contains(&(ours / paper))
}

impl Headline {
    /// A figure changes by the relative amount `paper`. Confirmed if our whole interval has the same sign and our mean is a similar amount;
    /// direction only if just the sign agrees.
    pub fn change(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let same_direction = if paper < 0.0 { ours.upper() < 0.0 } else { ours.lower() > 0.0 };
        let verdict = match (same_direction, is_similar(ours.mean, paper)) {
            (true, true) => Verdict::Confirmed,
            (true, false) => Verdict::DirectionOnly,
            (false, _) => Verdict::NotConfirmed,
        };
        Headline { claim: claim.into(), section, paper, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure increases, and the paper gives no number. At best direction only.
    pub fn increase(claim: impl Into<String>, section: &'static str, values: &[f64], reason: &'static str) -> Headline {
        let ours = Estimate::of(values);
        let verdict = if ours.lower() > 0.0 { Verdict::DirectionOnly } else { Verdict::NotConfirmed };
        Headline { claim: claim.into(), section, paper: f64::NAN, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure stays the same: confirmed if our mean is at most `limit` from zero. The claim's text gets the limit appended.
    pub fn within_limit(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        limit: f64,
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let verdict = if ours.mean.abs() <= limit { Verdict::Confirmed } else { Verdict::NotConfirmed };
        let claim = format!("{}, within {} %", claim.into(), text::short(limit * 100.0));
        Headline { claim, section, paper, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure has the value `paper`: confirmed if ours is similar.
    pub fn level(
        claim: impl Into<String>,
        section: &'static str,
        unit: Unit,
        paper: f64,
        values: &[f64],
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let verdict = if is_similar(ours.mean, paper) { Verdict::Confirmed } else { Verdict::NotConfirmed };
        Headline { claim: claim.into(), section, paper, ours, unit, verdict, reason }
    }
}

/// A claim without a size that follows from a mechanism and should hold for nearly every seed.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// The claim.
    pub claim: String,
    /// Number of seeds for which it holds.
    pub seeds_held: usize,
    /// Number of seeds that were run.
    pub seeds: usize,
    /// Explanation if it does not hold; may be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub exception: &'static str,
}

impl Direction {
    /// The claim holds for each seed whose value is negative.
    pub fn decrease(claim: impl Into<String>, values: &[f64]) -> Direction {
        let seeds_held = values.iter().filter(|value| **value < 0.0).count();
        Direction { claim: claim.into(), seeds_held, seeds: values.len(), exception: "" }
    }

    /// Adds the explanation to print if the claim does not hold.
    pub fn with_exception(self, exception: &'static str) -> Direction {
        Direction { exception, ..self }
    }

    /// True if the claim holds for at least 19 of 20 seeds.
    pub fn holds(&self) -> bool {
        self.seeds_held * 20 >= self.seeds * 19
    }

    /// Claim, seeds and explanation, for a claim that does not hold.
    pub fn failure(&self) -> String {
        let exception = if self.exception.is_empty() { String::new() } else { format!(": {}", self.exception) };
        format!("{} ({} of {} seeds){exception}", self.claim, self.seeds_held, self.seeds)
    }
}

/// KeyMetrics behind headlines for several values of a parameter that the paper does not give.
#[derive(Clone, Debug, Serialize)]
pub struct SensitivityTable {
    /// Case and name of the parameter.
    pub parameter: String,
    /// Column headers.
    pub columns: Vec<String>,
    /// For each value of the parameter its label and one figure per column.
    pub rows: Vec<(String, Vec<Estimate>)>,
    /// Unit of all figures.
    pub unit: Unit,
}

/// A figure: the numbers behind one or more SVG files.
#[derive(Serialize)]
pub struct Figure {
    /// Base name of its files.
    pub id: String,
    /// Title.
    pub title: String,
    /// The paper's figure or table that it corresponds to.
    pub counterpart: String,
    /// Kind of plot and its data.
    pub plot: Plot,
}

/// A plot's data.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// A group of bars per category, one bar per series.
    Bars {
        /// Vertical axis.
        y: Measure,
        /// Names of the categories.
        categories: Vec<String>,
        /// Name of each series and its value per category.
        series: Vec<(String, Vec<Estimate>)>,
    },
    /// A line per series.
    Lines {
        /// Name of the horizontal axis.
        x: String,
        /// Vertical axis.
        y: Measure,
        /// Horizontal positions.
        x_values: Vec<f64>,
        /// Name of each series and its value per position.
        series: Vec<(String, Vec<Estimate>)>,
    },
    /// The empirical distribution function of each series.
    Distributions {
        /// Horizontal axis.
        x: Measure,
        /// Name of each series and its values of all seeds.
        series: Vec<(String, Vec<f64>)>,
    },
    /// Slots in use over time, by job, for each policy.
    Slots(#[serde(serialize_with = "serialize_slots")] Vec<(String, SlotsOverTime)>),
}

/// Quantity and unit of an axis.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Name of the quantity.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
}

impl Measure {
    /// A quantity in seconds.
    pub fn seconds(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Seconds }
    }

    /// A fraction (0-1).
    pub fn fraction(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Fraction }
    }

    /// A quantity without a unit.
    pub fn plain(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Plain }
    }
}

/// Slots in use over time, by job.
pub struct SlotsOverTime {
    /// The recorded slots; one group per job.
    pub chart: Chart,
    /// Display name of each job.
    pub jobs: Vec<String>,
}

/// Writes, for each policy, its name, the jobs' names and the slot counts over time.
fn serialize_slots<S: serde::Serializer>(runs: &[(String, SlotsOverTime)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|(name, slots)| (name, &slots.jobs, slots.chart.levels())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(paper: f64, values: &[f64]) -> Verdict {
        Headline::change("", "", paper, values, "").verdict
    }

    #[test]
    fn a_change_is_confirmed_if_direction_and_size_agree() {
        assert_eq!(verdict(-0.4, &[-0.3, -0.31, -0.29]), Verdict::Confirmed);
        assert_eq!(verdict(-0.4, &[-0.1, -0.11, -0.09]), Verdict::DirectionOnly);
        assert_eq!(verdict(-0.4, &[-0.9, -0.91, -0.92]), Verdict::DirectionOnly);
        assert_eq!(verdict(-0.4, &[0.3, 0.31, 0.29]), Verdict::NotConfirmed);
        // The mean has the right sign, but the interval includes zero.
        assert_eq!(verdict(-0.4, &[-0.9, 0.2, 0.3]), Verdict::NotConfirmed);
        assert_eq!(verdict(0.1, &[0.08]), Verdict::Confirmed);
        assert_eq!(verdict(-0.4, &[]), Verdict::NotConfirmed);
    }

    #[test]
    fn a_direction_holds_for_19_of_20_seeds() {
        let values = |up: usize| (0..20).map(|n| if n < up { 1.0 } else { -1.0 }).collect::<Vec<_>>();
        assert!(Direction::decrease("", &values(1)).holds());
        assert!(!Direction::decrease("", &values(2)).holds());
    }

    #[test]
    fn estimates_are_printed_with_their_intervals() {
        let estimate = Estimate { mean: -0.256, half_width: Some(0.012) };
        assert_eq!(Unit::Change.show_estimate(estimate), "−25.6 ± 1.2 %");
        assert_eq!(Unit::Seconds.show_estimate(Estimate { mean: 312.4, half_width: Some(4.0) }), "312 ± 4 s");
        assert_eq!(Unit::Plain.show_estimate(Estimate { mean: 1.5, half_width: None }), "1.50");
        assert_eq!(Unit::Fraction.show(0.125), "12.5 %");
    }
}
