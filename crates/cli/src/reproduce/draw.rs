//! Figures as SVG files that stand alone: they bring their style, follow the reader's light or dark setting, and load nothing.

use super::study::{Estimate, Figure, Measure, Plot, SlotsOverTime, Unit};
use crate::report::plots::{Axis, StepPath, ecdf, label};
use crate::report::text::{self, escape};
use crate::report::{Frame, group_colours, stroke};

const STYLE: &str = "\
:root{--ground:#fff;--text:#1b1f24;--quiet:#57606a;--rule:#d5d9de;\
--c0:#0072b2;--c1:#d55e00;--c2:#00855f;--c3:#b4508a;--c4:#a87400;--c5:#1b1f24;--c6:#3a9bd9}
@media (prefers-color-scheme: dark){:root{--ground:#14171b;--text:#e4e8ec;--quiet:#9da7b1;--rule:#39414a;\
--c0:#3f9fdc;--c1:#f0803c;--c2:#2fbf93;--c3:#e29cc6;--c4:#e6ac1a;--c5:#e4e8ec;--c6:#9ad7f8}}
svg{background:var(--ground);font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}
text{font-size:11px;fill:var(--quiet)}
text.name{fill:var(--text);font-size:12px}
text.title{fill:var(--text);font-size:13px;font-weight:600}
path:not(.area){fill:none}
.grid{stroke:var(--rule);stroke-width:.6}
.axis{stroke:var(--quiet)}
.line{stroke-width:1.8;stroke-linejoin:round}
.whisker{stroke:var(--text);stroke-width:1}
.area{stroke:var(--ground);stroke-width:.3}
.capacity{stroke:var(--text);stroke-width:1.2}
.mark-row{stroke:var(--rule);stroke-width:.6}
.mark{stroke:var(--text);stroke-width:1.3}
.node-lost{stroke:var(--text);stroke-width:1.2;stroke-dasharray:3 3}
.node-lost-halo{stroke:var(--ground);stroke-width:2.4}
";

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 44.0;
const BASE: f64 = 250.0;
const COLOURS: usize = 7;

/// A drawing: the name of its file and what is in it.
pub struct Drawing {
    /// File name.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The SVG.
    pub svg: String,
}

/// The drawings of a figure: one, or for slots over time one for each run.
pub fn draw(figure: &Figure) -> Vec<Drawing> {
    let one = |body: Body| {
        vec![Drawing {
            file: format!("{}.svg", figure.id),
            title: figure.title.clone(),
            svg: alone(&figure.title, &body.svg, body.height, ""),
        }]
    };
    match &figure.plot {
        Plot::Bars { y, categories, series } => one(bars(y, categories, series)),
        Plot::Lines { x, y, at, series } => one(lines(x, y, at, series)),
        Plot::Distributions { x, series } => one(distributions(x, series)),
        Plot::Slots(runs) => slots(figure, runs),
    }
}

struct Body {
    svg: String,
    height: f64,
}

fn alone(title: &str, body: &str, height: f64, colours: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\
         <title>{title}</title><style>\n{STYLE}{colours}</style><text class=\"title\" x=\"12\" y=\"18\">{title}</text>{body}</svg>\n"
    )
}

/// An axis upwards with its ticks, and what it measures.
fn upwards(y: &Measure, values: &[Estimate]) -> (Axis, String) {
    let tops: Vec<f64> =
        values.iter().map(|value| value.mean + value.half.unwrap_or(0.0)).filter(|top| top.is_finite()).collect();
    let most = tops.iter().copied().fold(0.0, f64::max);
    let axis = match y.unit {
        Unit::Part => Axis::linear(1.0_f64.max(most), BASE, TOP),
        Unit::Seconds => Axis::fit(&mut tops.clone(), BASE, TOP).extended_below(),
        _ => Axis::linear(most * 1.05, BASE, TOP),
    };
    let ticks = if y.unit == Unit::Seconds { axis.ticks_s(6) } else { axis.ticks(5) };
    let mut body = String::new();
    for tick in ticks {
        let at = axis.at(tick);
        body += &format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        body += &label(LEFT - 6.0, at + 4.0, "end", &tick_text(y.unit, tick));
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    body += &label(12.0, 34.0, "start", &format!("{}{scale}", y.name));
    (axis, body)
}

fn tick_text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => text::tick(value),
        Unit::Part | Unit::Change => format!("{:.0} %", value * 100.0),
        Unit::Plain => text::short(value),
    }
}

/// Names of the series with their colours, in rows below the drawing.
fn legend(names: &[String], key: impl Fn(usize) -> String, top: f64) -> Body {
    let (mut x, mut y, mut svg) = (LEFT, top, String::new());
    for (ix, name) in names.iter().enumerate() {
        let width = 34.0 + 6.4 * name.chars().count() as f64;
        if x + width > RIGHT && x > LEFT {
            (x, y) = (LEFT, y + 17.0);
        }
        svg += &format!("<g transform=\"translate({x:.1} {y:.1})\">{}</g>", key(ix));
        svg += &format!("<text class=\"name\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 24.0, escape(name));
        x += width + 8.0;
    }
    Body { svg, height: y + 12.0 }
}

fn block(ix: usize) -> String {
    format!(
        "<rect y=\"-9\" width=\"16\" height=\"10\" fill=\"var(--c{})\" fill-opacity=\"{}\"/>",
        ix % COLOURS,
        opacity(ix)
    )
}

/// More series than colours: the second round is paler.
fn opacity(ix: usize) -> f64 {
    if ix < COLOURS { 1.0 } else { 0.5 }
}

fn dash(ix: usize) -> String {
    format!("<path class=\"line\" {} d=\"M0 -4h20\"/>", stroke(ix))
}

fn names<T>(series: &[(String, T)]) -> Vec<String> {
    series.iter().map(|(name, _)| name.clone()).collect()
}

fn bars(y: &Measure, categories: &[String], series: &[(String, Vec<Estimate>)]) -> Body {
    let all: Vec<Estimate> = series.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let (axis, mut svg) = upwards(y, &all);
    let room = (RIGHT - LEFT) / categories.len().max(1) as f64;
    let width = (room * 0.8 / series.len().max(1) as f64).min(46.0);
    for (ix, category) in categories.iter().enumerate() {
        let middle = LEFT + room * (ix as f64 + 0.5);
        svg += &label(middle, BASE + 16.0, "middle", category);
        for (nth, (name, values)) in series.iter().enumerate() {
            let Some(value) = values.get(ix).filter(|value| value.mean.is_finite()) else { continue };
            let x = middle + width * (nth as f64 - series.len() as f64 / 2.0);
            let top = axis.at(value.mean);
            svg += &format!(
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"var(--c{})\" fill-opacity=\"{}\">\
                 <title>{}, {}: {}</title></rect>",
                x + 0.5,
                (width - 1.0).max(1.0),
                (BASE - top).max(0.0),
                nth % COLOURS,
                opacity(nth),
                escape(name),
                escape(category),
                y.unit.show_estimate(*value)
            );
            svg += &whisker(&axis, x + width / 2.0, value);
        }
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {BASE}H{RIGHT}\"/>");
    let legend = legend(&names(series), block, BASE + 40.0);
    Body { svg: svg + &legend.svg, height: legend.height }
}

fn whisker(axis: &Axis, x: f64, value: &Estimate) -> String {
    let Some(half) = value.half.filter(|half| *half > 0.0) else { return String::new() };
    let (low, high) = (axis.at(value.mean - half), axis.at(value.mean + half));
    format!("<path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>")
}

fn lines(x: &str, y: &Measure, at: &[f64], series: &[(String, Vec<Estimate>)]) -> Body {
    let all: Vec<Estimate> = series.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let (up, mut svg) = upwards(y, &all);
    let along = Axis::linear(at.iter().copied().fold(0.0, f64::max), LEFT, RIGHT - 10.0);
    for tick in along.ticks(8) {
        let place = along.at(tick);
        svg += &format!("<path class=\"grid\" d=\"M{place:.1} {BASE}V{TOP}\"/>");
        svg += &label(place, BASE + 16.0, "middle", &text::short(tick));
    }
    svg += &label(RIGHT, BASE + 30.0, "end", x);
    for (ix, (name, values)) in series.iter().enumerate() {
        let points: Vec<(f64, &Estimate)> =
            at.iter().copied().zip(values).filter(|(_, value)| value.mean.is_finite()).collect();
        let path: Vec<String> =
            points.iter().map(|(at, value)| format!("{:.1} {:.1}", along.at(*at), up.at(value.mean))).collect();
        if path.is_empty() {
            continue;
        }
        let name = escape(name);
        svg += &format!("<path class=\"line\" {} d=\"M{}\"><title>{name}</title></path>", stroke(ix), path.join("L"));
        for (at, value) in points {
            svg += &whisker(&up, along.at(at), value);
        }
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BASE}H{RIGHT}\"/>");
    let legend = legend(&names(series), dash, BASE + 52.0);
    Body { svg: svg + &legend.svg, height: legend.height }
}

fn distributions(x: &Measure, series: &[(String, Vec<f64>)]) -> Body {
    let mut all: Vec<f64> = series.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let along = Axis::fit(&mut all, LEFT, RIGHT);
    let part = Axis::linear(1.0, BASE, TOP);
    let mut svg = String::new();
    for percent in [0, 25, 50, 75, 100] {
        let y = part.at(f64::from(percent) / 100.0);
        svg += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        svg += &label(LEFT - 6.0, y + 4.0, "end", &format!("{percent} %"));
    }
    for tick in along.ticks_s(8) {
        let at = along.at(tick);
        svg += &format!("<path class=\"grid\" d=\"M{at:.1} {BASE}V{TOP}\"/>");
        svg += &label(at, BASE + 16.0, "middle", &tick_text(x.unit, tick));
    }
    svg += &label(12.0, 34.0, "start", "part of all");
    let scale = if along.log { ", logarithmic" } else { "" };
    svg += &label(RIGHT, BASE + 30.0, "end", &format!("{}{scale}", x.name));
    for (ix, (name, values)) in series.iter().enumerate() {
        let steps = ecdf(values.clone());
        if steps.is_empty() {
            continue;
        }
        // No line is longer than the drawing is wide.
        let place = |value: f64| along.at(value).round();
        let mut pen = StepPath::at(LEFT, BASE);
        for (at, (value, reached)) in steps.iter().enumerate() {
            if steps.get(at + 1).is_none_or(|(next, _)| place(*next) > place(*value)) {
                pen.step(place(*value), part.at(*reached));
            }
        }
        pen.level_until(RIGHT);
        let (name, stroke) = (escape(name), stroke(ix));
        svg += &format!("<path class=\"line\" {stroke} d=\"{}\"><title>{name}</title></path>", pen.data());
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BASE}H{RIGHT}\"/>");
    let legend = legend(&names(series), dash, BASE + 52.0);
    Body { svg: svg + &legend.svg, height: legend.height }
}

fn slots(figure: &Figure, runs: &[(String, SlotsOverTime)]) -> Vec<Drawing> {
    let frame = Frame::fit(runs.iter().map(|(_, slots)| &slots.chart));
    let (width, height) = frame.size();
    let height = height * WIDTH / width;
    let key = |ix: usize| format!("<rect y=\"-9\" width=\"16\" height=\"10\" fill=\"var(--g{ix})\"/>");
    let draw = |(name, slots): &(String, SlotsOverTime)| {
        let drawn = frame.draw(&figure.id, name, &slots.chart);
        let legend = legend(&slots.holders, key, height + 44.0);
        let title = format!("{}: {name}", figure.title);
        let body =
            format!("<svg y=\"24\" width=\"{WIDTH}\" height=\"{height:.1}\" {}", drawn.trim_start_matches("<svg "));
        let svg = alone(&title, &(body + &legend.svg), legend.height, &group_colours(slots.holders.len()));
        Drawing { file: format!("{}-{name}.svg", figure.id), title, svg }
    };
    runs.iter().map(draw).collect()
}
