//! The wall clock in a journal. Its own times stand still while no coordinator runs, so that nothing happens at a restart because of the time without one.

use super::Metadata;
use giveway_core::Time;
use serde::{Deserialize, Serialize};

/// Older readings are forgotten.
const READINGS_MAX: usize = 1_000;

/// The wall clock at one time of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    pub at: Time,
    /// The wall clock, microseconds of the Unix epoch.
    pub unix_us: u64,
}

/// Converts times of a journal to the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock(Vec<ClockReading>);

impl Clock {
    /// All readings, by time.
    pub fn readings(&self) -> &[ClockReading] {
        &self.0
    }

    /// Adds a reading. It is valid until the next one.
    pub fn add(&mut self, reading: ClockReading) {
        self.0.retain(|known| known.at < reading.at);
        if self.0.len() >= READINGS_MAX {
            self.0.remove(0);
        }
        self.0.push(reading);
    }

    /// The wall clock at a time, microseconds of the Unix epoch. `None` without readings.
    pub fn unix_us(&self, time: Time) -> Option<u64> {
        let later = self.0.partition_point(|reading| reading.at <= time);
        let reading = self.0.get(later.saturating_sub(1))?;
        Some(reading.unix_us.saturating_add(time.0).saturating_sub(reading.at.0))
    }

    pub(super) fn apply(&mut self, metadata: &Metadata) {
        if let Metadata::ClockRead(reading) = metadata {
            self.add(*reading);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_valid_until_the_next_one() {
        let mut clock = Clock::default();
        assert_eq!(clock.unix_us(Time(5)), None);
        clock.add(ClockReading { at: Time(10), unix_us: 1_000 });
        clock.add(ClockReading { at: Time(20), unix_us: 5_000 });
        let at = |time| clock.unix_us(Time(time)).unwrap();
        assert_eq!([at(0), at(10), at(19), at(20), at(25)], [990, 1_000, 1_009, 5_000, 5_005]);
    }

    #[test]
    fn readings_are_bounded_and_a_repeated_one_counts_once() {
        let mut clock = Clock::default();
        for at in 0..2_000 {
            for _ in 0..2 {
                clock.add(ClockReading { at: Time(at), unix_us: at });
            }
        }
        assert_eq!(clock.readings().len(), READINGS_MAX);
        assert_eq!(clock.unix_us(Time(1_999)), Some(1_999));
    }
}
