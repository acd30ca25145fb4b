//! How long the tasks of a new job will take, from similar jobs that have finished (COSHH, section 2.2).
//!
//! The background part clusters finished jobs into a small table, each time enough new ones have finished; the on-the-spot part looks a new
//! job up in it. A job's own [`Hint`](crate::event::Hint) replaces both.

use super::kmeans::kmeans;
use crate::ids::Kind;
use crate::state::Job;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of finished jobs in the history.
const HISTORY_JOBS_MAX: usize = 512;
/// Rows of the table.
const TABLE_ROWS_MAX: usize = 16;
/// Features of a job.
const FEATURES: usize = 4;

/// Times of a job's tasks on a node of speed 1, without reading input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// Compute time of a map.
    pub map_s: f64,
    /// Compute time of a reduce.
    pub reduce_s: f64,
    /// Input bytes of a map.
    pub map_bytes: f64,
}

/// A finished job, or the mean of a cluster of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FinishedJob {
    features: Vec<f64>,
    map_s: f64,
    reduce_s: f64,
}

/// The predictor: its background part and its on-the-spot part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    update_interval_jobs: u32,
    since_update: u32,
    history: VecDeque<FinishedJob>,
    table: Vec<FinishedJob>,
}

impl Predictor {
    /// A predictor without history.
    pub fn new(update_interval_jobs: u32) -> Predictor {
        Predictor { update_interval_jobs, since_update: 0, history: VecDeque::new(), table: Vec::new() }
    }

    /// True if it may have been learned: all times and features are numbers, and of one length.
    pub(super) fn is_consistent(&self) -> bool {
        let jobs = || self.history.iter().chain(&self.table);
        let is_time = |time_s: f64| time_s.is_finite() && time_s >= 0.0;
        self.history.len() <= HISTORY_JOBS_MAX
            && jobs().all(|job| is_time(job.map_s) && is_time(job.reduce_s))
            && jobs()
                .all(|job| job.features.len() == FEATURES && job.features.iter().all(|feature| feature.is_finite()))
    }

    /// The same, but with a table that is computed each time this many jobs have finished.
    pub(super) fn with_interval(self, update_interval_jobs: u32) -> Predictor {
        Predictor { update_interval_jobs, ..self }
    }

    /// Adds a finished job to the history.
    pub fn learn(&mut self, job: &Job) {
        let mean = |kind: Kind| {
            let counts = job.counts(kind);
            counts.finished_work_s / f64::from(counts.finished.max(1))
        };
        if self.history.len() == HISTORY_JOBS_MAX {
            self.history.pop_front();
        }
        self.history.push_back(FinishedJob {
            features: features(job),
            map_s: mean(Kind::Map),
            reduce_s: mean(Kind::Reduce),
        });
        self.since_update = self.since_update.saturating_add(1);
        if self.table.is_empty() || self.since_update >= self.update_interval_jobs {
            self.update_table();
        }
    }

    fn update_table(&mut self) {
        self.since_update = 0;
        let points: Vec<Vec<f64>> = self.history.iter().map(|job| job.features.clone()).collect();
        let clusters = kmeans(&points, TABLE_ROWS_MAX.min(points.len()));
        let rows = clusters.centroids.iter().enumerate().filter_map(|(row, centre)| {
            let members =
                || self.history.iter().zip(&clusters.assignment).filter(|&(_, &at)| at == row).map(|(job, _)| job);
            let count = members().count() as f64;
            (count > 0.0).then(|| FinishedJob {
                features: centre.clone(),
                map_s: members().map(|job| job.map_s).sum::<f64>() / count,
                reduce_s: members().map(|job| job.reduce_s).sum::<f64>() / count,
            })
        });
        self.table = rows.collect();
    }

    /// The expected task times of a new job, multiplied by `bias`.
    pub fn predict(&self, job: &Job, bias: f64) -> TaskTimes {
        let map_bytes = job.input_bytes() as f64 / job.splits().len().max(1) as f64;
        let (map_s, reduce_s) = match (job.hint(), self.look_up(&features(job))) {
            (Some(hint), _) => (hint.map.as_secs_f64(), hint.reduce.as_secs_f64()),
            (None, Some(row)) => (row.map_s, row.reduce_s),
            (None, None) => {
                let times = job.estimate().task_time;
                (times[Kind::Map].as_secs_f64(), times[Kind::Reduce].as_secs_f64())
            }
        };
        TaskTimes { map_s: (map_s * bias).max(1e-3), reduce_s: (reduce_s * bias).max(1e-3), map_bytes }
    }

    fn look_up(&self, features: &[f64]) -> Option<&FinishedJob> {
        let distance = |row: &FinishedJob| row.features.iter().zip(features).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        self.table.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// What is known of a job when it is submitted: its user, its number of tasks, the size of its input.
fn features(job: &Job) -> Vec<f64> {
    let log = |n: f64| (n + 1.0).ln();
    // An open job has no splits; its maps are those that it has requested so far.
    let maps = if job.is_open() { job.total(Kind::Map) } else { job.splits().len() as u32 };
    // The factor separates users: rows of another user are nearest only if the table has none of the same user.
    vec![
        f64::from(job.user()) * 100.0,
        log(f64::from(maps)),
        log(f64::from(job.total(Kind::Reduce))),
        log(job.input_bytes() as f64),
    ]
}
