//! Arguments of `giveway what-if`.

use crate::complete;
use clap::Args;
use giveway_analysis::what_if::{AmountChange, ClusterChange};
use std::path::PathBuf;

/// `giveway what-if`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every job is simulated again under each policy. If the record has the policy it was made under, that policy is simulated too: its error against \
the recorded times is printed, and changes are counted from it, because both sides then have the same model. docs/what-if.md describes the rules.

EXAMPLES
  What would other policies have done with the jobs of a recorded cluster?
      giveway what-if cluster.eventlog --policy fair,hsrtf-pr --report what-if.html
  What would ten more nodes buy?
      giveway what-if cluster.eventlog --policy hsrtf-pr --nodes +10
  A trace of another system, which ran under Fair:
      giveway what-if history/ --recorded-policy fair --policy giveway --json what-if.json")]
pub struct WhatIf {
    /// Event log, journal or trace of another system (a file or a directory); or a workload as for `giveway sim`, which has no recorded times.
    #[arg(value_name = "LOG|TRACE")]
    pub source: String,
    /// Policies to simulate: names, TOML files or `all`, separated by commas; may be repeated.
    #[arg(long, value_name = "NAME|FILE[,...]", value_delimiter = ',', required = true, add = complete::policies())]
    pub policy: Vec<String>,
    /// Policy under which the jobs ran; default: that of the event log.
    #[arg(long, value_name = "NAME|FILE", add = complete::policies())]
    pub recorded_policy: Option<String>,
    /// Cluster on which the jobs ran: a built-in name or a file; default: that of the event log, or, for a trace, one sized so that the trace keeps 70 % of its slots busy.
    #[arg(long, value_name = "NAME|FILE", add = complete::clusters())]
    pub cluster: Option<String>,
    /// Also simulate with another number of nodes: `+20%`, `-10%`, `+10`, `-3` or a number.
    #[arg(long, value_name = "CHANGE", allow_hyphen_values = true)]
    pub nodes: Option<AmountChange>,
    /// Also simulate with other slots on each node: `+1`, `+50%`, or a number of map slots, with reduce slots in proportion.
    #[arg(long, value_name = "CHANGE", allow_hyphen_values = true)]
    pub slots: Option<AmountChange>,
    /// Also simulate with faster or slower nodes: `+20%` or a factor such as `1.5`.
    #[arg(long, value_name = "CHANGE", allow_hyphen_values = true)]
    pub speed: Option<AmountChange>,
    /// Duration model for times that a trace of another system lacks: a TOML file (see docs/traces.md).
    #[arg(long, value_name = "FILE")]
    pub trace_model: Option<PathBuf>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the change of every job, not only the largest ones.
    #[arg(long)]
    pub all_jobs: bool,
    /// Write everything as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write a table of the jobs in every run: CSV, tab-separated or JSON lines, as the extension says (docs/rows.md lists the columns).
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
}

impl WhatIf {
    /// The change of the cluster that the arguments ask for.
    pub fn cluster_change(&self) -> ClusterChange {
        ClusterChange { nodes: self.nodes, slots: self.slots, speed: self.speed }
    }
}
