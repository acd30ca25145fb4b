//! `giveway yarn`: runs the sidecar of a Hadoop ResourceManager until a stop signal.

use crate::args::Yarn;
use crate::{input, signals};
use anyhow::{Context, Result};
use giveway_yarn::{Options, Sidecar};

/// Runs the command. Log lines go to standard error.
pub fn run(args: &Yarn) -> Result<()> {
    let options = Options {
        policy: input::policy(&args.policy)?,
        listen: args.listen,
        token_file: args.token_file.clone(),
        event_log: args.event_log.clone(),
        slot_mb: args.slot_mb,
    };
    let sidecar = Sidecar::bind(options, |line| eprintln!("giveway yarn: {line}"))?;
    let stop_handle = sidecar.stop_handle();
    signals::on_stop(move || stop_handle.stop())?;
    sidecar.run().context("cannot close the event log")
}
