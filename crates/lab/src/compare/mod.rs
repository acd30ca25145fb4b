//! `giveway compare`: one policy against all others on many workloads, and what each of its parts is worth.

mod page;
mod parts;
mod results;
mod scenarios;

use crate::args::Compare;
use crate::{files, input, progress};
use anyhow::{Context, Result, ensure};
use giveway_core::Policy;
use giveway_core::policy::catalog;
use page::Page;
use rayon::prelude::*;
use results::{Outcome, Table};
use scenarios::{SCENARIOS, Scenario};
use serde_json::json;
use std::io::Write;

/// The policy whose parts are known.
const GIVEWAY: &str = "giveway";

/// Runs the command.
pub fn run(args: &Compare) -> Result<()> {
    files::check_writable(args.report.as_deref())?;
    files::check_writable(args.json.as_deref())?;
    let scenarios = select(&args.only)?;
    let subject = input::policy(&args.policy)?;
    let mut policies: Vec<Policy> = catalog::names().into_iter().filter_map(catalog::by_name).collect();
    if let Some(built_in) = policies.iter().find(|policy| policy.name == subject.name) {
        ensure!(
            *built_in == subject,
            "{} is called `{}`, as a built-in policy is; give it a `name` of its own",
            args.policy,
            subject.name
        );
    } else {
        policies.insert(0, subject.clone());
    }
    let parts = if subject.name == GIVEWAY { &parts::PARTS[..] } else { &[] };
    let without: Vec<Policy> = parts.iter().map(|part| part.switched_off(&subject)).collect::<Result<_>>()?;
    let all: Vec<&Policy> = policies.iter().chain(&without).collect();
    let work: Vec<(usize, u64)> = (0..scenarios.len())
        .flat_map(|scenario| (1..=u64::from(args.seeds)).map(move |seed| (scenario, seed)))
        .collect();
    let bar = progress::bar(work.len() as u64, "compare", "workloads");
    let outcomes: Vec<Result<Vec<Outcome>>> = work
        .par_iter()
        .with_max_len(1)
        .map(|&(scenario, seed)| {
            let outcome = run_seed(scenarios[scenario], seed, &all);
            bar.inc(1);
            outcome.with_context(|| format!("{}, seed {seed}", scenarios[scenario].name))
        })
        .collect();
    bar.finish_and_clear();
    let names: Vec<String> = all.iter().map(|policy| policy.name.clone()).collect();
    let mut tables: Vec<Table> =
        scenarios.iter().map(|scenario| Table::new(scenario.name, &names[..policies.len()], &names)).collect();
    for (&(scenario, _), outcomes) in work.iter().zip(outcomes) {
        tables[scenario].add(outcomes?);
    }
    let (subject, command) = (&subject.name, &command(args));
    let page = Page { subject, parts, tables: &tables, command, seeds: args.seeds }.markdown();
    writeln!(std::io::stdout(), "{page}")?;
    args.report.as_deref().map_or(Ok(()), |file| files::write(file, &page))?;
    let Some(file) = args.json.as_deref() else { return Ok(()) };
    let workloads: Vec<_> = tables.iter().map(Table::to_json).collect();
    let document = json!({ "seeds": args.seeds, "workloads": workloads });
    files::write(file, &(serde_json::to_string_pretty(&document)? + "\n"))
}

/// The scenarios with these names, or all.
fn select(only: &[String]) -> Result<Vec<&'static Scenario>> {
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = only.iter().find(|name| SCENARIOS.iter().all(|scenario| scenario.name != **name)) {
        anyhow::bail!(
            "no workload of `giveway compare` is named `{unknown}`; use one of: {}. For others, use `giveway sim` or `giveway sweep`",
            names()
        );
    }
    Ok(SCENARIOS.iter().filter(|scenario| only.is_empty() || only.iter().any(|name| *name == scenario.name)).collect())
}

/// Runs one seed under every policy, in the order of the policies.
fn run_seed(scenario: &Scenario, seed: u64, policies: &[&Policy]) -> Result<Vec<Outcome>> {
    let comparison = scenario.comparison(seed)?;
    let run = |policy: &&Policy| {
        let result = comparison.run(policy, &mut ())?;
        Ok(Outcome::new(&comparison, &result))
    };
    policies.iter().map(run).collect()
}

/// The command line that repeats this run, with `FILE` for the report.
fn command(args: &Compare) -> String {
    let policy = if args.policy == GIVEWAY { String::new() } else { format!(" --policy '{}'", args.policy) };
    let only = if args.only.is_empty() { String::new() } else { format!(" --only '{}'", args.only.join(",")) };
    format!("giveway compare --seeds {}{policy}{only} --report FILE", args.seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_built_and_names_differ() {
        for scenario in &SCENARIOS {
            let comparison = scenario.comparison(1).unwrap_or_else(|error| panic!("{}: {error:#}", scenario.name));
            assert!(!comparison.workload.jobs.is_empty(), "{}", scenario.name);
        }
        let mut names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
    }

    #[test]
    fn an_unknown_workload_is_an_error_that_lists_the_others() {
        let error = select(&["hsrtf".into()]).err().unwrap().to_string();
        assert!(error.contains("hsrtf-table2"), "{error}");
        assert_eq!(select(&["load 0.5".into()]).unwrap().len(), 1);
    }
}
