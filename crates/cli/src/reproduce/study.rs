//! What was found about a paper: its headlines beside our figures, directions seed by seed, figures, and how much rests on what we chose.

use crate::report::{Chart, text};
use crate::table::interval;
use serde::Serialize;

/// One paper, reproduced as far as it goes.
#[derive(Serialize)]
pub struct Study {
    /// Short name, also of its files.
    pub paper: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// What was run, in a sentence or two.
    pub about: &'static str,
    /// What it claims, and what we saw.
    pub headlines: Vec<Headline>,
    /// What must hold whatever the seed.
    pub directions: Vec<Direction>,
    /// Its figures, and ours.
    pub figures: Vec<Figure>,
    /// What becomes of the headlines if we had chosen otherwise.
    pub sensitivity: Vec<Sensitivity>,
}

/// Mean over seeds, and half of its 95 % interval; without it for a single seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the interval.
    pub half: Option<f64>,
}

impl Estimate {
    /// Of these values; those that are no numbers are left out.
    pub fn of(values: &[f64]) -> Estimate {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return Estimate { mean: f64::NAN, half: None };
        }
        let (mean, half) = interval(&values);
        Estimate { mean, half: half.is_finite().then_some(half) }
    }

    fn least(&self) -> f64 {
        self.mean - self.half.unwrap_or(0.0)
    }

    fn most(&self) -> f64 {
        self.mean + self.half.unwrap_or(0.0)
    }
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A change, as a part of 1.
    Change,
    /// A part of 1.
    Part,
    /// Seconds.
    Seconds,
    /// A plain number.
    Plain,
}

impl Unit {
    /// A number, alone.
    pub fn show(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "-".into(),
            Unit::Change => format!("{:+.1} %", value * 100.0).replace('-', "−"),
            Unit::Part => format!("{:.1} %", value * 100.0),
            Unit::Seconds if value.abs() >= 100.0 => format!("{value:.0} s"),
            Unit::Seconds => format!("{value:.1} s"),
            Unit::Plain if value.abs() >= 100.0 => format!("{value:.0}"),
            Unit::Plain => format!("{value:.2}"),
        }
    }

    /// A number with its interval.
    pub fn show_estimate(self, estimate: Estimate) -> String {
        let Some(half) = estimate.half else { return self.show(estimate.mean) };
        let digits = |value: f64, scale: f64| format!("{:.1}", value * scale);
        let half = match self {
            Unit::Change | Unit::Part => digits(half, 100.0),
            Unit::Seconds if estimate.mean.abs() >= 100.0 => format!("{half:.0}"),
            Unit::Seconds => digits(half, 1.0),
            Unit::Plain => format!("{half:.2}"),
        };
        let mean = self.show(estimate.mean);
        match mean.split_once(' ') {
            Some((number, unit)) => format!("{number} ± {half} {unit}"),
            None => format!("{mean} ± {half}"),
        }
    }
}

/// How far a claim is borne out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same, and about as large.
    Confirmed,
    /// The same way, but much smaller or much larger.
    DirectionOnly,
    /// Not the same way, or no difference that could be told from chance.
    NotConfirmed,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotConfirmed => "not confirmed",
        }
    }
}

/// A claim of a paper beside our figure.
#[derive(Clone, Debug, Serialize)]
pub struct Headline {
    /// What is claimed.
    pub claim: String,
    /// Where.
    pub section: &'static str,
    /// The paper's figure; no number if it prints none.
    pub paper: f64,
    /// Ours.
    pub ours: Estimate,
    /// How both are written.
    pub unit: Unit,
    /// How far it is borne out.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: &'static str,
}

/// How many times smaller or larger than the paper's an effect may be and still count as about as large.
const ABOUT: f64 = 2.0;

impl Headline {
    /// A figure changes by so much, as a part of 1. It is confirmed if ours changes the same way, its whole interval does, and it is at least half and at
    /// most twice the paper's; if only the way is the same, that is said.
    pub fn change(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        why: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let same_way = if paper < 0.0 { ours.most() < 0.0 } else { ours.least() > 0.0 };
        let about = (1.0 / ABOUT..=ABOUT).contains(&(ours.mean / paper));
        let verdict = match (same_way, about) {
            (true, true) => Verdict::Confirmed,
            (true, false) => Verdict::DirectionOnly,
            (false, _) => Verdict::NotConfirmed,
        };
        Headline { claim: claim.into(), section, paper, ours, unit: Unit::Change, verdict, why }
    }

    /// A figure rises, of which the paper prints no number: only the way can be compared.
    pub fn rises(claim: impl Into<String>, section: &'static str, values: &[f64], why: &'static str) -> Headline {
        let ours = Estimate::of(values);
        let verdict = if ours.least() > 0.0 { Verdict::DirectionOnly } else { Verdict::NotConfirmed };
        Headline { claim: claim.into(), section, paper: f64::NAN, ours, unit: Unit::Change, verdict, why }
    }

    /// Something hardly changes: by no more than `at_most` either way, as a part of 1.
    pub fn hardly(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        at_most: f64,
        why: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let verdict = if ours.mean.abs() <= at_most { Verdict::Confirmed } else { Verdict::NotConfirmed };
        let claim = format!("{}, within {} %", claim.into(), text::short(at_most * 100.0));
        Headline { claim, section, paper, ours, unit: Unit::Change, verdict, why }
    }

    /// A figure is so large; confirmed if ours is at least half and at most twice as large.
    pub fn level(
        claim: impl Into<String>,
        section: &'static str,
        unit: Unit,
        paper: f64,
        values: &[f64],
        why: &'static str,
    ) -> Headline {
        let ours = Estimate::of(values);
        let about = (1.0 / ABOUT..=ABOUT).contains(&(ours.mean / paper));
        let verdict = if about { Verdict::Confirmed } else { Verdict::NotConfirmed };
        Headline { claim: claim.into(), section, paper, ours, unit, verdict, why }
    }
}

/// Something that follows from the mechanism and should hold for nearly every seed.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// What should hold.
    pub claim: String,
    /// For how many seeds it did.
    pub held: usize,
    /// Of how many.
    pub of: usize,
    /// Why it might not.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub unless: &'static str,
}

impl Direction {
    /// Holds for a seed where the value is below zero.
    pub fn down(claim: impl Into<String>, values: &[f64]) -> Direction {
        let held = values.iter().filter(|value| **value < 0.0).count();
        Direction { claim: claim.into(), held, of: values.len(), unless: "" }
    }

    /// With the reason for which it might not hold.
    pub fn unless(self, unless: &'static str) -> Direction {
        Direction { unless, ..self }
    }

    /// Whether it held for at least 19 of 20.
    pub fn holds(&self) -> bool {
        self.held * 20 >= self.of * 19
    }

    /// That it does not hold, in plain words.
    pub fn failing(&self) -> String {
        let reason = if self.unless.is_empty() { String::new() } else { format!(": {}", self.unless) };
        format!("{} ({} of {} seeds){reason}", self.claim, self.held, self.of)
    }
}

/// A headline under other choices of what the paper leaves out.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// What was changed.
    pub parameter: String,
    /// What the columns are.
    pub columns: Vec<String>,
    /// Each value of it, and the figures that came of it.
    pub rows: Vec<(String, Vec<Estimate>)>,
    /// How the figures are written.
    pub unit: Unit,
}

/// A drawing and its numbers.
#[derive(Serialize)]
pub struct Figure {
    /// Its name, also of its file.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Which figure or table of the paper it answers.
    pub answers: String,
    /// What is drawn.
    pub plot: Plot,
}

/// What is drawn.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// A group of bars for each category, one bar for each series.
    Bars {
        /// What the bars measure.
        y: Measure,
        /// Names of the categories.
        categories: Vec<String>,
        /// For each category a bar.
        series: Vec<(String, Vec<Estimate>)>,
    },
    /// A line for each series.
    Lines {
        /// What is varied.
        x: String,
        /// What is measured.
        y: Measure,
        /// Its values.
        at: Vec<f64>,
        /// For each value a point.
        series: Vec<(String, Vec<Estimate>)>,
    },
    /// For each series, which part of the values is no larger.
    Distributions {
        /// What is measured.
        x: Measure,
        /// All values of all seeds.
        series: Vec<(String, Vec<f64>)>,
    },
    /// Who held how many slots when, run by run.
    Slots(#[serde(serialize_with = "as_stretches")] Vec<(String, SlotsOverTime)>),
}

/// What an axis measures.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// In words.
    pub name: String,
    /// And in what.
    pub unit: Unit,
}

impl Measure {
    /// Seconds of something.
    pub fn seconds(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Seconds }
    }

    /// A part of something.
    pub fn part(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Part }
    }

    /// A plain number of something.
    pub fn plain(name: &str) -> Measure {
        Measure { name: name.into(), unit: Unit::Plain }
    }
}

/// Slots over time, with the names of those who hold them.
pub struct SlotsOverTime {
    /// What was kept of the run.
    pub chart: Chart,
    /// Who holds them.
    pub holders: Vec<String>,
}

/// Numbers for whoever draws it anew.
fn as_stretches<S: serde::Serializer>(runs: &[(String, SlotsOverTime)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|(name, slots)| (name, &slots.holders, slots.chart.levels())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(paper: f64, values: &[f64]) -> Verdict {
        Headline::change("", "", paper, values, "").verdict
    }

    #[test]
    fn a_change_is_confirmed_if_it_goes_the_same_way_and_is_about_as_large() {
        assert_eq!(verdict(-0.4, &[-0.3, -0.31, -0.29]), Verdict::Confirmed);
        assert_eq!(verdict(-0.4, &[-0.1, -0.11, -0.09]), Verdict::DirectionOnly);
        assert_eq!(verdict(-0.4, &[-0.9, -0.91, -0.92]), Verdict::DirectionOnly);
        assert_eq!(verdict(-0.4, &[0.3, 0.31, 0.29]), Verdict::NotConfirmed);
        // The mean lies the right way, but chance alone could have put it there.
        assert_eq!(verdict(-0.4, &[-0.9, 0.2, 0.3]), Verdict::NotConfirmed);
        assert_eq!(verdict(0.1, &[0.08]), Verdict::Confirmed);
        assert_eq!(verdict(-0.4, &[]), Verdict::NotConfirmed);
    }

    #[test]
    fn nineteen_of_twenty_are_enough() {
        let values = |up: usize| (0..20).map(|n| if n < up { 1.0 } else { -1.0 }).collect::<Vec<_>>();
        assert!(Direction::down("", &values(1)).holds());
        assert!(!Direction::down("", &values(2)).holds());
    }

    #[test]
    fn numbers_are_written_with_their_intervals() {
        let estimate = Estimate { mean: -0.256, half: Some(0.012) };
        assert_eq!(Unit::Change.show_estimate(estimate), "−25.6 ± 1.2 %");
        assert_eq!(Unit::Seconds.show_estimate(Estimate { mean: 312.4, half: Some(4.0) }), "312 ± 4 s");
        assert_eq!(Unit::Plain.show_estimate(Estimate { mean: 1.5, half: None }), "1.50");
        assert_eq!(Unit::Part.show(0.125), "12.5 %");
    }
}
