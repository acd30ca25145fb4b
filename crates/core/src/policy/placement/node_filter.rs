//! Filters of nodes that a program of one's own brings ([`Custom`]).

use crate::ids::{Kind, NodeId};
use crate::policy::custom::{Custom, Part, Registry};
use crate::state::{Job, NodeTable};
use std::sync::{Arc, OnceLock};

/// Which nodes the tasks of a job may use.
///
/// ```
/// use giveway_core::policy::placement::NodeFilter;
/// use giveway_core::state::{Job, NodeTable};
/// use giveway_core::{Kind, NodeId};
///
/// /// Leaves the nodes of the first rack to jobs of at most 100 maps.
/// struct FirstRackForSmallJobs;
///
/// impl NodeFilter for FirstRackForSmallJobs {
///     fn accepts(&self, job: &Job, _: Kind, node: NodeId, nodes: &NodeTable) -> bool {
///         nodes.get(node).spec().rack.0 != 0 || job.total(Kind::Map) <= 100
///     }
/// }
/// ```
pub trait NodeFilter: Send + Sync {
    /// True if a task of the job may run on the node. It must follow from the arguments alone. A paused reduce may always resume on its node, and a job that
    /// accepts no node waits for ever.
    fn accepts(&self, job: &Job, kind: Kind, node: NodeId, nodes: &NodeTable) -> bool;
}

/// A filter as part of a policy.
pub type CustomNodeFilter = Custom<dyn NodeFilter>;

static REGISTERED: Registry<dyn NodeFilter> = OnceLock::new();

impl Part for dyn NodeFilter {
    const NAME: &'static str = "node filter";

    fn registry() -> &'static Registry<dyn NodeFilter> {
        &REGISTERED
    }

    fn built_in() -> &'static [&'static str] {
        &[]
    }
}

impl CustomNodeFilter {
    /// A filter. Its version changes whenever it would accept other nodes.
    pub fn new(name: &str, version: &str, filter: impl NodeFilter + 'static) -> CustomNodeFilter {
        Custom::of(name, version, Arc::new(filter))
    }
}
