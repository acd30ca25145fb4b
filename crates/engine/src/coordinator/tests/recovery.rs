//! Recovery: restarted coordinators, snapshots, journals that replace others, and workers that were forgotten.

use super::*;
use crate::coordinator::inputs::WorkerLink;
use crate::wire::{Join, Report, ToWorker, WorkerIdentity};
use giveway_core::NodeId;

/// A worker with one slot of each kind that joins.
pub(super) fn join(link: u64, running: Vec<AttemptId>) -> (Input, mpsc::Receiver<ToWorker>) {
    let (sender, messages) = mpsc::channel();
    let join = Join {
        worker: WorkerIdentity {
            name: "worker".into(),
            incarnation: 1,
            rack: 0,
            host: "host".into(),
            map_slots: 1,
            reduce_slots: 1,
            folder: "/worker".into(),
            pid: 1,
        },
        running,
        outputs: Vec::new(),
        jobs: Vec::new(),
    };
    (Input::WorkerJoined { join: Box::new(join), link: WorkerLink { id: link, sender } }, messages)
}

/// A worker that was declared lost and joined again, but never received that, because the coordinator was killed after its sync: it still runs what the
/// core has given up.
#[test]
fn a_slot_is_not_used_before_a_forgotten_attempt_has_left_it() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    let launched = |messages: &mpsc::Receiver<ToWorker>| {
        let launch = |message| match message {
            ToWorker::Launch { attempt, .. } => Some(attempt),
            _ => None,
        };
        messages.try_iter().filter_map(launch).collect::<Vec<_>>()
    };
    let attempt = |number| AttemptId::new(job, Kind::Map, 0, number);
    let (joined, messages) = join(1, Vec::new());
    coordinator.handle(Span(0), vec![joined]);
    assert_eq!(launched(&messages), [attempt(0)]);
    coordinator.handle(Span(0), vec![Input::WorkerDisconnected { link: 1 }]);
    let node = NodeId(0);
    coordinator.lose_node(node);
    let spec = coordinator.core.nodes().next().unwrap().spec.clone();
    coordinator.submit_event(Event::NodeJoined { node, spec });
    coordinator.commit();
    drop(coordinator);

    let mut coordinator = folder.open();
    let (joined, messages) = join(2, vec![attempt(0)]);
    coordinator.handle(Span(0), vec![joined]);
    let sent: Vec<ToWorker> = messages.try_iter().collect();
    let is_kill = |message: &ToWorker| matches!(message, ToWorker::Kill { attempt: killed } if *killed == attempt(0));
    assert!(sent.iter().any(is_kill), "{sent:?}");
    assert!(!sent.iter().any(|message| matches!(message, ToWorker::Launch { .. })), "{sent:?}");
    let message = FromWorker::Report { seq: 1, report: Report::Killed { attempt: attempt(0) } };
    coordinator.handle(Span(0), vec![Input::WorkerMessage { link: 2, message }]);
    assert_eq!(launched(&messages), [attempt(1)]);
}

/// A worker that is killed and started again within the timeout is no lost node, but what it was doing is counted as lost, and done again first.
#[test]
fn what_a_restarted_worker_was_doing_counts_as_lost() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    let (joined, _messages) = join(1, Vec::new());
    coordinator.handle(Span(0), vec![joined]);
    coordinator.handle(Span(1_000_000), vec![Input::WorkerDisconnected { link: 1 }]);
    let (joined, messages) = join(2, Vec::new());
    coordinator.handle(Span(0), vec![joined]);
    let attempt = AttemptId::new(job, Kind::Map, 0, 1);
    assert!(
        messages.try_iter().any(|sent| matches!(sent, ToWorker::Launch { attempt: again, .. } if again == attempt))
    );
    assert_eq!(coordinator.table.status(job, &coordinator.core).unwrap().recovered, 1);
}

/// A worker that is not started again with its cluster is first awaited, and then forgotten. One that is lost while the cluster runs stays in the list.
#[test]
fn a_node_that_is_not_started_again_is_forgotten() {
    let folder = TestFolder::new();
    let named = |name: &str, link| {
        let (mut joined, messages) = join(link, Vec::new());
        if let Input::WorkerJoined { join, .. } = &mut joined {
            join.worker.name = name.into();
        }
        (joined, messages)
    };
    let nodes = |coordinator: &mut TestCoordinator| match coordinator.request(FromClient::Nodes) {
        ToClient::Nodes(nodes) => nodes.iter().map(|node| (node.name.clone(), node.up)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut coordinator = folder.open();
    let (first, second) = (named("one", 1), named("two", 2));
    coordinator.handle(Span(0), vec![first.0, second.0]);
    drop(coordinator);

    let mut coordinator = folder.open();
    let first = named("one", 3);
    coordinator.handle(Span(0), vec![first.0]);
    assert_eq!(nodes(&mut coordinator), [("one".into(), true), ("two".into(), true)]);
    let heartbeat = || Input::WorkerMessage { link: 3, message: FromWorker::Heartbeat { progress: Vec::new() } };
    for _ in 0..8 {
        coordinator.handle(Span::from_secs(2), vec![heartbeat()]);
    }
    assert_eq!(nodes(&mut coordinator), [("one".into(), true)]);
    let second = named("two", 4);
    coordinator.handle(Span(0), vec![second.0]);
    for _ in 0..8 {
        coordinator.handle(Span::from_secs(2), vec![heartbeat()]);
    }
    assert_eq!(nodes(&mut coordinator), [("one".into(), true), ("two".into(), false)]);
}

/// Snapshots and new journals keep jobs, ended and live, and a journal without them is recovered from its records.
#[test]
fn a_job_survives_snapshots_and_new_journals() {
    for (snapshot_bytes, journal_bytes_max) in [(u64::MAX, u64::MAX), (1, u64::MAX), (1, 1)] {
        let folder = TestFolder { snapshot_bytes, journal_bytes_max, ..TestFolder::new() };
        let mut coordinator = folder.open();
        let ended = coordinator.submit(folder.plan("ended")).unwrap();
        coordinator.request(FromClient::Kill { job: ended });
        let refused = coordinator.request(FromClient::Yield { job: ended });
        assert!(
            matches!(&refused, ToClient::Rejected(rejection) if rejection.reason.contains("cannot yield")),
            "{refused:?}"
        );
        let live = coordinator.submit(folder.plan("live")).unwrap();
        coordinator.record_failure(live, "a failure".into());
        coordinator.commit();
        let before = [ended, live].map(|job| coordinator.table.status(job, &coordinator.core));
        drop(coordinator);
        let archived = folder.path("cluster/journal-0001").exists();
        assert_eq!(archived, journal_bytes_max == 1);
        for _ in 0..2 {
            let mut coordinator = folder.open();
            let after = [ended, live].map(|job| coordinator.table.status(job, &coordinator.core));
            assert_eq!(format!("{after:?}"), format!("{before:?}"));
            assert!(coordinator.core.is_running(live));
            coordinator.commit();
        }
    }
}

/// The journal's own time stands still while no coordinator runs; the wall clock does not.
#[test]
fn times_before_a_restart_are_not_shifted_by_the_time_without_a_coordinator() {
    let hour_us = 3_600_000_000;
    for (snapshot_bytes, journal_bytes_max) in [(u64::MAX, u64::MAX), (1, u64::MAX), (1, 1)] {
        let folder = TestFolder { snapshot_bytes, journal_bytes_max, ..TestFolder::new() };
        let mut submitted = Vec::new();
        for start in 1..4 {
            let mut coordinator = folder.open();
            let opened = coordinator.now();
            coordinator.on_clock_read(opened, start * hour_us);
            let now = coordinator.now();
            let job = coordinator.submit(folder.plan(&format!("out-{start}"))).unwrap();
            let status = coordinator.table.status(job, &coordinator.core).unwrap();
            submitted.push((Time(status.submitted_us), start * hour_us + status.submitted_us - now.0));
            coordinator.handle(Span::from_secs(10), Vec::new());
        }
        let (_, clock) = crate::coordinator::read_journal(&folder.path("cluster/journal/log")).unwrap();
        for (time, unix_us) in submitted {
            assert_eq!(clock.unix_us(time), Some(unix_us), "{snapshot_bytes} {journal_bytes_max} {clock:?}");
        }
    }
}

/// Writes a journal for the corpus of the fuzz target: `JOURNAL=fuzz/corpus/journal/with-snapshot cargo test -p giveway-engine write_journal -- --ignored`.
#[test]
#[ignore = "writes a file; run by hand when the format of journals changes"]
fn write_journal_with_snapshot() {
    let mut folder = TestFolder::new();
    let mut coordinator = folder.open();
    let ended = coordinator.submit(folder.plan("ended")).unwrap();
    coordinator.request(FromClient::Kill { job: ended });
    let live = coordinator.submit(folder.plan("live")).unwrap();
    coordinator.record_failure(live, "a failure".into());
    let (joined, _messages) = join(1, Vec::new());
    coordinator.handle(Span(0), vec![joined]);
    coordinator.commit();
    drop(coordinator);
    // The next frame is followed by a snapshot of all this.
    folder.snapshot_bytes = 1;
    folder.open().commit();
    fs::copy(folder.path("cluster/journal/log"), std::env::var_os("JOURNAL").unwrap()).unwrap();
}
