//! Groups: pools, queues and users, their rights, and their order.
//!
//! One file per scheduler that defines groups. Jobs compete within their group; groups compete with their siblings.

mod capacity_queues;
mod fair_pools;
mod min_shares;
mod users;

pub use capacity_queues::UserUsage;
pub use min_shares::NOT_GUARANTEED;

use super::orders::Rank;
use crate::ids::{Kind, PerKind};
use crate::reason::GroupReason;
use crate::tenants::{Pool, Tenants};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The order in which groups of jobs get slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOrder {
    /// No groups: all jobs are in one queue.
    #[default]
    Flat,
    /// Pools below their min share first, then pools with the fewest slots for their weight (Hadoop's fair scheduler).
    FairPools,
    /// Pools below their min share first; otherwise all jobs are in one queue.
    MinShares,
    /// Queues with the least of their capacity in use first, up to their elastic limit (Hadoop's capacity scheduler).
    CapacityQueues,
    /// Users furthest below their min share first, then users with the fewest slots for their weight (COSHH, Algorithm 2).
    Users,
}

/// A pass over the groups in one order. All group orders have one, but COSHH's routing has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingStage {
    /// All jobs in one queue.
    Flat,
    /// Fair pools.
    FairPools,
    /// Pools below their min share.
    PoolsBelowMinShare,
    /// Capacity queues.
    CapacityQueues,
    /// Users below their min share, furthest first (COSHH, Algorithm 2, first loop).
    UsersBelowMinShare,
    /// Users by slots for their weight (COSHH, Algorithm 2, second loop).
    UsersByWeight,
}

/// Which declared tenant a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSource {
    /// Jobs are in the root.
    None,
    /// A job's pool or queue.
    Pool,
    /// A job's user, and below it the job's classes where jobs have some.
    User,
}

/// What a group is entitled to in a division of slots.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Slots are divided in proportion to it.
    pub weight: f64,
    /// Guaranteed slots.
    pub min: f64,
    /// The most slots it may have.
    pub max: f64,
}

/// A group: a pool, a queue, a user, or a user's jobs of one class.
#[derive(Debug)]
pub struct Group {
    /// Its name; empty for the root and for classes.
    pub name: Arc<str>,
    /// Share beyond the min share, in proportion to its siblings.
    pub weight: f64,
    /// Slots that are guaranteed by its declaration.
    pub min_share: u32,
    /// Slots that are guaranteed because it is behind its fair share (`lag.rs`); zero if it is not.
    pub due_share: u32,
    /// True if a pool inside it has guaranteed slots.
    pub guarantee_inside: bool,
    /// Its part of all slots (0-1).
    pub capacity: f64,
    /// The part of all slots it may grow to (0-1).
    pub max_capacity: f64,
    /// The part of the queue that one user may take while others wait (0-1).
    pub user_limit: f64,
    /// The classes of its jobs in COSHH's two classifications, if it is a user's jobs of one class.
    pub classes: Option<[Option<u16>; 2]>,
    /// Slots allocated to its jobs.
    pub allocated: u32,
    /// What each user has and needs of it. Kept for capacity queues only.
    pub users: FxHashMap<u32, UserUsage>,
    /// Users that have or need slots of it.
    pub active_users: u32,
}

impl GroupOrder {
    /// The passes it takes.
    pub fn stages(self) -> &'static [RoutingStage] {
        match self {
            GroupOrder::Flat => &[RoutingStage::Flat],
            GroupOrder::FairPools => &[RoutingStage::FairPools],
            GroupOrder::MinShares => &[RoutingStage::PoolsBelowMinShare, RoutingStage::Flat],
            GroupOrder::CapacityQueues => &[RoutingStage::CapacityQueues],
            GroupOrder::Users => &[RoutingStage::UsersBelowMinShare, RoutingStage::UsersByWeight],
        }
    }

    /// True if there are groups.
    pub fn has_groups(self) -> bool {
        self != GroupOrder::Flat
    }

    /// True if its groups are pools with a min share and a fair share.
    pub fn has_fair_pools(self) -> bool {
        self == GroupOrder::FairPools
    }

    /// True if its groups are users.
    pub fn is_by_user(self) -> bool {
        self == GroupOrder::Users
    }
}

impl RoutingStage {
    /// What its groups are.
    pub fn source(self) -> GroupSource {
        match self {
            RoutingStage::Flat => GroupSource::None,
            RoutingStage::FairPools | RoutingStage::PoolsBelowMinShare | RoutingStage::CapacityQueues => {
                GroupSource::Pool
            }
            RoutingStage::UsersBelowMinShare | RoutingStage::UsersByWeight => GroupSource::User,
        }
    }

    /// True if slots of `kind` count for a group in the queue for slots of `queue_kind`. Pools and queues have rights to each kind apart;
    /// a user's min share and share are slots of either kind (COSHH, sections 2.1 and 5.1).
    pub fn counts(self, queue_kind: Kind, kind: Kind) -> bool {
        match self.source() {
            GroupSource::None => false,
            GroupSource::Pool => queue_kind == kind,
            GroupSource::User => true,
        }
    }

    /// The rank of a group among its siblings, if it had `extra` more slots than it has; not yet distinct.
    pub fn rank(self, group: &Group, extra: i64) -> Rank {
        match self {
            RoutingStage::Flat => 0,
            RoutingStage::FairPools | RoutingStage::PoolsBelowMinShare => fair_pools::rank(group, extra),
            RoutingStage::CapacityQueues => capacity_queues::rank(group, extra),
            RoutingStage::UsersBelowMinShare => users::rank_below_min_share(group, extra),
            RoutingStage::UsersByWeight => users::rank_by_weight(group, extra),
        }
    }

    /// What the rank was computed from; `slots` is the number of all slots of the kind.
    pub fn reason(self, group: &Group, slots: u32) -> Option<GroupReason> {
        match self {
            RoutingStage::Flat => None,
            RoutingStage::FairPools | RoutingStage::PoolsBelowMinShare => Some(fair_pools::reason(group)),
            RoutingStage::CapacityQueues => Some(capacity_queues::reason(group, slots)),
            RoutingStage::UsersBelowMinShare => Some(users::reason_below_min_share(group)),
            RoutingStage::UsersByWeight => Some(users::reason_by_weight(group)),
        }
    }

    /// What a group is entitled to of the slots of a kind, given all slots: a queue to its capacity, others to their min share and weight.
    pub fn rights(self, group: &Group, kind: Kind, slots: PerKind<u32>) -> Rights {
        let of_kind = f64::from(slots[kind]);
        let Group { weight, min_share, .. } = *group;
        let min = f64::from(min_share);
        match self {
            RoutingStage::CapacityQueues => {
                Rights { weight: group.capacity.max(1e-9), min: 0.0, max: (group.max_capacity * of_kind).ceil() }
            }
            // A user's min share is of slots of either kind.
            RoutingStage::UsersBelowMinShare | RoutingStage::UsersByWeight => {
                let all = f64::from(slots.iter().sum::<u32>().max(1));
                Rights { weight, min: min * of_kind / all, max: f64::INFINITY }
            }
            _ => Rights { weight, min, max: f64::INFINITY },
        }
    }

    /// True if the group may get a slot in this pass; `slots` is the number of all slots of the kind.
    pub fn admits(self, group: &Group, slots: u32) -> bool {
        let in_pass = match self {
            RoutingStage::UsersBelowMinShare => users::is_below_min_share(group),
            RoutingStage::PoolsBelowMinShare => min_shares::admits(group),
            _ => true,
        };
        in_pass && group.may_grow(slots)
    }

    /// True if the jobs of an admitted group itself, not only of the groups inside it, may get a slot in this pass.
    pub fn serves_jobs_of(self, group: &Group) -> bool {
        self != RoutingStage::PoolsBelowMinShare || group.allocated < group.guaranteed()
    }

    /// True if a pool's min share comes before the ranks of jobs, also when slots are taken from others.
    pub fn is_guarantee(self) -> bool {
        self == RoutingStage::PoolsBelowMinShare
    }

    /// True if the pass keeps what each user has of a group.
    pub fn counts_users(self) -> bool {
        self == RoutingStage::CapacityQueues
    }
}

impl Group {
    /// A group without declared rights.
    pub fn undeclared(name: &str) -> Group {
        Group {
            name: name.into(),
            weight: 1.0,
            min_share: 0,
            due_share: 0,
            guarantee_inside: false,
            capacity: 1.0,
            max_capacity: 1.0,
            user_limit: 1.0,
            classes: None,
            allocated: 0,
            users: FxHashMap::default(),
            active_users: 0,
        }
    }

    /// A declared pool below its parent.
    pub fn pool(tenants: &Tenants, pool: &Pool, parent: &Group, kind: Kind) -> Group {
        let capacity = capacity_queues::declared_capacity(tenants, pool) * parent.capacity;
        Group {
            weight: pool.weight,
            min_share: match kind {
                Kind::Map => pool.min_maps,
                Kind::Reduce => pool.min_reduces,
            },
            capacity,
            max_capacity: (pool.max_capacity / 100.0 * parent.max_capacity).max(capacity),
            user_limit: pool.user_limit / 100.0,
            ..Group::undeclared(&pool.name)
        }
    }

    /// Its rank while its slots are guaranteed, if it had `extra` more; [`NOT_GUARANTEED`] otherwise.
    pub fn guaranteed_rank(&self, extra: i64) -> Rank {
        min_shares::guaranteed_rank(self, extra)
    }

    /// Slots that it gets before other groups.
    pub fn guaranteed(&self) -> u32 {
        self.min_share.max(self.due_share)
    }

    fn allocated_with(&self, extra: i64) -> f64 {
        (i64::from(self.allocated) + extra).max(0) as f64
    }

    /// True while its elastic limit lets it grow.
    pub fn may_grow(&self, slots: u32) -> bool {
        self.max_capacity >= 1.0 || f64::from(self.allocated) < (self.max_capacity * f64::from(slots)).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_count_slots_of_their_kind_and_users_slots_of_both() {
        for (stage, same_kind, other_kind) in [
            (RoutingStage::Flat, false, false),
            (RoutingStage::FairPools, true, false),
            (RoutingStage::PoolsBelowMinShare, true, false),
            (RoutingStage::CapacityQueues, true, false),
            (RoutingStage::UsersBelowMinShare, true, true),
            (RoutingStage::UsersByWeight, true, true),
        ] {
            assert_eq!(stage.counts(Kind::Map, Kind::Map), same_kind, "{stage:?}");
            assert_eq!(stage.counts(Kind::Map, Kind::Reduce), other_kind, "{stage:?}");
        }
    }

    #[test]
    fn a_pool_has_the_min_share_of_its_kind() {
        let tenants: Tenants = toml::from_str("[[pools]]\nname='a'\nmin_maps=3\nmin_reduces=5").unwrap();
        let min_share = |kind| Group::pool(&tenants, &tenants.pools[0], &Group::undeclared(""), kind).min_share;
        assert_eq!(Kind::BOTH.map(min_share), [3, 5]);
    }
}
