//! How far values lie from their mean, kept up to date while they change by small steps.
//!
//! The sum of distances from the mean is twice the sum of what lies above it. The values are whole numbers, so it is
//! enough to know the count and the sum of those above the mean's whole part; and the mean of many values moves slowly,
//! so these are mended with a look at a value or two, not with a walk over all.

/// Whole numbers and their distances from their mean.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// How often each value is there; the first stands for `lowest`.
    counts: Vec<u32>,
    lowest: i64,
    count: i64,
    sum: i64,
    /// The mean's whole part: what is above this is above the mean.
    floor: i64,
    above_count: i64,
    above_sum: i64,
}

impl Spread {
    /// Adds a value.
    pub(super) fn insert(&mut self, value: i64) {
        self.reach(value);
        *self.at(value) += 1;
        self.count += 1;
        self.sum += value;
        self.above(value, 1);
        self.mend();
    }

    /// A value that is there becomes another one.
    pub(super) fn change(&mut self, from: i64, to: i64) {
        self.reach(to);
        *self.at(from) -= 1;
        *self.at(to) += 1;
        self.sum += to - from;
        self.above(from, -1);
        self.above(to, 1);
        self.mend();
    }

    /// The sum of all distances from the mean, in billionths.
    pub(super) fn distances_nano(&self) -> i64 {
        if self.count == 0 {
            return 0;
        }
        let above = self.above_sum * self.count - self.above_count * self.sum;
        (2e9 * above as f64 / self.count as f64).round() as i64
    }

    fn at(&mut self, value: i64) -> &mut u32 {
        &mut self.counts[(value - self.lowest) as usize]
    }

    /// Makes room for a value.
    fn reach(&mut self, value: i64) {
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

    fn above(&mut self, value: i64, count: i64) {
        if value > self.floor {
            self.above_count += count;
            self.above_sum += count * value;
        }
    }

    /// Follows the mean to where it is now.
    fn mend(&mut self) {
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

    /// The definition, walked through.
    fn distances(values: &[i64]) -> f64 {
        let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
        values.iter().map(|value| (*value as f64 - mean).abs()).sum()
    }

    proptest! {
        #[test]
        fn it_follows_its_slow_twin(
            first in prop::collection::vec(-30i64..30, 1..12),
            steps in prop::collection::vec((any::<prop::sample::Index>(), -3i64..4), 0..60),
            late in -50i64..50,
        ) {
            let (mut spread, mut values) = (Spread::default(), first.clone());
            first.iter().for_each(|value| spread.insert(*value));
            for (step, (at, by)) in steps.into_iter().enumerate() {
                if step == 20 {
                    spread.insert(late);
                    values.push(late);
                }
                let at = at.index(values.len());
                spread.change(values[at], values[at] + by);
                values[at] += by;
                prop_assert!((spread.distances_nano() as f64 / 1e9 - distances(&values)).abs() < 1e-6);
            }
        }
    }
}
