//! `giveway run`, `submit` and `apps`: jobs for real.

use super::args::{Job, Run, Submit};
use super::up;
use crate::{NotSo, signals};
use anyhow::{Context, Result, bail};
use giveway_core::{JobId, Outcome};
use giveway_engine::apps::Apps;
use giveway_engine::client::Client;
use giveway_engine::job::Request;
use giveway_engine::wire::JobStatus;
use giveway_engine::{hdfs, store};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// `giveway apps`
pub fn apps(apps: &Apps) -> Result<()> {
    let mut out = std::io::stdout();
    for app in apps.iter() {
        writeln!(out, "{:<20} {}", app.name(), app.about())?;
        for (option, about) in app.options() {
            writeln!(out, "{:<20}   -O {option}=...  {about}", "")?;
        }
    }
    Ok(())
}

/// `giveway run`
pub fn run(args: &Run, apps: &Apps) -> Result<()> {
    let request = request(&args.job)?;
    // Beside the output, so that what maps write is on the disk the user chose.
    let parent = request.output.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let folder = tempfile::Builder::new()
        .prefix(".giveway-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    let cluster = up::start(folder.path(), &args.shape, "127.0.0.1:0", apps)?;
    let mut client = cluster.client()?;
    let job = client.submit(request)?;
    // The job is killed, so that its output and the cluster's folder are removed as at any other end.
    let mut killer = cluster.client()?;
    signals::on_stop(move || {
        let _ = killer.kill(job);
    })?;
    let status = follow(&mut client, job)?;
    drop(cluster);
    finish(&status)
}

/// `giveway submit`
pub fn submit(args: &Submit) -> Result<()> {
    let mut client = Client::connect(&args.which.dir)?;
    let job = client.submit(request(&args.job)?)?;
    if !args.wait {
        writeln!(std::io::stdout(), "{}", job.0)?;
        return Ok(());
    }
    eprintln!("{job} is submitted");
    let status =
        follow(&mut client, job).with_context(|| format!("{job} goes on; ask for it with `giveway job {}`", job.0))?;
    finish(&status)
}

fn request(job: &Job) -> Result<Request> {
    if job.output.to_string_lossy().starts_with("dfs:") {
        bail!("the output goes to a local folder; `giveway dfs put` stores it afterwards");
    }
    if job.output.to_string_lossy().starts_with(hdfs::SCHEME) {
        bail!("the output goes to a local folder; `hdfs dfs -put` brings it to HDFS afterwards");
    }
    let mut options: BTreeMap<String, String> = job.options.iter().cloned().collect();
    for (name, command) in [("mapper", &job.mapper), ("reducer", &job.reducer)] {
        if let Some(command) = command {
            options.insert(name.into(), command.clone());
        }
    }
    if job.app == "streaming" {
        // Commands run where they were typed.
        let here = std::env::current_dir().context("the current folder")?;
        options.entry("dir".into()).or_insert_with(|| here.to_string_lossy().into_owned());
    }
    let absolute = |path: &str| -> Result<String> {
        if [store::SCHEME, hdfs::SCHEME].iter().any(|scheme| path.starts_with(scheme)) {
            return Ok(path.to_owned());
        }
        let path = std::path::absolute(path).with_context(|| format!("the path {path}"))?;
        Ok(path.to_string_lossy().into_owned())
    };
    Ok(Request {
        app: job.app.clone(),
        options,
        input: job.input.iter().map(|path| absolute(path)).collect::<Result<_>>()?,
        output: std::path::absolute(&job.output).context("the output")?,
        reduces: job.reduces,
        split_bytes: job.split,
        memory_bytes: job.memory,
        name: job.name.clone().unwrap_or_else(|| job.app.clone()),
        user: job.user.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "me".into()),
        pool: job.pool.clone(),
        priority: job.priority,
        task_timeout_ms: job.task_timeout.as_millis() as u64,
        records_per_s: job.records_per_second,
        compress: job.compress,
    })
}

/// Waits for a job with a bar on the terminal.
fn follow(client: &mut Client, job: JobId) -> Result<JobStatus> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(1) } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{msg} {bar:32} {pos}/{len} tasks").expect("a sound template"));
    let status = client.follow(job, |status| {
        bar.set_message(format!("{} {}", status.job, status.name));
        bar.set_length(u64::from(status.maps.total + status.reduces.total).max(1));
        bar.set_position(u64::from(status.maps.done + status.reduces.done));
    })?;
    bar.finish_and_clear();
    Ok(status)
}

/// Says how a job ended; an end that was not asked for is an error.
fn finish(status: &JobStatus) -> Result<()> {
    let seconds = status.ended_us.map_or(0.0, |end| (end - status.submitted_us) as f64 / 1e6);
    if status.outcome == Some(Outcome::Succeeded) {
        let maps = status.maps.total;
        writeln!(
            std::io::stdout(),
            "{} {} done in {seconds:.2} s: {maps} maps, {} reduces, {} pauses, {} early ends, {} recovered",
            status.job,
            status.name,
            status.reduces.total,
            status.pauses,
            status.early_ends,
            status.recovered
        )?;
        return Ok(());
    }
    let how = if status.outcome == Some(Outcome::Killed) { "was killed" } else { "failed" };
    let mut text = format!("{} {} {how} after {seconds:.2} s; its output was removed", status.job, status.name);
    if let Some(last) = status.failures.last() {
        text.push_str(&format!(". The last thing that went wrong: {last}"));
    }
    Err(NotSo(text).into())
}
