//! What was forecast, beside what came true: intervals are widened or narrowed until nine of ten hold.
//!
//! Of each job the first forecast of its end is remembered, and the first one after half of its tasks were done. When the job has ended, it is known by how
//! much its interval would have had to be wider. Only forecasts that somebody asked for are remembered, so this learns while a cluster is followed, and not when a log
//! is read once.

use crate::forecast::{Forecasts, Interval};
use giveway_core::{JobId, Span, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Forecasts that have come true or not and count, the latest ones.
const OUTCOMES: usize = 200;

/// Jobs whose forecasts wait for their end.
const JOBS_MAX: usize = 10_000;

/// This part of the intervals is to hold.
const HOLDS: f64 = 0.9;

/// As if so many forecasts had needed intervals just as wide as they were.
const PRIOR: f64 = 20.0;

/// Intervals are not changed by more than these factors.
const NARROWEST: f64 = 0.5;
const WIDEST: f64 = 4.0;

/// Recent forecasts and their outcomes.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// By job, the first forecast, and the first one after half of its tasks were done.
    waiting: FxHashMap<JobId, [Option<Remembered>; 2]>,
    /// By how much the interval should have been wider, for each that has an outcome.
    needed: VecDeque<f64>,
}

/// A forecast before it was widened.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    at: Time,
    end: Interval,
}

impl Calibration {
    /// Remembers forecasts; `is_half_done` tells whether half of a job's tasks are done.
    pub fn remember(&mut self, forecasts: &Forecasts, is_half_done: impl Fn(JobId) -> bool) {
        for (&job, forecast) in &forecasts.jobs {
            let Some(end) = forecast.drawn_end.filter(|end| end.median.is_some()) else { continue };
            if self.waiting.len() >= JOBS_MAX && !self.waiting.contains_key(&job) {
                continue;
            }
            let of_job = self.waiting.entry(job).or_default();
            of_job[usize::from(is_half_done(job))].get_or_insert(Remembered { at: forecasts.at, end });
        }
    }

    /// A job has ended.
    pub fn ended(&mut self, job: JobId, at: Time, succeeded: bool) {
        let remembered = self.waiting.remove(&job).filter(|_| succeeded);
        for Remembered { at: made, end } in remembered.into_iter().flatten().flatten() {
            if let Some(needed) = needed_width(made, end, at) {
                self.needed.push_back(needed);
            }
        }
        while self.needed.len() > OUTCOMES {
            self.needed.pop_front();
        }
    }

    /// The factor by which intervals are to be wider.
    pub fn factor(&self) -> f64 {
        let mut needed: Vec<f64> = self.needed.iter().copied().collect();
        needed.sort_by(f64::total_cmp);
        let Some(&quantile) = needed.get((HOLDS * needed.len() as f64) as usize) else { return 1.0 };
        let weight = needed.len() as f64 / (needed.len() as f64 + PRIOR);
        quantile.clamp(NARROWEST, WIDEST).powf(weight)
    }
}

/// The times that were left, as logarithms: errors are a part of what is left.
fn logs(made: Time, end: Interval) -> Option<[f64; 3]> {
    let log = |time: Time| time.since(made).as_secs_f64().max(1e-3).ln();
    Some([log(end.low), log(end.median?), log(end.high)])
}

/// The width that an interval should have had to hold, as a part of the one it had.
fn needed_width(made: Time, end: Interval, real: Time) -> Option<f64> {
    let [low, median, high] = logs(made, end)?;
    let real = real.since(made).as_secs_f64().max(1e-3).ln();
    let width = if real > median { high - median } else { median - low };
    Some((real - median).abs() / width.max(0.01))
}

/// An interval that is wider by a factor.
pub(crate) fn widened(made: Time, end: Interval, factor: f64) -> Interval {
    let Some([low, median, high]) = logs(made, end) else { return end };
    let at = |log: f64| made + Span::from_secs_f64((median + (log - median) * factor).min(30.0).exp());
    Interval { low: at(low), high: at(high), ..end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::JobForecast;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// Forecasts of so many jobs at 0 s: that they end between 80 and 125 s.
    fn forecasts(jobs: u32) -> Forecasts {
        let end = Interval { low: at(80.0), median: Some(at(100.0)), high: at(125.0) };
        let forecast = JobForecast { drawn_end: Some(end), ..JobForecast::default() };
        Forecasts { jobs: (0..jobs).map(|job| (JobId(job), forecast)).collect(), ..Forecasts::default() }
    }

    /// The factor after jobs have ended at these times.
    fn factor(ends_s: impl Iterator<Item = f64>) -> f64 {
        let mut calibration = Calibration::default();
        calibration.remember(&forecasts(150), |_| false);
        (0..).map(JobId).zip(ends_s).for_each(|(job, end_s)| calibration.ended(job, at(end_s), true));
        calibration.factor()
    }

    #[test]
    fn intervals_become_as_wide_as_they_should_have_been() {
        assert_eq!(factor(std::iter::empty()), 1.0);
        let narrow = factor((0..150).map(|job| if job % 3 == 0 { 64.0 } else { 100.0 }));
        assert!((1.6..2.0).contains(&narrow), "a third was twice as far away as the interval allowed: {narrow}");
        let wide = factor((0..150).map(|_| 101.0));
        assert!((NARROWEST..0.6).contains(&wide), "{wide}");
        assert!(factor((0..150).map(|_| 1.0)) <= WIDEST);
        assert!(factor((0..2).map(|_| 64.0)) < 1.1, "two jobs say little");
    }

    #[test]
    fn a_forecast_counts_once_and_those_of_killed_jobs_do_not() {
        let mut calibration = Calibration::default();
        calibration.remember(&forecasts(2), |_| false);
        calibration.remember(&forecasts(2), |_| false);
        calibration.remember(&forecasts(2), |_| true);
        calibration.ended(JobId(0), at(90.0), true);
        calibration.ended(JobId(1), at(90.0), false);
        assert_eq!(calibration.needed.iter().filter(|&&needed| needed <= 1.0).count(), 2);
    }

    #[test]
    fn a_wider_interval_stays_ahead_of_the_forecast() {
        let end = Interval { low: at(80.0), median: Some(at(100.0)), high: at(125.0) };
        let wider = widened(at(50.0), end, 4.0);
        assert!(wider.low > at(50.0) && wider.low < at(60.0), "{wider:?}");
        assert!(wider.median == end.median && wider.high > at(150.0), "{wider:?}");
    }
}
