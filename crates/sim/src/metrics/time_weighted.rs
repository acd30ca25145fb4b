//! Time-weighted metrics: available slots, busy slots, and COSHH's dissatisfaction and fairness (section 5.1).
//!
//! Each level is constant between events, so its integral over time is a sum of rectangles, added when the level changes. All integrals are
//! integers (slots or billionths, times microseconds), so rounding errors do not accumulate.
//!
//! COSHH compares two schedulers by dissatisfaction and fairness at a time T that the paper does not specify; here both are averaged over the
//! run. Users are all declared ones, whether they have jobs or not; an undeclared user is added with weight 1 and no min share at its first
//! submission.

use super::absolute_deviation::AbsoluteDeviation;
use giveway_core::{Kind, Tenants, Time};
use rustc_hash::FxHashMap;

/// Current levels and their integrals so far.
#[derive(Clone, Debug)]
pub(super) struct TimeWeighted {
    slots: [i64; 2],
    busy: [i64; 2],
    dissatisfaction_nano: i64,
    fairness_nano: i64,
    integrals: Integrals,
    users: Vec<User>,
    user_ix: FxHashMap<String, u32>,
    weight_classes: Vec<WeightClass>,
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
    /// Billionths times microseconds.
    dissatisfaction: i128,
    fairness: i128,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Index of its weight class.
    weight: u32,
    min_share: i64,
    /// Slots that run its tasks, of both kinds.
    allocated: i64,
    /// Tasks that are pending.
    demand: i64,
    dissatisfaction_nano: i64,
}

/// The users of one weight. Fairness compares only these with each other.
#[derive(Clone, Debug)]
struct WeightClass {
    weight: f64,
    /// By user, slots allocated beyond the min share.
    excess: AbsoluteDeviation,
    fairness_nano: i64,
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

    /// Mean over time of the sum of the users' dissatisfaction.
    pub(super) fn dissatisfaction(&self) -> Option<f64> {
        self.mean(self.dissatisfaction)
    }

    /// Mean over time of the sum of the users' deviations from their peers; 0 is fair.
    pub(super) fn fairness(&self) -> Option<f64> {
        self.mean(self.fairness)
    }

    fn mean(&self, sum: i128) -> Option<f64> {
        let length_us = self.to.since(self.from?).0;
        (length_us > 0).then(|| sum as f64 / length_us as f64 / 1e9)
    }
}

impl TimeWeighted {
    pub(super) fn new(tenants: &Tenants) -> TimeWeighted {
        let mut time_weighted = TimeWeighted {
            slots: [0; 2],
            busy: [0; 2],
            dissatisfaction_nano: 0,
            fairness_nano: 0,
            integrals: Integrals::default(),
            users: Vec::new(),
            user_ix: FxHashMap::default(),
            weight_classes: Vec::new(),
        };
        for user in &tenants.users {
            time_weighted.add_user(&user.name, user.weight, user.min_share);
        }
        time_weighted
    }

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

    /// The index of a user; an unknown user is added.
    pub(super) fn user(&mut self, now: Time, name: &str) -> u32 {
        if let Some(user) = self.user_ix.get(name) {
            return *user;
        }
        self.advance(now);
        self.add_user(name, 1.0, 0)
    }

    /// Changes the number of available slots, by kind.
    pub(super) fn change_slots(&mut self, now: Time, change: [i64; 2]) {
        self.advance(now);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.index()] += change[kind.index()]);
    }

    /// Changes the number of a user's pending tasks.
    pub(super) fn change_demand(&mut self, now: Time, user: u32, change: i64) {
        if change != 0 {
            self.advance(now);
            self.users[user as usize].demand += change;
            self.update_dissatisfaction(user);
        }
    }

    /// Changes the number of slots that a user occupies.
    pub(super) fn change_busy(&mut self, now: Time, user: u32, kind: Kind, change: i64) {
        self.advance(now);
        self.busy[kind.index()] += change;
        let User { weight, min_share, allocated, .. } = &mut self.users[user as usize];
        let peers = &mut self.weight_classes[*weight as usize];
        let excess = *allocated - *min_share;
        *allocated += change;
        peers.excess.replace(excess, excess + change);
        peers.update_fairness(&mut self.fairness_nano);
        self.update_dissatisfaction(user);
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
        self.integrals.dissatisfaction += i128::from(self.dissatisfaction_nano) * span_us;
        self.integrals.fairness += i128::from(self.fairness_nano) * span_us;
    }

    fn add_user(&mut self, name: &str, weight: f64, min_share: u32) -> u32 {
        let peers = self.weight_classes.iter().position(|peers| peers.weight == weight).unwrap_or_else(|| {
            self.weight_classes.push(WeightClass { weight, excess: AbsoluteDeviation::default(), fairness_nano: 0 });
            self.weight_classes.len() - 1
        });
        self.weight_classes[peers].excess.insert(-i64::from(min_share));
        self.weight_classes[peers].update_fairness(&mut self.fairness_nano);
        let user = User {
            weight: peers as u32,
            min_share: min_share.into(),
            allocated: 0,
            demand: 0,
            dissatisfaction_nano: 0,
        };
        let ix = self.users.len() as u32;
        self.users.push(user);
        self.user_ix.insert(name.into(), ix);
        ix
    }

    /// Recomputes a user's dissatisfaction: the weighted distance below the min share, while tasks are pending.
    fn update_dissatisfaction(&mut self, user: u32) {
        let user = &mut self.users[user as usize];
        if user.min_share == 0 {
            return;
        }
        let weight = self.weight_classes[user.weight as usize].weight;
        let missing = if user.demand > 0 { (user.min_share - user.allocated).max(0) } else { 0 };
        let nano = (missing as f64 / user.min_share as f64 * weight * 1e9).round() as i64;
        self.dissatisfaction_nano += nano - user.dissatisfaction_nano;
        user.dissatisfaction_nano = nano;
    }
}

impl WeightClass {
    /// Recomputes the deviation within this class, and updates the sum over all classes.
    fn update_fairness(&mut self, fairness_nano: &mut i64) {
        let nano = self.excess.sum_nano();
        *fairness_nano += nano - self.fairness_nano;
        self.fairness_nano = nano;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::User as Declared;

    fn declared(name: &str, weight: f64, min_share: u32) -> Declared {
        Declared { name: name.into(), weight, min_share }
    }

    const S: u64 = 1_000_000;

    /// COSHH, section 5.1: a user at half its min share with weight 2 has dissatisfaction 1, while tasks are pending.
    #[test]
    fn dissatisfaction_is_the_weighted_distance_from_the_min_share() {
        let tenants = Tenants { users: vec![declared("a", 2.0, 4), declared("b", 1.0, 0)], pools: vec![] };
        let mut time_weighted = TimeWeighted::new(&tenants);
        time_weighted.start(Time(10 * S));
        let a = time_weighted.user(Time(10 * S), "a");
        time_weighted.change_demand(Time(10 * S), a, 3);
        assert_eq!(time_weighted.integrals(Time(11 * S)).dissatisfaction(), Some(2.0));
        time_weighted.change_busy(Time(11 * S), a, Kind::Map, 1);
        time_weighted.change_busy(Time(11 * S), a, Kind::Reduce, 1);
        // One second at 2, one at 1.
        assert_eq!(time_weighted.integrals(Time(12 * S)).dissatisfaction(), Some(1.5));
        time_weighted.change_demand(Time(12 * S), a, -3);
        assert_eq!(time_weighted.integrals(Time(13 * S)).dissatisfaction(), Some(1.0));
    }

    /// COSHH, section 5.1: deviations from the mean excess over the min share, among users of one weight.
    #[test]
    fn fairness_is_the_deviation_from_peers() {
        let users = vec![declared("a", 1.0, 2), declared("b", 1.0, 0), declared("c", 3.0, 9)];
        let mut time_weighted = TimeWeighted::new(&Tenants { users, pools: vec![] });
        time_weighted.start(Time(0));
        // a is 2 below its min share, b has exactly its own: each deviates by 1 from their mean. c has no peers.
        assert_eq!(time_weighted.integrals(Time(S)).fairness(), Some(2.0));
        let a = time_weighted.user(Time(S), "a");
        time_weighted.change_busy(Time(S), a, Kind::Map, 1);
        time_weighted.change_busy(Time(S), a, Kind::Map, 1);
        assert_eq!(time_weighted.integrals(Time(2 * S)).fairness(), Some(1.0));
        // An undeclared user joins them.
        let d = time_weighted.user(Time(2 * S), "d");
        time_weighted.change_busy(Time(2 * S), d, Kind::Map, 1);
        let expected = (2.0 + 0.0 + 4.0 / 3.0) / 3.0;
        assert!((time_weighted.integrals(Time(3 * S)).fairness().unwrap() - expected).abs() < 1e-8);
    }

    #[test]
    fn utilisation_counts_only_available_slots() {
        let mut time_weighted = TimeWeighted::new(&Tenants::default());
        time_weighted.change_slots(Time(0), [2, 1]);
        time_weighted.start(Time(5 * S));
        let user = time_weighted.user(Time(5 * S), "a");
        time_weighted.change_busy(Time(5 * S), user, Kind::Map, 1);
        time_weighted.change_slots(Time(6 * S), [-1, -1]);
        let integrals = time_weighted.integrals(Time(7 * S));
        assert_eq!(integrals.utilisation(&[Kind::Map]), Some(2.0 / 3.0));
        assert_eq!(integrals.utilisation(&[Kind::Reduce]), Some(0.0));
        assert_eq!(integrals.utilisation(&Kind::BOTH), Some(0.5));
        assert_eq!(integrals.length_s(), 2.0);
    }
}
