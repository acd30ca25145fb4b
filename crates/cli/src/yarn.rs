//! `giveway yarn`: the sidecar of a Hadoop ResourceManager, until it is told to stop.

use crate::args::Yarn;
use crate::{input, signals};
use anyhow::{Context, Result};
use giveway_yarn::{Options, Sidecar, Sizes};

/// Runs the command.
pub fn run(args: &Yarn) -> Result<()> {
    let options = Options {
        policy: input::policy(&args.policy)?,
        listen: args.listen,
        token_file: args.token_file.clone(),
        event_log: args.event_log.clone(),
        sizes: Sizes { slot_mb: args.slot_mb },
    };
    let sidecar = Sidecar::bind(options, |line| eprintln!("giveway yarn: {line}"))?;
    let stopper = sidecar.stopper();
    signals::on_stop(move || stopper.stop())?;
    sidecar.run().context("cannot close the event log")
}
