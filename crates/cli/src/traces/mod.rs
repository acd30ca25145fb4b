//! `giveway trace`: describes, converts, samples and imitates traces of other systems, and writes them as tables.

pub mod args;
mod compare;
mod stats;

use crate::table_files::TableFiles;
use anyhow::{Result, ensure};
use args::{Convert, Fit, Output, Rows, Sample, Source, TraceCommand};
use giveway_cli_common::traces::{open, print_diagnostics};
use giveway_cli_common::{files, input};
use giveway_sim::cluster::Cluster;
use giveway_sim::rows::PlanRows;
use giveway_traces::{Stats, Trace, TraceJob};
use std::io::Write;

/// Largest number of jobs of a workload.
const MAX_JOBS: usize = 1_000_000;

/// Runs `giveway trace`.
pub fn run(args: &args::Trace) -> Result<()> {
    match &args.command {
        TraceCommand::Stats(stats) => print_stats(&stats.source, stats.json),
        TraceCommand::Convert(convert) => self::convert(convert),
        TraceCommand::Sample(sample) => self::sample(sample),
        TraceCommand::Fit(fit) => self::fit(fit),
        TraceCommand::Compare(compare) => compare::run(compare),
        TraceCommand::Rows(rows) => self::rows(rows),
    }
}

fn print_stats(source: &Source, json: bool) -> Result<()> {
    let (_, jobs) = read(source)?;
    let cluster = cluster_of(source, &jobs)?;
    let stats = Stats::of(&jobs);
    let text = if json { stats::json(&stats, &cluster)? } else { stats::describe(&stats, &cluster) };
    write!(std::io::stdout(), "{text}")?;
    Ok(())
}

fn convert(args: &Convert) -> Result<()> {
    let (trace, jobs) = read(&args.source)?;
    let cluster = cluster_of(&args.source, &jobs)?;
    write_workload(trace.name(), jobs, &cluster, &args.output)
}

fn sample(args: &Sample) -> Result<()> {
    let (trace, jobs) = read(&args.source)?;
    let first_us = jobs.first().map_or(0, |job| job.submit_us);
    let within = |job: &TraceJob| {
        let offset_us = u128::from(job.submit_us.abs_diff(first_us));
        args.from.is_none_or(|from| offset_us >= from.as_micros())
            && args.to.is_none_or(|to| offset_us < to.as_micros())
    };
    let count = args.jobs.map_or(MAX_JOBS, |jobs| jobs as usize);
    // The cluster is that of the whole trace: a sample is a lighter load on it.
    let cluster = cluster_of(&args.source, &jobs)?;
    let jobs = giveway_traces::sample(jobs.into_iter().filter(within), count, args.seed);
    ensure!(!jobs.is_empty(), "no job was submitted between --from and --to; `giveway trace stats` prints the span");
    write_workload(trace.name(), jobs, &cluster, &args.output)
}

fn fit(args: &Fit) -> Result<()> {
    let (trace, jobs) = read(&args.source)?;
    let cluster = cluster_of(&args.source, &jobs)?;
    let of_trace = Stats::of(&jobs);
    let span_s = args.span.map_or(of_trace.span_s, |span| span.as_secs_f64());
    let made = giveway_traces::synthetic(&jobs, span_s, MAX_JOBS, args.seed);
    let table = stats::table(&[("trace", &of_trace), ("synthetic", &Stats::of(&made))]);
    writeln!(std::io::stdout(), "{} synthetic jobs within {span_s:.0} s\n{table}", made.len())?;
    write_workload(&format!("synthetic {}", trace.name()), made, &cluster, &args.output)
}

fn rows(args: &Rows) -> Result<()> {
    let TableFiles { jobs, attempts, slots } = &args.tables;
    let of_attempts = attempts.is_some() || slots.is_some();
    ensure!(jobs.is_some() || of_attempts, "no table; give at least one of --jobs, --attempts and --slots");
    args.tables.check_writable()?;
    if of_attempts {
        let rows = input::rows_of_log(&args.source, attempts.is_some(), slots.is_some())?;
        args.tables.write_attempts(&rows.0.unwrap_or_default().into())?;
        args.tables.write_slots(&rows.1.unwrap_or_default().into())?;
    }
    if jobs.is_some() {
        let recorded = input::recorded_run(&args.source, None, args.trace_model.as_deref(), 1)?;
        args.tables.write_jobs(&PlanRows::of(&recorded.run).into())?;
    }
    Ok(())
}

/// All jobs of a trace by submission time; prints what was odd.
fn read(source: &Source) -> Result<(Trace, Vec<TraceJob>)> {
    let mut trace = open(&source.trace, source.trace_model.as_deref())?;
    let jobs = giveway_traces::sorted_jobs(&mut trace);
    print_diagnostics(&trace);
    Ok((trace, jobs?))
}

fn cluster_of(source: &Source, jobs: &[TraceJob]) -> Result<Cluster> {
    match &source.cluster {
        Some(name) => input::cluster(name),
        None => Ok(giveway_traces::cluster_for(jobs)),
    }
}

fn write_workload(name: &str, jobs: Vec<TraceJob>, cluster: &Cluster, output: &Output) -> Result<()> {
    let workload = giveway_traces::workload_of(name, jobs, cluster, &mut |_| {});
    files::write(&output.output, &giveway_traces::workload_toml(&workload))?;
    let mut out = std::io::stdout();
    writeln!(out, "workload: {} ({} jobs)", output.output.display(), workload.jobs.len())?;
    if let Some(file) = &output.cluster_output {
        files::write(file, &cluster.to_toml())?;
        writeln!(out, "cluster: {} ({} nodes)", file.display(), cluster.nodes.len())?;
    }
    Ok(())
}
