//! The jobs of a study as a table, with a row for each job in the record and in each simulated run.

use super::{Row, Study};
use giveway_analysis::what_if::JobTime;
use giveway_sim::rows::{Column, Table, Values};
use giveway_sim::workload::JobPlan;
use std::sync::Arc;

/// The jobs that ended, by run and in the order of their submission.
pub fn table(study: &Study) -> Table {
    let jobs = || {
        study.rows.iter().flat_map(|row| {
            let ended = study.workload.jobs.iter().zip(&row.times.0);
            ended.filter_map(move |(plan, time)| Some((row, plan, time.as_ref()?)))
        })
    };
    let text = |of: &dyn Fn(&Row, &JobPlan) -> Arc<str>| jobs().map(|(row, plan, _)| of(row, plan)).collect();
    let real = |of: &dyn Fn(&JobPlan, &JobTime) -> f64| jobs().map(|(_, plan, time)| of(plan, time)).collect();
    let integer =
        |of: &dyn Fn(&Row, &JobPlan, &JobTime) -> u64| jobs().map(|(row, plan, time)| of(row, plan, time)).collect();
    let policy_of = |row: &Row| match &row.simulated {
        Some(simulated) => simulated.policy.as_str().into(),
        None => study.recorded_policy.as_deref().unwrap_or_default().into(),
    };
    let nodes_of =
        |row: &Row| study.clusters[row.simulated.as_ref().map_or(0, |simulated| simulated.cluster)].nodes as u64;
    let columns = [
        ("run", Values::Text(text(&|row, _| row.label.as_str().into()))),
        ("policy", Values::Text(text(&|row, _| policy_of(row)))),
        ("nodes", Values::Integer(integer(&|row, _, _| nodes_of(row)))),
        ("job", Values::Integer(integer(&|_, plan, _| u64::from(study.job_number(plan.id))))),
        ("name", Values::Text(text(&|_, plan| plan.name.as_str().into()))),
        ("user", Values::Text(text(&|_, plan| plan.user.as_str().into()))),
        ("pool", Values::Text(text(&|_, plan| plan.pool.as_str().into()))),
        ("group", Values::Text(text(&|_, plan| study.size_of(plan.id).into()))),
        ("submit_s", Values::Real(real(&|plan, _| plan.submit.as_secs_f64()))),
        ("wait_s", Values::Real(real(&|_, time| time.wait_s.unwrap_or(f64::NAN)))),
        ("completion_s", Values::Real(real(&|_, time| time.completion_s))),
        ("slowdown", Values::Real(real(&|_, time| time.slowdown.unwrap_or(f64::NAN)))),
        ("pauses", Values::Integer(integer(&|_, _, time| u64::from(time.pauses)))),
        ("kills", Values::Integer(integer(&|_, _, time| u64::from(time.kills)))),
        ("early_ends", Values::Integer(integer(&|_, _, time| u64::from(time.early_ends)))),
    ];
    Table { columns: columns.into_iter().map(|(name, values)| Column { name, values }).collect() }
}
