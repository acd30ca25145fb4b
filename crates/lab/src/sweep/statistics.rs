//! Differences between policies over pairs of runs with the same seed.

use super::plan::Plan;
use super::store::Results;
use crate::estimate::Estimate;
use giveway_sim::rows::{Column, Table, Values};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How often signs are drawn at random, where there are too many combinations to try all.
const DRAWS: u32 = 20_000;
/// With up to this many seeds all combinations of signs are tried.
const ALL_SIGNS_MAX: usize = 14;

/// The change of the mean completion time of a workload from the baseline to another policy.
pub struct Change {
    pub workload: usize,
    pub policy: usize,
    /// The geometric mean of the changes with each seed, with a bootstrap interval.
    pub estimate: Estimate,
    /// The probability of a change that is as large if the policies did not differ, corrected for the number of comparisons.
    pub p: f64,
}

impl Change {
    /// The change and its interval in percent.
    pub fn percent(&self) -> String {
        let part = |value: f64| format!("{:+.1}", value * 100.0);
        match self.estimate {
            Estimate { mean, .. } if mean.is_nan() => "-".into(),
            Estimate { mean, interval: None } => format!("{} %", part(mean)),
            Estimate { mean, interval: Some((low, high)) } => {
                format!("{} % ({} to {})", part(mean), part(low), part(high))
            }
        }
    }

    /// The corrected probability.
    pub fn p_text(&self) -> String {
        match self.p {
            p if p.is_nan() => "-".into(),
            p if p < 0.001 => "< 0.001".into(),
            p => format!("{p:.3}"),
        }
    }
}

/// A mean for a table.
pub fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".into(),
        value if value < 1_000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The changes on every workload under every policy but the baseline.
pub fn changes(plan: &Plan, results: &Results) -> Vec<Change> {
    let mut changes = Vec::new();
    for workload in 0..plan.workloads.len() {
        let values = |policy| results.values(workload, policy, "mean_completion_s");
        let baseline = values(plan.baseline);
        for policy in (0..plan.policies.len()).filter(|&policy| policy != plan.baseline) {
            let ratios: Vec<f64> = values(policy).iter().zip(&baseline).map(|(ours, theirs)| ours / theirs).collect();
            let relative: Vec<f64> = ratios.iter().map(|ratio| ratio - 1.0).collect();
            let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
            changes.push(Change { workload, policy, estimate: Estimate::of_changes(&relative), p: sign_flip_p(&logs) });
        }
    }
    let corrected = holm(&changes.iter().map(|change| change.p).collect::<Vec<_>>());
    changes.iter_mut().zip(corrected).for_each(|(change, p)| change.p = p);
    changes
}

/// The two-sided permutation test of paired differences: how often their sum is as far from zero if each had its sign by chance.
fn sign_flip_p(differences: &[f64]) -> f64 {
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
fn holm(p: &[f64]) -> Vec<f64> {
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

/// A row for each change.
pub fn table(plan: &Plan, changes: &[Change]) -> Table {
    let text = |of: &dyn Fn(&Change) -> String| Values::Text(changes.iter().map(|change| of(change).into()).collect());
    let real = |of: &dyn Fn(&Change) -> f64| Values::Real(changes.iter().map(of).collect());
    Table {
        columns: vec![
            Column { name: "workload", values: text(&|change| plan.workloads[change.workload].clone()) },
            Column { name: "policy", values: text(&|change| plan.policies[change.policy].name.clone()) },
            Column { name: "baseline", values: text(&|_| plan.baseline_name().to_owned()) },
            Column { name: "change", values: real(&|change| change.estimate.mean) },
            Column { name: "low", values: real(&|change| change.estimate.lower()) },
            Column { name: "high", values: real(&|change| change.estimate.upper()) },
            Column { name: "p", values: real(&|change| change.p) },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
