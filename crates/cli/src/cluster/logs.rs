//! `giveway logs`: what the attempts of a job have printed.

use super::args::Logs;
use crate::terminal::{printable, write_printable};
use crate::text_table::TextTable;
use anyhow::{Context, Result, bail};
use giveway_core::{AttemptId, JobId};
use giveway_engine::attempt_logs::{self, AttemptLog, LogChunk, TaskSelector, attempt_name};
use giveway_engine::client::{Client, ClientError};
use giveway_engine::wire::LogStatus;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// How often `--follow` looks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// `giveway logs`
pub fn logs(args: &Logs) -> Result<()> {
    let job = JobId(args.job.id);
    let mut source = Source::open(&args.job.cluster.dir, job)?;
    let is_selected = |log: &LogStatus| args.task.is_none_or(|selector: TaskSelector| selector.selects(log.attempt));
    let selected = |source: &mut Source| -> Result<Vec<LogStatus>> {
        Ok(source.list(job)?.into_iter().filter(is_selected).collect())
    };
    let mut out = std::io::stdout().lock();
    if args.list || args.json {
        return list(&selected(&mut source)?, args.json, &mut out);
    }
    let mut printer = Printer { is_terminal: out.is_terminal(), last: None, read_to: HashMap::new(), out: &mut out };
    loop {
        // Asked first: what is printed before the end is complete after it.
        let has_ended = !args.follow || source.has_ended(job)?;
        let logs = selected(&mut source)?;
        for log in &logs {
            printer.print_new(log, args.tail, &mut source)?;
        }
        if has_ended {
            if logs.is_empty() {
                eprintln!(
                    "no attempt {}of {job} has printed anything, or its logs were removed",
                    of(args.task.is_some())
                );
            }
            return Ok(());
        }
        printer.out.flush()?;
        std::thread::sleep(FOLLOW_INTERVAL);
    }
}

fn of(is_selected: bool) -> &'static str {
    if is_selected { "of this selection " } else { "" }
}

/// Where logs are read: in the cluster directory, also while it is down, or through the coordinator of another user's cluster.
enum Source {
    Folder { folder: PathBuf, logs: Vec<AttemptLog>, client: Option<Client> },
    Coordinator(Client),
}

impl Source {
    fn open(folder: &Path, job: JobId) -> Result<Source> {
        let stored = attempt_logs::find(folder, job);
        let client = match Client::connect(folder) {
            Ok(mut client) => match client.job(job) {
                Ok(_) => Some(client),
                // It ended so long ago that only its logs are left.
                Err(_) if stored.as_ref().is_ok_and(|logs| !logs.is_empty()) => None,
                Err(error) => return Err(error.into()),
            },
            Err(ClientError::NoCluster { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        match (stored, client) {
            (Ok(logs), None) if logs.is_empty() => {
                bail!("no cluster is running in {}, and no log of {job} is stored there; check --dir", folder.display())
            }
            (Ok(logs), client) => Ok(Source::Folder { folder: folder.into(), logs, client }),
            (Err(_), Some(client)) => Ok(Source::Coordinator(client)),
            (Err(error), None) => Err(error).with_context(|| format!("cannot read {}; check --dir", folder.display())),
        }
    }

    fn list(&mut self, job: JobId) -> Result<Vec<LogStatus>> {
        match self {
            Source::Folder { folder, logs, .. } => {
                *logs = attempt_logs::find(folder, job)?;
                let status = |log: &AttemptLog| LogStatus {
                    attempt: log.attempt,
                    node: log.node.clone(),
                    bytes: log.bytes(),
                    stored_bytes: log.stored_bytes(),
                };
                Ok(logs.iter().map(status).collect())
            }
            Source::Coordinator(client) => Ok(client.logs(job)?),
        }
    }

    fn read(&mut self, attempt: AttemptId, from: u64) -> Result<LogChunk> {
        match self {
            Source::Folder { logs, .. } => match logs.iter().find(|log| log.attempt == attempt) {
                Some(log) => Ok(log.read(from, CHUNK_BYTES)?),
                None => Ok(LogChunk { start: from, bytes: Vec::new() }),
            },
            Source::Coordinator(client) => Ok(client.read_log(attempt, from)?),
        }
    }

    fn has_ended(&mut self, job: JobId) -> Result<bool> {
        match self {
            Source::Folder { client: None, .. } => Ok(true),
            Source::Folder { client: Some(client), .. } | Source::Coordinator(client) => {
                Ok(client.job(job)?.outcome.is_some())
            }
        }
    }
}

/// A log in the list. The names are part of the JSON output, which scripts read.
#[derive(Serialize)]
struct Row<'a> {
    attempt: String,
    node: &'a str,
    bytes: u64,
    stored_bytes: u64,
}

fn list(logs: &[LogStatus], json: bool, out: &mut impl Write) -> Result<()> {
    let rows = logs.iter().map(|log| Row {
        attempt: attempt_name(log.attempt),
        node: &log.node,
        bytes: log.bytes,
        stored_bytes: log.stored_bytes,
    });
    if json {
        let rows: Vec<Row<'_>> = rows.collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    let mut table = TextTable::new(["attempt", "node", "bytes", "stored"]);
    for row in rows {
        table.add_row([row.attempt, printable(row.node), row.bytes.to_string(), row.stored_bytes.to_string()]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

/// Prints logs, with a heading wherever another attempt's begins.
struct Printer<'a, W> {
    is_terminal: bool,
    last: Option<AttemptId>,
    read_to: HashMap<AttemptId, u64>,
    out: &'a mut W,
}

impl<W: Write> Printer<'_, W> {
    fn print_new(&mut self, log: &LogStatus, tail: Option<u64>, source: &mut Source) -> Result<()> {
        let attempt = log.attempt;
        let mut from = match self.read_to.get(&attempt) {
            Some(&from) => from,
            None => tail.map_or(0, |bytes| log.bytes.saturating_sub(bytes)),
        };
        loop {
            let chunk = source.read(attempt, from)?;
            if chunk.bytes.is_empty() {
                break;
            }
            if self.last != Some(attempt) {
                let gap = if self.last.is_some() { "\n" } else { "" };
                writeln!(self.out, "{gap}== {} on {} ==", attempt_name(attempt), printable(&log.node))?;
                self.last = Some(attempt);
            }
            if chunk.start > from {
                writeln!(self.out, "[{} bytes are no longer stored]", chunk.start - from)?;
            }
            if self.is_terminal {
                write_printable(&chunk.bytes, self.out)?;
            } else {
                self.out.write_all(&chunk.bytes)?;
            }
            from = chunk.start + chunk.bytes.len() as u64;
        }
        self.read_to.insert(attempt, from);
        Ok(())
    }
}
