//! Task times learned from earlier jobs: what a task of a new job will take, before any of its own has run.
//!
//! The work of a task is modelled as `constant + rate x bytes`: the constant is what does not depend on its input, such as starting a process; bytes
//! are those of its split or, for a reduce, its part of the map output. There is one model for each *application*: jobs of a user whose names differ in numbers
//! only, such as `report-2026-11-18` and `report-2026-11-19`. Each job that has ended counts as one observation (the mean of its tasks), recent ones
//! more; jobs that run count by what they have finished. What an application has not shown yet is taken from the *typical* application: the
//! median of the latest ones and of the policy's `prior`. Beyond the input that an application was seen with, its time is assumed to grow with the square
//! root: a small job that computes much says little about large ones.
//!
//! Errors are relative: being 5 s off matters for a task of 4 KB and not for one of 4 GB. So observations are weighted by the inverse square of their
//! time, and the constant is learned from small tasks, the rate from large ones.

use super::area;
use super::{Prior, View};
use crate::ids::{Kind, PerKind};
use crate::state::Job;
use crate::units::Span;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Bytes per unit of input in the models.
const UNIT_BYTES: f64 = 1e6;
/// The input for which the policy's prior holds, in units: a block.
const PRIOR_UNITS: f64 = 128.0;
/// The weight of what stands in for missing observations, in observations.
const PRIOR_WEIGHT: f64 = 0.05;
/// The weight of the typical application in the model of another, in observations.
const TYPICAL_WEIGHT: f64 = 0.2;
/// The typical application is the median of this many that were used last.
const TYPICAL_OF: usize = 32;
/// With each job that has ended, earlier ones of its application count by this factor less.
const KEEP: f64 = 0.9;
/// The least predicted time, in seconds.
const MIN_S: f64 = 1e-3;
/// Times below this do not weigh more, in seconds.
const LEAST_S: f64 = 0.05;
/// The applications that are remembered; the one that was used longest ago is forgotten first.
const APPLICATIONS_MAX: usize = 1_000;
/// The error of the first prediction, relative to the true value.
const PRIOR_ERROR: f64 = 1.0;
/// Its weight, in jobs.
const PRIOR_ERROR_WEIGHT: f64 = 0.1;

/// A weighted least-squares fit of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Fit {
    observations: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// A line with no part below zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    constant: f64,
    rate: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.constant + self.rate * x
    }
}

/// What an application shows, and for which input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Example {
    line: Line,
    units: f64,
}

impl Example {
    fn at(self, x: f64) -> f64 {
        if x <= self.units { self.line.at(x) } else { self.line.at(self.units) * (x / self.units.max(1e-6)).sqrt() }
    }
}

impl Fit {
    fn add(&mut self, x: f64, y: f64, observations: f64) {
        let weight = observations / y.max(LEAST_S).powi(2);
        self.observations += observations;
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }

    fn scale(&mut self, factor: f64) {
        for sum in [&mut self.observations, &mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= factor;
        }
    }

    /// The fitted line, given what is expected of a task without input; and the mean input of the observations. None without observations.
    fn example(self, constant: f64) -> Option<Example> {
        (self.weight > 0.0).then(|| Example { line: self.line(constant), units: self.x / self.weight })
    }

    fn line(mut self, constant: f64) -> Line {
        self.add(0.0, constant, PRIOR_WEIGHT);
        let spread = self.weight * self.xx - self.x * self.x;
        let through_origin = || Line { constant: 0.0, rate: if self.xx > 0.0 { self.xy / self.xx } else { 0.0 } };
        let flat = Line { constant: self.y / self.weight, rate: 0.0 };
        if spread <= 1e-9 * self.weight * self.xx {
            return flat;
        }
        let rate = (self.weight * self.xy - self.x * self.y) / spread;
        let constant = (self.y - rate * self.x) / self.weight;
        match (constant >= 0.0, rate >= 0.0) {
            (true, true) => Line { constant, rate },
            (false, _) => through_origin(),
            (true, false) => flat,
        }
    }
}

/// What is known of an application, or of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Model {
    tasks: PerKind<Fit>,
    /// Map output and input of the jobs, in bytes per job and input byte.
    output: f64,
    output_jobs: f64,
    /// Squared relative errors of predictions for jobs, and their number.
    errors: f64,
    error_jobs: f64,
}

impl Model {
    fn add(&mut self, observed: &Observation, observations: f64) {
        for kind in Kind::BOTH {
            if let Some((units, work_s)) = observed.tasks[kind] {
                self.tasks[kind].add(units, work_s, observations);
            }
        }
        if let Some(ratio) = observed.output_ratio {
            self.output += observations * ratio;
            self.output_jobs += observations;
        }
    }

    fn scale(&mut self, factor: f64) {
        self.tasks.iter_mut().for_each(|fit| fit.scale(factor));
        for sum in [&mut self.output, &mut self.output_jobs, &mut self.errors, &mut self.error_jobs] {
            *sum *= factor;
        }
    }
}

/// What a job shows of its tasks: for each kind the mean input of one, in units, and its mean work in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    tasks: PerKind<Option<(f64, f64)>>,
    output_ratio: Option<f64>,
}

/// What the tasks of a job are expected to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Work of a task of each kind, in seconds on a slot of speed 1.
    pub work_s: PerKind<f64>,
    /// The expected error of these, relative to the true value.
    pub error: f64,
}

/// An application that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Application {
    name: String,
    /// When it was last used, in jobs since the beginning.
    used: u64,
    model: Model,
}

/// Everything that is known of task times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// What is assumed while nothing was observed.
    prior: Prior,
    /// What is assumed for a task without input.
    start: Span,
    /// Mean task times of the live jobs when estimates were last computed; the prior before that.
    averages: Prior,
    applications: Vec<Application>,
    jobs: u64,
    #[serde(skip)]
    numbers: FxHashMap<String, usize>,
    /// The models with what running jobs show, as of the last update. An application without entry is as in `applications`.
    current: BTreeMap<usize, Model>,
    /// What the applications that were used last show.
    examples: PerKind<Vec<Example>>,
    /// What a task without input takes under the typical application, in seconds.
    typical_start_s: PerKind<f64>,
}

impl TaskTimes {
    /// Nothing was observed.
    pub fn new(prior: Prior, start: Span) -> TaskTimes {
        let mut times = TaskTimes { prior, start, averages: prior, ..TaskTimes::default() };
        times.update_examples();
        times
    }

    /// What was learned under another policy, or before a restart, for a policy with these assumptions.
    pub fn restored(mut self, prior: Prior, start: Span) -> TaskTimes {
        self.applications.truncate(APPLICATIONS_MAX);
        self.numbers = (0..).zip(&self.applications).map(|(at, of)| (of.name.clone(), at)).collect();
        self.current.retain(|&at, _| at < self.applications.len());
        if (self.prior, self.start) != (prior, start) {
            (self.prior, self.start) = (prior, start);
            self.update_examples();
        }
        self
    }

    /// Mean task times of the live jobs when estimates were last computed (hSRTF, section 3.2).
    pub fn averages(&self) -> Prior {
        self.averages
    }

    /// Sets the mean task times of the live jobs.
    pub fn set_averages(&mut self, averages: Prior) {
        self.averages = averages;
    }

    /// A job has ended: later ones of its application are expected to be like it.
    pub fn job_ended(&mut self, view: View<'_>, job: &Job) {
        let observed = observe(view, job);
        if observed.tasks[Kind::Map].is_none() {
            return;
        }
        let predicted = self.predict(job).work_s;
        let error = total_s(job, observed.tasks.map(|of| of.map_or(0.0, |(_, work_s)| work_s))).max(1e-6);
        let error = (total_s(job, predicted) / error - 1.0).clamp(-1.0, 10.0);
        self.jobs = self.jobs.saturating_add(1);
        let at = self.remember(job.application());
        let application = &mut self.applications[at];
        application.used = self.jobs;
        application.model.scale(KEEP);
        application.model.add(&observed, 1.0);
        application.model.errors += error * error;
        application.model.error_jobs += 1.0;
        self.current.remove(&at);
    }

    /// The number of an application, which is added if it is new.
    fn remember(&mut self, name: &str) -> usize {
        if let Some(&at) = self.numbers.get(name) {
            return at;
        }
        let application = Application { name: name.into(), used: self.jobs, model: Model::default() };
        let at = if self.applications.len() < APPLICATIONS_MAX {
            self.applications.push(application);
            self.applications.len() - 1
        } else {
            let at = (0..APPLICATIONS_MAX).min_by_key(|&at| self.applications[at].used).unwrap_or(0);
            let forgotten = std::mem::replace(&mut self.applications[at], application);
            self.numbers.remove(&forgotten.name);
            self.current.remove(&at);
            at
        };
        self.numbers.insert(name.into(), at);
        at
    }

    /// Takes into account what running jobs show.
    pub fn update(&mut self, view: View<'_>) {
        self.current.clear();
        for (_, job) in view.state.jobs().iter().filter(|(_, job)| !job.is_closed() && !job.is_open()) {
            let observed = observe(view, job);
            if observed.tasks.iter().all(Option::is_none) {
                continue;
            }
            let at = self.remember(job.application());
            let Application { used, model, .. } = &mut self.applications[at];
            *used = self.jobs;
            self.current.entry(at).or_insert_with(|| model.clone()).add(&observed, 1.0);
        }
        self.update_examples();
    }

    fn update_examples(&mut self) {
        let mut latest: Vec<usize> = (0..self.applications.len()).collect();
        if latest.len() > TYPICAL_OF {
            latest.select_nth_unstable_by_key(TYPICAL_OF, |&at| (Reverse(self.applications[at].used), at));
            latest.truncate(TYPICAL_OF);
        }
        self.examples = PerKind::from_fn(|kind| {
            let example = |at: usize| self.model(at).tasks[kind].example(self.start.as_secs_f64());
            latest.iter().filter_map(|&at| example(at)).collect()
        });
        self.typical_start_s = PerKind::from_fn(|kind| self.typical_s(kind, 0.0));
    }

    fn model(&self, at: usize) -> &Model {
        self.current.get(&at).unwrap_or(&self.applications[at].model)
    }

    /// What is assumed while no job has shown anything.
    fn prior_line(&self, kind: Kind) -> Line {
        let prior_s = PerKind::new(self.prior.map, self.prior.reduce)[kind].as_secs_f64();
        let constant = self.start.as_secs_f64().min(prior_s);
        Line { constant, rate: (prior_s - constant) / PRIOR_UNITS }
    }

    /// What a task of the typical application takes, given its input.
    fn typical_s(&self, kind: Kind, units: f64) -> f64 {
        let prior = Example { line: self.prior_line(kind), units: PRIOR_UNITS };
        let mut times_s: SmallVec<[f64; TYPICAL_OF + 1]> =
            self.examples[kind].iter().map(|example| example.at(units)).collect();
        times_s.push(prior.at(units));
        let middle = (times_s.len() - 1) / 2;
        *times_s.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// What the tasks of a job will take, by its hint or what other jobs have shown.
    pub fn predict(&self, job: &Job) -> Prediction {
        if let Some(hint) = job.hint() {
            let work_s = PerKind::new(hint.map.as_secs_f64(), hint.reduce.as_secs_f64());
            return Prediction { work_s, error: 0.0 };
        }
        // Nothing is known of the input of an open job.
        if job.is_open() {
            let work_s = PerKind::new(self.averages.map.as_secs_f64(), self.averages.reduce.as_secs_f64());
            return Prediction { work_s, error: PRIOR_ERROR };
        }
        let none = Model::default();
        let at = self.numbers.get(job.application()).copied();
        let own = at.map_or(&none, |at| self.model(at));
        let units = input_units(job, (own.output + TYPICAL_WEIGHT) / (own.output_jobs + TYPICAL_WEIGHT));
        let work_s = PerKind::from_fn(|kind| {
            let (fit, typical_s) = (own.tasks[kind], self.typical_s(kind, units[kind]));
            let Some(example) = fit.example(self.typical_start_s[kind]) else { return typical_s };
            // The mean of the logarithms: being off by a factor of two counts the same in both directions.
            let part = fit.observations / (fit.observations + TYPICAL_WEIGHT);
            let own_s = example.at(units[kind]);
            (own_s.max(MIN_S).ln() * part + typical_s.max(MIN_S).ln() * (1.0 - part)).exp()
        });
        let error = ((own.errors + PRIOR_ERROR_WEIGHT * PRIOR_ERROR * PRIOR_ERROR)
            / (own.error_jobs + PRIOR_ERROR_WEIGHT))
            .sqrt();
        Prediction { work_s, error }
    }
}

/// Slot time of all tasks of a job, in seconds.
fn total_s(job: &Job, work_s: PerKind<f64>) -> f64 {
    Kind::BOTH.into_iter().map(|kind| f64::from(area::whole_tasks(job, kind)) * work_s[kind]).sum()
}

/// The mean input of one task of each kind, in units; that of reduces from the ratio of map output to input where it is not known.
fn input_units(job: &Job, output_ratio: f64) -> PerKind<f64> {
    let input = job.input_bytes() as f64 / UNIT_BYTES;
    let intermediate = job.intermediate_bytes().map_or(input * output_ratio, |bytes| bytes / UNIT_BYTES);
    let per_task = |total: f64, tasks: u32| total / f64::from(tasks.max(1));
    PerKind::new(
        per_task(input, area::whole_tasks(job, Kind::Map)),
        per_task(intermediate, area::whole_tasks(job, Kind::Reduce)),
    )
}

fn observe(view: View<'_>, job: &Job) -> Observation {
    if job.is_open() {
        return Observation::default();
    }
    let output_ratio = job.intermediate_bytes().map(|bytes| bytes / (job.input_bytes() as f64).max(1.0));
    let units = input_units(job, output_ratio.unwrap_or(1.0));
    let work = |kind: Kind| area::observed_work_s(view, job, kind);
    let reduce = if job.maps_done() { work(Kind::Reduce) } else { None };
    let of = |kind: Kind, work_s: Option<f64>| work_s.map(|work_s| (units[kind], work_s));
    Observation {
        tasks: PerKind::new(
            of(Kind::Map, work(Kind::Map).map(|(work_s, _)| work_s)),
            of(Kind::Reduce, reduce.map(|(work_s, _)| work_s)),
        ),
        output_ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{JobSpec, Split};
    use crate::ids::{NodeId, TaskKey};
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::{JobKey, State};

    const MB: u64 = 1_000_000;

    fn named(id: u32, name: &str, maps: u32, split_bytes: u64) -> JobSpec {
        let splits = vec![Split { bytes: split_bytes, ..Split::default() }; maps as usize].into();
        JobSpec { name: name.into(), splits, ..job(id, maps, 0) }
    }

    /// A cluster that reads at no cost, where jobs ended whose maps took these times.
    fn learned(jobs: &[(&str, u64, f64)]) -> (State, TaskTimes) {
        let mut state = cluster(1, 4, 1);
        let mut times = TaskTimes::new(Prior::default(), Span::from_millis(20));
        for (id, &(name, split_bytes, map_s)) in (0..).zip(jobs) {
            let key = submit(&mut state, &named(id, name, 1, split_bytes));
            let attempt = state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
            let read_s = split_bytes as f64 / state.node(NodeId(0)).spec().disk_bytes_per_s as f64;
            state.finish(key, attempt, 0, true, at(map_s + read_s));
            times.job_ended(View { now: at(map_s), state: &state }, state.job(key));
            state.close_job(key);
            state.remove_job(key);
        }
        times.update(View { now: at(0.0), state: &state });
        (state, times)
    }

    fn map_s(state: &mut State, times: &TaskTimes, name: &str, split_bytes: u64) -> f64 {
        let key: JobKey = submit(state, &named(99, name, 1, split_bytes));
        let map_s = times.predict(state.job(key)).work_s[Kind::Map];
        state.close_job(key);
        state.remove_job(key);
        map_s
    }

    #[test]
    fn a_task_of_little_input_takes_little_time_whatever_other_tasks_take() {
        let (mut state, times) = learned(&[("count-1", 4 * MB, 12.0), ("count-2", 4 * MB, 12.0)]);
        assert!((8.0..13.0).contains(&map_s(&mut state, &times, "count-3", 4 * MB)));
        assert!(map_s(&mut state, &times, "count-3", 4_000) < 0.1);
        assert!(map_s(&mut state, &times, "unknown", 4_000) < 0.1, "of an application that never ran");
    }

    #[test]
    fn applications_keep_their_own_times() {
        let (mut state, times) =
            learned(&[("slow-1", 64 * MB, 30.0), ("fast-1", 64 * MB, 2.0), ("fast-2", 64 * MB, 2.0)]);
        let slow_s = map_s(&mut state, &times, "slow-2", 64 * MB);
        let fast_s = map_s(&mut state, &times, "fast-3", 64 * MB);
        assert!(slow_s > 15.0 && (1.8..3.0).contains(&fast_s), "{slow_s} {fast_s}");
    }

    #[test]
    fn a_small_job_that_computes_much_says_little_about_large_ones() {
        let (mut state, times) = learned(&[("dense", MB, 30.0)]);
        // In proportion it would be 30,000 s.
        assert!(map_s(&mut state, &times, "other", 1_000 * MB) < 1_000.0);
    }

    #[test]
    fn what_was_learned_survives_encoding() {
        let (mut state, times) = learned(&[("count-1", 4 * MB, 12.0), ("sort-1", 64 * MB, 5.0)]);
        let bytes = postcard::to_allocvec(&times).unwrap();
        let decoded: TaskTimes = postcard::from_bytes(&bytes).unwrap();
        let decoded = decoded.restored(Prior::default(), Span::from_millis(20));
        for (name, bytes) in [("count-9", MB), ("sort", 64 * MB), ("unknown", 9 * MB)] {
            assert_eq!(map_s(&mut state, &decoded, name, bytes), map_s(&mut state, &times, name, bytes));
        }
    }

    #[test]
    fn the_number_of_applications_is_bounded() {
        let mut times = TaskTimes::new(Prior::default(), Span::ZERO);
        let letters = |n: usize| format!("{}{}", char::from(b'a' + (n % 26) as u8), "x".repeat(n / 26));
        for n in 0..APPLICATIONS_MAX + 50 {
            times.remember(&letters(n));
        }
        assert_eq!((times.applications.len(), times.numbers.len()), (APPLICATIONS_MAX, APPLICATIONS_MAX));
    }

    #[test]
    fn a_fit_separates_what_depends_on_the_input_from_what_does_not() {
        let mut fit = Fit::default();
        for x in [0.1, 1.0, 10.0, 100.0] {
            fit.add(x, 2.0 + 0.5 * x, 1.0);
        }
        let line = fit.line(2.0);
        assert!((line.constant - 2.0).abs() < 0.1 && (line.rate - 0.5).abs() < 0.05, "{line:?}");
    }
}
