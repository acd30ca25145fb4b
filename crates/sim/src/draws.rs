//! Chance, by purpose.
//!
//! Every draw comes from a stream of its own, named by the seed, a purpose and what it is for: a job, a task, an
//! attempt, a node. So nothing depends on the order in which a policy does things, and every policy meets the same
//! noise, the same stragglers, the same replicas and the same failures.

use crate::cluster::Cluster;
use giveway_core::{AttemptId, JobId, Kind, Span};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// What a stream is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Layout = 1,
    Bias = 2,
    Noise = 3,
    Straggler = 4,
    Failure = 5,
}

/// The streams of one run.
#[derive(Clone, Copy)]
pub(crate) struct Draws {
    seed: u64,
    noise: f64,
    straggler_share: f64,
    straggler_factor: f64,
}

impl Draws {
    pub(crate) fn new(cluster: &Cluster, seed: u64) -> Draws {
        let stragglers = cluster.stragglers;
        Draws {
            seed,
            noise: cluster.noise.clamp(0.0, 4.0),
            straggler_share: stragglers.share,
            straggler_factor: stragglers.factor.max(0.0),
        }
    }

    /// The stream for a purpose and two numbers that say what exactly it is for.
    pub(crate) fn stream(&self, purpose: Purpose, first: u64, second: u64) -> Pcg64Mcg {
        let high = mix(mix(mix(self.seed ^ purpose as u64) ^ first) ^ second);
        Pcg64Mcg::new(u128::from(high) << 64 | u128::from(mix(high)))
    }

    /// What the compute time of a task is multiplied by: log-normal with mean 1. The pieces of a split that ended early
    /// are as hard as the split, so a map is named by its split.
    pub(crate) fn task_factor(&self, job: JobId, kind: Kind, index: u32) -> f64 {
        if self.noise == 0.0 {
            return 1.0;
        }
        let mut stream = self.stream(Purpose::Noise, u64::from(job.0), (kind.index() as u64) << 32 | u64::from(index));
        let normal: f64 = StandardNormal.sample(&mut stream);
        (self.noise * normal - 0.5 * self.noise * self.noise).exp()
    }

    /// What the compute time of an attempt is multiplied by besides.
    pub(crate) fn attempt_factor(&self, attempt: AttemptId) -> f64 {
        if self.straggler_share <= 0.0 {
            return 1.0;
        }
        let task = attempt.task;
        let which = (u64::from(task.index) << 20) | (task.kind.index() as u64) << 16 | u64::from(attempt.number);
        let mut stream = self.stream(Purpose::Straggler, u64::from(task.job.0), which);
        if unit(&mut stream) < self.straggler_share { self.straggler_factor } else { 1.0 }
    }
}

/// A number from 0 to 1, the latter left out.
pub(crate) fn unit(stream: &mut impl Rng) -> f64 {
    (stream.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A number below a bound, which must not be zero.
pub(crate) fn below(stream: &mut impl Rng, bound: u32) -> u32 {
    // The bias of taking the high part is under one in four billion: far less than any run can show.
    ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// An exponentially distributed span with this mean.
pub(crate) fn exponential(stream: &mut impl Rng, mean: Span) -> Span {
    mean.scaled(-(1.0 - unit(stream)).ln())
}

/// Spreads the bits of a number (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(noise: f64, share: f64) -> Draws {
        Draws { seed: 7, noise, straggler_share: share, straggler_factor: 5.0 }
    }

    #[test]
    fn noise_has_mean_one_and_the_asked_spread() {
        let draws = draws(0.3, 0.0);
        let factors: Vec<f64> = (0..20_000).map(|index| draws.task_factor(JobId(3), Kind::Map, index)).collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        let logs: Vec<f64> = factors.iter().map(|factor| factor.ln()).collect();
        let middle = logs.iter().sum::<f64>() / logs.len() as f64;
        let spread = (logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        assert!((spread - 0.3).abs() < 0.01, "spread {spread}");
    }

    #[test]
    fn a_draw_depends_on_its_name_alone() {
        let draws = draws(0.3, 0.1);
        let one = draws.task_factor(JobId(1), Kind::Map, 5);
        draws.task_factor(JobId(2), Kind::Map, 5);
        assert_eq!(one, draws.task_factor(JobId(1), Kind::Map, 5));
        assert_ne!(one, draws.task_factor(JobId(1), Kind::Reduce, 5));
        assert_ne!(one, draws.task_factor(JobId(5), Kind::Map, 1));
    }

    #[test]
    fn stragglers_are_as_many_as_asked() {
        let draws = draws(0.0, 0.1);
        let slow = (0..10_000)
            .filter(|index| draws.attempt_factor(AttemptId::new(JobId(0), Kind::Map, *index, 0)) > 1.0)
            .count();
        assert!((900..1_100).contains(&slow), "{slow}");
    }

    #[test]
    fn exponential_spans_have_their_mean() {
        let mut stream = draws(0.0, 0.0).stream(Purpose::Failure, 1, 0);
        let mean = Span::from_secs(100);
        let total: u64 = (0..20_000).map(|_| exponential(&mut stream, mean).0).sum();
        let seen = total as f64 / 20_000.0 / mean.0 as f64;
        assert!((seen - 1.0).abs() < 0.03, "{seen}");
    }
}
