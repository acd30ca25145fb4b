//! What can be typed.

use crate::cluster::args as cluster;
use crate::dfs;
use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Schedulers for shared MapReduce clusters, where large jobs give way to small ones and no work is lost.
#[derive(Debug, Parser)]
#[command(
    name = "giveway",
    version,
    after_help = "Start with `giveway demo`, then `giveway sim --workload hsrtf-table2 --policy all`."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a mix of large, medium and small jobs on a real cluster under four policies, check every output, and write a report.
    Demo(Demo),
    /// Simulate a workload on a cluster under one or more policies.
    Sim(Sim),
    /// Start a cluster on this machine: a coordinator and several worker processes.
    Up(cluster::Up),
    /// Stop a cluster; unfinished jobs go on when it is started again.
    Down(cluster::Which),
    /// Start one more worker and have it join a cluster.
    Worker(cluster::Worker),
    /// Run one job on a short-lived cluster of its own.
    Run(cluster::Run),
    /// Submit a job to a running cluster.
    Submit(cluster::Submit),
    /// List the jobs of a cluster.
    Jobs(cluster::Which),
    /// How one job is: tasks, counters, what went wrong.
    Job(cluster::OneJob),
    /// List the nodes of a cluster.
    Nodes(cluster::Which),
    /// Why a job stands where it stands, and what was decided about it lately.
    Explain(cluster::OneJob),
    /// Have every running task of a job give way once; nothing it did is lost.
    Yield(cluster::OneJob),
    /// Kill a job.
    Kill(cluster::OneJob),
    /// Store files in a cluster's blocks, and look at them: put, ls, cat, rm, fsck.
    Dfs(dfs::Dfs),
    /// List the applications and their options.
    Apps,
    /// List the policies, or show what one is composed of.
    Policies(Policies),
    /// List the workloads and clusters that need no file.
    Workloads,
    /// Run an event log again and say whether every action is identical.
    Replay(Replay),
    /// Run the experiments of the four papers and set what comes out beside what they report.
    Reproduce(Reproduce),
    /// Order the applications of a real Hadoop YARN cluster, beside its ResourceManager.
    Yarn(Yarn),
    /// Measure the simulator, the core or the engine on this machine.
    Bench(Bench),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// `giveway demo`
#[derive(Debug, ClapArgs)]
pub struct Demo {
    /// Where to write the report.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub report: PathBuf,
}

/// `giveway sim`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
EXAMPLES
  The hSRTF paper's mix under every policy:
      giveway sim --workload hsrtf-table2 --policy all
  A node fails; what does Chronos bring?
      giveway sim --workload chronos-map --policy 'fifo,chronos(fifo)'
  Your own cluster and workload, thirty seeds, figures for a script:
      giveway sim --workload jobs.toml --cluster rack.toml --policy fair,fcs --runs 30 --json out.json
  A policy of your own: print one, edit it, try it:
      giveway policies show hsrtf-pr > mine.toml
      giveway sim --workload synthetic --policy fair,mine.toml
  What would other policies have done with what ran on this event_log (of a simulation, or of a Hadoop cluster)?
      giveway sim --workload cluster.event_log --policy fifo,fair,hsrtf-pr

The files are described in docs/files.md.")]
pub struct Sim {
    /// A workload by name (see `giveway workloads`), a workload file, or an event log, whose jobs and cluster are run again.
    #[arg(long, value_name = "NAME|FILE")]
    pub workload: String,
    /// A cluster by name, by the name of a workload that ran on it, or a cluster file. Named workloads and event logs bring their own.
    #[arg(long, value_name = "NAME|FILE")]
    pub cluster: Option<String>,
    /// Policies by name, policy files, or `all`; separated by commas, or the option given again.
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',', required = true)]
    pub policy: Vec<String>,
    /// Where chance begins. The same seed gives the same run, bit for bit.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many seeds to run, counting up from the first; the table then has means and 95 % intervals.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Largest error of any estimate of a job, of 1, instead of the workload's own: 0.4 makes estimates up to 40 % too low or too high.
    #[arg(long, value_name = "E")]
    pub estimate_error: Option<f64>,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the event log of each run; with several runs, policy and seed go into the file names.
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Write a report with plots (of the first seed).
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// `giveway policies`
#[derive(Debug, ClapArgs)]
pub struct Policies {
    /// What about them; without it they are listed.
    #[command(subcommand)]
    pub what: Option<PoliciesWhat>,
}

/// What about the policies.
#[derive(Debug, Subcommand)]
pub enum PoliciesWhat {
    /// List them.
    List,
    /// Print one as TOML. Edited, it is a policy for `--policy FILE`.
    Show {
        /// Its name.
        name: String,
    },
}

/// `giveway replay`
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// Take an event log that was not closed, such as the journal of a cluster (`journal/event log` in its folder).
    #[arg(long)]
    pub open: bool,
    /// The event log.
    pub event_log: PathBuf,
    /// Also print every record: when, what happened, and what the scheduler asked for.
    #[arg(long)]
    pub list: bool,
    /// Also print the jobs in the order in which they ended: when, how, and what they are called.
    #[arg(long)]
    pub jobs: bool,
}

/// `giveway reproduce`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Each headline of a paper is set beside our figure with its 95 % interval and called confirmed, direction only, or not confirmed. Nothing is tuned for one scheduler; what the papers leave out is listed in docs/papers. docs/results has what the full run gave.

EXAMPLES
  A first look, in two minutes (the full run takes a quarter of an hour):
      giveway reproduce all --quick
  One paper, with figures, tables and the numbers behind them:
      giveway reproduce fcs --report fcs --json fcs.json
  Simulations only, without the runs on a real cluster of this machine:
      giveway reproduce all --no-engine")]
pub struct Reproduce {
    /// Which paper.
    #[arg(value_enum)]
    pub paper: WhichPaper,
    /// Fewer seeds and fewer points on each curve.
    #[arg(long)]
    pub quick: bool,
    /// Seeds for each comparison; 20 if left out, 3 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub seeds: Option<u32>,
    /// Write every figure as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page for each paper into this folder, with every figure as SVG.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Leave out the runs on the real engine.
    #[arg(long)]
    pub no_engine: bool,
}

/// Which paper to reproduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WhichPaper {
    /// Shortest remaining time first.
    Hsrtf,
    /// Failure-aware scheduling.
    Chronos,
    /// Preemptive reduces.
    Fcs,
    /// Jobs and machines that differ.
    Coshh,
    /// All of them.
    All,
}

/// `giveway yarn`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
The ResourceManager needs the plug-in giveway-yarn.jar and a few properties: docs/yarn.md. While the sidecar is not there, queues are FIFO.
A policy that needs more than an order of applications (to kill, to pause, to choose a task or a node) is refused.

EXAMPLES
      openssl rand -hex 32 > token && chmod 600 token
      giveway yarn --policy hsrtf-pr --token-file token --event_log cluster.event_log
  What would another policy have done with what the cluster ran?
      giveway sim --workload cluster.event_log --policy fifo,hsrtf-pr,fair")]
pub struct Yarn {
    /// A policy by name, or a policy file: fifo, fair, capacity, hsrtf-pu, hsrtf-pr, las, or one made of their parts.
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: String,
    /// Where to listen for the ResourceManager's plug-in: a loopback address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7040")]
    pub listen: SocketAddr,
    /// The file with the token that the plug-in must show.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Write everything told and asked for as an event log; one that is there is continued.
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
    /// Memory of an ordinary container in MB, from which the slots of a node are reckoned; the cluster's minimum allocation if left out.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    pub slot_mb: Option<u64>,
}

/// `giveway bench`
#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchWhat,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Events per second of the simulator on one core, and its memory.
    Sim {
        /// Nodes of the cluster.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        nodes: u32,
        /// Jobs to run.
        #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        /// The policy.
        #[arg(long, default_value = "hsrtf-pr")]
        policy: String,
        /// How often to repeat; the median and the best are printed.
        #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=100))]
        repeat: u32,
    },
    /// Speed of real jobs, latency of small ones, and what giving way costs.
    Engine(crate::bench::engine::Options),
    /// Decisions per second of the core and how long they take, by policy and number of nodes.
    Core {
        /// Policies; all if left out.
        #[arg(long, value_name = "P[,P...]", value_delimiter = ',')]
        policy: Vec<String>,
        /// Decisions to measure at each size.
        #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..))]
        decisions: u32,
    },
}
