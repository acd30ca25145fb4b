//! Another policy and other tenants while jobs run.

use super::*;
use crate::wire::Reload;
use giveway_core::event_log::EventLogReader;
use giveway_core::{Policy, Pool, Scheduler};

fn policy(name: &str) -> Policy {
    catalog::by_name(name).unwrap()
}

fn reload(coordinator: &mut TestCoordinator, policy: Policy, tenants: Tenants) -> mpsc::Receiver<ToClient> {
    let (sender, answers) = mpsc::channel();
    let client = ClientLink { id: 1, limited_to: None, sender };
    coordinator.handle(Span(0), vec![Input::Reload { policy: Box::new(policy), tenants, client }]);
    coordinator.commit();
    answers
}

/// Replays the event log of a journal: every action is the recorded one. Returns the policy's name.
fn replayed(path: &Path) -> String {
    let events = crate::coordinator::read_event_log(path).unwrap();
    let reader = EventLogReader::open(&events).unwrap();
    let mut core = Scheduler::new(reader.setup().clone()).unwrap();
    for record in reader {
        // A journal has no closing record.
        let Ok(record) = record else { break };
        let mut actions = Vec::new();
        core.handle(record.now, &record.event, &mut actions);
        assert_eq!(actions, record.actions, "{:?}", record.event);
    }
    core.setup().policy.name.clone()
}

#[test]
fn jobs_continue_under_a_new_policy_also_after_a_crash() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let ended = coordinator.submit(folder.plan("ended")).unwrap();
    coordinator.request(FromClient::Kill { job: ended });
    let live = coordinator.submit(folder.plan("live")).unwrap();
    coordinator.record_failure(live, "a failure".into());
    let before = [ended, live].map(|job| coordinator.table.status(job, &coordinator.core));
    for name in ["giveway", "hsrtf-pr", "fcs", "coshh", "fair"] {
        let answers = reload(&mut coordinator, policy(name), Tenants::default());
        let answer = answers.recv().unwrap();
        let ToClient::Reloaded(Reload { policy, changed: true, changes }) = &answer else { panic!("{answer:?}") };
        assert_eq!(policy, name);
        assert!(changes.iter().any(|line| line.starts_with("policy.name: ") && line.contains(name)), "{changes:?}");
        assert_eq!(coordinator.policy(), name);
        coordinator.core.state().check().unwrap();
    }
    drop(coordinator);
    let mut coordinator = folder.open();
    assert_eq!(coordinator.policy(), "fair");
    let after = [ended, live].map(|job| coordinator.table.status(job, &coordinator.core));
    assert_eq!(format!("{after:?}"), format!("{before:?}"));
    coordinator.request(FromClient::Kill { job: live });
    let archived: Vec<String> =
        (1..=5).map(|number| replayed(&folder.path(format!("cluster/journal-{number:04}/log")))).collect();
    assert_eq!(archived, ["fifo", "giveway", "hsrtf-pr", "fcs", "coshh"]);
    assert_eq!(replayed(&folder.path("cluster/journal/log")), "fair");
}

#[test]
fn what_is_wrong_or_the_same_changes_nothing() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let live = coordinator.submit(folder.plan("live")).unwrap();
    let pool = Pool {
        name: "a".into(),
        parent: None,
        weight: -1.0,
        min_maps: 0,
        min_reduces: 0,
        capacity: None,
        max_capacity: 100.0,
        user_limit: 100.0,
    };
    let wrong = Tenants { pools: vec![pool], ..Tenants::default() };
    let answer = reload(&mut coordinator, policy("fair"), wrong).recv().unwrap();
    assert!(
        matches!(&answer, ToClient::Rejected(rejection) if rejection.reason.contains("stay in force")),
        "{answer:?}"
    );
    let answer = reload(&mut coordinator, policy("fifo"), Tenants::default()).recv().unwrap();
    assert!(matches!(answer, ToClient::Reloaded(Reload { changed: false, .. })), "{answer:?}");
    assert_eq!(coordinator.policy(), "fifo");
    assert!(coordinator.core.is_running(live));
    assert!(!folder.path("cluster/journal-0001").exists());
}
