//! How long the tasks of a job take, as far as is known: from its own tasks, from those of other jobs, or from the scheduler's estimate.
//!
//! The time of a reduce is what it takes after the last map of its job, because one that starts earlier waits for the maps.

use crate::model::{JobRow, Model};
use giveway_core::state::Job;
use giveway_core::{AttemptId, Kind, Span, TaskKey, WHOLE_PPM};

/// The time of a task and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TaskTime {
    /// The mean, or the best guess.
    pub(crate) mean: Span,
    /// Standard deviation of the logarithm of its error.
    pub(crate) error: f64,
    /// False if nothing was observed of tasks of this kind, of this job or of another.
    pub(crate) is_known: bool,
}

/// The most recent jobs whose task times are compared.
pub(crate) const RECENT_JOBS: usize = 64;

/// With fewer jobs than this, their spread says nothing about the error.
const ENOUGH_JOBS: usize = 3;

/// The error if fewer jobs of the same name were observed, and if fewer that share a word of it were.
const FEW_OF_ITS_NAME: f64 = 0.35;
const FEW_OF_ITS_WORD: f64 = 0.7;

/// At most as much of the time of a task does not depend on what it reads, in seconds.
const FIXED_MAX_S: f64 = 5.0;

/// How far the times of a job's tasks are from their mean if nothing was observed, and the weight of that in tasks.
const TASK_NOISE: f64 = 0.2;
const TASK_NOISE_TASKS: f64 = 10.0;

/// Running maps count from this progress on: before, it is mostly their start. What they will yet meet is not known.
const EARLY_PPM: u32 = WHOLE_PPM / 100;
const EARLY_ERROR: f64 = 0.2;

/// Before a map has finished: the part of its input that a job's maps write.
const OUTPUT_GUESSED: f64 = 0.1;

/// Words of a name that are looked at.
const WORDS_MAX: usize = 6;

/// The least error of what is known from other jobs.
const ERROR_MIN: f64 = 0.15;

/// A task that reads less takes as long as one that reads this much.
const BYTES_MIN: f64 = 65_536.0;

/// The error if little or nothing was observed of this kind of tasks; no error is taken to be larger.
const UNKNOWN: f64 = 1.5;

/// The error if nothing was observed of either kind: tasks may take milliseconds or an hour.
pub(crate) const NOTHING_KNOWN: f64 = 2.3;

/// The time of the tasks of a kind of a live job, if the times of its tasks differ by this noise.
pub(crate) fn task_time(model: &Model, row: &JobRow, job: &Job, kind: Kind, noise: f64) -> TaskTime {
    let of_others = || match (of_its_running_maps(model, row, job, kind, noise), of_other_jobs(model, row, kind)) {
        (Some(own), Some(other)) => Some(if other.error < own.error && other.agrees(own) { other } else { own }),
        (own, other) => own.or(other),
    };
    let of_its_maps =
        || (kind == Kind::Reduce).then(|| of_its_maps(row, job, task_time(model, row, job, Kind::Map, noise)));
    let known = of_its_own_tasks(row, kind, noise).or_else(of_others).or_else(|| of_its_maps().flatten());
    known.unwrap_or(TaskTime { mean: job.estimate().task_time[kind], error: UNKNOWN, is_known: false })
}

impl TaskTime {
    /// True if both may be right.
    fn agrees(self, other: TaskTime) -> bool {
        let log = |time: TaskTime| time.mean.as_secs_f64().max(1e-3).ln();
        (log(self) - log(other)).abs() <= self.error + other.error
    }
}

/// The relative variance of the times of a job's tasks of a kind, over the recent jobs.
pub(crate) fn task_variance(model: &Model, kind: Kind) -> f64 {
    let prior = (TASK_NOISE.powi(2) * TASK_NOISE_TASKS, TASK_NOISE_TASKS);
    let recent = model.jobs.iter().rev().take(RECENT_JOBS);
    let (sum, tasks) = recent
        .filter_map(|row| observed_variance(row, kind))
        .fold(prior, |(sum, all), (variance, tasks)| (sum + variance * tasks, all + tasks));
    sum / tasks
}

/// How far the times of a job's tasks of a kind are from their mean, the standard deviation of their logarithms, if recent jobs have this relative variance.
pub(crate) fn task_noise(row: Option<&JobRow>, kind: Kind, recent: f64) -> f64 {
    let (own, tasks) = row.and_then(|row| observed_variance(row, kind)).unwrap_or_default();
    let variance = (recent * TASK_NOISE_TASKS + own * tasks) / (TASK_NOISE_TASKS + tasks);
    variance.ln_1p().sqrt().clamp(0.02, 1.0)
}

/// The relative variance of the times of its finished tasks of a kind, and how many count for it.
fn observed_variance(row: &JobRow, kind: Kind) -> Option<(f64, f64)> {
    Some((row.relative_variance(kind)?, f64::from(row.done[kind.index()] - 1)))
}

fn of_its_own_tasks(row: &JobRow, kind: Kind, noise: f64) -> Option<TaskTime> {
    let mean = row.mean_task_time(kind)?;
    // The first to end are not just any of them, and later ones may find the nodes in another state.
    Some(TaskTime { mean, error: 0.03 + 1.5 * noise / f64::from(row.done[kind.index()]).sqrt(), is_known: true })
}

/// From its running maps, while none has finished: they work evenly. A map counts for the part that it has done of one that reads the mean number of bytes.
fn of_its_running_maps(model: &Model, row: &JobRow, job: &Job, kind: Kind, noise: f64) -> Option<TaskTime> {
    let mean_bytes = (job.input_bytes() as f64 / job.splits().len().max(1) as f64).max(1.0);
    let (mut worked_s, mut maps, mut count) = (0.0, 0.0, 0.0);
    for &index in job.counts(Kind::Map).running.iter().filter(|_| kind == Kind::Map) {
        let map = TaskKey::map(index);
        // In a numbered snapshot, the job has another number.
        let attempt = AttemptId::new(row.id, Kind::Map, index, job.attempt(map).number);
        let Some((progress_ppm, at)) = model.early_progress(attempt) else { continue };
        if progress_ppm >= EARLY_PPM && !job.task(map).is_protected() {
            let part = if job.input_bytes() == 0 { 1.0 } else { job.map_bytes(index) as f64 / mean_bytes };
            worked_s += job.service(map, at).as_secs_f64();
            maps += part * f64::from(progress_ppm) / f64::from(WHOLE_PPM);
            count += 1.0;
        }
    }
    let mean = || Span::from_secs_f64(worked_s / maps);
    (maps > 0.0).then(|| TaskTime { mean: mean(), error: EARLY_ERROR + 1.5 * noise / f64::sqrt(count), is_known: true })
}

/// Of reduces while none of any job has finished: between the scheduler's estimate and a guess that they take as long for a byte as maps do.
fn of_its_maps(row: &JobRow, job: &Job, map: TaskTime) -> Option<TaskTime> {
    let (output, error) = match row.expected_map_output() {
        Some(bytes) => (bytes, UNKNOWN),
        None => (OUTPUT_GUESSED * row.input_bytes as f64, NOTHING_KNOWN),
    };
    let per_reduce = (output / f64::from(row.tasks[1].max(1))).max(BYTES_MIN);
    let as_maps_s = map.mean.as_secs_f64() * per_reduce / bytes_per_task(row, Kind::Map, false);
    let estimated_s = job.estimate().task_time[Kind::Reduce].as_secs_f64();
    let mean = || Span::from_secs_f64((as_maps_s * estimated_s).sqrt());
    (map.is_known && row.input_bytes > 0).then(|| TaskTime { mean: mean(), error, is_known: false })
}

/// The median over other jobs, by the bytes that a task reads: over those of the same name, those that share a word of it, or all, whichever agree best.
fn of_other_jobs(model: &Model, row: &JobRow, kind: Kind) -> Option<TaskTime> {
    let observed = |other: &&JobRow| other.id != row.id && other.mean_task_time(kind).is_some();
    let recent: Vec<&JobRow> = model.jobs.iter().rev().filter(observed).take(RECENT_JOBS).collect();
    let like = |is_like: &dyn Fn(&JobRow) -> bool, error_if_few| {
        let jobs: Vec<&JobRow> = recent.iter().copied().filter(|other| is_like(other)).collect();
        of_jobs(&jobs, row, kind, error_if_few)
    };
    let same_name = like(&|other| is_same_name(other, row), FEW_OF_ITS_NAME);
    let same_word =
        words(&row.name).map(|word| like(&|other| words(&other.name).any(|of| of == word), FEW_OF_ITS_WORD));
    let all = std::iter::once_with(|| like(&|_| true, UNKNOWN));
    // Of equals the first: the most similar.
    let found = std::iter::once(same_name).chain(same_word).chain(all).flatten();
    let best = found.min_by(|a, b| a.error.total_cmp(&b.error))?;
    Some(TaskTime { error: best.error.min(UNKNOWN), ..best })
}

/// The median over these jobs, with an error that may be large. If there are enough, a part of the time is taken not to depend on the bytes: half of the
/// shortest, at most [`FIXED_MAX_S`].
fn of_jobs(jobs: &[&JobRow], row: &JobRow, kind: Kind, error_if_few: f64) -> Option<TaskTime> {
    let time_s = |other: &JobRow| other.mean_task_time(kind).map(|time| time.as_secs_f64());
    let shortest_s = jobs.iter().filter_map(|other| time_s(other)).fold(f64::INFINITY, f64::min);
    let fixed_s = if jobs.len() < ENOUGH_JOBS { 0.0 } else { (shortest_s / 2.0).min(FIXED_MAX_S) };
    // What its maps write is known only once some are done. Before, jobs that write as much of their input are those that agree.
    let by_output = row.expected_map_output().is_some();
    let bytes = |job: &JobRow| bytes_per_task(job, kind, by_output);
    let scaled = |other: &&JobRow| {
        let ratio = bytes(row) / bytes(other);
        time_s(other).map(|time_s| (fixed_s + (time_s - fixed_s) * ratio).max(1e-3).ln())
    };
    let logs: Vec<f64> = jobs.iter().filter_map(scaled).collect();
    let median = median(logs.clone())?;
    let spread = logs.iter().map(|log| (log - median).powi(2)).sum::<f64>() / logs.len() as f64;
    let error = if logs.len() < ENOUGH_JOBS { error_if_few } else { spread.sqrt().max(ERROR_MIN) };
    Some(TaskTime { mean: Span::from_secs_f64(median.exp()), error, is_known: true })
}

/// The words of a name.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|char: char| !char.is_alphabetic()).filter(|word| word.len() > 1).take(WORDS_MAX)
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

/// Bytes that a task of a kind reads, at least [`BYTES_MIN`]: a map its part of the input, a reduce its part of what the maps write, or of the input if that is not to
/// be looked at.
fn bytes_per_task(row: &JobRow, kind: Kind, by_output: bool) -> f64 {
    let input = row.input_bytes as f64;
    let bytes = match kind {
        Kind::Reduce if by_output => row.expected_map_output().unwrap_or(input),
        Kind::Map | Kind::Reduce => input,
    };
    (bytes / f64::from(row.tasks[kind.index()].max(1))).max(BYTES_MIN)
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
        task_time(model, model.job(job).unwrap(), state.job(state.find(job).unwrap()), kind, TASK_NOISE)
    }

    #[test]
    fn a_job_is_known_first_by_the_estimate_then_by_its_own_tasks() {
        let (large, map) = (JobId(0), Kind::Map);
        let model = model_when(|model| model.job(large).is_some());
        assert_eq!(time_of(&model, large, map).error, UNKNOWN);
        let model = model_when(|model| model.job(large).is_some_and(|row| row.done[0] == 16));
        let row = model.job(large).unwrap();
        let known = time_of(&model, large, map);
        assert!(known.mean == row.mean_task_time(map).unwrap() && known.error < 0.2, "{known:?}");
    }

    #[test]
    fn a_new_job_is_known_by_others() {
        let (large, small, map) = (JobId(0), JobId(1), Kind::Map);
        let model = model_when(|model| model.job(small).is_some());
        let (large, small_row) = (model.job(large).unwrap(), model.job(small).unwrap());
        assert!(large.done[0] > 0, "the large job has run for 100 s");
        let ratio = bytes_per_task(small_row, map, true) / bytes_per_task(large, map, true);
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
