//! `giveway run`, `submit` and `apps`: run jobs on an engine cluster.

use super::args::{JobOptions, Run, Submit};
use super::up::{self, WorkerSettings};
use crate::terminal::printable;
use crate::text_table::TextTable;
use crate::{CheckFailed, signals};
use anyhow::{Context, Result, bail};
use giveway_analysis::explain::duration;
use giveway_analysis::feed::{Feed, JournalFeed};
use giveway_analysis::forecast::Present;
use giveway_analysis::model::Model;
use giveway_core::{JobId, Outcome, Span, plural};
use giveway_engine::client::Client;
use giveway_engine::cluster::{Cluster, RESTART_POLL_INTERVAL};
use giveway_engine::coordinator::{JournalLock, journal_path};
use giveway_engine::wire::JobStatus;
use giveway_mapreduce::apps::{App, Apps, automatic_split_bytes};
use giveway_mapreduce::job::Request;
use giveway_mapreduce::{hdfs, input};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// `giveway apps`
pub fn apps(args: &crate::args::List, apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    if args.json {
        let options = |app: &dyn App| {
            app.options().iter().map(|(name, about)| json!({ "name": name, "about": about })).collect::<Vec<_>>()
        };
        let apps: Vec<_> = apps
            .iter()
            .map(|app| json!({ "name": app.name(), "about": app.about(), "options": options(app) }))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&apps)?)?;
        return Ok(());
    }
    let mut table = TextTable::new(["application", "description"]);
    for app in apps.iter() {
        table.add_row([app.name(), app.about()]);
        for (option, about) in app.options() {
            table.add_row([format!("  -O {option}=..."), format!("  {about}")]);
        }
    }
    Ok(writeln!(out, "{table}")?)
}

/// How the names of temporary cluster directories begin.
const TEMPORARY_PREFIX: &str = ".giveway-";

/// The file in such a directory that tells it from a cluster of `giveway up`, which somebody who may write to the same parent could rename.
const TEMPORARY_MARK: &str = "temporary";

/// How long the workers of `giveway run` try to reconnect. Their coordinator never comes back: it ends with the command.
const RUN_RECONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// `giveway run`
pub fn run(args: &Run, apps: &Apps) -> Result<()> {
    let map_slots = args.options.nodes.saturating_mul(u32::from(args.options.slots().0));
    let request = request(&args.job, apps, map_slots)?;
    // Next to the output, so that intermediate data is on the disk the user selected.
    let parent = request.output.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create directory {}", parent.display()))?;
    let folder = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a temporary directory in {}", parent.display()))?;
    remove_leftovers(parent, folder.path());
    // Killing the job lets the normal end of this function remove its output and the cluster directory.
    let interrupt = Arc::new(Mutex::new(Interrupt::default()));
    let interrupted = Arc::clone(&interrupt);
    signals::on_stop(move || lock(&interrupted).kill())?;
    let workers = WorkerSettings { restart: false, reconnect_timeout: RUN_RECONNECT_TIMEOUT };
    let mut cluster = up::start(folder.path(), &args.options, &workers, apps)?;
    std::fs::write(folder.path().join(TEMPORARY_MARK), "")
        .with_context(|| format!("cannot write to {}", folder.path().display()))?;
    let mut client = cluster.client()?;
    let job = client.submit(request)?;
    lock(&interrupt).set_job(cluster.client()?, job);
    let status = restarting_workers(&mut cluster, || follow(&mut client, folder.path(), job))?;
    drop(cluster);
    remove_subdirectories(folder.path());
    finish(&status)
}

/// Runs `f` and meanwhile restarts workers that end: a job whose workers have all been killed would otherwise never end.
fn restarting_workers<R>(cluster: &mut Cluster, f: impl FnOnce() -> R) -> R {
    thread::scope(|scope| {
        // The thread ends when `done` is dropped.
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            while is_done.recv_timeout(RESTART_POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                cluster.restart_ended_workers();
            }
        });
        let result = f();
        drop(done);
        result
    })
}

/// Removes the cluster directories that `giveway run` left in a directory because it was killed: those of this user, who also has the new one.
fn remove_leftovers(parent: &Path, new: &Path) {
    let (Ok(entries), Ok(own)) = (std::fs::read_dir(parent), new.metadata()) else { return };
    let named = entries.flatten().filter(|entry| entry.file_name().as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()));
    for folder in named.map(|entry| entry.path()) {
        let is_like_new = |of: Metadata| of.is_dir() && (of.uid(), of.mode()) == (own.uid(), own.mode());
        let is_own = folder.symlink_metadata().is_ok_and(is_like_new);
        // Without the mark, it belongs to a run that has just begun, or to no run.
        if is_own
            && folder.join(TEMPORARY_MARK).exists()
            && JournalLock::wait_until_free(&folder, Duration::ZERO).is_ok()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Removes what is in a cluster directory, mainly the directories of its workers, in parallel: freeing gigabytes of intermediate data takes a while.
/// What cannot be removed here is left to the removal of the whole directory.
fn remove_subdirectories(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    rayon::scope(|scope| {
        for path in &paths {
            scope.spawn(move |_| drop(std::fs::remove_dir_all(path)));
        }
    });
}

/// Kills the job of `giveway run` at Ctrl-C, also if that comes before the job is submitted.
#[derive(Default)]
struct Interrupt {
    is_requested: bool,
    job: Option<(Client, JobId)>,
}

impl Interrupt {
    fn kill(&mut self) {
        self.is_requested = true;
        if let Some((client, job)) = &mut self.job {
            // Kills the current round, if the application has several. Fails only if the job has ended.
            let _ = client.kill(*job);
        }
    }

    fn set_job(&mut self, client: Client, job: JobId) {
        self.job = Some((client, job));
        if self.is_requested {
            self.kill();
        }
    }
}

fn lock(interrupt: &Mutex<Interrupt>) -> MutexGuard<'_, Interrupt> {
    interrupt.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `giveway submit`
pub fn submit(args: &Submit, apps: &Apps) -> Result<()> {
    let mut client = Client::connect(&args.cluster.dir)?;
    if let Some(owner) = client.runs_as() {
        eprintln!(
            "note: the job runs as {owner}, the cluster's owner: its programs can read and change what {owner} can"
        );
    }
    let map_slots = client.nodes()?.iter().filter(|node| node.up).map(|node| u32::from(node.map_slots.0)).sum();
    let request = request(&args.job, apps, map_slots)?;
    let job = match program(args, apps)? {
        Some(mut program) => client.submit_with_program(request, &mut program)?,
        None => client.submit(request)?,
    };
    if !args.wait {
        writeln!(std::io::stdout(), "{}", job.0)?;
        return Ok(());
    }
    signals::on_stop(move || {
        eprintln!("\n{job} continues; `giveway kill {}` ends it", job.0);
        std::process::exit(signals::EXIT_INTERRUPTED.into());
    })?;
    eprintln!("{job} submitted");
    let status = follow(&mut client, &args.cluster.dir, job)
        .with_context(|| format!("cannot follow {job}, which continues to run; see `giveway job {}`", job.0))?;
    finish(&status)
}

/// The program to ship with the job: the given one, or this one if the application is not built into every cluster.
fn program(args: &Submit, apps: &Apps) -> Result<Option<File>> {
    match &args.program {
        Some(path) => {
            let opened = File::open(path).with_context(|| format!("cannot read the program {}", path.display()))?;
            if !opened.metadata().is_ok_and(|metadata| metadata.is_file()) {
                bail!("the program {} is not a file", path.display());
            }
            Ok(Some(opened))
        }
        None if apps.is_own(&args.job.app) => {
            // Also finds the file if it was replaced or removed since this process started.
            let own = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?));
            Ok(Some(own.context("cannot read this program, which has the application")?))
        }
        None => Ok(None),
    }
}

fn request(job: &JobOptions, apps: &Apps, map_slots: u32) -> Result<Request> {
    if job.output.to_string_lossy().starts_with(hdfs::SCHEME) {
        bail!(
            "invalid --output: only local directories are supported; copy the output with `hdfs dfs -put` afterwards"
        );
    }
    let mut options: BTreeMap<String, String> = job.options.iter().cloned().collect();
    for (name, command) in [("mapper", &job.mapper), ("reducer", &job.reducer)] {
        if let Some(command) = command {
            options.insert(name.into(), command.clone());
        }
    }
    if job.app == "streaming" {
        // Streaming commands run in the directory from which the job was submitted.
        let current = std::env::current_dir().context("cannot determine the current directory")?;
        if !options.contains_key("dir") {
            let Some(dir) = current.to_str() else {
                bail!(
                    "the name of the current directory is not UTF-8; add -O dir=DIRECTORY for the streaming commands"
                );
            };
            options.insert("dir".into(), dir.to_owned());
        }
    }
    let absolute = |path: &OsString| -> Result<OsString> {
        if input::is_remote(path) {
            return Ok(path.clone());
        }
        let absolute = std::path::absolute(path);
        Ok(absolute.with_context(|| format!("cannot resolve the path {}", path.display()))?.into())
    };
    let input: Vec<OsString> = job.input.iter().map(absolute).collect::<Result<_>>()?;
    Ok(Request {
        app: job.app.clone(),
        options,
        split_bytes: job.split.unwrap_or_else(|| automatic_split_bytes(apps, &job.app, &input, map_slots)),
        input,
        output: std::path::absolute(&job.output).context("cannot resolve the output directory")?,
        reduces: job.reduces,
        memory_bytes: job.memory,
        name: job.name.clone().unwrap_or_else(|| job.app.clone()),
        user: job.user.clone().unwrap_or_else(giveway_engine::current_user),
        pool: job.pool.clone().unwrap_or_default(),
        priority: job.priority,
        task_timeout_ms: job.task_timeout.as_millis() as u64,
        records_per_s: job.records_per_second,
        compress: job.compress,
        sync_output: !job.no_sync,
    })
}

/// Waits until a job ends. If standard error is a terminal, a progress bar has the finished tasks and when the job is expected to end.
fn follow(client: &mut Client, folder: &Path, job: JobId) -> Result<JobStatus> {
    if !std::io::stderr().is_terminal() {
        return Ok(client.follow(job, |_| {})?);
    }
    let bar = ProgressBar::new(1);
    bar.set_style(ProgressStyle::with_template("{prefix} {bar:32} {pos}/{len} tasks{msg}").expect("valid template"));
    let mut expected_end = ExpectedEnd::new(folder, job);
    let status = client.follow(job, |status| {
        bar.set_prefix(format!("{} {}", status.job, printable(&status.name)));
        bar.set_length(u64::from(status.maps.total + status.reduces.total).max(1));
        bar.set_position(u64::from(status.maps.done + status.reduces.done));
        let left = expected_end.left();
        bar.set_message(left.map_or_else(String::new, |left| format!(", about {} left", duration(left))));
    })?;
    bar.finish_and_clear();
    Ok(status)
}

/// When a job is expected to end, from the forecast that `giveway jobs` shows too, renewed now and then.
struct ExpectedEnd {
    feed: JournalFeed,
    model: Option<Model>,
    job: JobId,
    end: Option<Instant>,
    renewed: Option<Instant>,
}

impl ExpectedEnd {
    /// How often the forecast is renewed, and how long that may take.
    const INTERVAL: Duration = Duration::from_secs(3);
    const LIMIT: Duration = Duration::from_millis(50);

    fn new(folder: &Path, job: JobId) -> ExpectedEnd {
        ExpectedEnd { feed: JournalFeed::new(&journal_path(folder)), model: None, job, end: None, renewed: None }
    }

    /// Time until then; none if there is no forecast, or if it has not come true.
    fn left(&mut self) -> Option<Span> {
        if self.renewed.is_none_or(|renewed| renewed.elapsed() > Self::INTERVAL) {
            self.end = self.forecast();
            self.renewed = Some(Instant::now());
        }
        let left = self.end?.checked_duration_since(Instant::now())?;
        Some(Span::from_secs_f64(left.as_secs_f64()))
    }

    fn forecast(&mut self) -> Option<Instant> {
        // The journal of another user's cluster cannot be read.
        self.feed.poll(&mut self.model).ok()?;
        let model = self.model.as_ref()?;
        let present = Present::of(model)?;
        let end = present.forecast(&present.policy, Self::LIMIT).of_job(self.job, model.now)?.end?.median?;
        Some(Instant::now() + Duration::from_secs_f64(end.since(model.now).as_secs_f64()))
    }
}

/// Prints the summary of a job that succeeded; a job that failed or was killed is an error with exit code 1.
fn finish(status: &JobStatus) -> Result<()> {
    let seconds = status.total_s().unwrap_or(0.0);
    if status.outcome == Some(Outcome::Succeeded) {
        let counts = [
            plural(status.maps.total, "map"),
            plural(status.reduces.total, "reduce"),
            plural(status.pauses, "pause"),
            plural(status.early_ends, "early end"),
            plural(status.recovered, "task") + " re-executed",
        ];
        writeln!(
            std::io::stdout(),
            "{} {} succeeded in {seconds:.2} s: {}",
            status.job,
            printable(&status.name),
            counts.join(", ")
        )?;
        return Ok(());
    }
    let how = if status.outcome == Some(Outcome::Killed) { "was killed" } else { "failed" };
    let mut text = format!("{} {} {how} after {seconds:.2} s; its output was removed", status.job, status.name);
    if let Some(last) = status.failures.last() {
        text.push_str(&format!(". Last failure: {last}"));
    }
    Err(CheckFailed(text).into())
}
