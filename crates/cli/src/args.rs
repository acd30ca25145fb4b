//! The command line's arguments, as `clap` parses them. The arguments of the cluster commands are in `cluster/args.rs`, those of the laboratory's
//! commands in `giveway_lab::args`.

use crate::cluster::args as cluster;
use crate::complete;
use crate::size;
use crate::table_files::TableFiles;
use crate::traces;
use crate::what_if;
use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use giveway_lab::args::{Bench, Compare, Demo, Reproduce, Sweep};
use std::net::SocketAddr;
use std::path::PathBuf;

/// MapReduce scheduler that preempts tasks without losing their work: run jobs on a local cluster, simulate policies, or order the applications of a YARN cluster.
#[derive(Debug, Parser)]
#[command(
    name = "giveway",
    version,
    after_help = "Start with `giveway demo`, then `giveway sim --workload hsrtf-table2 --policy all`."
)]
pub struct Args {
    /// The subcommand; required.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `giveway`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run small, medium and large jobs on a local cluster under five policies, verify every output, and write an HTML report.
    Demo(Demo),
    /// Simulate a workload on a cluster under one or more policies.
    Sim(Sim),
    /// Start a cluster on this machine: one coordinator and several worker processes.
    Up(cluster::Up),
    /// Stop a cluster; unfinished jobs continue when it is started again.
    Down(cluster::ClusterDir),
    /// Read a cluster's policy and tenants files again, without a restart; if something is wrong with them, nothing changes.
    Reload(cluster::ClusterDir),
    /// Create, list and revoke tokens for the HTTP API of a cluster, or print a link to its dashboard.
    Token(crate::cluster::Token),
    /// Start an additional worker that joins a cluster.
    Worker(cluster::Worker),
    /// Run one job on a temporary cluster and wait for it.
    Run(cluster::Run),
    /// Submit a job to a running cluster.
    Submit(cluster::Submit),
    /// List a cluster's jobs: state, progress, waiting time and expected end.
    Jobs(cluster::Jobs),
    /// List a cluster's finished jobs, even while it is down.
    History(cluster::History),
    /// Show a job's status, counters and failures.
    Job(cluster::WatchJob),
    /// List a cluster's nodes: state, process id and slots in use.
    Nodes(cluster::Nodes),
    /// Print the logs of a job's task attempts, while it runs or after it has ended.
    Logs(cluster::Logs),
    /// Show nodes, slots and jobs live in the terminal; q quits.
    Top(cluster::Top),
    /// Explain why a job runs or waits, with the latest decisions about it and when it is expected to start and end.
    Explain(cluster::ShowJob),
    /// Preempt every running task of a job once without losing work: maps end early, reduces pause.
    Yield(cluster::JobSelector),
    /// Kill jobs and remove their output.
    Kill(cluster::Kill),
    /// List the MapReduce applications and their options.
    Apps(List),
    /// List the scheduling policies, or print one as TOML.
    Policies(Policies),
    /// List the built-in workloads and clusters.
    Workloads(List),
    /// Describe, convert, sample or imitate a workload trace of another system.
    Trace(traces::args::Trace),
    /// Simulate recorded jobs under other policies or on another cluster, and show what changes for every job.
    WhatIf(what_if::args::WhatIf),
    /// Find the smallest cluster on which jobs meet a target, for each policy.
    Size(size::Size),
    /// Replay an event log through the scheduler and verify that every action is identical.
    Replay(Replay),
    /// Show an event log, or compare two, in a browser: slots over time, jobs, nodes and the reason of every decision.
    View(View),
    /// Compare a policy, by default giveway, with all others on many workloads, and giveway with variants of itself that each lack one part.
    Compare(Compare),
    /// Simulate policies, variants of them and seeds on workloads, with the statistics of the differences.
    Sweep(Sweep),
    /// Repeat the experiments of the four papers and compare the results with the published ones.
    Reproduce(Reproduce),
    /// Run the sidecar that orders the applications of a Hadoop YARN cluster.
    Yarn(Yarn),
    /// Let large Jobs of a Kubernetes cluster give way to small ones.
    #[cfg(feature = "kube")]
    Kube(crate::kube::Kube),
    /// Benchmark the simulator, the scheduler core or the engine on this machine.
    Bench(Bench),
    /// Write the man pages to a directory, for packages.
    Man {
        /// Directory to write to; must exist.
        dir: PathBuf,
    },
    /// Print a shell completion script; it also completes job numbers, applications, policies and workloads.
    Completions {
        /// Shell to print the script for.
        shell: Shell,
    },
}

/// `giveway sim`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
EXAMPLES
  Compare every policy on the hSRTF paper's workload:
      giveway sim --workload hsrtf-table2 --policy all
  Compare failure recovery with and without Chronos:
      giveway sim --workload chronos-map --policy 'fifo,chronos(fifo)'
  Run your own workload on your own cluster with 30 seeds, and write the metrics as JSON:
      giveway sim --workload jobs.toml --cluster rack.toml --policy fair,fcs --runs 30 --json out.json
  Edit a copy of a policy and compare it with fair:
      giveway policies show hsrtf-pr > mine.toml
      giveway sim --workload synthetic --policy fair,mine.toml
  Simulate what a recorded cluster ran (a simulation, an engine cluster or a YARN cluster) under other policies:
      giveway sim --workload cluster.eventlog --policy fifo,fair,hsrtf-pr
  Simulate a trace of another system (SWIM, Rumen, JobHistory, Spark, ...), on a cluster made for it:
      giveway sim --workload FB-2009_samples_24_times_1hr_0.tsv --policy fair,hsrtf-pr

docs/files.md describes the file formats, docs/traces.md the traces.")]
pub struct Sim {
    /// Workload: a built-in name (see `giveway workloads`), a TOML file, an event log whose jobs and cluster are simulated again, or a trace of another system (a file or a directory, see docs/traces.md).
    #[arg(long, value_name = "NAME|FILE", add = complete::workloads())]
    pub workload: String,
    /// Cluster: a built-in name, the name of a built-in workload (for its cluster), or a TOML file. Required with a TOML workload; default: the workload's own cluster, or, for a trace, one sized so that the trace keeps 70 % of its slots busy.
    #[arg(long, value_name = "NAME|FILE", add = complete::clusters())]
    pub cluster: Option<String>,
    /// Duration model for times that a trace of another system lacks: a TOML file (see docs/traces.md).
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
    /// Policies to compare: names, TOML files or `all`, separated by commas; may be repeated.
    #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',', required = true, add = complete::policies())]
    pub policy: Vec<String>,
    /// Random seed; runs with the same seed are identical.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds to run per policy (1-10000), counting up from --seed; with more than one, the table shows means and 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Maximum relative error of job size estimates (0 up to, not including, 1), replacing the workload's own; 0.4 or 40% means estimates up to 40 % too low or too high.
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub estimate_error: Option<f64>,
    /// Write the metrics of every run as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Which tables to write, of every run.
    #[command(flatten)]
    pub tables: TableFiles,
    /// Write the event log of every run; with several runs, policy and seed are added to the file name.
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Write an HTML report with plots of the first seed.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// `giveway policies`
#[derive(Debug, ClapArgs)]
pub struct Policies {
    /// The subcommand; `list` if absent.
    #[command(subcommand)]
    pub command: Option<PoliciesCommand>,
    /// How the list is printed.
    #[command(flatten)]
    pub list: List,
}

/// The subcommands of `giveway policies`.
#[derive(Debug, Subcommand)]
pub enum PoliciesCommand {
    /// List the policies with a description each (the default).
    List(List),
    /// Print a policy as TOML; an edited copy can be given to `--policy FILE`.
    Show {
        /// Policy name, also in the form `chronos(NAME)`.
        #[arg(add = complete::policy_names())]
        name: String,
    },
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct List {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// `giveway replay`
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// Accept an event log without a closing record, such as the `journal/log` file of a running or killed cluster.
    #[arg(long)]
    pub open: bool,
    /// Event log to replay, or the journal of a cluster.
    #[arg(value_name = "FILE")]
    pub event_log: PathBuf,
    /// Also print every record: time, event and actions.
    #[arg(long)]
    pub list: bool,
    /// Print every record as a line of JSON: time in microseconds, event and actions.
    #[arg(long, conflicts_with_all = ["list", "jobs"])]
    pub json: bool,
    /// Also print every job as it ends: time, outcome and name.
    #[arg(long)]
    pub jobs: bool,
}

/// `giveway view`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
EXAMPLES
  Show a simulation:
      giveway sim --workload synthetic --policy giveway --event-log run.eventlog
      giveway view run.eventlog
  Show what a cluster did, also while it is down:
      giveway view ~/.giveway/journal/log
  Compare two policies on the same jobs:
      giveway view giveway.eventlog fair.eventlog

The printed address contains a token; without it the log cannot be read. docs/dashboard.md describes the pages.")]
pub struct View {
    /// One event log or journal, or two to compare.
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    pub event_logs: Vec<PathBuf>,
    /// Show an event log that is being written as it grows.
    #[arg(long)]
    pub follow: bool,
    /// Loopback address and port to serve on; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub http: SocketAddr,
}

/// `giveway yarn`
#[derive(Debug, ClapArgs)]
#[command(
    after_long_help = "\
The ResourceManager needs the plug-in giveway-yarn.jar and the properties listed in docs/yarn.md; `giveway yarn doctor` checks them. Policies that pause containers \
also need giveway-yarn-nodemanager.jar on NodeManagers. While the sidecar is not running, queues are ordered FIFO and everything that was paused is resumed. \
A policy that launches speculative attempts of its own, such as giveway, is rejected at start unless --degrade is given.

EXAMPLES
  Create a token and start the sidecar:
      openssl rand -hex 32 > token && chmod 600 token
      giveway yarn --policy hsrtf-pr --token-file token --event-log cluster.eventlog
  Check the cluster's configuration for a policy that pauses:
      giveway yarn doctor --policy fcs --conf /etc/hadoop/conf
  Record a cluster and order nothing, then simulate what it ran under other policies:
      giveway yarn --record-only --token-file token --event-log cluster.eventlog
      giveway sim --workload cluster.eventlog --policy fifo,hsrtf-pr,fair",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Yarn {
    /// The subcommand, if any.
    #[command(subcommand)]
    pub command: Option<YarnCommand>,
    /// The options of the sidecar.
    #[command(flatten)]
    pub sidecar: Option<YarnSidecar>,
}

/// The subcommands of `giveway yarn`.
#[derive(Debug, Subcommand)]
pub enum YarnCommand {
    /// Check Hadoop's configuration files property by property, and print the lines to add.
    Doctor {
        /// Policy name or TOML file.
        #[arg(long, value_name = "NAME|FILE", add = complete::policies())]
        policy: String,
        /// Directory with yarn-site.xml and capacity-scheduler.xml.
        #[arg(long, value_name = "DIRECTORY", env = "HADOOP_CONF_DIR")]
        conf: PathBuf,
    },
}

/// Options of the sidecar.
#[derive(Debug, ClapArgs)]
pub struct YarnSidecar {
    /// Policy name (docs/yarn.md lists those that work on YARN) or TOML file; required unless --record-only is given.
    #[arg(long, value_name = "NAME|FILE", required_unless_present = "record_only", conflicts_with = "record_only", add = complete::policies())]
    pub policy: Option<String>,
    /// Record the cluster and order nothing: queues stay FIFO. Needs --event-log.
    #[arg(long, requires = "event_log")]
    pub record_only: bool,
    /// Under a policy that recovers lost work at once (chronos): seconds without a heartbeat after which a NodeManager counts as lost; 0: as
    /// the ResourceManager is configured.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=3600))]
    pub node_expiry: u64,
    /// If the policy needs more than the cluster offers, run as much of it as possible instead of stopping, and print what differs.
    #[arg(long)]
    pub degrade: bool,
    /// Loopback address and port to listen on for the ResourceManager plug-in.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7040")]
    pub listen: SocketAddr,
    /// File with the shared token that authenticates the plug-in; must have mode 0600.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Write every event and action to this event log; an existing log is continued.
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Serve a live dashboard of the cluster on this loopback address and port, read from the event log; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", requires = "event_log")]
    pub http: Option<SocketAddr>,
}

/// A fraction, as a number or in percent.
fn fraction(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    number.parse::<f64>().map(|number| number / whole).map_err(|_| "use a fraction such as 0.4 or 40%".into())
}
