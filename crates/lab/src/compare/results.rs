//! Results of `giveway compare`: what is kept of a run, and figures over all seeds of a workload.

use crate::table::interval;
use giveway_core::Kind;
use giveway_sim::comparison::{Comparison, PolicyResult};
use giveway_sim::workload::JobPlan;
use serde_json::{Value, json};

/// What is kept of one run.
pub struct Outcome {
    mean_s: f64,
    pub p99_s: f64,
    bound_s: f64,
    /// Completion time by job number; NaN if it did not succeed.
    completion_s: Vec<f64>,
    /// Mean completion of the tenth of the jobs with the most work.
    pub largest_s: f64,
    /// Slot time spent on work that was lost, as a fraction of all slot time in use.
    pub lost: f64,
    pub dissatisfaction: f64,
    pub fairness: f64,
    pub jain_index: f64,
}

impl Outcome {
    /// The outcome of one run.
    pub fn new(comparison: &Comparison, result: &PolicyResult) -> Outcome {
        let mut completion_s = vec![f64::NAN; comparison.workload.jobs.len()];
        for job in &result.jobs {
            if let Some(of_job) = completion_s.get_mut(job.job.0 as usize) {
                *of_job = job.completion_s;
            }
        }
        let summary = &result.summary;
        let metrics = &summary.key_metrics;
        let slots: u32 = Kind::BOTH.into_iter().map(|kind| comparison.cluster.slots(kind)).sum();
        let used_s = metrics.utilisation.unwrap_or(0.0) * f64::from(slots) * summary.makespan_s;
        Outcome {
            // The mean over some of the jobs would flatter a policy that leaves others unfinished.
            mean_s: metrics.mean_completion_s.filter(|_| result.stats.jobs_unfinished == 0).unwrap_or(f64::NAN),
            p99_s: metrics.p99_completion_s.unwrap_or(f64::NAN),
            bound_s: metrics.lower_bound_mean_completion_s.unwrap_or(f64::NAN),
            largest_s: largest_tenth_s(&comparison.workload.jobs, &completion_s),
            completion_s,
            lost: if used_s > 0.0 { metrics.lost_work_s / used_s } else { 0.0 },
            dissatisfaction: summary.dissatisfaction.unwrap_or(0.0),
            fairness: summary.fairness.unwrap_or(0.0),
            jain_index: summary.jain_index.unwrap_or(1.0),
        }
    }
}

fn largest_tenth_s(jobs: &[JobPlan], completion_s: &[f64]) -> f64 {
    let work_s = |job: &JobPlan| Kind::BOTH.into_iter().map(|kind| job.compute_seconds(kind)).sum::<f64>();
    let mut by_work: Vec<(f64, f64)> = jobs.iter().map(work_s).zip(completion_s.iter().copied()).collect();
    by_work.sort_by(|a, b| b.0.total_cmp(&a.0));
    mean(by_work[..jobs.len().div_ceil(10).min(by_work.len())].iter().map(|&(_, completion_s)| completion_s))
}

/// All runs of a workload.
pub struct Table {
    /// Name of the workload.
    pub name: String,
    /// Names of the policies of the catalogue.
    pub policies: Vec<String>,
    /// By policy, those without a part included: one outcome for each seed.
    outcomes: Vec<(String, Vec<Outcome>)>,
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, policies: &[String], all: &[String]) -> Table {
        let outcomes = all.iter().map(|policy| (policy.clone(), Vec::new())).collect();
        Table { name: name.into(), policies: policies.into(), outcomes }
    }

    /// Adds the outcomes of one seed, in the order of the policies.
    pub fn add(&mut self, outcomes: Vec<Outcome>) {
        self.outcomes.iter_mut().zip(outcomes).for_each(|((_, of), outcome)| of.push(outcome));
    }

    fn of(&self, policy: &str) -> &[Outcome] {
        self.outcomes.iter().find(|(name, _)| name == policy).map_or(&[], |(_, outcomes)| outcomes)
    }

    /// Mean completion time, in seconds; NaN if jobs were left unfinished.
    pub fn mean_s(&self, policy: &str) -> f64 {
        self.mean(policy, |run| run.mean_s)
    }

    /// The mean of a figure over the seeds.
    pub fn mean(&self, policy: &str, figure: fn(&Outcome) -> f64) -> f64 {
        mean(self.of(policy).iter().map(figure))
    }

    /// Mean completion time over the lower bound.
    pub fn over_bound(&self, policy: &str) -> f64 {
        self.mean_s(policy) / self.mean(policy, |run| run.bound_s)
    }

    /// The largest quotient of a job's completion times under two policies, over all seeds.
    pub fn worst_job(&self, policy: &str, against: &str) -> f64 {
        let pairs = self.of(policy).iter().zip(self.of(against));
        let quotients = pairs.flat_map(|(ours, theirs)| ours.completion_s.iter().zip(&theirs.completion_s));
        quotients.map(|(ours, theirs)| ours / theirs).filter(|quotient| quotient.is_finite()).fold(0.0, f64::max)
    }

    /// All figures, by policy. Names do not change; scripts rely on them. Null where jobs were left unfinished.
    pub fn to_json(&self) -> Value {
        let row = |(policy, outcomes): &(String, Vec<Outcome>)| {
            json!({
                "policy": policy,
                "mean_s": self.mean_s(policy),
                "mean_s_by_seed": outcomes.iter().map(|outcome| outcome.mean_s).collect::<Vec<_>>(),
                "p99_s": self.mean(policy, |run| run.p99_s),
                "largest_tenth_s": self.mean(policy, |run| run.largest_s),
                "over_bound": self.over_bound(policy),
                "lost": self.mean(policy, |run| run.lost),
                "dissatisfaction": self.mean(policy, |run| run.dissatisfaction),
                "fairness": self.mean(policy, |run| run.fairness),
                "jain_index": self.mean(policy, |run| run.jain_index),
            })
        };
        json!({ "workload": self.name, "policies": self.outcomes.iter().map(row).collect::<Vec<_>>() })
    }

    /// Mean change of the mean completion time from one policy to another, seed by seed, and half the width of its 95 % confidence interval.
    pub fn change(&self, from: &str, to: &str) -> (f64, f64) {
        let pairs = self.of(from).iter().zip(self.of(to));
        interval(&pairs.map(|(from, to)| to.mean_s / from.mean_s - 1.0).collect::<Vec<_>>())
    }

    /// The policy of the catalogue with the lowest mean completion time, other than this one.
    pub fn best_other(&self, policy: &str) -> Option<&str> {
        let others = self.policies.iter().filter(|name| *name != policy);
        others.min_by(|a, b| self.mean_s(a).total_cmp(&self.mean_s(b))).map(String::as_str)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    sum / count
}

pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    mean(values.map(f64::ln)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(completion_s: &[f64]) -> Outcome {
        Outcome {
            mean_s: mean(completion_s.iter().copied()),
            p99_s: 1.0,
            bound_s: 2.0,
            largest_s: 1.0,
            completion_s: completion_s.into(),
            lost: 0.0,
            dissatisfaction: 0.0,
            fairness: 0.0,
            jain_index: 1.0,
        }
    }

    #[test]
    fn figures_are_over_all_seeds() {
        let names = ["a", "b", "c", "without x"].map(String::from);
        let mut table = Table::new("w", &names[..3], &names);
        table.add([&[2.0, 4.0], &[4.0, 4.0], &[9.0, 9.0], &[1.0, 1.0]].map(|times| outcome(times)).into());
        table.add([&[6.0, 8.0], &[3.0, 9.0], &[9.0, 9.0], &[1.0, 1.0]].map(|times| outcome(times)).into());
        assert_eq!((table.mean_s("a"), table.over_bound("a")), (5.0, 2.5));
        assert_eq!(table.to_json()["policies"][0]["mean_s_by_seed"], json!([3.0, 7.0]));
        assert_eq!(table.worst_job("a", "b"), 2.0);
        let (change, half) = table.change("b", "a");
        assert!((change - (3.0 / 4.0 + 7.0 / 6.0 - 2.0) / 2.0).abs() < 1e-12 && half > 1.0, "{change} {half}");
        assert_eq!(table.best_other("a"), Some("b"), "policies without a part do not count");
        assert!((geometric_mean([1.0, 4.0].into_iter()) - 2.0).abs() < 1e-12);
    }
}
