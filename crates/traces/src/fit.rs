//! Samples of a trace, and synthetic jobs with the same distributions.

use crate::{TaskTime, Tasks, TraceJob};
use giveway_core::Span;
use giveway_sim::workload::random;
use rand::RngExt;
use rand_distr::{Distribution, LogNormal};

/// Variation of the sizes of synthetic jobs around the job they are drawn from: the standard deviation of the logarithm.
const SIZE_SIGMA: f64 = 0.1;

/// At most `count` jobs, each with the same probability, in the order of the iterator. Holds only the sample in memory (reservoir sampling).
pub fn sample(jobs: impl Iterator<Item = TraceJob>, count: usize, seed: u64) -> Vec<TraceJob> {
    let mut rng = random::rng(seed, "trace sample");
    let mut chosen: Vec<(usize, TraceJob)> = Vec::new();
    for (at, job) in jobs.enumerate() {
        if chosen.len() < count {
            chosen.push((at, job));
        } else if let Some(place) = chosen.get_mut(rng.random_range(0..=at)) {
            *place = (at, job);
        }
    }
    chosen.sort_by_key(|(at, _)| *at);
    chosen.into_iter().map(|(_, job)| job).collect()
}

/// Synthetic jobs that arrive within `span_s` seconds. Gaps between submissions and jobs are drawn independently from those of the trace, which is
/// sorted by submission: each gap between two neighbouring quantiles, each job with sizes and times changed by about a tenth. So the quantiles of
/// gaps, sizes and times are those of the trace; its order of busy and quiet hours is not kept.
pub fn synthetic(jobs: &[TraceJob], span_s: f64, max_jobs: usize, seed: u64) -> Vec<TraceJob> {
    let mut gaps_us: Vec<u64> = jobs.windows(2).map(|pair| pair[1].submit_us.abs_diff(pair[0].submit_us)).collect();
    gaps_us.sort_unstable();
    let mut arrivals = random::rng(seed, "trace arrivals");
    let mut sizes = random::rng(seed, "trace sizes");
    let Ok(factor) = LogNormal::new(0.0, SIZE_SIGMA) else { return Vec::new() };
    let mut made = Vec::new();
    let mut at_us = 0.0;
    while at_us <= span_s * 1e6 && made.len() < max_jobs && !jobs.is_empty() {
        let Some(template) = jobs.get(sizes.random_range(0..jobs.len())) else { break };
        let number = made.len();
        let user = template.user.clone();
        made.push(TraceJob {
            id: format!("synthetic-{number}"),
            name: format!("synthetic-{number}"),
            user,
            submit_us: at_us as i64,
            finish_us: None,
            maps: varied(&template.maps, factor.sample(&mut sizes)),
            reduces: varied(&template.reduces, factor.sample(&mut sizes)),
            ..template.clone()
        });
        at_us += between(&gaps_us, arrivals.random::<f64>());
        if gaps_us.is_empty() {
            break;
        }
    }
    made
}

/// The tasks with their time and bytes multiplied by a factor; the number of tasks stays, because it often is a multiple of something.
fn varied(tasks: &Tasks, factor: f64) -> Tasks {
    let scaled = |bytes: u64| (bytes as f64 * factor) as u64;
    let time = |span: Span| span.scaled(factor);
    Tasks {
        count: tasks.count,
        input_bytes: scaled(tasks.input_bytes),
        output_bytes: scaled(tasks.output_bytes),
        time: match tasks.time {
            TaskTime::Recorded(span) => TaskTime::Recorded(time(span)),
            TaskTime::Modelled(span) => TaskTime::Modelled(time(span)),
        },
    }
}

/// The value at a fraction of a sorted list, linear between neighbours.
fn between(sorted: &[u64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = fraction * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let value = |at: usize| sorted.get(at.min(last)).map_or(0.0, |&value| value as f64);
    value(low) + (value(high) - value(low)) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;
    use crate::trace::read_text;

    fn jobs() -> Vec<TraceJob> {
        // Sizes from a kilobyte to a terabyte, gaps from zero to 18 s.
        let line = |at: u64| format!("j{at}\t{}\t0\t{}\t0\t0\n", at * at % 19 + at * 18, 1_000 << (at % 31));
        let text: String = (0..2_000).map(line).collect();
        let mut jobs = read_text(&text).0;
        jobs.sort_by_key(|job| job.submit_us);
        jobs
    }

    #[test]
    fn samples_are_of_the_given_size_in_order_and_repeatable() {
        let jobs = jobs();
        let chosen = sample(jobs.clone().into_iter(), 100, 7);
        assert_eq!(chosen.len(), 100);
        assert!(chosen.windows(2).all(|pair| pair[0].submit_us <= pair[1].submit_us));
        assert_eq!(chosen, sample(jobs.clone().into_iter(), 100, 7));
        assert_ne!(chosen, sample(jobs.clone().into_iter(), 100, 8));
        assert_eq!(sample(jobs.clone().into_iter(), 5_000, 7), jobs);
    }

    #[test]
    fn synthetic_jobs_have_the_quantiles_of_the_trace() {
        let jobs = jobs();
        let span_s = jobs[jobs.len() - 1].submit_us as f64 / 1e6;
        let made = synthetic(&jobs, span_s * 5.0, 1_000_000, 3);
        let (trace, made) = (Stats::of(&jobs), Stats::of(&made));
        let near = |a: f64, b: f64| (a + 1.0).ln() - (b + 1.0).ln();
        assert!(near(made.gaps_s.mean, trace.gaps_s.mean).abs() < 0.1, "{:?} {:?}", made.gaps_s, trace.gaps_s);
        for (a, b) in made.gaps_s.quantiles.iter().zip(trace.gaps_s.quantiles) {
            assert!((a - b).abs() <= 1.0, "{a} instead of {b}");
        }
        for (a, b) in made.maps.quantiles.iter().zip(trace.maps.quantiles) {
            assert!(near(*a, b).abs() < 0.75, "{a} instead of {b}");
        }
        assert!(synthetic(&[], 10.0, 10, 1).is_empty());
    }
}
