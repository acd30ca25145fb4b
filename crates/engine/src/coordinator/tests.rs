//! A coordinator without connections: jobs are planned, submitted, finalized and recovered as after a crash.

use super::journal::Metadata;
use super::planning;
use super::run::Coordinator;
use super::{Options, StartError};
use crate::apps::Apps;
use crate::input::LocalOnly;
use crate::job::{Plan, Request};
use crate::store::Namespace;
use crate::wire::ToClient;
use giveway_core::policy::catalog;
use giveway_core::{JobId, Outcome, Priority, Tenants};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A cluster's folder with an input file, whose coordinator is started and dropped as if it was killed.
struct TestFolder {
    root: tempfile::TempDir,
    policy: &'static str,
}

impl TestFolder {
    fn new() -> TestFolder {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("input"), "a b\n").unwrap();
        TestFolder { root, policy: "fifo" }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    fn try_open(&self) -> Result<Coordinator, StartError> {
        let folder = self.path("cluster");
        fs::create_dir_all(&folder).unwrap();
        let options = Options {
            folder: folder.clone(),
            listen: String::new(),
            policy: catalog::by_name(self.policy).unwrap(),
            tenants: Tenants::default(),
            seed: 1,
            heartbeat_interval: Duration::from_millis(100),
            heartbeat_timeout: Duration::from_secs(5),
            slowstart_ppm: 50_000,
            apps: Apps::builtin(),
        };
        Coordinator::open(options, Arc::new(Namespace::open(&folder, Duration::ZERO).unwrap()))
    }

    fn open(&self) -> Coordinator {
        self.try_open().unwrap()
    }

    fn request(&self, input: impl AsRef<Path>, output: &str) -> Request {
        Request {
            app: "wordcount".into(),
            options: BTreeMap::new(),
            input: vec![self.path(input).into()],
            output: self.path(output),
            reduces: Some(1),
            split_bytes: 1 << 20,
            memory_bytes: 1 << 20,
            name: "test".into(),
            user: "user".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            task_timeout_ms: 1_000,
            records_per_s: None,
            compress: false,
        }
    }

    fn plan(&self, output: &str) -> Plan {
        planning::plan(self.request("input", output), &Apps::builtin(), &LocalOnly).unwrap()
    }
}

/// Submits a plan and returns the coordinator's answer.
fn submit(coordinator: &mut Coordinator, plan: Plan) -> Result<JobId, String> {
    let (reply, answers) = mpsc::channel();
    coordinator.on_job_planned(plan, reply);
    coordinator.commit().unwrap();
    match answers.recv().unwrap() {
        ToClient::Submitted { job } => Ok(job),
        ToClient::Refused { reason } => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_name_that_is_not_utf8_is_journalled() {
    let folder = TestFolder::new();
    let name = OsStr::from_bytes(b"in\xff");
    fs::write(folder.path(name), "a\n").unwrap();
    let plan = planning::plan(folder.request(name, "out"), &Apps::builtin(), &LocalOnly).unwrap();
    let job = submit(&mut folder.open(), plan.clone()).unwrap();
    let recovered = folder.open();
    assert_eq!(recovered.table.jobs[&job].plan.files, plan.files);
}

/// Finalizing one job evicts another from the list of ended jobs, while a restarted coordinator walks through all of them.
#[test]
fn a_job_may_be_evicted_while_interrupted_jobs_are_completed() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    for id in 1..=1_001 {
        let job = JobId(id);
        coordinator.append_metadata(Metadata::JobPlanned(Box::new(Plan { job, ..plan.clone() })));
        if id > 1 {
            coordinator.append_metadata(Metadata::JobFinalized { job, outcome: Outcome::Succeeded, next_round: None });
        }
    }
    coordinator.commit().unwrap();
    drop(coordinator);
    let recovered = folder.open();
    assert!(!recovered.table.jobs.contains_key(&JobId(1)), "it was never submitted");
}
