//! Claims of a paper, and the rules by which our figures judge them.

use super::experiment::Runs;
use super::quantity::Quantity;
use crate::estimate::{Estimate, Unit};
use serde::{Deserialize, Serialize};

/// Result of comparing a claim with our figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Confirmed,
    SameDirection,
    Inconclusive,
    NotConfirmed,
    Refuted,
    ByConstruction,
    Tuned,
    NoExperiment,
}

impl Verdict {
    /// All verdicts, in the order of tables.
    pub const ALL: [Verdict; 8] = [
        Verdict::Confirmed,
        Verdict::SameDirection,
        Verdict::Inconclusive,
        Verdict::NotConfirmed,
        Verdict::Refuted,
        Verdict::ByConstruction,
        Verdict::Tuned,
        Verdict::NoExperiment,
    ];

    /// Text for tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::SameDirection => "same direction",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotConfirmed => "not confirmed",
            Verdict::Refuted => "refuted",
            Verdict::ByConstruction => "by construction",
            Verdict::Tuned => "tuned",
            Verdict::NoExperiment => "no experiment",
        }
    }
}

/// How verdicts are reached, in Markdown.
pub const VERDICT_RULE: &str = "Our figures are means over the seeds with a 95 % bootstrap interval (with fewer than five seeds: the range of their values); changes are averaged as \
ratios and compared as logarithms of ratios, so that −50 % is half of −75 %. *Confirmed*: the whole interval has the paper's sign and lies between half and twice the paper's figure; a fraction of more than \
50 % is judged by what is missing to 100 %; that something stays the same is confirmed if the whole interval is within the limit in the row. *Same direction*: the whole interval has the paper's sign; a claim without a \
number can get no more. *Inconclusive*: the interval leaves it open, or there is none because there was one seed. *Not confirmed*: anything else. *Refuted*: the paper's figure cannot be, for the reason given. *By construction* and *tuned* would \
be one of the first two, but follow from how the experiment is built, or from a parameter that was chosen with the figure in view; they count as no confirmation. *No experiment*: nothing here answers the claim.";

/// A claim as a paper's file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimDef {
    claim: String,
    /// Section, table or figure of the paper that makes it; absent for what the paper does not claim.
    section: Option<String>,
    /// The paper's figure.
    paper: Option<f64>,
    /// What the paper says, if that is no number.
    says: Option<String>,
    #[serde(default)]
    judge: Rule,
    /// Limit of `same` and `at-most`.
    #[serde(default)]
    limit: f64,
    /// Unit of a level.
    #[serde(default)]
    unit: Unit,
    of: Option<Quantity>,
    #[serde(default)]
    standing: Standing,
    /// The largest value that the figure can have.
    bound: Option<f64>,
    /// Why the claim is refuted, by construction or tuned, or has no experiment.
    why: Option<String>,
    /// A remark that no figure supports, such as how the claim was read.
    note: Option<String>,
    #[serde(default)]
    explain: Vec<Explanation>,
}

/// How a claim is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    /// The figure is the paper's: a change or a level.
    #[default]
    Size,
    /// It is lower, without a number.
    Lower,
    Higher,
    /// It is not lower.
    NotLower,
    /// It differs from the paper's figure, or from no change, by at most the limit.
    Same,
    /// A level is at most the limit.
    AtMost,
}

/// Whether a figure that agrees with the paper is evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Standing {
    #[default]
    Evidence,
    ByConstruction,
    Tuned,
}

/// An explanation that is printed only if this run's figures support it: if all conditions hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explanation {
    /// `{}` stands for the figure of the first condition, the next for the second, and so on.
    text: String,
    when: Vec<Condition>,
}

/// A condition on a figure, with its whole interval.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// What it does not name is that of the claim.
    #[serde(default)]
    of: Quantity,
    above: Option<f64>,
    below: Option<f64>,
    /// A change is at least this many times as large as the claim's, in the same direction and compared as logarithms.
    times: Option<f64>,
    #[serde(default)]
    unit: Option<Unit>,
}

/// A judged claim.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub claim: String,
    /// Absent for what the paper does not claim.
    pub section: Option<String>,
    /// The paper's figure as text; `-` without one.
    pub paper: String,
    /// The paper's figure.
    pub paper_value: Option<f64>,
    pub ours: Option<Estimate>,
    pub unit: Unit,
    /// Seeds for which the figure has the claimed direction, and all seeds; for directions only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeds: Option<(usize, usize)>,
    pub verdict: Verdict,
    /// The reason of the verdict, a remark, and the explanations that this run supports.
    pub explanation: String,
}

/// A size is similar to the paper's if it is larger or smaller by at most this factor.
const SIMILAR_FACTOR: f64 = 2.0;
/// Fractions above this are judged by what is missing to 1.
const NEARLY_WHOLE: f64 = 0.5;
/// The least that is missing: papers print fractions to half a percent at best.
const MISSING_MIN: f64 = 0.005;

impl ClaimDef {
    /// Judges the claim by the runs. `defaults` is what its quantity leaves open.
    pub fn judge(&self, defaults: &Quantity, runs: &Runs) -> Claim {
        let of = self.of.as_ref().map(|of| of.or(defaults));
        let is_change = of.as_ref().is_none_or(Quantity::is_change);
        let unit = if is_change && self.unit == Unit::default() { Unit::Change } else { self.unit };
        let ours = of.as_ref().map(|of| of.estimate(runs));
        let verdict = self.verdict(ours, is_change, unit);
        let explained = of.iter().zip(ours).flat_map(|(of, ours)| {
            self.explain.iter().filter_map(move |explanation| explanation.supported(of, ours, unit, runs))
        });
        let remarks = self.why.iter().chain(&self.note).cloned();
        let seeds = of.as_ref().filter(|_| is_change).and_then(|of| self.seeds(&of.values(runs)));
        let paper = match (&self.says, self.paper) {
            (Some(says), None) => says.clone(),
            (Some(says), Some(value)) => format!("{} ({says})", unit.show(value)),
            (None, value) => unit.show(value.unwrap_or(f64::NAN)),
        };
        Claim {
            claim: self.claim_with_limit(unit),
            section: self.section.clone(),
            paper,
            paper_value: self.paper,
            ours,
            unit,
            seeds,
            verdict,
            explanation: remarks.chain(explained).collect::<Vec<_>>().join(" "),
        }
    }

    fn claim_with_limit(&self, unit: Unit) -> String {
        match self.rule_limit() {
            Some(limit) => format!("{} ({limit} {})", self.claim, unit.show(self.limit).trim_start_matches('+')),
            None => self.claim.clone(),
        }
    }

    fn rule_limit(&self) -> Option<&'static str> {
        match self.judge {
            Rule::Same => Some("within"),
            Rule::AtMost => Some("at most"),
            _ => None,
        }
    }

    fn verdict(&self, ours: Option<Estimate>, is_change: bool, unit: Unit) -> Verdict {
        if self.bound.is_some_and(|bound| self.paper > Some(bound) && ours.is_none_or(|ours| ours.upper() <= bound)) {
            return Verdict::Refuted;
        }
        let Some(ours) = ours else { return Verdict::NoExperiment };
        let verdict = match (self.judge, self.paper) {
            // From nothing to something, or a single seed.
            _ if !ours.mean.is_finite() || ours.interval.is_none() => Verdict::Inconclusive,
            (Rule::Size, Some(paper)) if is_change => of_change(ours, paper),
            (Rule::Size, Some(paper)) => of_level(ours, paper, unit),
            (Rule::Size, None) => Verdict::NoExperiment,
            (Rule::Lower, _) => of_direction(ours.lower(), ours.upper()),
            (Rule::Higher, _) => of_direction(-ours.upper(), -ours.lower()),
            (Rule::NotLower, _) if ours.lower() >= 0.0 => Verdict::SameDirection,
            (Rule::NotLower, _) if ours.upper() < 0.0 => Verdict::NotConfirmed,
            (Rule::NotLower, _) => Verdict::Inconclusive,
            (Rule::Same, paper) => {
                let paper = paper.unwrap_or(0.0);
                within(ours, paper - self.limit, paper + self.limit)
            }
            (Rule::AtMost, _) => within(ours, f64::NEG_INFINITY, self.limit),
        };
        match (self.standing, verdict) {
            (Standing::ByConstruction, Verdict::Confirmed | Verdict::SameDirection) => Verdict::ByConstruction,
            (Standing::Tuned, Verdict::Confirmed | Verdict::SameDirection) => Verdict::Tuned,
            _ => verdict,
        }
    }

    /// The seeds for which the claimed direction holds, and all seeds.
    fn seeds(&self, values: &[f64]) -> Option<(usize, usize)> {
        let lower = match (self.judge, self.paper) {
            (Rule::Lower, _) => true,
            (Rule::Higher, _) => false,
            (Rule::Size, Some(paper)) => paper < 0.0,
            _ => return None,
        };
        let known = values.iter().filter(|value| !value.is_nan());
        let held = known.clone().filter(|value| if lower { **value < 0.0 } else { **value > 0.0 });
        Some((held.count(), known.count()))
    }
}

fn is_similar(ours: f64, paper: f64) -> bool {
    (1.0 / SIMILAR_FACTOR..=SIMILAR_FACTOR).contains(&(ours / paper))
}

fn of_direction(lower: f64, upper: f64) -> Verdict {
    match upper < 0.0 {
        true => Verdict::SameDirection,
        false if lower < 0.0 => Verdict::Inconclusive,
        false => Verdict::NotConfirmed,
    }
}

fn of_change(ours: Estimate, paper: f64) -> Verdict {
    let same_direction = if paper < 0.0 { ours.upper() < 0.0 } else { ours.lower() > 0.0 };
    let similar = |ours: f64| is_similar(ours.ln_1p(), paper.ln_1p());
    match same_direction {
        true if !ours.has_vanished() && similar(ours.lower()) && similar(ours.upper()) => Verdict::Confirmed,
        true => Verdict::SameDirection,
        false if ours.contains(0.0) && ours.contains(paper) => Verdict::Inconclusive,
        false => Verdict::NotConfirmed,
    }
}

fn of_level(ours: Estimate, paper: f64, unit: Unit) -> Verdict {
    let judged = |value: f64| match unit {
        Unit::Fraction if paper > NEARLY_WHOLE => (1.0 - value).max(MISSING_MIN),
        _ => value,
    };
    let paper = judged(paper);
    let ends = [judged(ours.lower()), judged(ours.upper())];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let interval = Estimate { mean: judged(ours.mean), interval: Some((low, high)) };
    within(interval, paper / SIMILAR_FACTOR, paper * SIMILAR_FACTOR)
}

/// Confirmed if the whole interval is in the range, not confirmed if none of it is.
fn within(ours: Estimate, low: f64, high: f64) -> Verdict {
    match (ours.lower(), ours.upper()) {
        (lower, upper) if low <= lower && upper <= high => Verdict::Confirmed,
        (lower, upper) if upper < low || high < lower => Verdict::NotConfirmed,
        _ => Verdict::Inconclusive,
    }
}

impl Explanation {
    /// The text with this run's figures; none if they do not support it.
    fn supported(&self, claimed: &Quantity, ours: Estimate, unit: Unit, runs: &Runs) -> Option<String> {
        let mut text = self.text.clone();
        for condition in &self.when {
            let figure = condition.of.or(claimed).estimate(runs);
            let stronger = |times: f64| {
                let ratio = figure.mean.ln_1p() / ours.mean.ln_1p();
                ratio >= times && !figure.contains(0.0)
            };
            let holds = condition.above.is_none_or(|above| figure.lower() > above)
                && condition.below.is_none_or(|below| figure.upper() < below)
                && condition.times.is_none_or(stronger);
            if !holds {
                return None;
            }
            text = text.replacen("{}", &condition.unit.unwrap_or(unit).show_estimate(figure), 1);
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, mean: f64, high: f64) -> Estimate {
        Estimate { mean, interval: Some((low, high)) }
    }

    fn verdict(text: &str, ours: Option<Estimate>) -> Verdict {
        let def: ClaimDef = toml::from_str(&format!("claim = 'x'\n{text}")).expect("a claim");
        let is_change = def.unit == Unit::default();
        def.verdict(ours, is_change, def.unit)
    }

    #[test]
    fn the_whole_interval_decides_on_a_change() {
        assert_eq!(verdict("paper = -0.5", Some(estimate(-0.6, -0.5, -0.4))), Verdict::Confirmed);
        assert_eq!(verdict("paper = -0.5", Some(estimate(-0.6, -0.4, -0.2))), Verdict::SameDirection);
        assert_eq!(verdict("paper = -0.5", Some(estimate(-0.6, -0.2, 0.1))), Verdict::Inconclusive);
        assert_eq!(verdict("paper = -0.5", Some(estimate(-0.3, -0.1, 0.1))), Verdict::NotConfirmed);
        assert_eq!(verdict("paper = 0.1", Some(estimate(-0.3, -0.2, -0.1))), Verdict::NotConfirmed);
    }

    #[test]
    fn something_stays_the_same_only_with_its_whole_interval() {
        let same = "judge = 'same'\npaper = 0.002\nlimit = 0.05";
        assert_eq!(verdict(same, Some(estimate(-0.055, -0.043, -0.032))), Verdict::Inconclusive);
        assert_eq!(verdict(same, Some(estimate(-0.03, 0.0, 0.02))), Verdict::Confirmed);
        assert_eq!(verdict(same, Some(estimate(-0.09, -0.08, -0.07))), Verdict::NotConfirmed);
    }

    #[test]
    fn fractions_near_one_are_judged_by_what_is_missing() {
        let locality = "unit = 'fraction'\npaper = 0.965";
        assert_eq!(verdict(locality, Some(estimate(0.96, 0.97, 0.98))), Verdict::Confirmed);
        assert_eq!(verdict(locality, Some(estimate(0.55, 0.6, 0.65))), Verdict::NotConfirmed);
        assert_eq!(verdict("unit = 'fraction'\npaper = 1.0", Some(estimate(1.0, 1.0, 1.0))), Verdict::Confirmed);
        assert_eq!(verdict("unit = 'fraction'\npaper = 1.0", Some(estimate(0.9, 0.95, 0.98))), Verdict::NotConfirmed);
    }

    #[test]
    fn what_follows_from_the_experiment_is_no_confirmation() {
        let tuned = "paper = -0.5\nstanding = 'tuned'";
        assert_eq!(verdict(tuned, Some(estimate(-0.6, -0.5, -0.4))), Verdict::Tuned);
        assert_eq!(verdict(tuned, Some(estimate(-0.1, 0.0, 0.1))), Verdict::NotConfirmed);
        assert_eq!(
            verdict("judge = 'lower'\nstanding = 'by-construction'", Some(estimate(-0.3, -0.2, -0.1))),
            Verdict::ByConstruction
        );
    }

    #[test]
    fn a_figure_above_its_bound_is_refuted_unless_our_own_is_too() {
        let bounded = "paper = 10.78\nunit = 'plain'\nbound = 10.0";
        assert_eq!(verdict(bounded, Some(estimate(1.0, 1.3, 1.5))), Verdict::Refuted);
        assert_eq!(verdict(bounded, Some(estimate(9.0, 10.0, 11.0))), Verdict::Confirmed);
        assert_eq!(verdict("paper = 9.0\nbound = 10.0", None), Verdict::NoExperiment);
    }
}
