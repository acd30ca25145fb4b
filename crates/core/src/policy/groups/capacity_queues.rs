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
    let percent = (100.0 * f64::from(group.allocated) / capacity_slots).round() as u32;
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
    /// True while the user limit lets this user's jobs grow.
    pub fn admits_user(&self, user: u32, slots: u32) -> bool {
        if self.user_limit >= 1.0 {
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
