//! `giveway replay`: the same events again; are the actions the same?

use crate::NotSo;
use crate::args::Replay;
use anyhow::{Context, Result};
use giveway_core::event_log::{EventLogDecoder, Record};
use giveway_core::{Action, Event, JobId, Scheduler};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};

/// Runs the command.
pub fn run(args: &Replay) -> Result<()> {
    let name = args.event_log.display();
    let mut file = File::open(&args.event_log).with_context(|| format!("cannot open {name}; check the path"))?;
    let mut decoder = EventLogDecoder::new();
    let mut core: Option<Scheduler> = None;
    let mut buffer = vec![0; 1 << 20];
    let mut actions = Vec::new();
    let mut names = HashMap::new();
    let mut bytes = 0;
    let mut out = BufWriter::new(std::io::stdout());
    loop {
        let read = file.read(&mut buffer).with_context(|| format!("cannot read {name}"))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        decoder.feed(&buffer[..read]);
        while let Some(record) = decoder.pull().with_context(|| format!("{name} is no whole event log"))? {
            let core = match &mut core {
                Some(core) => core,
                None => {
                    let setup = decoder.setup().expect("a record comes after the head").clone();
                    core.insert(
                        Scheduler::new(setup).with_context(|| format!("{name} has a setup that makes no sense"))?,
                    )
                }
            };
            if args.list {
                writeln!(out, "{} {:?} -> {:?}", record.now, record.event, record.actions)?;
            }
            if args.jobs {
                list_ended(&record, &mut names, &mut out)?;
            }
            actions.clear();
            core.handle(record.now, &record.event, &mut actions);
            if actions != record.actions {
                let number = decoder.records();
                return Err(NotSo(format!(
                    "{name}: record {number} differs at {}: {:?} gave\n  {:?}\nand now gives\n  {actions:?}",
                    record.now, record.event, record.actions
                ))
                .into());
            }
        }
    }
    let whole = decoder.finish();
    if !(args.open && decoder.valid_bytes() == bytes) {
        whole.clone().with_context(|| format!("{name} is no whole event log"))?;
    }
    let still_open = if whole.is_err() { "; the event log is not closed" } else { "" };
    let policy = decoder.setup().map_or(String::new(), |setup| setup.policy.name.clone());
    writeln!(out, "{name}: {} events under {policy}, every action identical{still_open}", decoder.records())?;
    out.flush()?;
    Ok(())
}

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
