//! A policy as data. `giveway policies show NAME` prints it as TOML; the same TOML, edited, is a policy.

use super::orders::{CustomOrder, Order, Rank};
use super::{
    Failures, GroupOrder, JobOrder, Matching, MaxLag, Needs, Placement, PreemptAction, Preemption, Recovery, Share,
    Speculation, VictimOrder, View,
};
use crate::ids::Kind;
use crate::reason::Measure;
use crate::state::Job;
use crate::timer::Timer;
use crate::units::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A scheduling policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The name it is selected by.
    pub name: String,
    /// What it does, in one sentence.
    #[serde(default)]
    pub about: String,
    /// How often estimates and shares are computed, preemption is considered and stragglers are looked for.
    #[serde(default = "default_update_interval")]
    pub update_interval: Span,
    /// Task times assumed while none has been observed.
    #[serde(default)]
    pub prior: Prior,
    /// The time of a task that has no input, assumed while none was observed.
    #[serde(default = "default_task_start")]
    pub task_start: Span,
    /// How map slots are allocated.
    pub map: SlotPolicy,
    /// How reduce slots are allocated.
    pub reduce: SlotPolicy,
    /// How work lost with a node is run again.
    #[serde(default)]
    pub recovery: Recovery,
    /// A node that has sent no heartbeat for this long is lost, if the backend would wait longer. None: as the backend is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_expiry: Option<Span>,
    /// Matching of job classes to node types (COSHH).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<Matching>,
    /// How far jobs and groups of jobs may fall behind fair sharing. Earlier releases called it ageing.
    #[serde(default, alias = "ageing", skip_serializing_if = "Option::is_none")]
    pub max_lag: Option<MaxLag>,
    /// Speculative execution of stragglers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
    /// Retries of failed tasks and exclusion of nodes that fail them.
    #[serde(default, skip_serializing_if = "Failures::is_default")]
    pub failures: Failures,
}

/// How slots of one kind are allocated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotPolicy {
    /// The order of pools, queues or users.
    #[serde(default)]
    pub groups: GroupOrder,
    /// The order of jobs within a group, or among all jobs.
    pub order: JobOrder,
    /// The number of slots a job is entitled to.
    #[serde(default)]
    pub share: Share,
    /// Which task of a job runs on which node.
    #[serde(default)]
    pub placement: Placement,
    /// Who may take slots from whom, and how. Each entry is considered in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempt: Vec<Preemption>,
}

/// Task times assumed while none has been observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Time of a map.
    pub map: Span,
    /// Time of a reduce.
    pub reduce: Span,
}

impl Default for Prior {
    fn default() -> Prior {
        Prior { map: Span::from_secs(30), reduce: Span::from_secs(60) }
    }
}

/// The shortest [`Policy::node_expiry`].
const MIN_NODE_EXPIRY: Span = Span::from_secs(1);

fn default_task_start() -> Span {
    Span::from_millis(500)
}

fn default_update_interval() -> Span {
    Span::from_secs(10)
}

/// A policy whose parts do not fit each other.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("policy `{policy}`, {part}: {problem}")]
pub struct PolicyError {
    /// The policy's name.
    pub policy: String,
    /// The TOML key of the part.
    pub part: String,
    /// What is wrong and what to write instead.
    pub problem: String,
}

impl Policy {
    /// How slots of a kind are allocated.
    pub fn slots(&self, kind: Kind) -> &SlotPolicy {
        match kind {
            Kind::Map => &self.map,
            Kind::Reduce => &self.reduce,
        }
    }

    /// Puts an order that is not registered in place of the unknown ones of its name.
    pub fn set_custom_order(&mut self, order: &CustomOrder) {
        for slots in [&mut self.map, &mut self.reduce] {
            slots.order.set_custom(order);
            slots.preempt.iter_mut().for_each(|rule| rule.victims.set_custom(order));
        }
    }

    /// Everything that some part of it needs.
    pub fn needs(&self) -> Needs {
        let speculation = self.speculation.map_or(Needs::NOTHING, |speculation| speculation.needs());
        let max_lag = self.max_lag.map_or(Needs::NOTHING, |max_lag| max_lag.needs());
        let matching = Needs { finished_work: self.matching.is_some(), ..Needs::NOTHING };
        self.map.needs() | self.reduce.needs() | self.recovery.needs() | speculation | max_lag | matching
    }

    /// The rank of a job for a slot of a kind within its group, if it had `extra` more slots.
    #[inline]
    pub fn rank(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        let by_order = self.slots(kind).order.rank(view, job, kind, extra);
        self.max_lag.map_or(by_order, |max_lag| max_lag.rank(job, kind, extra, by_order))
    }

    /// What the rank was computed from.
    pub fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure {
        let late = self.max_lag.and_then(|max_lag| max_lag.measure(job, kind));
        late.unwrap_or_else(|| self.slots(kind).order.measure(view, job, kind))
    }

    /// True if something depends on the shares of slots of a kind.
    pub fn uses_shares(&self, kind: Kind) -> bool {
        !self.slots(kind).preempt.is_empty()
    }

    /// True if it may request an action to free a slot for another job. In one slot pool only its `reduce` part applies.
    pub fn preempts_by(&self, action: PreemptAction, one_slot_pool: bool) -> bool {
        if one_slot_pool && action == PreemptAction::EndEarly {
            return false;
        }
        let listed = |slots: &SlotPolicy| slots.preempt.iter().any(|preemption| preemption.action == action);
        let by_speculation = self.speculation.is_some_and(|speculation| speculation.preempts_by(action));
        (listed(&self.map) && !one_slot_pool)
            || listed(&self.reduce)
            || self.recovery.preempts_by(action)
            || by_speculation
    }

    /// The timers that must be set while there are jobs.
    pub fn timers(&self) -> impl Iterator<Item = Timer> {
        let preempts = Kind::BOTH.iter().any(|&kind| !self.slots(kind).preempt.is_empty()) || self.recovery.retries();
        let needed = [
            (Timer::Estimates, self.needs().anything()),
            (Timer::Preemption, preempts),
            (Timer::Speculation, self.speculation.is_some()),
        ];
        needed.into_iter().filter(|(_, is_needed)| *is_needed).map(|(timer, _)| timer)
    }

    /// True if input has to be stored on given nodes.
    pub fn places_replicas(&self) -> bool {
        self.matching.is_some_and(|matching| matching.place_replicas)
    }

    /// True if jobs must get no slot on some nodes.
    pub fn matches_nodes(&self) -> bool {
        self.matching.is_some()
    }

    /// True if it has to launch a given task on a given node, and not only to rank jobs. In one slot pool recovery needs no given task: the
    /// backend requests a slot for lost work like any other.
    pub fn binds_tasks(&self, one_slot_pool: bool) -> bool {
        (self.recovery.binds_tasks() && !one_slot_pool) || self.speculation.is_some()
    }

    /// Checks that the parts fit each other.
    pub fn check(&self) -> Result<(), PolicyError> {
        let error =
            |part: &str, problem: String| Err(PolicyError { policy: self.name.clone(), part: part.into(), problem });
        if self.update_interval < Span::from_millis(100) {
            return error("update_interval", "shorter than 100 ms; write \"1s\" or longer".into());
        }
        if self.prior.map.is_zero() || self.prior.reduce.is_zero() {
            return error("prior", "a task time of zero; write \"1s\" or longer".into());
        }
        if self.node_expiry.is_some_and(|expiry| expiry < MIN_NODE_EXPIRY) {
            return error(
                "node_expiry",
                "shorter than 1 s, so that a node would be lost with a late heartbeat; write \"10s\"".into(),
            );
        }
        if let Some(Err((key, problem))) = self.matching.as_ref().map(|matching| matching.check(self)) {
            return error(key, problem);
        }
        if let Some(Err(problem)) = self.max_lag.map(|max_lag| max_lag.check()) {
            return error("max_lag", problem);
        }
        if let Some(Err(problem)) = self.speculation.as_ref().map(Speculation::check) {
            return error("speculation", problem);
        }
        if let Err(problem) = self.failures.check() {
            return error("failures", problem);
        }
        for kind in Kind::BOTH {
            if let Err(problem) = self.slots(kind).check(kind) {
                return error(&kind.to_string(), problem);
            }
        }
        Ok(())
    }

    /// The same policy for a cluster whose tasks are this many times shorter: every span in it is divided by the factor.
    pub fn faster(mut self, factor: f64) -> Policy {
        let shorten = &|span: &mut Span| *span = span.scaled(1.0 / factor);
        shorten(&mut self.update_interval);
        shorten(&mut self.prior.map);
        shorten(&mut self.prior.reduce);
        shorten(&mut self.task_start);
        if let Some(speculation) = &mut self.speculation {
            speculation.spans_mut().into_iter().for_each(shorten);
        }
        if let Some(max_lag) = &mut self.max_lag {
            max_lag.spans_mut().into_iter().for_each(shorten);
        }
        if let Some(matching) = &mut self.matching {
            shorten(&mut matching.max_wait);
        }
        self.failures.spans_mut().into_iter().for_each(shorten);
        for slots in [&mut self.map, &mut self.reduce] {
            slots.order.spans_mut().into_iter().for_each(shorten);
            slots.placement.spans_mut().for_each(shorten);
            slots.preempt.iter_mut().flat_map(Preemption::spans_mut).for_each(shorten);
        }
        self
    }
}

impl SlotPolicy {
    /// Everything that some part of it needs.
    pub fn needs(&self) -> Needs {
        let preemption = self.preempt.iter().fold(Needs::NOTHING, |needs, rule| needs | rule.needs());
        self.order.needs() | self.share.needs() | self.placement.needs() | preemption
    }

    /// True if some rule chooses victims by their ranks.
    #[inline]
    pub fn ranks_victims(&self) -> bool {
        self.preempt.iter().any(|rule| rule.victims == VictimOrder::LowestRank)
    }

    fn check(&self, kind: Kind) -> Result<(), String> {
        self.order.check(self)?;
        self.placement.check()?;
        self.preempt.iter().try_for_each(|preemption| preemption.check(kind, self))
    }
}

#[cfg(test)]
impl Policy {
    /// A policy that uses every option, for tests of its text form. Its parts do not fit each other.
    pub(crate) fn with_every_option() -> Policy {
        use super::*;
        let guards = Guards {
            max_slackness: Some(5.0),
            min_runtime: Span(1),
            max_progress: Some(0.1 + 0.2),
            min_time_left: Span::from_secs(8),
            max_preemptions: Some(u32::MAX),
        };
        let preemption = |trigger| Preemption {
            trigger,
            victims: VictimOrder::MostOverShare,
            attempts: AttemptOrder::NearData,
            action: PreemptAction::Kill,
            margin: 1.25,
            for_paused: true,
            by_work: true,
            guards,
        };
        let starved =
            Trigger::Starved { min_share_timeout: Span::FOREVER, fair_share_timeout: Span::from_millis(1_500) };
        let slots = SlotPolicy {
            share: Share::Weighted,
            placement: Placement {
                max_tasks_per_offer: Some(1),
                migration: Migration::AfterRefusals(61),
                refuse_slow: Some(0.75),
                ..Placement::default()
            },
            preempt: vec![preemption(Trigger::Outranked), preemption(starved)],
            ..SlotPolicy::default()
        };
        Policy {
            name: "all \"options\"".into(),
            about: "One of everything.\nIn two lines.".into(),
            update_interval: Span(1_234_567),
            prior: Prior::default(),
            task_start: Span(7),
            map: slots.clone(),
            reduce: SlotPolicy { preempt: vec![], placement: Placement::default(), ..slots },
            recovery: Recovery::Chronos,
            node_expiry: Some(Span::from_millis(2_500)),
            matching: Some(Matching::default()),
            max_lag: Some(MaxLag { of_work: 0.3, time: Span::from_secs(5), exempt_work: Span::from_secs(1) }),
            speculation: Some(Speculation { rate_below: 1.0 / 3.0, min_runtime: Span::from_secs(60), end_early: true }),
            failures: Failures { max_task_failures: 7, probe_after: Span(123_456_789), ..Failures::default() },
        }
    }
}
