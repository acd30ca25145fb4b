//! Random numbers for workloads. Each purpose has a generator of its own, so that a change in one place does not affect another.

use giveway_core::Time;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

/// The random number generator for a purpose under a seed. The bytes of `purpose` are part of the seed derivation: changing them changes the
/// workload.
pub fn rng(seed: u64, purpose: &str) -> Pcg64 {
    // FNV-1a, because its result is the same on every platform and in every version, which the standard library does not guarantee for its hash.
    let hash = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Pcg64::seed_from_u64(seed ^ hash)
}

/// The instants of a Poisson process, the first one interval after time zero.
pub(crate) fn poisson(mean_gap_s: f64, rng: &mut Pcg64) -> impl Iterator<Item = Time> {
    let mut at_s = 0.0;
    std::iter::repeat_with(move || {
        let gap: f64 = Exp1.sample(rng);
        at_s += gap * mean_gap_s;
        Time::from_secs_f64(at_s)
    })
}

/// Splits `total` in proportion to `weights` by the largest remainder method. Of equal remainders, one whose part would be zero goes first, then the
/// earlier one, so that no class of a paper's mix vanishes because of a tie.
pub(crate) fn apportion(total: u32, weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| f64::from(total) * weight / sum).collect();
    let mut parts: Vec<u32> = exact.iter().map(|part| part.floor() as u32).collect();
    let missing = total.saturating_sub(parts.iter().sum::<u32>()) as usize;
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // In millionths, so that remainders that are mathematically equal compare equal.
    let remainder = |i: usize| ((exact[i] - exact[i].floor()) * 1e6).round() as u64;
    order.sort_by_key(|&i| (std::cmp::Reverse(remainder(i)), parts[i] > 0, i));
    for &i in order.iter().take(missing) {
        parts[i] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn one_seed_and_purpose_give_one_stream() {
        let first = |seed, purpose| rng(seed, purpose).next_u64();
        assert_eq!(first(1, "arrivals"), first(1, "arrivals"));
        assert_ne!(first(1, "arrivals"), first(2, "arrivals"));
        assert_ne!(first(1, "arrivals"), first(1, "order"));
    }

    #[test]
    fn poisson_intervals_have_the_exponential_mean_and_deviation() {
        let times: Vec<f64> = poisson(30.0, &mut rng(7, "test")).take(20_000).map(Time::as_secs_f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 30.0).abs() < 1.0, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "exponential intervals have standard deviation = mean");
    }

    #[test]
    fn parts_add_up_and_ties_go_to_empty_parts() {
        assert_eq!(
            apportion(100, &[126.0, 25.0, 3.0, 10.0, 3.0, 10.0, 6.0, 2.0, 14.0, 1.0]),
            [63, 13, 1, 5, 1, 5, 3, 1, 7, 1]
        );
        for total in [0, 1, 7, 200, 9_999] {
            assert_eq!(apportion(total, &[5.0, 3.0, 0.3, 1.0]).iter().sum::<u32>(), total);
        }
    }
}
