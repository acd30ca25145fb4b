//! A filter of nodes: one rack is for small jobs.

use giveway_core::policy::placement::NodeFilter;
use giveway_core::state::{Job, NodeTable};
use giveway_core::{Kind, NodeId, RackId};

/// Leaves the nodes of the first rack to jobs of few maps, so that these find free slots at once.
pub struct SmallJobsRack;

const RACK: RackId = RackId(0);
const MOST_MAPS: u32 = 10;

impl NodeFilter for SmallJobsRack {
    fn accepts(&self, job: &Job, _: Kind, node: NodeId, nodes: &NodeTable) -> bool {
        nodes.get(node).spec().rack != RACK || job.total(Kind::Map) <= MOST_MAPS
    }
}
