//! Jobs that were shipped with a program: what workers get, what the journal keeps, and when the program is removed.

use super::recovery::join;
use super::*;
use crate::wire::ToWorker;

fn program(content: &[u8]) -> ProgramId {
    ProgramId::of(content).unwrap().0
}

impl TestCoordinator {
    fn submit_shipped(&mut self, plan: Plan, program: ProgramId) -> JobId {
        let (sender, answers) = mpsc::channel();
        let client = ClientLink { id: 1, limited_to: None, sender };
        self.handle(Span(0), vec![Input::JobPlanned { plan: Box::new(plan), program: Some(program), client }]);
        self.commit();
        match answers.recv().unwrap() {
            ToClient::Submitted { job } => job,
            other => panic!("{other:?}"),
        }
    }
}

/// A program stays as long as a job needs it, also after restarts, snapshots and in new journals.
#[test]
fn the_program_of_a_live_job_survives_restarts_and_is_removed_with_the_last_job() {
    for (snapshot_bytes, journal_bytes_max) in [(u64::MAX, u64::MAX), (1, u64::MAX), (1, 1)] {
        let folder = TestFolder { snapshot_bytes, journal_bytes_max, ..TestFolder::new() };
        let (shared, other) = (program(b"shared"), program(b"other"));
        let mut coordinator = folder.open();
        let first = coordinator.submit_shipped(folder.plan("first"), shared);
        let second = coordinator.submit_shipped(folder.plan("second"), shared);
        coordinator.submit(folder.plan("built-in")).unwrap();
        coordinator.request(FromClient::Kill { job: first });
        assert_eq!(coordinator.removed_programs, []);
        drop(coordinator);
        let mut coordinator = folder.open();
        assert!(coordinator.needs_program(shared) && !coordinator.needs_program(other));
        let (joined, messages) = join(1, Vec::new());
        coordinator.handle(Span(0), vec![joined]);
        let is_shipped = |message: &ToWorker| matches!(message, ToWorker::Plan { plan, program } if plan.job == second && *program == Some(shared));
        let sent: Vec<ToWorker> = messages.try_iter().collect();
        assert!(sent.iter().any(is_shipped), "{sent:?}");
        // A client that looked for it and went away again.
        coordinator.handle(Span(0), vec![Input::ProgramUnpinned { program: shared }]);
        coordinator.handle(Span(0), vec![Input::ProgramUnpinned { program: other }]);
        assert_eq!(coordinator.removed_programs, [other]);
        coordinator.request(FromClient::Kill { job: second });
        assert_eq!(coordinator.removed_programs, [other, shared]);
        drop(coordinator);
        assert!(!folder.open().needs_program(shared));
    }
}

/// A submission that is refused after its plan was journalled does not keep its program.
#[test]
fn a_discarded_job_releases_its_program() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    fs::create_dir(folder.path("out")).unwrap();
    let (sender, answers) = mpsc::channel();
    let (client, program) = (ClientLink { id: 1, limited_to: None, sender }, program(b"p"));
    coordinator.handle(Span(0), vec![Input::JobPlanned { plan: Box::new(plan), program: Some(program), client }]);
    assert!(coordinator.needs_program(program));
    coordinator.commit();
    assert!(matches!(answers.recv().unwrap(), ToClient::Rejected(_)));
    assert_eq!((coordinator.removed_programs.as_slice(), coordinator.needs_program(program)), (&[program][..], false));
}
