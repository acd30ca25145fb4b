//! The results of reproducing one paper: headlines with our figures, directions by seed, figures, and sensitivity to parameters that we chose.

use super::estimate::{Estimate, Unit};
use super::verdict::{Direction, Headline};
use crate::report::Chart;
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
    /// Tests of the explanations, each with the suspected cause switched off, and absolute figures.
    pub tests: Vec<SensitivityTable>,
    /// The headlines' figures under other choices of parameters that the paper does not give.
    pub sensitivity: Vec<SensitivityTable>,
}

/// The figures behind headlines for several values of a parameter that the paper does not give.
#[derive(Clone, Debug, Serialize)]
pub struct SensitivityTable {
    /// Case and name of the parameter.
    pub parameter: String,
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
    pub title: String,
    /// The paper's figure or table that it corresponds to.
    pub counterpart: String,
    /// The paper's values for some of the bars, drawn over ours.
    pub paper: Vec<PaperValue>,
    /// Kind of plot and its data.
    pub plot: Plot,
}

/// A value that the paper gives for one bar of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct PaperValue {
    /// Name of the series.
    pub series: String,
    /// Name of the category.
    pub category: String,
    /// The value, in the unit of the vertical axis.
    pub value: f64,
}

impl PaperValue {
    /// The paper's value for a series and a category.
    pub fn new(series: impl Into<String>, category: impl Into<String>, value: f64) -> PaperValue {
        PaperValue { series: series.into(), category: category.into(), value }
    }
}

/// A plot's data.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// A group of bars per category, one bar per series.
    Bars {
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
        y: Measure,
        x_values: Vec<f64>,
        /// Name of each series and its value per position.
        series: Vec<(String, Vec<Estimate>)>,
    },
    /// The empirical distribution function of each series.
    Distributions {
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
