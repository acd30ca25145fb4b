//! Random streams by purpose.
//!
//! Every random number comes from a stream of its own, derived from the seed, a purpose and its subject: a job, a task, an attempt or a node.
//! So nothing depends on the order in which a policy acts, and every policy gets the same noise, stragglers, replicas and failures.

use crate::cluster::Cluster;
use crate::workload::JobPlan;
use giveway_core::{AttemptId, JobId, Kind, Span};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// The purpose of a stream. The numbers are part of the seed derivation: changing one changes the results of every run.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Layout = 1,
    Bias = 2,
    Noise = 3,
    Straggler = 4,
    Failure = 5,
    TaskFailure = 6,
}

/// The streams of one run, and the distributions of noise and stragglers.
#[derive(Clone, Copy)]
pub(crate) struct RandomStreams {
    seed: u64,
    noise: f64,
    straggler_share: f64,
    straggler_factor: f64,
}

impl RandomStreams {
    pub(crate) fn new(cluster: &Cluster, seed: u64) -> RandomStreams {
        let stragglers = cluster.stragglers;
        RandomStreams {
            seed,
            noise: cluster.noise.clamp(0.0, 4.0),
            straggler_share: stragglers.share,
            straggler_factor: stragglers.factor.max(0.0),
        }
    }

    /// The stream for a purpose and two numbers that identify its subject.
    pub(crate) fn stream(&self, purpose: Purpose, first: u64, second: u64) -> Pcg64Mcg {
        let high = mix(mix(mix(self.seed ^ purpose as u64) ^ first) ^ second);
        Pcg64Mcg::new(u128::from(high) << 64 | u128::from(mix(high)))
    }

    /// The factor on the compute time of a task: its own, and noise. A map is identified by its split, so the remainder of a split that ended
    /// early has the same factor.
    pub(crate) fn task_factor(&self, plan: &JobPlan, kind: Kind, index: u32) -> f64 {
        plan.relative_time(kind, index) * self.noise(plan.id, kind, index)
    }

    /// Log-normal with mean 1.
    fn noise(&self, job: JobId, kind: Kind, index: u32) -> f64 {
        if self.noise == 0.0 {
            return 1.0;
        }
        let mut rng = self.stream(Purpose::Noise, u64::from(job.0), (kind.index() as u64) << 32 | u64::from(index));
        let normal: f64 = StandardNormal.sample(&mut rng);
        (self.noise * normal - 0.5 * self.noise * self.noise).exp()
    }

    /// The additional factor on the compute time of an attempt: the straggler factor or 1.
    pub(crate) fn attempt_factor(&self, attempt: AttemptId) -> f64 {
        if self.straggler_share <= 0.0 {
            return 1.0;
        }
        if self.of_attempt(Purpose::Straggler, attempt) < self.straggler_share { self.straggler_factor } else { 1.0 }
    }

    /// A uniform number in [0, 1) for an attempt.
    pub(crate) fn of_attempt(&self, purpose: Purpose, attempt: AttemptId) -> f64 {
        let task = attempt.task;
        let subject = (u64::from(task.index) << 20) | (task.kind.index() as u64) << 16 | u64::from(attempt.number);
        unit(&mut self.stream(purpose, u64::from(task.job.0), subject))
    }
}

/// A uniform number in [0, 1).
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A uniform integer in `0..bound`; `bound` must not be zero.
pub(crate) fn below(rng: &mut impl Rng, bound: u32) -> u32 {
    // The bias of this multiplication is below one in four billion, too small to show in any run.
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// An exponentially distributed span with this mean.
pub(crate) fn exponential(rng: &mut impl Rng, mean: Span) -> Span {
    mean.scaled(-(1.0 - unit(rng)).ln())
}

/// Mixes the bits of a number (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(noise: f64, share: f64) -> RandomStreams {
        RandomStreams { seed: 7, noise, straggler_share: share, straggler_factor: 5.0 }
    }

    #[test]
    fn noise_has_mean_one_and_the_configured_deviation() {
        let streams = streams(0.3, 0.0);
        let factors: Vec<f64> = (0..20_000).map(|index| streams.noise(JobId(3), Kind::Map, index)).collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        let logs: Vec<f64> = factors.iter().map(|factor| factor.ln()).collect();
        let middle = logs.iter().sum::<f64>() / logs.len() as f64;
        let deviation = (logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        assert!((deviation - 0.3).abs() < 0.01, "deviation {deviation}");
    }

    #[test]
    fn a_factor_depends_on_its_subject_alone() {
        let streams = streams(0.3, 0.1);
        let one = streams.noise(JobId(1), Kind::Map, 5);
        streams.noise(JobId(2), Kind::Map, 5);
        assert_eq!(one, streams.noise(JobId(1), Kind::Map, 5));
        assert_ne!(one, streams.noise(JobId(1), Kind::Reduce, 5));
        assert_ne!(one, streams.noise(JobId(5), Kind::Map, 1));
    }

    #[test]
    fn stragglers_have_the_configured_share() {
        let streams = streams(0.0, 0.1);
        let slow = (0..10_000)
            .filter(|index| streams.attempt_factor(AttemptId::new(JobId(0), Kind::Map, *index, 0)) > 1.0)
            .count();
        assert!((900..1_100).contains(&slow), "{slow}");
    }

    #[test]
    fn exponential_spans_have_their_mean() {
        let mut rng = streams(0.0, 0.0).stream(Purpose::Failure, 1, 0);
        let mean = Span::from_secs(100);
        let total: u64 = (0..20_000).map(|_| exponential(&mut rng, mean).0).sum();
        let seen = total as f64 / 20_000.0 / mean.0 as f64;
        assert!((seen - 1.0).abs() < 0.03, "{seen}");
    }
}
