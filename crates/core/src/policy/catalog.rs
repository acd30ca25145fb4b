//! The policies Giveway ships with, each a short composition.

use super::{
    AttemptOrder, Fallback, GroupOrder, Guards, JobOrder, Matching, Migration, Placement, Policy, PreemptAction,
    Preemption, PreemptionTrigger, Prior, Recovery, Share, SlotPolicy, VictimOrder,
};
use crate::units::Span;

/// The names of all policies that stand on their own. Each also exists as `chronos(NAME)`.
pub const NAMES: [&str; 15] = [
    "fifo",
    "fair",
    "fair-preempt",
    "capacity",
    "hsrtf-pu",
    "hsrtf-pup",
    "hsrtf-pup-pause",
    "hsrtf-pr",
    "hsrtf-prp",
    "hsrtf-prp-pause",
    "fcs",
    "fcs-kill",
    "coshh",
    "coshh-strict",
    "las",
];

/// All names, `chronos(...)` included.
pub fn all_names() -> Vec<String> {
    let plain = NAMES.iter().map(|name| name.to_string());
    plain.chain(NAMES.iter().map(|name| format!("chronos({name})"))).collect()
}

/// The policy of this name.
pub fn by_name(name: &str) -> Option<Policy> {
    if let Some(base) = name.strip_prefix("chronos(").and_then(|rest| rest.strip_suffix(')')) {
        return by_name(base).filter(|base| base.failure == Recovery::Requeue).map(chronos);
    }
    Some(match name {
        "fifo" => fifo(),
        "fair" => fair(),
        "fair-preempt" => fair_preempt(),
        "capacity" => capacity(),
        "hsrtf-pu" => hsrtf_pure(),
        "hsrtf-pup" => hsrtf_pure_preempting(Manner::Kill),
        "hsrtf-pup-pause" => hsrtf_pure_preempting(Manner::Keep),
        "hsrtf-pr" => hsrtf_proportional(),
        "hsrtf-prp" => hsrtf_proportional_preempting(Manner::Kill),
        "hsrtf-prp-pause" => hsrtf_proportional_preempting(Manner::Keep),
        "fcs" => fcs(),
        "fcs-kill" => fcs_kill(),
        "coshh" => coshh(),
        "coshh-strict" => coshh_strict(),
        "las" => las(),
        _ => return None,
    })
}

/// Whether a victim's work is lost or kept.
#[derive(Clone, Copy)]
enum Manner {
    Kill,
    Keep,
}

fn compose(name: &str, about: &str, map: SlotPolicy, reduce: SlotPolicy) -> Policy {
    Policy {
        name: name.into(),
        about: about.into(),
        renew: Span::from_secs(10),
        prior: Prior::default(),
        map,
        reduce,
        failure: Recovery::Requeue,
        matching: None,
        speculation: None,
    }
}

/// Hadoop 1 hands out at most one map whose data is in another rack and at most one reduce in a beat.
fn hadoop_maps() -> Placement {
    Placement { max_off_rack_per_offer: Some(1), ..Placement::default() }
}

fn hadoop_reduces() -> Placement {
    Placement { max_tasks_per_offer: Some(1), ..Placement::default() }
}

/// Delay scheduling: a job holds out for its data, first on the node, then in the rack.
fn delayed_maps() -> Placement {
    Placement {
        node_locality_delay: Span::from_secs(5),
        rack_locality_delay: Span::from_secs(5),
        ..Placement::default()
    }
}

fn fifo() -> Policy {
    let lane = |placement| SlotPolicy { order: JobOrder::Submission, placement, ..SlotPolicy::default() };
    compose(
        "fifo",
        "Jobs by priority, then by submission (Hadoop's default).",
        lane(hadoop_maps()),
        lane(hadoop_reduces()),
    )
}

fn fair_lane(placement: Placement) -> SlotPolicy {
    SlotPolicy {
        groups: GroupOrder::FairPools,
        order: JobOrder::SlotsOverWeight,
        share: Share::Weighted,
        placement,
        preempt: Vec::new(),
    }
}

fn fair() -> Policy {
    let about =
        "Pools by min share and weight, jobs by weight, maps hold out for their data (Hadoop's fair scheduler).";
    compose("fair", about, fair_lane(delayed_maps()), fair_lane(Placement::default()))
}

fn fair_preempt() -> Policy {
    let mut policy = fair();
    policy.name = "fair-preempt".into();
    policy.about = "As fair; pools starved for too long have tasks of others killed.".into();
    for lane in [&mut policy.map, &mut policy.reduce] {
        lane.preempt.push(Preemption {
            when: PreemptionTrigger::Starved { min_share: Span::from_secs(15), fair_share: Span::from_secs(60) },
            whom: VictimOrder::MostOverShare,
            attempt: AttemptOrder::Newest,
            how: PreemptAction::Kill,
            spare: Guards { gave_way: Some(3), ..Guards::default() },
        });
    }
    policy
}

fn capacity() -> Policy {
    let lane = |placement| SlotPolicy {
        groups: GroupOrder::CapacityQueues,
        order: JobOrder::Submission,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Queues by capacity in use, elastic up to a limit, jobs by submission (Hadoop's capacity scheduler).";
    compose("capacity", about, lane(hadoop_maps()), lane(hadoop_reduces()))
}

/// hSRTF, section 3.4: reduces hold out for two beats for a node that runs maps of their job.
fn colocated_reduces() -> Placement {
    Placement { colocate: Span::from_secs(6), ..hadoop_reduces() }
}

fn hsrtf_pure() -> Policy {
    let lane = |placement| SlotPolicy { order: JobOrder::RemainingTime, placement, ..SlotPolicy::default() };
    let about = "All slots to the job with the shortest remaining time, what it cannot use to the next (hSRTF-Pu).";
    compose("hsrtf-pu", about, lane(hadoop_maps()), lane(colocated_reduces()))
}

fn hsrtf_proportional() -> Policy {
    let lane = |placement| SlotPolicy {
        order: JobOrder::SlotsOverShare,
        share: Share::InverseRemainingTime,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Slots in inverse proportion to remaining time (hSRTF-Pr).";
    compose("hsrtf-pr", about, lane(hadoop_maps()), lane(colocated_reduces()))
}

/// hSRTF, section 3.3: victims from the job with the longest remaining time, lowest progress first. A task that was killed three
/// times is left alone, which the paper does not say: otherwise a steady stream of short jobs could keep it from ever finishing.
fn hsrtf_victims(mut policy: Policy, when: PreemptionTrigger, manner: Manner) -> Policy {
    let preemption = |how| Preemption {
        when,
        whom: VictimOrder::LongestRemainingTime,
        attempt: AttemptOrder::LeastProgress,
        how,
        spare: match manner {
            Manner::Kill => Guards { gave_way: Some(3), ..Guards::default() },
            Manner::Keep => Guards { min_runtime: Span::from_secs(3), ..Guards::default() },
        },
    };
    let (map, reduce) = match manner {
        Manner::Kill => (PreemptAction::Kill, PreemptAction::Kill),
        Manner::Keep => (PreemptAction::EndEarly, PreemptAction::Pause),
    };
    policy.map.preempt.push(preemption(map));
    policy.reduce.preempt.push(preemption(reduce));
    let (suffix, verb) = match manner {
        Manner::Kill => ("p", "kills"),
        Manner::Keep => ("p-pause", "pauses"),
    };
    policy.name = format!("{}{suffix}", policy.name);
    policy.about = format!("{} A waiting job {verb} tasks of longer ones.", policy.about);
    policy
}

fn hsrtf_pure_preempting(manner: Manner) -> Policy {
    hsrtf_victims(hsrtf_pure(), PreemptionTrigger::Outranked, manner)
}

fn hsrtf_proportional_preempting(manner: Manner) -> Policy {
    hsrtf_victims(hsrtf_proportional(), PreemptionTrigger::BelowShare, manner)
}

fn fcs() -> Policy {
    let reduce = SlotPolicy {
        order: JobOrder::RemainingWork,
        placement: Placement { migrate: Migration::AfterRefusals(60), ..Placement::default() },
        preempt: vec![Preemption {
            when: PreemptionTrigger::Outranked,
            whom: VictimOrder::LowestRank,
            attempt: AttemptOrder::LeastProgress,
            how: PreemptAction::Pause,
            spare: Guards {
                slackness: Some(5.0),
                min_runtime: Span::from_secs(10),
                progress_over: Some(0.7),
                gave_way: None,
            },
        }],
        ..SlotPolicy::default()
    };
    let about =
        "Maps as fair; reduce slots to the job with the least work left, long reduces pause and later resume (FCS).";
    compose("fcs", about, fair_lane(delayed_maps()), reduce)
}

fn fcs_kill() -> Policy {
    let mut policy = fcs();
    policy.name = "fcs-kill".into();
    policy.about = "As fcs, but long reduces are killed instead of paused (FCS, section 5.2.2).".into();
    policy.reduce.preempt[0].how = PreemptAction::Kill;
    policy
}

fn coshh() -> Policy {
    let lane = |placement| SlotPolicy {
        groups: GroupOrder::Users,
        order: JobOrder::Submission,
        placement,
        ..SlotPolicy::default()
    };
    let about = "Classes of jobs matched to types of node by a linear program, users by min share and weight (COSHH).";
    let mut policy = compose("coshh", about, lane(Placement::default()), lane(Placement::default()));
    policy.matching = Some(Matching::default());
    policy
}

fn coshh_strict() -> Policy {
    let mut policy = coshh();
    policy.name = "coshh-strict".into();
    policy.about =
        "As coshh, but a node stays idle rather than take a job it was not suggested (Algorithm 2 as written).".into();
    policy.matching = Some(Matching { otherwise: Fallback::Strict, ..Matching::default() });
    policy
}

fn las() -> Policy {
    let lane = |placement| SlotPolicy { order: JobOrder::AttainedService, placement, ..SlotPolicy::default() };
    let about = "Least slot time received first; needs no estimates (least attained service).";
    compose("las", about, lane(hadoop_maps()), lane(hadoop_reduces()))
}

/// Any policy, with lost work brought back at once (Chronos).
fn chronos(mut base: Policy) -> Policy {
    base.about = format!(
        "Lost work runs again at once, near its data, in the place of what ranks lower; otherwise: {}",
        base.about
    );
    base.name = format!("chronos({})", base.name);
    base.failure = Recovery::Chronos;
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
