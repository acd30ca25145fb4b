//! What every drawing needs: an axis with its ticks, the steps of a distribution, a pen that draws steps in few bytes, and the
//! frame of an SVG with its words for those who do not see it.
//!
//! Coordinates are rounded to tenths of a unit. The pen rounds where it is, not how far it goes, so nothing drifts along a path.

use super::text::escape;

/// Seconds between ticks that people find easy: seconds and minutes by the clock, hours and days by halves of a day.
const STEPS_S: [f64; 23] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0,
    14_400.0, 28_800.0, 43_200.0, 86_400.0, 172_800.0, 432_000.0,
];
/// How many times wider than its low end a range must be to be drawn on a logarithmic axis.
const LOG_FROM: f64 = 30.0;
/// Below this a time is as good as none: a logarithmic axis does not reach further down.
const LEAST_S: f64 = 0.1;
/// How much further than its values an axis goes, so that the last of them is not drawn on the edge.
const ROOM: f64 = 1.02;

/// Maps values to places along a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
    pub(crate) log: bool,
}

impl Axis {
    /// From zero to `hi` in equal steps.
    pub(crate) fn linear(hi: f64, from: f64, to: f64) -> Axis {
        Axis { lo: 0.0, hi: if hi > 0.0 { hi } else { 1.0 }, from, to, log: false }
    }

    /// An axis for these times: logarithmic if they range widely, else from zero on. A twentieth of the values may lie near the
    /// low end or beyond it, for one job that happened to wait a millisecond should not squeeze all others.
    pub(crate) fn fit(values: &mut Vec<f64>, from: f64, to: f64) -> Axis {
        values.retain(|value| value.is_finite() && *value > 0.0);
        values.sort_unstable_by(f64::total_cmp);
        let (Some(&least), Some(&hi)) = (values.first(), values.last()) else { return Axis::linear(1.0, from, to) };
        let low = values[values.len() / 20].max(LEAST_S);
        if hi / low < LOG_FROM {
            return Axis::linear(hi * ROOM, from, to);
        }
        Axis { lo: (least.max(low / 2.0) / ROOM).max(LEAST_S), hi: hi * ROOM, from, to, log: true }
    }

    /// Begins lower if it is logarithmic, where it has no zero: so that what is least can be seen as a bar, too.
    pub(crate) fn with_room_below(self) -> Axis {
        if self.log { Axis { lo: self.lo / 3.0, ..self } } else { self }
    }

    /// Where a value lies; what is beyond an end lies at the end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        let part = if self.log {
            (value / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        self.from + part * (self.to - self.from)
    }

    /// Ticks for an axis of time, at most so many (but for zero).
    pub(crate) fn ticks_s(&self, most: usize) -> Vec<f64> {
        if self.log {
            let longer = |step: f64| std::iter::successors(Some(step * 2.0), |step| Some(step * 10.0)).take(6);
            let steps = STEPS_S.into_iter().chain(longer(432_000.0));
            let inside: Vec<f64> = steps.filter(|step| (self.lo..=self.hi).contains(step)).collect();
            let every = inside.len().div_ceil(most).max(1);
            return inside.into_iter().step_by(every).collect();
        }
        let step = STEPS_S.into_iter().find(|step| self.hi / step <= most as f64);
        self.multiples(step.unwrap_or_else(|| round_step(self.hi / 86_400.0, most) * 86_400.0))
    }

    /// Ticks for an axis of whole things, at most so many (but for zero).
    pub(crate) fn ticks_whole(&self, most: usize) -> Vec<f64> {
        self.multiples(round_step(self.hi, most).max(1.0))
    }

    /// Round ticks for an axis of anything, at most so many (but for zero).
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        self.multiples(round_step(self.hi, most))
    }

    fn multiples(&self, step: f64) -> Vec<f64> {
        let count = (self.hi / step + 1e-9).floor() as usize;
        (0..=count).map(|n| n as f64 * step).collect()
    }
}

/// The least of 1, 2, 5, 10, 20, 50 and so on, up or down, of which at most so many fit.
fn round_step(hi: f64, most: usize) -> f64 {
    let least = hi / most as f64;
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * decade).find(|step| *step >= least).unwrap_or(10.0 * decade)
}

/// The empirical distribution: at each value that was seen, in order, the part of all values that are no larger.
pub(crate) fn ecdf(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let all = values.len() as f64;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (below, value) in values.into_iter().enumerate() {
        let part = (below + 1) as f64 / all;
        match steps.last_mut() {
            Some(last) if last.0 == value => last.1 = part,
            _ => steps.push((value, part)),
        }
    }
    steps
}

/// Draws a level that changes in steps, as the data of an SVG path. A level that stays costs nothing.
#[derive(Debug)]
pub(crate) struct Pen {
    path: String,
    x_tenths: i64,
    y_tenths: i64,
}

impl Pen {
    /// Puts the pen down.
    pub(crate) fn at(x: f64, y: f64) -> Pen {
        let (x_tenths, y_tenths) = (tenths(x), tenths(y));
        let path = format!("M{} {}", decimal(x_tenths), decimal(y_tenths));
        Pen { path, x_tenths, y_tenths }
    }

    /// The level becomes `y` at `x`.
    pub(crate) fn step(&mut self, x: f64, y: f64) {
        let y_tenths = tenths(y);
        if y_tenths != self.y_tenths {
            self.level_until(x);
            self.path.push('v');
            self.path.push_str(&decimal(y_tenths - self.y_tenths));
            self.y_tenths = y_tenths;
        }
    }

    /// Draws the level as it is, until `x`.
    pub(crate) fn level_until(&mut self, x: f64) {
        let x_tenths = tenths(x);
        if x_tenths != self.x_tenths {
            self.path.push('h');
            self.path.push_str(&decimal(x_tenths - self.x_tenths));
            self.x_tenths = x_tenths;
        }
    }

    /// The path so far.
    pub(crate) fn path(self) -> String {
        self.path
    }

    /// The area between the path and a base line.
    pub(crate) fn area(mut self, x: f64, base: f64) -> String {
        self.level_until(x);
        self.step(x, base);
        self.path.push('z');
        self.path
    }
}

pub(crate) fn tenths(place: f64) -> i64 {
    (place * 10.0).round() as i64
}

fn decimal(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
    match (whole, tenth) {
        (_, 0) => format!("{sign}{whole}"),
        (0, _) => format!("{sign}.{tenth}"),
        _ => format!("{sign}{whole}.{tenth}"),
    }
}

/// A drawing with its title and, for those who do not see it, what there is to see. `id` must be its own on the page.
pub(crate) fn svg(id: &str, class: &str, size: (f64, f64), title: &str, about: &str, body: &str) -> String {
    let (width, height) = size;
    let (title, about) = (escape(title), escape(about));
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{about}</desc>{body}</svg>\n"
    )
}

/// Words in a drawing, anchored at `start`, `middle` or `end`.
pub(crate) fn words(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_steps_at_each_value_once() {
        assert_eq!(ecdf(vec![3.0, 1.0, 3.0, 2.0]), [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert_eq!(ecdf(vec![f64::NAN, 5.0]), [(5.0, 1.0)]);
        assert_eq!(ecdf(vec![]), []);
    }

    #[test]
    fn time_ticks_follow_the_clock() {
        assert_eq!(Axis::linear(290.0, 0.0, 1.0).ticks_s(5), [0.0, 60.0, 120.0, 180.0, 240.0]);
        assert_eq!(Axis::linear(7_000.0, 0.0, 1.0).ticks_s(5), [0.0, 1_800.0, 3_600.0, 5_400.0]);
        assert_eq!(
            Axis::linear(4e7, 0.0, 1.0).ticks_s(5),
            [0.0, 8_640_000.0, 17_280_000.0, 25_920_000.0, 34_560_000.0]
        );
    }

    #[test]
    fn whole_ticks_are_whole() {
        assert_eq!(Axis::linear(464.0, 0.0, 1.0).ticks_whole(3), [0.0, 200.0, 400.0]);
        assert_eq!(Axis::linear(1.0, 0.0, 1.0).ticks_whole(4), [0.0, 1.0]);
        assert_eq!(Axis::linear(3.0, 0.0, 1.0).ticks_whole(3), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn wide_ranges_get_a_logarithmic_axis() {
        let narrow = Axis::fit(&mut vec![10.0, 200.0, 0.0], 0.0, 100.0);
        assert_eq!((narrow.log, narrow.at(102.0)), (false, 50.0));
        let wide = Axis::fit(&mut vec![1.0, 10.0, 100.0], 0.0, 100.0);
        assert!(wide.at(1.0) < 5.0 && wide.with_room_below().at(1.0) > 15.0);
        assert_eq!(narrow.with_room_below(), narrow);
        assert!(wide.log);
        assert!((wide.at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!((wide.at(0.0), wide.at(1e9)), (0.0, 100.0));
        assert_eq!(wide.ticks_s(4), [1.0, 5.0, 20.0, 60.0]);
        // One outlier among many does not stretch the axis.
        let mut values = vec![100.0; 99];
        values.push(0.001);
        assert!(!Axis::fit(&mut values, 0.0, 100.0).log);
        assert!(!Axis::fit(&mut vec![0.0001, 0.002, 2.0], 0.0, 100.0).log);
        assert_eq!(Axis::fit(&mut vec![0.0, f64::NAN], 0.0, 100.0), Axis::linear(1.0, 0.0, 100.0));
    }

    #[test]
    fn a_pen_draws_only_what_changes_and_does_not_drift() {
        let mut pen = Pen::at(0.0, 10.0);
        (1..=30).for_each(|n| pen.step(f64::from(n) / 3.0, 10.0));
        pen.step(10.0, 9.5);
        pen.step(20.04, 9.5);
        assert_eq!(pen.area(30.0, 10.0), "M0 10h10v-.5h20v.5z");
    }
}
