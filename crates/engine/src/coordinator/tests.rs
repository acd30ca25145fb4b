//! A coordinator without connections: jobs are planned, submitted, finalized and recovered as after a crash.

use super::finalize::remove_output;
use super::journal::{JournalLock, Metadata};
use super::output_folder::{self, SUCCESS, Sync};
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
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

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
            listen: None,
            policy: catalog::by_name(self.policy).unwrap(),
            tenants: Tenants::default(),
            seed: 1,
            heartbeat_interval: Duration::from_millis(100),
            heartbeat_timeout: Duration::from_secs(5),
            slowstart_ppm: 50_000,
            apps: Apps::builtin(),
        };
        let lock = JournalLock::acquire(&folder)?;
        Coordinator::open(options, Arc::new(Namespace::open(&folder, Duration::ZERO).unwrap()), lock)
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
            sync_output: true,
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

/// After a round has ended under one policy, the next one is submitted although the coordinator is restarted with another policy.
#[test]
fn a_job_between_two_rounds_survives_a_change_of_the_policy() {
    let mut folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    for id in [1, 2] {
        let plan = Plan { job: JobId(id), round: id - 1, ..plan.clone() };
        coordinator.append_metadata(Metadata::JobPlanned(Box::new(plan)));
    }
    let next_round = Some(JobId(2));
    coordinator.append_metadata(Metadata::JobFinalized { job: JobId(1), outcome: Outcome::Succeeded, next_round });
    coordinator.commit().unwrap();
    drop(coordinator);
    folder.policy = "fair";
    let recovered = folder.open();
    assert!(recovered.core.is_running(JobId(2)));
    assert_eq!(recovered.policy(), "fifo", "unfinished jobs keep their policy");
}

/// Records what is synced, and whether the output was marked as complete by then.
#[derive(Default)]
struct RecordedSyncs(RefCell<Vec<(String, bool)>>);

impl Sync for RecordedSyncs {
    fn sync(&self, path: &Path) -> io::Result<()> {
        let folder = if path.is_dir() { path } else { path.parent().unwrap() };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.0.borrow_mut().push((name, folder.join(SUCCESS).exists()));
        Ok(())
    }
}

#[test]
fn an_output_is_durable_before_it_is_marked_as_complete() {
    let folder = TestFolder::new();
    let mut plan = folder.plan("out");
    output_folder::create(&plan).unwrap();
    fs::write(folder.path("out/part-r-00000"), "a\t1\n").unwrap();
    let disk = RecordedSyncs::default();
    output_folder::publish(&plan, &disk).unwrap();
    let parent = folder.root.path().file_name().unwrap().to_string_lossy().into_owned();
    let expected = [("part-r-00000", false), ("out", false), (SUCCESS, true), ("out", true), (&*parent, false)];
    assert_eq!(disk.0.take(), expected.map(|(name, marked)| (name.to_owned(), marked)));
    let left: Vec<_> = fs::read_dir(&plan.output).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    plan.request.sync_output = false;
    plan.output = folder.path("other");
    output_folder::create(&plan).unwrap();
    output_folder::publish(&plan, &disk).unwrap();
    assert_eq!(disk.0.take(), []);
}

#[test]
fn only_a_folder_with_the_jobs_nonce_is_removed() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = submit(&mut coordinator, folder.plan("out")).unwrap();
    // The user removes the output of the running job and puts something else in its place.
    fs::remove_dir_all(folder.path("out")).unwrap();
    fs::create_dir(folder.path("out")).unwrap();
    fs::write(folder.path("out/letter"), "precious").unwrap();
    coordinator.submit_event(giveway_core::Event::JobKilled { job });
    coordinator.commit().unwrap();
    assert!(coordinator.table.jobs[&job].finalized);
    assert_eq!(fs::read_to_string(folder.path("out/letter")).unwrap(), "precious");
    let other = folder.plan("other");
    output_folder::create(&other).unwrap();
    remove_output(&other.output, other.nonce.wrapping_add(1));
    assert!(other.output.exists());
    output_folder::create(&other).unwrap();
    remove_output(&other.output, other.nonce);
    assert!(!other.output.exists());
}

/// A coordinator that was killed after it had created the folder of a job's last round creates it again.
#[test]
fn a_folder_of_the_same_job_is_replaced_and_a_foreign_one_is_refused() {
    let folder = TestFolder::new();
    let plan = folder.plan("out");
    output_folder::create(&plan).unwrap();
    fs::write(folder.path("out/part-r-00000"), "old").unwrap();
    output_folder::create(&plan).unwrap();
    assert!(!folder.path("out/part-r-00000").exists());
    let other = Plan { nonce: plan.nonce.wrapping_add(1), ..plan };
    assert_eq!(output_folder::create(&other).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let left: Vec<_> = fs::read_dir(folder.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.as_bytes().starts_with(b".")), "{left:?}");
}

#[test]
fn publishing_is_tried_again_until_it_succeeds() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = submit(&mut coordinator, folder.plan("out")).unwrap();
    fs::write(folder.path("out/part-r-00000"), "a\t1\n").unwrap();
    let obstacle = folder.path("out").join(SUCCESS);
    fs::create_dir(&obstacle).unwrap();
    coordinator.finalize_job(job, Outcome::Succeeded);
    assert!(!coordinator.table.jobs[&job].finalized);
    let mut now = Instant::now();
    for _ in 0..5 {
        now += Duration::from_secs(60);
        coordinator.retry_finalize(now);
    }
    assert!(!coordinator.table.jobs[&job].finalized && folder.path("out/part-r-00000").exists());
    assert_eq!(coordinator.table.jobs[&job].failures.len(), 1, "reported once");
    fs::remove_dir(obstacle).unwrap();
    coordinator.retry_finalize(now + Duration::from_secs(60));
    assert!(coordinator.table.jobs[&job].finalized);
    assert_eq!(coordinator.table.jobs[&job].outcome, Some(Outcome::Succeeded));
    assert!(folder.path("out").join(SUCCESS).is_file());
}

/// Statuses with long failures of many jobs do not fit into one message.
#[test]
fn the_list_of_jobs_is_paged() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    for id in 1..=40 {
        let job = JobId(id);
        coordinator.append_metadata(Metadata::JobPlanned(Box::new(Plan { job, ..plan.clone() })));
        coordinator.record_failure(job, "x".repeat(100_000));
    }
    let (mut seen, mut pages) = (Vec::new(), 0);
    loop {
        let ToClient::Jobs { jobs, more } = coordinator.jobs_page(seen.last().copied()) else { panic!("a page") };
        seen.extend(jobs.iter().map(|status| status.job));
        pages += 1;
        if !more {
            break;
        }
    }
    assert_eq!(seen, (1..=40).map(JobId).collect::<Vec<_>>());
    assert_eq!(pages, 4, "ten failures of 100,000 bytes per MiB");
}

#[test]
fn a_tiny_split_size_is_refused_before_splits_are_computed() {
    let folder = TestFolder::new();
    let file = fs::File::create(folder.path("large")).unwrap();
    file.set_len(1 << 40).unwrap();
    let request = Request { split_bytes: 1, ..folder.request("large", "out") };
    let refused = planning::plan(request, &Apps::builtin(), &LocalOnly).unwrap_err().to_string();
    assert!(refused.starts_with("too much input for one job: 1099511627776 splits"), "{refused}");
}
