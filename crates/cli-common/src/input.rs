//! Resolves the names and files given on the command line to policies, workloads and clusters.

use crate::traces;
use anyhow::{Context, Result, anyhow, bail, ensure};
use giveway_core::event_log::{EventLogReader, is_event_log};
use giveway_core::policy::orders::CustomOrder;
use giveway_core::policy::{Placement, catalog};
use giveway_core::{Kind, Policy, Setup, Tenants};
use giveway_engine::{Access, coordinator};
use giveway_mapreduce::apps::nearest;
use giveway_sim::Observer;
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::rows::{AttemptRows, RunRows, SlotRows};
use giveway_sim::workload::{self, RecordedRun, Workload};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Resolves policies by name or file. `all` selects every catalogue policy, without the `chronos(NAME)` forms. Duplicate names are an error.
pub fn policies(selected: &[String]) -> Result<Vec<Policy>> {
    let mut policies: Vec<Policy> = Vec::new();
    for name in selected {
        let resolved = if name == "all" {
            catalog::names().iter().filter_map(|name| catalog::by_name(name)).collect()
        } else {
            vec![policy_or(name, "a TOML file, all, chronos(NAME)")?]
        };
        for policy in resolved {
            if policies.iter().any(|other| other.name == policy.name) {
                bail!(
                    "duplicate policy `{}`; give each policy once, and edited copies a `name` of their own",
                    policy.name
                );
            }
            policies.push(policy);
        }
    }
    Ok(policies)
}

/// The error for a name that is no policy's. `others` are valid instead of a name.
pub fn unknown_policy(name: &str, others: &str) -> anyhow::Error {
    let base = name.strip_prefix("chronos(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(base) = base.filter(|base| catalog::by_name(base).is_some()) {
        return anyhow!("policy {base} recovers lost tasks at once by itself; use `{base}`");
    }
    let known = catalog::names();
    let nearest = nearest(base.unwrap_or(name), known.iter().copied());
    let hint = nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "));
    anyhow!("unknown policy `{name}`; {hint}use {others} or one of: {}", known.join(", "))
}

/// An error for an unknown name, with the one that was probably meant.
fn did_you_mean(error: impl Into<anyhow::Error>, name: &str, known: &[(&str, &str)]) -> anyhow::Error {
    match nearest(name, known.iter().map(|(known, _)| *known)) {
        Some(nearest) => anyhow!("{:#}; did you mean `{nearest}`?", error.into()),
        None => error.into(),
    }
}

/// Resolves a policy by name or file.
pub fn policy(name: &str) -> Result<Policy> {
    policy_or(name, "a TOML file, chronos(NAME)")
}

/// The same; `others` are valid instead of a name.
fn policy_or(name: &str, others: &str) -> Result<Policy> {
    if let Some(policy) = catalog::by_name(name) {
        return Ok(policy);
    }
    if !looks_like_file(name) {
        return Err(unknown_policy(name, others));
    }
    policy_from_toml(&read(name)?, name, &[])
}

/// Parses the text of a policy file. `name` is the file's, for messages. The policy may use these orders beside those that the program registered.
pub fn policy_from_toml(text: &str, name: &str, orders: &[CustomOrder]) -> Result<Policy> {
    let mut policy: Policy = toml::from_str(text).map_err(|error| toml_error(name, text, &error))?;
    orders.iter().for_each(|order| policy.set_custom_order(order));
    check_placement(text).map_err(|problem| anyhow!("{name}: {problem}"))?;
    Setup::new(policy.clone()).check().map_err(|error| anyhow!("{name}: {error}"))?;
    Ok(policy)
}

/// Fails if a policy has a key of placement under the kind of slots for which it means nothing.
fn check_placement(policy: &str) -> Result<()> {
    let table: toml::Table = toml::from_str(policy)?;
    for (kind, other) in [(Kind::Map, Kind::Reduce), (Kind::Reduce, Kind::Map)] {
        let [name, other] = [kind, other].map(|kind| kind.to_string());
        let Some(placement) = table.get(&name).and_then(|slots| slots.get("placement")) else { continue };
        if let Some(key) = Placement::keys_without_effect(kind).iter().find(|key| placement.get(key).is_some()) {
            bail!(
                "{name}.placement.{key} has no effect: it is about {other}s; remove it, or move it to [{other}.placement]"
            );
        }
    }
    Ok(())
}

/// The table `[access]` of a tenants file: Unix users who may use a cluster of another one.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AccessTable {
    users: Vec<String>,
    admins: Vec<String>,
}

/// Reads users and pools from a TOML file, and who has access to the cluster beside its owner.
pub fn tenants(file: &Path) -> Result<(Tenants, Access)> {
    let name = file.display().to_string();
    let text = read(&name)?;
    let invalid = |error: toml::de::Error| anyhow!("{}", located(&name, &text, &error));
    let mut table: toml::Table = toml::from_str(&text).map_err(invalid)?;
    let access = match table.remove("access") {
        Some(access) => access.try_into().map_err(invalid)?,
        None => AccessTable::default(),
    };
    let tenants: Tenants = table.try_into().map_err(invalid)?;
    tenants.check().map_err(|error| anyhow!("{name}: {error}"))?;
    let access = Access::new(&access.users, &access.admins).map_err(|error| anyhow!("{name}: {error}"))?;
    Ok((tenants, access))
}

/// Formats a TOML error of a policy file as `FILE:LINE: message; hint`.
fn toml_error(file: &str, text: &str, error: &toml::de::Error) -> anyhow::Error {
    anyhow!("{}; `giveway policies show NAME` prints a valid policy", located(file, text, error))
}

/// Formats a TOML error as `FILE:LINE: message`, or `FILE: message` if the line is not known.
fn located(file: &str, text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', "; ");
    match error.span() {
        Some(span) => {
            let line = text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1;
            format!("{file}:{line}: {message}")
        }
        None => format!("{file}: {message}"),
    }
}

/// Jobs to simulate: what was recorded about them, and what is odd about the record.
pub struct Recorded {
    pub run: RecordedRun,
    /// One line for each kind of oddity.
    pub oddities: Vec<String>,
    /// Whether the cluster is neither recorded nor given, but made for the jobs.
    pub has_made_cluster: bool,
    /// Whether a cluster other than the recorded one was given.
    pub has_other_cluster: bool,
    /// Whether the jobs depend on the seed.
    pub is_drawn: bool,
}

impl Recorded {
    fn new(run: RecordedRun) -> Recorded {
        let (has_made_cluster, has_other_cluster, is_drawn) = (false, false, false);
        Recorded { run, oddities: Vec::new(), has_made_cluster, has_other_cluster, is_drawn }
    }
}

/// Resolves an event log, a trace of another system, or a workload of which nothing is recorded. Unless a cluster is given, each uses its own, a
/// trace one that is made for it; a workload file requires one. What is odd in a trace is printed to standard error.
pub fn recorded_run(name: &str, given: Option<&Cluster>, model: Option<&Path>, seed: u64) -> Result<Recorded> {
    let is_record = looks_like_file(name) && !name.ends_with(".toml");
    let journal = journal_in(name);
    let name = journal.as_deref().unwrap_or(name);
    let is_event_log = is_record && has_event_log(name)?;
    if is_record
        && !is_event_log
        && let Some(trace) = traces::recorded_run(Path::new(name), given.cloned(), model)?
    {
        let has_made_cluster = given.is_none();
        return Ok(Recorded { oddities: trace.oddities, has_made_cluster, ..Recorded::new(trace.run) });
    }
    ensure!(model.is_none(), "--trace-model applies to traces of other systems only, and {name} is none; leave it out");
    if is_event_log {
        let file_name = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
        let mut run = workload::from_event_log(&event_log_bytes(name)?, &file_name)
            .with_context(|| format!("cannot use {name} as a workload"))?;
        run.cluster = given.cloned().unwrap_or(run.cluster);
        return Ok(Recorded { has_other_cluster: given.is_some(), ..Recorded::new(run) });
    }
    let (workload, cluster) = if looks_like_file(name) {
        own_workload(name, given, seed)?
    } else {
        let workload = workload::by_name(name, seed).map_err(|error| did_you_mean(error, name, workload::names()))?;
        let own_cluster = workload::default_cluster_for(name).context("built-in workload without a cluster")?;
        (workload, given.cloned().map_or_else(|| cluster(own_cluster), Ok)?)
    };
    let run = RecordedRun { workload, cluster, policy: None, jobs: Vec::new(), left_out: Vec::new() };
    Ok(Recorded { is_drawn: true, ..Recorded::new(run) })
}

/// The journal in the directory of a cluster, or in the directory `journal` of it; none in other directories and for files.
fn journal_in(name: &str) -> Option<String> {
    let candidates = [Path::new(name).join("log"), Path::new(name).join("journal/log")];
    let is_journal = |path: &PathBuf| has_event_log(&path.to_string_lossy()).unwrap_or(false);
    candidates.into_iter().find(is_journal).map(|path| path.to_string_lossy().into_owned())
}

/// Whether a file is an event log or the journal of a cluster, which contains one.
pub fn has_event_log(name: &str) -> Result<bool> {
    if Path::new(name).is_dir() {
        return Ok(false);
    }
    let mut head = Vec::new();
    let cannot_read = || format!("cannot read {name}; check the path");
    let file = fs::File::open(name).with_context(cannot_read)?;
    file.take(1 << 10).read_to_end(&mut head).with_context(cannot_read)?;
    Ok(is_event_log(&head) || coordinator::is_journal(&head))
}

fn own_workload(name: &str, cluster: Option<&Cluster>, seed: u64) -> Result<(Workload, Cluster)> {
    // Read first, so that a missing workload is reported before a missing cluster.
    let bytes = fs::read(name).with_context(|| format!("cannot read {name}; check the path"))?;
    let is_toml = || std::str::from_utf8(&bytes).is_ok_and(|text| toml::from_str::<toml::Table>(text).is_ok());
    // Before a missing cluster is reported, which would not help.
    ensure!(
        name.ends_with(".toml") || is_toml(),
        "{name}: unknown format; use a TOML workload (docs/files.md), an event log, or a trace of another system (docs/traces.md)"
    );
    let text = String::from_utf8(bytes).with_context(|| format!("{name}: neither an event log nor UTF-8 text"))?;
    let cluster =
        cluster.context("missing --cluster: a workload file has no cluster of its own; add --cluster NAME|FILE")?;
    Ok((Workload::from_toml(&text, name, cluster, seed)?, cluster.clone()))
}

/// Resolves a cluster by name or file; the name of a built-in workload selects its cluster.
pub fn cluster(name: &str) -> Result<Cluster> {
    if looks_like_file(name) {
        return if name.ends_with(".json") || name.ends_with(".json.gz") {
            traces::cluster(Path::new(name))
        } else {
            Ok(Cluster::from_toml(&read(name)?, name)?)
        };
    }
    cluster::by_name(name).or_else(|unknown| {
        // The name of a built-in workload selects its cluster.
        let workload_cluster = workload::default_cluster_for(name).ok_or(unknown)?;
        Ok(cluster::by_name(workload_cluster)?)
    })
}

fn looks_like_file(name: &str) -> bool {
    // A folder does not hide a built-in name.
    let is_built_in = || workload::default_cluster_for(name).is_some() || cluster::by_name(name).is_ok();
    let is_folder = || Path::new(name).is_dir() && !is_built_in();
    // Built-in names have no extension; `chronos(mine.toml)` is no file.
    let has_extension = !name.contains('(') && Path::new(name).extension().is_some();
    has_extension || name.contains('/') || Path::new(name).is_file() || is_folder()
}

fn read(file: &str) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {file}; check the path"))?;
    String::from_utf8(bytes).map_err(|_| anyhow!("{file} is not UTF-8 text; save it as UTF-8"))
}

/// Reads a file; of the journal of a cluster, the event log in it. The journal is also found by the cluster's directory.
pub fn event_log_bytes(file: &str) -> Result<Vec<u8>> {
    let journal = journal_in(file);
    let file = journal.as_deref().unwrap_or(file);
    let bytes = fs::read(file).with_context(|| format!("cannot read {file}; check the path"))?;
    if coordinator::is_journal(&bytes) { Ok(coordinator::read_event_log(Path::new(file))?) } else { Ok(bytes) }
}

/// The attempts and the use of slots in an event log or journal, each if wanted.
pub fn rows_of_log(
    file: &str,
    with_attempts: bool,
    with_slots: bool,
) -> Result<(Option<AttemptRows>, Option<SlotRows>)> {
    let bytes = event_log_bytes(file)?;
    let reader = EventLogReader::open(&bytes)
        .with_context(|| format!("{file} has no attempts; give an event log or a journal"))?;
    let (policy, seed) = (&reader.setup().policy, reader.setup().seed);
    let mut rows = RunRows::new(&policy.name, seed, with_attempts, with_slots);
    for record in reader {
        let record = record.with_context(|| file.to_owned())?;
        rows.observe(record.now, &record.event, &record.actions);
    }
    Ok(rows.into_rows())
}

/// Parses a positive number of bytes, such as `64MiB`, `100MB` or `4096`.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let invalid = || format!("invalid size `{text}`; use for example 64MiB, 100MB or 4096");
    let number: u64 = text[..digits].parse().map_err(|_| invalid())?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(invalid()),
    };
    let bytes = number.checked_mul(unit).ok_or_else(invalid)?;
    if bytes == 0 { Err("size is 0; use at least 1 byte".into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_placement_that_mean_nothing_are_refused_and_not_printed() {
        for name in catalog::names() {
            let printed = toml::to_string(&catalog::by_name(name).unwrap()).unwrap();
            check_placement(&printed).unwrap();
        }
        let refused = |text| check_placement(text).unwrap_err().to_string();
        let problem = refused("[map.placement]\ncolocation_delay = \"0s\"");
        assert!(problem.starts_with("map.placement.colocation_delay has no effect: it is about reduces"), "{problem}");
        assert!(refused("reduce.placement = { node_locality_delay = \"5s\" }").contains("[map.placement]"));
        assert!(refused("map.placement.migration = \"never\"").contains("migration"));
    }

    #[test]
    fn sizes_accept_binary_and_decimal_units() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("100MB"), Ok(100_000_000));
        assert_eq!(size("7"), Ok(7));
        assert_eq!(size("2 g"), Ok(2 << 30));
        for wrong in ["", "MiB", "0", "-1", "1.5GiB", "99999999999GiB", "5 apples"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
