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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::groups::RoutingStage;

    fn user(weight: f64, min_share: u32, allocated: u32) -> Group {
        Group { weight, min_share, allocated, ..Group::undeclared("ann") }
    }

    #[test]
    fn the_user_with_the_largest_weighted_distance_to_its_min_share_ranks_first() {
        // (min share - allocated) x weight: 9, 6, 4, 0.
        let users = [user(3.0, 3, 0), user(1.0, 7, 1), user(2.0, 4, 2), user(9.0, 2, 2)];
        let ranks = users.map(|user| rank_below_min_share(&user, 0));
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(
            rank_below_min_share(&user(3.0, 3, 0), 1),
            rank_below_min_share(&user(1.0, 7, 1), 0),
            "2 x 3 is 6 x 1"
        );
    }

    #[test]
    fn the_second_pass_ranks_users_by_slots_for_their_weight() {
        // Allocated / weight: 1, 1.5, 2.
        let ranks = [user(4.0, 0, 4), user(2.0, 0, 3), user(1.0, 0, 2)].map(|user| rank_by_weight(&user, 0));
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn the_first_pass_admits_only_users_below_their_min_share_and_their_classes() {
        let admits = |group: &Group| RoutingStage::UsersBelowMinShare.admits(group, 8);
        assert!(admits(&user(1.0, 2, 1)));
        assert!(!admits(&user(1.0, 2, 2)));
        assert!(admits(&Group { classes: Some([None, Some(0)]), ..user(1.0, 0, 5) }));
        assert!(RoutingStage::UsersByWeight.admits(&user(1.0, 2, 2), 8));
    }
}
