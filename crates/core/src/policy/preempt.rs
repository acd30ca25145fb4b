//! Which attempts may be asked to give way, and which goes first.
//!
//! Choosing is here; asking is the scheduler's business.

use super::estimate::slackness;
use super::{AttemptOrder, Guards};
use crate::ids::{Kind, NodeId};
use crate::state::{Job, TaskState};
use crate::units::{Time, WHOLE_PPM};

/// True if the attempt may be asked to give way: it runs, was not asked already, has no twin, and nothing spares it (FCS, section 4).
pub fn may_give_way(job: &Job, kind: Kind, index: u32, spare: &Guards, now: Time) -> bool {
    let task = job.task(kind, index);
    let alone = !job.twins.iter().any(|twin| twin.kind == kind && twin.task == index);
    task.state == TaskState::Running && alone && !is_spared(job, kind, index, spare, now)
}

/// True if one of the guards holds.
pub fn is_spared(job: &Job, kind: Kind, index: u32, spare: &Guards, now: Time) -> bool {
    let task = job.task(kind, index);
    let pushed_about = spare.slackness.is_some_and(|limit| {
        let since_start = now.since(job.first_launched(kind, index));
        slackness(since_start, job.service(kind, index, now), task.progress_ppm) >= limit
    });
    let just_launched = now.since(task.launched) < spare.min_runtime;
    let nearly_done =
        spare.progress_over.is_some_and(|limit| f64::from(task.progress_ppm) > limit * f64::from(WHOLE_PPM));
    let often_enough = spare.gave_way.is_some_and(|limit| u32::from(task.gave_way) >= limit);
    pushed_about || just_launched || nearly_done || often_enough
}

/// The attempts of a job that may give way, first to go first.
pub fn in_order_to_go(
    job: &Job,
    kind: Kind,
    order: AttemptOrder,
    spare: &Guards,
    near: &dyn Fn(NodeId) -> bool,
    now: Time,
) -> Vec<u32> {
    let live = job.facts(kind).live.iter().copied();
    let mut going: Vec<u32> = live.filter(|&index| may_give_way(job, kind, index, spare, now)).collect();
    let progress = |index: u32| job.task(kind, index).progress_ppm;
    let newest_first = |index: u32| std::cmp::Reverse(job.task(kind, index).launched);
    match order {
        AttemptOrder::LeastProgress => going.sort_by_key(|&i| (progress(i), newest_first(i), i)),
        AttemptOrder::Newest => going.sort_by_key(|&i| (newest_first(i), i)),
        AttemptOrder::NearData => {
            going.sort_by_cached_key(|&i| (!near(job.task(kind, i).node), progress(i), newest_first(i), i));
        }
    }
    going
}
