//! What was named or written in files becomes policies, workloads and clusters; or an error that says what, where and what to do.

use anyhow::{Context, Result, anyhow, bail};
use giveway_core::event_log::is_event_log;
use giveway_core::policy::catalog;
use giveway_core::{Policy, Setup, Tenants};
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::workload::{self, Workload};
use std::fs;
use std::path::Path;

/// Policies by name or file; `all` stands for every one that stands on its own.
pub fn policies(named: &[String]) -> Result<Vec<Policy>> {
    let mut policies: Vec<Policy> = Vec::new();
    for name in named {
        let new = if name == "all" {
            catalog::NAMES.iter().filter_map(|name| catalog::by_name(name)).collect()
        } else {
            vec![policy(name)?]
        };
        for policy in new {
            if policies.iter().any(|other| other.name == policy.name) {
                bail!("policy `{}` is named twice; give each its own name", policy.name);
            }
            policies.push(policy);
        }
    }
    Ok(policies)
}

/// A policy by name or file.
pub fn policy(name: &str) -> Result<Policy> {
    if let Some(policy) = catalog::by_name(name) {
        return Ok(policy);
    }
    if !looks_like_file(name) {
        let known = catalog::NAMES.join(", ");
        bail!("no policy is called `{name}`; write a policy file, chronos(NAME), or one of: all, {known}");
    }
    let text = read(name)?;
    let policy: Policy = toml::from_str(&text).map_err(|error| toml_error(name, &text, &error))?;
    Setup::new(policy.clone()).check().map_err(|error| anyhow!("{name}: {error}"))?;
    Ok(policy)
}

/// Users and pools from a file.
pub fn tenants(file: &Path) -> Result<Tenants> {
    let name = file.display().to_string();
    let text = read(&name)?;
    let tenants: Tenants = toml::from_str(&text).map_err(|error| anyhow!("{name}: {}", error.message()))?;
    tenants.check().map_err(|error| anyhow!("{name}: {error}"))?;
    Ok(tenants)
}

/// A TOML error as `FILE:LINE: what is wrong`.
fn toml_error(file: &str, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let what = error.message().replace('\n', "; ");
    anyhow!("{file}:{line}: {what}; `giveway policies show NAME` prints a policy that works")
}

/// A workload and the cluster it runs on.
pub fn workload_and_cluster(named: &str, cluster_named: Option<&str>, seed: u64) -> Result<(Workload, Cluster)> {
    // A workload that is not there is said before anything about its cluster.
    let bytes = if looks_like_file(named) { Some(read_bytes(named)?) } else { None };
    if let Some(event_log) = bytes.as_deref().filter(|bytes| is_event_log(bytes)) {
        let name = Path::new(named).file_name().map_or(named.into(), |name| name.to_string_lossy());
        let (workload, its_own) = workload::from_event_log(event_log, &name).with_context(|| named.to_owned())?;
        return Ok((workload, cluster_named.map_or(Ok(its_own), cluster)?));
    }
    let text =
        bytes.map(|bytes| String::from_utf8(bytes).with_context(|| format!("{named} is no text"))).transpose()?;
    let Some(text) = text else {
        let workload = workload::by_name(named, seed)?;
        let its_own = workload::default_cluster_for(named).context("a named workload has a cluster")?;
        return Ok((workload, cluster(cluster_named.unwrap_or(its_own))?));
    };
    let cluster_named =
        cluster_named.context("a workload file needs a cluster; add --cluster NAME or --cluster FILE")?;
    let cluster = cluster(cluster_named)?;
    Ok((Workload::from_toml(&text, named, &cluster, seed)?, cluster))
}

fn cluster(named: &str) -> Result<Cluster> {
    if looks_like_file(named) {
        return Ok(Cluster::from_toml(&read(named)?, named)?);
    }
    cluster::by_name(named).or_else(|unknown| {
        // The name of a workload stands for the cluster it ran on.
        let its_own = workload::default_cluster_for(named).ok_or(unknown)?;
        Ok(cluster::by_name(its_own)?)
    })
}

fn looks_like_file(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file()
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {file}; check the path"))
}

fn read_bytes(file: &str) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {file}; check the path"))
}
