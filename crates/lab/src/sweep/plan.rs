//! The file of a sweep, and the runs that it asks for.

use crate::input::{self, Recorded};
use crate::variants::with_setting;
use anyhow::{Context, Result, anyhow, ensure};
use giveway_core::Policy;
use giveway_sim::cluster::Cluster;
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::RecordedRun;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::fs;
use std::hash::Hasher;
use std::path::Path;
use toml::Value;

/// The most runs of a sweep.
const MAX_RUNS: usize = 1_000_000;

/// What is swept.
pub struct Plan {
    pub workloads: Vec<String>,
    pub policies: Vec<Policy>,
    /// The position of the policy that the others are compared with.
    pub baseline: usize,
    pub seeds: Vec<u64>,
    cluster: Option<Cluster>,
    /// By workload, its jobs and cluster with the first seed.
    recorded: Vec<Recorded>,
    /// By workload, a digest of these.
    contents: Vec<u64>,
}

/// A run of a plan: positions of its workload and its policy, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    pub workload: usize,
    pub policy: usize,
    pub seed: u64,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workloads: Vec<String>,
    policies: Vec<String>,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    baseline: Option<String>,
    #[serde(default = "ten")]
    seeds: u32,
    #[serde(default = "one")]
    first_seed: u64,
    #[serde(default)]
    vary: Vec<Vary>,
}

/// Settings of a policy, each with the values that it takes.
#[derive(Deserialize)]
struct Vary {
    policy: String,
    #[serde(flatten)]
    settings: BTreeMap<String, Value>,
}

fn ten() -> u32 {
    10
}

fn one() -> u64 {
    1
}

impl Plan {
    /// Reads the file of a sweep. Names of files in it are relative to the present directory.
    pub fn read(file: &Path) -> Result<Plan> {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}; check the path"))?;
        let file: File = toml::from_str(&text).map_err(|error| anyhow!("{name}: {error}"))?;
        ensure!(!file.workloads.is_empty(), "{name}: no workload; name at least one in `workloads`");
        ensure!((1..=100_000).contains(&file.seeds), "{name}: seeds is {}; use 1 to 100000", file.seeds);
        let mut policies = input::policies(&file.policies)?;
        for vary in &file.vary {
            policies.extend(variants(vary).with_context(|| format!("{name}, variants of {}", vary.policy))?);
        }
        ensure!(policies.len() > 1, "{name}: nothing to compare; name at least two policies, or settings to vary");
        let mut names = HashSet::new();
        if let Some(twice) = policies.iter().find(|policy| !names.insert(policy.name.as_str())) {
            anyhow::bail!("{name}: two policies are called `{}`; name each once", twice.name);
        }
        let baseline = match &file.baseline {
            None => 0,
            Some(baseline) => policies
                .iter()
                .position(|policy| policy.name == *baseline)
                .with_context(|| format!("{name}: the baseline `{baseline}` is not among the policies"))?,
        };
        let runs = file.workloads.len() * policies.len() * file.seeds as usize;
        ensure!(runs <= MAX_RUNS, "{name}: {runs} runs; use at most {MAX_RUNS}");
        let cluster = file.cluster.as_deref().map(input::cluster).transpose()?;
        let seeds = (0..u64::from(file.seeds)).map(|seed| file.first_seed.wrapping_add(seed)).collect();
        let first = |workload: &String| input::recorded_run(workload, cluster.as_ref(), None, file.first_seed);
        let recorded = file.workloads.iter().map(first).collect::<Result<Vec<_>>>()?;
        let contents = recorded.iter().map(digest).collect();
        Ok(Plan { workloads: file.workloads, policies, baseline, seeds, cluster, recorded, contents })
    }

    /// All runs, those of a workload and seed together.
    pub fn runs(&self) -> Vec<PlannedRun> {
        let mut runs = Vec::new();
        for workload in 0..self.workloads.len() {
            for &seed in &self.seeds {
                runs.extend((0..self.policies.len()).map(|policy| PlannedRun { workload, policy, seed }));
            }
        }
        runs
    }

    /// What a run is stored under: it changes with everything that the result depends on.
    pub fn key(&self, run: PlannedRun) -> String {
        let mut policy = Digest::default();
        policy.add(&self.policies[run.policy]);
        format!(
            "{} {:016x} {} {:016x} seed {} version {}",
            self.workloads[run.workload],
            self.contents[run.workload],
            self.policies[run.policy].name,
            policy.value(),
            run.seed,
            env!("CARGO_PKG_VERSION"),
        )
    }

    /// The workload and its cluster with a seed.
    pub fn comparison(&self, run: PlannedRun) -> Result<Comparison> {
        let first = &self.recorded[run.workload];
        let RecordedRun { cluster, workload, .. } = if first.is_drawn && run.seed != self.seeds[0] {
            input::recorded_run(&self.workloads[run.workload], self.cluster.as_ref(), None, run.seed)?.run
        } else {
            first.run.clone()
        };
        Ok(Comparison::without_bound(cluster, workload, run.seed))
    }

    pub fn baseline_name(&self) -> &str {
        &self.policies[self.baseline].name
    }
}

/// A digest of a workload and its cluster.
fn digest(recorded: &Recorded) -> u64 {
    let mut digest = Digest::default();
    digest.add(&recorded.run.cluster);
    digest.add(&recorded.run.workload);
    digest.value()
}

/// All combinations of the values of the settings, as policies that are named after them.
fn variants(vary: &Vary) -> Result<Vec<Policy>> {
    ensure!(!vary.settings.is_empty(), "no settings; write for example \"max_lag.of_work\" = [0.2, 0.5]");
    let mut settings = BTreeMap::new();
    vary.settings.iter().for_each(|(key, values)| add_setting(key, values, &mut settings));
    let mut all = vec![input::policy(&vary.policy)?];
    for (key, values) in settings {
        let values = values.as_array().filter(|values| !values.is_empty());
        let values = values.with_context(|| format!("`{key}` needs a list of values, such as [1, 2]"))?;
        let mut next = Vec::new();
        for policy in &all {
            for value in values {
                let mut variant = with_setting(policy, &key, value)?;
                write!(variant.name, " {key}={}", value.to_string().trim_matches('"'))?;
                variant.check()?;
                next.push(variant);
            }
        }
        all = next;
    }
    Ok(all)
}

/// Settings by their dotted keys, which a file may also write as tables.
fn add_setting<'a>(key: &str, value: &'a Value, settings: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(inner, value)| add_setting(&format!("{key}.{inner}"), value, settings));
        }
        values => {
            settings.insert(key.to_owned(), values);
        }
    }
}

/// A digest of what values print for debugging: it need only differ where they do.
#[derive(Default)]
struct Digest(rustc_hash::FxHasher);

impl Digest {
    fn add(&mut self, value: &impl std::fmt::Debug) {
        // The digest accepts everything.
        let _ = write!(self, "{value:?}");
    }

    fn value(&self) -> u64 {
        self.0.finish()
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), text)?;
        Plan::read(file.path())
    }

    const FILE: &str = r#"
        workloads = ["fcs-figure3"]
        policies = ["fair", "giveway"]
        seeds = 3

        [[vary]]
        policy = "giveway"
        "max_lag.of_work" = [0.2, 0.5]
        update_interval = ["5s", "10s"]
    "#;

    #[test]
    fn settings_are_combined_and_runs_of_a_seed_are_together() {
        let plan = plan(FILE).unwrap();
        let names: Vec<&str> = plan.policies.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names.len(), 2 + 4);
        assert_eq!(names[5], "giveway max_lag.of_work=0.5 update_interval=10s");
        let runs = plan.runs();
        assert_eq!(runs.len(), 18);
        assert_eq!(runs.chunk_by(|a, b| a.seed == b.seed).count(), 3);
        let keys: HashSet<String> = runs.iter().map(|run| plan.key(*run)).collect();
        assert_eq!(keys.len(), 18);
    }

    #[test]
    fn what_cannot_be_swept_is_an_error() {
        let refused = |from: &str, to: &str| format!("{:#}", plan(&FILE.replace(from, to)).err().unwrap());
        assert!(refused("[0.2, 0.5]", "0.2").contains("list of values"));
        assert!(refused("max_lag.of_work", "max_lag.off_work").contains("off_work"));
        assert!(refused("fcs-figure3", "fcs-figure9").contains("fcs-figure9"));
        assert!(refused("seeds = 3", "seeds = 0").contains("1 to 100000"));
        assert!(refused("seeds = 3", "baseline = \"fcs\"").contains("not among the policies"));
        assert!(refused("seeds", "sedes").contains("sedes"));
    }

    #[test]
    fn another_setting_or_workload_is_another_run() {
        let first = |text: &str| {
            let plan = plan(text).unwrap();
            plan.key(plan.runs()[2])
        };
        assert_eq!(first(FILE), first(FILE));
        let other = FILE.replace("policy = \"giveway\"", "policy = \"giveway\"\n prior.map = [\"1s\"]");
        assert_ne!(first(FILE), first(&other));
        assert_ne!(first(FILE), first(&FILE.replace("fcs-figure3", "chronos-map")));
    }
}
