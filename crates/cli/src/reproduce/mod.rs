//! `giveway reproduce`: the experiments of the four papers on our schedulers, their figures beside ours.
//!
//! * One file a paper says which cases to run and reads what came of them: `hsrtf.rs`, `chronos.rs`, `fcs.rs`, `coshh.rs`.
//! * `lab.rs` runs cases; `watch.rs` and `recovery.rs` look closer where a paper does.
//! * `study.rs` is what was found; `draw.rs` draws it and `pages.rs` writes it down.
//! * `forecast` runs two of the experiments on a real cluster of this machine, beside the simulator's forecast.

mod chronos;
mod coshh;
mod draw;
mod fcs;
mod forecast;
mod hsrtf;
mod lab;
mod pages;
mod recovery;
mod study;
mod vary;
mod watch;

use crate::args::{Reproduce, WhichPaper};
use crate::{files, progress};
use anyhow::Result;
use forecast::Forecast;
use giveway_engine::apps::Apps;
use lab::{Case, Runs, Scale};
use serde::Serialize;
use std::io::Write;
use study::Study;

/// How to reproduce one paper.
struct Paper {
    which: WhichPaper,
    cases: fn(&Scale) -> Vec<Case>,
    study: fn(&Scale, &Runs) -> Study,
}

const PAPERS: [Paper; 4] = [
    Paper { which: WhichPaper::Hsrtf, cases: hsrtf::cases, study: hsrtf::study },
    Paper { which: WhichPaper::Chronos, cases: chronos::cases, study: chronos::study },
    Paper { which: WhichPaper::Fcs, cases: fcs::cases, study: fcs::study },
    Paper { which: WhichPaper::Coshh, cases: coshh::cases, study: coshh::study },
];

/// The JSON that `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    command: &'a str,
    papers: &'a [Study],
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a Forecast>,
}

/// Runs the command.
pub fn run(args: &Reproduce, apps: &Apps) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 3 } else { 20 });
    let scale = Scale { seeds, sweep_seeds: seeds.div_ceil(2), quick: args.quick };
    let wanted = |which: WhichPaper| args.paper == WhichPaper::All || args.paper == which;
    let command = command(args, seeds);
    files::check_writable(args.json.as_deref())?;
    args.report.as_deref().map_or(Ok(()), pages::make_folder)?;
    let mut studies = Vec::new();
    for paper in PAPERS.iter().filter(|paper| wanted(paper.which)) {
        let cases = (paper.cases)(&scale);
        let bar = progress::bar(0, &format!("{:?}", paper.which).to_lowercase(), "runs");
        let runs = Runs::of(&cases, &bar)?;
        bar.finish_and_clear();
        let study = (paper.study)(&scale, &runs);
        writeln!(std::io::stdout(), "{}", pages::terminal(&study))?;
        studies.push(study);
    }
    let forecast = forecast::Which { hsrtf: wanted(WhichPaper::Hsrtf), chronos: wanted(WhichPaper::Chronos) };
    let forecast = if args.no_engine { None } else { forecast::run(forecast, args.quick, apps)? };
    if let Some(forecast) = &forecast {
        writeln!(std::io::stdout(), "{}", forecast.terminal())?;
    }
    if let Some(file) = &args.json {
        let json = Json { command: &command, papers: &studies, engine: forecast.as_ref() };
        files::write(file, &(serde_json::to_string(&json)? + "\n"))?;
    }
    if let Some(folder) = &args.report {
        pages::write(folder, &studies, forecast.as_ref(), &command)?;
        writeln!(std::io::stdout(), "report: {}", folder.join("index.html").display())?;
    }
    Ok(())
}

/// What to type to get the same again.
fn command(args: &Reproduce, seeds: u32) -> String {
    let paper = format!("{:?}", args.paper).to_lowercase();
    let quick = if args.quick { " --quick" } else { "" };
    let no_engine = if args.no_engine { " --no-engine" } else { "" };
    format!("giveway reproduce {paper}{quick} --seeds {seeds}{no_engine} --report DIR")
}
