//! Which pending map of a job a node may run.

use super::job::Job;
use super::pending_maps::PendingMaps;
use super::racks::Racks;
use super::task::Task;
use crate::event::Split;
use crate::ids::{Kind, NodeId, TaskKey};
use crate::units::Time;
use smallvec::SmallVec;

impl Job {
    /// A pending map with input on a node. It takes `&mut self` because the index drops launched maps when it meets them.
    pub(crate) fn node_local_map(&mut self, node: NodeId, racks: &Racks, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, tasks, splits, accepts| {
            maps.on_node(node, racks.node_count(), tasks, splits, accepts)
        })
    }

    /// The nodes with input of a map on which certainly no pending map has input.
    pub(crate) fn nodes_without_pending_maps(&mut self, map: u32) -> SmallVec<[NodeId; 4]> {
        let hosts = &self.splits[self.tasks[Kind::Map][map as usize].split as usize].hosts;
        hosts.iter().copied().filter(|&host| !self.pending_maps.may_be_on_node(host)).collect()
    }

    /// A pending map with input in the rack of a node.
    pub(crate) fn rack_local_map(&mut self, node: NodeId, racks: &Racks, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, tasks, splits, accepts| {
            maps.in_rack(racks.of(node), racks, tasks, splits, accepts)
        })
    }

    /// The pending map for a node that failed or was lost first.
    pub(crate) fn failed_map(&mut self, node: NodeId, now: Time) -> Option<u32> {
        if self.failed_on.is_empty() && !self.has_lost_work {
            return None;
        }
        let histories = &self.histories;
        let has_failed = |map: u32| {
            let history = histories.get(&TaskKey::map(map));
            history.is_some_and(|history| {
                let is_lost = history.lost_with.is_some();
                (history.failures > 0 || is_lost) && !history.prefers_elsewhere(node, now)
            })
        };
        self.pending_maps.first_returned(&has_failed)
    }

    /// Any pending map for a node.
    pub(crate) fn any_pending_map(&mut self, node: NodeId, now: Time) -> Option<u32> {
        self.search_maps(node, now, |maps, _, _, accepts| maps.any(accepts))
    }

    /// True if [`Job::take_returned_splits`] has something to report.
    #[inline]
    pub(crate) fn has_newly_returned_maps(&self) -> bool {
        self.pending_maps.has_newly_returned()
    }

    /// The splits of the maps that have become pending again, or were added as the rest of another, since the last call.
    pub(crate) fn take_returned_splits(&mut self) -> impl Iterator<Item = &Split> {
        let maps = self.pending_maps.take_newly_returned();
        maps.into_iter().map(|map| &self.splits[self.tasks[Kind::Map][map as usize].split as usize])
    }

    /// Searches the pending maps. Of those that have run before, only those that do not prefer another node are accepted.
    fn search_maps(
        &mut self,
        node: NodeId,
        now: Time,
        search: impl FnOnce(&mut PendingMaps, &[Task], &[Split], &dyn Fn(u32) -> bool) -> Option<u32>,
    ) -> Option<u32> {
        let maps = &self.tasks[Kind::Map];
        let histories = &self.histories;
        let accepts = |map: u32| {
            let history = if maps[map as usize].has_history { histories.get(&TaskKey::map(map)) } else { None };
            history.is_none_or(|history| !history.prefers_elsewhere(node, now))
        };
        search(&mut self.pending_maps, maps, &self.splits, &accepts)
    }
}
