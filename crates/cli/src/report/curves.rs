//! Distributions: for completion, waiting and execution, which part of the jobs took no longer than so long. One drawing for each
//! time and size group, one line for each policy.
//!
//! Lines differ in colour and in dashes, and a policy keeps both on the whole page: seven colours and five patterns of dashes run
//! side by side, so 35 policies differ in at least one and neighbours in both.

use super::Run;
use super::plots::{Axis, Pen, ecdf, svg, tenths, words};
use super::text;
use giveway_sim::metrics::JobMetrics;

/// How many colours the style has for policies.
pub(super) const COLOURS: usize = 7;
/// The patterns; an empty one is a whole line.
const DASHES: [&str; 5] = ["", "7 2", "2 2", "8 2 2 2", "4 2 1 2 1 2"];

const SIZE: (f64, f64) = (380.0, 215.0);
const LEFT: f64 = 44.0;
const RIGHT: f64 = 368.0;
const TOP: f64 = 12.0;
const BASE: f64 = 182.0;

/// A time of a job.
struct Measure {
    name: &'static str,
    of: fn(&JobMetrics) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure { name: "Completion", of: |job| job.completion_s },
    Measure { name: "Waiting", of: |job| job.wait_s },
    Measure { name: "Execution", of: |job| job.execution_s },
];

/// Colour and dashes of a policy, as attributes.
pub(crate) fn stroke(policy: usize) -> String {
    let colour = policy % COLOURS;
    match DASHES[policy % DASHES.len()] {
        "" => format!("stroke=\"var(--c{colour})\""),
        dashes => format!("stroke=\"var(--c{colour})\" stroke-dasharray=\"{dashes}\""),
    }
}

/// The drawings for all jobs, or for those of one group.
pub(super) fn row(id: &str, of_whom: &str, names: &[String], runs: &[Run], group: Option<u16>) -> String {
    MEASURES
        .iter()
        .enumerate()
        .map(|(ix, measure)| {
            let times = |run: &Run| {
                let jobs = run.jobs.iter().filter(|job| group.is_none_or(|group| job.group == group));
                jobs.map(measure.of).collect()
            };
            let title = format!("{} time, {of_whom}", measure.name);
            let drawn = panel(&format!("{id}-{ix}"), &title, names, runs.iter().map(times).collect());
            format!("<figure><figcaption>{}</figcaption>{drawn}</figure>\n", measure.name)
        })
        .collect()
}

fn panel(id: &str, title: &str, names: &[String], times: Vec<Vec<f64>>) -> String {
    let time = Axis::fit(&mut times.concat(), LEFT, RIGHT);
    let part = Axis::linear(1.0, BASE, TOP);
    let mut body = String::new();
    for percent in [0, 25, 50, 75, 100] {
        let y = part.at(f64::from(percent) / 100.0);
        body += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        body += &words(LEFT - 6.0, y + 4.0, "end", &format!("{percent} %"));
    }
    for tick in time.ticks_s(5) {
        let x = time.at(tick);
        body += &format!("<path class=\"grid\" d=\"M{x:.1} {BASE}V{TOP}\"/>");
        body += &words(x, BASE + 16.0, "middle", &text::tick(tick));
    }
    if time.log {
        body += &words(RIGHT, BASE + 30.0, "end", "logarithmic");
    }
    body += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BASE}H{RIGHT}\"/>");
    let mut medians = Vec::new();
    for (policy, (name, times)) in names.iter().zip(times).enumerate() {
        let steps = ecdf(times);
        if let Some((median_s, _)) = steps.iter().find(|(_, part)| *part >= 0.5) {
            medians.push(format!("{name} {}", text::span(*median_s)));
        }
        body += &line(policy, name, &steps, &time, &part);
    }
    let about = format!("Part of the jobs that took no longer. Medians: {}.", medians.join("; "));
    svg(id, "curves", SIZE, title, &about, &body)
}

/// One policy's line. Of steps that fall on one place only the last is drawn: thousands of jobs make no longer a line than the
/// drawing is wide.
fn line(policy: usize, name: &str, steps: &[(f64, f64)], time: &Axis, part: &Axis) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let place = |value: f64| (time.at(value) * 2.0).round() / 2.0;
    let mut pen = Pen::at(LEFT, BASE);
    for (ix, (value, reached)) in steps.iter().enumerate() {
        let next = steps.get(ix + 1).map(|(value, _)| tenths(place(*value)));
        if next != Some(tenths(place(*value))) {
            pen.step(place(*value), part.at(*reached));
        }
    }
    pen.level_until(RIGHT);
    let (name, stroke, path) = (text::escape(name), stroke(policy), pen.path());
    format!("<path class=\"line p{policy}\" {stroke} d=\"{path}\"><title>{name}</title></path>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_policies_look_different() {
        let all: std::collections::BTreeSet<String> = (0..35).map(stroke).collect();
        assert_eq!(all.len(), 35);
    }

    #[test]
    fn a_line_is_no_longer_than_the_drawing_is_wide() {
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
