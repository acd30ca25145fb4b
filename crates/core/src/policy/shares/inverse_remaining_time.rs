//! Shares in inverse proportion to remaining time (hSRTF, eqs. 3 to 5).

use super::water_filling::{Claimant, Division, divide};
use super::{Shares, WaterLevel};
use crate::ids::{Kind, PerKind};
use crate::policy::View;
use crate::policy::estimates::remaining_time;
use crate::state::{Job, JobKey};
use crate::units::Time;

/// The time alone that the starvation ratio compares with (hSRTF, eq. 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakespanAlone {
    /// Alone on its share: the ratio is 1 while a job gets its share, and more if it had to wait.
    OnItsShare,
    /// Alone on the whole cluster, as the paper writes. For a job of many waves the ratio is then the inverse of its share, so that their
    /// product is the same for every job and cancels eq. 3.
    OnTheCluster,
}

pub(super) fn shares(view: View<'_>, kind: Kind, alone: MakespanAlone) -> Shares {
    let needs = |job: &Job| !job.is_closed() && (job.counts(kind).allocated() > 0 || job.needs_slot(kind));
    let jobs: Vec<(JobKey, &Job)> = view.state.jobs().iter().filter(|(_, job)| needs(job)).collect();
    let division = divide_by_remaining(&jobs, kind, view.state.nodes().slots(), alone, view.now);
    let needed = jobs.iter().map(|(_, job)| f64::from(job.counts(kind).allocated() + job.counts(kind).demand())).sum();
    let of = jobs.iter().map(|&(key, _)| key).zip(division.shares).collect();
    Shares { of, level: Some(WaterLevel { per_weight: division.level, needed }) }
}

/// Eqs. 3 and 4: shares in inverse proportion to remaining time, adding up to the cluster; each then multiplied by its starvation ratio
/// (eq. 5) and scaled back to the cluster.
fn divide_by_remaining(
    jobs: &[(JobKey, &Job)],
    kind: Kind,
    slots: PerKind<u32>,
    alone: MakespanAlone,
    now: Time,
) -> Division {
    let claimant = |job: &Job, starvation: f64| {
        let counts = job.counts(kind);
        let remaining_s = job.estimate().remaining_time.as_secs_f64().max(1e-3);
        Claimant { weight: starvation / remaining_s, min: 0.0, need: f64::from(counts.allocated() + counts.demand()) }
    };
    let plain: Vec<Claimant> = jobs.iter().map(|(_, job)| claimant(job, 1.0)).collect();
    let first = divide(f64::from(slots[kind]), &plain).shares;
    let starved: Vec<Claimant> = jobs
        .iter()
        .zip(&first)
        .map(|((_, job), &share)| claimant(job, starvation_ratio(job, kind, share, slots, alone, now)))
        .collect();
    divide(f64::from(slots[kind]), &starved)
}

/// Eq. 5: `(time since launch + remaining time on this share) / makespan alone`.
pub fn starvation_ratio(
    job: &Job,
    kind: Kind,
    share: f64,
    slots: PerKind<u32>,
    alone: MakespanAlone,
    now: Time,
) -> f64 {
    // The paper has one kind of slot. Here the job is assumed to get the same fraction of both kinds.
    let part = (share / f64::from(slots[kind].max(1))).max(1e-6);
    let capacity = slots.map(|slots| (f64::from(slots) * part).max(1.0));
    let left = PerKind::from_fn(|kind| job.left(kind));
    let on_share = remaining_time(left, capacity, job.estimate().task_time);
    let since_submission = now.since(job.submitted());
    let makespan = match alone {
        MakespanAlone::OnItsShare => {
            remaining_time(PerKind::from_fn(|kind| job.total(kind)), capacity, job.estimate().task_time)
        }
        MakespanAlone::OnTheCluster => job.estimate().time_alone,
    };
    let alone_s = makespan.as_secs_f64().max(1e-3);
    ((since_submission + on_share).as_secs_f64() / alone_s).max(1e-3)
}
