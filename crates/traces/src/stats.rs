//! Statistics of the jobs of a trace.

use crate::{Tasks, TraceJob};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The fractions of which [`Distribution`] has the values.
pub const QUANTILES: [f64; 8] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// The distribution of a number over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub mean: f64,
    /// Standard deviation divided by the mean.
    pub cv: f64,
    /// Sum of all values.
    pub total: f64,
    /// Values at [`QUANTILES`].
    pub quantiles: [f64; 8],
}

/// Statistics of the jobs of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    pub jobs: usize,
    pub users: usize,
    pub pools: usize,
    /// Time from the first to the last submission, in seconds.
    pub span_s: f64,
    /// Seconds between two submissions.
    pub gaps_s: Distribution,
    pub maps: Distribution,
    pub reduces: Distribution,
    /// Input bytes per job.
    pub input_bytes: Distribution,
    /// Shuffled bytes per job.
    pub shuffle_bytes: Distribution,
    /// Map slot seconds per job.
    pub map_work_s: Distribution,
    /// Reduce slot seconds per job.
    pub reduce_work_s: Distribution,
    /// Jobs in each hour from the first submission.
    pub jobs_per_hour: Vec<u32>,
    /// Variance divided by mean of the number of jobs per minute; 1 for a Poisson process.
    pub minute_dispersion: f64,
    /// Jobs by the power of ten of their work in slot seconds.
    pub jobs_by_work: BTreeMap<i32, u32>,
}

impl Stats {
    /// Statistics of jobs that are sorted by submission.
    pub fn of(jobs: &[TraceJob]) -> Stats {
        let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Stats::default() };
        let offset_us = |job: &TraceJob| job.submit_us.abs_diff(first.submit_us);
        let per = |unit_us: u64| counts(jobs.iter().map(|job| offset_us(job) / unit_us), offset_us(last) / unit_us);
        let work_s = |job: &TraceJob| job.maps.total_s() + job.reduces.total_s();
        let mut jobs_by_work = BTreeMap::new();
        for job in jobs {
            *jobs_by_work.entry(work_s(job).max(1.0).log10() as i32).or_default() += 1;
        }
        let of = |value: fn(&TraceJob) -> f64| distribution(jobs.iter().map(value));
        let gap_s = |pair: &[TraceJob]| match pair {
            [a, b] => b.submit_us.abs_diff(a.submit_us) as f64 / 1e6,
            _ => 0.0,
        };
        Stats {
            jobs: jobs.len(),
            users: distinct(jobs, |job| &job.user),
            pools: distinct(jobs, |job| &job.pool),
            span_s: offset_us(last) as f64 / 1e6,
            gaps_s: distribution(jobs.windows(2).map(gap_s)),
            maps: of(|job| f64::from(job.maps.count)),
            reduces: of(|job| f64::from(job.reduces.count)),
            input_bytes: of(|job| job.maps.input_bytes as f64),
            shuffle_bytes: of(|job| job.reduces.input_bytes as f64),
            map_work_s: of(|job| Tasks::total_s(&job.maps)),
            reduce_work_s: of(|job| Tasks::total_s(&job.reduces)),
            jobs_per_hour: per(3_600_000_000),
            minute_dispersion: dispersion(&per(60_000_000)),
            jobs_by_work,
        }
    }

    /// Load on a number of slots: the fraction of their time, from the first to the last submission, that the work fills; above 1 the queue grows.
    pub fn load(&self, work: &Distribution, slots: u32) -> f64 {
        work.total / (self.span_s.max(1.0) * f64::from(slots.max(1)))
    }
}

fn distinct(jobs: &[TraceJob], name: fn(&TraceJob) -> &str) -> usize {
    jobs.iter().map(name).collect::<BTreeSet<&str>>().len()
}

/// How often each number from 0 to `last` occurs; `last` is limited, because a trace of many years would need much memory.
fn counts(numbers: impl Iterator<Item = u64>, last: u64) -> Vec<u32> {
    const MAX_COUNTS: u64 = 6_000_000;
    let mut counts = vec![0; (last.min(MAX_COUNTS) + 1) as usize];
    for number in numbers {
        if let Some(count) = counts.get_mut(number as usize) {
            *count += 1;
        }
    }
    counts
}

fn dispersion(counts: &[u32]) -> f64 {
    let d = distribution(counts.iter().map(|&count| f64::from(count)));
    d.cv * d.cv * d.mean
}

fn distribution(values: impl Iterator<Item = f64>) -> Distribution {
    let mut sorted: Vec<f64> = values.collect();
    let Some(last) = sorted.len().checked_sub(1) else { return Distribution::default() };
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let total: f64 = sorted.iter().sum();
    let mean = total / count;
    let variance = sorted.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    let cv = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
    let at = |fraction: f64| sorted.get((fraction * last as f64).round() as usize).copied().unwrap_or(0.0);
    Distribution { mean, cv, total, quantiles: QUANTILES.map(at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;

    #[test]
    fn statistics_of_three_jobs() {
        let (jobs, _) = read_text("a\t0\t0\t1000\t5\t0\nb\t10\t0\t3000\t0\t0\nc\t7210\t0\t8000\t0\t0\n");
        let stats = Stats::of(&jobs);
        assert_eq!((stats.jobs, stats.users, stats.span_s), (3, 1, 7_210.0));
        assert_eq!((stats.gaps_s.mean, stats.gaps_s.quantiles[7]), (3_605.0, 7_200.0));
        assert_eq!((stats.input_bytes.total, stats.input_bytes.quantiles[2]), (12_000.0, 3_000.0));
        assert_eq!(stats.jobs_per_hour, [2, 0, 1]);
        assert_eq!(stats.jobs_by_work.values().sum::<u32>(), 3);
        // Three maps of ten seconds and a little.
        assert!((stats.load(&stats.map_work_s, 2) - 30.0 / 14_420.0).abs() < 1e-5);
        assert_eq!(Stats::of(&[]), Stats::default());
    }
}
