//! How long the tasks of a job take, as far as is known: from its own tasks, from those of other jobs, or from the scheduler's estimate.
//!
//! The time of a reduce is what it takes after the last map of its job, because one that starts earlier waits for the maps.

use crate::model::{JobRow, Model};
use giveway_core::state::Job;
use giveway_core::{Kind, Span};

/// The time of a task and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TaskTime {
    /// The mean, or the best guess.
    pub(crate) mean: Span,
    /// Standard deviation of the logarithm of its error.
    pub(crate) error: f64,
}

/// The most recent jobs whose task times are compared.
pub(crate) const RECENT_JOBS: usize = 64;

/// With fewer jobs than this, their spread says nothing about the error.
const ENOUGH_JOBS: usize = 3;

/// The error if fewer jobs of the same name were observed.
const FEW_OF_ITS_NAME: f64 = 0.5;

/// A task that reads less takes as long as one that reads this much.
const BYTES_MIN: f64 = 65_536.0;

/// The error if little or nothing was observed; no error is taken to be larger.
const UNKNOWN: f64 = 1.0;

/// The time of the tasks of a kind of a live job.
pub(crate) fn task_time(model: &Model, row: &JobRow, job: &Job, kind: Kind) -> TaskTime {
    let known = of_its_own_tasks(row, kind).or_else(|| of_other_jobs(model, row, kind));
    let known = known.unwrap_or(TaskTime { mean: job.estimate().task_time[kind], error: UNKNOWN });
    TaskTime { mean: known.mean.max(longest_running(model, row, kind)), ..known }
}

fn of_its_own_tasks(row: &JobRow, kind: Kind) -> Option<TaskTime> {
    let mean = row.mean_task_time(kind)?;
    Some(TaskTime { mean, error: 0.05 + 0.3 / f64::from(row.done[kind.index()]).sqrt() })
}

/// The median over other jobs, by the bytes that a task reads: over those of the same name, or over all if there are none. If there are
/// enough, a part of the time is taken not to depend on the bytes: half of the shortest.
fn of_other_jobs(model: &Model, row: &JobRow, kind: Kind) -> Option<TaskTime> {
    let observed = |other: &&JobRow| other.id != row.id && other.mean_task_time(kind).is_some();
    let recent: Vec<&JobRow> = model.jobs.iter().rev().filter(observed).take(RECENT_JOBS).collect();
    let same_name: Vec<&JobRow> = recent.iter().copied().filter(|other| is_same_name(other, row)).collect();
    let (jobs, error_if_few) = if same_name.is_empty() { (recent, UNKNOWN) } else { (same_name, FEW_OF_ITS_NAME) };
    let time_s = |other: &JobRow| other.mean_task_time(kind).map(|time| time.as_secs_f64());
    let shortest_s = jobs.iter().filter_map(|other| time_s(other)).fold(f64::INFINITY, f64::min);
    let fixed_s = if jobs.len() < ENOUGH_JOBS { 0.0 } else { shortest_s / 2.0 };
    let output_ratio = median(jobs.iter().filter_map(|other| output_ratio(other)).collect()).unwrap_or(1.0);
    let bytes = |job: &JobRow| bytes_per_task(job, kind, output_ratio);
    let scaled = |other: &&JobRow| {
        let ratio = bytes(row) / bytes(other);
        time_s(other).map(|time_s| (fixed_s + (time_s - fixed_s) * ratio).max(1e-3).ln())
    };
    let logs: Vec<f64> = jobs.iter().filter_map(scaled).collect();
    let median = median(logs.clone())?;
    let spread = logs.iter().map(|log| (log - median).powi(2)).sum::<f64>() / logs.len() as f64;
    let error = if logs.len() < ENOUGH_JOBS { error_if_few } else { spread.sqrt().clamp(0.2, UNKNOWN) };
    Some(TaskTime { mean: Span::from_secs_f64(median.exp()), error })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Whether two jobs are runs of the same one: their names differ in numbers or dates only.
fn is_same_name(one: &JobRow, other: &JobRow) -> bool {
    let without_digits = |job: &JobRow| job.name.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
    without_digits(one) == without_digits(other)
}

/// Bytes that a task of a kind reads, at least [`BYTES_MIN`]: a map its part of the input, a reduce its part of what the maps write, which is this ratio of the input as long
/// as none is done.
fn bytes_per_task(row: &JobRow, kind: Kind, output_ratio: f64) -> f64 {
    let input = row.input_bytes as f64;
    let bytes = match kind {
        Kind::Map => input,
        Kind::Reduce => row.expected_map_output().unwrap_or(input * output_ratio),
    };
    (bytes / f64::from(row.tasks[kind.index()].max(1))).max(BYTES_MIN)
}

/// What its maps write over what they read.
fn output_ratio(row: &JobRow) -> Option<f64> {
    Some(row.expected_map_output()? / (row.input_bytes as f64).max(1.0))
}

/// How long the oldest of its running tasks has worked.
fn longest_running(model: &Model, row: &JobRow, kind: Kind) -> Span {
    let running = model.running().filter(|one| one.id.task.job == row.id && one.id.task.kind == kind);
    running.map(|one| row.worked(kind, one.launched, model.now)).max().unwrap_or(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use giveway_core::JobId;
    use giveway_core::event_log::EventLogReader;

    /// The model at the first record of the fixture for which `stop` is true: job 0 is large, job 1 small and submitted later.
    fn model_when(stop: impl Fn(&Model) -> bool) -> Model {
        let log = fixture::event_log();
        let reader = EventLogReader::open(log.as_slice()).unwrap();
        let mut model = Model::new(reader.setup().clone(), 0).unwrap();
        for record in reader {
            model.apply(&record.unwrap());
            if stop(&model) {
                return model;
            }
        }
        panic!("never");
    }

    fn time_of(model: &Model, job: JobId, kind: Kind) -> TaskTime {
        let state = model.scheduler().state();
        task_time(model, model.job(job).unwrap(), state.job(state.find(job).unwrap()), kind)
    }

    #[test]
    fn a_job_is_known_first_by_the_estimate_then_by_its_own_tasks() {
        let (large, map) = (JobId(0), Kind::Map);
        let model = model_when(|model| model.job(large).is_some());
        assert_eq!(time_of(&model, large, map).error, UNKNOWN);
        let model = model_when(|model| model.job(large).is_some_and(|row| row.done[0] == 16));
        let row = model.job(large).unwrap();
        let known = time_of(&model, large, map);
        assert!(known.mean >= row.mean_task_time(map).unwrap() && known.error < 0.2, "{known:?}");
    }

    #[test]
    fn a_new_job_is_known_by_others() {
        let (large, small, map) = (JobId(0), JobId(1), Kind::Map);
        let model = model_when(|model| model.job(small).is_some());
        let (large, small_row) = (model.job(large).unwrap(), model.job(small).unwrap());
        assert!(large.done[0] > 0, "the large job has run for 100 s");
        let ratio = bytes_per_task(small_row, map, 1.0) / bytes_per_task(large, map, 1.0);
        let expected_s = large.mean_task_time(map).unwrap().as_secs_f64() * ratio;
        let known = time_of(&model, small, map);
        assert!((known.mean.as_secs_f64() - expected_s).abs() < 1e-3, "{known:?}, {expected_s}");
        assert_eq!(known.error, UNKNOWN, "one other job says little");
    }

    /// A reduce that is launched while maps run waits for them; only what follows counts.
    #[test]
    fn reduces_work_after_the_last_map() {
        let model = model_when(|model| model.job(JobId(0)).is_some_and(|row| row.ended.is_some()));
        let row = model.job(JobId(0)).unwrap();
        let (maps_ended, ended) = (row.maps_ended.unwrap(), row.ended.unwrap());
        let tail = row.mean_task_time(Kind::Reduce).unwrap();
        assert!(tail > Span::ZERO && tail <= ended.since(maps_ended), "{tail:?} of {:?}", ended.since(maps_ended));
    }

    #[test]
    fn numbers_in_names_do_not_matter() {
        let model = model_when(|model| model.job(JobId(0)).is_some());
        let named = |name: &str| JobRow { name: name.into(), ..model.job(JobId(0)).unwrap().clone() };
        assert!(is_same_name(&named("report-2026-11-15"), &named("report-2026-11-16")));
        assert!(!is_same_name(&named("report-1"), &named("sort-1")));
    }
}
