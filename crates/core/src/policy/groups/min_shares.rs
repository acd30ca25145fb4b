//! Min shares before one common queue: a pool below its min share is served first, and slots of the min share are not taken away; beyond
//! that, all jobs compete in one queue, whatever their pools.

use super::{Group, fair_pools};
use crate::policy::orders::Rank;

/// The least rank of a pool that has its min share.
pub const NOT_GUARANTEED: Rank = 1 << 64;

/// True if a pool, or one inside it, may be below its min share. A parent without a min share of its own is passed through.
pub(super) fn admits(group: &Group) -> bool {
    group.allocated < group.guaranteed() || group.guarantee_inside
}

/// The rank of a pool while its slots are guaranteed, if it had `extra` more; the same for all other pools.
pub(super) fn guaranteed_rank(group: &Group, extra: i64) -> Rank {
    fair_pools::rank(group, extra).min(NOT_GUARANTEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(min_share: u32, allocated: u32) -> Group {
        Group { min_share, allocated, ..Group::undeclared("etl") }
    }

    #[test]
    fn only_pools_below_their_min_share_are_admitted() {
        assert!(admits(&pool(2, 1)));
        assert!(!admits(&pool(2, 2)));
        assert!(!admits(&pool(0, 0)));
        assert!(admits(&Group { guarantee_inside: true, ..pool(0, 5) }));
    }

    #[test]
    fn pools_with_their_min_share_are_equal() {
        assert!(guaranteed_rank(&pool(4, 1), 0) < guaranteed_rank(&pool(4, 2), 0));
        assert!(guaranteed_rank(&pool(4, 3), 1) < NOT_GUARANTEED, "the slot that completes the min share");
        assert_eq!(guaranteed_rank(&pool(4, 4), 0), NOT_GUARANTEED);
        assert_eq!(guaranteed_rank(&pool(0, 9), 0), guaranteed_rank(&pool(0, 1), 0));
    }
}
