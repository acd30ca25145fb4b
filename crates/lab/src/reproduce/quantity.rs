//! A quantity of the runs, named by data: a figure of a case under a policy, or how it changes from another policy or case.

use super::experiment::{Run, Runs};
use crate::estimate::Estimate;
use serde::Deserialize;

/// Where to find a figure. What is absent is taken from the entry around it (see [`Quantity::or`]); an empty text takes nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quantity {
    /// Name of the case.
    pub case: Option<String>,
    pub policy: Option<String>,
    /// The quantity is the change from this policy in the same case.
    pub against: Option<String>,
    /// The quantity is the change from this case under the same policy.
    pub against_case: Option<String>,
    /// The quantity is the ratio to this one, less 1: how much larger a figure is, or a change compared with another change. What it leaves open
    /// is that of this quantity.
    pub relative_to: Option<Box<Quantity>>,
    /// Name of the figure; see [`Run::figure`].
    pub metric: Option<String>,
    /// Size group; all jobs if absent.
    pub group: Option<String>,
    /// One value per seed over several quantities, in each of which `{over}` is one of these.
    pub over: Option<Vec<String>>,
    pub aggregate: Option<Aggregate>,
}

/// How several values become one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregate {
    Mean,
    Min,
    Max,
}

impl Quantity {
    /// This quantity, with what it leaves open taken from another.
    pub fn or(&self, other: &Quantity) -> Quantity {
        let text = |own: &Option<String>, other: &Option<String>| {
            own.clone().or_else(|| other.clone()).filter(|text| !text.is_empty())
        };
        Quantity {
            case: text(&self.case, &other.case),
            policy: text(&self.policy, &other.policy),
            against: text(&self.against, &other.against),
            against_case: text(&self.against_case, &other.against_case),
            metric: text(&self.metric, &other.metric),
            relative_to: self.relative_to.clone().or_else(|| other.relative_to.clone()),
            group: text(&self.group, &other.group),
            over: self.over.clone().or_else(|| other.over.clone()),
            aggregate: self.aggregate.or(other.aggregate),
        }
    }

    /// True for a change, false for a level.
    pub fn is_change(&self) -> bool {
        self.against.is_some() || self.against_case.is_some() || self.relative_to.is_some()
    }

    /// The value for each seed.
    pub fn values(&self, runs: &Runs) -> Vec<f64> {
        if let Some(other) = &self.relative_to {
            let own = Quantity { relative_to: None, ..self.clone() };
            let base = if own.is_change() { 1.0 } else { 0.0 };
            let ratio = |(own, other): (f64, f64)| (base + own) / (base + other) - 1.0;
            return own.values(runs).into_iter().zip(other.or(&own).values(runs)).map(ratio).collect();
        }
        let Some(over) = &self.over else { return self.values_of_one(runs) };
        let columns: Vec<Vec<f64>> = over.iter().map(|name| self.one_of(name).values_of_one(runs)).collect();
        let of_seed = |seed: usize| columns.iter().filter_map(move |column| column.get(seed).copied());
        let aggregate = |seed: usize| match self.aggregate.unwrap_or(Aggregate::Mean) {
            Aggregate::Mean => of_seed(seed).sum::<f64>() / columns.len() as f64,
            Aggregate::Min => of_seed(seed).fold(f64::INFINITY, f64::min),
            Aggregate::Max => of_seed(seed).fold(f64::NEG_INFINITY, f64::max),
        };
        (0..columns.first().map_or(0, Vec::len)).map(aggregate).collect()
    }

    /// The value with its interval.
    pub fn estimate(&self, runs: &Runs) -> Estimate {
        let values = self.values(runs);
        if self.is_change() { Estimate::of_changes(&values) } else { Estimate::of(&values) }
    }

    /// The runs behind it. Panics if the case did not run under that policy.
    pub fn runs<'a>(&self, runs: &'a Runs) -> &'a [Run] {
        let part = |part: &Option<String>, name: &str| part.clone().unwrap_or_else(|| panic!("{self:?} has no {name}"));
        runs.get(&part(&self.case, "case"), &part(&self.policy, "policy"))
    }

    fn one_of(&self, name: &str) -> Quantity {
        let text = |text: &Option<String>| text.as_ref().map(|text| text.replace("{over}", name));
        Quantity {
            case: text(&self.case),
            policy: text(&self.policy),
            group: text(&self.group),
            over: None,
            ..self.clone()
        }
    }

    fn values_of_one(&self, runs: &Runs) -> Vec<f64> {
        let metric = self.metric.as_deref().unwrap_or_else(|| panic!("{self:?} has no metric"));
        let figures = |of: &Quantity| -> Vec<f64> {
            of.runs(runs).iter().map(|run| run.figure(metric, of.group.as_deref())).collect()
        };
        let to = figures(self);
        if self.against.is_none() && self.against_case.is_none() {
            return to;
        }
        let base = Quantity {
            policy: self.against.clone().or_else(|| self.policy.clone()),
            case: self.against_case.clone().or_else(|| self.case.clone()),
            ..self.clone()
        };
        // From nothing to nothing is no change.
        let change = |(from, to): (f64, f64)| if from == to { 0.0 } else { to / from - 1.0 };
        figures(&base).into_iter().zip(to).map(change).collect()
    }
}
