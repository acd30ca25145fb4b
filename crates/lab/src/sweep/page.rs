//! The HTML report of a sweep: a drawing of the changes and a table for each workload.

use super::plan::Plan;
use super::statistics::{Change, number};
use super::store::Results;
use crate::report::text::{escape, percent, times};
use crate::report::{document, plots, scrolled};
use std::fmt::Write;
use std::path::Path;

/// A metric in the tables, with its heading and number format.
type Shown = (&'static str, &'static str, fn(f64) -> String);

const SHOWN: [Shown; 6] = [
    ("mean_completion_s", "mean (s)", number),
    ("p99_completion_s", "p99 (s)", number),
    ("mean_slowdown", "slowdown", times),
    ("max_slowdown", "max slowdown", times),
    ("lost_work_s", "lost work (slot s)", number),
    ("utilisation", "slot use", percent),
];

const WIDTH: f64 = 760.0;
const NAMES_WIDTH: f64 = 300.0;
const ROW_HEIGHT: f64 = 22.0;

/// The page.
pub fn html(plan: &Plan, results: &Results, changes: &[Change], file: &Path) -> String {
    let seeds = plan.seeds.len();
    let facts = [
        ("Runs".to_owned(), plan.runs().len().to_string()),
        ("Seeds".to_owned(), format!("{seeds}, from {}", plan.seeds[0])),
        ("Baseline".to_owned(), plan.baseline_name().to_owned()),
        ("Command".to_owned(), format!("giveway sweep {} --out DIR", file.display())),
    ];
    let mut content = format!(
        "<p>Change of the mean completion time against {}, over pairs of runs with the same seed: geometric mean and 95 % bootstrap interval. \
         p is that of a permutation test of the signs of the paired differences, corrected for {} comparisons by Holm's method.</p>\n",
        escape(plan.baseline_name()),
        changes.len()
    );
    for (workload, name) in plan.workloads.iter().enumerate() {
        let of_workload: Vec<&Change> = changes.iter().filter(|change| change.workload == workload).collect();
        let _ = write!(content, "<section><h2>{}</h2>\n{}", escape(name), drawing(plan, workload, &of_workload));
        content.push_str(&table(plan, results, workload, &of_workload));
        content.push_str("</section>\n");
    }
    document("Sweep", &facts, 0, &content)
}

fn table(plan: &Plan, results: &Results, workload: usize, changes: &[&Change]) -> String {
    let mut columns: Vec<&str> = SHOWN.iter().map(|(_, heading, _)| *heading).collect();
    columns.extend(["change", "p"]);
    let rows = plan.policies.iter().enumerate().map(|(policy, settings)| {
        let mut cells: Vec<String> = SHOWN
            .iter()
            .map(|(metric, _, format)| match results.mean(workload, policy, metric) {
                mean if mean.is_nan() => "-".into(),
                mean => format(mean),
            })
            .collect();
        match changes.iter().find(|change| change.policy == policy) {
            Some(change) => cells.extend([change.percent(), change.p_text()]),
            None => cells.extend(["baseline".into(), String::new()]),
        }
        let cells = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        (settings.name.clone(), cells)
    });
    scrolled(&format!("Means over {} seeds", plan.seeds.len()), "Policy", &columns, rows)
}

/// An interval for each policy, on one axis of percent.
fn drawing(plan: &Plan, workload: usize, changes: &[&Change]) -> String {
    let known = || changes.iter().filter(|change| !change.estimate.mean.is_nan());
    let ends = |of: fn(&Change) -> f64| known().map(move |change| of(change));
    let low = ends(|change| change.estimate.lower()).fold(0.0, f64::min);
    let high = ends(|change| change.estimate.upper()).fold(0.0, f64::max);
    let width = (high - low).max(0.01);
    let x = |value: f64| NAMES_WIDTH + 20.0 + (value - low) / width * (WIDTH - NAMES_WIDTH - 60.0);
    let height = ROW_HEIGHT * (changes.len() as f64 + 1.5);
    let zero = x(0.0);
    let mut body = format!(
        "<line x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"{:.1}\" stroke=\"currentColor\" stroke-opacity=\".4\"/>\n",
        height - ROW_HEIGHT
    );
    for (row, change) in known().enumerate() {
        let y = ROW_HEIGHT * (row as f64 + 0.6);
        let (from, to, at) = (x(change.estimate.lower()), x(change.estimate.upper()), x(change.estimate.mean));
        body.push_str(&plots::label(NAMES_WIDTH, y + 4.0, "end", &plan.policies[change.policy].name));
        let _ = writeln!(
            body,
            "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-width=\"2\"/>\
             <circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"currentColor\"/>"
        );
    }
    let mut tick = |value: f64, text: &str| body.push_str(&plots::label(x(value), height - 4.0, "middle", text));
    tick(0.0, "0 %");
    // Numbers that would overlap with the zero are left out.
    for value in [low, high].into_iter().filter(|&value| (x(value) - zero).abs() > 50.0) {
        tick(value, &format!("{:+.0} %", value * 100.0));
    }
    let title = format!("Change of the mean completion time on {}", plan.workloads[workload]);
    let description = known()
        .map(|change| format!("{}: {}.", plan.policies[change.policy].name, change.percent()))
        .collect::<Vec<_>>()
        .join(" ");
    plots::svg(&format!("changes-{workload}"), "changes", (WIDTH, height), &title, &description, &body)
}
