//! A coordinator without connections: jobs are planned, submitted, finalized and recovered as after a crash.

use super::StartError;
use super::file_system::{AppendFile, Disk, Entry, FileSystem};
use super::inputs::{ClientLink, Effect, Input};
use super::journal::{Journal, Metadata};
use super::output_folder::{self, SUCCESS};
use super::output_work::{AppRounds, OutputError, OutputResult, OutputWork};
use super::planning::{self, Code};
use super::state_machine::{Coordinator, Settings};
use crate::apps::Apps;
use crate::job::{Plan, Request};
use crate::program::{Planner, ProgramId};
use crate::wire::{FromClient, FromWorker, ToClient};
use giveway_core::policy::catalog;
use giveway_core::{
    AttemptId, Capabilities, Event, JobId, Kind, Outcome, Priority, Progress, Setup, Span, Tenants, Time,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

mod programs;
mod recovery;
mod reload;
mod slow_clients;

/// A cluster directory with an input file, whose coordinator is started and dropped as if it was killed.
struct TestFolder {
    root: tempfile::TempDir,
    policy: &'static str,
    snapshot_bytes: u64,
    journal_bytes_max: u64,
}

/// A coordinator with its journal. Work on output folders is done when the test asks for it.
struct TestCoordinator {
    coordinator: Coordinator,
    journal: Journal,
    work: Vec<(JobId, OutputWork)>,
    removed_programs: Vec<ProgramId>,
}

fn rounds() -> AppRounds {
    AppRounds { apps: Apps::builtin(), planner: Planner::new(Path::new("no programs")) }
}

impl Deref for TestCoordinator {
    type Target = Coordinator;

    fn deref(&self) -> &Coordinator {
        &self.coordinator
    }
}

impl DerefMut for TestCoordinator {
    fn deref_mut(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }
}

impl TestCoordinator {
    /// Handles inputs after some time and carries out the effects, except work on output folders.
    fn handle(&mut self, wait: Span, inputs: Vec<Input>) {
        let now = self.coordinator.now() + wait;
        let output = self.coordinator.handle(now, inputs).unwrap();
        for effect in output.make_durable(&mut self.journal).unwrap() {
            match effect {
                Effect::Send(link, message) => drop(link.sender.send(message)),
                Effect::Reply(client, answer) => drop(client.sender.send(answer)),
                Effect::Output(job, work) => self.work.push((job, work)),
                Effect::RemoveProgram(program) => self.removed_programs.push(program),
                Effect::JobEnded(_) | Effect::Stop => {}
            }
        }
    }

    /// Writes what was appended to the journal, and does all work on output folders.
    fn commit(&mut self) {
        self.handle(Span(0), Vec::new());
        while !self.work.is_empty() {
            let done = |(job, work): (JobId, OutputWork)| {
                let result = work.run(&Disk, &rounds());
                Input::OutputDone { job, result }
            };
            let results = std::mem::take(&mut self.work).into_iter().map(done).collect();
            self.handle(Span(0), results);
        }
    }

    /// Sends a request, does all work, and returns the answer.
    fn request(&mut self, request: FromClient) -> ToClient {
        let (sender, answers) = mpsc::channel();
        self.handle(
            Span(0),
            vec![Input::ClientRequest { request, client: ClientLink { id: 1, limited_to: None, sender } }],
        );
        self.commit();
        answers.recv().unwrap()
    }

    /// Submits a plan and returns the answer.
    fn submit(&mut self, plan: Plan) -> Result<JobId, String> {
        let (sender, answers) = mpsc::channel();
        self.handle(
            Span(0),
            vec![Input::JobPlanned {
                plan: Box::new(plan),
                program: None,
                client: ClientLink { id: 1, limited_to: None, sender },
            }],
        );
        self.commit();
        match answers.recv().unwrap() {
            ToClient::Submitted { job } => Ok(job),
            ToClient::Rejected(rejection) => Err(rejection.reason),
            other => panic!("{other:?}"),
        }
    }
}

impl TestFolder {
    fn new() -> TestFolder {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("input"), "a b\n").unwrap();
        TestFolder { root, policy: "fifo", snapshot_bytes: 1 << 20, journal_bytes_max: 1 << 20 }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    fn try_open(&self) -> Result<TestCoordinator, StartError> {
        let folder = self.path("cluster");
        fs::create_dir_all(&folder).unwrap();
        let settings = Settings {
            heartbeat_interval: Span::from_millis(100),
            heartbeat_timeout: Span::from_secs(5),
            slowstart_ppm: 50_000,
            snapshot_bytes: self.snapshot_bytes,
            journal_bytes_max: self.journal_bytes_max,
        };
        let setup = Setup {
            policy: catalog::by_name(self.policy).unwrap(),
            tenants: Tenants::default(),
            capabilities: Capabilities::ALL,
            seed: 1,
        };
        let (coordinator, journal) = Coordinator::open_folder(settings, setup, Arc::new(Disk), &folder)?;
        Ok(TestCoordinator { coordinator, journal, work: Vec::new(), removed_programs: Vec::new() })
    }

    fn open(&self) -> TestCoordinator {
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
            pool: String::new(),
            priority: Priority::Normal,
            task_timeout_ms: 1_000,
            records_per_s: None,
            compress: false,
            sync_output: true,
        }
    }

    fn plan(&self, output: &str) -> Plan {
        planning::plan(self.request("input", output), Code::BuiltIn(&Apps::builtin())).unwrap()
    }
}

#[test]
fn a_file_name_that_is_not_utf8_is_journalled() {
    let folder = TestFolder::new();
    let name = OsStr::from_bytes(b"in\xff");
    fs::write(folder.path(name), "a\n").unwrap();
    let plan = planning::plan(folder.request(name, "out"), Code::BuiltIn(&Apps::builtin())).unwrap();
    let job = folder.open().submit(plan.clone()).unwrap();
    let recovered = folder.open();
    assert_eq!(recovered.table.jobs[&job].plan.files, plan.files);
}

#[test]
fn a_job_is_in_its_users_pool_or_in_a_declared_one() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let in_pool = |output: &str, pool: &str| {
        let mut plan = folder.plan(output);
        plan.request.pool = pool.into();
        plan
    };
    let job = coordinator.submit(in_pool("one", "")).unwrap();
    assert_eq!(coordinator.table.jobs[&job].plan.request.pool, "user");
    let reason = coordinator.submit(in_pool("two", "another")).unwrap_err();
    assert!(reason.contains("pool `another` is not declared"), "{reason}");
}

/// Finalizing one job evicts another from the list of ended jobs, while a restarted coordinator walks through all of them.
#[test]
fn a_job_may_be_evicted_while_interrupted_jobs_are_completed() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    for id in 1..=1_001 {
        let job = JobId(id);
        coordinator
            .append_metadata(Metadata::JobPlanned { plan: Box::new(Plan { job, ..plan.clone() }), program: None });
        if id > 1 {
            coordinator.append_metadata(Metadata::JobFinalized { job, outcome: Outcome::Succeeded, next_round: None });
        }
    }
    coordinator.commit();
    drop(coordinator);
    let mut recovered = folder.open();
    recovered.commit();
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
        coordinator.append_metadata(Metadata::JobPlanned { plan: Box::new(plan), program: None });
    }
    let next_round = Some(JobId(2));
    coordinator.append_metadata(Metadata::JobFinalized { job: JobId(1), outcome: Outcome::Succeeded, next_round });
    coordinator.commit();
    drop(coordinator);
    folder.policy = "fair";
    let mut recovered = folder.open();
    recovered.commit();
    assert!(recovered.core.is_running(JobId(2)));
    assert_eq!(recovered.policy(), "fifo", "unfinished jobs keep their policy");
}

/// A disk that records what is synced, and whether the output was marked as complete by then. With a path, somebody moves the folder that is to be renamed next
/// there, and puts another one in its place.
#[derive(Default)]
struct RecordedSyncs(Mutex<Vec<(String, bool)>>, Mutex<Option<PathBuf>>);

impl FileSystem for RecordedSyncs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        Disk.list(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Disk.exists(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        Disk.create_folder(path)
    }

    fn create_folders(&self, path: &Path) -> io::Result<()> {
        Disk.create_folders(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Disk.write(path, bytes)
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Disk.overwrite(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(moved) = self.1.lock().unwrap().take() {
            fs::rename(from, moved)?;
            fs::create_dir(from)?;
            fs::write(from.join("precious"), "")?;
        }
        Disk.rename(from, to)
    }

    fn rename_to_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename_to_new(from, to)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        Disk.remove_folder(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let folder = if path.is_dir() { path } else { path.parent().unwrap() };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.0.lock().unwrap().push((name, folder.join(SUCCESS).exists()));
        Ok(())
    }

    fn open_to_append(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn AppendFile>> {
        Disk.open_to_append(path, bytes)
    }
}

#[test]
fn an_output_is_durable_before_it_is_marked_as_complete() {
    let folder = TestFolder::new();
    let mut plan = folder.plan("out");
    output_folder::create(&plan, &Disk).unwrap();
    let disk = RecordedSyncs::default();
    let incomplete = output_folder::publish(&plan, &disk).unwrap_err();
    assert_eq!(incomplete.kind(), io::ErrorKind::NotFound, "{incomplete}");
    fs::write(folder.path("out/part-r-00000"), "a\t1\n").unwrap();
    output_folder::publish(&plan, &disk).unwrap();
    let expected = [("part-r-00000", false), ("out", false), (SUCCESS, true), ("out", true), ("out", true)];
    let synced = std::mem::take(&mut *disk.0.lock().unwrap());
    assert_eq!(synced, expected.map(|(name, marked)| (name.to_owned(), marked)));
    let left: Vec<_> = fs::read_dir(&plan.output).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(output_folder::is_published(&plan, &Disk).unwrap());
    plan.request.sync_output = false;
    plan.output = folder.path("other");
    output_folder::create(&plan, &disk).unwrap();
    fs::write(folder.path("other/part-r-00000"), "").unwrap();
    output_folder::publish(&plan, &disk).unwrap();
    assert!(disk.0.lock().unwrap().is_empty());
}

#[test]
fn only_a_folder_with_the_jobs_nonce_is_touched() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    for outcome in [Outcome::Killed, Outcome::Succeeded] {
        let job = coordinator.submit(folder.plan("out")).unwrap();
        // The user removes the output of the running job and puts something else in its place.
        fs::remove_dir_all(folder.path("out")).unwrap();
        fs::create_dir_all(folder.path("out/_temporary")).unwrap();
        fs::write(folder.path("out/part-r-00000"), "precious").unwrap();
        match outcome {
            Outcome::Succeeded => coordinator.end_output(job, outcome),
            _ => drop(coordinator.submit_event(Event::JobKilled { job })),
        }
        coordinator.commit();
        assert!(coordinator.table.jobs[&job].finalized);
        let left: Vec<_> = fs::read_dir(folder.path("out")).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(fs::read_to_string(folder.path("out/part-r-00000")).unwrap(), "precious");
        fs::remove_dir_all(folder.path("out")).unwrap();
    }
    let other = folder.plan("other");
    output_folder::create(&other, &Disk).unwrap();
    output_folder::remove(&other.output, other.nonce.wrapping_add(1), &Disk).unwrap();
    assert!(other.output.exists());
    output_folder::remove(&other.output, other.nonce, &Disk).unwrap();
    assert!(!other.output.exists());
}

/// A job whose output cannot be created is rejected, and nothing is left of it that would have to be removed.
#[test]
fn an_output_that_cannot_be_created_leaves_nothing() {
    let folder = TestFolder::new();
    fs::write(folder.path("file"), "").unwrap();
    for output in [folder.path("file/out"), PathBuf::from("/proc/out"), folder.path("missing/out")] {
        let mut plan = folder.plan("out");
        plan.output.clone_from(&output);
        plan.request.sync_output = true;
        let plan = Arc::new(plan);
        if !output.starts_with(folder.path("missing")) {
            let created = OutputWork::Create { plan: Arc::clone(&plan) }.run(&Disk, &rounds());
            let OutputResult::Created(Err(error @ OutputError::Create { .. })) = created else { panic!("{created:?}") };
            assert!(!error.to_string().contains("exists"), "{error}");
        }
        let removed = OutputWork::Remove { plan }.run(&Disk, &rounds());
        assert!(matches!(removed, OutputResult::Removed(Ok(false))), "{output:?}: {removed:?}");
    }
}

/// Who knew the nonce could put a folder of their own in the place of the output.
#[test]
fn nobody_else_can_read_the_nonce() {
    let folder = TestFolder::new();
    let plan = folder.plan("out");
    output_folder::create(&plan, &Disk).unwrap();
    let file = folder.path("out/_temporary/_nonce");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let nonce = fs::read_to_string(file).unwrap();
    // Names beside the folder can be listed by others, also those that exist for a moment only.
    let recorded = RecordedSyncs::default();
    output_folder::create(&Plan { output: folder.path("other"), ..plan.clone() }, &recorded).unwrap();
    let synced = recorded.0.lock().unwrap().clone();
    assert!(synced.iter().any(|(name, _)| name.starts_with(".other.new-")), "{synced:?}");
    assert!(synced.iter().all(|(name, _)| !name.contains(nonce.trim())), "{synced:?}");
    // A link in the place of the mark of success is not followed.
    let precious = folder.path("precious");
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, folder.path("out").join(SUCCESS)).unwrap();
    fs::write(folder.path("out/part-r-00000"), "").unwrap();
    assert!(output_folder::publish(&plan, &Disk).is_err());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

/// Who may write to the folder above the output sees the names beside it, and can rename the owner's folders there.
#[test]
fn a_folder_that_is_put_in_the_place_of_one_that_is_removed_stays() {
    let folder = TestFolder::new();
    let plan = folder.plan("out");
    let recorded = RecordedSyncs::default();
    output_folder::create(&plan, &recorded).unwrap();
    let synced = recorded.0.lock().unwrap().clone();
    let seen = synced.iter().find_map(|(name, _)| name.strip_prefix(".out.new-")).expect("a name");
    // The name under which it would be removed does not follow from the one that was seen.
    let guessed = folder.path(format!(".out.removed-{seen}"));
    fs::create_dir(&guessed).unwrap();
    fs::write(guessed.join("precious"), "").unwrap();
    output_folder::remove(&plan.output, plan.nonce, &Disk).unwrap();
    assert!(!plan.output.exists() && guessed.join("precious").exists());
    // Exchanged after the nonce was read.
    output_folder::create(&plan, &Disk).unwrap();
    let moved = folder.path("moved");
    let disk = RecordedSyncs(Mutex::default(), Mutex::new(Some(moved.clone())));
    output_folder::remove(&plan.output, plan.nonce, &disk).unwrap();
    assert!(moved.exists() && plan.output.join("precious").exists());
}

#[test]
fn the_plans_of_unfinished_jobs_are_limited_in_all() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = |name: &str, mib: usize| {
        let mut plan = folder.plan(name);
        plan.request.options.insert("long".into(), "x".repeat(mib << 20));
        plan
    };
    coordinator.submit(plan("out-1", 3)).unwrap();
    let second = coordinator.submit(plan("out-2", 3)).unwrap();
    let refused = coordinator.submit(plan("out-3", 3)).unwrap_err();
    assert!(refused.contains("would need more than 8 MiB"), "{refused}");
    coordinator.submit(plan("out-4", 1)).unwrap();
    drop(coordinator);
    let mut recovered = folder.open();
    assert!(recovered.submit(plan("out-3", 3)).is_err());
    recovered.submit_event(Event::JobKilled { job: second });
    recovered.commit();
    recovered.submit(plan("out-3", 3)).unwrap();
}

/// What the programs of a job report may have any length. The list of jobs must be readable all the same.
#[test]
fn the_status_of_a_job_fits_into_a_message() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    for number in 0..30 {
        coordinator.record_failure(job, "\u{1F980}".repeat(500_000));
        let counters = (0..500).map(|counter| (format!("{number}-{counter}"), 1)).chain([("x".repeat(1 << 20), 1)]);
        let attempt = giveway_core::AttemptId::new(job, giveway_core::Kind::Map, 0, number);
        coordinator.append_metadata(Metadata::CountersReported { attempt, counters: counters.collect() });
    }
    let page = coordinator.jobs_page(None);
    crate::wire::send(&mut Vec::new(), &page).unwrap();
    let ToClient::Jobs { jobs, .. } = page else { panic!("a page") };
    assert_eq!((jobs[0].counters.len(), jobs[0].failures.len()), (1000, 20));
    assert!(jobs[0].failures[0].ends_with("... (1991808 more bytes)"), "{}", jobs[0].failures[0].len());
}

#[test]
fn unfinished_jobs_are_limited_for_each_user() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = |number: u32, user: &str| {
        let mut plan = folder.plan(&format!("out-{number}"));
        plan.request.user = user.into();
        plan
    };
    // Planned, and not yet submitted: these count too.
    let (sender, _answers) = mpsc::channel();
    let client = ClientLink { id: 1, limited_to: None, sender };
    let planned =
        |number| Input::JobPlanned { plan: Box::new(plan(number, "ann")), program: None, client: client.clone() };
    coordinator.handle(Span(0), (0..1999).map(planned).collect());
    coordinator.work.clear();
    let last = coordinator.submit(plan(1999, "ann")).unwrap();
    let refused = coordinator.submit(plan(2000, "ann")).unwrap_err();
    assert!(refused.contains("user ann has 2000 unfinished jobs"), "{refused}");
    let same_output = plan(2000, "eve");
    let writer = coordinator.submit(plan(2000, "bob")).unwrap();
    let output = same_output.request.output.clone();
    assert!(coordinator.submit(same_output).unwrap_err().starts_with(&format!("{writer} writes to the output")));
    assert!(coordinator.taken_output(&output).to_string().contains("writes to"), "{output:?}");
    coordinator.submit_event(Event::JobKilled { job: last });
    coordinator.commit();
    coordinator.submit(plan(1999, "ann")).unwrap();
    // The same after a restart.
    drop(coordinator);
    let recovered = folder.open();
    assert_eq!(recovered.table.unfinished.of_user("ann"), 2000);
    assert!(recovered.table.unfinished.has_output(&folder.path("out-1999")));
}

#[test]
fn options_of_ended_jobs_are_dropped() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let mut plan = folder.plan("out");
    plan.request.options.insert("large".into(), "x".repeat(100_000));
    let job = coordinator.submit(plan).unwrap();
    assert_eq!(coordinator.table.jobs[&job].plan.request.options.len(), 1);
    coordinator.submit_event(Event::JobKilled { job });
    coordinator.commit();
    let ended = &coordinator.table.jobs[&job];
    assert!(ended.finalized && ended.plan.request.options.is_empty() && ended.plan.request.input.is_empty());
}

#[test]
fn names_and_options_are_bounded() {
    let folder = TestFolder::new();
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = folder.request("in", "out");
        change(&mut request);
        planning::plan(request, Code::BuiltIn(&Apps::builtin())).unwrap_err().to_string()
    };
    let long = refused(&|request| request.name = "x".repeat(513));
    assert!(long.contains("the name of the job has 513 bytes; use at most 512"), "{long}");
    assert!(refused(&|request| request.user = "\n".repeat(1 << 20)).len() < 200);
    let long = refused(&|request| drop(request.options.insert("a".into(), "x".repeat(1 << 20))));
    assert!(long.contains("the options of the job have 1048577 bytes"), "{long}");
}

/// A coordinator that was killed after it had created the folder of a job's last round creates it again.
#[test]
fn a_folder_of_the_same_job_is_replaced_and_a_foreign_one_is_refused() {
    let folder = TestFolder::new();
    let plan = folder.plan("out");
    output_folder::create(&plan, &Disk).unwrap();
    fs::write(folder.path("out/part-r-00000"), "old").unwrap();
    output_folder::create(&plan, &Disk).unwrap();
    assert!(!folder.path("out/part-r-00000").exists());
    let other = Plan { nonce: plan.nonce.wrapping_add(1), ..plan };
    assert_eq!(output_folder::create(&other, &Disk).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let left: Vec<_> = fs::read_dir(folder.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.as_bytes().starts_with(b".")), "{left:?}");
}

/// Nothing is on a user's disk that the journal does not know of.
#[test]
fn a_plan_is_journalled_before_its_folder_is_created() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let (sender, answers) = mpsc::channel();
    let client = ClientLink { id: 1, limited_to: None, sender };
    let plan = Box::new(folder.plan("out"));
    coordinator.handle(Span(0), vec![Input::JobPlanned { plan: plan.clone(), program: None, client }]);
    let [(_, create)] = &coordinator.work[..] else { panic!("{:?}", coordinator.work) };
    // Killed after the folder was created.
    create.run(&Disk, &rounds());
    drop(coordinator);
    assert!(answers.recv().is_err(), "the client has no answer");
    let mut recovered = folder.open();
    recovered.commit();
    assert!(!folder.path("out").exists());
    assert!(
        matches!(recovered.request(FromClient::Jobs { after: None }), ToClient::Jobs { jobs, .. } if jobs.is_empty())
    );
    drop(recovered);
    assert!(folder.open().work.is_empty() && folder.open().table.jobs.is_empty(), "discarded once");
}

#[test]
fn a_refused_job_leaves_nothing() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    fs::create_dir(folder.path("out")).unwrap();
    let refused = coordinator.submit(plan).unwrap_err();
    assert!(refused.contains("exists already"), "{refused}");
    assert!(coordinator.table.jobs.is_empty());
    drop(coordinator);
    assert!(folder.open().table.jobs.is_empty());
    assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 0);
}

#[test]
fn publishing_is_tried_again_until_it_succeeds() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    fs::write(folder.path("out/part-r-00000"), "a\t1\n").unwrap();
    let obstacle = folder.path("out").join(SUCCESS);
    fs::create_dir(&obstacle).unwrap();
    coordinator.end_output(job, Outcome::Succeeded);
    coordinator.commit();
    assert!(!coordinator.table.jobs[&job].finalized);
    for _ in 0..5 {
        coordinator.handle(Span::from_secs(60), Vec::new());
        coordinator.commit();
    }
    assert!(!coordinator.table.jobs[&job].finalized && folder.path("out/part-r-00000").exists());
    assert_eq!(coordinator.table.jobs[&job].failures.len(), 1, "reported once");
    fs::remove_dir(obstacle).unwrap();
    coordinator.handle(Span::from_secs(60), Vec::new());
    coordinator.commit();
    assert!(coordinator.table.jobs[&job].finalized);
    assert_eq!(coordinator.table.jobs[&job].outcome, Some(Outcome::Succeeded));
    assert!(folder.path("out").join(SUCCESS).is_file());
}

/// The mount of one job's output hangs: its work never ends. Other jobs are accepted and end, and the hung one continues after a restart.
#[test]
fn a_hung_output_folder_stalls_its_job_only() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let hung = coordinator.submit(folder.plan("hung")).unwrap();
    fs::write(folder.path("hung/part-r-00000"), "").unwrap();
    coordinator.table.jobs.get_mut(&hung).unwrap().outcome = Some(Outcome::Succeeded);
    coordinator.end_output(hung, Outcome::Succeeded);
    coordinator.handle(Span(0), Vec::new());
    assert_eq!(std::mem::take(&mut coordinator.work).len(), 1);
    let other = coordinator.submit(folder.plan("other")).unwrap();
    assert!(matches!(coordinator.request(FromClient::Kill { job: other }), ToClient::Done));
    assert!(coordinator.table.jobs[&other].finalized && !coordinator.table.jobs[&hung].finalized);
    let (sender, answers) = mpsc::channel();
    let client = ClientLink { id: 1, limited_to: None, sender };
    coordinator.handle(Span(0), vec![Input::ClientRequest { request: FromClient::Kill { job: hung }, client }]);
    assert!(answers.try_recv().is_err(), "it may still succeed");
    coordinator.handle(Span::from_secs(6), Vec::new());
    let answer = answers.try_recv().unwrap();
    assert!(
        matches!(&answer, ToClient::Rejected(rejection) if rejection.reason.contains("does not respond")),
        "{answer:?}"
    );
    assert!(!coordinator.table.jobs[&hung].finalized, "its work is still in progress");
    drop(coordinator);
    let mut recovered = folder.open();
    // The core in this test never saw the end of its tasks.
    assert!(matches!(recovered.request(FromClient::Kill { job: hung }), ToClient::Done));
    assert_eq!(recovered.table.jobs[&hung].outcome, Some(Outcome::Killed));
    assert!(!folder.path("hung").exists());
}

/// The disk returns an error while the next round is computed.
#[test]
fn an_unreadable_round_is_read_again() {
    let folder = TestFolder::new();
    fs::write(folder.path("input"), "1 2\n3 4\n").unwrap();
    let options = [("k".to_owned(), "2".to_owned())].into();
    let request = Request { app: "kmeans".into(), options, ..folder.request("input", "out") };
    let plan = planning::plan(request, Code::BuiltIn(&Apps::builtin())).unwrap();
    let mut coordinator = folder.open();
    let round = plan.output.clone();
    assert_ne!(round, plan.request.output);
    let job = coordinator.submit(plan).unwrap();
    // Opening a link to itself fails, as opening a file on a broken disk does.
    let part = round.join("part-r-00000");
    std::os::unix::fs::symlink("part-r-00000", &part).unwrap();
    coordinator.end_output(job, Outcome::Succeeded);
    coordinator.commit();
    let record = &coordinator.table.jobs[&job];
    assert!(!record.finalized && round.exists(), "{:?}", record.failures);
    fs::remove_file(&part).unwrap();
    fs::write(&part, "0\t1\t1 2\n1\t1\t3 4\n").unwrap();
    coordinator.handle(Span::from_secs(60), Vec::new());
    coordinator.commit();
    let record = &coordinator.table.jobs[&job];
    assert_eq!(record.outcome, Some(Outcome::Succeeded), "{:?}", record.failures);
    assert!(coordinator.core.is_running(record.next_round.unwrap()));
}

/// Forecasts need to know how long the first maps of a job take before one has finished. `fifo` reads no progress.
#[test]
fn the_first_maps_of_a_job_report_each_doubling_of_their_progress() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    let (joined, _messages) = recovery::join(1, Vec::new());
    coordinator.handle(Span(0), vec![joined]);
    let attempt = AttemptId::new(job, Kind::Map, 0, 0);
    let mut reported = |progress_ppm| {
        let message = FromWorker::Heartbeat { progress: vec![Progress { attempt, progress_ppm }] };
        let wait = coordinator.settings.heartbeat_interval;
        coordinator.handle(wait, vec![Input::WorkerMessage { link: 1, message }]);
        let state = coordinator.core.state();
        state.job(state.find(job).unwrap()).task(attempt.task.key()).progress_ppm()
    };
    assert_eq!([9_000, 100_000, 199_000, 250_000].map(&mut reported), [0, 100_000, 100_000, 250_000]);
}

/// Statuses with long failures of many jobs do not fit into one message.
#[test]
fn the_list_of_jobs_is_paged() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let plan = folder.plan("out");
    for id in 1..=40 {
        let job = JobId(id);
        coordinator.append_metadata(Metadata::JobPlanned {
            plan: Box::new(Plan { job, round: 1, ..plan.clone() }),
            program: None,
        });
        (0..12).for_each(|_| coordinator.record_failure(job, "x".repeat(8_000)));
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
    assert_eq!(pages, 4, "ten jobs with failures of 96,000 bytes per MiB");
}

#[test]
fn a_job_may_be_killed_twice() {
    let folder = TestFolder::new();
    let mut coordinator = folder.open();
    let job = coordinator.submit(folder.plan("out")).unwrap();
    for _ in 0..2 {
        assert!(matches!(coordinator.request(FromClient::Kill { job }), ToClient::Done));
        assert!(coordinator.table.jobs[&job].finalized);
    }
}

#[test]
fn a_tiny_split_size_is_refused_before_splits_are_computed() {
    let folder = TestFolder::new();
    let file = fs::File::create(folder.path("large")).unwrap();
    file.set_len(1 << 40).unwrap();
    let request = Request { split_bytes: 1, ..folder.request("large", "out") };
    let refused = planning::plan(request, Code::BuiltIn(&Apps::builtin())).unwrap_err().to_string();
    assert!(refused.starts_with("too much input for one job: 1099511627776 splits"), "{refused}");
}

/// A home directory and a mounted file system are as good as empty ones.
#[test]
fn only_files_of_others_keep_a_directory_from_being_a_clusters() {
    let has_only_foreign_files = |names: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        super::has_only_foreign_files(folder.path()).unwrap()
    };
    assert!(has_only_foreign_files(&["data"]) && has_only_foreign_files(&[".profile", "data"]));
    assert!(!has_only_foreign_files(&[]) && !has_only_foreign_files(&[".profile", "lost+found"]));
    assert!(!has_only_foreign_files(&["data", "cluster-id"]) && !has_only_foreign_files(&["data", "node-0"]));
}
