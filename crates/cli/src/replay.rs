//! `giveway replay`: feeds the events of a log to a new scheduler and compares its actions with the recorded ones.

use crate::CheckFailed;
use crate::args::Replay;
use anyhow::{Context, Result, ensure};
use giveway_core::event_log::{EventLogDecoder, Record};
use giveway_core::{Action, Event, JobId, Scheduler};
use giveway_engine::coordinator;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Cursor, Read, Write};
use std::path::Path;

/// Opens an event log, or the one in the journal of a cluster.
fn open(path: &Path) -> Result<Box<dyn Read>> {
    let cannot_open = || format!("cannot open event log {}; check the path", path.display());
    let mut first = Vec::new();
    File::open(path).and_then(|file| file.take(8).read_to_end(&mut first)).with_context(cannot_open)?;
    if coordinator::is_journal(&first) {
        return Ok(Box::new(Cursor::new(coordinator::read_event_log(path)?)));
    }
    Ok(Box::new(File::open(path).with_context(cannot_open)?))
}

/// Runs the command.
pub fn run(args: &Replay) -> Result<()> {
    let name = args.event_log.display();
    let cannot_replay = || format!("cannot replay {name}");
    let mut file = open(&args.event_log)?;
    let mut decoder = EventLogDecoder::new();
    let mut core: Option<Scheduler> = None;
    let mut buffer = vec![0; 1 << 20];
    let mut actions = Vec::new();
    let mut names = HashMap::new();
    let mut bytes = 0;
    let mut out = BufWriter::new(std::io::stdout());
    loop {
        let read = file.read(&mut buffer).with_context(|| format!("cannot read event log {name}"))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        decoder.feed(&buffer[..read]);
        while let Some(record) = decoder.pull().with_context(cannot_replay)? {
            let core = match &mut core {
                Some(core) => core,
                None => {
                    let setup = decoder.setup().expect("the decoder has the setup before the first record").clone();
                    core.insert(Scheduler::new(setup).with_context(|| format!("{name}: invalid setup"))?)
                }
            };
            if args.list {
                writeln!(out, "{} {:?} -> {:?}", record.now, record.event, record.actions)?;
            }
            if args.json {
                let record =
                    serde_json::json!({ "now_us": record.now.0, "event": record.event, "actions": record.actions });
                writeln!(out, "{record}")?;
            }
            if args.jobs {
                list_ended(&record, &mut names, &mut out)?;
            }
            actions.clear();
            core.handle(record.now, &record.event, &mut actions);
            if actions != record.actions {
                let number = decoder.records();
                return Err(CheckFailed(format!(
                    "{name}: replay mismatch in record {number} at {}\n  event: {:?}\n  recorded actions: {:?}\n  replayed actions: {actions:?}",
                    record.now, record.event, record.actions
                ))
                .into());
            }
        }
    }
    ensure!(bytes > 0, "{name} is empty; check the file name");
    let end = decoder.finish();
    if !(args.open && decoder.valid_bytes() == bytes) {
        end.clone().with_context(cannot_replay)?;
    }
    let still_open = if end.is_err() { "; the event log has no closing record" } else { "" };
    let policy = decoder.setup().map_or(String::new(), |setup| setup.policy.name.clone());
    if args.json {
        out.flush()?;
        return Ok(());
    }
    writeln!(out, "{name}: {} events replayed under {policy}, every action identical{still_open}", decoder.records())?;
    out.flush()?;
    Ok(())
}

/// Prints the jobs that ended with this record: time, outcome and name.
fn list_ended(record: &Record, names: &mut HashMap<JobId, String>, out: &mut impl Write) -> std::io::Result<()> {
    if let Event::JobSubmitted(spec) | Event::JobOpened(spec) = &record.event {
        names.insert(spec.id, spec.name.clone());
    }
    for action in &record.actions {
        if let Action::CloseJob { job, outcome } = action {
            writeln!(out, "{} {outcome:?} {}", record.now, names.remove(job).unwrap_or_default())?;
        }
    }
    Ok(())
}
