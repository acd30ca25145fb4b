//! Renders figures as self-contained SVG files: each includes its style, follows the reader's light or dark setting and loads nothing.

use super::study::{Figure, Measure, PaperValue, Plot, SlotsOverTime};
use crate::estimate::{Estimate, Unit};
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
path.paper{fill:var(--ground);stroke:var(--text);stroke-width:1.4}
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
const BOTTOM: f64 = 250.0;
const COLOURS: usize = 7;

/// A rendered figure.
pub struct SvgFigure {
    /// File name, without a folder.
    pub file_name: String,
    /// Title, also the alternative text.
    pub title: String,
    /// Content of the file.
    pub svg: String,
}

/// Renders a figure: to one file, or for slots over time to one file per policy.
pub fn render(figure: &Figure) -> Vec<SvgFigure> {
    let one = |plot: Fragment| {
        vec![SvgFigure {
            file_name: format!("{}.svg", figure.id),
            title: figure.title.clone(),
            svg: document(&figure.title, &plot.svg, plot.height, ""),
        }]
    };
    match &figure.plot {
        Plot::Bars { y, categories, series } => one(bars(y, categories, series, &figure.paper)),
        Plot::Lines { x, y, x_values, series } => one(lines(x, y, x_values, series)),
        Plot::Distributions { x, series } => one(distributions(x, series)),
        Plot::Slots(runs) => slots(figure, runs),
    }
}

/// Part of an SVG document.
struct Fragment {
    svg: String,
    /// Height of a document that ends with this part.
    height: f64,
}

/// A whole SVG document. `colours` is CSS that is appended to the style.
fn document(title: &str, body: &str, height: f64, colours: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\
         <title>{title}</title><style>\n{STYLE}{colours}</style><text class=\"title\" x=\"12\" y=\"18\">{title}</text>{body}</svg>\n"
    )
}

/// The vertical axis, and the SVG of its ticks, grid lines and name.
fn vertical_axis(y: &Measure, values: &[Estimate]) -> (Axis, String) {
    let upper: Vec<f64> = values.iter().map(Estimate::upper).filter(|upper| upper.is_finite()).collect();
    let max = upper.iter().copied().fold(0.0, f64::max);
    let axis = match y.unit {
        Unit::Fraction => Axis::linear(1.0_f64.max(max), BOTTOM, TOP),
        Unit::Seconds => Axis::fit(&mut upper.clone(), BOTTOM, TOP).extended_below(),
        _ => Axis::linear(max * 1.05, BOTTOM, TOP),
    };
    let ticks = if y.unit == Unit::Seconds { axis.ticks_s(6) } else { axis.ticks(5) };
    let mut svg = String::new();
    for tick in ticks {
        let y_tick = axis.at(tick);
        svg += &format!("<path class=\"grid\" d=\"M{LEFT} {y_tick:.1}H{RIGHT}\"/>");
        svg += &label(LEFT - 6.0, y_tick + 4.0, "end", &tick_text(y.unit, tick));
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    svg += &label(12.0, 34.0, "start", &format!("{}{scale}", y.name));
    (axis, svg)
}

fn tick_text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => text::tick(value),
        Unit::Fraction | Unit::Change => format!("{:.0} %", value * 100.0),
        Unit::Plain => text::short(value),
    }
}

/// A legend in rows below the plot. `key` returns the SVG of the symbol for a series index.
fn legend(names: &[String], key: impl Fn(usize) -> String, top: f64) -> Fragment {
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
    Fragment { svg, height: y + 12.0 }
}

fn bar_key(ix: usize) -> String {
    format!(
        "<rect y=\"-9\" width=\"16\" height=\"10\" fill=\"var(--c{})\" fill-opacity=\"{}\"/>",
        ix % COLOURS,
        opacity(ix)
    )
}

/// Series that reuse a colour are paler.
fn opacity(ix: usize) -> f64 {
    if ix < COLOURS { 1.0 } else { 0.5 }
}

fn line_key(ix: usize) -> String {
    format!("<path class=\"line\" {} d=\"M0 -4h20\"/>", stroke(ix))
}

fn names<T>(series: &[(String, T)]) -> Vec<String> {
    series.iter().map(|(name, _)| name.clone()).collect()
}

fn bars(y: &Measure, categories: &[String], series: &[(String, Vec<Estimate>)], paper: &[PaperValue]) -> Fragment {
    let ours = series.iter().flat_map(|(_, values)| values.iter().copied());
    let all: Vec<Estimate> = ours.chain(paper.iter().map(|paper| Estimate::single(paper.value))).collect();
    let (axis, mut svg) = vertical_axis(y, &all);
    let group_width = (RIGHT - LEFT) / categories.len().max(1) as f64;
    let width = (group_width * 0.8 / series.len().max(1) as f64).min(46.0);
    for (ix, category) in categories.iter().enumerate() {
        let middle = LEFT + group_width * (ix as f64 + 0.5);
        svg += &label(middle, BOTTOM + 16.0, "middle", category);
        for (index, (name, values)) in series.iter().enumerate() {
            let Some(value) = values.get(ix).filter(|value| value.mean.is_finite()) else { continue };
            let x = middle + width * (index as f64 - series.len() as f64 / 2.0);
            let top = axis.at(value.mean);
            svg += &format!(
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"var(--c{})\" fill-opacity=\"{}\">\
                 <title>{}, {}: {}</title></rect>",
                x + 0.5,
                (width - 1.0).max(1.0),
                (BOTTOM - top).max(0.0),
                index % COLOURS,
                opacity(index),
                escape(name),
                escape(category),
                y.unit.show_estimate(*value)
            );
            svg += &whisker(&axis, x + width / 2.0, value);
            for paper in paper.iter().filter(|paper| paper.series == *name && paper.category == *category) {
                svg += &paper_mark(x + width / 2.0, axis.at(paper.value), &y.unit.show(paper.value));
            }
        }
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>");
    let mut names = names(series);
    let ours = names.len();
    if !paper.is_empty() {
        names.push("the paper's value".into());
    }
    let key = |ix: usize| if ix < ours { bar_key(ix) } else { paper_mark(8.0, -4.0, "") };
    let legend = legend(&names, key, BOTTOM + 40.0);
    Fragment { svg: svg + &legend.svg, height: legend.height }
}

/// A diamond for a value that the paper gives.
fn paper_mark(x: f64, y: f64, value: &str) -> String {
    format!("<path class=\"paper\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"><title>paper: {value}</title></path>", y - 5.0)
}

/// The confidence interval as a vertical line; empty for a single value.
fn whisker(axis: &Axis, x: f64, value: &Estimate) -> String {
    let Some((low, high)) = value.interval.filter(|(low, high)| low < high) else { return String::new() };
    let (low, high) = (axis.at(low), axis.at(high));
    format!("<path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>")
}

fn lines(x: &str, y: &Measure, x_values: &[f64], series: &[(String, Vec<Estimate>)]) -> Fragment {
    let all: Vec<Estimate> = series.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let (y_axis, mut svg) = vertical_axis(y, &all);
    let x_axis = Axis::linear(x_values.iter().copied().fold(0.0, f64::max), LEFT, RIGHT - 10.0);
    for tick in x_axis.ticks(8) {
        let x_tick = x_axis.at(tick);
        svg += &format!("<path class=\"grid\" d=\"M{x_tick:.1} {BOTTOM}V{TOP}\"/>");
        svg += &label(x_tick, BOTTOM + 16.0, "middle", &text::short(tick));
    }
    svg += &label(RIGHT, BOTTOM + 30.0, "end", x);
    for (ix, (name, values)) in series.iter().enumerate() {
        let points: Vec<(f64, &Estimate)> =
            x_values.iter().copied().zip(values).filter(|(_, value)| value.mean.is_finite()).collect();
        let path: Vec<String> =
            points.iter().map(|(x, value)| format!("{:.1} {:.1}", x_axis.at(*x), y_axis.at(value.mean))).collect();
        if path.is_empty() {
            continue;
        }
        let name = escape(name);
        svg += &format!("<path class=\"line\" {} d=\"M{}\"><title>{name}</title></path>", stroke(ix), path.join("L"));
        for (x, value) in points {
            svg += &whisker(&y_axis, x_axis.at(x), value);
        }
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>");
    let legend = legend(&names(series), line_key, BOTTOM + 52.0);
    Fragment { svg: svg + &legend.svg, height: legend.height }
}

fn distributions(x: &Measure, series: &[(String, Vec<f64>)]) -> Fragment {
    let mut all: Vec<f64> = series.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    let x_axis = Axis::fit(&mut all, LEFT, RIGHT);
    let y_axis = Axis::linear(1.0, BOTTOM, TOP);
    let mut svg = String::new();
    for percent in [0, 25, 50, 75, 100] {
        let y = y_axis.at(f64::from(percent) / 100.0);
        svg += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        svg += &label(LEFT - 6.0, y + 4.0, "end", &format!("{percent} %"));
    }
    for tick in x_axis.ticks_s(8) {
        let x_tick = x_axis.at(tick);
        svg += &format!("<path class=\"grid\" d=\"M{x_tick:.1} {BOTTOM}V{TOP}\"/>");
        svg += &label(x_tick, BOTTOM + 16.0, "middle", &tick_text(x.unit, tick));
    }
    svg += &label(12.0, 34.0, "start", "cumulative fraction");
    let scale = if x_axis.log { ", logarithmic" } else { "" };
    svg += &label(RIGHT, BOTTOM + 30.0, "end", &format!("{}{scale}", x.name));
    for (ix, (name, values)) in series.iter().enumerate() {
        let steps = ecdf(values.clone());
        if steps.is_empty() {
            continue;
        }
        // At most one step per pixel, so that the path stays short.
        let pixel = |value: f64| x_axis.at(value).round();
        let mut pen = StepPath::at(LEFT, BOTTOM);
        for (index, (value, fraction)) in steps.iter().enumerate() {
            if steps.get(index + 1).is_none_or(|(next, _)| pixel(*next) > pixel(*value)) {
                pen.step(pixel(*value), y_axis.at(*fraction));
            }
        }
        pen.level_until(RIGHT);
        let (name, stroke) = (escape(name), stroke(ix));
        svg += &format!("<path class=\"line\" {stroke} d=\"{}\"><title>{name}</title></path>", pen.data());
    }
    svg += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>");
    let legend = legend(&names(series), line_key, BOTTOM + 52.0);
    Fragment { svg: svg + &legend.svg, height: legend.height }
}

fn slots(figure: &Figure, runs: &[(String, SlotsOverTime)]) -> Vec<SvgFigure> {
    let frame = Frame::fit(runs.iter().map(|(_, slots)| &slots.chart));
    let (width, height) = frame.size();
    let height = height * WIDTH / width;
    let key = |ix: usize| format!("<rect y=\"-9\" width=\"16\" height=\"10\" fill=\"var(--g{ix})\"/>");
    let render = |(name, slots): &(String, SlotsOverTime)| {
        let chart = frame.draw(&figure.id, name, &slots.chart);
        let legend = legend(&slots.jobs, key, height + 44.0);
        let title = format!("{}: {name}", figure.title);
        let body =
            format!("<svg y=\"24\" width=\"{WIDTH}\" height=\"{height:.1}\" {}", chart.trim_start_matches("<svg "));
        let svg = document(&title, &(body + &legend.svg), legend.height, &group_colours(slots.jobs.len()));
        SvgFigure { file_name: format!("{}-{name}.svg", figure.id), title, svg }
    };
    runs.iter().map(render).collect()
}
