//! Claims of a paper held against our figures, and the rules by which they are judged.

use super::estimate::{Estimate, Unit};
use crate::report::text;
use serde::Serialize;

/// Result of comparing a claim with our figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Same direction, and the size is within a factor of two.
    Confirmed,
    /// Same direction, another size.
    DirectionOnly,
    /// Our interval contains both no effect and the paper's figure.
    Inconclusive,
    /// Opposite direction, or no effect.
    NotConfirmed,
}

impl Verdict {
    /// All verdicts, the best first.
    pub const ALL: [Verdict; 4] =
        [Verdict::Confirmed, Verdict::DirectionOnly, Verdict::Inconclusive, Verdict::NotConfirmed];

    /// Text for tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "same direction, within 2x",
            Verdict::DirectionOnly => "same direction, other size",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotConfirmed => "not confirmed",
        }
    }
}

/// How verdicts are reached, in Markdown.
pub const VERDICT_RULE: &str = "Our figures are means over the seeds with a 95 % bootstrap interval (with fewer than five seeds: the range of their values); changes are averaged as \
ratios. Points of curves and sensitivity tables use half of the seeds (for COSHH a quarter), scheduling times three. Changes are compared as logarithms of ratios, so that −50 % is half of −75 %. A change is *same direction, within 2x* \
if our whole interval has the paper's sign and our mean is at least half and at most twice the paper's; *same direction, other size* if only the sign agrees; *inconclusive* if our interval \
contains both zero and the paper's figure; *not confirmed* otherwise. A level is within 2x if it is at least half and at most twice the paper's. A claim that something stays the same holds if our \
mean is within the limit given in its row. A claim without a number is at best *same direction, other size*.";

/// A main claim of a paper with our figure.
#[derive(Clone, Debug, Serialize)]
pub struct Headline {
    pub claim: String,
    /// Section, table or figure of the paper that makes it.
    pub section: &'static str,
    /// The paper's figure; NaN if the paper gives no number.
    pub paper: f64,
    pub ours: Estimate,
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

/// The verdict on a relative change.
fn of_change(ours: Estimate, paper: f64) -> Verdict {
    let same_direction = if paper < 0.0 { ours.upper() < 0.0 } else { ours.lower() > 0.0 };
    match same_direction {
        true if !ours.has_vanished() && is_similar(ours.mean.ln_1p(), paper.ln_1p()) => Verdict::Confirmed,
        true => Verdict::DirectionOnly,
        false if ours.contains(0.0) && ours.contains(paper) => Verdict::Inconclusive,
        false => Verdict::NotConfirmed,
    }
}

impl Headline {
    /// A figure changes by the relative amount `paper`.
    pub fn change(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of_changes(values);
        let verdict = of_change(ours, paper);
        Headline { claim: claim.into(), section, paper, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure increases, and the paper gives no number. At best the direction agrees.
    pub fn increase(claim: impl Into<String>, section: &'static str, values: &[f64], reason: &'static str) -> Headline {
        let ours = Estimate::of_changes(values);
        let verdict = match ours.lower() > 0.0 {
            true => Verdict::DirectionOnly,
            false if ours.upper() > 0.0 => Verdict::Inconclusive,
            false => Verdict::NotConfirmed,
        };
        Headline { claim: claim.into(), section, paper: f64::NAN, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure decreases, and the paper gives no number. At best the direction agrees.
    pub fn decrease(claim: impl Into<String>, section: &'static str, values: &[f64], reason: &'static str) -> Headline {
        let ours = Estimate::of_changes(values);
        let verdict = match ours.upper() < 0.0 {
            true => Verdict::DirectionOnly,
            false if ours.lower() < 0.0 => Verdict::Inconclusive,
            false => Verdict::NotConfirmed,
        };
        Headline { claim: claim.into(), section, paper: f64::NAN, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure does not decrease: holds unless our whole interval is below zero.
    pub fn no_decrease(
        claim: impl Into<String>,
        section: &'static str,
        values: &[f64],
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of_changes(values);
        let verdict = if ours.upper() < 0.0 { Verdict::NotConfirmed } else { Verdict::DirectionOnly };
        Headline { claim: claim.into(), section, paper: f64::NAN, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure stays the same: holds if our mean is at most `limit` from zero. The claim's text gets the limit appended.
    pub fn within_limit(
        claim: impl Into<String>,
        section: &'static str,
        paper: f64,
        values: &[f64],
        limit: f64,
        reason: &'static str,
    ) -> Headline {
        let ours = Estimate::of_changes(values);
        let verdict = match ours.mean.abs() <= limit {
            true => Verdict::Confirmed,
            false if ours.contains(limit) || ours.contains(-limit) => Verdict::Inconclusive,
            false => Verdict::NotConfirmed,
        };
        let claim = format!("{}, within {} %", claim.into(), text::short(limit * 100.0));
        Headline { claim, section, paper, ours, unit: Unit::Change, verdict, reason }
    }

    /// A figure has the value `paper`.
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
    pub claim: String,
    /// Number of seeds for which it holds.
    pub seeds_held: usize,
    /// Number of seeds that were run.
    pub seeds: usize,
    /// Explanation if it does not hold; may be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub exception: &'static str,
}

/// What is said of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectionVerdict {
    /// It holds for at least 19 of 20 seeds.
    Holds,
    /// It fails for more than one of 20 seeds.
    Fails,
    /// It holds for all seeds, but they are too few to tell.
    TooFewSeeds,
}

/// Fewer seeds cannot show that a claim holds for 19 of 20.
const DIRECTION_SEEDS_MIN: usize = 20;

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

    /// Whether the claim holds for at least 19 of 20 seeds.
    pub fn verdict(&self) -> DirectionVerdict {
        match self.seeds_held * 20 >= self.seeds * 19 {
            true if self.seeds >= DIRECTION_SEEDS_MIN => DirectionVerdict::Holds,
            true => DirectionVerdict::TooFewSeeds,
            false => DirectionVerdict::Fails,
        }
    }

    /// Text for tables; with the explanation if the claim fails.
    pub fn result(&self) -> String {
        match self.verdict() {
            DirectionVerdict::Holds => "holds".into(),
            DirectionVerdict::TooFewSeeds => "holds for these seeds, which are too few for a verdict".into(),
            DirectionVerdict::Fails if self.exception.is_empty() => "does not hold".into(),
            DirectionVerdict::Fails => format!("does not hold. {}", self.exception),
        }
    }

    /// Claim, seeds and explanation, for a claim that does not hold.
    pub fn failure(&self) -> String {
        let exception = if self.exception.is_empty() { String::new() } else { format!(": {}", self.exception) };
        format!("{} ({} of {} seeds){exception}", self.claim, self.seeds_held, self.seeds)
    }
}

/// How many directions hold, in one sentence.
pub fn directions_summary(directions: &[Direction]) -> String {
    let count = |verdict| directions.iter().filter(|direction| direction.verdict() == verdict).count();
    let (holding, undecided) = (count(DirectionVerdict::Holds), count(DirectionVerdict::TooFewSeeds));
    let total = directions.len();
    match directions.iter().map(|direction| direction.seeds).max() {
        Some(seeds) if seeds < DIRECTION_SEEDS_MIN => {
            format!("{undecided} of {total} directions hold for these {seeds} seeds (a verdict takes 20)")
        }
        _ => format!("{holding} of {total} directions hold for at least 19 of 20 seeds"),
    }
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
        assert_eq!(verdict(-0.4, &[0.3, 0.31, 0.29]), Verdict::NotConfirmed);
        // The interval includes zero and the paper's figure.
        assert_eq!(verdict(-0.4, &[-0.9, 0.2, 0.3]), Verdict::Inconclusive);
        // The interval includes zero, but not the paper's figure.
        assert_eq!(verdict(-0.4, &[-0.05, 0.02, 0.03]), Verdict::NotConfirmed);
        assert_eq!(verdict(0.1, &[0.08]), Verdict::Confirmed);
        assert_eq!(verdict(-0.4, &[]), Verdict::NotConfirmed);
    }

    /// In percent, -99 % is within a factor of two of -55 %; as a ratio it is not.
    #[test]
    fn sizes_of_changes_are_compared_as_ratios() {
        assert_eq!(verdict(-0.55, &[-0.99, -0.991, -0.989]), Verdict::DirectionOnly);
        assert_eq!(verdict(-0.75, &[-0.5, -0.51, -0.52]), Verdict::Confirmed);
        // Nothing is left, so that no size can be compared.
        assert_eq!(verdict(-0.97, &[-1.0, -1.0]), Verdict::DirectionOnly);
    }

    #[test]
    fn a_claim_without_a_number_is_judged_by_its_direction() {
        let decrease = |values: &[f64]| Headline::decrease("", "", values, "").verdict;
        assert_eq!(decrease(&[-0.1, -0.2]), Verdict::DirectionOnly);
        assert_eq!(decrease(&[-0.1, 0.2]), Verdict::Inconclusive);
        assert_eq!(decrease(&[0.1, 0.2]), Verdict::NotConfirmed);
        let no_decrease = |values: &[f64]| Headline::no_decrease("", "", values, "").verdict;
        assert_eq!(no_decrease(&[-0.1, -0.2]), Verdict::NotConfirmed);
        assert_eq!(no_decrease(&[-0.1, 0.2]), Verdict::DirectionOnly);
    }

    #[test]
    fn a_direction_holds_for_19_of_20_seeds() {
        let values = |up: usize| (0..20).map(|n| if n < up { 1.0 } else { -1.0 }).collect::<Vec<_>>();
        assert_eq!(Direction::decrease("", &values(1)).verdict(), DirectionVerdict::Holds);
        assert_eq!(Direction::decrease("", &values(2)).verdict(), DirectionVerdict::Fails);
        assert_eq!(Direction::decrease("", &[-1.0; 3]).verdict(), DirectionVerdict::TooFewSeeds);
    }
}
