//! The policies that Giveway ships with, each a short composition of parts.

use super::orders::RemainingAreaAndShuffle;
use super::preemption::NO_MARGIN;
use super::{
    AttemptOrder, Failures, Fallback, GroupOrder, Guards, JobOrder, Matching, MaxLag, Migration, Placement, Policy,
    PreemptAction, Preemption, Prior, Recovery, Share, SlotPolicy, Speculation, Trigger, VictimOrder,
};
use crate::units::Span;

/// Makes a policy.
type Composer = fn() -> Policy;

/// All policies by name. Each that does not recover lost work at once also exists as `chronos(NAME)`.
const POLICIES: &[(&str, Composer)] = &[
    ("giveway", giveway),
    ("fifo", fifo),
    ("fair", fair),
    ("fair-preempt", fair_preempt),
    ("capacity", capacity),
    ("hsrtf-pu", hsrtf_pure),
    ("hsrtf-pup", || hsrtf_preempting(hsrtf_pure(), Trigger::Outranked, Victims::Killed)),
    ("hsrtf-pup-pause", || hsrtf_preempting(hsrtf_pure(), Trigger::Outranked, Victims::Paused)),
    ("hsrtf-pr", hsrtf_proportional),
    ("hsrtf-prp", || hsrtf_preempting(hsrtf_proportional(), Trigger::BelowShare, Victims::Killed)),
    ("hsrtf-prp-pause", || hsrtf_preempting(hsrtf_proportional(), Trigger::BelowShare, Victims::Paused)),
    ("fcs", fcs),
    ("fcs-kill", fcs_kill),
    ("coshh", coshh),
    ("coshh-strict", coshh_strict),
    ("las", las),
    ("area", area),
];

/// The names of all policies, without `chronos(NAME)`.
pub fn names() -> Vec<&'static str> {
    POLICIES.iter().map(|&(name, _)| name).collect()
}

/// All names, `chronos(NAME)` included where the policy does not recover lost work at once anyway.
pub fn all_names() -> Vec<String> {
    let chronos = names().into_iter().map(|name| format!("chronos({name})")).filter(|name| by_name(name).is_some());
    names().into_iter().map(String::from).chain(chronos).collect()
}

/// The policy of a name.
pub fn by_name(name: &str) -> Option<Policy> {
    if let Some(base) = name.strip_prefix("chronos(").and_then(|rest| rest.strip_suffix(')')) {
        return by_name(base).filter(|base| base.recovery == Recovery::Requeue).map(chronos);
    }
    POLICIES.iter().find(|(known, _)| *known == name).map(|(_, policy)| policy())
}

fn compose(name: &str, about: &str, map: SlotPolicy, reduce: SlotPolicy) -> Policy {
    Policy {
        name: name.into(),
        about: about.into(),
        update_interval: Span::from_secs(10),
        prior: Prior::default(),
        map,
        reduce,
        recovery: Recovery::Requeue,
        node_expiry: None,
        matching: None,
        task_start: Span::from_millis(500),
        max_lag: None,
        speculation: None,
        failures: Failures::default(),
    }
}

/// Hadoop 1 launches at most one map with input in another rack, and at most one reduce, per heartbeat.
fn hadoop_maps() -> Placement {
    Placement { max_off_rack_per_offer: Some(1), failed_maps_first: true, ..Placement::default() }
}

fn hadoop_reduces() -> Placement {
    Placement { max_tasks_per_offer: Some(1), ..Placement::default() }
}

/// Delay scheduling: a job waits for a node with its input, then for a rack.
fn delayed_maps() -> Placement {
    Placement {
        node_locality_delay: Span::from_secs(5),
        rack_locality_delay: Span::from_secs(5),
        failed_maps_first: true,
        ..Placement::default()
    }
}

/// The four papers together: docs/giveway.md explains each line.
fn giveway() -> Policy {
    let preempt = |attempts, action, max_slackness| Preemption {
        trigger: Trigger::Outranked,
        victims: VictimOrder::LowestRank,
        attempts,
        action,
        margin: 1.25,
        for_paused: action == PreemptAction::Pause,
        by_work: true,
        guards: Guards {
            max_slackness,
            min_runtime: Span::from_secs(10),
            min_time_left: Span::from_secs(8),
            ..Guards::default()
        },
    };
    let map = SlotPolicy {
        groups: GroupOrder::MinShares,
        order: JobOrder::RemainingArea,
        placement: Placement {
            node_locality_delay: Span::from_secs(3),
            rack_locality_delay: Span::from_secs(3),
            locality_delay_per_mb: Some(Span::from_millis(50)),
            refuse_slow: Some(0.75),
            ..Placement::default()
        },
        preempt: vec![preempt(AttemptOrder::NearData, PreemptAction::EndEarly, None)],
        ..SlotPolicy::default()
    };
    let reduce = SlotPolicy {
        groups: GroupOrder::MinShares,
        order: JobOrder::RemainingAreaAndShuffle(RemainingAreaAndShuffle { weight: 3.0, ahead: Span::from_secs(30) }),
        placement: Placement {
            max_tasks_per_offer: Some(2),
            migration: Migration::AfterRefusals(60),
            refuse_slow: Some(0.75),
            ..Placement::default()
        },
        preempt: vec![preempt(AttemptOrder::LeastProgress, PreemptAction::Pause, Some(5.0))],
        ..SlotPolicy::default()
    };
    let about =
        "Least work left first; large jobs give way without losing work, and none falls far behind fair sharing.";
    Policy {
        update_interval: Span::from_secs(5),
        recovery: Recovery::ChronosRetry,
        node_expiry: Some(Span::from_secs(10)),
        max_lag: Some(MaxLag { of_work: 0.3, time: Span::from_secs(5), exempt_work: Span::from_secs(2) }),
        speculation: Some(Speculation { rate_below: 0.5, min_runtime: Span::from_secs(15), end_early: true }),
        ..compose("giveway", about, map, reduce)
    }
}

fn fifo() -> Policy {
    let slots = |placement| SlotPolicy { order: JobOrder::Submission, placement, ..SlotPolicy::default() };
    compose(
        "fifo",
        "Jobs by priority, then by submission (Hadoop's default).",
        slots(hadoop_maps()),
        slots(hadoop_reduces()),
    )
}

fn fair_slots(placement: Placement) -> SlotPolicy {
    SlotPolicy {
        groups: GroupOrder::FairPools,
        order: JobOrder::SlotsOverWeight,
        share: Share::Weighted,
        placement,
        preempt: Vec::new(),
    }
}

fn fair() -> Policy {
    let about = "Pools by min share and weight, jobs by weight, delay scheduling for maps (Hadoop's fair scheduler).";
    compose("fair", about, fair_slots(delayed_maps()), fair_slots(Placement::default()))
}

fn fair_preempt() -> Policy {
    let mut policy = fair();
    policy.name = "fair-preempt".into();
    policy.about = "Like fair; pools that are starved for too long have tasks of others killed.".into();
    for slots in [&mut policy.map, &mut policy.reduce] {
        slots.preempt.push(Preemption {
            trigger: Trigger::Starved {
                min_share_timeout: Span::from_secs(15),
                fair_share_timeout: Span::from_secs(60),
            },
            victims: VictimOrder::MostOverShare,
            attempts: AttemptOrder::Newest,
            action: PreemptAction::Kill,
            margin: NO_MARGIN,
            for_paused: false,
            by_work: false,
            guards: Guards { max_preemptions: Some(3), ..Guards::default() },
        });
    }
    policy
}

fn capacity() -> Policy {
    let slots = |placement| SlotPolicy {
        groups: GroupOrder::CapacityQueues,
        order: JobOrder::Submission,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Queues by capacity in use, elastic up to a limit, jobs by submission (Hadoop's capacity scheduler).";
    compose("capacity", about, slots(hadoop_maps()), slots(hadoop_reduces()))
}

/// hSRTF, section 3.4: reduces wait two heartbeats for a node that runs maps of their job.
fn colocated_reduces() -> Placement {
    Placement { colocation_delay: Span::from_secs(6), ..hadoop_reduces() }
}

fn hsrtf_pure() -> Policy {
    let slots = |placement| SlotPolicy { order: JobOrder::RemainingTime, placement, ..SlotPolicy::default() };
    let about = "All slots to the job with the shortest remaining time, what it cannot use to the next (hSRTF-Pu).";
    compose("hsrtf-pu", about, slots(hadoop_maps()), slots(colocated_reduces()))
}

fn hsrtf_proportional() -> Policy {
    let slots = |placement| SlotPolicy {
        order: JobOrder::SlotsOverShare,
        share: Share::InverseRemainingTime,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Slots in inverse proportion to remaining time (hSRTF-Pr).";
    compose("hsrtf-pr", about, slots(hadoop_maps()), slots(colocated_reduces()))
}

/// What becomes of a victim's work.
#[derive(Clone, Copy)]
enum Victims {
    /// It is lost.
    Killed,
    /// It is kept: reduces pause, maps end early.
    Paused,
}

/// hSRTF, section 3.3: victims are attempts of the job with the longest remaining time, least progress first. A task that was killed three
/// times is protected, which the paper does not say: a steady stream of short jobs could keep it from ever finishing.
fn hsrtf_preempting(mut policy: Policy, trigger: Trigger, victims: Victims) -> Policy {
    let (actions, guards, suffix, verb) = match victims {
        Victims::Killed => {
            let guards = Guards { max_preemptions: Some(3), ..Guards::default() };
            ([PreemptAction::Kill, PreemptAction::Kill], guards, "p", "kills")
        }
        Victims::Paused => {
            let guards = Guards { min_runtime: Span::from_secs(3), ..Guards::default() };
            ([PreemptAction::EndEarly, PreemptAction::Pause], guards, "p-pause", "pauses")
        }
    };
    for (slots, action) in [&mut policy.map, &mut policy.reduce].into_iter().zip(actions) {
        slots.preempt.push(Preemption {
            trigger,
            victims: VictimOrder::LongestRemainingTime,
            attempts: AttemptOrder::LeastProgress,
            action,
            margin: NO_MARGIN,
            for_paused: false,
            by_work: false,
            guards,
        });
    }
    policy.name = format!("{}{suffix}", policy.name);
    policy.about = format!("{} A job with pending tasks {verb} tasks of longer jobs.", policy.about);
    policy
}

fn fcs() -> Policy {
    let reduce = SlotPolicy {
        order: JobOrder::RemainingWork,
        placement: Placement { migration: Migration::AfterRefusals(60), ..Placement::default() },
        preempt: vec![Preemption {
            trigger: Trigger::Outranked,
            victims: VictimOrder::LowestRank,
            attempts: AttemptOrder::LeastProgress,
            action: PreemptAction::Pause,
            margin: NO_MARGIN,
            for_paused: false,
            by_work: false,
            guards: Guards {
                max_slackness: Some(5.0),
                min_runtime: Span::from_secs(10),
                max_progress: Some(0.7),
                ..Guards::default()
            },
        }],
        ..SlotPolicy::default()
    };
    let about =
        "Maps like fair; reduce slots to the job with the least work left; long reduces pause and resume later (FCS).";
    compose("fcs", about, fair_slots(delayed_maps()), reduce)
}

fn fcs_kill() -> Policy {
    let mut policy = fcs();
    policy.name = "fcs-kill".into();
    policy.about = "Like fcs, but long reduces are killed instead of paused (FCS, section 5.2.2).".into();
    policy.reduce.preempt[0].action = PreemptAction::Kill;
    policy
}

fn coshh() -> Policy {
    let slots = |placement| SlotPolicy {
        groups: GroupOrder::Users,
        order: JobOrder::Submission,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Job classes matched to node types by a linear program; users by min share and weight (COSHH).";
    let mut policy = compose("coshh", about, slots(Placement::default()), slots(Placement::default()));
    policy.matching = Some(Matching::default());
    policy
}

fn coshh_strict() -> Policy {
    let mut policy = coshh();
    policy.name = "coshh-strict".into();
    policy.about =
        "Like coshh, but a node stays idle rather than take a job of another class (Algorithm 2 as written).".into();
    policy.matching = Some(Matching { fallback: Fallback::Strict, ..Matching::default() });
    policy
}

fn las() -> Policy {
    let slots = |placement| SlotPolicy { order: JobOrder::AttainedService, placement, ..SlotPolicy::default() };
    let about = "Least slot time received first; needs no estimates (least attained service).";
    compose("las", about, slots(hadoop_maps()), slots(hadoop_reduces()))
}

fn area() -> Policy {
    let slots = |placement| SlotPolicy { order: JobOrder::RemainingArea, placement, ..SlotPolicy::default() };
    let about = "All slots to the job with the least slot time still needed, what it cannot use to the next.";
    compose("area", about, slots(hadoop_maps()), slots(colocated_reduces()))
}

/// Any policy, with lost work run again at once (Chronos).
fn chronos(mut base: Policy) -> Policy {
    base.about = format!(
        "Lost tasks run again at once, near their input, in the place of attempts that rank lower; otherwise: {}",
        base.about
    );
    base.name = format!("chronos({})", base.name);
    base.recovery = Recovery::Chronos;
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;

    #[test]
    fn every_policy_is_sound_and_survives_its_own_toml() {
        for name in all_names() {
            let policy = by_name(&name).unwrap_or_else(|| panic!("{name} is listed and unknown"));
            assert_eq!(policy.name, name);
            let text = toml::to_string(&policy).unwrap();
            assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy, "{text}");
            Setup::new(policy).check().unwrap();
        }
    }

    #[test]
    fn chronos_does_not_wrap_itself() {
        assert!(by_name("chronos(chronos(fifo))").is_none());
        assert!(by_name("chronos()").is_none());
    }
}
