//! Draws slots over time: for each run the map slots above and the reduce slots below, stacked by size group with the smallest at the bottom, with a
//! line for the capacity. Below each stack are rows of marks for preempted attempts. A dashed vertical line is a lost node.
//!
//! All drawings of a page have the same frame (time range, slot range and rows), so that they can be compared.

use super::chart::{Chart, ChartInterval, PreemptionCounts};
use super::plots::{Axis, StepPath, label, svg};
use super::text;
use giveway_core::Kind;

const WIDTH: f64 = 560.0;
/// Wide enough for the row names at the larger font size of narrow screens.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 10.0;
/// Height of the map and reduce stacks. Clusters usually have more map slots than reduce slots.
const STACK: [f64; 2] = [120.0, 80.0];
const ROW_HEIGHT: f64 = 17.0;
const MARK_HEIGHT: f64 = 11.0;
const GAP: f64 = 16.0;
const FOOT: f64 = 26.0;
/// With more intervals with lost nodes than this, losses are drawn as a row of marks instead of vertical lines.
const LOSS_LINES_MAX: usize = 12;
const NODES_LOST: &str = "nodes lost";

/// The axes and rows shared by all drawings of a page.
pub struct Frame {
    length_s: f64,
    slots_max: [f64; 2],
    /// For each row, the maximum count in one interval; rows with 0 are omitted.
    counts_max: [u32; MARK_ROWS.len()],
    /// Maximum number of intervals with lost nodes in one run.
    loss_intervals_max: usize,
}

/// A row of marks below a stack: its name, its stack, and the events that it counts.
struct MarkRow {
    name: &'static str,
    kind: Kind,
    count: fn(&ChartInterval) -> u32,
}

const MARK_ROWS: [MarkRow; 5] = [
    MarkRow { name: "early ends", kind: Kind::Map, count: |interval| interval.preemptions[0].work_kept },
    MarkRow { name: "kills", kind: Kind::Map, count: |interval| interval.preemptions[0].killed },
    MarkRow { name: "pauses", kind: Kind::Reduce, count: |interval| interval.preemptions[1].work_kept },
    MarkRow { name: "kills", kind: Kind::Reduce, count: |interval| interval.preemptions[1].killed },
    MarkRow { name: NODES_LOST, kind: Kind::Reduce, count: |interval| interval.nodes_lost },
];

impl Frame {
    /// The smallest frame that fits all charts.
    pub fn fit<'a>(charts: impl Iterator<Item = &'a Chart>) -> Frame {
        let mut frame =
            Frame { length_s: 0.0, slots_max: [0.0; 2], counts_max: [0; MARK_ROWS.len()], loss_intervals_max: 0 };
        for chart in charts {
            frame.length_s = frame.length_s.max(chart.length_s());
            let losses = chart.intervals().filter(|interval| interval.nodes_lost > 0).count();
            frame.loss_intervals_max = frame.loss_intervals_max.max(losses);
            for interval in chart.intervals() {
                for kind in Kind::BOTH {
                    let used: f64 = interval.used[kind.index()].iter().sum();
                    let max = &mut frame.slots_max[kind.index()];
                    *max = max.max(interval.slots[kind.index()]).max(used);
                }
                for (max, row) in frame.counts_max.iter_mut().zip(&MARK_ROWS) {
                    *max = (*max).max((row.count)(&interval));
                }
            }
        }
        frame
    }

    /// Whether lost nodes are drawn as vertical lines.
    pub(super) fn has_loss_lines(&self) -> bool {
        (1..=LOSS_LINES_MAX).contains(&self.loss_intervals_max)
    }

    /// The rows below a stack, with the maximum count of each.
    fn rows_below(&self, kind: Kind) -> impl Iterator<Item = (&'static MarkRow, u32)> {
        let shown = move |row: &MarkRow| row.kind == kind && !(row.name == NODES_LOST && self.has_loss_lines());
        MARK_ROWS.iter().zip(self.counts_max).filter(move |(row, max)| shown(row) && *max > 0)
    }

    /// Width and height of each drawing.
    pub fn size(&self) -> (f64, f64) {
        let below = |kind| STACK[Kind::index(kind)] + 7.0 + ROW_HEIGHT * self.rows_below(kind).count() as f64;
        (WIDTH, TOP + Kind::BOTH.map(below).iter().sum::<f64>() + GAP + FOOT)
    }

    /// Draws one run.
    pub fn draw(&self, id: &str, name: &str, chart: &Chart) -> String {
        let intervals: Vec<ChartInterval> = chart.intervals().collect();
        let time = Axis::linear(self.length_s, LEFT, RIGHT);
        let mut body = String::new();
        let mut top = TOP;
        for kind in Kind::BOTH {
            let base = top + STACK[kind.index()];
            body += &self.stack(kind, &intervals, &time, (top, base));
            top = base + 7.0;
            for (row, max) in self.rows_below(kind) {
                body += &marks(row, max, &intervals, &time, top);
                top += ROW_HEIGHT;
            }
            top += GAP;
        }
        let bottom = top - GAP;
        if self.has_loss_lines() {
            body += &losses(&intervals, &time, bottom);
        }
        for tick in time.ticks_s(6) {
            let x = time.at(tick);
            body += &format!("<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>");
            body += &label(x, bottom + 17.0, if tick == 0.0 { "start" } else { "middle" }, &text::tick(tick));
        }
        let title = format!("Slots in use over time under {name}");
        svg(id, "slots", self.size(), &title, &description(&intervals), &body)
    }

    fn stack(&self, kind: Kind, intervals: &[ChartInterval], time: &Axis, (top, base): (f64, f64)) -> String {
        let level = Axis::linear(self.slots_max[kind.index()], base, top);
        let mut body = String::new();
        for tick in level.ticks_whole(if kind == Kind::Map { 4 } else { 3 }) {
            let y = level.at(tick);
            body += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            body += &label(LEFT - 6.0, y + 4.0, "end", &text::count(tick as u64));
        }
        let end = time.at(intervals.last().map_or(0.0, |last| last.to_s));
        let groups = intervals.first().map_or(0, |first| first.used[kind.index()].len());
        // Each area extends to the base and the next is drawn over it. This takes half the bytes of areas with shared borders.
        for group in (0..groups).rev() {
            let mut path = StepPath::at(LEFT, base);
            for interval in intervals {
                let used: f64 = interval.used[kind.index()][..=group].iter().sum();
                path.step(time.at(interval.from_s), level.at(used));
            }
            body += &format!("<path class=\"area\" fill=\"var(--g{group})\" d=\"{}\"/>", path.area(end, base));
        }
        if let Some(first) = intervals.first() {
            let mut path = StepPath::at(LEFT, level.at(first.slots[kind.index()]));
            // A last interval of length zero has no mean.
            for interval in intervals.iter().filter(|interval| interval.to_s > interval.from_s) {
                path.step(time.at(interval.from_s), level.at(interval.slots[kind.index()]));
            }
            path.level_until(end);
            body += &format!("<path class=\"capacity\" d=\"{}\"/>", path.data());
        }
        let middle = (top + base) / 2.0;
        body + &format!(
            "<text class=\"name\" transform=\"translate(16 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{kind}</text>\
             <path class=\"axis\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/>"
        )
    }
}

/// Draws a row of marks; the height of a mark is proportional to the count of its interval.
fn marks(row: &MarkRow, max: u32, intervals: &[ChartInterval], time: &Axis, top: f64) -> String {
    let base = top + MARK_HEIGHT + 2.0;
    let path: String = intervals
        .iter()
        .filter(|interval| (row.count)(interval) > 0)
        .map(|interval| {
            let height = 3.0 + (MARK_HEIGHT - 3.0) * f64::from((row.count)(interval)) / f64::from(max);
            format!("M{:.1} {base:.1}v-{height:.1}", time.at(interval.from_s))
        })
        .collect();
    label(LEFT - 6.0, base, "end", row.name)
        + &format!("<path class=\"mark-row\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/><path class=\"mark\" d=\"{path}\"/>")
}

fn losses(intervals: &[ChartInterval], time: &Axis, bottom: f64) -> String {
    let lost = intervals.iter().filter(|interval| interval.nodes_lost > 0);
    let path: String = lost.map(|interval| format!("M{:.1} {TOP}V{bottom:.1}", time.at(interval.from_s))).collect();
    if path.is_empty() {
        return path;
    }
    format!("<path class=\"node-lost-halo\" d=\"{path}\"/><path class=\"node-lost\" d=\"{path}\"/>")
}

/// Text alternative of a drawing.
fn description(intervals: &[ChartInterval]) -> String {
    let length_s: f64 = intervals.iter().map(|interval| interval.to_s - interval.from_s).sum();
    let mean = |level: &dyn Fn(&ChartInterval) -> f64| {
        let sum: f64 = intervals.iter().map(|interval| level(interval) * (interval.to_s - interval.from_s)).sum();
        if length_s > 0.0 { sum / length_s } else { 0.0 }
    };
    let counted = |count: &dyn Fn(&PreemptionCounts) -> u32, kind: Kind| -> u64 {
        intervals.iter().map(|interval| u64::from(count(&interval.preemptions[kind.index()]))).sum()
    };
    let slots = Kind::BOTH.map(|kind| {
        let used = mean(&|interval| interval.used[kind.index()].iter().sum());
        format!("{used:.1} of {:.1} {kind} slots", mean(&|interval| interval.slots[kind.index()]))
    });
    format!(
        "Length {}. On average {} and {} were in use. {} early ends, {} pauses, {} kills, {} nodes lost.",
        text::span(length_s),
        slots[0],
        slots[1],
        counted(&|counts| counts.work_kept, Kind::Map),
        counted(&|counts| counts.work_kept, Kind::Reduce),
        counted(&|counts| counts.killed, Kind::Map) + counted(&|counts| counts.killed, Kind::Reduce),
        intervals.iter().map(|interval| u64::from(interval.nodes_lost)).sum::<u64>(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::{joined, launched, submitted, two_groups};
    use super::*;
    use giveway_core::{AttemptId, Event, JobId, NodeId, Time};
    use giveway_sim::Observer;

    fn busy() -> Chart {
        let mut chart = two_groups();
        (0..2).for_each(|node| joined(&mut chart, 0, node));
        submitted(&mut chart, 0, 0);
        launched(&mut chart, 0, AttemptId::new(JobId(0), Kind::Map, 0, 0), 0);
        chart.observe(Time(8_000_000), &Event::NodeLost { node: NodeId(1) }, &[]);
        chart
    }

    #[test]
    fn a_drawing_has_a_text_alternative() {
        let chart = busy();
        let drawn = Frame::fit([&chart].into_iter()).draw("s0", "<fifo>", &chart);
        assert!(drawn.contains("under &lt;fifo&gt;"), "{drawn}");
        assert!(drawn.contains("On average 1.0 of 8.0 map slots and 0.0 of 4.0 reduce slots were in use."), "{drawn}");
        assert!(drawn.contains("1 nodes lost") && drawn.contains("class=\"node-lost\""), "{drawn}");
        // Without preemptions there is no row for them.
        assert!(!drawn.contains(">pauses<") && !drawn.contains(">nodes lost<"), "{drawn}");
    }

    #[test]
    fn many_losses_are_drawn_as_a_row_instead_of_lines() {
        let mut chart = busy();
        for n in 1..20 {
            joined(&mut chart, (8 + n) * 1_000_000, 1);
            chart.observe(Time((9 + n) * 1_000_000), &Event::NodeLost { node: NodeId(1) }, &[]);
        }
        let drawn = Frame::fit([&chart].into_iter()).draw("s0", "fifo", &chart);
        assert!(drawn.contains(">nodes lost<") && !drawn.contains("class=\"node-lost\""), "{drawn}");
    }

    #[test]
    fn a_run_without_events_is_drawn_without_nan() {
        let idle = two_groups();
        let drawn = Frame::fit([&idle].into_iter()).draw("s0", "fifo", &idle);
        assert!(!drawn.contains("NaN"), "{drawn}");
    }
}
