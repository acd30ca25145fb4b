//! Queues of Hadoop's capacity scheduler: those with the least of their capacity in use first, up to an elastic limit, with a limit for
//! each user while several users wait.

use super::Group;
use crate::policy::orders::{Rank, ratio};
use crate::reason::{GroupKind, GroupMeasure, GroupReason};
use crate::tenants::{Pool, Tenants};

/// What a user has and needs of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserUsage {
    allocated: u32,
    /// Jobs that need a slot.
    waiting_jobs: u32,
}

pub(super) fn rank(group: &Group, extra: i64) -> Rank {
    ratio(group.allocated_with(extra), group.capacity)
}

pub(super) fn reason(group: &Group, slots: u32) -> GroupReason {
    let capacity_slots = group.capacity * f64::from(slots.max(1));
    let percent = (100.0 * f64::from(group.allocated) / capacity_slots + 0.5) as u32;
    GroupReason { kind: GroupKind::Queue, name: group.name.clone(), measure: GroupMeasure::CapacityUsed { percent } }
}

/// A queue's part of its parent (0-1). Queues that declare none share what their siblings leave; at least 1 %, so that they can be ranked.
pub(super) fn declared_capacity(tenants: &Tenants, pool: &Pool) -> f64 {
    let siblings = tenants.pools.iter().filter(|other| other.parent == pool.parent);
    let declared: f64 = siblings.clone().filter_map(|other| other.capacity).sum();
    let undeclared = siblings.filter(|other| other.capacity.is_none()).count().max(1) as f64;
    pool.capacity.unwrap_or(((100.0 - declared) / undeclared).max(1.0)) / 100.0
}

impl Group {
    /// True if not every user may have all of it.
    pub fn limits_users(&self) -> bool {
        self.user_limit < 1.0
    }

    /// True while the user limit lets this user's jobs grow.
    pub fn admits_user(&self, user: u32, slots: u32) -> bool {
        if !self.limits_users() {
            return true;
        }
        let allocated = self.users.get(&user).map_or(0, |usage| usage.allocated);
        let queue = (self.capacity * f64::from(slots)).max(f64::from(self.allocated));
        let part = self.user_limit.max(1.0 / f64::from(self.active_users.max(1)));
        f64::from(allocated) < (queue * part).ceil().max(1.0)
    }

    /// Changes what a user has and needs of the queue.
    pub fn count_user(&mut self, user: u32, allocated: i64, waiting_jobs: i64) {
        let usage = self.users.entry(user).or_default();
        let was_active = usage.allocated + usage.waiting_jobs > 0;
        usage.allocated = (i64::from(usage.allocated) + allocated) as u32;
        usage.waiting_jobs = (i64::from(usage.waiting_jobs) + waiting_jobs) as u32;
        let is_active = usage.allocated + usage.waiting_jobs > 0;
        self.active_users = (i64::from(self.active_users) + i64::from(is_active) - i64::from(was_active)) as u32;
        if !is_active {
            self.users.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Kind;

    fn queue(capacity: f64, allocated: u32) -> Group {
        Group { capacity, allocated, ..Group::undeclared("etl") }
    }

    fn tenants(text: &str) -> Tenants {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn queues_rank_by_the_part_of_their_capacity_in_use() {
        // Of 16 slots: 5 of 12, 2 of 4, 9 of 12, 4 of 4.
        let ranks = [queue(0.75, 5), queue(0.25, 2), queue(0.75, 9), queue(0.25, 4)].map(|queue| rank(&queue, 0));
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(rank(&queue(0.25, 2), 1), rank(&queue(0.75, 9), 0), "3 of 4 is 9 of 12");
        assert_eq!(reason(&queue(0.75, 9), 16).measure, GroupMeasure::CapacityUsed { percent: 75 });
    }

    #[test]
    fn undeclared_capacities_share_what_siblings_leave() {
        let tenants = tenants(
            "[[pools]]\nname='a'\ncapacity=60\n[[pools]]\nname='b'\n[[pools]]\nname='c'\n\
             [[pools]]\nname='a1'\nparent='a'\ncapacity=100\n[[pools]]\nname='a2'\nparent='a'",
        );
        let capacities: Vec<f64> = tenants.pools.iter().map(|pool| declared_capacity(&tenants, pool)).collect();
        assert_eq!(capacities, [0.6, 0.2, 0.2, 1.0, 0.01]);
    }

    #[test]
    fn capacities_of_nested_queues_multiply() {
        let tenants = tenants(
            "[[pools]]\nname='a'\ncapacity=50\nmax_capacity=80\n\
             [[pools]]\nname='a1'\nparent='a'\ncapacity=50\nmax_capacity=50\n\
             [[pools]]\nname='a2'\nparent='a'\ncapacity=50\nmax_capacity=10",
        );
        let root = Group::undeclared("");
        let parent = Group::pool(&tenants, &tenants.pools[0], &root, Kind::Map);
        let child = |at: usize| Group::pool(&tenants, &tenants.pools[at], &parent, Kind::Map);
        assert_eq!((child(1).capacity, child(1).max_capacity), (0.25, 0.4));
        assert_eq!(
            (child(2).capacity, child(2).max_capacity),
            (0.25, 0.25),
            "a limit below the capacity is raised to it"
        );
    }

    #[test]
    fn a_queue_grows_up_to_its_max_capacity() {
        let queue = |allocated| Group { max_capacity: 0.5, ..queue(0.25, allocated) };
        assert!(queue(3).may_grow(8));
        assert!(!queue(4).may_grow(8));
        assert!(queue(4).may_grow(9), "half of nine slots is rounded up");
    }

    /// A queue with a user limit of 25 % whose users have these slots and one job each that needs another.
    fn limited(capacity: f64, allocated: &[u32]) -> Group {
        let mut queue = Group { user_limit: 0.25, ..queue(capacity, allocated.iter().sum()) };
        for (user, &slots) in (0..).zip(allocated) {
            queue.count_user(user, i64::from(slots), 1);
        }
        queue
    }

    #[test]
    fn active_users_get_equal_parts_but_at_least_the_user_limit() {
        assert!(limited(1.0, &[7]).admits_user(0, 8), "a single user may have the whole queue");
        assert!(limited(1.0, &[3, 0]).admits_user(0, 8));
        assert!(!limited(1.0, &[4, 0]).admits_user(0, 8), "two users: four of eight slots each");
        assert!(limited(1.0, &[1, 0, 0, 0, 0]).admits_user(0, 8));
        assert!(!limited(1.0, &[2, 0, 0, 0, 0]).admits_user(0, 8), "five users: the limit of 25 % is two slots");
        // Four slots are the queue's own, but it has grown to six: half of those each.
        assert!(limited(0.5, &[2, 4]).admits_user(0, 8));
        assert!(!limited(0.5, &[3, 3]).admits_user(0, 8));
    }

    #[test]
    fn users_are_active_while_they_have_or_need_slots() {
        let mut queue = limited(1.0, &[1, 0]);
        assert_eq!(queue.active_users, 2);
        queue.count_user(0, 0, -1);
        assert_eq!(queue.active_users, 2, "user 0 still has a slot");
        queue.count_user(0, -1, 0);
        queue.count_user(1, 0, -1);
        assert_eq!((queue.active_users, queue.users.len()), (0, 0));
    }
}
