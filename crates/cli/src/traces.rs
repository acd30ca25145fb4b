//! Traces of other systems as workloads of the simulator.

use anyhow::{Context, Result};
use giveway_sim::cluster::Cluster;
use giveway_traces::{DurationModel, Options, Trace, TraceError, TraceWorkload};
use std::fs;
use std::path::Path;

/// Reads a trace as a workload, and prints what was odd in it to standard error. Without a cluster, one is made for the trace. None if the file
/// has none of the formats.
pub fn workload(path: &Path, cluster: Option<Cluster>, model: Option<&Path>) -> Result<Option<TraceWorkload>> {
    let mut trace = match open(path, model) {
        Err(error) if matches!(error.downcast_ref(), Some(TraceError::UnknownFormat { .. })) => return Ok(None),
        opened => opened?,
    };
    let workload = giveway_traces::to_workload(&mut trace, cluster);
    print_diagnostics(&trace);
    Ok(Some(workload?))
}

/// Opens a trace with the duration model of a file, or the default one.
pub fn open(path: &Path, model: Option<&Path>) -> Result<Trace> {
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
