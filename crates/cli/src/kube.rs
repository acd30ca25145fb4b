//! `giveway kube`: runs the controller of a Kubernetes cluster until a stop signal, gives squeezed pods their CPU back, or checks a cluster.

use crate::terminal::dashboard_address;
use crate::{CheckFailed, complete, input, signals};
use anyhow::{Result, anyhow, bail};
use clap::{Args as ClapArgs, Subcommand};
use giveway_core::plural;
use giveway_kube::driver::{self, StopHandle};
use giveway_kube::{Mode, Options, adapt, degradations, doctor};
use giveway_web::server::Server;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `giveway kube`
#[derive(Debug, ClapArgs)]
#[command(
    long_about = "Let large Jobs of a Kubernetes cluster give way to small ones.

The controller schedules the Jobs that have the label giveway.dev/queue. While a shorter Job waits for CPU, the CPU request of a pod of a larger one is resized to \
zero in place; the pod runs on with what is idle. Jobs that were submitted suspended are released in the policy's order. No pod is deleted. \
See docs/kubernetes.md.",
    after_long_help = "\
EXAMPLES
  Check what the cluster offers and which rights are missing:
      giveway kube doctor
  Record a cluster and change nothing, then simulate what it ran under other policies:
      giveway kube --record-only --event-log cluster.eventlog
      giveway sim --workload cluster.eventlog --policy fifo,fcs,fair
  Schedule it:
      giveway kube --policy fcs
  Give every squeezed pod its CPU back, after the controller has been removed:
      giveway kube restore",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Kube {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    controller: Option<ControllerArgs>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the version, the resize subresource, rights and LimitRanges of the cluster, and print what is missing and what that costs.
    Doctor {
        /// Check only what --record-only needs.
        #[arg(long)]
        record_only: bool,
    },
    /// Give every squeezed pod its CPU back and exit. No controller may be running.
    Restore {
        /// The --name of the controller that squeezed them.
        #[arg(long, default_value = DEFAULT_NAME)]
        name: String,
    },
}

const DEFAULT_NAME: &str = "giveway";

/// Options of the controller.
#[derive(Debug, ClapArgs)]
struct ControllerArgs {
    /// Policy name (docs/kubernetes.md lists those that work on Kubernetes) or TOML file; required unless --record-only is given.
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "record_only", conflicts_with = "record_only", add = complete::policies())]
    policy: Option<String>,
    /// Record all Jobs of the cluster and change nothing. Needs --event-log.
    #[arg(long, requires = "event_log")]
    record_only: bool,
    /// If the policy does more than Kubernetes can, do what is possible instead of stopping, and say what is done instead.
    #[arg(long)]
    degrade: bool,
    /// Name of this controller, written into the annotations of the pods that it squeezes.
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// Write every event and action to this event log; the file of an earlier run is renamed.
    #[arg(long, value_name = "FILE")]
    event_log: Option<PathBuf>,
    /// Serve a live dashboard of the cluster on this loopback address and port, read from the event log; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", requires = "event_log")]
    http: Option<SocketAddr>,
}

/// Runs the command. Log lines go to standard error.
pub fn run(args: &Kube) -> Result<()> {
    match (&args.command, &args.controller) {
        (Some(Command::Doctor { record_only }), _) => check_cluster(*record_only),
        (Some(Command::Restore { name }), _) => drive(options("fifo", Mode::Restore, name, false)?, None, None),
        (None, Some(controller)) => {
            let mode = if controller.record_only { Mode::RecordOnly } else { Mode::Schedule };
            // A recording needs no policy.
            let policy = controller.policy.as_deref().unwrap_or("fifo");
            let options = options(policy, mode, &controller.name, controller.degrade)?;
            drive(options, controller.event_log.clone(), controller.http)
        }
        (None, None) => bail!("missing options; see `giveway kube --help`"),
    }
}

fn options(policy: &str, mode: Mode, name: &str, degrade: bool) -> Result<Options> {
    let policy = input::policy(policy)?;
    let lacking = degradations(&policy);
    if !degrade && !lacking.is_empty() {
        let differences = lacking.join("; ");
        bail!(
            "policy `{}` does more than Kubernetes can; add --degrade to run it with this difference: {differences}",
            policy.name
        );
    }
    let (policy, notes) = adapt(policy, degrade);
    notes.iter().for_each(|note| tracing::info!("policy {}: {note}", policy.name));
    Ok(Options { policy, mode, name: name.to_owned() })
}

fn drive(options: Options, event_log: Option<PathBuf>, http: Option<SocketAddr>) -> Result<()> {
    let stop = StopHandle::default();
    let handle = stop.clone();
    signals::on_stop(move || handle.stop())?;
    let mut dashboard = http.zip(event_log.clone());
    driver::run(options, event_log.as_deref(), &stop, &mut |line| {
        tracing::info!("{line}");
        // The event log exists by the first line.
        if let Some((address, event_log)) = dashboard.take() {
            let served = Server::follow(&event_log, address).map_err(anyhow::Error::from);
            match served.and_then(|server| dashboard_address(&server, &event_log, std::io::stderr())) {
                Ok(address) => tracing::info!("dashboard: {address}"),
                Err(error) => tracing::info!("no dashboard: {error:#}"),
            }
        }
    })?;
    Ok(())
}

fn check_cluster(record_only: bool) -> Result<()> {
    let findings = doctor::check(record_only)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() {
        println!(
            "the cluster has everything that `giveway kube` needs; kubelets' CPU manager policy was not checked: `static` refuses resizes of exclusive CPUs"
        );
        return Ok(());
    }
    Err(CheckFailed(format!("{} to look at", plural(findings.len() as u64, "finding"))).into())
}
