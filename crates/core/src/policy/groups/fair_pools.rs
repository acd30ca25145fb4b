//! Pools of Hadoop's fair scheduler: those below their min share first, then those with the fewest slots for their weight.

use super::Group;
use crate::policy::orders::{Rank, milli, ratio};
use crate::reason::{GroupKind, GroupMeasure, GroupReason};

pub(super) fn rank(group: &Group, extra: i64) -> Rank {
    // The slot that completes the min share is still a guaranteed one.
    let guaranteed = i64::from(group.allocated) + extra.min(0) < i64::from(group.min_share);
    if guaranteed {
        ratio(group.allocated_with(extra), f64::from(group.min_share))
    } else {
        1 << 64 | ratio(group.allocated_with(extra), group.weight)
    }
}

pub(super) fn reason(group: &Group) -> GroupReason {
    let Group { allocated, min_share, .. } = *group;
    let measure = if allocated < min_share {
        GroupMeasure::BelowMinShare { allocated, min_share }
    } else {
        GroupMeasure::SlotsOverWeight { allocated, weight_milli: milli(group.weight) }
    };
    GroupReason { kind: GroupKind::Pool, name: group.name.clone(), measure }
}
