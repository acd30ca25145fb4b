//! Figures and their names. The names are those of the JSON that `giveway` prints; scripts rely on them.

use super::Metrics;
use super::job::Live;
use super::levels::Sums;
use giveway_core::{JobId, Kind, Time};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One job that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobFigures {
    /// The job.
    pub job: JobId,
    /// Its size group, an index into [`Metrics::groups`].
    pub group: u16,
    /// When it was submitted, seconds from the beginning.
    pub submit_s: f64,
    /// From submission to success.
    pub completion_s: f64,
    /// From submission to its first map.
    pub wait_s: f64,
    /// From its first map to success.
    pub execution_s: f64,
    /// Execution over execution alone on the cluster; none if the latter is not known.
    pub slowdown: Option<f64>,
    /// How often one of its reduces paused.
    pub pauses: u32,
    /// How often one of its attempts was killed to give way.
    pub kills: u32,
    /// How often one of its maps ended early.
    pub early_ends: u32,
}

impl JobFigures {
    pub(super) fn new(job: JobId, live: &Live, now: Time, alone_s: Option<f64>) -> JobFigures {
        let first_map = live.first_map.unwrap_or(now);
        let execution_s = now.since(first_map).as_secs_f64();
        JobFigures {
            job,
            group: live.group,
            submit_s: live.submit.as_secs_f64(),
            completion_s: now.since(live.submit).as_secs_f64(),
            wait_s: first_map.since(live.submit).as_secs_f64(),
            execution_s,
            slowdown: alone_s.filter(|alone_s| *alone_s > 0.0).map(|alone_s| execution_s / alone_s),
            pauses: live.pauses,
            kills: live.kills,
            early_ends: live.early_ends,
        }
    }
}

/// What is counted for a group of jobs. Whole numbers, so groups add up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) submitted: u64,
    pub(super) killed: u64,
    pub(super) failed: u64,
    pub(super) pauses: u64,
    pub(super) kills: u64,
    pub(super) early_ends: u64,
    pub(super) resumes: u64,
    pub(super) migrations: u64,
    /// Map launches on the node, in the rack and far from their data.
    pub(super) launches: [u64; 3],
    pub(super) lost_us: u64,
    pub(super) lost_output_us: u64,
    pub(super) busy_us: [u64; 2],
    pub(super) reduces: u64,
    pub(super) reduce_wait_us: u64,
    pub(super) recovered: u64,
    pub(super) recovery_wait_us: u64,
    pub(super) recovered_maps: u64,
    pub(super) recovered_near: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        let Tally { submitted, killed, failed, pauses, kills, early_ends, resumes, migrations, .. } = other;
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
        self.lost_output_us += other.lost_output_us;
        self.busy_us.iter_mut().zip(other.busy_us).for_each(|(sum, us)| *sum += us);
        self.reduces += other.reduces;
        self.reduce_wait_us += other.reduce_wait_us;
        self.recovered += other.recovered;
        self.recovery_wait_us += other.recovery_wait_us;
        self.recovered_maps += other.recovered_maps;
        self.recovered_near += other.recovered_near;
    }
}

/// A whole run. A figure of which there is nothing to take the mean is none (`null`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The policy's name.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Jobs that succeeded: the figures below are theirs.
    pub jobs: u64,
    /// Events the core was given.
    pub events: u64,
    /// The figures people look at first.
    #[serde(flatten)]
    pub figures: Figures,
    /// The same for each size group, smallest first.
    #[serde(serialize_with = "as_map")]
    pub groups: Vec<(String, GroupFigures)>,
    /// The other figures.
    #[serde(flatten)]
    pub more: MoreFigures,
    /// COSHH's dissatisfaction (section 5.1), averaged over the run: 0 if every min share was met.
    pub dissatisfaction: Option<f64>,
    /// COSHH's fairness (section 5.1), averaged over the run: 0 if users of equal weight always held equally much.
    pub fairness: Option<f64>,
    /// From the first submission to the end of the last job.
    pub makespan_s: f64,
    /// Jobs submitted.
    pub submitted: u64,
    /// Jobs their users took back.
    pub killed: u64,
    /// Jobs that failed.
    pub failed: u64,
}

/// A size group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupFigures {
    /// Its jobs that succeeded.
    pub jobs: u64,
    /// The figures people look at first.
    #[serde(flatten)]
    pub figures: Figures,
    /// The other figures.
    #[serde(flatten)]
    pub more: MoreFigures,
}

/// The figures people look at first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Mean time from submission to success.
    pub mean_completion_s: Option<f64>,
    /// Half of the jobs took no longer.
    pub p50_completion_s: Option<f64>,
    /// 95 % of the jobs took no longer.
    pub p95_completion_s: Option<f64>,
    /// 99 % of the jobs took no longer.
    pub p99_completion_s: Option<f64>,
    /// Mean time from submission to the first map.
    pub mean_wait_s: Option<f64>,
    /// Mean time from the first map to success.
    pub mean_execution_s: Option<f64>,
    /// Mean of execution over execution alone on the cluster.
    pub mean_slowdown: Option<f64>,
    /// The largest of them: FCS's measure of fairness.
    pub max_slowdown: Option<f64>,
    /// No scheduler could have had a lower mean completion; none if not known, and for groups.
    pub lower_bound_mean_completion_s: Option<f64>,
    /// What part of the map launches was on a node with the data.
    pub locality_node: Option<f64>,
    /// Slot time of attempts whose work came to nothing: killed, failed, outrun, or lost with a node.
    pub lost_work_s: f64,
    /// How often a reduce paused.
    pub pauses: u64,
    /// How often an attempt was killed to give way. Others that were killed (outrun, or their job was over) do not
    /// count.
    pub kills: u64,
    /// How often a map ended early.
    pub early_ends: u64,
    /// What part of all slot time was in use (for a group: by its jobs).
    pub utilisation: Option<f64>,
}

/// The other figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoreFigures {
    /// The longest completion.
    pub max_completion_s: Option<f64>,
    /// Mean time a reduce waits for its first slot after its job's map phase has ended (FCS, section 5.1).
    pub mean_reduce_wait_s: Option<f64>,
    /// How often a paused reduce went on where it was.
    pub resumes: u64,
    /// How often a paused reduce went on elsewhere.
    pub migrations: u64,
    /// What part of the map launches was in a rack with the data, but on another node.
    pub locality_rack: Option<f64>,
    /// What part of the map launches was far from the data.
    pub locality_remote: Option<f64>,
    /// What part of all map slot time was in use.
    pub utilisation_map: Option<f64>,
    /// What part of all reduce slot time was in use.
    pub utilisation_reduce: Option<f64>,
    /// How often a task was launched again because a node was lost.
    pub recoveries: u64,
    /// Mean time from the loss to that launch (Chronos, section IV).
    pub recovery_wait_s: Option<f64>,
    /// What part of those launches, of maps, was on a node with the data.
    pub recovery_locality: Option<f64>,
    /// Slot time of finished maps that ran again because their output was lost.
    pub lost_output_s: f64,
}

impl Metrics {
    /// The figures so far. While jobs are live they reach up to the last event, afterwards up to the end of the last
    /// job.
    pub fn summary(&self, policy: &str, seed: u64, lower_bound_mean_completion_s: Option<f64>) -> Summary {
        let sums = if self.live == 0 { self.at_close } else { self.levels.clone().sums(self.latest) };
        let mut total = Tally::default();
        self.tallies.iter().for_each(|tally| total.add(tally));
        let all: Vec<&JobFigures> = self.finished.iter().collect();
        let mut figures = figures(&all, &total, &sums);
        figures.lower_bound_mean_completion_s = lower_bound_mean_completion_s;
        // The integral is exact; the sum of the attempts' times leaves out those that still run.
        figures.utilisation = sums.utilisation(&Kind::BOTH);
        let mut more = more_figures(&all, &total, &sums);
        more.utilisation_map = sums.utilisation(&[Kind::Map]);
        more.utilisation_reduce = sums.utilisation(&[Kind::Reduce]);
        Summary {
            policy: policy.into(),
            seed,
            jobs: all.len() as u64,
            events: self.events,
            figures,
            groups: self
                .groups
                .names
                .iter()
                .enumerate()
                .map(|(ix, name)| (name.clone(), self.group(ix, &sums)))
                .collect(),
            more,
            dissatisfaction: sums.dissatisfaction(),
            fairness: sums.fairness(),
            makespan_s: sums.length_s(),
            submitted: total.submitted,
            killed: total.killed,
            failed: total.failed,
        }
    }

    fn group(&self, ix: usize, sums: &Sums) -> GroupFigures {
        let jobs: Vec<&JobFigures> = self.finished.iter().filter(|job| usize::from(job.group) == ix).collect();
        let tally = &self.tallies[ix];
        GroupFigures {
            jobs: jobs.len() as u64,
            figures: figures(&jobs, tally, sums),
            more: more_figures(&jobs, tally, sums),
        }
    }
}

fn figures(jobs: &[&JobFigures], tally: &Tally, sums: &Sums) -> Figures {
    let mut completions: Vec<f64> = jobs.iter().map(|job| job.completion_s).collect();
    completions.sort_unstable_by(f64::total_cmp);
    let slowdowns: Vec<f64> = jobs.iter().filter_map(|job| job.slowdown).collect();
    Figures {
        mean_completion_s: mean(&completions),
        p50_completion_s: percentile(&completions, 50),
        p95_completion_s: percentile(&completions, 95),
        p99_completion_s: percentile(&completions, 99),
        mean_wait_s: mean(&jobs.iter().map(|job| job.wait_s).collect::<Vec<_>>()),
        mean_execution_s: mean(&jobs.iter().map(|job| job.execution_s).collect::<Vec<_>>()),
        mean_slowdown: mean(&slowdowns),
        max_slowdown: slowdowns.iter().copied().reduce(f64::max),
        lower_bound_mean_completion_s: None,
        locality_node: part(tally.launches[0], tally.launches.iter().sum()),
        lost_work_s: seconds(tally.lost_us),
        pauses: tally.pauses,
        kills: tally.kills,
        early_ends: tally.early_ends,
        utilisation: used(tally.busy_us.iter().sum(), sums.slots.iter().sum()),
    }
}

fn more_figures(jobs: &[&JobFigures], tally: &Tally, sums: &Sums) -> MoreFigures {
    let launches = tally.launches.iter().sum();
    let mean_s = |sum_us: u64, count: u64| (count > 0).then(|| seconds(sum_us) / count as f64);
    MoreFigures {
        max_completion_s: jobs.iter().map(|job| job.completion_s).reduce(f64::max),
        mean_reduce_wait_s: mean_s(tally.reduce_wait_us, tally.reduces),
        resumes: tally.resumes,
        migrations: tally.migrations,
        locality_rack: part(tally.launches[1], launches),
        locality_remote: part(tally.launches[2], launches),
        utilisation_map: used(tally.busy_us[0], sums.slots[0]),
        utilisation_reduce: used(tally.busy_us[1], sums.slots[1]),
        recoveries: tally.recovered,
        recovery_wait_s: mean_s(tally.recovery_wait_us, tally.recovered),
        recovery_locality: part(tally.recovered_near, tally.recovered_maps),
        lost_output_s: seconds(tally.lost_output_us),
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest value that so many percent of all do not exceed: always a value that was seen.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}

fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

fn used(busy_us: u64, there_us: i128) -> Option<f64> {
    (there_us > 0).then(|| busy_us as f64 / there_us as f64)
}

/// Groups keep their order, from small to large.
fn as_map<S: Serializer>(groups: &[(String, GroupFigures)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(groups.len()))?;
    for (name, figures) in groups {
        map.serialize_entry(name, figures)?;
    }
    map.end()
}
