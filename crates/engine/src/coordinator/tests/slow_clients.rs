//! Clients that follow a job or ask, and do not read the answers.

use super::*;
use crate::access::Access;
use crate::coordinator::{CoordinatorHandle, Options};
use crate::wire::{self, Role};

#[test]
fn a_follower_whose_connection_is_closed_is_dropped() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    let (sender, answers) = mpsc::channel();
    let client = ClientLink { id: 7, limited_to: None, sender };
    let request = FromClient::Job { job, follow: true };
    coordinator.handle(Span(0), vec![Input::ClientRequest { request, client }]);
    coordinator.handle(Span::from_secs(1), Vec::new());
    coordinator.handle(Span::from_secs(1), Vec::new());
    assert_eq!(answers.try_iter().count(), 3, "the status at once, and an update for each heartbeat");
    coordinator.handle(Span(0), vec![Input::ClientDisconnected { client: 7 }]);
    coordinator.handle(Span::from_secs(1), Vec::new());
    assert!(coordinator.followers.is_empty());
    assert!(answers.recv().is_err(), "the coordinator has dropped its end");
}

/// The thread that serves a client blocks when the client's buffer is full. It must not block for ever, holding its memory and file descriptor.
#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("cluster");
    let coordinator = CoordinatorHandle::start(Options {
        folder: folder.clone(),
        policy: catalog::by_name("fifo").unwrap(),
        tenants: Tenants::default(),
        seed: 1,
        heartbeat_interval: Duration::from_millis(100),
        heartbeat_timeout: Duration::from_secs(5),
        slowstart_ppm: 50_000,
        apps: Apps::builtin(),
        access: Access::default(),
        on_job_end: None,
        archive_bytes: super::super::ARCHIVE_BYTES,
        reload: None,
    })
    .unwrap();
    let mut stream = wire::connect_to_own(coordinator.socket(), Role::Client).unwrap();
    // The answers fill the buffers, then the thread stops reading, then the requests fill theirs. A write ends only because the
    // coordinator closes the connection.
    stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
    let error = (0..1_000_000).find_map(|_| wire::send(&mut stream, &FromClient::Nodes).err());
    let error = error.expect("the coordinator must not buffer a million answers");
    assert!(error.is_disconnect(), "{error}");
    let mut other = wire::connect_to_own(coordinator.socket(), Role::Client).unwrap();
    wire::send(&mut other, &FromClient::Nodes).unwrap();
    let answer: ToClient = wire::receive(&mut other, wire::MESSAGE_BYTES_MAX).unwrap();
    assert!(matches!(answer, ToClient::Nodes(_)), "others are served: {answer:?}");
    coordinator.stop();
    coordinator.wait().unwrap();
}
