//! The remaining area of a job: the time in which the whole cluster would do what is left of it, if its tasks could be divided at will.
//!
//! `A = sum over kinds k of L_k w_k / C_k`, where L_k is the number of tasks left, running and paused ones by the part they have left; w_k
//! the work of one task, in seconds on a slot of speed 1; and C_k the work that all slots of the kind do per second. hSRTF's eq. 1 counts
//! waves (`ceil(tasks left / slots)`): all jobs of one wave then rank alike, and change places whenever an estimate does. The area has no
//! steps.

use super::estimates::{ENOUGH_FINISHED, attained_service, part_of_split};
use super::task_times::Prediction;
use super::{TaskTimes, View};
use crate::ids::{Kind, PerKind, TaskKey};
use crate::state::{Estimate, Job, NodeType};
use crate::units::{Span, WHOLE_PPM};

/// How much tasks of a job differ from each other, relative to their mean.
const TASK_NOISE: f64 = 0.3;
/// The least work of a task, in seconds, so that no job has an area of zero.
const MIN_WORK_S: f64 = 1e-3;

/// The estimate with the job's work and area.
pub(super) fn with_area(mut estimate: Estimate, view: View<'_>, job: &Job, learned: &TaskTimes) -> Estimate {
    estimate.task_work_s = task_work_s(view, job, learned);
    estimate.remaining_area = if is_unknown(job) {
        area_of_unknown(view, job)
    } else {
        let left = PerKind::from_fn(|kind| tasks_left(job, kind));
        estimate.tasks_left = left;
        area(PerKind::from_fn(|kind| left[kind] * estimate.task_work_s[kind]), capacity(view))
    };
    estimate
}

/// Work of each kind over what the cluster does of it per second; never zero.
pub fn area(work_s: PerKind<f64>, capacity: PerKind<f64>) -> Span {
    let of_kind = |kind: Kind| if work_s[kind] > 0.0 { work_s[kind] / capacity[kind] } else { 0.0 };
    Span::from_secs_f64((of_kind(Kind::Map) + of_kind(Kind::Reduce)).max(1e-6))
}

/// Work of each kind that all slots do per second; not zero, so that a cluster without slots ranks its jobs too.
pub fn capacity(view: View<'_>) -> PerKind<f64> {
    PerKind::from_fn(|kind| view.state.nodes().capacity(kind).max(1e-3))
}

/// Time until a job's last map is done, at the rate of its finished maps or, where that is sooner, of those that run. The rate of finished maps says little of
/// maps that run again because their output was lost.
pub fn time_to_last_map(job: &Job) -> Span {
    let Estimate { remaining_shuffle, task_time, .. } = job.estimate();
    let (left, running) = (f64::from(job.left(Kind::Map)), job.counts(Kind::Map).running.len() as f64);
    if running > 0.0 { task_time[Kind::Map].scaled(left / running).min(*remaining_shuffle) } else { *remaining_shuffle }
}

/// True if nobody knows how many tasks a job will have: its application requests slots as it goes.
pub fn is_unknown(job: &Job) -> bool {
    job.is_open()
}

/// The area of a job of unknown size: the slot time it has received, over all slots. Sizes of jobs are heavy-tailed, so that a job that has
/// run for long will probably run for as long again, and the order falls back to least attained service.
fn area_of_unknown(view: View<'_>, job: &Job) -> Span {
    let slots: u32 = view.state.nodes().slots().iter().sum();
    attained_service(job, view.now).scaled(1.0 / f64::from(slots.max(1)))
}

/// The number of whole tasks of a kind that are left, running and paused ones by the part they have left.
pub fn tasks_left(job: &Job, kind: Kind) -> f64 {
    let counts = job.counts(kind);
    let progress = |index: u32| {
        let key = TaskKey { kind, index };
        f64::from(job.task(key).progress_ppm()) / f64::from(WHOLE_PPM) * part_of_split(job, key)
    };
    let whole = match kind {
        // By bytes, because a map that ended early is two tasks.
        Kind::Map if job.input_bytes() > 0 => {
            job.splits().len() as f64 * (1.0 - job.mapped_bytes() as f64 / job.input_bytes() as f64)
        }
        _ => f64::from(job.left(kind)),
    };
    let paused = job.paused().iter().map(|&(index, _)| index).filter(|_| kind == Kind::Reduce);
    let partly_done: f64 = counts.running.iter().copied().chain(paused).map(progress).sum();
    (whole - partly_done).max(0.0)
}

/// The number of whole tasks of a kind that a job has in all.
pub fn whole_tasks(job: &Job, kind: Kind) -> u32 {
    match kind {
        Kind::Map if !job.is_open() => job.splits().len() as u32,
        _ => job.total(kind),
    }
}

/// The work of one task of each kind: what was observed of the job's own tasks and, as if it were one more observation, what was predicted.
fn task_work_s(view: View<'_>, job: &Job, learned: &TaskTimes) -> PerKind<f64> {
    let Prediction { work_s: predicted, error } = learned.predict(job);
    // As many observations as would be as reliable as the prediction.
    let weight = (TASK_NOISE / error.max(1e-3)).powi(2).clamp(0.1, 50.0);
    // Reduces mostly wait while maps run, so their times are used only afterwards.
    let observed = |kind: Kind| {
        if kind == Kind::Map || job.maps_done() { observed_work_s(view, job, kind) } else { None }
    };
    PerKind::from_fn(|kind| {
        let (own_s, count) = observed(kind).unwrap_or((0.0, 0.0));
        let work_s = (own_s * count + predicted[kind] * weight) / (count + weight);
        (work_s * job.estimate_bias()).max(MIN_WORK_S)
    })
}

/// The work of one task, observed: the work done for a job's tasks over the number of tasks it makes up, those that run by the part they have done; and
/// that number. Running tasks are read while few have finished. What reduces waited for maps does not count.
pub fn observed_work_s(view: View<'_>, job: &Job, kind: Kind) -> Option<(f64, f64)> {
    let counts = job.counts(kind);
    let mut work_s = counts.finished_work_s - counts.finished_wait_s + counts.finished_parts_work_s;
    let mut tasks = f64::from(counts.finished) + counts.finished_parts;
    // Below this, progress is mostly start-up or, of a reduce, waiting for maps.
    let enough_ppm = match kind {
        Kind::Map => WHOLE_PPM / 100,
        Kind::Reduce => 2 * WHOLE_PPM / 3 + WHOLE_PPM / 100,
    };
    let read = if counts.finished < ENOUGH_FINISHED { counts.running.as_slice() } else { &[] };
    for &index in read {
        let key = TaskKey { kind, index };
        let progress_ppm = job.task(key).progress_ppm();
        if progress_ppm >= enough_ppm {
            let NodeType { speed, disk_bytes_per_s, .. } = type_of(view, job, key);
            let done = f64::from(progress_ppm) / f64::from(WHOLE_PPM);
            let read_bytes = if kind == Kind::Map { job.map_bytes(index) as f64 * done } else { 0.0 };
            let busy_s = job.service(key, view.now).as_secs_f64() - job.wait_for_maps(key, view.now).as_secs_f64();
            work_s += (busy_s - read_bytes / disk_bytes_per_s).max(0.0) * speed;
            tasks += done * part_of_split(job, key);
        }
    }
    (tasks > 0.0).then(|| ((work_s / tasks).max(MIN_WORK_S), tasks))
}

fn type_of(view: View<'_>, job: &Job, task: TaskKey) -> NodeType {
    let nodes = view.state.nodes();
    nodes.types()[nodes.type_of(job.task(task).node())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{NodeSpec, Split};
    use crate::ids::{NodeId, RackId};
    use crate::policy::test_state::{at, job, submit};
    use crate::policy::{PreemptAction, Prior};
    use crate::state::{JobKey, State};
    use proptest::prelude::*;

    const BLOCK: u64 = 1_000;

    /// A node of speed 1 and one of speed 1/2, with four map slots and two reduce slots each. Reading a block takes 1 s.
    fn two_speeds() -> State {
        let mut state = State::default();
        for (node, speed_ppm) in [(0, WHOLE_PPM), (1, WHOLE_PPM / 2)] {
            let spec = NodeSpec {
                name: String::new(),
                rack: RackId(0),
                map_slots: 4,
                reduce_slots: 2,
                speed_ppm,
                disk_bytes_per_s: BLOCK,
                disk_bytes: 1,
            };
            state.add_node(NodeId(node), &spec);
        }
        state
    }

    fn blocks(state: &mut State, maps: u32, reduces: u32) -> JobKey {
        let mut spec = job(0, maps, reduces);
        spec.splits = vec![Split { bytes: BLOCK, ..Split::default() }; maps as usize].into();
        submit(state, &spec)
    }

    fn view(state: &State, secs: f64) -> View<'_> {
        View { now: at(secs), state }
    }

    #[test]
    fn work_is_time_without_reading_at_speed_1() {
        let mut state = two_speeds();
        let key = blocks(&mut state, 2, 0);
        for (map, node, end_s) in [(0, 0, 11.0), (1, 1, 21.0)] {
            let attempt = state.launch(key, TaskKey::map(map), NodeId(node), at(0.0));
            state.finish(key, attempt, 0, true, at(end_s));
        }
        // 11 s at speed 1 and 21 s at speed 1/2, each with 1 s of reading, are 10 s of work.
        assert_eq!(observed_work_s(view(&state, 21.0), state.job(key), Kind::Map), Some((10.0, 2.0)));
    }

    #[test]
    fn running_tasks_count_by_their_progress_until_eight_have_finished() {
        let mut state = two_speeds();
        let key = blocks(&mut state, 10, 0);
        let slow = state.launch(key, TaskKey::map(9), NodeId(1), at(0.0));
        state.set_progress(slow, 250_000);
        // 10 s for a quarter: 40 s for the whole, 39 s of it compute at half speed.
        assert_eq!(observed_work_s(view(&state, 10.0), state.job(key), Kind::Map), Some((19.5, 0.25)));
        for map in 0..8 {
            let attempt = state.launch(key, TaskKey::map(map), NodeId(0), at(10.0));
            state.finish(key, attempt, 0, true, at(15.0));
        }
        assert_eq!(observed_work_s(view(&state, 15.0), state.job(key), Kind::Map), Some((4.0, 8.0)));
    }

    #[test]
    fn without_observations_the_prior_holds() {
        let mut state = two_speeds();
        let key = blocks(&mut state, 6, 3);
        let prior = Prior { map: Span::from_millis(500), reduce: Span::from_millis(400) };
        let estimate = with_area(
            Estimate::default(),
            view(&state, 0.0),
            state.job(key),
            &TaskTimes::new(prior, Span::from_secs(1)),
        );
        assert_eq!(estimate.task_work_s.map(|work_s| (work_s * 1e3).round()), PerKind::new(500.0, 400.0));
        // 6 maps of 0.5 s at 6 per second, 3 reduces of 0.4 s at 3 per second.
        assert_eq!(estimate.remaining_area.as_secs_f64().mul_add(1e3, 0.5) as u64, 900);
    }

    #[test]
    fn a_job_of_unknown_size_ranks_by_the_slot_time_it_has_received() {
        let mut state = two_speeds();
        let spec = job(7, 0, 0);
        let key = state.add_job(&spec, 0, true, at(0.0));
        state.set_requested(key, Kind::Map, 1);
        let task = state.add_granted_task(key, Kind::Map);
        state.launch(key, task, NodeId(0), at(0.0));
        let estimate = with_area(Estimate::default(), view(&state, 24.0), state.job(key), &TaskTimes::default());
        // 24 s in one of 12 slots.
        assert_eq!(estimate.remaining_area, Span::from_secs(2));
    }

    /// The maps left, one by one: the part of each split that no finished or running attempt has read.
    fn maps_left_by_splits(job: &Job) -> f64 {
        let read = |split: u32| -> f64 {
            (0..job.task_end(Kind::Map))
                .filter(|&map| job.task(TaskKey::map(map)).split() == split)
                .map(|map| {
                    let progress = f64::from(job.task(TaskKey::map(map)).progress_ppm()) / f64::from(WHOLE_PPM);
                    progress * job.map_bytes(map) as f64 / BLOCK as f64
                })
                .sum()
        };
        (0..job.splits().len() as u32).map(|split| 1.0 - read(split)).sum()
    }

    proptest! {
        #[test]
        fn maps_left_match_the_count_by_splits(steps in prop::collection::vec((0u32..6, 0u32..3, 20u32..1_000_000), 0..30)) {
            let mut state = two_speeds();
            let key = blocks(&mut state, 6, 0);
            for (pick, step, progress_ppm) in steps {
                let map = pick % state.job(key).task_end(Kind::Map);
                let task = TaskKey::map(map);
                let attempt = state.job(key).attempt(task);
                match (state.job(key).task(task).state(), step) {
                    (crate::state::TaskState::Pending, _) if state.nodes().free()[Kind::Map] > 0 => {
                        let node = (0..2).map(NodeId).find(|&node| state.node(node).free(Kind::Map) > 0).unwrap();
                        state.launch(key, task, node, at(0.0));
                    }
                    (crate::state::TaskState::Running, 0) => state.set_progress(attempt, progress_ppm),
                    (crate::state::TaskState::Running, 1) => state.finish(key, attempt, 0, true, at(5.0)),
                    (crate::state::TaskState::Running, _) => {
                        state.request_stop(key, task, PreemptAction::EndEarly);
                        let done = state.job(key).map_bytes(map) * u64::from(progress_ppm) / 1_000_000;
                        // Parts below a hundredth of a split count as a hundredth.
                        if done * 100 >= BLOCK && (state.job(key).map_bytes(map) - done) * 100 >= BLOCK {
                            state.end_early(key, attempt, done, 0, at(5.0));
                        } else {
                            state.end_early(key, attempt, 0, 0, at(5.0));
                        }
                    }
                    _ => {}
                }
            }
            let (fast, slow) = (tasks_left(state.job(key), Kind::Map), maps_left_by_splits(state.job(key)));
            prop_assert!((fast - slow).abs() < 1e-6, "{fast} and {slow}");
        }
    }
}
