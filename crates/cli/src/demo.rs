//! `giveway demo`: the hSRTF paper's mix of large, medium and small jobs under every policy.

use crate::args::Demo;
use crate::sim;
use anyhow::Result;
use giveway_core::policy::catalog;
use giveway_sim::metrics::Summary;
use std::io::Write;

/// Runs the command.
pub fn run(args: &Demo) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "Three large sorts, eight medium ones and twenty small jobs share 58 nodes; one arrives every ten seconds."
    )?;
    let policies: Vec<_> = catalog::NAMES.iter().filter_map(|name| catalog::by_name(name)).collect();
    let summaries = sim::show("hsrtf-table2", &policies, &args.report)?;
    let small = |policy: &str| {
        let summary = summaries.iter().find(|summary| summary.policy == policy)?;
        small_mean_s(summary)
    };
    if let (Some(fifo), Some(fair), Some(ours)) = (small("fifo"), small("fair"), small("hsrtf-prp-pause")) {
        writeln!(
            out,
            "Small jobs take {ours:.0} s on average where large ones give way (hsrtf-prp-pause), {fair:.0} s under fair, {fifo:.0} s under fifo."
        )?;
    }
    writeln!(out, "Open {} for the plots; `giveway sim --help` says how to try your own.", args.report.display())?;
    Ok(())
}

fn small_mean_s(summary: &Summary) -> Option<f64> {
    summary.groups.iter().find(|(name, _)| name == "small")?.1.figures.mean_completion_s
}
