//! Randomness for workloads: every draw comes from the seed and the purpose it serves, so that a change in one place
//! moves nothing in another.

use giveway_core::Time;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

/// A generator for one purpose under one seed.
pub fn rng(seed: u64, purpose: &str) -> Pcg64 {
    // FNV-1a: a hash whose bits are the same everywhere and for ever, which the standard library does not promise of
    // its own.
    let hash = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Pcg64::seed_from_u64(seed ^ hash)
}

/// The instants of a Poisson process, the first one gap after the beginning.
pub(crate) fn poisson(mean_gap_s: f64, rng: &mut Pcg64) -> impl Iterator<Item = Time> {
    let mut at_s = 0.0;
    std::iter::repeat_with(move || {
        let gap: f64 = Exp1.sample(rng);
        at_s += gap * mean_gap_s;
        Time::from_secs_f64(at_s)
    })
}

/// Splits `total` in proportion to `weights` by the largest remainders. Of equal remainders the one that would get
/// nothing goes first, then the earlier one: a class that is part of a paper's mix should not vanish from it by a tie.
pub(crate) fn in_proportion(total: u32, weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| f64::from(total) * weight / sum).collect();
    let mut parts: Vec<u32> = exact.iter().map(|part| part.floor() as u32).collect();
    let missing = total.saturating_sub(parts.iter().sum::<u32>()) as usize;
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // Millionths, so that remainders which are equal on paper are equal here.
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
    fn gaps_of_a_poisson_process_have_their_mean_and_spread() {
        let times: Vec<f64> = poisson(30.0, &mut rng(7, "test")).take(20_000).map(Time::as_secs_f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 30.0).abs() < 1.0, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "exponential gaps vary as much as they last");
    }

    #[test]
    fn proportions_add_up_and_ties_go_to_the_absent() {
        assert_eq!(
            in_proportion(100, &[126.0, 25.0, 3.0, 10.0, 3.0, 10.0, 6.0, 2.0, 14.0, 1.0]),
            [63, 13, 1, 5, 1, 5, 3, 1, 7, 1]
        );
        for total in [0, 1, 7, 200, 9_999] {
            assert_eq!(in_proportion(total, &[5.0, 3.0, 0.3, 1.0]).iter().sum::<u32>(), total);
        }
    }
}
