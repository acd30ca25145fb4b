//! `giveway replay`: the same events again; are the actions the same?

use crate::NotSo;
use crate::args::Replay;
use anyhow::{Context, Result};
use giveway_core::Scheduler;
use giveway_core::tape::TapeDecoder;
use std::fs::File;
use std::io::{Read, Write};

/// Runs the command.
pub fn run(args: &Replay) -> Result<()> {
    let name = args.tape.display();
    let mut file = File::open(&args.tape).with_context(|| format!("cannot open {name}; check the path"))?;
    let mut decoder = TapeDecoder::new();
    let mut core: Option<Scheduler> = None;
    let mut buffer = vec![0; 1 << 20];
    let mut actions = Vec::new();
    loop {
        let read = file.read(&mut buffer).with_context(|| format!("cannot read {name}"))?;
        if read == 0 {
            break;
        }
        decoder.feed(&buffer[..read]);
        while let Some(record) = decoder.pull().with_context(|| format!("{name} is no whole tape"))? {
            let core = match &mut core {
                Some(core) => core,
                None => {
                    let setup = decoder.setup().expect("a record comes after the head").clone();
                    core.insert(
                        Scheduler::new(setup).with_context(|| format!("{name} has a setup that makes no sense"))?,
                    )
                }
            };
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
    decoder.finish().with_context(|| format!("{name} is no whole tape"))?;
    let policy = decoder.setup().map_or(String::new(), |setup| setup.policy.name.clone());
    writeln!(std::io::stdout(), "{name}: {} events under {policy}, every action identical", decoder.records())?;
    Ok(())
}
