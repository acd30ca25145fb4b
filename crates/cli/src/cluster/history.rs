//! `giveway history`: the jobs that ended, from the journals in a cluster directory.

use super::args::History;
use super::inspect::utc;
use crate::terminal::printable;
use crate::text_table::TextTable;
use anyhow::{Result, anyhow, bail};
use giveway_analysis::explain::duration;
use giveway_analysis::feed;
use giveway_analysis::model::{JobRow, Model};
use giveway_core::{Priority, Span};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// `giveway history`
pub fn history(args: &History) -> Result<()> {
    if let Some(state @ ("waiting" | "running")) = args.filter.state.as_deref() {
        bail!(
            "history has only jobs that have ended; use --state succeeded, killed or failed, or `giveway jobs --state {state}`"
        );
    }
    let mut ended = Vec::new();
    let folder = &args.cluster.dir;
    let journals = feed::journals(folder).map_err(|error| no_journals(folder, &error))?;
    if journals.is_empty() {
        bail!("no journal in {}; a cluster has not run there, check --dir", folder.display());
    }
    for journal in journals {
        // An archive of another release does not hide the others.
        match feed::read(&journal) {
            Ok(model) => ended.extend(model.jobs.iter().filter_map(|job| EndedJob::new(job, &model))),
            Err(error) => eprintln!("giveway: left out: {error}"),
        }
    }
    ended.retain(|job| args.filter.wants(&job.user, &job.pool, job.outcome, job.submitted_ms));
    let list = args.format.list(&ended, false, |job| job.job.to_string(), || table(&ended))?;
    Ok(std::io::stdout().write_all(list.as_bytes())?)
}

fn table(ended: &[EndedJob]) -> TextTable {
    let header = "job|name|user|pool|outcome|submitted (UTC)|wait|elapsed|maps|reduces|preempted|lost";
    let left_out = "lost|preempted|pool|wait|reduces|maps|name…|user";
    let mut table = TextTable::new(header.split('|')).states("outcome").leave_out(left_out);
    for job in ended {
        let seconds = |seconds: f64| duration(Span::from_secs_f64(seconds));
        table.add_row([
            job.job.to_string(),
            printable(&job.name),
            job.user.clone(),
            job.pool.clone(),
            job.outcome.to_owned(),
            job.submitted_ms.map_or_else(String::new, utc),
            job.wait_s.map_or_else(String::new, seconds),
            seconds(job.total_s),
            job.maps.to_string(),
            job.reduces.to_string(),
            (job.pauses + job.early_ends + job.kills).to_string(),
            seconds(job.lost_s),
        ]);
    }
    table
}

fn no_journals(folder: &Path, error: &io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only the cluster's owner reads its history; `giveway jobs` lists jobs of the running cluster"
        }
        _ => "check --dir",
    };
    anyhow!("cannot read {}: {error}; {hint}", folder.display())
}

/// An ended job. The names are part of the JSON output, which scripts read.
#[derive(Debug, Serialize)]
struct EndedJob {
    job: u32,
    name: String,
    user: String,
    pool: String,
    priority: Priority,
    outcome: &'static str,
    /// Milliseconds of the Unix epoch.
    submitted_ms: Option<f64>,
    /// Seconds until the first task started.
    wait_s: Option<f64>,
    /// Seconds from the submission to the end.
    total_s: f64,
    maps: u32,
    reduces: u32,
    pauses: u32,
    early_ends: u32,
    kills: u32,
    failed_attempts: u32,
    recovered: u32,
    /// Slot seconds of attempts that were killed for another job.
    lost_s: f64,
}

impl EndedJob {
    fn new(job: &JobRow, model: &Model) -> Option<EndedJob> {
        job.outcome?;
        let submitted = job.submitted;
        Some(EndedJob {
            job: job.id.0,
            name: job.name.clone(),
            user: job.user.clone(),
            pool: job.pool.clone(),
            priority: job.priority,
            outcome: job.state().into(),
            submitted_ms: model.unix_ms(submitted),
            wait_s: job.started.map(|started| model.elapsed(submitted, started).as_secs_f64()),
            total_s: model.elapsed(submitted, job.ended?).as_secs_f64(),
            maps: job.tasks[0],
            reduces: job.tasks[1],
            pauses: job.pauses,
            early_ends: job.early_ends,
            kills: job.kills,
            failed_attempts: job.failures,
            recovered: job.recovered,
            lost_s: job.lost_to_preemption.as_secs_f64(),
        })
    }
}
