//! Levels over time: slots that are there, slots in use, and COSHH's dissatisfaction and fairness (section 5.1).
//!
//! A level stays what it is until an event changes it, so its integral is a sum of rectangles, taken when it changes.
//! All sums are whole numbers (of slots or billionths, times microseconds): nothing drifts, however many changes there
//! are.
//!
//! COSHH compares two schedulers by dissatisfaction and fairness at time T without saying which time that is; here both
//! are averaged over the run. Its users are all that are declared, whether they have jobs or not; one that is not
//! declared is added with weight 1 and no min share when its first job comes.

use super::spread::Spread;
use giveway_core::{Kind, Tenants, Time};
use rustc_hash::FxHashMap;

/// The levels now, and their sums so far.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    slots: [i64; 2],
    busy: [i64; 2],
    dissatisfaction_nano: i64,
    fairness_nano: i64,
    sums: Sums,
    users: Vec<User>,
    user_ix: FxHashMap<String, u32>,
    weights: Vec<Weight>,
}

/// Integrals over time, from the first submission on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) from: Option<Time>,
    pub(super) to: Time,
    /// Slots times microseconds.
    pub(super) slots: [i128; 2],
    pub(super) busy: [i128; 2],
    /// Billionths times microseconds.
    dissatisfaction: i128,
    fairness: i128,
}

#[derive(Clone, Copy, Debug)]
struct User {
    weight: u32,
    min_share: i64,
    /// Slots that run its tasks.
    held: i64,
    /// Tasks that wait for a slot.
    demand: i64,
    dissatisfaction_nano: i64,
}

/// The users of one weight: fairness compares only these with each other.
#[derive(Clone, Debug)]
struct Weight {
    weight: f64,
    /// Slots held beyond the min share.
    extra: Spread,
    fairness_nano: i64,
}

impl Sums {
    /// How long the run has taken, in seconds.
    pub(super) fn length_s(&self) -> f64 {
        self.from.map_or(0.0, |from| self.to.since(from).as_secs_f64())
    }

    /// What part of the slots of these kinds was in use.
    pub(super) fn utilisation(&self, kinds: &[Kind]) -> Option<f64> {
        let (busy, slots) = kinds
            .iter()
            .fold((0, 0), |(busy, slots), kind| (busy + self.busy[kind.index()], slots + self.slots[kind.index()]));
        (slots > 0).then(|| busy as f64 / slots as f64)
    }

    /// Mean dissatisfaction of all users together.
    pub(super) fn dissatisfaction(&self) -> Option<f64> {
        self.mean(self.dissatisfaction)
    }

    /// Mean of the users' distances from their peers; 0 is fair.
    pub(super) fn fairness(&self) -> Option<f64> {
        self.mean(self.fairness)
    }

    fn mean(&self, sum: i128) -> Option<f64> {
        let length_us = self.to.since(self.from?).0;
        (length_us > 0).then(|| sum as f64 / length_us as f64 / 1e9)
    }
}

impl Levels {
    pub(super) fn new(tenants: &Tenants) -> Levels {
        let mut levels = Levels {
            slots: [0; 2],
            busy: [0; 2],
            dissatisfaction_nano: 0,
            fairness_nano: 0,
            sums: Sums::default(),
            users: Vec::new(),
            user_ix: FxHashMap::default(),
            weights: Vec::new(),
        };
        for user in &tenants.users {
            levels.add_user(&user.name, user.weight, user.min_share);
        }
        levels
    }

    /// The sums up to now.
    pub(super) fn sums(&mut self, now: Time) -> Sums {
        self.advance(now);
        self.sums
    }

    /// A job was submitted: the run has begun, if it had not.
    pub(super) fn began(&mut self, now: Time) {
        if self.sums.from.is_none() {
            self.sums = Sums { from: Some(now), to: now, ..Sums::default() };
        }
    }

    /// The number of a user; a new one is taken in.
    pub(super) fn user(&mut self, now: Time, name: &str) -> u32 {
        if let Some(user) = self.user_ix.get(name) {
            return *user;
        }
        self.advance(now);
        self.add_user(name, 1.0, 0)
    }

    /// Slots of both kinds came or went.
    pub(super) fn slots(&mut self, now: Time, change: [i64; 2]) {
        self.advance(now);
        Kind::BOTH.iter().for_each(|kind| self.slots[kind.index()] += change[kind.index()]);
    }

    /// A user's demand changed.
    pub(super) fn wanted(&mut self, now: Time, user: u32, change: i64) {
        if change != 0 {
            self.advance(now);
            self.users[user as usize].demand += change;
            self.judge(user);
        }
    }

    /// A slot was taken or left by a user.
    pub(super) fn busy(&mut self, now: Time, user: u32, kind: Kind, change: i64) {
        self.advance(now);
        self.busy[kind.index()] += change;
        let User { weight, min_share, held, .. } = &mut self.users[user as usize];
        let weight = &mut self.weights[*weight as usize];
        let extra = *held - *min_share;
        *held += change;
        weight.extra.change(extra, extra + change);
        weight.renew(&mut self.fairness_nano);
        self.judge(user);
    }

    fn advance(&mut self, now: Time) {
        let span_us = now.since(self.sums.to).0 as i128;
        if span_us == 0 {
            return;
        }
        self.sums.to = now;
        for kind in Kind::BOTH {
            self.sums.slots[kind.index()] += i128::from(self.slots[kind.index()]) * span_us;
            self.sums.busy[kind.index()] += i128::from(self.busy[kind.index()]) * span_us;
        }
        self.sums.dissatisfaction += i128::from(self.dissatisfaction_nano) * span_us;
        self.sums.fairness += i128::from(self.fairness_nano) * span_us;
    }

    fn add_user(&mut self, name: &str, weight: f64, min_share: u32) -> u32 {
        let peers = self.weights.iter().position(|peers| peers.weight == weight).unwrap_or_else(|| {
            self.weights.push(Weight { weight, extra: Spread::default(), fairness_nano: 0 });
            self.weights.len() - 1
        });
        self.weights[peers].extra.insert(-i64::from(min_share));
        self.weights[peers].renew(&mut self.fairness_nano);
        let user =
            User { weight: peers as u32, min_share: min_share.into(), held: 0, demand: 0, dissatisfaction_nano: 0 };
        let ix = self.users.len() as u32;
        self.users.push(user);
        self.user_ix.insert(name.into(), ix);
        ix
    }

    /// Renews a user's dissatisfaction: how far below the min share, while there is demand.
    fn judge(&mut self, user: u32) {
        let user = &mut self.users[user as usize];
        if user.min_share == 0 {
            return;
        }
        let weight = self.weights[user.weight as usize].weight;
        let missing = if user.demand > 0 { (user.min_share - user.held).max(0) } else { 0 };
        let nano = (missing as f64 / user.min_share as f64 * weight * 1e9).round() as i64;
        self.dissatisfaction_nano += nano - user.dissatisfaction_nano;
        user.dissatisfaction_nano = nano;
    }
}

impl Weight {
    /// Renews the distance of these users from each other, alone and in the sum of all weights.
    fn renew(&mut self, fairness_nano: &mut i64) {
        let nano = self.extra.distances_nano();
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

    /// COSHH, section 5.1: a user at half its min share with weight 2 is dissatisfied by 1, while it wants more.
    #[test]
    fn dissatisfaction_is_the_weighted_distance_from_the_min_share() {
        let tenants = Tenants { users: vec![declared("a", 2.0, 4), declared("b", 1.0, 0)], pools: vec![] };
        let mut levels = Levels::new(&tenants);
        levels.began(Time(10 * S));
        let a = levels.user(Time(10 * S), "a");
        levels.wanted(Time(10 * S), a, 3);
        assert_eq!(levels.sums(Time(11 * S)).dissatisfaction(), Some(2.0));
        levels.busy(Time(11 * S), a, Kind::Map, 1);
        levels.busy(Time(11 * S), a, Kind::Reduce, 1);
        // One second at 2, one at 1.
        assert_eq!(levels.sums(Time(12 * S)).dissatisfaction(), Some(1.5));
        levels.wanted(Time(12 * S), a, -3);
        assert_eq!(levels.sums(Time(13 * S)).dissatisfaction(), Some(1.0));
    }

    /// COSHH, section 5.1: distances from the average extra share, among users of one weight.
    #[test]
    fn fairness_is_the_distance_from_peers() {
        let users = vec![declared("a", 1.0, 2), declared("b", 1.0, 0), declared("c", 3.0, 9)];
        let mut levels = Levels::new(&Tenants { users, pools: vec![] });
        levels.began(Time(0));
        // a is 2 below its min share, b at its own: each is 1 from their mean. c has no peers.
        assert_eq!(levels.sums(Time(S)).fairness(), Some(2.0));
        let a = levels.user(Time(S), "a");
        levels.busy(Time(S), a, Kind::Map, 1);
        levels.busy(Time(S), a, Kind::Map, 1);
        assert_eq!(levels.sums(Time(2 * S)).fairness(), Some(1.0));
        // Somebody who was not declared joins them.
        let d = levels.user(Time(2 * S), "d");
        levels.busy(Time(2 * S), d, Kind::Map, 1);
        let expected = (2.0 + 0.0 + 4.0 / 3.0) / 3.0;
        assert!((levels.sums(Time(3 * S)).fairness().unwrap() - expected).abs() < 1e-8);
    }

    #[test]
    fn utilisation_counts_only_slots_that_are_there() {
        let mut levels = Levels::new(&Tenants::default());
        levels.slots(Time(0), [2, 1]);
        levels.began(Time(5 * S));
        let user = levels.user(Time(5 * S), "a");
        levels.busy(Time(5 * S), user, Kind::Map, 1);
        levels.slots(Time(6 * S), [-1, -1]);
        let sums = levels.sums(Time(7 * S));
        assert_eq!(sums.utilisation(&[Kind::Map]), Some(2.0 / 3.0));
        assert_eq!(sums.utilisation(&[Kind::Reduce]), Some(0.0));
        assert_eq!(sums.utilisation(&Kind::BOTH), Some(0.5));
        assert_eq!(sums.length_s(), 2.0);
    }
}
