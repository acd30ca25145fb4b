//! `giveway yarn`: runs the sidecar of a Hadoop ResourceManager until a stop signal, or checks a cluster's configuration.

use crate::args::{Yarn, YarnCommand, YarnSidecar};
use crate::terminal::dashboard_address;
use crate::{CheckFailed, input, signals};
use anyhow::Result;
use giveway_web::server::Server;
use giveway_yarn::doctor::{self, HadoopConf};
use giveway_yarn::{Options, Sidecar};
use std::path::Path;
use std::time::Duration;

/// Runs the command. Log lines go to standard error.
pub fn run(args: &Yarn) -> Result<()> {
    match (&args.command, &args.sidecar) {
        (Some(YarnCommand::Doctor { policy, conf }), _) => check_configuration(policy, conf),
        (None, Some(sidecar)) => run_sidecar(sidecar),
        (None, None) => anyhow::bail!("missing options; see `giveway yarn --help`"),
    }
}

fn check_configuration(policy: &str, conf: &Path) -> Result<()> {
    let policy = input::policy(policy)?;
    let read = HadoopConf::read(conf)?;
    for file in &read.missing {
        println!("{file}: not found in {}; its properties count as not set", conf.display());
    }
    let findings = doctor::check(&policy, &read);
    findings.iter().for_each(|finding| println!("{finding}"));
    for difference in giveway_yarn::degradations(&policy) {
        println!("policy `{}` needs `giveway yarn --degrade`: {difference}", policy.name);
    }
    if findings.is_empty() {
        println!("{}: the configuration has everything that policy `{}` needs", conf.display(), policy.name);
        return Ok(());
    }
    Err(CheckFailed(format!(
        "{} in {} to set or change for policy `{}`",
        plural_properties(findings.len()),
        conf.display(),
        policy.name
    ))
    .into())
}

fn plural_properties(count: usize) -> String {
    if count == 1 { "1 property".into() } else { format!("{count} properties") }
}

fn run_sidecar(args: &YarnSidecar) -> Result<()> {
    let options = Options {
        // A recording needs no policy; FIFO is what the queues do.
        policy: input::policy(args.policy.as_deref().unwrap_or("fifo"))?,
        listen: args.listen,
        token_file: args.token_file.clone(),
        event_log: args.event_log.clone(),
        degrade: args.degrade,
        node_expiry: Duration::from_secs(args.node_expiry),
        record_only: args.record_only,
    };
    let sidecar = Sidecar::bind(options, |line| tracing::info!("{line}"))?;
    if let (Some(address), Some(event_log)) = (args.http, &args.event_log) {
        let server = Server::follow(event_log, address)?;
        tracing::info!("dashboard: {}", dashboard_address(&server, event_log, std::io::stderr())?);
    }
    let stop_handle = sidecar.stop_handle();
    signals::on_stop(move || stop_handle.stop())?;
    Ok(sidecar.run()?)
}
