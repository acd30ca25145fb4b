//! The result table of `giveway sim`, and confidence intervals.

use crate::text_table::TextTable;
use giveway_sim::metrics::{KeyMetrics, Summary};

/// One column: its header, the metric it shows (`None` if a run does not have it), and the number format.
struct Column {
    header: &'static str,
    metric: fn(&KeyMetrics) -> Option<f64>,
    format: fn(f64) -> String,
}

const COLUMNS: [Column; 10] = [
    Column { header: "mean\n(s)", metric: |f| f.mean_completion_s, format: seconds },
    Column {
        header: "mean /\nbound",
        metric: |f| Some(f.mean_completion_s? / f.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0)?),
        format: two_decimals,
    },
    Column { header: "p95\n(s)", metric: |f| f.p95_completion_s, format: seconds },
    Column { header: "wait\n(s)", metric: |f| f.mean_wait_s, format: seconds },
    Column { header: "slow-\ndown", metric: |f| f.mean_slowdown, format: two_decimals },
    Column { header: "node-\nlocal", metric: |f| f.locality_node, format: percent },
    Column { header: "slot\nuse", metric: |f| f.utilisation, format: percent },
    Column { header: "pauses +\nearly ends", metric: |f| Some((f.pauses + f.early_ends) as f64), format: whole },
    Column { header: "kills", metric: |f| Some(f.kills as f64), format: whole },
    Column { header: "lost work\n(slot s)", metric: |f| Some(f.lost_work_s), format: seconds },
];

/// Builds a table with one row per policy. `runs` holds the seeds of each policy; with several seeds a cell is the mean and its 95 % confidence
/// interval. Job groups get a column each if there are at most four.
pub fn policies(runs: &[Vec<Summary>]) -> TextTable {
    let groups: Vec<&String> = runs.first().and_then(|seeds| seeds.first()).map_or(Vec::new(), |first| {
        if first.groups.len() > 4 { Vec::new() } else { first.groups.iter().map(|(name, _)| name).collect() }
    });
    let mut header = vec!["policy".to_owned()];
    header.extend(COLUMNS.iter().map(|column| column.header.to_owned()));
    header.extend(groups.iter().map(|group| format!("{group}\nmean (s)")));
    let mut table = TextTable::new(header)
        .numbers_from(1)
        .leave_out("slot use|node-local|slow-down|kills|wait (s)|lost work (slot s)|p95 (s)|pauses + early ends");
    for seeds in runs {
        let Some(first) = seeds.first() else { continue };
        let mut row = vec![first.policy.clone()];
        for column in &COLUMNS {
            row.push(number(
                seeds.iter().map(|summary| (column.metric)(&summary.key_metrics)).collect(),
                column.format,
            ));
        }
        for group in 0..groups.len() {
            let mean = |summary: &Summary| summary.groups.get(group).and_then(|(_, g)| g.key_metrics.mean_completion_s);
            row.push(number(seeds.iter().map(mean).collect(), seconds));
        }
        table.add_row(row);
    }
    table
}

/// Formats one value, or the mean and 95 % confidence interval of several; `-` if a value is missing.
fn number(values: Option<Vec<f64>>, format: fn(f64) -> String) -> String {
    match values.as_deref() {
        None | Some([]) => "-".to_owned(),
        Some([one]) => format(*one),
        Some(several) => {
            let (mean, half) = interval(several);
            format!("{} ±{}", format(mean), format(half).trim_end_matches(" %"))
        }
    }
}

/// Mean, and half the width of its 95 % confidence interval by Student's t distribution. The half width is NaN for a single value.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, student_t(values.len() - 1) * (variance / n).sqrt())
}

/// The 97.5 % quantile of Student's t distribution; approximated above 30 degrees of freedom.
fn student_t(degrees_of_freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match degrees_of_freedom {
        0 => f64::NAN,
        1..=30 => T[degrees_of_freedom - 1],
        _ => 1.96 + 2.4 / degrees_of_freedom as f64,
    }
}

fn seconds(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_known_sample() {
        // 1, 2, 3, 4, 5: mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(mean, 3.0);
        assert!((half - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-9);
    }
}
