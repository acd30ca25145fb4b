//! The sum of absolute deviations from the mean, maintained while values change by small steps.
//!
//! The sum of deviations is twice the sum of the deviations above the mean. The values are integers, so the count and the sum of the values
//! above the floor of the mean suffice; and the mean of many values moves slowly, so an update looks at one or two values instead of all.

/// A multiset of integers and their absolute deviations from the mean.
#[derive(Clone, Debug, Default)]
pub(super) struct AbsoluteDeviation {
    /// Number of occurrences of each value, starting with `lowest`.
    counts: Vec<u32>,
    lowest: i64,
    count: i64,
    sum: i64,
    /// The floor of the mean: values above it are above the mean.
    floor: i64,
    above_count: i64,
    above_sum: i64,
}

impl AbsoluteDeviation {
    pub(super) fn insert(&mut self, value: i64) {
        self.reserve(value);
        *self.at(value) += 1;
        self.count += 1;
        self.sum += value;
        self.adjust_above(value, 1);
        self.update_floor();
    }

    /// Replaces one occurrence of a value by another value.
    pub(super) fn replace(&mut self, from: i64, to: i64) {
        self.reserve(to);
        *self.at(from) -= 1;
        *self.at(to) += 1;
        self.sum += to - from;
        self.adjust_above(from, -1);
        self.adjust_above(to, 1);
        self.update_floor();
    }

    /// The sum of absolute deviations from the mean, in billionths.
    pub(super) fn sum_nano(&self) -> i64 {
        if self.count == 0 {
            return 0;
        }
        let above = self.above_sum * self.count - self.above_count * self.sum;
        (2e9 * above as f64 / self.count as f64).round() as i64
    }

    fn at(&mut self, value: i64) -> &mut u32 {
        &mut self.counts[(value - self.lowest) as usize]
    }

    /// Extends `counts` to a value.
    fn reserve(&mut self, value: i64) {
        if self.counts.is_empty() {
            self.lowest = value;
        }
        if value < self.lowest {
            let missing = (self.lowest - value) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.lowest = value;
        }
        let length = (value - self.lowest) as usize + 1;
        if self.counts.len() < length {
            self.counts.resize(length, 0);
        }
    }

    fn adjust_above(&mut self, value: i64, count: i64) {
        if value > self.floor {
            self.above_count += count;
            self.above_sum += count * value;
        }
    }

    /// Moves the floor to the current mean.
    fn update_floor(&mut self) {
        let floor = self.sum.div_euclid(self.count);
        while self.floor < floor {
            self.floor += 1;
            let count = self.count_of(self.floor);
            self.above_count -= count;
            self.above_sum -= count * self.floor;
        }
        while self.floor > floor {
            let count = self.count_of(self.floor);
            self.above_count += count;
            self.above_sum += count * self.floor;
            self.floor -= 1;
        }
    }

    fn count_of(&self, value: i64) -> i64 {
        usize::try_from(value - self.lowest)
            .ok()
            .and_then(|at| self.counts.get(at))
            .map_or(0, |count| i64::from(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, computed directly.
    fn reference(values: &[i64]) -> f64 {
        let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
        values.iter().map(|value| (*value as f64 - mean).abs()).sum()
    }

    proptest! {
        #[test]
        fn updates_match_the_definition(
            first in prop::collection::vec(-30i64..30, 1..12),
            steps in prop::collection::vec((any::<prop::sample::Index>(), -3i64..4), 0..60),
            late in -50i64..50,
        ) {
            let (mut deviation, mut values) = (AbsoluteDeviation::default(), first.clone());
            first.iter().for_each(|value| deviation.insert(*value));
            for (step, (at, by)) in steps.into_iter().enumerate() {
                if step == 20 {
                    deviation.insert(late);
                    values.push(late);
                }
                let at = at.index(values.len());
                deviation.replace(values[at], values[at] + by);
                values[at] += by;
                prop_assert!((deviation.sum_nano() as f64 / 1e9 - reference(&values)).abs() < 1e-6);
            }
        }
    }
}
