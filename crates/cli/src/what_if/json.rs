//! The result of `giveway what-if` as JSON. Names do not change; scripts rely on them.

use super::{Changes, Row, Study};
use anyhow::Result;
use giveway_analysis::what_if::JobChange;
use giveway_sim::workload::JobPlan;
use serde_json::{Value, json};

pub(super) fn text(study: &Study) -> Result<String> {
    let rows: Vec<Value> = study.rows.iter().map(|row| row_json(study, row)).collect::<Result<_>>()?;
    let document = json!({
        "source": study.workload.name,
        "recorded_policy": study.recorded_policy,
        "seed": study.seed,
        "jobs": study.workload.jobs.len(),
        "jobs_compared": study.compared.len(),
        "clusters": study.clusters,
        // Error of the simulation under the recorded policy.
        "validation": study.error,
        "notes": study.notes,
        // Label of the row that changes are counted from.
        "baseline": study.rows.get(study.baseline).map_or("", |row| &row.label),
        "rows": rows,
    });
    Ok(serde_json::to_string_pretty(&document)?)
}

fn row_json(study: &Study, row: &Row) -> Result<Value> {
    let simulated = row.simulated.as_ref();
    let mut value = serde_json::to_value(row.statistics)?;
    value["label"] = json!(row.label);
    value["policy"] = json!(simulated.map(|simulated| &simulated.policy));
    // Index into `clusters`.
    value["cluster"] = json!(simulated.map(|simulated| simulated.cluster));
    value["lost_work_s"] = json!(simulated.map(|simulated| simulated.lost_work_s));
    value["lower_bound_mean_s"] = json!(simulated.and_then(|simulated| simulated.lower_bound_s));
    value["changes"] = json!(row.against.as_ref().map(|changes| changes_json(study, changes)));
    Ok(value)
}

fn changes_json(study: &Study, changes: &Changes) -> Value {
    let number = |change: &JobChange| study.job_number(change.job);
    let losses = changes.losses.iter().map(|loss| {
        let JobChange { before_s, after_s, .. } = loss.change;
        json!({ "job": number(&loss.change), "before_s": before_s, "after_s": after_s, "reason": loss.reason })
    });
    let jobs = changes.jobs.iter().filter_map(|change| {
        let JobPlan { name, user, pool, .. } = study.workload.jobs.get(change.job.0 as usize)?;
        let size = study.size_of(change.job);
        let (job, before_s, after_s) = (number(change), change.before_s, change.after_s);
        Some(json!({ "job": job, "name": name, "user": user, "pool": pool, "size": size, "before_s": before_s, "after_s": after_s }))
    });
    json!({
        "sooner": changes.faster(),
        "later": changes.slower(),
        "by_size": changes.by_size,
        "by_user": changes.by_user,
        "by_pool": changes.by_pool,
        "largest_losses": losses.collect::<Vec<_>>(),
        "jobs": jobs.collect::<Vec<_>>(),
    })
}
