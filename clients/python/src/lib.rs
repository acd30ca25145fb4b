//! Giveway's simulator as the module `giveway._giveway`. The package `giveway` wraps it: use that.
//!
//! Policies, workloads and clusters come as names and files, or as the JSON of their TOML form; metrics of runs go back as JSON, and rows as Arrow tables.

mod environment;
mod order;
mod simulate;
mod source;
mod table;

use giveway_cli_common::input;
use giveway_core::policy::catalog;
use giveway_sim::rows::PlanRows;
use giveway_sim::statistics::{Estimate, holm, sign_flip_p};
use giveway_sim::workload;
use pyo3::import_exception;
use pyo3::prelude::*;
use std::path::Path;
use table::Table;

import_exception!(giveway.errors, InvalidInput);

/// An error with the text that the command line would print.
fn invalid(error: anyhow::Error) -> PyErr {
    InvalidInput::new_err(format!("{error:#}"))
}

/// The names of the built-in policies, with what each does.
#[pyfunction]
fn policies() -> Vec<(String, String)> {
    let named = |name| catalog::by_name(name).map(|policy| (policy.name, policy.about));
    catalog::names().into_iter().filter_map(named).collect()
}

/// A policy as JSON.
#[pyfunction]
fn policy(name: &str) -> PyResult<String> {
    let policy = input::policy(name).map_err(invalid)?;
    serde_json::to_string(&policy).map_err(|error| invalid(error.into()))
}

/// A cluster as JSON.
#[pyfunction]
fn cluster(name: &str) -> PyResult<String> {
    let as_json = || -> anyhow::Result<String> {
        let table: toml::Table = toml::from_str(&input::cluster(name)?.to_toml())?;
        Ok(serde_json::to_string(&table)?)
    };
    as_json().map_err(invalid)
}

/// The names of the built-in workloads, with what each is.
#[pyfunction]
fn workloads() -> Vec<(&'static str, &'static str)> {
    workload::names().to_vec()
}

/// The jobs of a trace, an event log or a workload.
#[pyfunction]
#[pyo3(signature = (name, trace_model=None, seed=1))]
fn read_jobs(py: Python<'_>, name: &str, trace_model: Option<&str>, seed: u64) -> PyResult<Table> {
    let read = || input::recorded_run(name, None, trace_model.map(Path::new), seed);
    let run = py.detach(read).map_err(invalid)?.run;
    Ok(Table::new(PlanRows::of(&run).into()))
}

/// The attempts of an event log or journal.
#[pyfunction]
fn read_attempts(py: Python<'_>, file: &str) -> PyResult<Table> {
    let read = || input::rows_of_log(file, true, false);
    let (attempts, _) = py.detach(read).map_err(invalid)?;
    Ok(Table::new(attempts.unwrap_or_default().into()))
}

/// The slots in use over time, of an event log or journal.
#[pyfunction]
fn read_slots(py: Python<'_>, file: &str) -> PyResult<Table> {
    let read = || input::rows_of_log(file, false, true);
    let (_, slots) = py.detach(read).map_err(invalid)?;
    Ok(Table::new(slots.unwrap_or_default().into()))
}

/// The policy under which the jobs of a record ran, as JSON, if that is recorded.
#[pyfunction]
fn recorded_policy(py: Python<'_>, name: &str) -> PyResult<Option<String>> {
    let read = || -> anyhow::Result<Option<String>> {
        let recorded = input::recorded_run(name, None, None, 1)?;
        Ok(recorded.run.policy.map(|policy| serde_json::to_string(&policy)).transpose()?)
    };
    py.detach(read).map_err(invalid)
}

/// Of each list of ratios, one per seed: the geometric mean of the relative changes, the ends of its interval, and the probability that it is chance, corrected
/// for the number of lists.
#[pyfunction]
fn paired_changes(ratios: Vec<Vec<f64>>) -> Vec<(f64, f64, f64, f64)> {
    let logs = |ratios: &Vec<f64>| sign_flip_p(&ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<_>>());
    let p = holm(&ratios.iter().map(logs).collect::<Vec<_>>());
    let change = |ratios: &Vec<f64>| Estimate::of_changes(&ratios.iter().map(|ratio| ratio - 1.0).collect::<Vec<_>>());
    ratios.iter().map(change).zip(p).map(|(change, p)| (change.mean, change.lower(), change.upper(), p)).collect()
}

#[pymodule]
fn _giveway(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Table>()?;
    module.add_class::<order::JobFacts>()?;
    module.add_class::<environment::Episode>()?;
    module.add_class::<environment::Observation>()?;
    module.add("JOB_FACTS", environment::JOB_FACTS)?;
    module.add("CLUSTER_FACTS", environment::CLUSTER_FACTS)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(policy, module)?)?;
    module.add_function(wrap_pyfunction!(cluster, module)?)?;
    module.add_function(wrap_pyfunction!(workloads, module)?)?;
    module.add_function(wrap_pyfunction!(read_jobs, module)?)?;
    module.add_function(wrap_pyfunction!(read_attempts, module)?)?;
    module.add_function(wrap_pyfunction!(read_slots, module)?)?;
    module.add_function(wrap_pyfunction!(recorded_policy, module)?)?;
    module.add_function(wrap_pyfunction!(paired_changes, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)
}
