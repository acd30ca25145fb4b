//! The order in which jobs, and attempts of a job, are considered as victims.

use super::{Preemption, is_preemptable};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::policy::View;
use crate::policy::orders::Order;
use crate::policy::ranking::Comparison;
use crate::state::{JobKey, TaskCounts};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Which job's attempts are victims first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimOrder {
    /// The job that ranks last.
    LowestRank,
    /// The job with the longest remaining time (hSRTF, section 3.3).
    LongestRemainingTime,
    /// The job with the most slots over its share.
    MostOverShare,
}

/// Which attempt of a job is a victim first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOrder {
    /// The one with the least progress.
    LeastProgress,
    /// The one that was launched last.
    Newest,
    /// One on a node that holds input of the beneficiary; then the one with the least progress (hSRTF, section 6).
    NearData,
}

impl VictimOrder {
    pub(super) fn compares_shares(self) -> bool {
        self == VictimOrder::MostOverShare
    }

    /// True if victims come in the order of rank, last first.
    pub(super) fn follows_rank(self, order: &impl Order) -> bool {
        match self {
            VictimOrder::LowestRank => true,
            VictimOrder::LongestRemainingTime => order.is_by_remaining_time(),
            VictimOrder::MostOverShare => false,
        }
    }
}

impl AttemptOrder {
    /// True if the order has to be computed for each beneficiary.
    pub(super) fn depends_on_beneficiary(self) -> bool {
        self == AttemptOrder::NearData
    }
}

/// A job that may lose attempts.
pub(super) struct VictimJob {
    pub(super) job: JobKey,
    /// Its preemptable attempts, last victim first; none if they have not been computed.
    pub(super) attempts: Option<Vec<u32>>,
}

/// The jobs with running attempts, first victim first.
pub(super) fn victim_jobs(rule: &Preemption, kind: Kind, jobs: Comparison<'_>) -> Vec<VictimJob> {
    let state = jobs.view.state;
    let is_victim = |counts: &TaskCounts| {
        let within_share = f64::from(counts.allocated()) <= counts.fair_share;
        counts.running.len() as u32 > counts.stopping && !(rule.trigger.is_below_share() && within_share)
    };
    let running = state.jobs().iter().filter(|(_, job)| !job.is_closed() && is_victim(job.counts(kind)));
    let mut victims: Vec<JobKey> = running.map(|(key, _)| key).collect();
    match rule.victims {
        VictimOrder::LowestRank => victims.sort_by_cached_key(|&job| Reverse(jobs.standing(job, kind))),
        VictimOrder::LongestRemainingTime => victims.sort_by_key(|&job| {
            let job = state.job(job);
            Reverse((job.estimate().remaining_time, job.sequence()))
        }),
        VictimOrder::MostOverShare => victims.sort_by_cached_key(|&job| {
            let job = state.job(job);
            let counts = job.counts(kind);
            let over_milli = ((f64::from(counts.allocated()) - counts.fair_share) * 1e3) as i64;
            Reverse((over_milli, job.sequence()))
        }),
    }
    victims.into_iter().map(|job| VictimJob { job, attempts: None }).collect()
}

/// When the first attempt of a job that was launched too recently to be preempted has run long enough.
pub(super) fn young_until(rule: &Preemption, kind: Kind, view: View<'_>, victim: JobKey) -> Option<Time> {
    if rule.guards.min_runtime.is_zero() {
        return None;
    }
    let job = view.state.job(victim);
    let running = job.counts(kind).running.iter();
    running.filter_map(|&index| rule.guards.young_until(job, TaskKey { kind, index }, view.now)).min()
}

/// The preemptable attempts of a job, last victim first.
pub(super) fn attempts_last_first(
    rule: &Preemption,
    kind: Kind,
    jobs: Comparison<'_>,
    victim: JobKey,
    beneficiary: JobKey,
) -> Vec<u32> {
    let view = jobs.view;
    let placement = &jobs.policy.slots(kind).placement;
    let job = view.state.job(victim);
    // A slot that the beneficiary would refuse is of no use to it.
    let accepted = |index: &u32| {
        let node = job.task(TaskKey { kind, index: *index }).node();
        let (beneficiary_job, nodes) = (view.state.job(beneficiary), view.state.nodes());
        if !nodes.is_usable(node) || jobs.policy.failures.job_avoids(beneficiary_job, node, nodes) {
            return false;
        }
        placement.refuses(beneficiary_job, beneficiary, kind, node, nodes, 0.0).is_none()
    };
    let splits = view.state.job(beneficiary).splits();
    let holds_input = |node: NodeId| splits.iter().any(|split| split.hosts.contains(&node));
    let task = |index: u32| job.task(TaskKey { kind, index });
    let preemptable = |&index: &u32| is_preemptable(job, TaskKey { kind, index }, &rule.guards, view.now);
    let mut attempts: Vec<u32> =
        job.counts(kind).running.iter().copied().filter(preemptable).filter(accepted).collect();
    let newest_first = |index: u32| Reverse(task(index).launched());
    match rule.attempts {
        AttemptOrder::LeastProgress => attempts.sort_by_key(|&i| (task(i).progress_ppm(), newest_first(i), i)),
        AttemptOrder::Newest => attempts.sort_by_key(|&i| (newest_first(i), i)),
        AttemptOrder::NearData => {
            attempts
                .sort_by_cached_key(|&i| (!holds_input(task(i).node()), task(i).progress_ppm(), newest_first(i), i));
        }
    }
    attempts.reverse();
    attempts
}
