//! Workloads from TOML files. Every key is described in `docs/files.md`.
//!
//! This module reads the file as a whole: tenants, groups, and what the parts share. `jobs` reads the explicit jobs, `generated` the parameters of
//! the generated ones.

mod generated;
mod jobs;

use super::apps::{App, SLOWSTART_PPM};
use super::generate::GROUPS;
use super::{JobPlan, Workload};
use crate::cluster::Cluster;
use crate::files::{Bounds, FileError, MB, Table};
use giveway_core::{Kind, Pool, Tenants, TenantsError, User, WHOLE_PPM};
use std::collections::BTreeMap;
use toml::Spanned;

/// Largest number of jobs in a workload, because all of them are in memory.
const MAX_JOBS: u32 = 1_000_000;
/// Largest number of tasks of a kind in a job.
const MAX_TASKS: u32 = 10_000_000;
const MAX_USERS: usize = 10_000;
const MAX_POOLS: usize = 1_000;
/// Largest input or output of one task: a terabyte.
const MAX_TASK_MB: f64 = 1_048_576.0;
/// Longest duration and latest submission.
const MAX_TIME_S: f64 = 10.0 * 366.0 * 86_400.0;

impl Workload {
    /// Parses a workload from the text of a file; `file_name` is used in error messages. The cluster determines the default input of a map and
    /// the meaning of a load; the seed determines the generated jobs.
    pub fn from_toml(text: &str, file_name: &str, cluster: &Cluster, seed: u64) -> Result<Workload, FileError> {
        Table::parse(file_name, text)?.read(|file| workload(file, file_name, cluster, seed))
    }
}

fn workload(file: &Table<'_>, file_name: &str, cluster: &Cluster, seed: u64) -> Result<Workload, FileError> {
    let mut tenants = tenants(file)?;
    let mut jobs = Vec::new();
    file.tables("jobs", |entry| jobs::add(entry, cluster, &mut jobs))?;
    let allowed = MAX_JOBS - jobs.len() as u32;
    let generate = file.table("generate", |entry| {
        require_reduce_slots(entry, 1, cluster)?;
        generated::parameters(entry, allowed)
    })?;
    if let Some(generate) = generate {
        declare(&mut tenants, generate.tenants());
        let group = |job: &JobPlan| GROUPS[usize::from(job.group)].into();
        jobs.extend(generate.jobs(cluster, seed).into_iter().map(|job| (group(&job), job)));
    }
    let (name, hints) = (file.get::<String>("name")?, file.get("hints")?.unwrap_or(false));
    let estimate_error = file.number("estimate_error", 0.0, Bounds::OpenHigh(0.0, 1.0))?;
    if jobs.is_empty() {
        let remedy = "add a [[jobs]] table for explicit jobs, or a [generate] table for generated ones";
        return Err(file.error(0..0, "the workload has no jobs".into(), remedy));
    }
    let (groups, jobs) = grouped(jobs).ok_or_else(|| {
        let problem = format!("the jobs have more than {} groups", u16::MAX);
        file.error(0..0, problem, "give several jobs the same group")
    })?;
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let workload = Workload::numbered(name.as_deref().unwrap_or(file_name), tenants, &groups, jobs);
    Ok(Workload { hints, estimate_error, ..workload })
}

/// Users and pools, checked together; an error is located at the declaration that causes it.
fn tenants(file: &Table<'_>) -> Result<Tenants, FileError> {
    let users: Vec<Spanned<User>> = file.get("users")?.unwrap_or_default();
    let pools: Vec<Spanned<Pool>> = file.get("pools")?.unwrap_or_default();
    if let Some(user) = users.get(MAX_USERS) {
        return Err(file.error(user.span(), format!("more than {MAX_USERS} users"), "declare fewer"));
    }
    if let Some(pool) = pools.get(MAX_POOLS) {
        return Err(file.error(pool.span(), format!("more than {MAX_POOLS} pools"), "declare fewer"));
    }
    let tenants = Tenants {
        users: users.iter().map(|user| user.get_ref().clone()).collect(),
        pools: pools.iter().map(|pool| pool.get_ref().clone()).collect(),
    };
    tenants.check().map_err(|problem| {
        // Of two declarations with the same name, the second is the error.
        let user_at = |name: &str| users.iter().rfind(|user| user.get_ref().name == name).map(Spanned::span);
        let pool_at = |name: &str| pools.iter().rfind(|pool| pool.get_ref().name == name).map(Spanned::span);
        let span = match &problem {
            TenantsError::Duplicate { what: "user", name } | TenantsError::OutOfRange { what: "user", name, .. } => {
                user_at(name)
            }
            TenantsError::Duplicate { name, .. } | TenantsError::OutOfRange { name, .. } => pool_at(name),
            TenantsError::UnknownParent { pool, .. } | TenantsError::Cycle { pool } => pool_at(pool),
            TenantsError::OverCapacity { parent, .. } => {
                let is_child = |pool: &&Spanned<Pool>| pool.get_ref().parent.as_deref().unwrap_or("root") == parent;
                pools.iter().rfind(is_child).map(Spanned::span)
            }
        };
        FileError::Tenants { at: file.location(span.unwrap_or(0..0)), problem }
    })?;
    Ok(tenants)
}

/// Adds users and pools that are not declared yet.
fn declare(tenants: &mut Tenants, more: Tenants) {
    for user in more.users {
        if tenants.users.iter().all(|other| other.name != user.name) {
            tenants.users.push(user);
        }
    }
    for pool in more.pools {
        if tenants.pools.iter().all(|other| other.name != pool.name) {
            tenants.pools.push(pool);
        }
    }
}

/// Number of jobs of an entry, of which at most `allowed` are valid.
fn job_count(entry: &Table<'_>, key: &str, default: u32, allowed: u32) -> Result<u32, FileError> {
    let count = entry.get(key)?.unwrap_or(i64::from(default));
    match u32::try_from(count) {
        Ok(count) if (1..=allowed).contains(&count) => Ok(count),
        _ if count <= 0 => {
            let problem = format!("the number of jobs is {count}");
            Err(entry.error_at(key, problem, "write 1 or more, or remove the table"))
        }
        _ => {
            let problem = format!("the number of jobs is {count}, but a workload has at most {MAX_JOBS} in total");
            Err(entry.error_at(key, problem, "write a smaller number"))
        }
    }
}

/// The application that is named at a key.
fn app_by_name(entry: &Table<'_>, key: &str, name: &str) -> Result<&'static App, FileError> {
    App::by_name(name).ok_or_else(|| {
        entry.error_at(key, format!("unknown application `{name}`"), &format!("write one of {}", App::names()))
    })
}

fn require_reduce_slots(entry: &Table<'_>, reduces: u32, cluster: &Cluster) -> Result<(), FileError> {
    if reduces == 0 || cluster.slots(Kind::Reduce) > 0 {
        return Ok(());
    }
    let problem = format!("the jobs have reduces, but cluster `{}` has no reduce slots", cluster.name);
    Err(entry.table_error(problem, "write reduces = 0, or give the cluster reduce_slots"))
}

fn slowstart(entry: &Table<'_>) -> Result<u32, FileError> {
    let whole = f64::from(WHOLE_PPM);
    let fraction = entry.number("slowstart", f64::from(SLOWSTART_PPM) / whole, Bounds::Closed(0.0, 1.0))?;
    Ok((fraction * whole).round() as u32)
}

/// The megabytes at a key, in bytes.
fn megabytes(entry: &Table<'_>, key: &str) -> Result<Option<u64>, FileError> {
    let mb = entry.number_if_any(key, Bounds::Closed(0.0, MAX_TASK_MB))?;
    Ok(mb.map(|mb| (mb * MB as f64).round() as u64))
}

/// The groups, smallest first by the mean work of their jobs, and the jobs with the indices of their groups. None if there are too many groups.
fn grouped(jobs: Vec<(String, JobPlan)>) -> Option<(Vec<String>, Vec<JobPlan>)> {
    let mut work: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (group, job) in &jobs {
        let sum = work.entry(group).or_default();
        // Each task adds one second, so that a job of many tasks without computation is not small.
        let seconds = |kind: Kind| job.compute_seconds(kind) + f64::from(job.tasks(kind));
        *sum = (sum.0 + seconds(Kind::Map) + seconds(Kind::Reduce), sum.1 + 1.0);
    }
    let mut order: Vec<(&str, f64)> = work.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    let groups: Vec<String> = order.into_iter().map(|(name, _)| name.into()).collect();
    if groups.len() > usize::from(u16::MAX) {
        return None;
    }
    let index: BTreeMap<&str, u16> = groups.iter().enumerate().map(|(i, name)| (name.as_str(), i as u16)).collect();
    let with_group = |(group, mut job): (String, JobPlan)| {
        job.group = index[group.as_str()];
        job
    };
    let jobs = jobs.into_iter().map(with_group).collect();
    drop(index);
    Some((groups, jobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster;

    fn read(text: &str) -> Result<Workload, FileError> {
        Workload::from_toml(text, "w.toml", &cluster::by_name("fcs").unwrap(), 1)
    }

    fn assert_errors(cases: &[(&str, usize, &str)]) {
        for (text, line, part) in cases {
            let error = read(text).unwrap_err();
            assert_eq!(error.location().line, *line, "{text:?} gave {error}");
            let error = error.to_string();
            assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(part), "{text:?} gave {error}");
        }
    }

    #[test]
    fn tenant_errors_have_the_location_of_the_declaration() {
        let cycle =
            "[[jobs]]\napp = 'sort'\n\n[[pools]]\nname = 'a'\nparent = 'b'\n[[pools]]\nname = 'b'\nparent = 'a'";
        assert_errors(&[
            (cycle, 4, "is its own ancestor"),
            ("[[users]]\nname = 'u'\n[[users]]\nname = 'u'", 3, "declared twice"),
            ("[[users]]\nname = 'u'\nweight = -1", 1, "weight is -1"),
            ("[[pools]]\nname = 'p'\n[[pools]]\nname = 'q'\nparent = 'r'", 3, "names the parent `r`"),
            ("[[pools]]\nname='p'\ncapacity=60\n[[pools]]\nname='q'\ncapacity=50", 4, "at most 100 %"),
            ("[[pools]]\nname = 'p'\nwieght = 2", 3, "unknown field `wieght`"),
        ]);
    }

    #[test]
    fn a_workload_needs_jobs_and_valid_numbers() {
        assert_errors(&[
            ("", 1, "the workload has no jobs; add a [[jobs]] table"),
            ("name = 'x'\n[[users]]\nname = 'u'", 1, "no jobs"),
            (
                "estimate_error = 1\n[[jobs]]\napp = 'sort'",
                1,
                "estimate_error is 1; write a number from 0 to less than 1",
            ),
            ("estimate_error = -0.1\n[[jobs]]\napp = 'sort'", 1, "estimate_error is -0.1"),
            ("jobs = 5", 1, "invalid type"),
            ("[[jobs]]\napp = 'sort\n", 2, "w.toml:2:"),
        ]);
    }

    #[test]
    fn groups_are_sorted_by_size() {
        let text =
            "[[jobs]]\napp='sort'\nmaps=500\ngroup='b'\n[[jobs]]\napp='sort'\ngroup='z'\n[[jobs]]\napp='sort'\nmaps=50";
        let workload = read(text).unwrap();
        assert_eq!(workload.groups, ["z", "medium", "b"]);
        assert_eq!(workload.jobs.iter().map(|job| job.group).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn explicit_and_generated_jobs_can_be_combined() {
        let text = "hints = true\n[[users]]\nname = 'user-1'\nweight = 5\n[[jobs]]\napp = 'sort'\n[generate]\njobs = 20\nusers = 2";
        let workload = read(text).unwrap();
        assert!(workload.hints);
        assert_eq!((workload.jobs.len(), workload.tenants.users.len()), (21, 2));
        assert_eq!(workload.tenants.users[0].weight, 5.0, "an explicit declaration has precedence");
        workload.tenants.check().unwrap();
        assert_eq!(read(text), read(text));
    }
}
