//! How evenly users are served: COSHH's dissatisfaction and fairness (section 5.1), which are their distances from their min shares and from each
//! other, and Jain's index over time.
//!
//! COSHH's are sampled whenever a job completes, as the paper does (section 5.2), and averaged over the samples. Jain's index compares the slots
//! that users had on average. A user counts while it has tasks that are pending or running: an idle user is neither dissatisfied nor treated
//! unfairly. An undeclared user has weight 1 and no min share.

use giveway_core::{Span, Tenants, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The slots and pending tasks of each user, and the samples so far.
#[derive(Clone, Debug)]
pub(super) struct UserShares {
    users: Vec<User>,
    user_ix: FxHashMap<String, u32>,
    /// Users with pending or running tasks.
    active: BTreeSet<u32>,
    samples: u64,
    dissatisfaction_sum: f64,
    fairness_sum: f64,
}

#[derive(Clone, Copy, Debug)]
struct User {
    weight: f64,
    min_share: i64,
    /// Slots that run its tasks, of both kinds.
    allocated: i64,
    /// Tasks that are pending.
    demand: i64,
    /// The integrals reach up to this time.
    until: Time,
    /// Time in which it had work.
    active_time: Span,
    /// Slot time that it received.
    slot_time: Span,
}

impl User {
    /// The weighted distance below the min share, while tasks are pending.
    fn dissatisfaction(&self) -> f64 {
        if self.demand == 0 || self.allocated >= self.min_share {
            return 0.0;
        }
        (self.min_share - self.allocated) as f64 / self.min_share as f64 * self.weight
    }

    /// Slots beyond the min share.
    fn excess(&self) -> f64 {
        (self.allocated - self.min_share) as f64
    }

    fn is_active(&self) -> bool {
        self.demand > 0 || self.allocated > 0
    }

    /// Adds the time since the last change to the integrals.
    fn advance(&mut self, now: Time) {
        let span = now.since(self.until);
        if self.is_active() {
            self.active_time += span;
            self.slot_time += span.times(self.allocated.max(0) as u64);
        }
        self.until = now;
    }
}

impl UserShares {
    pub(super) fn new(tenants: &Tenants) -> UserShares {
        let mut shares = UserShares {
            users: Vec::new(),
            user_ix: FxHashMap::default(),
            active: BTreeSet::new(),
            samples: 0,
            dissatisfaction_sum: 0.0,
            fairness_sum: 0.0,
        };
        for user in &tenants.users {
            shares.add_user(&user.name, user.weight, user.min_share);
        }
        shares
    }

    /// The index of a user; an unknown user is added.
    pub(super) fn user(&mut self, name: &str) -> u32 {
        self.user_ix.get(name).copied().unwrap_or_else(|| self.add_user(name, 1.0, 0))
    }

    /// Changes the number of a user's pending tasks.
    pub(super) fn change_demand(&mut self, now: Time, user: u32, change: i64) {
        self.change(now, user, |user| user.demand += change);
    }

    /// Changes the number of slots that a user occupies.
    pub(super) fn change_allocated(&mut self, now: Time, user: u32, change: i64) {
        self.change(now, user, |user| user.allocated += change);
    }

    fn change(&mut self, now: Time, ix: u32, change: impl FnOnce(&mut User)) {
        let user = &mut self.users[ix as usize];
        let was_active = user.is_active();
        user.advance(now);
        change(user);
        match (was_active, user.is_active()) {
            (false, true) => _ = self.active.insert(ix),
            (true, false) => _ = self.active.remove(&ix),
            _ => {}
        }
    }

    /// Takes a sample. Call when a job has completed.
    pub(super) fn sample(&mut self) {
        self.samples += 1;
        // Fairness compares only users of the same weight: for each weight, the number of users and the sum of their excess.
        let mut weights: Vec<(f64, f64, f64)> = Vec::new();
        for user in self.active.iter().map(|user| self.users[*user as usize]) {
            self.dissatisfaction_sum += user.dissatisfaction();
            match weights.iter_mut().find(|(weight, ..)| *weight == user.weight) {
                Some((_, count, sum)) => (*count, *sum) = (*count + 1.0, *sum + user.excess()),
                None => weights.push((user.weight, 1.0, user.excess())),
            }
        }
        for user in self.active.iter().map(|user| self.users[*user as usize]) {
            if let Some((_, count, sum)) = weights.iter().find(|(weight, ..)| *weight == user.weight) {
                self.fairness_sum += (user.excess() - sum / count).abs();
            }
        }
    }

    /// Mean over the samples of the sum of the users' dissatisfaction; 0 if every min share was met.
    pub(super) fn dissatisfaction(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.dissatisfaction_sum / self.samples as f64)
    }

    /// Mean over the samples of the sum of the users' deviations from their peers; 0 is fair.
    pub(super) fn fairness(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.fairness_sum / self.samples as f64)
    }

    /// Jain's index of the slots, per weight, that users had on average while they had work: 1 if all had the same, and 1/n if one of n had all. A user that has
    /// work at the end counts up to its last change.
    pub(super) fn jain_index(&self) -> Option<f64> {
        let rates = || {
            let worked = self.users.iter().filter(|user| user.active_time > Span::ZERO);
            worked.map(|user| user.slot_time.as_secs_f64() / user.active_time.as_secs_f64() / user.weight)
        };
        let (sum, squares) = (rates().sum::<f64>(), rates().map(|rate| rate * rate).sum::<f64>());
        (squares > 0.0).then(|| sum * sum / (rates().count() as f64 * squares))
    }

    fn add_user(&mut self, name: &str, weight: f64, min_share: u32) -> u32 {
        let ix = self.users.len() as u32;
        self.users.push(User {
            weight,
            min_share: min_share.into(),
            allocated: 0,
            demand: 0,
            until: Time::ZERO,
            active_time: Span::ZERO,
            slot_time: Span::ZERO,
        });
        self.user_ix.insert(name.into(), ix);
        ix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::User as Declared;

    fn shares(users: &[(&str, f64, u32)]) -> UserShares {
        let declared =
            |&(name, weight, min_share): &(&str, f64, u32)| Declared { name: name.into(), weight, min_share };
        UserShares::new(&Tenants { users: users.iter().map(declared).collect(), pools: vec![] })
    }

    /// COSHH, section 5.1: a user at half its min share with weight 2 has dissatisfaction 1, while tasks are pending.
    #[test]
    fn dissatisfaction_is_the_weighted_distance_from_the_min_share() {
        let mut shares = shares(&[("a", 2.0, 4), ("b", 1.0, 0)]);
        assert_eq!(shares.dissatisfaction(), None);
        let a = shares.user("a");
        shares.change_demand(Time::ZERO, a, 3);
        shares.sample();
        assert_eq!(shares.dissatisfaction(), Some(2.0));
        shares.change_allocated(Time::ZERO, a, 2);
        shares.sample();
        assert_eq!(shares.dissatisfaction(), Some(1.5), "the mean of 2 and 1");
        shares.change_demand(Time::ZERO, a, -3);
        shares.sample();
        assert_eq!(shares.dissatisfaction(), Some(1.0), "nothing is pending at the third sample");
    }

    /// COSHH, section 5.1: deviations from the mean excess over the min share, among users of one weight.
    #[test]
    fn fairness_is_the_deviation_from_peers_that_have_work() {
        let mut shares = shares(&[("a", 1.0, 2), ("b", 1.0, 0), ("c", 3.0, 9)]);
        shares.sample();
        assert_eq!(shares.fairness(), Some(0.0), "an empty cluster is fair");
        let [a, b, c] = ["a", "b", "c"].map(|name| shares.user(name));
        shares.change_demand(Time::ZERO, a, 5);
        shares.change_demand(Time::ZERO, c, 5);
        shares.sample();
        assert_eq!(shares.fairness(), Some(0.0), "neither has a peer with work");
        // a is 2 below its min share, b has one slot above it: each deviates by 1.5 from their mean.
        shares.change_allocated(Time::ZERO, b, 1);
        shares.sample();
        assert_eq!(shares.fairness(), Some(1.0));
    }

    #[test]
    fn jain_index_compares_mean_slots_while_users_have_work() {
        let mut shares = shares(&[("a", 1.0, 0), ("b", 2.0, 0), ("c", 1.0, 0)]);
        assert_eq!(shares.jain_index(), None);
        let [a, b] = ["a", "b"].map(|name| shares.user(name));
        let at = |secs: u64| Time::ZERO + Span::from_secs(secs);
        // a waits for 10 s and has 4 slots for 10 s: 2 on average. b, of weight 2, has 4 slots all the time.
        shares.change_demand(at(5), a, 4);
        shares.change_demand(at(15), a, -4);
        shares.change_allocated(at(15), a, 4);
        shares.change_allocated(at(25), a, -4);
        shares.change_allocated(at(30), b, 4);
        shares.change_allocated(at(40), b, -4);
        assert_eq!(shares.jain_index(), Some(1.0), "c had no work");
        let c = shares.user("c");
        shares.change_demand(at(50), c, 1);
        shares.change_demand(at(60), c, -1);
        assert_eq!(shares.jain_index(), Some(16.0 / (3.0 * 8.0)), "c got nothing");
    }
}
