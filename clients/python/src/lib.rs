//! Giveway's simulator as the module `giveway._giveway`. The package `giveway` wraps it: use that.
//!
//! Policies, workloads and clusters come as names and files, or as the JSON of their TOML form; metrics of runs go back as JSON, and rows as Arrow tables.

mod order;
mod simulate;
mod table;

use giveway_cli_common::input;
use giveway_core::event_log::EventLogReader;
use giveway_core::policy::catalog;
use giveway_sim::Observer;
use giveway_sim::rows::{Attempts, PlanRows};
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
    let read = || -> anyhow::Result<Table> {
        let bytes = input::event_log_bytes(file)?;
        let reader = EventLogReader::open(&bytes)?;
        let setup = reader.setup();
        let mut attempts = Attempts::new(&setup.policy.name, setup.seed);
        for record in reader {
            let record = record?;
            attempts.observe(record.now, &record.event, &record.actions);
        }
        Ok(Table::new(attempts.into_rows().into()))
    };
    py.detach(read).map_err(invalid)
}

#[pymodule]
fn _giveway(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Table>()?;
    module.add_class::<order::JobFacts>()?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(policy, module)?)?;
    module.add_function(wrap_pyfunction!(workloads, module)?)?;
    module.add_function(wrap_pyfunction!(read_jobs, module)?)?;
    module.add_function(wrap_pyfunction!(read_attempts, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)
}
