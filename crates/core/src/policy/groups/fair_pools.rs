//! Pools of Hadoop's fair scheduler: those below their min share first, then those with the fewest slots for their weight.

use super::Group;
use crate::policy::orders::{Rank, milli, ratio};
use crate::reason::{GroupKind, GroupMeasure, GroupReason};

pub(super) fn rank(group: &Group, extra: i64) -> Rank {
    // The slot that completes the min share is still a guaranteed one.
    let guaranteed = i64::from(group.allocated) + extra.min(0) < i64::from(group.guaranteed());
    if guaranteed {
        ratio(group.allocated_with(extra), f64::from(group.guaranteed()))
    } else {
        1 << 64 | ratio(group.allocated_with(extra), group.weight)
    }
}

pub(super) fn reason(group: &Group) -> GroupReason {
    let Group { allocated, min_share, due_share, .. } = *group;
    let measure = if allocated < min_share {
        GroupMeasure::BelowMinShare { allocated, min_share }
    } else if allocated < due_share {
        GroupMeasure::BehindFairShare { allocated, due: due_share }
    } else {
        GroupMeasure::SlotsOverWeight { allocated, weight_milli: milli(group.weight) }
    };
    GroupReason { kind: GroupKind::Pool, name: group.name.clone(), measure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(weight: f64, min_share: u32, allocated: u32) -> Group {
        Group { weight, min_share, allocated, ..Group::undeclared("etl") }
    }

    #[test]
    fn pools_below_their_min_share_rank_first_by_the_fraction_they_have() {
        // 1 of 4 guaranteed slots, 3 of 6, then the pools without a claim: 0, 6 / 3 and 3 / 1 slots for their weight.
        let pools = [pool(1.0, 4, 1), pool(1.0, 6, 3), pool(1.0, 0, 0), pool(3.0, 2, 6), pool(1.0, 3, 3)];
        let ranks = pools.map(|pool| rank(&pool, 0));
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn the_slot_that_completes_the_min_share_is_guaranteed() {
        let without_claim = rank(&pool(1.0, 0, 0), 0);
        assert!(rank(&pool(1.0, 4, 3), 1) < without_claim, "the fourth of four slots");
        assert!(rank(&pool(1.0, 4, 4), 0) > without_claim, "a fifth slot is not guaranteed");
        assert_eq!(rank(&pool(1.0, 4, 4), -1), rank(&pool(1.0, 4, 3), 0));
    }

    #[test]
    fn the_reason_is_the_min_share_or_the_weight() {
        assert_eq!(reason(&pool(2.5, 4, 3)).measure, GroupMeasure::BelowMinShare { allocated: 3, min_share: 4 });
        let by_weight = GroupMeasure::SlotsOverWeight { allocated: 4, weight_milli: 2_500 };
        assert_eq!(reason(&pool(2.5, 4, 4)).measure, by_weight);
    }
}
