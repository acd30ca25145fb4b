//! How long a job will still take, and how much work it has left: hSRTF's remaining time (section 3.2, eqs. 1 and 2) and FCS's remaining
//! work (section 4).
//!
//! Estimates are computed when their timer fires, not with each task, so that ranks stay the same between two updates.

use super::{Needs, Prior, TaskTimes, View, area};
use crate::ids::{Kind, PerKind, TaskKey};
use crate::state::{Estimate, Job};
use crate::units::{Span, Time, WHOLE_PPM};

/// Eq. 1: `ceil(maps left / map capacity) x map time + ceil(reduces left / reduce capacity) x reduce time`.
pub fn remaining_time(left: PerKind<u32>, capacity: PerKind<f64>, task_time: PerKind<Span>) -> Span {
    let time = |kind: Kind| task_time[kind].scaled((f64::from(left[kind]) / capacity[kind].max(1e-3)).ceil());
    time(Kind::Map) + time(Kind::Reduce)
}

/// Eq. 2, read so that its units give a time: a reduce costs per byte what a map costs.
pub fn reduce_time(input_per_reduce_bytes: f64, block_bytes: f64, map_time: Span) -> Span {
    if block_bytes > 0.0 { map_time.scaled(input_per_reduce_bytes / block_bytes) } else { map_time }
}

/// FCS, section 4: `T_rs = M_left / M_rate x T_mavg`, where M_rate is the number of maps the job finishes per T_mavg. Once some are done
/// the mean map time cancels out: the remaining maps finish at the rate of the finished ones.
pub fn remaining_shuffle(left: u32, done: u32, elapsed: Span, running: u32, map_time: Span) -> Span {
    if left == 0 {
        Span::ZERO
    } else if done > 0 && !elapsed.is_zero() {
        elapsed.scaled(f64::from(left) / f64::from(done))
    } else {
        map_time.scaled(f64::from(left) / f64::from(running.max(1)))
    }
}

/// FCS, section 4: `E_slack = T_total / (T_svc / C_pctg)`. Zero before there is progress.
pub fn slackness(since_start: Span, service: Span, progress_ppm: u32) -> f64 {
    if service.is_zero() || progress_ppm == 0 {
        return 0.0;
    }
    let undisturbed = service.as_secs_f64() / (f64::from(progress_ppm) / f64::from(WHOLE_PPM));
    since_start.as_secs_f64() / undisturbed
}

/// Mean task times over all live jobs. A new job's estimate starts from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Averages {
    sum_s: PerKind<f64>,
    count: PerKind<f64>,
}

impl Averages {
    /// Adds the mean task times that a job has observed.
    pub fn add(&mut self, observed: PerKind<Option<Span>>) {
        for kind in Kind::BOTH {
            if let Some(mean) = observed[kind] {
                self.sum_s[kind] += mean.as_secs_f64();
                self.count[kind] += 1.0;
            }
        }
    }

    /// The mean, or the prior where nothing was observed.
    pub fn or(&self, prior: Prior) -> Prior {
        let mean = |kind: Kind, prior: Span| {
            if self.count[kind] > 0.0 { Span::from_secs_f64(self.sum_s[kind] / self.count[kind]) } else { prior }
        };
        Prior { map: mean(Kind::Map, prior.map), reduce: mean(Kind::Reduce, prior.reduce) }
    }
}

/// Once this many tasks of a kind have finished, running ones add little to the estimate and their progress is not read.
pub const ENOUGH_FINISHED: u32 = 8;

/// True if the progress of a job's running tasks of a kind changes its estimate.
pub fn reads_progress(job: &Job, kind: Kind) -> bool {
    let counts_yet = kind == Kind::Map || job.maps_done();
    counts_yet && job.counts(kind).finished < ENOUGH_FINISHED
}

/// Mean times of a job's maps and reduces, where it has observed some. Reduce times are not used while its maps run, because its reduces
/// mostly wait for them.
pub fn observed(job: &Job, now: Time) -> PerKind<Option<Span>> {
    let reduce = if job.maps_done() { observed_task_time(job, Kind::Reduce, now) } else { None };
    PerKind::new(observed_task_time(job, Kind::Map, now), reduce)
}

/// Mean task time of finished tasks, and of running ones by their progress while few have finished.
pub fn observed_task_time(job: &Job, kind: Kind, now: Time) -> Option<Span> {
    let counts = job.counts(kind);
    let mut sum_s = counts.finished_time.as_secs_f64();
    let mut count = f64::from(counts.finished);
    let read = if counts.finished < ENOUGH_FINISHED { counts.running.as_slice() } else { &[] };
    for &index in read {
        let key = TaskKey { kind, index };
        let progress_ppm = job.task(key).progress_ppm();
        // Below 1 %, progress is mostly start-up, and its inverse would overestimate the time.
        if progress_ppm >= WHOLE_PPM / 100 {
            let whole_part = part_of_split(job, key);
            sum_s +=
                job.service(key, now).as_secs_f64() / (f64::from(progress_ppm) / f64::from(WHOLE_PPM)) / whole_part;
            count += 1.0;
        }
    }
    (count > 0.0).then(|| Span::from_secs_f64(sum_s / count))
}

/// The part of a whole split that a map reads (0-1); less than 1 for a part of a map that ended early.
pub(super) fn part_of_split(job: &Job, key: TaskKey) -> f64 {
    let part_bytes = if key.kind == Kind::Map { job.part_bytes(key.index) } else { None };
    let Some(bytes) = part_bytes else { return 1.0 };
    let whole = job.splits()[job.task(key).split() as usize].bytes;
    if whole == 0 { 1.0 } else { (bytes as f64 / whole as f64).max(0.01) }
}

/// The estimate of a job that has just requested slots, from what was observed of it.
pub fn estimate(view: View<'_>, needs: Needs, job: &Job, learned: &TaskTimes) -> Estimate {
    let estimate = task_times(job, observed(job, view.now), view.state.nodes().slots(), learned.averages());
    if needs.remaining_area { area::with_area(estimate, view, job, learned) } else { estimate }
}

/// The estimate of a job from what was observed of it and, where nothing was, from the prior.
fn task_times(job: &Job, observed: PerKind<Option<Span>>, slots: PerKind<u32>, prior: Prior) -> Estimate {
    let map = observed[Kind::Map].unwrap_or(prior.map);
    let reduces = job.total(Kind::Reduce);
    let by_size = || {
        let input_per_reduce = job.intermediate_bytes()? / f64::from(reduces.max(1));
        let block = job.input_bytes() as f64 / job.splits().len().max(1) as f64;
        Some(reduce_time(input_per_reduce, block, map))
    };
    // Section 3.2, [4] and [5]: by size while maps run, by the reduces themselves afterwards.
    let reduce = observed[Kind::Reduce].or_else(by_size);
    let bias = job.estimate_bias();
    let task_time = PerKind::new(map.scaled(bias), reduce.unwrap_or(prior.reduce).scaled(bias));
    let capacity = slots.map(f64::from);
    Estimate {
        task_time,
        remaining_time: remaining_time(PerKind::from_fn(|kind| job.left(kind)), capacity, task_time),
        time_alone: remaining_time(PerKind::from_fn(|kind| job.total(kind)), capacity, task_time),
        ..*job.estimate()
    }
}

/// The estimate of a job that was just submitted. Its remaining work is included, whether or not an order needs it: it is cheap here.
pub fn first_estimate(view: View<'_>, needs: Needs, job: &Job, learned: &TaskTimes) -> Estimate {
    with_remaining_work(estimate(view, needs, job, learned), job, view.now)
}

/// The estimate of an open job that changed its request.
pub fn estimate_request(view: View<'_>, needs: Needs, job: &Job, learned: &TaskTimes) -> Estimate {
    let estimate = estimate(view, needs, job, learned);
    if needs.remaining_work { with_remaining_work(estimate, job, view.now) } else { estimate }
}

/// The estimates of all jobs, in the order of their keys. What the jobs have observed is learned first.
pub fn update_all(view: View<'_>, needs: Needs, learned: &mut TaskTimes) -> Vec<Estimate> {
    let jobs = || view.state.jobs().iter().map(|(_, job)| job);
    let observations: Vec<_> = jobs().map(|job| observed(job, view.now)).collect();
    let mut sums = Averages::default();
    observations.iter().for_each(|&observation| sums.add(observation));
    // If no job has observed a task time, the last averages are kept.
    let averages = sums.or(learned.averages());
    learned.set_averages(averages);
    if needs.remaining_area {
        learned.update(view);
    }
    let slots = view.state.nodes().slots();
    let update = |(job, observation)| {
        let mut new = task_times(job, observation, slots, averages);
        // The following visits every running task, so it is computed only for orders that need it.
        if needs.remaining_work {
            new = with_remaining_work(new, job, view.now);
        }
        if needs.remaining_area {
            new = area::with_area(new, view, job, learned);
        }
        if needs.attained_service {
            new.attained_service = attained_service(job, view.now);
        }
        new
    };
    jobs().zip(observations).map(update).collect()
}

/// Slot time a job has received, that of running attempts included.
pub fn attained_service(job: &Job, now: Time) -> Span {
    let running = Kind::BOTH.into_iter().flat_map(|kind| {
        job.counts(kind).running.iter().map(move |&index| job.task(TaskKey { kind, index }).launched())
    });
    job.ended_service() + Span(running.map(|launched| now.since(launched).0).sum())
}

fn with_remaining_work(mut estimate: Estimate, job: &Job, now: Time) -> Estimate {
    (estimate.remaining_shuffle, estimate.remaining_reduce_bytes) =
        remaining_work(job, now, estimate.task_time[Kind::Map]);
    if job.is_open() {
        estimate.remaining_reduce_bytes = remaining_slot_time(job, estimate.task_time[Kind::Reduce]);
    }
    estimate
}

/// T_rs and R_left of a job (FCS, section 4).
pub fn remaining_work(job: &Job, now: Time, map_time: Span) -> (Span, u64) {
    let shuffle = shuffle_of(job, now, map_time);
    let reduces = job.total(Kind::Reduce);
    let total = job.intermediate_bytes().unwrap_or(job.input_bytes() as f64);
    if reduces == 0 {
        return (shuffle, 0);
    }
    // Only reduces that run or are paused can be partly done.
    let begun = job.counts(Kind::Reduce).running.iter().chain(job.paused().iter().map(|(index, _)| index));
    let partly_done: f64 = begun.map(|&index| reduced_part(job.task(TaskKey::reduce(index)).progress_ppm())).sum();
    let reduced = f64::from(job.counts(Kind::Reduce).done) + partly_done;
    let bytes = total * (1.0 - reduced / f64::from(reduces)).max(0.0) * job.estimate_bias();
    (shuffle, bytes as u64)
}

/// R_left of an open job, whose bytes are not known: the slot time that its reduces still need, with a byte for each microsecond. Attempts
/// that cannot be preempted do no part of its work.
fn remaining_slot_time(job: &Job, reduce_time: Span) -> u64 {
    let counts = job.counts(Kind::Reduce);
    let mut left = f64::from(counts.pending);
    for &index in counts.running.iter().chain(job.paused().iter().map(|(index, _)| index)) {
        let task = job.task(TaskKey::reduce(index));
        if !task.is_protected() {
            left += 1.0 - f64::from(task.progress_ppm()) / f64::from(WHOLE_PPM);
        }
    }
    reduce_time.scaled(left.max(0.0)).0
}

/// The estimate of a job with a new T_rs, which follows the maps as they finish.
pub fn update_shuffle(job: &Job, now: Time) -> Estimate {
    let estimate = *job.estimate();
    Estimate { remaining_shuffle: shuffle_of(job, now, estimate.task_time[Kind::Map]), ..estimate }
}

fn shuffle_of(job: &Job, now: Time, map_time: Span) -> Span {
    let counts = job.counts(Kind::Map);
    let elapsed = job.first_launch().map_or(Span::ZERO, |first| now.since(first));
    let running = counts.running.len() as u32;
    remaining_shuffle(job.left(Kind::Map), counts.done, elapsed, running, map_time).scaled(job.estimate_bias())
}

/// The part of its input that a reduce has reduced (0-1): the last third of its progress.
fn reduced_part(progress_ppm: u32) -> f64 {
    let reduce_phase = 2 * WHOLE_PPM / 3;
    f64::from(progress_ppm.saturating_sub(reduce_phase)) / f64::from(WHOLE_PPM - reduce_phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Split;
    use crate::ids::NodeId;
    use crate::policy::PreemptAction;
    use crate::policy::test_state::{at, cluster, job, submit};

    #[test]
    fn neither_part_of_a_map_that_ended_early_counts_as_a_whole_map() {
        let mut state = cluster(1, 2, 1);
        let mut spec = job(0, 2, 0);
        spec.splits = vec![Split { bytes: 100, ..Split::default() }; 2].into();
        let key = submit(&mut state, &spec);
        let [first, second] = [0, 1].map(|map| state.launch(key, TaskKey::map(map), NodeId(0), at(0.0)));
        state.request_stop(key, second.task.key(), PreemptAction::EndEarly);
        state.end_early(key, second, 90, 0, at(18.0));
        state.finish(key, first, 0, true, at(20.0));
        let rest = state.launch(key, TaskKey::map(2), NodeId(0), at(20.0));
        state.finish(key, rest, 0, true, at(22.0));
        // A whole map takes 20 s; the parts took 18 s and 2 s.
        assert_eq!(observed_task_time(state.job(key), Kind::Map, at(22.0)), Some(Span::from_secs(20)));
        assert_eq!(state.job(key).counts(Kind::Map).finished, 1);
    }
}
