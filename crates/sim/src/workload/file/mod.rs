//! Workloads from TOML files. Every key is described in `docs/files.md`.
//!
//! Here is the file as a whole: its tenants, its groups, what all parts share. `jobs` reads the jobs that are written
//! out, `draw` the description of those to be drawn.

mod draw;
mod jobs;

use super::apps::{App, SLOWSTART_PPM};
use super::generate::GROUPS;
use super::{JobPlan, Workload};
use crate::cluster::Cluster;
use crate::files::{Bounds, FileError, Key, Page};
use giveway_core::{Kind, Pool, Tenants, TenantsError, User, WHOLE_PPM};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// A workload has at most this many jobs: they are all in memory.
const JOBS_MAX: u32 = 1_000_000;
/// A job has at most this many tasks of a kind.
const TASKS_MAX: u32 = 10_000_000;
const USERS_MAX: usize = 10_000;
const POOLS_MAX: usize = 1_000;
/// The largest input or output of one task: a terabyte.
const TASK_MB_MAX: f64 = 1_048_576.0;
/// The longest time anything may last, and the latest submission.
const TIME_S_MAX: f64 = 10.0 * 366.0 * 86_400.0;

/// The file's shape.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: Option<String>,
    hints: Option<bool>,
    estimate_error: Key<f64>,
    #[serde(default)]
    users: Vec<Spanned<User>>,
    #[serde(default)]
    pools: Vec<Spanned<Pool>>,
    #[serde(default)]
    jobs: Vec<Spanned<jobs::JobsEntry>>,
    generate: Key<draw::GenerateEntry>,
}

impl Workload {
    /// Reads a workload from the text of a file; the file's name is for messages. The cluster gives the block size and
    /// what a load means; the seed decides what is drawn.
    pub fn from_toml(text: &str, file_name: &str, cluster: &Cluster, seed: u64) -> Result<Workload, FileError> {
        let page = Page::new(file_name, text);
        let file: WorkloadFile = page.read()?;
        let mut tenants = tenants(&page, &file.users, &file.pools)?;
        let mut drafts = jobs::explicit_jobs(&page, &file.jobs, cluster)?;
        if let Some(entry) = &file.generate {
            let generate = draw::generate(&page, entry.get_ref(), JOBS_MAX - drafts.len() as u32)?;
            need_reduce_slots(&page, entry, 1, cluster)?;
            declare(&mut tenants, generate.tenants());
            drafts.extend(generate.jobs(cluster, seed).into_iter().map(|job| {
                let group = GROUPS[usize::from(job.group)].into();
                (group, job)
            }));
        }
        if drafts.is_empty() {
            let remedy = "add a [[jobs]] table for jobs of your own, or a [generate] table for drawn ones";
            return Err(page.wrong(0..0, "the workload has no jobs".into(), remedy));
        }
        let (groups, jobs) = grouped(drafts).ok_or_else(|| {
            let problem = format!("the jobs fall into more than {} groups", u16::MAX);
            page.wrong(0..0, problem, "give several jobs the same group")
        })?;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        Ok(Workload {
            hints: file.hints.unwrap_or(false),
            estimate_error: page.number("estimate_error", &file.estimate_error, 0.0, Bounds::Below(0.0, 1.0))?,
            ..Workload::numbered(file.name.as_deref().unwrap_or(file_name), tenants, &groups, jobs)
        })
    }
}

/// Users and pools, checked together; a complaint is placed at the first declaration it is about.
fn tenants(page: &Page<'_>, users: &[Spanned<User>], pools: &[Spanned<Pool>]) -> Result<Tenants, FileError> {
    if let Some(user) = users.get(USERS_MAX) {
        return Err(page.wrong(user.span(), format!("more than {USERS_MAX} users"), "declare fewer"));
    }
    if let Some(pool) = pools.get(POOLS_MAX) {
        return Err(page.wrong(pool.span(), format!("more than {POOLS_MAX} pools"), "declare fewer"));
    }
    let tenants = Tenants {
        users: users.iter().map(|user| user.get_ref().clone()).collect(),
        pools: pools.iter().map(|pool| pool.get_ref().clone()).collect(),
    };
    tenants.check().map_err(|problem| {
        // Of two with one name the second is the one too many.
        let user_at = |name: &str| users.iter().rfind(|user| user.get_ref().name == name).map(Spanned::span);
        let pool_at = |name: &str| pools.iter().rfind(|pool| pool.get_ref().name == name).map(Spanned::span);
        let span = match &problem {
            TenantsError::Twice { what: "user", name } | TenantsError::Number { what: "user", name, .. } => {
                user_at(name)
            }
            TenantsError::Twice { name, .. } | TenantsError::Number { name, .. } => pool_at(name),
            TenantsError::NoParent { pool, .. } | TenantsError::Cycle { pool } => pool_at(pool),
            TenantsError::OverCapacity { parent, .. } => {
                let under = |pool: &&Spanned<Pool>| pool.get_ref().parent.as_deref().unwrap_or("root") == parent;
                pools.iter().rfind(under).map(Spanned::span)
            }
        };
        FileError::Tenants { at: page.place(span.unwrap_or(0..0)), problem }
    })?;
    Ok(tenants)
}

/// Adds users and pools that nobody declared yet.
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

/// How many jobs an entry stands for, with so many still allowed.
fn job_count<T>(
    page: &Page<'_>,
    entry: &Spanned<T>,
    key: &Key<i64>,
    default: u32,
    left: u32,
) -> Result<u32, FileError> {
    let (count, span) = match key {
        Some(key) => (*key.get_ref(), key.span()),
        None => (i64::from(default), entry.span()),
    };
    match u32::try_from(count) {
        Ok(0) | Err(_) if count <= 0 => {
            Err(page.wrong(span, format!("{count} jobs are asked for"), "write 1 or more, or leave the table out"))
        }
        Ok(count) if count <= left => Ok(count),
        _ => {
            let problem = format!("{count} jobs are asked for, but a workload has at most {JOBS_MAX} in all");
            Err(page.wrong(span, problem, "write fewer; perhaps there is a zero too many"))
        }
    }
}

fn known_app(page: &Page<'_>, name: &str, span: Range<usize>) -> Result<&'static App, FileError> {
    App::by_name(name).ok_or_else(|| {
        page.wrong(span, format!("no application is called `{name}`"), &format!("write one of {}", App::names()))
    })
}

fn need_reduce_slots<T>(page: &Page<'_>, entry: &Spanned<T>, reduces: u32, cluster: &Cluster) -> Result<(), FileError> {
    if reduces == 0 || cluster.slots(Kind::Reduce) > 0 {
        return Ok(());
    }
    let problem = format!("the jobs have reduces, but cluster `{}` has no reduce slots", cluster.name);
    Err(page.wrong(entry.span(), problem, "write reduces = 0, or give the cluster reduce_slots"))
}

fn slowstart(page: &Page<'_>, key: &Key<f64>) -> Result<u32, FileError> {
    let whole = f64::from(WHOLE_PPM);
    let part = page.number("slowstart", key, f64::from(SLOWSTART_PPM) / whole, Bounds::From(0.0, 1.0))?;
    Ok((part * whole).round() as u32)
}

/// The groups, smallest first by the mean work of their jobs, and the jobs with their groups' indexes. None if there
/// are too many.
fn grouped(drafts: Vec<(String, JobPlan)>) -> Option<(Vec<String>, Vec<JobPlan>)> {
    let mut work: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (group, job) in &drafts {
        let sum = work.entry(group).or_default();
        // A task counts for a second even if it computes nothing: a job of many empty maps is not small.
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
    let number = |(group, mut job): (String, JobPlan)| {
        job.group = index[group.as_str()];
        job
    };
    let jobs = drafts.into_iter().map(number).collect();
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
            assert_eq!(error.place().line, *line, "{text:?} gave {error}");
            let error = error.to_string();
            assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(part), "{text:?} gave {error}");
        }
    }

    #[test]
    fn tenants_are_checked_where_they_stand() {
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
    fn a_workload_needs_jobs_and_honest_numbers() {
        assert_errors(&[
            ("", 1, "the workload has no jobs; add a [[jobs]] table"),
            ("name = 'x'\n[[users]]\nname = 'u'", 1, "no jobs"),
            ("estimate_error = 1\n[[jobs]]\napp = 'sort'", 1, "estimate_error is 1; write a number from 0 to below 1"),
            ("estimate_error = -0.1\n[[jobs]]\napp = 'sort'", 1, "estimate_error is -0.1"),
            ("jobs = 5", 1, "invalid type"),
            ("[[jobs]]\napp = 'sort\n", 2, "w.toml:2:"),
        ]);
    }

    #[test]
    fn groups_come_smallest_first() {
        let text =
            "[[jobs]]\napp='sort'\nmaps=500\ngroup='b'\n[[jobs]]\napp='sort'\ngroup='z'\n[[jobs]]\napp='sort'\nmaps=50";
        let workload = read(text).unwrap();
        assert_eq!(workload.groups, ["z", "medium", "b"]);
        assert_eq!(workload.jobs.iter().map(|job| job.group).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn written_and_drawn_jobs_mix() {
        let text = "hints = true\n[[users]]\nname = 'user-1'\nweight = 5\n[[jobs]]\napp = 'sort'\n[generate]\njobs = 20\nusers = 2";
        let workload = read(text).unwrap();
        assert!(workload.hints);
        assert_eq!((workload.jobs.len(), workload.tenants.users.len()), (21, 2));
        assert_eq!(workload.tenants.users[0].weight, 5.0, "what is declared stays as declared");
        workload.tenants.check().unwrap();
        assert_eq!(read(text), read(text));
    }
}
