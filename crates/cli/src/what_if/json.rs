//! The result of `giveway what-if` as JSON. Names do not change; scripts rely on them.

use super::{Changes, Row, Study};
use anyhow::Result;
use giveway_analysis::what_if::{GroupChange, Loss, SimulationError, Statistics};
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    source: &'a str,
    recorded_policy: Option<&'a str>,
    seed: u64,
    jobs: usize,
    jobs_compared: usize,
    clusters: Vec<Cluster<'a>>,
    /// Error of the simulation under the recorded policy.
    validation: Option<SimulationError>,
    notes: &'a [String],
    /// Label of the row that changes are counted from.
    baseline: &'a str,
    rows: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct Cluster<'a> {
    name: &'a str,
    nodes: usize,
    map_slots: u32,
    reduce_slots: u32,
}

#[derive(Serialize)]
struct RowJson<'a> {
    label: &'a str,
    policy: Option<&'a str>,
    /// Index into `clusters`.
    cluster: Option<usize>,
    #[serde(flatten)]
    statistics: &'a Statistics,
    lost_work_s: Option<f64>,
    lower_bound_mean_s: Option<f64>,
    changes: Option<ChangesJson<'a>>,
}

#[derive(Serialize)]
struct ChangesJson<'a> {
    sooner: usize,
    later: usize,
    by_size: &'a [GroupChange],
    by_user: &'a [GroupChange],
    by_pool: &'a [GroupChange],
    largest_losses: Vec<LossJson<'a>>,
    jobs: Vec<JobJson<'a>>,
}

#[derive(Serialize)]
struct LossJson<'a> {
    job: u32,
    before_s: f64,
    after_s: f64,
    reason: &'a str,
}

#[derive(Serialize)]
struct JobJson<'a> {
    /// Its number in the record.
    job: u32,
    name: &'a str,
    user: &'a str,
    pool: &'a str,
    size: &'a str,
    before_s: f64,
    after_s: f64,
}

pub(super) fn text(study: &Study) -> Result<String> {
    let document = Document {
        source: &study.workload.name,
        recorded_policy: study.recorded_policy.as_deref(),
        seed: study.seed,
        jobs: study.workload.jobs.len(),
        jobs_compared: study.compared.len(),
        clusters: study
            .clusters
            .iter()
            .map(|cluster| Cluster {
                name: &cluster.name,
                nodes: cluster.nodes,
                map_slots: cluster.map_slots,
                reduce_slots: cluster.reduce_slots,
            })
            .collect(),
        validation: study.error,
        notes: &study.notes,
        baseline: study.rows.get(study.baseline).map_or("", |row| &row.label),
        rows: study.rows.iter().map(|row| row_json(study, row)).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn row_json<'a>(study: &'a Study, row: &'a Row) -> RowJson<'a> {
    let simulated = row.simulated.as_ref();
    RowJson {
        label: &row.label,
        policy: simulated.map(|simulated| simulated.policy.as_str()),
        cluster: simulated.map(|simulated| simulated.cluster),
        statistics: &row.statistics,
        lost_work_s: simulated.map(|simulated| simulated.lost_work_s),
        lower_bound_mean_s: simulated.and_then(|simulated| simulated.lower_bound_s),
        changes: row.against.as_ref().map(|changes| changes_json(study, changes)),
    }
}

fn changes_json<'a>(study: &'a Study, changes: &'a Changes) -> ChangesJson<'a> {
    let loss = |loss: &'a Loss| LossJson {
        job: study.job_number(loss.change.job),
        before_s: loss.change.before_s,
        after_s: loss.change.after_s,
        reason: &loss.reason,
    };
    let jobs = changes.jobs.iter().filter_map(|change| {
        let plan = study.workload.jobs.get(change.job.0 as usize)?;
        Some(JobJson {
            job: study.job_number(change.job),
            name: &plan.name,
            user: &plan.user,
            pool: &plan.pool,
            size: study.size_of(change.job),
            before_s: change.before_s,
            after_s: change.after_s,
        })
    });
    ChangesJson {
        sooner: changes.faster(),
        later: changes.slower(),
        by_size: &changes.by_size,
        by_user: &changes.by_user,
        by_pool: &changes.by_pool,
        largest_losses: changes.losses.iter().map(loss).collect(),
        jobs: jobs.collect(),
    }
}
