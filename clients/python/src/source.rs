//! Policies, workloads and clusters as Python gives them.

use anyhow::{Context, Result};
use giveway_cli_common::input;
use giveway_core::Policy;
use giveway_core::policy::orders::CustomOrder;
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;
use pyo3::prelude::*;
use std::path::Path;

/// A name or file, or the JSON of a TOML form.
#[derive(FromPyObject)]
pub struct Source {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    json: Option<String>,
}

impl Source {
    /// The TOML text, if there is one.
    fn toml(&self) -> Result<Option<String>> {
        let Some(json) = &self.json else { return Ok(None) };
        let table: toml::Table = serde_json::from_str(json).with_context(|| format!("{}: not a table", self.name))?;
        Ok(Some(toml::to_string(&table)?))
    }

    pub fn cluster(&self) -> Result<Cluster> {
        match self.toml()? {
            None => input::cluster(&self.name),
            Some(text) => Ok(Cluster::from_toml(&text, &self.name)?),
        }
    }

    pub fn policy(&self, orders: &[CustomOrder]) -> Result<Vec<Policy>> {
        match self.toml()? {
            None => input::policies(std::slice::from_ref(&self.name)),
            Some(text) => Ok(vec![input::policy_from_toml(&text, &self.name, orders)?]),
        }
    }
}

/// The cluster, the jobs, and whether another seed draws other jobs.
pub fn workload(
    source: &Source,
    cluster: Option<&Cluster>,
    trace_model: Option<&str>,
    seed: u64,
) -> Result<(Cluster, Workload, bool)> {
    match source.toml()? {
        None => {
            let recorded = input::recorded_run(&source.name, cluster, trace_model.map(Path::new), seed)?;
            Ok((recorded.run.cluster, recorded.run.workload, recorded.is_drawn))
        }
        Some(text) => {
            let cluster = cluster.context("a workload of one's own has no cluster; give one with cluster=")?;
            Ok((cluster.clone(), Workload::from_toml(&text, &source.name, cluster, seed)?, true))
        }
    }
}
