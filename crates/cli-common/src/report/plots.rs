//! Parts of every drawing: axes with ticks, empirical distributions, compact step paths, labels, and the SVG element with a text alternative.
//!
//! Coordinates are rounded to tenths of a unit. [`StepPath`] rounds absolute positions, not distances, so that rounding errors do not accumulate.

use super::text::escape;

/// Tick intervals of a time axis: round numbers of seconds, minutes, hours and days.
const STEPS_S: [f64; 23] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0,
    14_400.0, 28_800.0, 43_200.0, 86_400.0, 172_800.0, 432_000.0,
];
/// Minimum ratio of the high to the low end of the values for a logarithmic axis.
const LOG_RATIO_MIN: f64 = 30.0;
/// Lowest value of a logarithmic time axis; shorter times are drawn at its end.
const LOG_AXIS_MIN_S: f64 = 0.1;
/// Factor by which an axis extends beyond its largest value.
const MARGIN: f64 = 1.02;

/// Maps values to coordinates, linearly or logarithmically.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
    pub log: bool,
}

impl Axis {
    /// A linear axis from 0 to `hi`, between the coordinates `from` and `to`.
    pub fn linear(hi: f64, from: f64, to: f64) -> Axis {
        Axis { lo: 0.0, hi: if hi > 0.0 { hi } else { 1.0 }, from, to, log: false }
    }

    /// An axis for times in seconds: logarithmic if their range is wide, else linear from 0. The lowest 5 % of the values are ignored in that
    /// decision and may lie near or beyond the low end, so that a single outlier does not compress the rest. Sorts `values` and removes those that are
    /// not positive and finite.
    pub fn fit(values: &mut Vec<f64>, from: f64, to: f64) -> Axis {
        values.retain(|value| value.is_finite() && *value > 0.0);
        values.sort_unstable_by(f64::total_cmp);
        let (Some(&min), Some(&hi)) = (values.first(), values.last()) else { return Axis::linear(1.0, from, to) };
        let low = values[values.len() / 20].max(LOG_AXIS_MIN_S);
        if hi / low < LOG_RATIO_MIN {
            return Axis::linear(hi * MARGIN, from, to);
        }
        Axis { lo: (min.max(low / 2.0) / MARGIN).max(LOG_AXIS_MIN_S), hi: hi * MARGIN, from, to, log: true }
    }

    /// Extends a logarithmic axis downwards, so that a bar of the smallest value has a visible length.
    pub fn extended_below(self) -> Axis {
        if self.log { Axis { lo: self.lo / 3.0, ..self } } else { self }
    }

    /// Coordinate of a value; values beyond an end are clamped to it.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        let fraction = if self.log {
            (value / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        self.from + fraction * (self.to - self.from)
    }

    /// Ticks of a time axis in seconds: at most `max`, not counting zero.
    pub fn ticks_s(&self, max: usize) -> Vec<f64> {
        if self.log {
            let longer = |step: f64| std::iter::successors(Some(step * 2.0), |step| Some(step * 10.0)).take(6);
            let steps = STEPS_S.into_iter().chain(longer(432_000.0));
            let inside: Vec<f64> = steps.filter(|step| (self.lo..=self.hi).contains(step)).collect();
            let every = inside.len().div_ceil(max).max(1);
            return inside.into_iter().step_by(every).collect();
        }
        let step = STEPS_S.into_iter().find(|step| self.hi / step <= max as f64);
        self.multiples(step.unwrap_or_else(|| round_step(self.hi / 86_400.0, max) * 86_400.0))
    }

    /// Ticks of an axis of integers: at most `max`, not counting zero.
    pub fn ticks_whole(&self, max: usize) -> Vec<f64> {
        self.multiples(round_step(self.hi, max).max(1.0))
    }

    /// Ticks at round numbers: at most `max`, not counting zero.
    pub fn ticks(&self, max: usize) -> Vec<f64> {
        self.multiples(round_step(self.hi, max))
    }

    fn multiples(&self, step: f64) -> Vec<f64> {
        let count = (self.hi / step + 1e-9).floor() as usize;
        (0..=count).map(|n| n as f64 * step).collect()
    }
}

/// The smallest step of the form 1, 2 or 5 times a power of ten of which at most `max` fit into `hi`.
fn round_step(hi: f64, max: usize) -> f64 {
    let step_min = hi / max as f64;
    let decade = 10f64.powf(step_min.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * decade).find(|step| *step >= step_min).unwrap_or(10.0 * decade)
}

/// Empirical distribution function: each distinct finite value in ascending order, with the fraction of values at or below it.
pub fn ecdf(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let all = values.len() as f64;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (below, value) in values.into_iter().enumerate() {
        let fraction = (below + 1) as f64 / all;
        match steps.last_mut() {
            Some(last) if last.0 == value => last.1 = fraction,
            _ => steps.push((value, fraction)),
        }
    }
    steps
}

/// Builds the data of an SVG path for a level that changes in steps. Unchanged levels add no bytes.
#[derive(Debug)]
pub struct StepPath {
    data: String,
    x_tenths: i64,
    y_tenths: i64,
}

impl StepPath {
    /// Starts a path at a point.
    pub fn at(x: f64, y: f64) -> StepPath {
        let (x_tenths, y_tenths) = (tenths(x), tenths(y));
        let data = format!("M{} {}", decimal(x_tenths), decimal(y_tenths));
        StepPath { data, x_tenths, y_tenths }
    }

    /// Changes the level to `y` at `x`.
    pub fn step(&mut self, x: f64, y: f64) {
        let y_tenths = tenths(y);
        if y_tenths != self.y_tenths {
            self.level_until(x);
            self.data.push('v');
            self.data.push_str(&decimal(y_tenths - self.y_tenths));
            self.y_tenths = y_tenths;
        }
    }

    /// Extends the current level to `x`.
    pub fn level_until(&mut self, x: f64) {
        let x_tenths = tenths(x);
        if x_tenths != self.x_tenths {
            self.data.push('h');
            self.data.push_str(&decimal(x_tenths - self.x_tenths));
            self.x_tenths = x_tenths;
        }
    }

    /// The path data, open at the end.
    pub fn data(self) -> String {
        self.data
    }

    /// The path data of the area between the level and a base line, closed at `x`.
    pub fn area(mut self, x: f64, base: f64) -> String {
        self.level_until(x);
        self.step(x, base);
        self.data.push('z');
        self.data
    }
}

/// Rounds a coordinate to tenths of a unit.
pub fn tenths(coordinate: f64) -> i64 {
    (coordinate * 10.0).round() as i64
}

/// Writes tenths as a decimal number in as few bytes as possible: `-.5`, `3`, `2.4`.
fn decimal(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
    match (whole, tenth) {
        (_, 0) => format!("{sign}{whole}"),
        (0, _) => format!("{sign}.{tenth}"),
        _ => format!("{sign}{whole}.{tenth}"),
    }
}

/// An SVG element with a title and a description for screen readers. `id` must be unique on the page.
pub fn svg(id: &str, class: &str, size: (f64, f64), title: &str, description: &str, body: &str) -> String {
    let (width, height) = size;
    let (title, description) = (escape(title), escape(description));
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>{body}</svg>\n"
    )
}

/// A text element; `anchor` is `start`, `middle` or `end`.
pub fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecdf_has_one_step_per_distinct_value() {
        assert_eq!(ecdf(vec![3.0, 1.0, 3.0, 2.0]), [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert_eq!(ecdf(vec![f64::NAN, 5.0]), [(5.0, 1.0)]);
        assert_eq!(ecdf(vec![]), []);
    }

    #[test]
    fn time_ticks_are_round_times() {
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
    fn wide_ranges_use_a_logarithmic_axis() {
        let narrow = Axis::fit(&mut vec![10.0, 200.0, 0.0], 0.0, 100.0);
        assert_eq!((narrow.log, narrow.at(102.0)), (false, 50.0));
        let wide = Axis::fit(&mut vec![1.0, 10.0, 100.0], 0.0, 100.0);
        assert!(wide.at(1.0) < 5.0 && wide.extended_below().at(1.0) > 15.0);
        assert_eq!(narrow.extended_below(), narrow);
        assert!(wide.log);
        assert!((wide.at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!((wide.at(0.0), wide.at(1e9)), (0.0, 100.0));
        assert_eq!(wide.ticks_s(4), [1.0, 5.0, 20.0, 60.0]);
        // A single outlier does not make the axis logarithmic.
        let mut values = vec![100.0; 99];
        values.push(0.001);
        assert!(!Axis::fit(&mut values, 0.0, 100.0).log);
        assert!(!Axis::fit(&mut vec![0.0001, 0.002, 2.0], 0.0, 100.0).log);
        assert_eq!(Axis::fit(&mut vec![0.0, f64::NAN], 0.0, 100.0), Axis::linear(1.0, 0.0, 100.0));
    }

    #[test]
    fn step_path_omits_unchanged_levels_and_does_not_drift() {
        let mut path = StepPath::at(0.0, 10.0);
        (1..=30).for_each(|n| path.step(f64::from(n) / 3.0, 10.0));
        path.step(10.0, 9.5);
        path.step(20.04, 9.5);
        assert_eq!(path.area(30.0, 10.0), "M0 10h10v-.5h20v.5z");
    }
}
