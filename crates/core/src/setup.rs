//! What a scheduler is made of: a policy, the tenants, the backend's capabilities and a seed. It is stored at the head of every event log.

use crate::action::PreemptAction;
use crate::policy::{Policy, PolicyError};
use crate::tenants::{Tenants, TenantsError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Everything that determines a scheduler's actions, apart from the events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The scheduling policy.
    pub policy: Policy,
    /// The users and pools that share the cluster.
    pub tenants: Tenants,
    /// What the backend can do.
    pub capabilities: Capabilities,
    /// Random seed.
    pub seed: u64,
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Run a given task on a given node, not only grant a slot to a job.
    pub bind_tasks: bool,
    /// Pause a reduce and resume it.
    pub pause_reduces: bool,
    /// End a map early and run the rest later.
    pub end_maps_early: bool,
    /// Store replicas on given nodes.
    pub place_replicas: bool,
    /// Kill an attempt so that another job gets its slot.
    pub kill_attempts: bool,
    /// Slots serve maps and reduces alike, as YARN's containers do. Nodes then have reduce slots only, the scheduler treats every slot that an open
    /// job requests or gets as a reduce slot, and the policy's `reduce` part applies to all of them; its `map` part is not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_slot_pool: bool,
    /// Grant a job no slot on the nodes that [`Cluster::node_refusals`](crate::Cluster::node_refusals) lists for it, where the backend grants
    /// slots itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuse_nodes: bool,
    /// A slot that an attempt leaves goes to its own pool again, as between YARN's queues. Attempts are then preempted
    /// for jobs of their own pool only, except for a pool that has starved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slots_stay_in_pool: bool,
}

impl Capabilities {
    /// A backend that can do everything.
    pub const ALL: Capabilities = Capabilities {
        bind_tasks: true,
        pause_reduces: true,
        end_maps_early: true,
        place_replicas: true,
        kill_attempts: true,
        one_slot_pool: false,
        refuse_nodes: false,
        slots_stay_in_pool: false,
    };
    /// A backend that can only follow an order of jobs.
    pub const ORDER_ONLY: Capabilities = Capabilities {
        bind_tasks: false,
        pause_reduces: false,
        end_maps_early: false,
        place_replicas: false,
        kill_attempts: false,
        one_slot_pool: false,
        refuse_nodes: false,
        slots_stay_in_pool: false,
    };

    fn can(self, action: PreemptAction) -> bool {
        match action {
            PreemptAction::Pause => self.pause_reduces,
            PreemptAction::EndEarly => self.end_maps_early,
            PreemptAction::Kill => self.kill_attempts,
        }
    }
}

/// Why a scheduler cannot be made of a setup.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SetupError {
    /// The tenants are not valid.
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    /// The policy is not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The backend cannot do what the policy needs.
    #[error("policy `{policy}` needs a backend that can {need}; choose another policy or another backend")]
    MissingCapability {
        /// The policy's name.
        policy: String,
        /// The missing capability.
        need: &'static str,
    },
}

impl Setup {
    /// A setup without declared tenants, for a backend that can do everything.
    pub fn new(policy: Policy) -> Setup {
        Setup { policy, tenants: Tenants::default(), capabilities: Capabilities::ALL, seed: 0 }
    }

    /// Checks that the policy is valid and that the backend can do what it needs.
    pub fn check(&self) -> Result<(), SetupError> {
        self.tenants.check()?;
        self.policy.check()?;
        self.check_capabilities()
    }

    fn check_capabilities(&self) -> Result<(), SetupError> {
        let (policy, able) = (&self.policy, self.capabilities);
        let missing = |need| Err(SetupError::MissingCapability { policy: policy.name.clone(), need });
        let lacks = |action: PreemptAction| policy.preempts_by(action, able.one_slot_pool) && !able.can(action);
        if lacks(PreemptAction::Pause) {
            return missing("pause a reduce and resume it");
        }
        if lacks(PreemptAction::EndEarly) {
            return missing("end a map early and run the rest later");
        }
        if policy.binds_tasks(able.one_slot_pool) && !able.bind_tasks {
            return missing("run a given task on a given node");
        }
        if policy.matches_nodes() && !able.bind_tasks && !able.refuse_nodes {
            return missing("run the tasks of a job on given nodes");
        }
        if lacks(PreemptAction::Kill) {
            return missing("kill a task so that another job gets its slot");
        }
        if policy.places_replicas() && !able.place_replicas {
            return missing("store replicas on given nodes");
        }
        Ok(())
    }
}
