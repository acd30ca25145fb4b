//! Time-weighted metrics: available and busy slots.
//!
//! Each level is constant between events, so its integral over time is a sum of rectangles, added when the level changes. All integrals are
//! integers (slots times microseconds), so rounding errors do not accumulate.

use giveway_core::{Kind, Time};

/// Current levels and their integrals so far.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeWeighted {
    slots: [i64; 2],
    busy: [i64; 2],
    integrals: Integrals,
}

/// Integrals over time from the first submission on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Integrals {
    /// Time of the first submission; none before it.
    pub(super) from: Option<Time>,
    /// The integrals reach up to this time.
    pub(super) to: Time,
    /// By kind, slots times microseconds.
    pub(super) slots: [i128; 2],
    pub(super) busy: [i128; 2],
}

impl Integrals {
    /// Time from the first submission to `to`, in seconds.
    pub(super) fn length_s(&self) -> f64 {
        self.from.map_or(0.0, |from| self.to.since(from).as_secs_f64())
    }

    /// The busy fraction of the slots of these kinds.
    pub(super) fn utilisation(&self, kinds: &[Kind]) -> Option<f64> {
        let (busy, slots) = kinds
            .iter()
            .fold((0, 0), |(busy, slots), kind| (busy + self.busy[kind.index()], slots + self.slots[kind.index()]));
        (slots > 0).then(|| busy as f64 / slots as f64)
    }
}

impl TimeWeighted {
    /// The integrals up to `now`.
    pub(super) fn integrals(&mut self, now: Time) -> Integrals {
        self.advance(now);
        self.integrals
    }

    /// Starts the integrals, unless they have started. Call at each submission.
    pub(super) fn start(&mut self, now: Time) {
        if self.integrals.from.is_none() {
            self.integrals = Integrals { from: Some(now), to: now, ..Integrals::default() };
        }
    }

    /// Changes the number of available slots, by kind.
    pub(super) fn change_slots(&mut self, now: Time, change: [i64; 2]) {
        self.advance(now);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.index()] += change[kind.index()]);
    }

    /// Changes the number of busy slots.
    pub(super) fn change_busy(&mut self, now: Time, kind: Kind, change: i64) {
        self.advance(now);
        self.busy[kind.index()] += change;
    }

    fn advance(&mut self, now: Time) {
        let span_us = now.since(self.integrals.to).0 as i128;
        if span_us == 0 {
            return;
        }
        self.integrals.to = now;
        for kind in Kind::BOTH {
            self.integrals.slots[kind.index()] += i128::from(self.slots[kind.index()]) * span_us;
            self.integrals.busy[kind.index()] += i128::from(self.busy[kind.index()]) * span_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    #[test]
    fn utilisation_counts_only_available_slots() {
        let mut time_weighted = TimeWeighted::default();
        time_weighted.change_slots(Time(0), [2, 1]);
        time_weighted.start(Time(5 * S));
        time_weighted.change_busy(Time(5 * S), Kind::Map, 1);
        time_weighted.change_slots(Time(6 * S), [-1, -1]);
        let integrals = time_weighted.integrals(Time(7 * S));
        assert_eq!(integrals.utilisation(&[Kind::Map]), Some(2.0 / 3.0));
        assert_eq!(integrals.utilisation(&[Kind::Reduce]), Some(0.0));
        assert_eq!(integrals.utilisation(&Kind::BOTH), Some(0.5));
        assert_eq!(integrals.length_s(), 2.0);
    }
}
