//! The tasks of one job, collected one by one.

use crate::formats::Reading;
use crate::{Oddity, TaskTime, Tasks};
use giveway_core::Span;

/// One finished task. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FinishedTask {
    pub(crate) start_us: i64,
    pub(crate) finish_us: i64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// The finished tasks of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTally {
    maps: Sum,
    reduces: Sum,
    /// Start and end of each reduce: its time counts from the end of the last map, which may not be known yet.
    reduce_times: Vec<(i64, i64)>,
    last_map_us: Option<i64>,
    pub(crate) first_start_us: Option<i64>,
    pub(crate) last_finish_us: Option<i64>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    count: u32,
    time_us: u128,
    input_bytes: u64,
    output_bytes: u64,
}

impl TaskTally {
    /// Adds a map; one that ends before it starts is counted and left out.
    pub(crate) fn map(&mut self, task: FinishedTask, reading: &mut Reading, place: &str) {
        if self.accept(&task, reading, place) {
            self.last_map_us = self.last_map_us.max(Some(task.finish_us));
            self.maps.add(&task);
        }
    }

    /// Adds a reduce; one that ends before it starts is counted and left out.
    pub(crate) fn reduce(&mut self, task: FinishedTask, reading: &mut Reading, place: &str) {
        if self.accept(&task, reading, place) {
            self.reduce_times.push((task.start_us, task.finish_us));
            self.reduces.add(&task);
        }
    }

    /// True if no further task is accepted.
    pub(crate) fn is_full(&self, reading: &Reading) -> bool {
        (self.maps.count + self.reduces.count) as usize >= reading.limits.tasks_per_job
    }

    fn accept(&mut self, task: &FinishedTask, reading: &mut Reading, place: &str) -> bool {
        if task.finish_us < task.start_us {
            reading.odd(Oddity::TaskEndsBeforeStart, place);
            return false;
        }
        if self.is_full(reading) {
            reading.odd(Oddity::TooManyTasks, place);
            return false;
        }
        self.first_start_us = Some(self.first_start_us.map_or(task.start_us, |first| first.min(task.start_us)));
        self.last_finish_us = self.last_finish_us.max(Some(task.finish_us));
        true
    }

    /// Maps and reduces with their mean times. The time of a reduce counts from the end of the job's last map: until then it waited.
    pub(crate) fn tasks(self) -> (Tasks, Tasks) {
        let last_map_us = self.last_map_us.unwrap_or(i64::MIN);
        let time = |&(start, finish): &(i64, i64)| u128::from(finish.abs_diff(start.max(last_map_us).min(finish)));
        let reduces = Sum { time_us: self.reduce_times.iter().map(time).sum(), ..self.reduces };
        (self.maps.tasks(), reduces.tasks())
    }
}

impl Sum {
    fn add(&mut self, task: &FinishedTask) {
        self.count += 1;
        self.time_us += u128::from(task.finish_us.abs_diff(task.start_us));
        self.input_bytes = self.input_bytes.saturating_add(task.input_bytes);
        self.output_bytes = self.output_bytes.saturating_add(task.output_bytes);
    }

    fn tasks(self) -> Tasks {
        let mean_us = self.time_us / u128::from(self.count.max(1));
        Tasks {
            count: self.count,
            input_bytes: self.input_bytes,
            output_bytes: self.output_bytes,
            time: TaskTime::Recorded(Span(u64::try_from(mean_us).unwrap_or(u64::MAX))),
        }
    }
}

/// Milliseconds to microseconds; None for negative values, which mean "unknown", and for values out of range.
pub(crate) fn us_from_ms(ms: i64) -> Option<i64> {
    if ms < 0 { None } else { ms.checked_mul(1_000) }
}

/// Seconds to microseconds; None if not finite or out of range.
pub(crate) fn us_from_s(seconds: f64) -> Option<i64> {
    (seconds.is_finite() && seconds.abs() < 9e12).then_some((seconds * 1e6) as i64)
}

/// A number of bytes, where negative values mean "unknown".
pub(crate) fn bytes(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduce_counts_from_the_end_of_the_last_map() {
        let (mut tally, mut reading) = (TaskTally::default(), Reading::default());
        let task = |start_us, finish_us| FinishedTask { start_us, finish_us, input_bytes: 3, output_bytes: 1 };
        tally.reduce(task(5, 40), &mut reading, "r");
        tally.map(task(0, 10), &mut reading, "m");
        tally.map(task(0, 20), &mut reading, "m");
        tally.map(task(7, 6), &mut reading, "m");
        let (maps, reduces) = tally.tasks();
        assert_eq!((maps.count, maps.time.span(), maps.input_bytes), (2, Span(15), 6));
        assert_eq!((reduces.count, reduces.time.span()), (1, Span(20)));
        assert_eq!(reading.diagnostics.of(Oddity::TaskEndsBeforeStart), 1);
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let (mut tally, mut reading) = (TaskTally::default(), Reading::default());
        reading.options.limits.tasks_per_job = 2;
        for _ in 0..3 {
            let task = FinishedTask { start_us: i64::MIN, finish_us: i64::MAX, input_bytes: u64::MAX, output_bytes: 0 };
            tally.map(task, &mut reading, "m");
            tally.reduce(task, &mut reading, "r");
        }
        let (maps, _) = tally.tasks();
        assert_eq!((maps.count, maps.time.span(), maps.input_bytes), (1, Span(u64::MAX), u64::MAX));
        assert_eq!((us_from_ms(-1), us_from_ms(i64::MAX), us_from_s(f64::NAN)), (None, None, None));
    }
}
