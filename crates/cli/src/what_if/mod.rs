//! `giveway what-if`: the recorded jobs under other policies and on other clusters, and what changes for each job.
//!
//! This file runs the simulations and collects a [`Study`]; `text.rs`, `json.rs`, `page.rs` and `rows.rs` print it.

pub mod args;
mod json;
mod page;
mod rows;
mod text;

use crate::text_table::prose;
use crate::{files, input};
use anyhow::{Context, Result};
use args::WhatIf;
use giveway_analysis::what_if::{self, GroupChange, JobChange, JobTimes, Loss, SimulationError, Statistics};
use giveway_core::{Capabilities, JobId, Kind, Policy, Setup, plural};
use giveway_sim::cluster::Cluster;
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::{RecordedRun, Workload};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// Number of jobs with a reason for their loss.
const LOSSES: usize = 10;
/// Names of jobs in a line about jobs that are left out.
const NAMES: usize = 3;

/// All results of the command.
struct Study {
    workload: Workload,
    recorded_policy: Option<String>,
    clusters: Vec<ClusterFacts>,
    seed: u64,
    /// By job of the workload, its number in the record.
    numbers: Vec<Option<u32>>,
    /// The jobs that ended in all rows: statistics and changes are about these.
    compared: Vec<JobId>,
    rows: Vec<Row>,
    /// The row that changes are counted from: a simulated one, so that both sides have the same model and the same cluster.
    baseline: usize,
    /// False if the jobs were recorded on a cluster that is not known.
    has_recorded_cluster: bool,
    error: Option<SimulationError>,
    /// Which jobs are left out or not compared, and what is odd about the record.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ClusterFacts {
    name: String,
    nodes: usize,
    map_slots: u32,
    reduce_slots: u32,
}

/// The recorded run, or one simulated run.
struct Row {
    label: String,
    /// None for the recorded run.
    simulated: Option<Simulated>,
    times: JobTimes,
    statistics: Statistics,
    /// None for the baseline and for the recorded run.
    against: Option<Changes>,
}

struct Simulated {
    policy: String,
    /// Index into [`Study::clusters`].
    cluster: usize,
    lost_work_s: f64,
    lower_bound_s: Option<f64>,
    unfinished: usize,
}

/// What changes from the baseline to a row.
struct Changes {
    jobs: Vec<JobChange>,
    by_size: Vec<GroupChange>,
    by_user: Vec<GroupChange>,
    by_pool: Vec<GroupChange>,
    losses: Vec<Loss>,
}

/// Runs the command.
pub fn run(args: &WhatIf) -> Result<()> {
    let policies = input::policies(&args.policy)?;
    let given = args.cluster.as_deref().map(input::cluster).transpose()?;
    let recorded = input::recorded_run(&args.source, given.as_ref(), args.trace_model.as_deref(), args.seed)?;
    let (mut run, mut oddities) = (recorded.run, recorded.oddities);
    if recorded.has_made_cluster {
        oddities.push(
            "the cluster is not recorded: simulated on an assumed one, sized so that the jobs keep 70 % of its slots busy; give the real one with --cluster"
                .into(),
        );
    }
    if let Some(name) = &args.recorded_policy {
        run.policy = Some(input::policy(name)?);
    }
    let change = args.cluster_change();
    let changed = if change.is_empty() { None } else { Some(change.apply(&run.cluster)?) };
    files::check_writable(args.json.as_deref().into_iter().chain(args.report.as_deref()))?;
    giveway_cli_common::rows::check_writable(args.jobs.as_deref())?;
    let has_recorded_cluster = !recorded.has_made_cluster && !recorded.has_other_cluster;
    let study = study(run, has_recorded_cluster, changed, policies, args.seed, oddities)?;
    write!(std::io::stdout(), "{}", prose(&text::describe(&study, args.all_jobs)?))?;
    if let Some(file) = &args.json {
        files::write(file, &(json::text(&study)? + "\n"))?;
    }
    if let Some(file) = &args.jobs {
        giveway_cli_common::rows::write(file, &rows::table(&study))?;
    }
    if let Some(file) = &args.report {
        files::write(file, &page::html(&study))?;
        writeln!(std::io::stdout(), "report: {}", file.display())?;
    }
    Ok(())
}

fn study(
    run: RecordedRun,
    has_recorded_cluster: bool,
    changed: Option<Cluster>,
    policies: Vec<Policy>,
    seed: u64,
    oddities: Vec<String>,
) -> Result<Study> {
    let RecordedRun { workload, cluster, policy: recorded_policy, jobs: recorded, left_out } = run;
    // The recorded policy comes first; it is not repeated if it is asked for as well.
    let mut all: Vec<Policy> = recorded_policy.iter().cloned().collect();
    all.extend(policies.into_iter().filter(|policy| Some(policy) != recorded_policy.as_ref()));
    let comparisons: Vec<Comparison> = std::iter::once(cluster)
        .chain(changed)
        .map(|cluster| Comparison::new(cluster, workload.clone(), seed))
        .collect();
    let capabilities = Capabilities::ALL;
    for policy in &all {
        Setup { policy: policy.clone(), tenants: workload.tenants.clone(), capabilities, seed }
            .check()
            .with_context(|| format!("policy `{}` cannot run this workload", policy.name))?;
    }
    let tasks: Vec<(usize, &Policy)> =
        (0..comparisons.len()).flat_map(|cluster| all.iter().map(move |policy| (cluster, policy))).collect();
    let simulate = |(cluster, policy): &(usize, &Policy)| -> Result<Row> {
        let comparison = &comparisons[*cluster];
        let result = comparison.run(policy, &mut ())?;
        let own = Some(*policy) == recorded_policy.as_ref();
        Ok(Row {
            label: label(policy, own, *cluster, &comparisons),
            times: JobTimes::simulated(workload.jobs.len(), &result.jobs),
            simulated: Some(Simulated {
                policy: policy.name.clone(),
                cluster: *cluster,
                lost_work_s: result.summary.key_metrics.lost_work_s,
                lower_bound_s: result.summary.key_metrics.lower_bound_mean_completion_s,
                unfinished: result.stats.jobs_unfinished,
            }),
            statistics: JobTimes(Vec::new()).statistics(&[]),
            against: None,
        })
    };
    let simulated = tasks.par_iter().with_max_len(1).map(simulate).collect::<Result<Vec<Row>>>()?;
    let recorded_times = JobTimes::recorded(&recorded);
    let has_record = recorded_times.0.iter().any(Option::is_some);
    let recorded_row = has_record.then(|| Row {
        label: "recorded".into(),
        simulated: None,
        times: recorded_times,
        statistics: JobTimes(Vec::new()).statistics(&[]),
        against: None,
    });
    let rows: Vec<Row> = recorded_row.into_iter().chain(simulated).collect();
    let mut notes = notes(&workload, &rows, &recorded, &left_out, has_record);
    notes.extend(oddities);
    let mut study = Study {
        numbers: recorded.iter().map(|job| job.number).collect(),
        // The recorded policy, or else the first one that was asked for.
        baseline: usize::from(has_record),
        has_recorded_cluster,
        recorded_policy: recorded_policy.map(|policy| policy.name),
        clusters: comparisons.iter().map(|comparison| ClusterFacts::of(&comparison.cluster)).collect(),
        compared: JobTimes::in_all(&rows.iter().map(|row| &row.times).collect::<Vec<_>>()),
        workload,
        seed,
        rows,
        error: None,
        notes,
    };
    study.compare(has_record);
    Ok(study)
}

impl Study {
    fn compare(&mut self, has_record: bool) {
        if has_record && self.recorded_policy.is_some() && self.has_recorded_cluster {
            self.error = what_if::error_of(&self.rows[0].times, &self.rows[1].times, &self.compared);
        }
        let baseline = self.rows[self.baseline].times.clone();
        for (number, row) in self.rows.iter_mut().enumerate() {
            row.statistics = row.times.statistics(&self.compared);
            if number != self.baseline && row.simulated.is_some() {
                row.against = Some(Changes::new(&self.workload, &baseline, &row.times, &self.compared));
            }
        }
    }

    /// The number of a job, as in the record if it has numbers.
    fn job_number(&self, job: JobId) -> u32 {
        self.numbers.get(job.0 as usize).copied().flatten().unwrap_or(job.0)
    }

    fn job_name(&self, job: JobId) -> String {
        let number = self.job_number(job);
        let Some(plan) = self.workload.jobs.get(job.0 as usize) else { return format!("job {number}") };
        format!("job {number} ({}, {})", plan.name, plan.user)
    }

    fn size_of(&self, job: JobId) -> &str {
        let group = self.workload.jobs.get(job.0 as usize).map_or(0, |plan| usize::from(plan.group));
        self.workload.groups.get(group).map_or("", String::as_str)
    }
}

impl Changes {
    fn new(workload: &Workload, before: &JobTimes, after: &JobTimes, jobs: &[JobId]) -> Changes {
        let jobs = what_if::changes(before, after, jobs);
        let size = |group: &u16| workload.groups.get(usize::from(*group)).cloned().unwrap_or_default();
        Changes {
            by_size: what_if::by_group(workload, &jobs, |plan| plan.group, size),
            by_user: what_if::by_group(workload, &jobs, |plan| plan.user.as_str(), |user| (*user).into()),
            by_pool: what_if::by_group(workload, &jobs, |plan| plan.pool.as_str(), |pool| (*pool).into()),
            losses: what_if::losses(workload, before, after, &jobs, LOSSES),
            jobs,
        }
    }

    fn faster(&self) -> usize {
        self.jobs.iter().filter(|change| change.is_faster()).count()
    }

    fn slower(&self) -> usize {
        self.jobs.iter().filter(|change| change.is_slower()).count()
    }
}

impl ClusterFacts {
    fn of(cluster: &Cluster) -> ClusterFacts {
        ClusterFacts {
            name: cluster.name.clone(),
            nodes: cluster.nodes.len(),
            map_slots: cluster.slots(Kind::Map),
            reduce_slots: cluster.slots(Kind::Reduce),
        }
    }
}

impl std::fmt::Display for ClusterFacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = plural(self.nodes as u64, "node");
        write!(f, "{nodes}, {}, {}", plural(self.map_slots, "map slot"), plural(self.reduce_slots, "reduce slot"))
    }
}

fn label(policy: &Policy, own: bool, cluster: usize, comparisons: &[Comparison]) -> String {
    let simulated = if own { ", simulated" } else { "" };
    if cluster == 0 {
        return format!("{}{simulated}", policy.name);
    }
    let (before, after) = (&comparisons[0].cluster, &comparisons[cluster].cluster);
    if before.nodes.len() == after.nodes.len() {
        format!("{}, changed nodes", policy.name)
    } else {
        format!("{}, {}", policy.name, plural(after.nodes.len() as u64, "node"))
    }
}

/// One line for each reason for which jobs are left out or not compared.
fn notes(
    workload: &Workload,
    rows: &[Row],
    recorded: &[giveway_sim::workload::RecordedJob],
    left_out: &[giveway_sim::workload::LeftOut],
    has_record: bool,
) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for job in left_out {
        by_reason.entry(format!("left out: {}", job.reason)).or_default().push(&job.job);
    }
    for (job, plan) in recorded.iter().zip(&workload.jobs) {
        if let Some(why) = job.not_compared.filter(|_| has_record) {
            by_reason.entry(format!("simulated but not compared: {why}")).or_default().push(&plan.name);
        }
    }
    for row in rows {
        if row.simulated.as_ref().is_some_and(|simulated| simulated.unfinished > 0) {
            let unfinished = workload.jobs.iter().zip(&row.times.0).filter(|(_, time)| time.is_none());
            by_reason
                .entry(format!("not compared: unfinished under {}", row.label))
                .or_default()
                .extend(unfinished.map(|(plan, _)| plan.name.as_str()));
        }
    }
    let line = |(reason, names): (String, Vec<&str>)| {
        let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
        let more = if names.len() > NAMES { ", ..." } else { "" };
        format!("{} {reason} ({shown}{more})", plural(names.len() as u64, "job"))
    };
    by_reason.into_iter().map(line).collect()
}
