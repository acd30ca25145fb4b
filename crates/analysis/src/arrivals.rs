//! Jobs that are still to come, as a forecast draws them: like the most recent jobs, at intervals like theirs.
//!
//! How long jobs will go on coming is not known. If they have for a time T, then in half of the draws they do for at least another T, in a third for at least 2 T, and so
//! on: the rule for a duration of which only the age is known. If none has come for longer than any of the recent intervals, none is drawn.

use crate::live::plan;
use crate::model::{JobRow, Model};
use crate::task_times::{RECENT_JOBS, task_time};
use giveway_core::{Kind, Span, Time};
use giveway_sim::workload::JobPlan;
use rand::RngExt;
use rand::seq::IndexedRandom;

/// Jobs are drawn until they have this many times the tasks that the live jobs have left, which bounds the time that a forecast takes.
const TASKS_FACTOR: u64 = 4;

/// But at least until they have this many tasks.
const TASKS_MIN: u64 = 200;

/// At most as many jobs are drawn.
const JOBS_MAX: usize = 10_000;

/// Recent jobs and the intervals between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    jobs: Vec<JobPlan>,
    intervals: Vec<Span>,
    /// Since the first job of the log.
    age: Span,
    /// Since the last job.
    silence: Span,
}

impl Arrivals {
    /// As observed up to now, on nodes of this mean speed.
    pub(crate) fn of(model: &Model, speed: f64) -> Arrivals {
        let (Some(first), Some(last)) = (model.jobs.first(), model.jobs.last()) else { return Arrivals::default() };
        let recent = &model.jobs[model.jobs.len().saturating_sub(RECENT_JOBS)..];
        Arrivals {
            jobs: recent.iter().filter_map(|row| whole_job(model, row, speed)).collect(),
            intervals: recent.windows(2).map(|pair| pair[1].submitted.since(pair[0].submitted)).collect(),
            age: model.now.since(first.submitted),
            silence: model.now.since(last.submitted),
        }
    }

    /// Jobs to come, submitted at times from now, beside live jobs with this many tasks left.
    pub(crate) fn draw(&self, live_tasks: u64, rng: &mut impl RngExt) -> Vec<JobPlan> {
        let remaining = self.age.scaled(1.0 / rng.random_range(1e-6..1.0) - 1.0);
        let mut tasks_left = TASKS_MIN.max(TASKS_FACTOR.saturating_mul(live_tasks));
        let possible: Vec<Span> = self.intervals.iter().copied().filter(|&interval| interval > self.silence).collect();
        let Some(&first) = possible.choose(rng) else { return Vec::new() };
        let mut at = Time::ZERO + (first - self.silence);
        let mut drawn = Vec::new();
        while tasks_left > 0
            && drawn.len() < JOBS_MAX
            && at.since(Time::ZERO) <= remaining
            && let (Some(job), Some(&interval)) = (self.jobs.choose(rng), self.intervals.choose(rng))
        {
            drawn.push(JobPlan { submit: at, ..job.clone() });
            tasks_left = tasks_left.saturating_sub(u64::from(job.maps) + u64::from(job.reduces));
            at = at + interval;
        }
        drawn
    }
}

/// A recent job as it was when it was submitted; none if its task times are not known.
fn whole_job(model: &Model, row: &JobRow, speed: f64) -> Option<JobPlan> {
    let state = model.scheduler().state();
    let live = if row.ended.is_none() { state.find(row.id).map(|job| state.job(job)) } else { None };
    let time = |kind: Kind| match live {
        Some(job) => Some(task_time(model, row, job, kind, 0.0)).filter(|time| time.is_known).map(|time| time.mean),
        None => row.mean_task_time(kind).or((row.tasks[kind.index()] == 0).then_some(Span::ZERO)),
    };
    let compute = [time(Kind::Map)?.scaled(speed), time(Kind::Reduce)?.scaled(speed)];
    // The number of tasks of a YARN application is not known in advance.
    let tasks = if row.tasks == [0, 0] { row.done } else { row.tasks };
    Some(plan(row, tasks, compute))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn arrivals(intervals_s: &[u64], age_s: u64, silence_s: u64) -> Arrivals {
        let log = crate::fixture::event_log();
        let reader = giveway_core::event_log::EventLogReader::open(log.as_slice()).unwrap();
        let mut model = Model::new(reader.setup().clone(), 0).unwrap();
        reader.map_while(Result::ok).for_each(|record| model.apply(&record));
        let jobs = Arrivals::of(&model, 1.0).jobs;
        assert!(!jobs.is_empty());
        let seconds = |&s: &u64| Span::from_secs(s);
        let intervals = intervals_s.iter().map(seconds).collect();
        Arrivals { jobs, intervals, age: Span::from_secs(age_s), silence: Span::from_secs(silence_s) }
    }

    fn drawn(arrivals: &Arrivals, live_tasks: u64) -> Vec<Vec<JobPlan>> {
        (0..1000).map(|seed| arrivals.draw(live_tasks, &mut Pcg64Mcg::seed_from_u64(seed))).collect()
    }

    #[test]
    fn in_half_of_the_draws_jobs_come_for_longer_than_until_now() {
        let draws = drawn(&arrivals(&[1], 100, 0), u64::MAX);
        let age = Time::ZERO + Span::from_secs(100);
        let longer = draws.iter().filter(|jobs| jobs.last().is_some_and(|job| job.submit >= age)).count();
        assert!((450..550).contains(&longer), "{longer}");
    }

    #[test]
    fn the_first_job_comes_after_the_rest_of_an_interval() {
        for jobs in drawn(&arrivals(&[5, 60], 1_000_000, 40), 0) {
            assert!(jobs.first().is_none_or(|job| job.submit == Time::ZERO + Span::from_secs(20)));
        }
        assert!(
            drawn(&arrivals(&[5, 60], 1_000_000, 60), 0).iter().all(Vec::is_empty),
            "none came for longer than ever"
        );
    }

    #[test]
    fn the_number_of_tasks_is_bounded() {
        let tasks = |job: &JobPlan| u64::from(job.maps + job.reduces);
        let most =
            drawn(&arrivals(&[1], 1_000_000_000, 0), 100).iter().map(|jobs| jobs.iter().map(tasks).sum::<u64>()).max();
        assert!((400..=600).contains(&most.unwrap()), "{most:?}");
    }

    #[test]
    fn without_jobs_none_come() {
        assert!(drawn(&Arrivals::default(), 100).iter().all(Vec::is_empty));
    }
}
