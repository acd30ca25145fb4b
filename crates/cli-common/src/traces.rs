//! Traces of other systems as jobs and clusters of the simulator.

use crate::input;
use anyhow::{Context, Result, ensure};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::RecordedRun;
use giveway_traces::{Diagnostics, DurationModel, Options, Trace, TraceError};
use std::fs;
use std::path::Path;

/// A trace as a recorded run, and a line for each kind of oddity.
pub struct TraceRun {
    pub run: RecordedRun,
    pub oddities: Vec<String>,
}

/// Reads a trace, and prints what was odd in it to standard error. Without a cluster, one is made for the trace. None if the file has none of the
/// formats.
pub fn recorded_run(path: &Path, cluster: Option<Cluster>, model: Option<&Path>) -> Result<Option<TraceRun>> {
    let mut trace = match open(path, model) {
        Err(error) if matches!(error.downcast_ref(), Some(TraceError::UnknownFormat { .. })) => return Ok(None),
        opened => opened?,
    };
    let run = giveway_traces::to_workload(&mut trace, cluster);
    print_diagnostics(&trace);
    Ok(Some(TraceRun { run: run?, oddities: trace.diagnostics().lines() }))
}

/// Reads a node file of SLS or a topology of Rumen as a cluster, and prints what was odd in it to standard error.
pub fn cluster(file: &Path) -> Result<Cluster> {
    let mut diagnostics = Diagnostics::default();
    let cluster = giveway_traces::read_cluster(file, &mut diagnostics);
    for line in diagnostics.lines() {
        eprintln!("{}: {line}", file.display());
    }
    Ok(cluster?)
}

/// Opens a trace with the duration model of a file, or the default one.
pub fn open(path: &Path, model: Option<&Path>) -> Result<Trace> {
    ensure!(
        !input::has_event_log(&path.to_string_lossy()).unwrap_or(false),
        "{}: this is an event log, not a trace of another system; use `giveway trace rows`, `sim`, `what-if` or `view`",
        path.display()
    );
    let model = match model {
        None => DurationModel::default(),
        Some(file) => {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}; check the path"))?;
            DurationModel::from_toml(&text, &name)?
        }
    };
    Ok(giveway_traces::open(path, &Options { model, ..Options::default() })?)
}

/// One line for what the trace is, and one for each kind of oddity.
pub fn print_diagnostics(trace: &Trace) {
    let diagnostics = trace.diagnostics();
    eprintln!("{}: {} trace, {}", trace.name(), trace.format(), diagnostics.counts_line());
    for line in diagnostics.lines() {
        eprintln!("{}: {line}", trace.name());
    }
}
