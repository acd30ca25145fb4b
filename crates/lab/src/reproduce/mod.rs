//! `giveway reproduce`: runs the experiments of the four papers on the shipped policies and compares the results with the papers' figures.
//!
//! * `papers/`: one file per paper. It lists every claim of the paper, the experiments that answer them, tables and figures.
//! * `paper.rs` reads such a file; `quantity.rs` names figures of the runs; `claims.rs` judges claims by them.
//! * `experiment.rs` runs cases; `observation.rs` and `recovery.rs` record what a run's summary does not contain.
//! * `changes.rs` changes clusters and workloads.
//! * `study.rs` holds the results of one paper; `figures.rs` renders its figures and `report_pages.rs`
//!   its pages.
//! * `forecast/` runs experiments on the engine and compares the jobs' completion times with the simulator's forecast.

mod changes;
mod claims;
mod experiment;
mod figures;
mod forecast;
mod observation;
mod paper;
mod quantity;
mod recovery;
mod report_pages;
mod study;

use crate::args::{Reproduce, WhichPaper};
use crate::{files, progress};
use anyhow::{Context, Result};
use experiment::Runs;
use forecast::{ForecastReport, Selection};
use giveway_mapreduce::apps::Apps;
use paper::Paper;
use serde::Serialize;
use std::io::Write;
use study::Study;

/// The files of the papers.
const PAPERS: [(WhichPaper, &str); 4] = [
    (WhichPaper::Hsrtf, include_str!("papers/hsrtf.toml")),
    (WhichPaper::Chronos, include_str!("papers/chronos.toml")),
    (WhichPaper::Fcs, include_str!("papers/fcs.toml")),
    (WhichPaper::Coshh, include_str!("papers/coshh.toml")),
];

/// The document that `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    command: &'a str,
    papers: &'a [Study],
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a ForecastReport>,
}

/// Runs `giveway reproduce`.
pub fn run(args: &Reproduce, apps: &Apps) -> Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 3 } else { 20 });
    let selected = |which: WhichPaper| args.paper == WhichPaper::All || args.paper == which;
    let command = command(args, seeds);
    files::check_writable(args.json.as_deref())?;
    args.report.as_deref().map_or(Ok(()), report_pages::create_folder)?;
    let mut studies = Vec::new();
    for (which, text) in PAPERS.into_iter().filter(|(which, _)| selected(*which)) {
        let name = format!("{which:?}").to_lowercase();
        let paper = Paper::read(text, args.quick).with_context(|| format!("papers/{name}.toml"))?;
        let bar = progress::bar(0, &name, "runs");
        let runs = Runs::execute(&paper.cases(seeds)?, &bar)?;
        bar.finish_and_clear();
        let study = Study::new(&paper, &runs);
        writeln!(std::io::stdout(), "{}", report_pages::terminal(&study))?;
        studies.push(study);
    }
    let selection = Selection {
        hsrtf: selected(WhichPaper::Hsrtf),
        chronos: selected(WhichPaper::Chronos),
        contention: args.paper == WhichPaper::All,
    };
    // If the runs on the engine fail, what was simulated is written all the same.
    let (forecast, failure) = match args.no_engine {
        true => (None, Ok(())),
        false => match forecast::run(selection, args.quick, apps) {
            Ok(forecast) => (forecast, Ok(())),
            Err(error) => (None, Err(error)),
        },
    };
    if let Some(forecast) = &forecast {
        writeln!(std::io::stdout(), "{}", forecast.terminal())?;
    }
    if let Some(file) = &args.json {
        let json = Json { command: &command, papers: &studies, engine: forecast.as_ref() };
        files::write(file, &(serde_json::to_string(&json)? + "\n"))?;
    }
    if let Some(folder) = &args.report {
        report_pages::write(folder, &studies, forecast.as_ref(), &command)?;
        writeln!(std::io::stdout(), "report: {}", folder.join("index.html").display())?;
    }
    failure
}

/// The command line that repeats this run, with `DIR` for the report's folder.
fn command(args: &Reproduce, seeds: u32) -> String {
    let paper = format!("{:?}", args.paper).to_lowercase();
    let quick = if args.quick { " --quick" } else { "" };
    let no_engine = if args.no_engine { " --no-engine" } else { "" };
    format!("giveway reproduce {paper}{quick} --seeds {seeds}{no_engine} --report DIR")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files name cases, policies, settings, groups and figures by strings, so only this checks that all of them exist.
    #[test]
    fn every_quantity_of_every_paper_exists() {
        for quick in [false, true] {
            for (which, text) in PAPERS {
                let paper = Paper::read(text, quick).unwrap_or_else(|error| panic!("{which:?}: {error:#}"));
                let cases = paper.cases(1).unwrap_or_else(|error| panic!("{error:#}"));
                let study = Study::new(&paper, &Runs::without_events(&cases).expect("workloads of the catalogue"));
                assert!(!study.claims.is_empty() && !study.figures.is_empty(), "{which:?}");
            }
        }
    }
}
