//! Every reason and refusal as users read it, compared with `reasons.txt`. After a change of the texts, run this test with `UPDATE=1` and read the file.

use giveway_core::reason::{GroupKind, GroupMeasure};
use giveway_core::{
    AttemptId, GroupReason, JobId, Kind, Measure, NodeId, NodeMatch, PreemptReason, RankReason, Reason, Refusal,
    SlowNode, Span, StragglerReason,
};
use std::fmt::Write;

const SECOND: Span = Span::from_secs(1);

fn measures() -> Vec<Measure> {
    let all = vec![
        Measure::Submission,
        Measure::RemainingTime(SECOND),
        Measure::SlotsOverWeight { allocated: 1, weight_milli: 500 },
        Measure::SlotsOverShare { allocated: 1, share_milli: 1_000 },
        Measure::SlotsOverShare { allocated: 2, share_milli: 40 },
        Measure::SlotsOverShare { allocated: 0, share_milli: 0 },
        Measure::RemainingWork { shuffle: SECOND, reduce_bytes: 3_000_000 },
        Measure::AttainedService(SECOND),
        Measure::RemainingArea(SECOND),
        Measure::RemainingAreaAndShuffle { area: SECOND, shuffle: SECOND },
        Measure::UnknownSize { attained: SECOND },
        Measure::Late { allocated: 1, share_milli: 2_500 },
        Measure::Small { left: SECOND },
        Measure::CustomValue(-1.25),
    ];
    // A new variant has to be added above.
    all.iter().for_each(|measure| match measure {
        Measure::Submission
        | Measure::RemainingTime(_)
        | Measure::SlotsOverWeight { .. }
        | Measure::SlotsOverShare { .. }
        | Measure::RemainingWork { .. }
        | Measure::AttainedService(_)
        | Measure::RemainingArea(_)
        | Measure::RemainingAreaAndShuffle { .. }
        | Measure::UnknownSize { .. }
        | Measure::Late { .. }
        | Measure::Small { .. }
        | Measure::CustomValue(_) => {}
    });
    all
}

fn groups() -> Vec<GroupReason> {
    let group = |kind, measure| GroupReason { kind, name: "etl".into(), measure };
    let all = vec![
        group(GroupKind::Pool, GroupMeasure::BelowMinShare { allocated: 0, min_share: 1 }),
        group(GroupKind::User, GroupMeasure::SlotsOverWeight { allocated: 3, weight_milli: 2_000 }),
        group(GroupKind::Queue, GroupMeasure::CapacityUsed { percent: 40 }),
        group(GroupKind::Pool, GroupMeasure::BehindFairShare { allocated: 1, due: 4 }),
    ];
    all.iter().for_each(|group| match group.measure {
        GroupMeasure::BelowMinShare { .. }
        | GroupMeasure::SlotsOverWeight { .. }
        | GroupMeasure::CapacityUsed { .. }
        | GroupMeasure::BehindFairShare { .. } => {}
    });
    all
}

fn reasons() -> Vec<Reason> {
    let (job, node) = (JobId(3), NodeId(2));
    let preempted = |group: Option<Box<GroupReason>>, margin_milli, time_left, min_time_left| {
        let (by, victim) = (Measure::RemainingArea(SECOND), Measure::RemainingArea(SECOND.times(9)));
        let beneficiary = job;
        Reason::Preempted(Box::new(PreemptReason {
            beneficiary,
            group,
            by,
            victim,
            margin_milli,
            time_left,
            min_time_left,
        }))
    };
    let all = vec![
        Reason::Reserved,
        Reason::Recovery { lost: node },
        Reason::Speculative { progress_ppm: 400_000 },
        Reason::PreemptedFor { job },
        Reason::PreemptedForRecovery { job },
        Reason::OtherAttemptFinished,
        Reason::JobEnded,
        Reason::RequestedByUser,
        Reason::GrantedByCluster,
        preempted(None, 1_000, None, Span::ZERO),
        preempted(groups().pop().map(Box::new), 1_500, Some(SECOND.times(7)), SECOND),
        preempted(None, 1_000, None, SECOND),
        Reason::StragglerEnded(Box::new(StragglerReason {
            progress_ppm: 400_000,
            left: SECOND.times(9),
            again: SECOND,
            node,
        })),
        Reason::Retry { failures: 1, failed_on: node },
        Reason::Retry { failures: 2, failed_on: node },
        Reason::Probe { failures: 4, jobs: 1 },
        Reason::Ranked(RankReason {
            group: groups().pop().map(Box::new),
            measure: Measure::Submission,
            node_match: Some(NodeMatch::Suggested { class: 4 }),
        }),
        Reason::Ranked(RankReason { group: None, measure: Measure::Submission, node_match: Some(NodeMatch::Fallback) }),
    ];
    all.iter().for_each(|reason| match reason {
        Reason::Ranked(_)
        | Reason::Reserved
        | Reason::Recovery { .. }
        | Reason::Speculative { .. }
        | Reason::PreemptedFor { .. }
        | Reason::PreemptedForRecovery { .. }
        | Reason::OtherAttemptFinished
        | Reason::JobEnded
        | Reason::RequestedByUser
        | Reason::GrantedByCluster
        | Reason::Preempted(_)
        | Reason::StragglerEnded(_)
        | Reason::Retry { .. }
        | Reason::Probe { .. } => {}
    });
    all
}

fn refusals() -> Vec<Refusal> {
    let (job, node) = (JobId(3), NodeId(2));
    let attempt = AttemptId::new(job, Kind::Map, 7, 0);
    let all = vec![
        Refusal::JobExists(job),
        Refusal::UnknownJob(job),
        Refusal::EmptyJob(job),
        Refusal::InvalidJob(job),
        Refusal::UnknownNode(node),
        Refusal::NodeAlreadyUp(node),
        Refusal::NodeIdGap(node),
        Refusal::InvalidNode(node),
        Refusal::StaleAttempt(attempt),
        Refusal::NotRequested(attempt),
        Refusal::ClockWentBack,
        Refusal::NothingPending(job),
        Refusal::NotOpen(job),
        Refusal::InvalidSnapshot,
    ];
    all.iter().for_each(|refusal| match refusal {
        Refusal::JobExists(_)
        | Refusal::UnknownJob(_)
        | Refusal::EmptyJob(_)
        | Refusal::InvalidJob(_)
        | Refusal::UnknownNode(_)
        | Refusal::NodeAlreadyUp(_)
        | Refusal::NodeIdGap(_)
        | Refusal::InvalidNode(_)
        | Refusal::StaleAttempt(_)
        | Refusal::NotRequested(_)
        | Refusal::ClockWentBack
        | Refusal::NothingPending(_)
        | Refusal::NotOpen(_)
        | Refusal::InvalidSnapshot => {}
    });
    all
}

#[test]
fn every_reason_reads_as_in_the_file() {
    let mut text = String::new();
    let mut section = |title: &str, lines: Vec<String>| {
        writeln!(text, "== {title}").unwrap();
        lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
        text.push('\n');
    };
    let named = |node: NodeId| format!("node-{}", node.0 + 1);
    section("why an attempt was launched or stopped", reasons().iter().map(|reason| reason.text(named)).collect());
    let ranked = |measure: Measure| Reason::ranked(measure).to_string();
    section("why a job ranks first", measures().into_iter().map(ranked).collect());
    section("what a job is ranked by", measures().iter().map(Measure::amount).collect());
    section("why a group of jobs ranks first", groups().iter().map(ToString::to_string).collect());
    let slow = SlowNode { here: SECOND.times(9), elsewhere: SECOND };
    section("why a job leaves a node to others", vec![slow.to_string()]);
    section("why an event was rejected", refusals().iter().map(ToString::to_string).collect());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reasons.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, expected, "run this test with UPDATE=1, and read {path}");
}
