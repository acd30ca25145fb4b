//! How long the tasks of a new job will take, from jobs that were like it (COSHH, section 2.2).
//!
//! The background part clusters what finished jobs showed into a small table, each time enough new ones have come; the part on the spot looks a new
//! job up there. What is believed of a job beforehand ([`Hint`](crate::event::Hint)) stands in for both while it is given.

use super::kmeans::kmeans;
use crate::ids::Kind;
use crate::state::Job;
use std::collections::VecDeque;

/// Finished jobs kept; older ones are forgotten.
const KEPT: usize = 512;
/// Rows of the table.
const ROWS: usize = 16;

/// What one task of a job costs on a node of speed 1, beside reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskTimes {
    /// A map's compute.
    pub map_s: f64,
    /// A reduce's compute.
    pub reduce_s: f64,
    /// A map's input.
    pub map_bytes: f64,
}

/// A finished job, or a group of them.
#[derive(Clone, Debug)]
struct Past {
    features: Vec<f64>,
    map_s: f64,
    reduce_s: f64,
}

/// Both parts of the predictor.
#[derive(Debug)]
pub struct Predictor {
    renew_every: u32,
    since_renewal: u32,
    history: VecDeque<Past>,
    table: Vec<Past>,
}

impl Predictor {
    /// A predictor that has seen nothing.
    pub fn new(renew_every: u32) -> Predictor {
        Predictor { renew_every, since_renewal: 0, history: VecDeque::new(), table: Vec::new() }
    }

    /// Notes what a finished job showed.
    pub fn learn(&mut self, job: &Job) {
        let mean = |kind: Kind| {
            let facts = job.facts(kind);
            facts.finished_work_s / f64::from(facts.finished.max(1))
        };
        if self.history.len() == KEPT {
            self.history.pop_front();
        }
        self.history.push_back(Past { features: features(job), map_s: mean(Kind::Map), reduce_s: mean(Kind::Reduce) });
        self.since_renewal += 1;
        if self.table.is_empty() || self.since_renewal >= self.renew_every {
            self.renew();
        }
    }

    fn renew(&mut self) {
        self.since_renewal = 0;
        let points: Vec<Vec<f64>> = self.history.iter().map(|past| past.features.clone()).collect();
        let clusters = kmeans(&points, ROWS.min(points.len()));
        let rows = clusters.centroids.iter().enumerate().filter_map(|(row, centre)| {
            let members =
                || self.history.iter().zip(&clusters.assignment).filter(|&(_, &at)| at == row).map(|(past, _)| past);
            let count = members().count() as f64;
            (count > 0.0).then(|| Past {
                features: centre.clone(),
                map_s: members().map(|past| past.map_s).sum::<f64>() / count,
                reduce_s: members().map(|past| past.reduce_s).sum::<f64>() / count,
            })
        });
        self.table = rows.collect();
    }

    /// What the tasks of a new job will probably cost.
    pub fn predict(&self, job: &Job) -> TaskTimes {
        let map_bytes = job.input_bytes as f64 / job.splits.len().max(1) as f64;
        let (map_s, reduce_s) = match (job.hint, self.look_up(&features(job))) {
            (Some(hint), _) => (hint.map.as_secs_f64(), hint.reduce.as_secs_f64()),
            (None, Some(row)) => (row.map_s, row.reduce_s),
            (None, None) => (job.estimate.task[0].as_secs_f64(), job.estimate.task[1].as_secs_f64()),
        };
        TaskTimes { map_s: (map_s * job.bias).max(1e-3), reduce_s: (reduce_s * job.bias).max(1e-3), map_bytes }
    }

    fn look_up(&self, features: &[f64]) -> Option<&Past> {
        let distance = |row: &Past| row.features.iter().zip(features).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        self.table.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// What is known of a job when it arrives: who sent it, how many tasks, how much input.
fn features(job: &Job) -> Vec<f64> {
    let log = |n: f64| (n + 1.0).ln();
    // A user is a name, not a quantity: far apart enough that another user's jobs are only asked when one's own are missing.
    vec![
        f64::from(job.user) * 100.0,
        log(f64::from(job.splits.len() as u32)),
        log(f64::from(job.total(Kind::Reduce))),
        log(job.input_bytes as f64),
    ]
}
