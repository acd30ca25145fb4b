//! Slots over time, drawn: for each run the map slots above and the reduce slots below, stacked by size group with the smallest at
//! the bottom, under the line of the slots there are. Below each stack are lanes of marks for attempts that gave way; a dashed
//! line through both is a node that was lost.
//!
//! All runs of a page share one frame (the same length of time, the same number of slots, the same lanes), so that drawings side
//! by side can be compared by eye.

use super::chart::{Chart, Marks, Stretch};
use super::plots::{Axis, Pen, svg, words};
use super::text;
use giveway_core::Kind;

const WIDTH: f64 = 560.0;
/// Wide enough for the lanes' names in the larger type of narrow screens.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 10.0;
/// Height of the stacks. There are usually more map slots than reduce slots.
const STACK: [f64; 2] = [120.0, 80.0];
const LANE: f64 = 17.0;
const LANE_MARK: f64 = 11.0;
const GAP: f64 = 16.0;
const FOOT: f64 = 26.0;
/// More losses than this in a run would be a fence of lines: they get a lane instead.
const LINES_MAX: usize = 12;
const NODES_LOST: &str = "nodes lost";

/// What all drawings of a page have in common.
pub(crate) struct Frame {
    length_s: f64,
    slots_max: [f64; 2],
    /// For each lane, the most marks of one stretch; a lane without any is left out.
    marks_max: [u32; LANES.len()],
    /// The most stretches of one run in which nodes were lost.
    losses_max: usize,
}

/// A row of marks below a stack.
struct LaneOf {
    name: &'static str,
    kind: Kind,
    count: fn(&Stretch) -> u32,
}

const LANES: [LaneOf; 5] = [
    LaneOf { name: "early ends", kind: Kind::Map, count: |stretch| stretch.marks[0].kept },
    LaneOf { name: "kills", kind: Kind::Map, count: |stretch| stretch.marks[0].killed },
    LaneOf { name: "pauses", kind: Kind::Reduce, count: |stretch| stretch.marks[1].kept },
    LaneOf { name: "kills", kind: Kind::Reduce, count: |stretch| stretch.marks[1].killed },
    LaneOf { name: NODES_LOST, kind: Kind::Reduce, count: |stretch| stretch.nodes_lost },
];

impl Frame {
    /// The frame into which all of these fit.
    pub(crate) fn around<'a>(charts: impl Iterator<Item = &'a Chart>) -> Frame {
        let mut frame = Frame { length_s: 0.0, slots_max: [0.0; 2], marks_max: [0; LANES.len()], losses_max: 0 };
        for chart in charts {
            frame.length_s = frame.length_s.max(chart.length_s());
            let losses = chart.stretches().filter(|stretch| stretch.nodes_lost > 0).count();
            frame.losses_max = frame.losses_max.max(losses);
            for stretch in chart.stretches() {
                for kind in Kind::BOTH {
                    let held: f64 = stretch.held[kind.ix()].iter().sum();
                    let most = &mut frame.slots_max[kind.ix()];
                    *most = most.max(stretch.slots[kind.ix()]).max(held);
                }
                for (most, lane) in frame.marks_max.iter_mut().zip(&LANES) {
                    *most = (*most).max((lane.count)(&stretch));
                }
            }
        }
        frame
    }

    /// True if there are lines for nodes that were lost.
    pub(super) fn has_lines(&self) -> bool {
        (1..=LINES_MAX).contains(&self.losses_max)
    }

    fn lanes_below(&self, kind: Kind) -> impl Iterator<Item = (&'static LaneOf, u32)> {
        let wanted = move |lane: &LaneOf| lane.kind == kind && !(lane.name == NODES_LOST && self.has_lines());
        LANES.iter().zip(self.marks_max).filter(move |(lane, most)| wanted(lane) && *most > 0)
    }

    /// Width and height of each drawing.
    pub(crate) fn size(&self) -> (f64, f64) {
        let below = |kind| STACK[Kind::ix(kind)] + 7.0 + LANE * self.lanes_below(kind).count() as f64;
        (WIDTH, TOP + Kind::BOTH.map(below).iter().sum::<f64>() + GAP + FOOT)
    }

    /// One run, drawn.
    pub(crate) fn draw(&self, id: &str, name: &str, chart: &Chart) -> String {
        let stretches: Vec<Stretch> = chart.stretches().collect();
        let time = Axis::linear(self.length_s, LEFT, RIGHT);
        let mut body = String::new();
        let mut top = TOP;
        for kind in Kind::BOTH {
            let base = top + STACK[kind.ix()];
            body += &self.stack(kind, &stretches, &time, (top, base));
            top = base + 7.0;
            for (lane, most) in self.lanes_below(kind) {
                body += &marks(lane, most, &stretches, &time, top);
                top += LANE;
            }
            top += GAP;
        }
        let bottom = top - GAP;
        if self.has_lines() {
            body += &losses(&stretches, &time, bottom);
        }
        for tick in time.ticks_s(6) {
            let x = time.at(tick);
            body += &format!("<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>");
            body += &words(x, bottom + 17.0, if tick == 0.0 { "start" } else { "middle" }, &text::tick(tick));
        }
        let title = format!("Slots in use over time under {name}");
        svg(id, "slots", self.size(), &title, &about(&stretches), &body)
    }

    fn stack(&self, kind: Kind, stretches: &[Stretch], time: &Axis, (top, base): (f64, f64)) -> String {
        let level = Axis::linear(self.slots_max[kind.ix()], base, top);
        let mut body = String::new();
        for tick in level.ticks_whole(if kind == Kind::Map { 4 } else { 3 }) {
            let y = level.at(tick);
            body += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            body += &words(LEFT - 6.0, y + 4.0, "end", &text::count(tick as u64));
        }
        let end = time.at(stretches.last().map_or(0.0, |last| last.to_s));
        let groups = stretches.first().map_or(0, |first| first.held[kind.ix()].len());
        // Each area reaches down to the base and the next is painted over it: half the bytes of areas that share borders.
        for group in (0..groups).rev() {
            let mut pen = Pen::at(LEFT, base);
            for stretch in stretches {
                let held: f64 = stretch.held[kind.ix()][..=group].iter().sum();
                pen.step(time.at(stretch.from_s), level.at(held));
            }
            body += &format!("<path class=\"area\" fill=\"var(--g{group})\" d=\"{}\"/>", pen.area(end, base));
        }
        if let Some(first) = stretches.first() {
            let mut pen = Pen::at(LEFT, level.at(first.slots[kind.ix()]));
            // A last stretch without length has no mean.
            for stretch in stretches.iter().filter(|stretch| stretch.to_s > stretch.from_s) {
                pen.step(time.at(stretch.from_s), level.at(stretch.slots[kind.ix()]));
            }
            pen.level_until(end);
            body += &format!("<path class=\"there\" d=\"{}\"/>", pen.path());
        }
        let middle = (top + base) / 2.0;
        body + &format!(
            "<text class=\"name\" transform=\"translate(16 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{kind}</text>\
             <path class=\"axis\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/>"
        )
    }
}

/// A lane: higher marks where more happened at once.
fn marks(lane: &LaneOf, most: u32, stretches: &[Stretch], time: &Axis, top: f64) -> String {
    let base = top + LANE_MARK + 2.0;
    let path: String = stretches
        .iter()
        .filter(|stretch| (lane.count)(stretch) > 0)
        .map(|stretch| {
            let height = 3.0 + (LANE_MARK - 3.0) * f64::from((lane.count)(stretch)) / f64::from(most);
            format!("M{:.1} {base:.1}v-{height:.1}", time.at(stretch.from_s))
        })
        .collect();
    words(LEFT - 6.0, base, "end", lane.name)
        + &format!("<path class=\"lane\" d=\"M{LEFT} {base:.1}H{RIGHT}\"/><path class=\"mark\" d=\"{path}\"/>")
}

fn losses(stretches: &[Stretch], time: &Axis, bottom: f64) -> String {
    let lost = stretches.iter().filter(|stretch| stretch.nodes_lost > 0);
    let path: String = lost.map(|stretch| format!("M{:.1} {TOP}V{bottom:.1}", time.at(stretch.from_s))).collect();
    if path.is_empty() {
        return path;
    }
    format!("<path class=\"lost\" d=\"{path}\"/><path class=\"loss\" d=\"{path}\"/>")
}

/// The drawing in words.
fn about(stretches: &[Stretch]) -> String {
    let length_s: f64 = stretches.iter().map(|stretch| stretch.to_s - stretch.from_s).sum();
    let mean = |level: &dyn Fn(&Stretch) -> f64| {
        let sum: f64 = stretches.iter().map(|stretch| level(stretch) * (stretch.to_s - stretch.from_s)).sum();
        if length_s > 0.0 { sum / length_s } else { 0.0 }
    };
    let counted = |count: &dyn Fn(&Marks) -> u32, kind: Kind| -> u64 {
        stretches.iter().map(|stretch| u64::from(count(&stretch.marks[kind.ix()]))).sum()
    };
    let slots = Kind::BOTH.map(|kind| {
        let held = mean(&|stretch| stretch.held[kind.ix()].iter().sum());
        format!("{held:.1} of {:.1} {kind} slots", mean(&|stretch| stretch.slots[kind.ix()]))
    });
    format!(
        "{} long. On average {} and {} were in use. {} early ends, {} pauses, {} kills, {} nodes lost.",
        text::span(length_s),
        slots[0],
        slots[1],
        counted(&|marks| marks.kept, Kind::Map),
        counted(&|marks| marks.kept, Kind::Reduce),
        counted(&|marks| marks.killed, Kind::Map) + counted(&|marks| marks.killed, Kind::Reduce),
        stretches.iter().map(|stretch| u64::from(stretch.nodes_lost)).sum::<u64>(),
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
    fn a_run_is_drawn_with_its_words() {
        let chart = busy();
        let drawn = Frame::around([&chart].into_iter()).draw("s0", "<fifo>", &chart);
        assert!(drawn.contains("under &lt;fifo&gt;"), "{drawn}");
        assert!(drawn.contains("On average 1.0 of 8.0 map slots and 0.0 of 4.0 reduce slots were in use."), "{drawn}");
        assert!(drawn.contains("1 nodes lost") && drawn.contains("class=\"loss\""), "{drawn}");
        // Nothing gave way, so there is no lane for it.
        assert!(!drawn.contains(">pauses<") && !drawn.contains(">nodes lost<"), "{drawn}");
    }

    #[test]
    fn many_losses_get_a_lane_instead_of_lines() {
        let mut chart = busy();
        for n in 1..20 {
            joined(&mut chart, (8 + n) * 1_000_000, 1);
            chart.observe(Time((9 + n) * 1_000_000), &Event::NodeLost { node: NodeId(1) }, &[]);
        }
        let drawn = Frame::around([&chart].into_iter()).draw("s0", "fifo", &chart);
        assert!(drawn.contains(">nodes lost<") && !drawn.contains("class=\"loss\""), "{drawn}");
    }

    #[test]
    fn a_run_in_which_nothing_happened_is_drawn_too() {
        let idle = two_groups();
        let drawn = Frame::around([&idle].into_iter()).draw("s0", "fifo", &idle);
        assert!(!drawn.contains("NaN"), "{drawn}");
    }
}
