//! The metrics and their names. The names are those of the JSON that `giveway` writes; scripts rely on them.

use super::Metrics;
use super::job::LiveJob;
use super::time_weighted::Integrals;
use giveway_core::{JobId, Kind, Time};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Metrics of one job that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobMetrics {
    /// Number of the job.
    pub job: JobId,
    /// Its size group, an index into [`Metrics::groups`].
    pub group: u16,
    /// Submission time, in seconds from the start of the run.
    pub submit_s: f64,
    /// Completion time: from submission to success.
    pub completion_s: f64,
    /// Waiting time: from submission to its first map.
    pub wait_s: f64,
    /// Execution time: from its first map to success.
    pub execution_s: f64,
    /// Completion time over execution time alone on the cluster, so that waiting counts; none if the latter is unknown.
    pub slowdown: Option<f64>,
    /// Number of times that one of its reduces paused.
    pub pauses: u32,
    /// Number of its attempts that were killed by preemption.
    pub kills: u32,
    /// Number of its maps that ended early.
    pub early_ends: u32,
}

impl JobMetrics {
    pub(super) fn new(job: JobId, live: &LiveJob, now: Time, isolated_s: Option<f64>) -> JobMetrics {
        let first_map = live.first_map.unwrap_or(now);
        let completion_s = now.since(live.submit).as_secs_f64();
        JobMetrics {
            job,
            group: live.group,
            submit_s: live.submit.as_secs_f64(),
            completion_s,
            wait_s: first_map.since(live.submit).as_secs_f64(),
            execution_s: now.since(first_map).as_secs_f64(),
            slowdown: isolated_s.filter(|isolated_s| *isolated_s > 0.0).map(|isolated_s| completion_s / isolated_s),
            pauses: live.pauses,
            kills: live.kills,
            early_ends: live.early_ends,
        }
    }
}

/// Counters of one group of jobs. Integers, so that groups add up exactly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) submitted: u64,
    pub(super) killed: u64,
    pub(super) failed: u64,
    pub(super) pauses: u64,
    pub(super) kills: u64,
    pub(super) early_ends: u64,
    pub(super) resumes: u64,
    pub(super) migrations: u64,
    /// Map launches by locality: node, rack, remote.
    pub(super) launches: [u64; 3],
    /// Slot time of wasted work.
    pub(super) lost_us: u64,
    /// The part of `lost_us` that was lost because another job got the slot.
    pub(super) preempted_us: u64,
    pub(super) lost_output_us: u64,
    pub(super) busy_us: [u64; 2],
    pub(super) reduces: u64,
    pub(super) reduce_wait_us: u64,
    /// Tasks launched again after the loss of a node.
    pub(super) recovered: u64,
    pub(super) recovery_wait_us: u64,
    pub(super) recovered_maps: u64,
    /// Those of `recovered_maps` that were launched on a node with the data.
    pub(super) recovered_local_maps: u64,
}

impl Counters {
    fn add(&mut self, other: &Counters) {
        let Counters { submitted, killed, failed, pauses, kills, early_ends, resumes, migrations, .. } = other;
        self.submitted += submitted;
        self.killed += killed;
        self.failed += failed;
        self.pauses += pauses;
        self.kills += kills;
        self.early_ends += early_ends;
        self.resumes += resumes;
        self.migrations += migrations;
        self.launches.iter_mut().zip(other.launches).for_each(|(sum, count)| *sum += count);
        self.lost_us += other.lost_us;
        self.preempted_us += other.preempted_us;
        self.lost_output_us += other.lost_output_us;
        self.busy_us.iter_mut().zip(other.busy_us).for_each(|(sum, us)| *sum += us);
        self.reduces += other.reduces;
        self.reduce_wait_us += other.reduce_wait_us;
        self.recovered += other.recovered;
        self.recovery_wait_us += other.recovery_wait_us;
        self.recovered_maps += other.recovered_maps;
        self.recovered_local_maps += other.recovered_local_maps;
    }
}

/// Metrics of a whole run. A mean over nothing is none (`null`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the policy.
    pub policy: String,
    /// Random seed.
    pub seed: u64,
    /// Jobs that succeeded; job metrics are over these.
    pub jobs: u64,
    /// Events that the core handled.
    pub events: u64,
    /// The most important metrics.
    #[serde(flatten)]
    pub key_metrics: KeyMetrics,
    /// Metrics of each size group, smallest first.
    #[serde(serialize_with = "as_map")]
    pub groups: Vec<(String, GroupMetrics)>,
    /// Further metrics.
    #[serde(flatten)]
    pub details: DetailMetrics,
    /// COSHH's dissatisfaction (section 5.1), averaged over the completions of jobs: 0 if every min share was met.
    pub dissatisfaction: Option<f64>,
    /// COSHH's fairness (section 5.1), averaged over the completions of jobs: 0 if users of equal weight had equal excess over their min shares.
    pub fairness: Option<f64>,
    /// Jain's index of the slots, per weight, that users had on average while they had work: 1 if all had the same.
    pub jain_index: Option<f64>,
    /// From the first submission to the end of the last job.
    pub makespan_s: f64,
    /// Jobs submitted.
    pub submitted: u64,
    /// Jobs that were killed by their users.
    pub killed: u64,
    /// Jobs that failed.
    pub failed: u64,
}

/// Metrics of one size group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupMetrics {
    /// Jobs of the group that succeeded.
    pub jobs: u64,
    /// The most important metrics.
    #[serde(flatten)]
    pub key_metrics: KeyMetrics,
    /// Further metrics.
    #[serde(flatten)]
    pub details: DetailMetrics,
}

/// The most important metrics of a run or a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyMetrics {
    /// Mean completion time: from submission to success.
    pub mean_completion_s: Option<f64>,
    /// Median completion time.
    pub p50_completion_s: Option<f64>,
    /// 95th percentile of the completion time.
    pub p95_completion_s: Option<f64>,
    /// 99th percentile of the completion time.
    pub p99_completion_s: Option<f64>,
    /// Mean waiting time: from submission to the first map.
    pub mean_wait_s: Option<f64>,
    /// Mean execution time: from the first map to success.
    pub mean_execution_s: Option<f64>,
    /// Mean slowdown: completion time over execution time alone on the cluster.
    pub mean_slowdown: Option<f64>,
    /// Largest slowdown: FCS's measure of fairness.
    pub max_slowdown: Option<f64>,
    /// Lower bound on the mean completion time of any schedule; none if unknown, and for groups.
    pub lower_bound_mean_completion_s: Option<f64>,
    /// Fraction (0-1) of map launches on a node with the data.
    pub locality_node: Option<f64>,
    /// Slot time of attempts whose work was wasted: killed, failed, finished after another attempt, or lost with a node.
    pub lost_work_s: f64,
    /// Number of pauses of reduces.
    pub pauses: u64,
    /// Number of attempts killed by preemption. Other kills (another attempt finished first, or the job ended) do not count.
    pub kills: u64,
    /// Number of maps that ended early.
    pub early_ends: u64,
    /// Busy fraction (0-1) of all slot time; for a group, the fraction used by its jobs.
    pub utilisation: Option<f64>,
}

/// Further metrics of a run or a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetailMetrics {
    /// Longest completion time.
    pub max_completion_s: Option<f64>,
    /// Mean time from the end of a job's map phase to the first launch of its reduces (FCS, section 5.1); 0 for a reduce launched before that.
    pub mean_reduce_wait_s: Option<f64>,
    /// Number of paused reduces that continued on their node.
    pub resumes: u64,
    /// Number of paused reduces that continued on another node.
    pub migrations: u64,
    /// Fraction (0-1) of map launches on another node in a rack with the data.
    pub locality_rack: Option<f64>,
    /// Fraction (0-1) of map launches outside any rack with the data.
    pub locality_remote: Option<f64>,
    /// Busy fraction (0-1) of all map slot time.
    pub utilisation_map: Option<f64>,
    /// Busy fraction (0-1) of all reduce slot time.
    pub utilisation_reduce: Option<f64>,
    /// Number of launches that repeated a task because a node was lost.
    pub recoveries: u64,
    /// Mean time from the loss to that launch (Chronos, section IV).
    pub recovery_wait_s: Option<f64>,
    /// Fraction (0-1) of those launches, of maps, on a node with the data.
    pub recovery_locality: Option<f64>,
    /// Slot time of finished maps that ran again because their output was lost.
    pub lost_output_s: f64,
    /// The part of `lost_work_s` that was lost because another job got the slot.
    pub lost_to_preemption_s: f64,
}

impl Metrics {
    /// The metrics so far. They cover the time up to the last event while jobs are live, and up to the end of the last job afterwards.
    pub fn summary(&self, policy: &str, seed: u64, lower_bound_mean_completion_s: Option<f64>) -> Summary {
        let integrals = if self.live == 0 {
            self.integrals_at_last_close
        } else {
            self.time_weighted.clone().integrals(self.latest)
        };
        let mut total = Counters::default();
        self.counters.iter().for_each(|counters| total.add(counters));
        let all: Vec<&JobMetrics> = self.finished.iter().collect();
        let mut key_metrics = key_metrics(&all, &total, &integrals);
        key_metrics.lower_bound_mean_completion_s = lower_bound_mean_completion_s;
        // The integral is exact; the sum of the attempts' times does not include those that are still running.
        key_metrics.utilisation = integrals.utilisation(&Kind::BOTH);
        let mut details = detail_metrics(&all, &total, &integrals);
        details.utilisation_map = integrals.utilisation(&[Kind::Map]);
        details.utilisation_reduce = integrals.utilisation(&[Kind::Reduce]);
        Summary {
            policy: policy.into(),
            seed,
            jobs: all.len() as u64,
            events: self.events,
            key_metrics,
            groups: self
                .groups
                .names
                .iter()
                .enumerate()
                .map(|(ix, name)| (name.clone(), self.group(ix, &integrals)))
                .collect(),
            details,
            dissatisfaction: self.user_shares.dissatisfaction(),
            fairness: self.user_shares.fairness(),
            jain_index: self.user_shares.jain_index(),
            makespan_s: integrals.length_s(),
            submitted: total.submitted,
            killed: total.killed,
            failed: total.failed,
        }
    }

    fn group(&self, ix: usize, integrals: &Integrals) -> GroupMetrics {
        let jobs: Vec<&JobMetrics> = self.finished.iter().filter(|job| usize::from(job.group) == ix).collect();
        let counters = &self.counters[ix];
        GroupMetrics {
            jobs: jobs.len() as u64,
            key_metrics: key_metrics(&jobs, counters, integrals),
            details: detail_metrics(&jobs, counters, integrals),
        }
    }
}

fn key_metrics(jobs: &[&JobMetrics], counters: &Counters, integrals: &Integrals) -> KeyMetrics {
    let mut completions: Vec<f64> = jobs.iter().map(|job| job.completion_s).collect();
    completions.sort_unstable_by(f64::total_cmp);
    let slowdowns: Vec<f64> = jobs.iter().filter_map(|job| job.slowdown).collect();
    KeyMetrics {
        mean_completion_s: mean(&completions),
        p50_completion_s: percentile(&completions, 50),
        p95_completion_s: percentile(&completions, 95),
        p99_completion_s: percentile(&completions, 99),
        mean_wait_s: mean(&jobs.iter().map(|job| job.wait_s).collect::<Vec<_>>()),
        mean_execution_s: mean(&jobs.iter().map(|job| job.execution_s).collect::<Vec<_>>()),
        mean_slowdown: mean(&slowdowns),
        max_slowdown: slowdowns.iter().copied().reduce(f64::max),
        lower_bound_mean_completion_s: None,
        locality_node: ratio(counters.launches[0], counters.launches.iter().sum()),
        lost_work_s: seconds(counters.lost_us),
        pauses: counters.pauses,
        kills: counters.kills,
        early_ends: counters.early_ends,
        utilisation: utilisation(counters.busy_us.iter().sum(), integrals.slots.iter().sum()),
    }
}

fn detail_metrics(jobs: &[&JobMetrics], counters: &Counters, integrals: &Integrals) -> DetailMetrics {
    let launches = counters.launches.iter().sum();
    let mean_s = |sum_us: u64, count: u64| (count > 0).then(|| seconds(sum_us) / count as f64);
    DetailMetrics {
        max_completion_s: jobs.iter().map(|job| job.completion_s).reduce(f64::max),
        mean_reduce_wait_s: mean_s(counters.reduce_wait_us, counters.reduces),
        resumes: counters.resumes,
        migrations: counters.migrations,
        locality_rack: ratio(counters.launches[1], launches),
        locality_remote: ratio(counters.launches[2], launches),
        utilisation_map: utilisation(counters.busy_us[0], integrals.slots[0]),
        utilisation_reduce: utilisation(counters.busy_us[1], integrals.slots[1]),
        recoveries: counters.recovered,
        recovery_wait_s: mean_s(counters.recovery_wait_us, counters.recovered),
        recovery_locality: ratio(counters.recovered_local_maps, counters.recovered_maps),
        lost_output_s: seconds(counters.lost_output_us),
        lost_to_preemption_s: seconds(counters.preempted_us),
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Nearest-rank percentile: the smallest of the values that is not exceeded by `percent` % of them.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}

fn ratio(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

fn utilisation(busy_us: u64, available_us: i128) -> Option<f64> {
    (available_us > 0).then(|| busy_us as f64 / available_us as f64)
}

/// Serializes the groups as a map in their order, smallest first.
fn as_map<S: Serializer>(groups: &[(String, GroupMetrics)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(groups.len()))?;
    for (name, key_metrics) in groups {
        map.serialize_entry(name, key_metrics)?;
    }
    map.end()
}
