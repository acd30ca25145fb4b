//! The result of `giveway what-if` as text.

use super::{Changes, Row, Study};
use crate::report::text;
use crate::text_table::TextTable;
use anyhow::Result;
use giveway_analysis::what_if::{GroupChange, JobChange};
use giveway_core::plural;
use std::fmt::Write;

/// Groups and jobs printed of each kind, unless all jobs are asked for.
const LINES: usize = 12;

pub(super) fn describe(study: &Study, all_jobs: bool) -> Result<String> {
    let mut out = String::new();
    writeln!(
        out,
        "{}: {}{}, simulated on {}{}, seed {}; {} compared",
        study.workload.name,
        plural(study.workload.jobs.len() as u64, "job"),
        study.recorded_policy.as_ref().map_or(String::new(), |policy| format!(" recorded under {policy}")),
        if study.has_recorded_cluster { "" } else { "another cluster: " },
        study.clusters.first().map_or(String::new(), ToString::to_string),
        study.seed,
        study.compared.len(),
    )?;
    study.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    writeln!(out, "{}", validation(study))?;
    writeln!(out, "{}", rows(study))?;
    let baseline = study.rows.get(study.baseline).map_or("", |row| row.label.as_str());
    if study.rows.iter().all(|row| row.against.is_none()) {
        writeln!(
            out,
            "Only one run was simulated, so there is nothing to compare it with: add a policy, or name the recorded one with --recorded-policy."
        )?;
    }
    for row in &study.rows {
        if let Some(changes) = &row.against {
            write_changes(&mut out, study, baseline, row, changes, all_jobs)?;
        }
    }
    Ok(out)
}

/// How far the simulation is from the record, or why that is not known.
pub(super) fn validation(study: &Study) -> String {
    if !study.has_recorded_cluster && study.rows.first().is_some_and(|row| row.simulated.is_none()) {
        return "validation: the jobs are simulated on another cluster than the one they ran on, so their recorded times are not compared with simulated ones".into();
    }
    match (&study.error, &study.recorded_policy) {
        (Some(error), Some(policy)) => format!(
            "validation: {policy} simulated against the record of {}: median error {}, nine of ten jobs within {}, mean {:+.1} %",
            plural(error.jobs as u64, "job"),
            text::percent(error.median),
            text::percent(error.p90),
            error.of_mean * 100.0
        ),
        (None, Some(_)) => "validation: no completion times are recorded, so the error of the simulation is unknown".into(),
        (_, None) => "validation: the recorded policy is unknown, so the error of the simulation is unknown; give it with --recorded-policy".into(),
    }
}

fn rows(study: &Study) -> TextTable {
    let header = "run|mean|p50|p95|p99|mean\nwait|mean\nslowdown|max\nslowdown|lost work\n(slot time)|mean /\nbound|sooner|later";
    let mut table = TextTable::new(header.split('|'))
        .numbers_from(1)
        .leave_out("max slowdown|p50|lost work (slot time)|mean / bound|p99|mean slowdown|mean wait");
    for row in &study.rows {
        table.add_row(std::iter::once(row.label.clone()).chain(figures(row)));
    }
    table
}

/// The figures of a row as text: times, slowdowns, lost work, distance to the bound, and the jobs that end sooner and later.
pub(super) fn figures(row: &Row) -> Vec<String> {
    let of = &row.statistics;
    let time = |value: Option<f64>| value.map_or(text::NONE.into(), text::span);
    let factor = |value: Option<f64>| value.map_or(text::NONE.into(), text::times);
    let bound = row.simulated.as_ref().and_then(|simulated| simulated.lower_bound_s).filter(|bound_s| *bound_s > 0.0);
    let count = |count: Option<usize>| count.map_or(text::NONE.into(), |count| count.to_string());
    vec![
        time(of.mean_s),
        time(of.p50_s),
        time(of.p95_s),
        time(of.p99_s),
        time(of.mean_wait_s),
        factor(of.mean_slowdown),
        factor(of.max_slowdown),
        time(row.simulated.as_ref().map(|simulated| simulated.lost_work_s)),
        factor(of.mean_s.zip(bound).map(|(mean_s, bound_s)| mean_s / bound_s)),
        count(row.against.as_ref().map(Changes::faster)),
        count(row.against.as_ref().map(Changes::slower)),
    ]
}

fn write_changes(
    out: &mut String,
    study: &Study,
    baseline: &str,
    row: &Row,
    changes: &Changes,
    all_jobs: bool,
) -> Result<()> {
    writeln!(out, "\n{}", sentence(baseline, row, changes, study))?;
    let header = ["group", "jobs", "mean before", "mean after", "change", "sooner", "later"];
    let mut table = TextTable::new(header).numbers_from(1);
    let has_own_pools = changes.by_pool.iter().map(group_figures).eq(changes.by_user.iter().map(group_figures));
    for (kind, groups) in [("", &changes.by_size), ("user ", &changes.by_user), ("pool ", &changes.by_pool)] {
        // A single user or pool is all jobs, and where each user has a pool both are the same.
        if kind.is_empty() || groups.len() > 1 && !(kind == "pool " && has_own_pools) {
            for group in largest(groups) {
                table.add_row(std::iter::once(format!("{kind}{}", group.name)).chain(group_figures(group)));
            }
            if groups.len() > LINES {
                table.add_row([format!("({} more: --json)", groups.len() - LINES)]);
            }
        }
    }
    writeln!(out, "{table}")?;
    if !changes.losses.is_empty() {
        writeln!(out, "jobs that lose the most:")?;
        for loss in &changes.losses {
            writeln!(out, "  {}: {}: {}", study.job_name(loss.change.job), times(&loss.change), loss.reason)?;
        }
    }
    let mut jobs: Vec<&JobChange> = changes.jobs.iter().collect();
    if all_jobs {
        writeln!(out, "every job:")?;
    } else {
        jobs.sort_by(|a, b| b.later_s().abs().total_cmp(&a.later_s().abs()).then(a.job.cmp(&b.job)));
        let all = plural(jobs.len() as u64, "job");
        writeln!(out, "largest changes of {all} (--all-jobs prints every job):")?;
        jobs.truncate(LINES);
    }
    for change in jobs {
        writeln!(out, "  {}: {}", study.job_name(change.job), times(change))?;
    }
    Ok(())
}

/// The change of all jobs in one sentence.
pub(super) fn sentence(baseline: &str, row: &Row, changes: &Changes, study: &Study) -> String {
    let before_s = study.rows.get(study.baseline).and_then(|row| row.statistics.mean_s);
    let mean = match before_s.zip(row.statistics.mean_s) {
        Some((before_s, after_s)) if before_s > 0.0 => format!(
            "the mean completion time changes from {} to {} ({:+.1} %)",
            text::span(before_s),
            text::span(after_s),
            (after_s / before_s - 1.0) * 100.0
        ),
        _ => "the mean completion time is not known".into(),
    };
    format!(
        "{} instead of {baseline}: {mean}; of {}, {} sooner and {} later by more than 1 %",
        row.label,
        plural(changes.jobs.len() as u64, "job"),
        ends(changes.faster()),
        ends(changes.slower())
    )
}

fn ends(jobs: usize) -> String {
    if jobs == 1 { "1 ends".into() } else { format!("{jobs} end") }
}

/// The groups whose jobs change most in sum, in the order in which they are listed.
pub(super) fn largest(groups: &[GroupChange]) -> Vec<&GroupChange> {
    let total_s = |group: &GroupChange| ((group.after_mean_s - group.before_mean_s) * group.jobs as f64).abs();
    let mut limit: Vec<f64> = groups.iter().map(total_s).collect();
    limit.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = limit.get(LINES - 1).copied().unwrap_or(0.0);
    groups.iter().filter(|group| total_s(group) >= least).take(LINES).collect()
}

/// The figures of a group as text.
pub(super) fn group_figures(group: &GroupChange) -> Vec<String> {
    let percent = (group.after_mean_s / group.before_mean_s - 1.0) * 100.0;
    vec![
        group.jobs.to_string(),
        text::span(group.before_mean_s),
        text::span(group.after_mean_s),
        if percent.is_finite() { format!("{percent:+.1} %") } else { text::NONE.into() },
        group.faster.to_string(),
        group.slower.to_string(),
    ]
}

/// A job's completion times before and after.
pub(super) fn times(change: &JobChange) -> String {
    format!("{} -> {}", text::span(change.before_s), text::span(change.after_s))
}
