//! `giveway bench fairness`: how much later jobs and users finish than under `fair`, on workloads made to expose it.

use anyhow::Result;
use giveway_core::Policy;
use giveway_sim::fairness::{Delays, Scenario, random_scenario, scenarios};
use std::io::Write;
use std::ops::Range;

/// A column of the tables.
type Column = (&'static str, fn(&Delays) -> f64);

const COLUMNS: [Column; 4] = [
    ("mean", |run| run.mean),
    ("worst job", |run| run.worst_job),
    ("less a task", |run| run.worst_job_less_a_task),
    ("worst user", |run| run.worst_user),
];

/// Compares each policy with `fair`: on the scenarios that were made by hand, under each of these seeds, and on the random scenarios of these numbers.
pub fn run(policies: &[Policy], seeds: Range<u64>, random: Range<u64>) -> Result<()> {
    for policy in policies {
        print_heading(policy, &seeds)?;
        for scenario in scenarios() {
            print_scenario(&scenario, policy, seeds.clone())?;
        }
        print_random(policy, random.clone())?;
    }
    Ok(())
}

fn print_heading(policy: &Policy, seeds: &Range<u64>) -> Result<()> {
    let mut out = std::io::stdout();
    let last = seeds.end - 1;
    writeln!(
        out,
        "Completion times under {}, divided by those under fair (seeds {} to {last})",
        policy.name, seeds.start
    )?;
    let header: String = COLUMNS.iter().map(|(name, _)| format!("{name:>13}")).collect();
    writeln!(out, "{:<28}{header}", "scenario")?;
    Ok(())
}

/// The mean over the seeds, and the worst job and user under any of them.
fn print_scenario(scenario: &Scenario, policy: &Policy, seeds: Range<u64>) -> Result<()> {
    let runs: Vec<Delays> = seeds.map(|seed| scenario.delays(policy, seed)).collect();
    let mean = runs.iter().map(|run| run.mean).sum::<f64>() / runs.len() as f64;
    let worst = |of: fn(&Delays) -> f64| runs.iter().map(of).fold(0.0, f64::max);
    let cells = std::iter::once(mean).chain(COLUMNS[1..].iter().map(|&(_, of)| worst(of)));
    let cells: String = cells.map(|cell| format!("{cell:>13.2}")).collect();
    writeln!(std::io::stdout(), "{:<28}{cells}", scenario.name)?;
    Ok(())
}

fn print_random(policy: &Policy, numbers: Range<u64>) -> Result<()> {
    let mut out = std::io::stdout();
    let (first, last) = (numbers.start, numbers.end - 1);
    let runs: Vec<Delays> = numbers.map(|number| random_scenario(number).delays(policy, 1)).collect();
    for (name, part) in [("median", 0.5), ("90th percentile", 0.9), ("largest", 1.0)] {
        let cells = COLUMNS.iter().map(|&(_, of)| format!("{:>13.2}", quantile(runs.iter().map(of).collect(), part)));
        writeln!(out, "{:<28}{}", format!("random {first}-{last}: {name}"), cells.collect::<String>())?;
    }
    let geometric_mean = (runs.iter().map(|run| run.mean.ln()).sum::<f64>() / runs.len() as f64).exp();
    let slower = runs.iter().filter(|run| run.mean > 1.0).count();
    writeln!(out, "random {first}-{last}: geometric mean of the means {geometric_mean:.3}; {slower} above 1\n")?;
    Ok(())
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((part * values.len() as f64) as usize).min(values.len() - 1)]
}
