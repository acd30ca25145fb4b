//! `giveway sweep`: policies, variants of them and seeds on workloads, on all cores, and the statistics of the differences.
//!
//! * `plan.rs` reads the file of a sweep and lists its runs.
//! * `store.rs` keeps finished runs in a directory, so that a sweep continues where it was interrupted.
//! * `statistics.rs` compares policies with the baseline, seed by seed.
//! * `page.rs` writes the HTML report.

mod page;
mod plan;
mod statistics;
mod store;

use crate::args::Sweep;
use crate::text_table::{TextTable, prose};
use crate::{files, progress, rows};
use anyhow::{Context, Result};
use giveway_sim::comparison::Comparison;
use plan::{Plan, PlannedRun};
use rayon::prelude::*;
use statistics::Change;
use std::fs;
use std::io::Write;
use store::Store;

/// Runs the command.
pub fn run(args: &Sweep) -> Result<()> {
    let plan = Plan::read(&args.file)?;
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}; check the path and its permissions", args.out.display()))?;
    let store = Store::open(&args.out.join("runs.jsonl"))?;
    let left: Vec<PlannedRun> = plan.runs().into_iter().filter(|run| !store.has(&plan.key(*run))).collect();
    let total = plan.runs().len();
    let done = total - left.len();
    if done > 0 {
        eprintln!("{done} of {total} runs are in {} already", args.out.display());
    }
    let bar = progress::bar(total as u64, "sweep", "runs");
    bar.set_position(done as u64);
    // Runs of the same workload and seed follow each other, so that what does not depend on the policy is computed once.
    left.chunk_by(|a, b| (a.workload, a.seed) == (b.workload, b.seed))
        .collect::<Vec<_>>()
        .par_iter()
        .with_max_len(1)
        .try_for_each(|runs| -> Result<()> {
        let comparison = plan.comparison(runs[0])?;
        runs.par_iter().with_max_len(1).try_for_each(|run| {
            store.add(&plan.key(*run), &simulate(&plan, *run, &comparison)?)?;
            bar.inc(1);
            Ok(())
        })
    })?;
    bar.finish_and_clear();
    let results = store.into_results(&plan)?;
    let changes = statistics::changes(&plan, &results);
    rows::write(&args.out.join("runs.csv"), &results.table(&plan))?;
    rows::write(&args.out.join("changes.csv"), &statistics::table(&plan, &changes))?;
    files::write(&args.out.join("report.html"), &page::html(&plan, &results, &changes, &args.file))?;
    print(&plan, &results, &changes)?;
    writeln!(std::io::stdout(), "report: {}", args.out.join("report.html").display())?;
    Ok(())
}

fn simulate(plan: &Plan, run: PlannedRun, comparison: &Comparison) -> Result<store::Metrics> {
    let policy = &plan.policies[run.policy];
    let result = comparison
        .run(policy, &mut ())
        .with_context(|| format!("policy `{}` cannot run workload {}", policy.name, plan.workloads[run.workload]))?;
    Ok(store::Metrics::of(&result))
}

/// The least number of seeds with which the p of one of so many comparisons can be below 0.05: of all signs of the differences, two are as far from zero as any.
fn enough_seeds(comparisons: usize) -> usize {
    (comparisons.max(1) as f64 * 2.0 / 0.05).log2().floor() as usize + 1
}

fn print(plan: &Plan, results: &store::Results, changes: &[Change]) -> Result<()> {
    let baseline = plan.baseline_name();
    let about = format!(
        "Means over {} seeds, and changes of the mean completion time against {baseline} with 95 % confidence intervals. p: probability of a change as large by chance, corrected for {} comparisons (Holm).",
        plan.seeds.len(),
        changes.len(),
    );
    let enough = enough_seeds(changes.len());
    let about = if plan.seeds.len() < enough {
        format!("{about} With fewer than {enough} seeds no p can be below 0.05.")
    } else {
        about
    };
    let mut table = TextTable::new(["workload", "policy", "mean\n(s)", "p99\n(s)", "change", "p"]).numbers_from(2);
    for (workload, name) in plan.workloads.iter().enumerate() {
        for (policy, settings) in plan.policies.iter().enumerate() {
            let mean = |metric| results.mean(workload, policy, metric);
            let change = changes.iter().find(|change| (change.workload, change.policy) == (workload, policy));
            table.add_row([
                name.clone(),
                settings.name.clone(),
                statistics::number(mean("mean_completion_s")),
                statistics::number(mean("p99_completion_s")),
                change.map_or("baseline".into(), Change::percent),
                change.map_or(String::new(), Change::p_text),
            ]);
        }
    }
    writeln!(std::io::stdout(), "{}\n{table}", prose(&about))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_sim::statistics::sign_flip_p;

    #[test]
    fn with_enough_seeds_a_difference_can_be_significant() {
        for comparisons in [1, 2, 10] {
            let least_p = |seeds: usize| comparisons as f64 * sign_flip_p(&vec![1.0; seeds]);
            let enough = enough_seeds(comparisons);
            assert!(least_p(enough) < 0.05 && least_p(enough - 1) >= 0.05, "{enough} for {comparisons}");
        }
    }
}
