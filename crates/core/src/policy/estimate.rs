//! How long a job will still take, and how much work it has left.
//!
//! hSRTF's remaining time (section 3.2, eqs. 1 and 2) and FCS's remaining work (section 4). Both are renewed on a beat of their own,
//! not with each task: between two renewals a rank does not move under anybody's feet.

use super::Prior;
use crate::ids::Kind;
use crate::state::Job;
use crate::units::{Span, Time, WHOLE_PPM};

/// What is believed of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Mean time of its maps and of its reduces.
    pub task: [Span; 2],
    /// Time left if it were alone on the cluster (hSRTF, eq. 1).
    pub remaining: Span,
    /// Time from beginning to end if it were alone on the cluster.
    pub alone: Span,
    /// Time until its last map is done at its present pace (FCS, T_rs).
    pub shuffle: Span,
    /// Bytes still to reduce (FCS, R_left).
    pub reduce_bytes: u64,
    /// Slot time received so far.
    pub attained: Span,
}

/// Eq. 1: `ceil(maps left / map capacity) x map time + ceil(reduces left / reduce capacity) x reduce time`.
pub fn remaining_time(left: [u32; 2], capacity: [f64; 2], task: [Span; 2]) -> Span {
    let waves = |kind: Kind| (f64::from(left[kind.ix()]) / capacity[kind.ix()].max(1e-3)).ceil();
    task[0].scaled(waves(Kind::Map)) + task[1].scaled(waves(Kind::Reduce))
}

/// Eq. 2, read so that its units give a time: a reduce costs per byte what a map costs.
pub fn reduce_time(input_per_reduce_bytes: f64, block_bytes: f64, map_time: Span) -> Span {
    if block_bytes > 0.0 { map_time.scaled(input_per_reduce_bytes / block_bytes) } else { map_time }
}

/// FCS, section 4: `T_rs = M_left / M_rate x T_mavg`, where M_rate is the number of maps the job finishes per T_mavg, so that the mean
/// map time cancels out once some are done: what is left takes as long, map for map, as what is done took.
pub fn remaining_shuffle(left: u32, done: u32, elapsed: Span, running: u32, map_time: Span) -> Span {
    if left == 0 {
        Span::ZERO
    } else if done > 0 && !elapsed.is_zero() {
        elapsed.scaled(f64::from(left) / f64::from(done))
    } else {
        map_time.scaled(f64::from(left) / f64::from(running.max(1)))
    }
}

/// FCS, section 4: `E_slack = T_total / (T_svc / C_pctg)`. Nothing can be said before there is progress.
pub fn slackness(since_start: Span, service: Span, progress_ppm: u32) -> f64 {
    if service.is_zero() || progress_ppm == 0 {
        return 0.0;
    }
    let undisturbed = service.as_secs_f64() / (f64::from(progress_ppm) / f64::from(WHOLE_PPM));
    since_start.as_secs_f64() / undisturbed
}

/// Mean task times over all live jobs, from which a new job starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Averages {
    sum_s: [f64; 2],
    count: [f64; 2],
}

impl Averages {
    /// Counts a job's mean task times in, where it has seen tasks of its own.
    pub fn add(&mut self, observed: [Option<Span>; 2]) {
        for kind in Kind::BOTH {
            if let Some(mean) = observed[kind.ix()] {
                self.sum_s[kind.ix()] += mean.as_secs_f64();
                self.count[kind.ix()] += 1.0;
            }
        }
    }

    /// The mean, or the prior while there is none.
    pub fn or(&self, prior: Prior) -> Prior {
        let mean = |kind: Kind, prior: Span| {
            let i = kind.ix();
            if self.count[i] > 0.0 { Span::from_secs_f64(self.sum_s[i] / self.count[i]) } else { prior }
        };
        Prior { map: mean(Kind::Map, prior.map), reduce: mean(Kind::Reduce, prior.reduce) }
    }
}

/// Once so many tasks of a kind have finished, those that run add little to what is known and are not asked.
pub const FINISHED_ENOUGH: u32 = 8;

/// Mean times of a job's maps and reduces, where it has seen tasks of its own. While its maps run, a reduce mostly waits for them and says
/// little about reduces.
pub fn observed(job: &Job, now: Time) -> [Option<Span>; 2] {
    let reduce = if job.maps_done() { observed_task_time(job, Kind::Reduce, now) } else { None };
    [observed_task_time(job, Kind::Map, now), reduce]
}

/// Mean task time from finished tasks, and from running ones by their progress while few have finished.
pub fn observed_task_time(job: &Job, kind: Kind, now: Time) -> Option<Span> {
    let facts = job.facts(kind);
    let mut sum_s = facts.finished_time.as_secs_f64();
    let mut count = f64::from(facts.finished);
    let asked = if facts.finished < FINISHED_ENOUGH { facts.live.as_slice() } else { &[] };
    for &index in asked {
        let task = job.task(kind, index);
        // Below a hundredth, progress is mostly start-up and would be blown up a hundredfold.
        if task.progress_ppm >= WHOLE_PPM / 100 {
            let whole_part = share_of_split(job, kind, index);
            sum_s += job.service(kind, index, now).as_secs_f64()
                / (f64::from(task.progress_ppm) / f64::from(WHOLE_PPM))
                / whole_part;
            count += 1.0;
        }
    }
    (count > 0.0).then(|| Span::from_secs_f64(sum_s / count))
}

/// What part of a whole split a map has: less than one for a part of a map that ended early.
fn share_of_split(job: &Job, kind: Kind, index: u32) -> f64 {
    let part_bytes = if kind == Kind::Map { job.part_bytes(index) } else { None };
    let Some(bytes) = part_bytes else { return 1.0 };
    let whole = job.splits[job.task(kind, index).split as usize].bytes;
    if whole == 0 { 1.0 } else { (bytes as f64 / whole as f64).max(0.01) }
}

/// What is believed of a job after what was observed of it.
pub fn estimate(job: &Job, observed: [Option<Span>; 2], slots: [u32; 2], prior: Prior) -> Estimate {
    let [map, reduce] = observed;
    let map = map.unwrap_or(prior.map);
    let reduces = job.total(Kind::Reduce);
    let by_size = || {
        let input_per_reduce = job.intermediate_bytes()? / f64::from(reduces.max(1));
        let block = job.input_bytes as f64 / job.splits.len().max(1) as f64;
        Some(reduce_time(input_per_reduce, block, map))
    };
    // Section 3.2, [4] and [5]: by size while maps run, by what the reduces themselves show afterwards.
    let reduce = reduce.or_else(by_size);
    let task = [map.scaled(job.bias), reduce.unwrap_or(prior.reduce).scaled(job.bias)];
    let capacity = slots.map(f64::from);
    let total = [job.total(Kind::Map), reduces];
    let left = Kind::BOTH.map(|kind| job.total(kind) - job.facts(kind).done);
    Estimate {
        task,
        remaining: remaining_time(left, capacity, task),
        alone: remaining_time(total, capacity, task),
        ..job.estimate
    }
}

/// Slot time a job has received, that of running attempts included.
pub fn attained(job: &Job, now: Time) -> Span {
    let running = Kind::BOTH.map(|kind| job.facts(kind).live.iter().map(move |&index| job.task(kind, index)));
    let running_time: u64 = running.into_iter().flatten().map(|task| now.since(task.launched).0).sum();
    job.attained + Span(running_time)
}

/// T_rs and R_left of a job (FCS, section 4).
pub fn remaining_work(job: &Job, now: Time, map_time: Span) -> (Span, u64) {
    let facts = job.facts(Kind::Map);
    let left = job.total(Kind::Map) - facts.done;
    let elapsed = job.first_launch.map_or(Span::ZERO, |first| now.since(first));
    let shuffle = remaining_shuffle(left, facts.done, elapsed, facts.live.len() as u32, map_time).scaled(job.bias);
    let reduces = job.total(Kind::Reduce);
    let total = job.intermediate_bytes().unwrap_or(job.input_bytes as f64);
    if reduces == 0 {
        return (shuffle, 0);
    }
    // Only those that run or are paused can be half done; the others are counted.
    let begun = job.facts(Kind::Reduce).live.iter().chain(job.paused.iter().map(|(index, _)| index));
    let half_done: f64 = begun.map(|&index| reduced_part(job.task(Kind::Reduce, index).progress_ppm)).sum();
    let reduced = f64::from(job.facts(Kind::Reduce).done) + half_done;
    let bytes = total * (1.0 - reduced / f64::from(reduces)).max(0.0) * job.bias;
    (shuffle, bytes as u64)
}

/// What part of its input a reduce has reduced: its last third of progress.
fn reduced_part(progress_ppm: u32) -> f64 {
    let reduce_phase = 2 * WHOLE_PPM / 3;
    f64::from(progress_ppm.saturating_sub(reduce_phase)) / f64::from(WHOLE_PPM - reduce_phase)
}
