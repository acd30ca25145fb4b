//! `giveway trace compare`: traces under several policies, as a page of Markdown.

use super::args::Compare;
use crate::report::text;
use crate::{files, input};
use anyhow::{Context, Result, ensure};
use giveway_analysis::what_if::{self, JobTimes, Statistics};
use giveway_core::{JobId, Kind, Policy};
use giveway_sim::comparison::{Comparison, PolicyResult};
use rayon::prelude::*;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// One trace under one policy.
struct Cell {
    result: PolicyResult,
    seconds: f64,
}

/// Runs the command.
pub fn run(args: &Compare) -> Result<()> {
    let policies = input::policies(&args.policy)?;
    let baseline = policies
        .iter()
        .position(|policy| policy.name == args.baseline)
        .with_context(|| format!("--baseline {} is not among the policies; add it to --policy", args.baseline))?;
    files::check_writable(args.report.as_deref())?;
    let given = args.cluster.as_deref().map(input::cluster).transpose()?;
    let mut traces = Vec::new();
    for path in &args.traces {
        let name = path.display().to_string();
        let recorded = input::recorded_run(&name, given.as_ref(), args.trace_model.as_deref(), args.seed)?;
        traces.push(recorded.run);
    }
    let comparisons: Vec<Comparison> =
        traces.into_par_iter().map(|run| Comparison::new(run.cluster, run.workload, args.seed)).collect();
    let tasks: Vec<(&Comparison, &Policy)> =
        comparisons.iter().flat_map(|comparison| policies.iter().map(move |policy| (comparison, policy))).collect();
    let simulate = |(comparison, policy): &(&Comparison, &Policy)| -> Result<Cell> {
        let start = Instant::now();
        let result = comparison
            .run(policy, &mut ())
            .with_context(|| format!("policy `{}` cannot run {}", policy.name, comparison.workload.name))?;
        Ok(Cell { result, seconds: start.elapsed().as_secs_f64() })
    };
    let cells = tasks.par_iter().with_max_len(1).map(simulate).collect::<Result<Vec<Cell>>>()?;
    let by_trace: Vec<&[Cell]> = cells.chunks(policies.len()).collect();
    let mut out = std::io::stdout();
    for ((comparison, policy), cell) in tasks.iter().zip(&cells) {
        let events = cell.result.stats.events;
        writeln!(
            out,
            "{} under {}: {events} events in {:.2} s, {:.2} million/s",
            comparison.workload.name,
            policy.name,
            cell.seconds,
            events as f64 / cell.seconds / 1e6
        )?;
    }
    let page = page(args, &comparisons, &policies, &by_trace, baseline);
    match &args.report {
        Some(file) => files::write(file, &page)?,
        None => write!(out, "{page}")?,
    }
    let unfinished: usize = cells.iter().map(|cell| cell.result.stats.jobs_unfinished).sum();
    ensure!(unfinished == 0, crate::CheckFailed(format!("{unfinished} jobs are unfinished under some policy")));
    Ok(())
}

fn page(args: &Compare, traces: &[Comparison], policies: &[Policy], cells: &[&[Cell]], baseline: usize) -> String {
    let file_name = |path: &Path| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let names: Vec<String> = args.traces.iter().map(|path| file_name(path)).collect();
    let mut page = format!(
        "# Recorded workloads under all policies\n\nMade by `giveway trace compare {} --policy {} --seed {} --report FILE`. Task times that a trace lacks \
         come from the duration model of [traces.md](../traces.md). Completion: from submission to end. Slowdown: completion time over the estimated execution \
         time alone on the cluster. Later: jobs that end later than under `{}` by more than 1 %, and by how much. Bound: a lower bound of the mean completion time of \
         any schedule.\n",
        names.join(" "),
        args.policy.join(","),
        args.seed,
        args.baseline
    );
    for (trace, cells) in traces.iter().zip(cells) {
        // Writing to a string cannot fail.
        let _ = write_trace(&mut page, trace, policies, cells, baseline);
    }
    page
}

fn write_trace(
    page: &mut String,
    trace: &Comparison,
    policies: &[Policy],
    cells: &[Cell],
    baseline: usize,
) -> std::fmt::Result {
    let (workload, cluster) = (&trace.workload, &trace.cluster);
    let tasks = |kind: Kind| workload.jobs.iter().map(|job| u64::from(job.tasks(kind))).sum::<u64>();
    writeln!(
        page,
        "\n## {}\n\n{} jobs with {} maps and {} reduces on {} nodes with {} map and {} reduce slots.\n",
        workload.name,
        workload.jobs.len(),
        tasks(Kind::Map),
        tasks(Kind::Reduce),
        cluster.nodes.len(),
        cluster.slots(Kind::Map),
        cluster.slots(Kind::Reduce)
    )?;
    let times: Vec<JobTimes> =
        cells.iter().map(|cell| JobTimes::simulated(workload.jobs.len(), &cell.result.jobs)).collect();
    let all: Vec<JobId> = workload.jobs.iter().map(|job| job.id).collect();
    writeln!(
        page,
        "| policy | mean | p50 | p95 | p99 | mean slowdown | max slowdown | later: jobs | later: mean | later: longest | lost work | mean / bound |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for ((policy, cell), run) in policies.iter().zip(cells).zip(&times) {
        let statistics = run.statistics(&all);
        let changes = times.get(baseline).map_or(Vec::new(), |before| what_if::changes(before, run, &all));
        let later: Vec<f64> =
            changes.iter().filter(|change| change.is_slower()).map(|change| change.later_s()).collect();
        let mean_later = (!later.is_empty()).then(|| later.iter().sum::<f64>() / later.len() as f64);
        let key = &cell.result.summary.key_metrics;
        let bound = key.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0);
        writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} |",
            policy.name,
            completion_and_slowdown(&statistics),
            later.len(),
            span(mean_later),
            span(later.iter().copied().reduce(f64::max)),
            text::span(key.lost_work_s),
            factor(statistics.mean_s.zip(bound).map(|(mean_s, bound_s)| mean_s / bound_s))
        )?;
    }
    for (group, name) in workload.groups.iter().enumerate() {
        let jobs: Vec<JobId> =
            workload.jobs.iter().filter(|job| usize::from(job.group) == group).map(|job| job.id).collect();
        if jobs.is_empty() {
            continue;
        }
        writeln!(
            page,
            "\n### {name} jobs ({})\n\n| policy | mean | p50 | p95 | p99 | mean slowdown | max slowdown |\n|---|---|---|---|---|---|---|",
            jobs.len()
        )?;
        for (policy, run) in policies.iter().zip(&times) {
            writeln!(page, "| {} | {} |", policy.name, completion_and_slowdown(&run.statistics(&jobs)))?;
        }
    }
    Ok(())
}

fn completion_and_slowdown(of: &Statistics) -> String {
    let times = [of.mean_s, of.p50_s, of.p95_s, of.p99_s].map(span);
    let slowdowns = [of.mean_slowdown, of.max_slowdown].map(factor);
    [times.join(" | "), slowdowns.join(" | ")].join(" | ")
}

fn span(seconds: Option<f64>) -> String {
    seconds.map_or(text::NONE.into(), text::span)
}

fn factor(value: Option<f64>) -> String {
    value.map_or(text::NONE.into(), text::times)
}
