//! Users in COSHH's routing (Algorithm 2): first those below their min share, then all by slots for their weight. Below a user its jobs are
//! grouped by class, so that a node can pass over the classes it is not suggested.

use super::Group;
use crate::policy::orders::{Rank, milli, ratio};
use crate::reason::{GroupKind, GroupMeasure, GroupReason};

/// Largest (min share - allocated) x weight first: the complement of the distance ranks it.
pub(super) fn rank_below_min_share(group: &Group, extra: i64) -> Rank {
    let missing = (f64::from(group.min_share) - group.allocated_with(extra)).max(0.0);
    Rank::from(u64::MAX) - ratio(missing * group.weight, 1.0)
}

/// Smallest allocated / weight first.
pub(super) fn rank_by_weight(group: &Group, extra: i64) -> Rank {
    1 << 64 | ratio(group.allocated_with(extra), group.weight)
}

/// Classes are passed through; only users have a min share.
pub(super) fn is_below_min_share(group: &Group) -> bool {
    group.classes.is_some() || group.allocated < group.min_share
}

pub(super) fn reason_below_min_share(group: &Group) -> GroupReason {
    let measure = GroupMeasure::BelowMinShare { allocated: group.allocated, min_share: group.min_share };
    GroupReason { kind: GroupKind::User, name: group.name.clone(), measure }
}

pub(super) fn reason_by_weight(group: &Group) -> GroupReason {
    let measure = GroupMeasure::SlotsOverWeight { allocated: group.allocated, weight_milli: milli(group.weight) };
    GroupReason { kind: GroupKind::User, name: group.name.clone(), measure }
}
