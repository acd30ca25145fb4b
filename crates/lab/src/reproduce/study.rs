//! The results of reproducing one paper: judged claims, tables and figures, made of the runs as the paper's file says.

use super::claims::Claim;
use super::experiment::{Run, Runs};
use super::paper::Paper;
use super::quantity::Quantity;
use crate::estimate::{Estimate, Unit};
use crate::report::Chart;
use serde::{Deserialize, Serialize};

/// The results for one paper.
#[derive(Serialize)]
pub struct Study {
    /// Short name of the paper, also the base name of its page.
    pub paper: String,
    /// Title of its page.
    pub title: String,
    /// What was run and how it was measured, in a few sentences.
    pub about: String,
    pub claims: Vec<Claim>,
    /// Our counterparts of the paper's figures and tables.
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
}

impl Study {
    /// Evaluates the runs.
    pub fn new(paper: &Paper, runs: &Runs) -> Study {
        Study {
            paper: paper.paper.clone(),
            title: paper.title.clone(),
            about: paper.about.clone(),
            claims: paper.claim.iter().map(|claim| claim.judge(&paper.defaults, runs)).collect(),
            figures: paper.figure.iter().map(|figure| figure.draw(&paper.defaults, runs)).collect(),
            tables: paper.table.iter().map(|table| table.fill(&paper.defaults, runs)).collect(),
        }
    }
}

/// Figures under other conditions: a suspected cause switched off, or another value of a parameter that the paper does not give.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    /// For each row its label and one figure per column.
    pub rows: Vec<(String, Vec<Estimate>)>,
    /// Unit of all figures.
    pub unit: Unit,
}

/// A table as a paper's file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDef {
    title: String,
    #[serde(default)]
    unit: Unit,
    #[serde(default)]
    of: Quantity,
    columns: Vec<Item>,
    rows: Vec<Item>,
}

impl TableDef {
    fn fill(&self, defaults: &Quantity, runs: &Runs) -> Table {
        let row = |row: &Item| {
            let of = |column: &Item| column.of.or(&row.of).or(&self.of).or(defaults).estimate(runs);
            (row.label.clone(), self.columns.iter().map(of).collect())
        };
        Table {
            title: self.title.clone(),
            columns: self.columns.iter().map(|column| column.label.clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
            unit: self.unit,
        }
    }
}

/// A row, column, series or category.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    label: String,
    #[serde(default)]
    of: Quantity,
}

/// A figure as a paper's file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureDef {
    id: String,
    title: String,
    counterpart: String,
    kind: Kind,
    /// Name of the axis of values.
    axis: String,
    #[serde(default)]
    unit: Unit,
    /// Name of the horizontal axis of lines.
    #[serde(default)]
    x: String,
    #[serde(default)]
    of: Quantity,
    series: Vec<Item>,
    /// Categories of bars; for lines, their labels are numbers.
    #[serde(default)]
    categories: Vec<Item>,
    #[serde(default)]
    paper: Vec<PaperValue>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Bars,
    Lines,
    Distributions,
    /// Slots in use over time with the first seed.
    Slots,
}

impl FigureDef {
    fn draw(&self, defaults: &Quantity, runs: &Runs) -> Figure {
        let figure = self.of.or(defaults);
        let of_series = |series: &Item| series.of.or(&figure);
        let estimates = || {
            let of = |series: &Item| {
                let cell = |category: &Item| series.of.or(&category.of).or(&figure).estimate(runs);
                (series.label.clone(), self.categories.iter().map(cell).collect())
            };
            self.series.iter().map(of).collect()
        };
        let labels = || self.categories.iter().map(|category| category.label.clone());
        let measure = Measure { name: self.axis.clone(), unit: self.unit };
        let plot = match self.kind {
            Kind::Bars => Plot::Bars { y: measure, categories: labels().collect(), series: estimates() },
            Kind::Lines => Plot::Lines {
                x: self.x.clone(),
                y: measure,
                x_values: labels().map(|label| label.parse().unwrap_or(f64::NAN)).collect(),
                series: estimates(),
            },
            Kind::Distributions => {
                let values = |series: &Item| {
                    let of = of_series(series);
                    let values =
                        |run: &Run| run.distribution(of.metric.as_deref().unwrap_or_default(), of.group.as_deref());
                    (series.label.clone(), of.runs(runs).iter().flat_map(values).collect())
                };
                Plot::Distributions { x: measure, series: self.series.iter().map(values).collect() }
            }
            Kind::Slots => {
                let slots = |series: &Item| {
                    let run = &of_series(series).runs(runs)[0];
                    let jobs = (1..=run.jobs.len()).map(|job| format!("job {job}")).collect();
                    (series.label.clone(), SlotsOverTime { chart: run.observed.chart().clone(), jobs })
                };
                Plot::Slots(self.series.iter().map(slots).collect())
            }
        };
        Figure {
            id: self.id.clone(),
            title: self.title.clone(),
            counterpart: self.counterpart.clone(),
            paper: self.paper.clone(),
            plot,
        }
    }
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
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperValue {
    /// Name of the series.
    pub series: String,
    /// Name of the category.
    pub category: String,
    /// The value, in the unit of the vertical axis.
    pub value: f64,
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
