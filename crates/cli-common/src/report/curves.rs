//! Empirical distribution functions of completion, wait and execution time: one drawing per metric and size group, one line per policy.
//!
//! A policy has the same colour and dash pattern on the whole page. With seven colours and five patterns, 35 policies are distinct, and
//! consecutive ones differ in both.

use super::Run;
use super::plots::{Axis, StepPath, ecdf, label, svg, tenths};
use super::text;
use giveway_sim::metrics::JobMetrics;

/// Number of policy colours in the style sheet (`--c0` to `--c6`).
pub(super) const COLOURS: usize = 7;
/// Dash patterns; the empty one is a solid line.
const DASHES: [&str; 5] = ["", "7 2", "2 2", "8 2 2 2", "4 2 1 2 1 2"];

const SIZE: (f64, f64) = (380.0, 215.0);
const LEFT: f64 = 44.0;
const RIGHT: f64 = 368.0;
const TOP: f64 = 12.0;
const BASE: f64 = 182.0;

/// A time metric of a job, in seconds.
struct Metric {
    name: &'static str,
    value_s: fn(&JobMetrics) -> f64,
}

const METRICS: [Metric; 3] = [
    Metric { name: "Completion time", value_s: |job| job.completion_s },
    Metric { name: "Wait time", value_s: |job| job.wait_s },
    Metric { name: "Execution time", value_s: |job| job.execution_s },
];

/// SVG attributes for the colour and dash pattern of a policy.
pub fn stroke(policy: usize) -> String {
    let colour = policy % COLOURS;
    match DASHES[policy % DASHES.len()] {
        "" => format!("stroke=\"var(--c{colour})\""),
        dashes => format!("stroke=\"var(--c{colour})\" stroke-dasharray=\"{dashes}\""),
    }
}

/// The drawings of all metrics, for all jobs or those of one group. `jobs_name` describes the jobs in the titles.
pub(super) fn row(id: &str, jobs_name: &str, names: &[String], runs: &[Run], group: Option<u16>) -> String {
    METRICS
        .iter()
        .enumerate()
        .map(|(ix, metric)| {
            let times = |run: &Run| {
                let jobs = run.jobs.iter().filter(|job| group.is_none_or(|group| job.group == group));
                jobs.map(metric.value_s).collect()
            };
            let title = format!("{}, {jobs_name}", metric.name);
            let drawn = panel(&format!("{id}-{ix}"), &title, names, runs.iter().map(times).collect());
            format!("<figure><figcaption>{}</figcaption>{drawn}</figure>\n", metric.name)
        })
        .collect()
}

fn panel(id: &str, title: &str, names: &[String], times: Vec<Vec<f64>>) -> String {
    let time = Axis::fit(&mut times.concat(), LEFT, RIGHT);
    let fraction = Axis::linear(1.0, BASE, TOP);
    let mut body = String::new();
    for percent in [0, 25, 50, 75, 100] {
        let y = fraction.at(f64::from(percent) / 100.0);
        body += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        body += &label(LEFT - 6.0, y + 4.0, "end", &format!("{percent} %"));
    }
    for tick in time.ticks_s(5) {
        let x = time.at(tick);
        body += &format!("<path class=\"grid\" d=\"M{x:.1} {BASE}V{TOP}\"/>");
        body += &label(x, BASE + 16.0, "middle", &text::tick(tick));
    }
    if time.log {
        body += &label(RIGHT, BASE + 30.0, "end", "logarithmic scale");
    }
    body += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BASE}H{RIGHT}\"/>");
    let mut medians = Vec::new();
    for (policy, (name, times)) in names.iter().zip(times).enumerate() {
        let steps = ecdf(times);
        if let Some((median_s, _)) = steps.iter().find(|(_, fraction)| *fraction >= 0.5) {
            medians.push(format!("{name} {}", text::span(*median_s)));
        }
        body += &line(policy, name, &steps, &time, &fraction);
    }
    let description = format!("Fraction of jobs at or below each time. Medians: {}.", medians.join("; "));
    svg(id, "curves", SIZE, title, &description, &body)
}

/// The line of one policy. Of the steps at the same (rounded) position only the last is drawn, so the length of the path is limited by the width
/// of the drawing, not by the number of jobs.
fn line(policy: usize, name: &str, steps: &[(f64, f64)], time: &Axis, fraction: &Axis) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let position = |value: f64| (time.at(value) * 2.0).round() / 2.0;
    let mut path = StepPath::at(LEFT, BASE);
    for (ix, (value, cumulative)) in steps.iter().enumerate() {
        let next = steps.get(ix + 1).map(|(value, _)| tenths(position(*value)));
        if next != Some(tenths(position(*value))) {
            path.step(position(*value), fraction.at(*cumulative));
        }
    }
    path.level_until(RIGHT);
    let (name, stroke, path) = (text::escape(name), stroke(policy), path.data());
    format!("<path class=\"line p{policy}\" {stroke} d=\"{path}\"><title>{name}</title></path>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_five_policies_have_distinct_strokes() {
        let all: std::collections::BTreeSet<String> = (0..35).map(stroke).collect();
        assert_eq!(all.len(), 35);
    }

    #[test]
    fn path_length_does_not_grow_with_the_number_of_jobs() {
        let times: Vec<f64> = (0..100_000).map(|n| f64::from(n % 977)).collect();
        let drawn = panel("c", "Completion", &["fifo".into()], vec![times]);
        assert!(drawn.len() < 12_000, "{}", drawn.len());
    }

    #[test]
    fn without_jobs_there_is_no_line() {
        let drawn = panel("c", "Completion", &["<fifo>".into()], vec![vec![]]);
        assert!(!drawn.contains("class=\"line") && !drawn.contains("NaN"), "{drawn}");
        let drawn = panel("c", "Completion", &["<fifo>".into()], vec![vec![2.0, 4.0]]);
        assert!(drawn.contains("&lt;fifo&gt; 2.0 s") && !drawn.contains("<fifo>"), "{drawn}");
    }
}
