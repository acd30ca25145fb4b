//! Finished runs, a line each in a file that only grows. A line that was cut off by a crash is run again.

use super::plan::{Plan, PlannedRun};
use anyhow::{Context, Result, anyhow, bail, ensure};
use giveway_sim::comparison::PolicyResult;
use giveway_sim::rows::{Column, Table, Values};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The metrics that are kept of a run, in the order of the columns of `runs.csv`.
pub const METRICS: [&str; 15] = [
    "mean_completion_s",
    "p50_completion_s",
    "p95_completion_s",
    "p99_completion_s",
    "max_completion_s",
    "mean_wait_s",
    "mean_execution_s",
    "mean_slowdown",
    "max_slowdown",
    "lost_work_s",
    "pauses",
    "kills",
    "early_ends",
    "utilisation",
    "makespan_s",
];

/// The values of [`METRICS`]; none where a run has no such figure, as if jobs were left unfinished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics([Option<f64>; METRICS.len()]);

impl Metrics {
    /// Of a run.
    pub fn of(result: &PolicyResult) -> Metrics {
        let (summary, key) = (&result.summary, &result.summary.key_metrics);
        // Means over some of the jobs would flatter a policy that leaves others unfinished.
        let all_jobs = |value: Option<f64>| value.filter(|_| result.stats.jobs_unfinished == 0);
        Metrics([
            all_jobs(key.mean_completion_s),
            all_jobs(key.p50_completion_s),
            all_jobs(key.p95_completion_s),
            all_jobs(key.p99_completion_s),
            all_jobs(summary.details.max_completion_s),
            all_jobs(key.mean_wait_s),
            all_jobs(key.mean_execution_s),
            all_jobs(key.mean_slowdown),
            all_jobs(key.max_slowdown),
            Some(key.lost_work_s),
            Some(key.pauses as f64),
            Some(key.kills as f64),
            Some(key.early_ends as f64),
            key.utilisation,
            Some(summary.makespan_s),
        ])
    }

    /// The value of a metric; NaN if there is none.
    pub fn get(&self, metric: &str) -> f64 {
        let at = METRICS.iter().position(|name| *name == metric);
        at.and_then(|at| self.0[at]).unwrap_or(f64::NAN)
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    metrics: Metrics,
}

/// How every line begins.
const LINE_BEGIN: &[u8] = b"{\"key\":\"";

/// The file with finished runs. It is locked while it is open.
pub struct Store {
    path: PathBuf,
    known: FxHashMap<String, Metrics>,
    file: Mutex<(File, Vec<(String, Metrics)>)>,
}

impl Store {
    /// Reads what is there, and continues after its last whole line.
    pub fn open(path: &Path) -> Result<Store> {
        let cannot = || format!("cannot read or write {}; check its permissions and the free space", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).with_context(cannot)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!("another sweep writes to {}; wait for it, or give another --out", path.display());
        }
        let bytes = std::fs::read(path).with_context(cannot)?;
        let other = |number: usize| {
            anyhow!("{}:{number}: no run of a sweep; move the file away, or give another --out", path.display())
        };
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut known = FxHashMap::default();
        let lines: Vec<&[u8]> = bytes[..whole].split_inclusive(|&byte| byte == b'\n').collect();
        for (number, line) in (1..).zip(&lines) {
            let Line { key, metrics } = serde_json::from_slice(line).map_err(|_| other(number))?;
            known.insert(key, metrics);
        }
        // Only the beginning of a line is cut off, and no other file.
        let tail = &bytes[whole..];
        ensure!(tail.starts_with(LINE_BEGIN) || LINE_BEGIN.starts_with(tail), other(lines.len() + 1));
        file.set_len(whole as u64).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        Ok(Store { path: path.to_owned(), known, file: Mutex::new((file, Vec::new())) })
    }

    /// True if the run was finished before.
    pub fn has(&self, key: &str) -> bool {
        self.known.contains_key(key)
    }

    /// Keeps a finished run.
    pub fn add(&self, key: &str, metrics: &Metrics) -> Result<()> {
        let line = serde_json::to_string(&Line { key: key.to_owned(), metrics: metrics.clone() })? + "\n";
        let mut file = self.file.lock().expect("no panic while it is held");
        let whole = file.0.stream_position()?;
        if let Err(error) = file.0.write_all(line.as_bytes()) {
            // Another run may be finished after this one: its line must not continue a part of this one.
            file.0.set_len(whole)?;
            file.0.seek(SeekFrom::Start(whole))?;
            return Err(error).with_context(|| format!("cannot write {}; check the free space", self.path.display()));
        }
        file.1.push((key.to_owned(), metrics.clone()));
        Ok(())
    }

    /// The results of a plan whose runs are all there.
    pub fn into_results(self, plan: &Plan) -> Result<Results> {
        let mut known = self.known;
        known.extend(self.file.into_inner().expect("no panic while it is held").1);
        let of = |run: PlannedRun| {
            known.get(&plan.key(run)).cloned().context("a run is missing from the results; run the sweep again")
        };
        let by_run = plan.runs().into_iter().map(|run| Ok((run, of(run)?))).collect::<Result<_>>()?;
        Ok(Results { by_run })
    }
}

/// The metrics of all runs of a plan, in its order.
pub struct Results {
    by_run: Vec<(PlannedRun, Metrics)>,
}

impl Results {
    /// A metric of the runs of a workload under a policy, by seed.
    pub fn values(&self, workload: usize, policy: usize, metric: &str) -> Vec<f64> {
        let of = |(run, _): &&(PlannedRun, Metrics)| (run.workload, run.policy) == (workload, policy);
        self.by_run.iter().filter(of).map(|(_, metrics)| metrics.get(metric)).collect()
    }

    /// Its mean over the seeds.
    pub fn mean(&self, workload: usize, policy: usize, metric: &str) -> f64 {
        let values = self.values(workload, policy, metric);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// A row for each run.
    pub fn table(&self, plan: &Plan) -> Table {
        let text = |of: &dyn Fn(&PlannedRun) -> String| {
            Values::Text(self.by_run.iter().map(|(run, _)| of(run).into()).collect())
        };
        let mut columns = vec![
            Column { name: "workload", values: text(&|run| plan.workloads[run.workload].clone()) },
            Column { name: "policy", values: text(&|run| plan.policies[run.policy].name.clone()) },
            Column { name: "seed", values: Values::Integer(self.by_run.iter().map(|(run, _)| run.seed).collect()) },
        ];
        columns.extend(METRICS.map(|name| {
            let values = self.by_run.iter().map(|(_, metrics)| metrics.get(name)).collect();
            Column { name, values: Values::Real(values) }
        }));
        Table { columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_run_again_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        let metrics = Metrics(std::array::from_fn(|at| (at != 3).then_some(at as f64 / 3.0)));
        let store = Store::open(&path).unwrap();
        store.add("a", &metrics).unwrap();
        store.add("b", &metrics).unwrap();
        drop(store);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let store = Store::open(&path).unwrap();
        assert!(store.has("a") && !store.has("b"));
        assert_eq!(store.known["a"], metrics);
        store.add("b", &metrics).unwrap();
        drop(store);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);

        for other in [&b"workload,policy\n"[..], b"notes without an end of line", b"\xff\n"] {
            std::fs::write(&path, other).unwrap();
            let refused = Store::open(&path).err().unwrap().to_string();
            assert!(refused.contains(":1: no run of a sweep"), "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), other);
        }
    }

    #[test]
    fn two_sweeps_do_not_write_to_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.jsonl");
        let first = Store::open(&path).unwrap();
        let refused = Store::open(&path).err().unwrap().to_string();
        assert!(refused.contains("another sweep"), "{refused}");
        drop(first);
        Store::open(&path).unwrap();
    }
}
