//! `giveway explain`: the facts of `giveway_analysis::explain` as text.

use super::args::ShowJob;
use super::inspect::{expected, read_journal, utc, utc_time};
use crate::terminal::printable;
use anyhow::{Result, bail};
use giveway_analysis::explain::{self, Explanation, PolicyForecast};
use giveway_analysis::feed;
use giveway_analysis::forecast::{Forecasts, Present};
use giveway_cli_common::text_table::prose;
use giveway_core::{JobId, Outcome};
use giveway_engine::client::Client;
use giveway_engine::wire::JobStatus;
use std::io::Write;

/// `giveway explain`
pub fn explain(args: &ShowJob) -> Result<()> {
    let (folder, id) = (&args.job.cluster.dir, JobId(args.job.id));
    let model = match read_journal(folder) {
        Some(model) => model,
        // Another user's cluster, whose journal cannot be read, or none at all.
        None => {
            let (log, clock) = Client::connect(folder)?.event_log()?;
            feed::received(folder, &log, clock)?
        }
    };
    // A stopped cluster is as its journal left it; the time since then is none of the job's.
    let cluster = Client::connect(folder);
    let now = if cluster.is_ok() { model.present() } else { model.now };
    // A job that ended before the journal began is in an archived one.
    let archived = || feed::archived(folder, id).and_then(|model| explain::explain(&model, id, model.now));
    let Some(mut explanation) = explain::explain(&model, id, now).or_else(archived) else {
        let Ok(client) = cluster else {
            bail!("{id} is in no journal of this cluster; `giveway history` lists the jobs that are")
        };
        return print_from_coordinator(client, id);
    };
    if let Some(present) = Present::of(&model).filter(|_| cluster.is_ok()) {
        explanation.forecasts = explain::forecasts(&present, &Forecasts::default(), id);
    }
    if cluster.is_err() {
        let since = model.unix_ms(model.now).map_or_else(String::new, |ms| format!(", at {} UTC", utc(ms)));
        eprintln!("giveway: the cluster is not running: this is the state at the end of its journal{since}");
    }
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&explanation)?)?;
        return Ok(());
    }
    // The event log has neither applications nor the texts of failures: they are known while the cluster runs.
    let status = cluster.and_then(|mut client| client.job(id)).ok();
    let mut text = Vec::new();
    print(&explanation, status.as_ref(), &mut text)?;
    write!(out, "{}", prose(&String::from_utf8_lossy(&text)))?;
    Ok(())
}

/// What the coordinator itself knows of a job that is in no journal any more.
fn print_from_coordinator(mut client: Client, id: JobId) -> Result<()> {
    let status = client.job(id)?;
    let line = format!("{id} `{}`, application {}: {}", printable(&status.name), status.app, status.state());
    Ok(writeln!(std::io::stdout(), "{}", prose(&line))?)
}

fn print(explanation: &Explanation, status: Option<&JobStatus>, out: &mut impl Write) -> std::io::Result<()> {
    let app = status.map_or_else(String::new, |status| format!(", application {}", status.app));
    writeln!(out, "{} `{}`{app}, policy {}", explanation.job, explanation.name, explanation.policy)?;
    for (fact, number) in explanation.facts.iter().zip(1..) {
        // What holds the job back is marked.
        let mark = if fact.cause { ">" } else { " " };
        writeln!(out, "{mark} {number}. {}", fact.title)?;
        if !fact.text.is_empty() {
            writeln!(out, "     {}", fact.text)?;
        }
        for bar in &fact.bars {
            let name: String = bar.name.chars().take(28).collect();
            writeln!(out, "       {:<8} {name:<28} {}", bar.job.to_string(), bar.text)?;
        }
    }
    if let Some((status, failure)) = status.and_then(|status| Some((status, status.failures.last()?))) {
        let what = if status.outcome == Some(Outcome::Failed) { "failed" } else { "latest failure" };
        writeln!(out, "{what}: {}", printable(failure))?;
        writeln!(out, "`giveway logs {}` prints what its tasks have printed", status.job.0)?;
    }
    let at = |seconds: f64| match explanation.wall_ms {
        Some(wall_ms) => utc_time(wall_ms + seconds * 1e3),
        None => format!("{seconds:.1} s"),
    };
    if !explanation.forecasts.is_empty() {
        writeln!(
            out,
            "expected, in UTC (90 % interval, from simulations with the present jobs and others like the recent ones):"
        )?;
        for PolicyForecast { policy, start_s, end_s } in &explanation.forecasts {
            let text = |interval: &Option<[Option<f64>; 3]>| interval.and_then(|interval| expected(interval, at));
            let start = text(start_s).map_or_else(String::new, |start| format!("starts {start}, "));
            let end = text(end_s).map_or_else(|| "end not known yet".into(), |end| format!("ends {end}"));
            writeln!(out, "     {policy:<18} {start}{end}")?;
        }
    }
    if !explanation.decisions.is_empty() {
        let zone = if explanation.wall_ms.is_some() { " (UTC)" } else { "" };
        writeln!(out, "recent decisions{zone}:")?;
        for decision in &explanation.decisions {
            let at = decision.at_ms.map_or_else(|| at(decision.at_s), utc_time);
            writeln!(out, "     {at}  {}", decision.text)?;
        }
    }
    Ok(())
}
