//! Arguments of `giveway trace`.

use crate::table_files::TableFiles;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `giveway trace`
#[derive(Debug, Args)]
#[command(after_long_help = "\
The format is detected by content; gzip and Zstandard are decompressed. A directory is read if all its traces have one format. \
Oddities of a trace are printed to standard error, one line for each kind, with the rule that handles it. docs/traces.md describes \
formats, rules and the duration model.

EXAMPLES
  Describe a trace, and its load on a cluster of 100 nodes:
      giveway trace stats FB-2009_samples_24_times_1hr_0.tsv --cluster nodes.toml
  Convert it to a workload file, and the cluster made for it to a cluster file:
      giveway trace convert 19-jobs.trace.json.gz --output jobs.toml --cluster-output cluster.toml
  Take 500 jobs of the second hour:
      giveway trace sample trace.tsv --jobs 500 --from 1h --to 2h --output jobs.toml
  Make three synthetic days with the distributions of a trace:
      giveway trace fit trace.tsv --span 3d --output synthetic.toml
  What a cluster has run, as tables:
      giveway trace rows ~/.giveway/journal --jobs jobs.csv --attempts attempts.csv --slots slots.csv")]
pub struct Trace {
    /// The subcommand; required.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// The subcommands of `giveway trace`.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Print jobs, span, quantiles, burstiness and, with a cluster, the load on it.
    Stats(Describe),
    /// Write the jobs as a workload file.
    Convert(Convert),
    /// Write a random sample of the jobs, or those of a part of the time, as a workload file.
    Sample(Sample),
    /// Write synthetic jobs with the distributions of the trace as a workload file, and compare their quantiles.
    Fit(Fit),
    /// Simulate traces under several policies and write the results as a page of Markdown.
    Compare(Compare),
    /// Write the jobs of a trace, event log or journal as a table; of an event log or journal also its attempts and slots.
    Rows(Rows),
}

/// `giveway trace rows`
#[derive(Debug, Args)]
pub struct Rows {
    /// Trace, event log or journal.
    #[arg(value_name = "FILE")]
    pub source: String,
    /// Duration model for what a trace lacks, as a TOML file.
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
    /// Which tables to write.
    #[command(flatten)]
    pub tables: TableFiles,
}

/// A trace and how it is read.
#[derive(Debug, Args)]
pub struct Source {
    /// Trace: a file or a directory.
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,
    /// Cluster on which the jobs will run: a built-in name or a TOML file; default: one sized so that the trace keeps 70 % of its slots busy.
    #[arg(long, value_name = "NAME|FILE")]
    pub cluster: Option<String>,
    /// Duration model for what the trace lacks, as a TOML file.
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
}

/// `giveway trace stats`
#[derive(Debug, Args)]
pub struct Describe {
    #[command(flatten)]
    pub source: Source,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Where the result is written.
#[derive(Debug, Args)]
pub struct Output {
    /// Workload file to write.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Also write the cluster as a cluster file.
    #[arg(long, value_name = "FILE")]
    pub cluster_output: Option<PathBuf>,
}

/// `giveway trace convert`
#[derive(Debug, Args)]
pub struct Convert {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub output: Output,
}

/// `giveway trace sample`
#[derive(Debug, Args)]
pub struct Sample {
    #[command(flatten)]
    pub source: Source,
    /// Number of jobs, each with the same probability; default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub jobs: Option<u32>,
    /// Only jobs submitted at this time or later, from the first submission, such as `1h 30m`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub from: Option<std::time::Duration>,
    /// Only jobs submitted before this time, from the first submission.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub to: Option<std::time::Duration>,
    /// Random seed; the same seed gives the same sample.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

/// `giveway trace fit`
#[derive(Debug, Args)]
pub struct Fit {
    #[command(flatten)]
    pub source: Source,
    /// Time from the first to the last synthetic submission, such as `1d`; default: that of the trace.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub span: Option<std::time::Duration>,
    /// Random seed; the same seed gives the same jobs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

/// `giveway trace compare`
#[derive(Debug, Args)]
pub struct Compare {
    /// Traces: files or directories.
    #[arg(value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Policies to compare: names, TOML files or `all`, separated by commas; may be repeated.
    #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',', default_value = "all")]
    pub policy: Vec<String>,
    /// Policy to which the end of every job is compared.
    #[arg(long, value_name = "NAME", default_value = "fair")]
    pub baseline: String,
    /// Cluster for all traces: a built-in name or a file; default: for each trace, one sized so that it keeps 70 % of the slots busy.
    #[arg(long, value_name = "NAME|FILE")]
    pub cluster: Option<String>,
    /// Duration model for what the traces lack, as a TOML file.
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Page to write; default: standard output.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
