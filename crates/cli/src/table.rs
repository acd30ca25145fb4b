//! Tables for people.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use giveway_sim::metrics::{KeyMetrics, Summary};

/// What a column shows of a run.
struct Column {
    head: &'static str,
    of: fn(&KeyMetrics) -> Option<f64>,
    show: fn(f64) -> String,
}

const COLUMNS: [Column; 10] = [
    Column { head: "mean\ns", of: |f| f.mean_completion_s, show: seconds },
    Column { head: "x bound", of: |f| Some(f.mean_completion_s? / f.lower_bound_mean_completion_s?), show: twice },
    Column { head: "p95\ns", of: |f| f.p95_completion_s, show: seconds },
    Column { head: "wait\ns", of: |f| f.mean_wait_s, show: seconds },
    Column { head: "slow-\ndown", of: |f| f.mean_slowdown, show: twice },
    Column { head: "local", of: |f| f.locality_node, show: percent },
    Column { head: "in use", of: |f| f.utilisation, show: percent },
    Column { head: "pauses", of: |f| Some((f.pauses + f.early_ends) as f64), show: whole },
    Column { head: "kills", of: |f| Some(f.kills as f64), show: whole },
    Column { head: "lost\nslot s", of: |f| Some(f.lost_work_s), show: seconds },
];

/// One row a policy, from one run or from several seeds (then mean and 95 % interval).
pub fn policies(runs: &[Vec<Summary>]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    let groups: Vec<&String> = runs.first().and_then(|seeds| seeds.first()).map_or(Vec::new(), |first| {
        if first.groups.len() > 4 { Vec::new() } else { first.groups.iter().map(|(name, _)| name).collect() }
    });
    let mut head = vec!["policy".to_owned()];
    head.extend(COLUMNS.iter().map(|column| column.head.to_owned()));
    head.extend(groups.iter().map(|group| format!("{group}\nmean s")));
    table.set_header(head);
    for seeds in runs {
        let Some(first) = seeds.first() else { continue };
        let mut row = vec![Cell::new(&first.policy)];
        for column in &COLUMNS {
            row.push(number(seeds.iter().map(|summary| (column.of)(&summary.key_metrics)).collect(), column.show));
        }
        for group in 0..groups.len() {
            let mean = |summary: &Summary| summary.groups.get(group).and_then(|(_, g)| g.key_metrics.mean_completion_s);
            row.push(number(seeds.iter().map(mean).collect(), seconds));
        }
        table.add_row(row);
    }
    table
}

/// The value of one run, or mean and 95 % interval of several.
fn number(values: Option<Vec<f64>>, show: fn(f64) -> String) -> Cell {
    let text = match values.as_deref() {
        None | Some([]) => "-".to_owned(),
        Some([one]) => show(*one),
        Some(several) => {
            let (mean, half) = interval(several);
            format!("{} ±{}", show(mean), show(half).trim_end_matches(" %"))
        }
    };
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Mean, and half the width of its 95 % interval by Student's t.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, student_t(values.len() - 1) * (variance / n).sqrt())
}

/// The 97.5 % point of Student's t.
fn student_t(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::NAN,
        1..=30 => T[freedom - 1],
        _ => 1.96 + 2.4 / freedom as f64,
    }
}

fn seconds(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn twice(value: f64) -> String {
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
    fn the_interval_of_a_known_sample() {
        // 1, 2, 3, 4, 5: mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(mean, 3.0);
        assert!((half - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-9);
    }
}
