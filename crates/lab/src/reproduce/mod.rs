//! `giveway reproduce`: runs the experiments of the four papers on the shipped policies and compares the results with the papers' figures.
//!
//! * `hsrtf.rs`, `chronos.rs`, `fcs.rs`, `coshh.rs`: one file per paper. Each lists the cases to run and evaluates their results.
//! * `experiment.rs` runs cases; `observation.rs` and `recovery.rs` record what a run's summary does not contain.
//! * `variants.rs` derives policies from those of the catalogue by changing settings; `sensitivity.rs` varies parameters that a paper does not give.
//! * `estimate.rs` averages figures over seeds; `verdict.rs` judges claims by them.
//! * `study.rs` holds the results of one paper; `figures.rs` renders its figures and `report_pages.rs` its pages.
//! * `forecast/` runs experiments on the engine and compares the jobs' completion times with the simulator's forecast.

mod chronos;
mod coshh;
mod estimate;
mod experiment;
mod fcs;
mod figures;
mod forecast;
mod hsrtf;
mod observation;
mod recovery;
mod report_pages;
mod sensitivity;
mod study;
mod variants;
mod verdict;

use crate::args::{Reproduce, WhichPaper};
use crate::{files, progress};
use anyhow::Result;
use experiment::{Case, Runs, Scale};
use forecast::{ForecastReport, Selection};
use giveway_mapreduce::apps::Apps;
use serde::Serialize;
use std::io::Write;
use study::Study;

/// The experiments of one paper and their evaluation.
struct Paper {
    which: WhichPaper,
    cases: fn(&Scale) -> Result<Vec<Case>>,
    study: fn(&Scale, &Runs) -> Study,
}

const PAPERS: [Paper; 4] = [
    Paper { which: WhichPaper::Hsrtf, cases: hsrtf::cases, study: hsrtf::study },
    Paper { which: WhichPaper::Chronos, cases: chronos::cases, study: chronos::study },
    Paper { which: WhichPaper::Fcs, cases: fcs::cases, study: fcs::study },
    Paper { which: WhichPaper::Coshh, cases: coshh::cases, study: coshh::study },
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
    let scale = Scale { seeds, sweep_seeds: seeds.div_ceil(2), quick: args.quick };
    let selected = |which: WhichPaper| args.paper == WhichPaper::All || args.paper == which;
    let command = command(args, seeds);
    files::check_writable(args.json.as_deref())?;
    args.report.as_deref().map_or(Ok(()), report_pages::create_folder)?;
    let mut studies = Vec::new();
    for paper in PAPERS.iter().filter(|paper| selected(paper.which)) {
        let cases = (paper.cases)(&scale)?;
        let bar = progress::bar(0, &format!("{:?}", paper.which).to_lowercase(), "runs");
        let runs = Runs::execute(&cases, &bar)?;
        bar.finish_and_clear();
        let study = (paper.study)(&scale, &runs);
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

    /// The settings of policy variants are strings, so only this checks that the core has them.
    #[test]
    fn the_cases_of_every_paper_can_be_built() {
        let scale = Scale { seeds: 1, sweep_seeds: 1, quick: false };
        for paper in &PAPERS {
            let cases = (paper.cases)(&scale).unwrap_or_else(|error| panic!("{:?}: {error:#}", paper.which));
            assert!(!cases.is_empty());
        }
    }
}
