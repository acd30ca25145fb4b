//! What a scheduler is made of: a policy, the tenants, what the body can do, and a seed. The head of every event log.

use crate::policy::{
    GroupOrder, JobOrder, Migration, Policy, PreemptAction, PreemptionTrigger, Recovery, Share, SlotPolicy, VictimOrder,
};
use crate::tenants::{Tenants, TenantsError};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Everything that decides how a scheduler answers, beside the events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The rules.
    pub policy: Policy,
    /// Who shares the cluster.
    pub tenants: Tenants,
    /// What the body can do.
    pub capabilities: Capabilities,
    /// Where random choices begin.
    pub seed: u64,
}

/// What a body can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Run a given task on a given node (not only grant a slot to a job).
    pub bind_tasks: bool,
    /// Pause a reduce and resume it.
    pub pause_reduces: bool,
    /// End a map early and run the rest later.
    pub end_maps_early: bool,
    /// Keep replicas where the core asks.
    pub place_replicas: bool,
    /// Kill an attempt that gives way.
    #[serde(default = "yes")]
    pub kill_attempts: bool,
}

/// What older event logs, written before a body could say otherwise, mean.
fn yes() -> bool {
    true
}

impl Capabilities {
    /// A body that can do everything.
    pub const ALL: Capabilities = Capabilities {
        bind_tasks: true,
        pause_reduces: true,
        end_maps_early: true,
        place_replicas: true,
        kill_attempts: true,
    };
    /// A body that can be told an order of jobs and nothing else.
    pub const ORDER_ONLY: Capabilities = Capabilities {
        bind_tasks: false,
        pause_reduces: false,
        end_maps_early: false,
        place_replicas: false,
        kill_attempts: false,
    };
}

/// Why a scheduler cannot be made of a setup.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SetupError {
    /// The tenants make no sense.
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    /// The policy makes no sense.
    #[error("policy `{policy}`, {part}: {problem}")]
    Policy {
        /// Its name.
        policy: String,
        /// Which part of it.
        part: String,
        /// What is wrong and what to write instead.
        problem: String,
    },
    /// The body cannot do what the policy needs.
    #[error("policy `{policy}` needs a body that can {need}; choose another policy, or another body")]
    Unable {
        /// Its name.
        policy: String,
        /// What it needs.
        need: &'static str,
    },
}

impl Setup {
    /// A setup with nobody declared, for a body that can do everything.
    pub fn new(policy: Policy) -> Setup {
        Setup { policy, tenants: Tenants::default(), capabilities: Capabilities::ALL, seed: 0 }
    }

    /// Checks that the parts fit each other and the body.
    pub fn check(&self) -> Result<(), SetupError> {
        self.tenants.check()?;
        self.check_policy()?;
        self.check_capabilities()
    }

    fn check_capabilities(&self) -> Result<(), SetupError> {
        let able = self.capabilities;
        let unable = |need| Err(SetupError::Unable { policy: self.policy.name.clone(), need });
        if self.policy.pauses_reduces() && !able.pause_reduces {
            return unable("pause a reduce and resume it");
        }
        if self.policy.ends_maps_early() && !able.end_maps_early {
            return unable("end a map early and run the rest later");
        }
        let binds = self.policy.failure == Recovery::Chronos
            || self.policy.matching.is_some()
            || self.policy.speculation.is_some();
        if binds && !able.bind_tasks {
            return unable("run a given task on a given node");
        }
        if self.policy.kills() && !able.kill_attempts {
            return unable("kill a task so that another job gets its slot");
        }
        if self.policy.matching.is_some_and(|matching| matching.place_replicas) && !able.place_replicas {
            return unable("keep replicas where they are asked for");
        }
        Ok(())
    }

    fn check_policy(&self) -> Result<(), SetupError> {
        let policy = &self.policy;
        let wrong = |part: &str, problem: &str| {
            Err(SetupError::Policy { policy: policy.name.clone(), part: part.into(), problem: problem.into() })
        };
        if policy.renew < Span::from_millis(100) {
            return wrong("renew", "shorter than 100 ms; write \"1s\" or longer");
        }
        if policy.prior.map.is_zero() || policy.prior.reduce.is_zero() {
            return wrong("prior", "a task cannot last no time; write \"1s\" or longer");
        }
        if let Some(matching) = policy.matching {
            if !(matching.fit > 1.0 && matching.fit.is_finite()) {
                return wrong("matching.fit", "must be over 1; 2 lets rates differ by a factor of two");
            }
            if matching.history_interval_jobs == 0 {
                return wrong("matching.history_interval_jobs", "must be at least 1");
            }
            if policy.map.groups != GroupOrder::Users || policy.reduce.groups != GroupOrder::Users {
                return wrong("matching", "works on users; set groups = \"users\" in both lanes");
            }
        }
        if let Some(speculation) = policy.speculation
            && !(speculation.rate_below > 0.0 && speculation.rate_below < 1.0)
        {
            return wrong("speculation.rate_below", "must lie between 0 and 1");
        }
        for (name, lane) in [("map", &policy.map), ("reduce", &policy.reduce)] {
            if let Err(problem) = check_lane(name, lane) {
                return wrong(name, &problem);
            }
        }
        Ok(())
    }
}

fn check_lane(name: &str, lane: &SlotPolicy) -> Result<(), String> {
    if lane.order == JobOrder::SlotsOverShare && !lane.share.follows_remaining() {
        let remedy = "needs share = \"inverse-remaining\"; to rank by weight, write \"held-over-weight\"";
        return Err(format!("order = \"held-over-share\" {remedy}"));
    }
    if lane.placement.max_tasks_per_offer == Some(0) {
        return Err("placement.max_tasks_per_offer = 0 would start nothing; leave it out for no limit".into());
    }
    if lane.placement.max_off_rack_per_offer == Some(0) {
        return Err(
            "placement.max_off_rack_per_offer = 0 would starve jobs without local data; write at least 1".into()
        );
    }
    if let Migration::ForLocality(locality) = lane.placement.migrate
        && !(0.0..1.0).contains(&locality)
    {
        return Err("placement.migrate.for-locality must be at least 0 and below 1".into());
    }
    for preemption in &lane.preempt {
        match (name, preemption.how) {
            ("map", PreemptAction::Pause) => {
                return Err("maps cannot pause; write how = \"end-early\" or \"kill\"".into());
            }
            ("reduce", PreemptAction::EndEarly) => {
                return Err("reduces cannot end early; write how = \"pause\" or \"kill\"".into());
            }
            _ => {}
        }
        let needs_share = matches!(preemption.when, PreemptionTrigger::BelowShare | PreemptionTrigger::Starved { .. })
            || preemption.whom == VictimOrder::MostOverShare;
        if needs_share && lane.share == Share::None {
            return Err("this preemption compares shares; set share = \"weighted\" or \"inverse-remaining\"".into());
        }
        if matches!(preemption.when, PreemptionTrigger::Starved { .. }) && lane.groups != GroupOrder::FairPools {
            return Err("only pools can starve; set groups = \"fair-pools\", or another `when`".into());
        }
        if preemption.spare.slackness.is_some_and(|limit| limit.is_nan() || limit < 1.0) {
            return Err("spare.slackness below 1 would spare everything; write 1 or more".into());
        }
        if preemption.spare.progress_over.is_some_and(|limit| !(0.0..=1.0).contains(&limit)) {
            return Err("spare.progress_over is a part of 1; write for example 0.7".into());
        }
    }
    Ok(())
}
