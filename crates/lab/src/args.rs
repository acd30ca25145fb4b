//! The arguments of the laboratory's commands. Those of `bench engine` are in `bench/engine/mod.rs`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `giveway demo`
#[derive(Debug, ClapArgs)]
pub struct Demo {
    /// HTML report to write.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub report: PathBuf,
}

/// `giveway reproduce`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Every quantitative or directional claim of the papers is compared with the measured figure (mean and 95 % confidence interval) and reported as: confirmed; same direction; inconclusive; not confirmed; refuted; by construction or tuned, which count as no confirmation; or no experiment. \
No parameter is tuned for a single scheduler; docs/papers lists the assumptions made where a paper gives no value, and docs/results holds the results.

EXAMPLES
  Run a reduced version of everything, in a few minutes (the full run takes about 25 minutes on two cores):
      giveway reproduce all --quick
  Reproduce one paper and write figures, tables and raw numbers:
      giveway reproduce fcs --report fcs --json fcs.json
  Run simulations only, without a local cluster:
      giveway reproduce all --no-engine")]
pub struct Reproduce {
    /// Paper to reproduce.
    #[arg(value_enum)]
    pub paper: WhichPaper,
    /// Run fewer seeds and fewer points per curve.
    #[arg(long)]
    pub quick: bool,
    /// Number of seeds per comparison (1-1000); default: 20, or 3 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub seeds: Option<u32>,
    /// Write all results as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one page per paper to this directory, with the figures as SVG files.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Skip the runs on a local engine cluster.
    #[arg(long)]
    pub no_engine: bool,
}

/// `giveway compare`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
EXAMPLES
  Make the tables of docs/results/giveway.md (4 to 20 minutes on two cores):
      giveway compare --seeds 10 --report giveway.md
  Compare on two workloads only, with two seeds:
      giveway compare --seeds 2 --only hsrtf-table2,'load 0.9'
  Compare a policy of your own:
      giveway compare --seeds 3 --policy mine.toml --report mine.md")]
pub struct Compare {
    /// The policy that is compared with the others: a name or a TOML file. Only the parts of giveway are switched off in turn.
    #[arg(long, value_name = "NAME|FILE", default_value = "giveway")]
    pub policy: String,
    /// Number of seeds of each workload (1-1000).
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub seeds: u32,
    /// Only these workloads, separated by commas; an unknown name lists all of them.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Write the tables as a Markdown page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the figures of every workload and policy as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `giveway sweep`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
The file is TOML: `workloads` and `policies` (names or files), `seeds` (10), `first_seed` (1), `cluster` (each workload's own) and `baseline` (the first policy). Each [[vary]] adds variants of a policy: every combination of the values of its settings.

  workloads = [\"synthetic\", \"fcs-map-heavy\"]
  policies = [\"fair\", \"giveway\", \"mine.toml\"]
  seeds = 20

  [[vary]]
  policy = \"giveway\"
  \"max_lag.of_work\" = [0.2, 0.35, 0.5]

DIR gets runs.jsonl (finished runs: an interrupted sweep continues from it, and a changed one reuses what is the same), runs.csv (a row for each run), changes.csv (differences from the baseline) and report.html.

EXAMPLES
  giveway sweep sweep.toml --out results")]
pub struct Sweep {
    /// What to run.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory for the results, created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// The papers that `giveway reproduce` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WhichPaper {
    /// Shortest remaining time first.
    Hsrtf,
    /// Failure-aware scheduling.
    Chronos,
    /// Fast completion with preemptive reduce tasks.
    Fcs,
    /// Scheduling for heterogeneous jobs and nodes.
    Coshh,
    /// All four papers.
    All,
}

/// `giveway bench`
#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// The subcommand; required.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The subcommands of `giveway bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure the simulator's events per second on one CPU core, and its memory.
    Sim {
        /// Number of nodes (1-100000).
        #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        nodes: u32,
        /// Number of jobs (1-1000000).
        #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        /// Policy name or TOML file.
        #[arg(long, value_name = "NAME|FILE", default_value = "hsrtf-pr")]
        policy: String,
        /// Number of repetitions (1-100); the median and the best are printed.
        #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=100))]
        repeat: u32,
    },
    /// Measure the engine: job throughput, latency of small jobs and the cost of preemption.
    Engine(crate::bench::engine::Options),
    /// Compare the forecasts of `giveway explain` with what then happened, in simulated workloads or recorded runs.
    Forecast {
        /// Event logs or journals of recorded runs; without any, workloads are simulated.
        #[arg(value_name = "EVENTLOG")]
        event_logs: Vec<String>,
        /// Built-in workloads to simulate, separated by commas.
        #[arg(
            long,
            value_name = "NAME[,...]",
            value_delimiter = ',',
            default_value = "hsrtf-table2,fcs-map-heavy,chronos-map,gridmix-60",
            conflicts_with = "event_logs"
        )]
        workload: Vec<String>,
        /// Policies to simulate, separated by commas.
        #[arg(
            long,
            value_name = "NAME|FILE[,...]",
            value_delimiter = ',',
            default_value = "giveway,fair,fifo",
            conflicts_with = "event_logs"
        )]
        policy: Vec<String>,
        /// Random seed of the simulated runs.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Run the demo's jobs under several policies in turn, on a local cluster of which one worker is killed and on one with slow workers, and print means with confidence intervals.
    Policies {
        /// Policies, separated by commas.
        #[arg(
            long,
            value_name = "NAME|FILE[,...]",
            value_delimiter = ',',
            default_value = "giveway,fair,fcs,hsrtf-prp-pause"
        )]
        policy: Vec<String>,
        /// Number of runs of each policy on each cluster (1-100).
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        repeat: u32,
    },
    /// Compare the completion times of jobs and users with those under `fair`, on workloads made to expose unfair policies: floods, identical jobs, unequal nodes, outages.
    Fairness {
        /// Policies, separated by commas.
        #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',', default_value = "giveway")]
        policy: Vec<String>,
        /// First random seed (at most 2^53).
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=1 << 53))]
        seed: u64,
        /// Number of seeds (1-100).
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        seeds: u32,
        /// Number of the first random workload (at most 2^53).
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=1 << 53))]
        first: u64,
        /// Number of random workloads (1-10000).
        #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        random: u32,
    },
    /// Measure the scheduler core: decisions per second and decision latency, by policy and number of nodes.
    Core {
        /// Policies, separated by commas; default: all.
        #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',')]
        policy: Vec<String>,
        /// Numbers of nodes, separated by commas.
        #[arg(long, value_name = "N[,...]", value_delimiter = ',', default_value = "100,1000,10000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        nodes: Vec<u32>,
        /// Number of decisions to measure per policy and cluster size (at least 1000).
        #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..))]
        decisions: u32,
    },
}
