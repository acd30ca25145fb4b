//! How much longer running tasks work, given how long they have worked: one that has already worked longer than expected does not end in the past, and what it
//! shows of the times of its job counts for the others too.
//!
//! The time of a task is that of its job, times what differs from task to task: log-normal with mean one, and for very few tasks, the
//! stragglers, a wide one.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

/// The share of tasks that are stragglers, and their spread.
const STRAGGLERS: f64 = 0.000_5;
const STRAGGLER_NOISE: f64 = 0.8;

/// The two sorts of tasks, each with its share and its spread. Nearly all have the usual one.
fn sorts(noise: f64) -> [(f64, f64); 2] {
    [(1.0 - STRAGGLERS, noise), (STRAGGLERS, noise.max(STRAGGLER_NOISE))]
}

/// Points at which the error of a job is looked at.
const POINTS: usize = 41;

/// What is believed of the factor by which the tasks of a job take longer than expected.
#[derive(Clone, Debug)]
pub(crate) struct JobError {
    /// Logarithms of the factor, at equal distances, each with the probability that it is not larger.
    points: Vec<(f64, f64)>,
}

impl JobError {
    /// The belief if the logarithm has this standard deviation, times differ by this noise from task to task, and running tasks have worked for these parts of
    /// the expected time without an end.
    pub(crate) fn of(deviation: f64, noise: f64, worked: &[f64]) -> JobError {
        let deviation = deviation.max(1e-3);
        let most = worked.iter().copied().fold(0.0, f64::max);
        let (low, high) = (-2.5 * deviation, (2.5 * deviation).max(most.max(1e-9).ln() + 0.5));
        let at = |point: usize| low + (high - low) * point as f64 / (POINTS - 1) as f64;
        let log_weight = |log: f64| {
            let survives = |&worked: &f64| survival(worked * (-log).exp(), noise).max(1e-300).ln();
            -0.5 * (log / deviation).powi(2) + worked.iter().map(survives).sum::<f64>()
        };
        let weights: Vec<f64> = (0..POINTS).map(|point| log_weight(at(point))).collect();
        let best = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(POINTS);
        for (point, weight) in weights.into_iter().enumerate() {
            sum += (weight - best).exp();
            points.push((at(point), sum));
        }
        points.iter_mut().for_each(|(_, below)| *below /= sum);
        JobError { points }
    }

    /// Draws the factor.
    pub(crate) fn draw(&self, rng: &mut impl RngExt) -> f64 {
        let drawn: f64 = rng.random_range(0.0..1.0);
        let at = self.points.partition_point(|&(_, below)| below < drawn).min(self.points.len() - 1);
        let width = self.points[1].0 - self.points[0].0;
        (self.points[at].0 + width * rng.random_range(-0.5..0.5)).exp()
    }
}

/// The probability that a task works longer than this part of its mean time.
fn survival(worked: f64, noise: f64) -> f64 {
    sorts(noise).into_iter().map(|sort| weight(sort, worked)).sum()
}

/// The share of a sort of tasks, times the part of them that works longer than this.
fn weight((share, noise): (f64, f64), worked: f64) -> f64 {
    if worked <= 0.0 { share } else { share * normal_survival(standard(worked, noise)) }
}

/// The part of its mean time that a task works longer, after it has worked for this part of it.
pub(crate) fn draw_left(worked: f64, noise: f64, rng: &mut impl RngExt) -> f64 {
    let worked = worked.max(0.0);
    let sorts = sorts(noise);
    let [usual, straggling] = sorts.map(|sort| weight(sort, worked));
    let straggles = rng.random_range(0.0..1.0) * (usual + straggling) >= usual;
    let (_, noise) = sorts[usize::from(straggles)];
    let above = if worked == 0.0 { f64::NEG_INFINITY } else { standard(worked, noise) };
    let drawn = (noise * normal_above(above, rng) - noise * noise / 2.0).exp();
    (drawn - worked).max(0.0)
}

/// A time as a part of the mean, as a standard normal number.
fn standard(part: f64, noise: f64) -> f64 {
    (part.ln() + noise * noise / 2.0) / noise
}

/// The probability that a standard normal number is above this (Abramowitz and Stegun 26.2.17; beyond its precision, the asymptote).
fn normal_survival(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_survival(-z);
    }
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 4.0 {
        return density * z / (z * z + 1.0);
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    density
        * t
        * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))))
}

/// A standard normal number above a bound, by rejection (Robert 1995).
fn normal_above(bound: f64, rng: &mut impl RngExt) -> f64 {
    loop {
        if bound < 0.5 {
            let drawn: f64 = StandardNormal.sample(rng);
            if drawn > bound {
                return drawn;
            }
            continue;
        }
        let rate = (bound + (bound * bound + 4.0).sqrt()) / 2.0;
        let drawn = bound - rng.random_range(f64::MIN_POSITIVE..1.0).ln() / rate;
        if rng.random_range(0.0..1.0) <= (-(drawn - rate).powi(2) / 2.0).exp() {
            return drawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn mean(mut draw: impl FnMut(&mut Pcg64Mcg) -> f64) -> f64 {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        (0..20_000).map(|_| draw(&mut rng)).sum::<f64>() / 20_000.0
    }

    #[test]
    fn the_tail_of_the_normal_distribution() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.158_655), (-1.0, 0.841_345), (2.0, 0.022_750), (5.0, 2.867e-7)] {
            let found = normal_survival(z);
            assert!((found / expected - 1.0).abs() < 5e-3, "{z}: {found}");
        }
        let above = mean(|rng| normal_above(1.5, rng));
        assert!((above - 1.938).abs() < 0.02, "{above}");
        assert!((mean(|rng| normal_above(-1.0, rng)) - 0.2876).abs() < 0.02);
    }

    #[test]
    fn a_task_has_less_left_the_longer_it_works_and_never_less_than_nothing() {
        let left = [0.0, 0.5, 0.9].map(|worked| mean(|rng| draw_left(worked, 0.2, rng)));
        assert!((left[0] - 1.0).abs() < 0.02 && left[1] < 0.55 && left[2] < left[1], "{left:?}");
        let late = mean(|rng| draw_left(3.0, 0.2, rng));
        assert!(late > 0.5, "a straggler does not end at once: {late}");
    }

    #[test]
    fn tasks_that_work_for_long_show_that_their_job_takes_long() {
        let factor = |worked: &[f64]| {
            let error = JobError::of(0.5, 0.2, worked);
            mean(|rng| error.draw(rng).ln())
        };
        assert!(factor(&[]).abs() < 0.02, "{}", factor(&[]));
        let (few, many, one) = (factor(&[0.5; 10]), factor(&[2.0; 10]), factor(&[2.0]));
        assert!(few < 0.2 && many > 0.5 && one < many && one > few, "{few} {many} {one}");
        assert!(factor(&[100.0; 3]) > 3.0);
    }
}
