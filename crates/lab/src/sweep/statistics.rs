//! Differences between policies over pairs of runs with the same seed.

use super::plan::Plan;
use super::store::Results;
use giveway_sim::rows::{Column, Table, Values};
use giveway_sim::statistics::{Estimate, holm, sign_flip_p};

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
