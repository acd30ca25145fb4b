//! Speculative execution: which running tasks are stragglers that deserve a second attempt.

use super::placement::{Placement, task_time_s};
use super::{Needs, Policy, PreemptAction, View, estimates};
use crate::ids::{Kind, NodeId, TaskId, TaskKey};
use crate::reason::StragglerReason;
use crate::state::{Job, JobKey, NodeType, TaskState};
use crate::units::{Span, Time, WHOLE_PPM};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// When a task is a straggler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// Its progress rate is below this fraction (0-1) of its job's mean rate.
    pub rate_below: f64,
    /// It has run at least this long.
    pub min_runtime: Span,
    /// A straggling map ends early, so that its work is kept and its rest runs in another attempt, instead of a second attempt at the whole. A
    /// reduce, whose second attempt begins from nothing, gets one only if that will probably be done well before the first.
    #[serde(default)]
    pub end_early: bool,
}

/// A straggling map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StragglingMap {
    /// Its job.
    pub job: JobKey,
    /// The map.
    pub task: TaskKey,
}

/// Where the rest of a straggling map runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescue {
    /// A node with a free slot, or the straggler's own if there is none.
    pub node: NodeId,
    /// The times compared.
    pub reason: StragglerReason,
}

/// The rest must be done in this part of the time that the straggler has left, or it is not worth the launch.
const MIN_GAIN: f64 = 1.5;

/// What a launch and the end of the straggler's present record take, in seconds.
const RESTART_S: f64 = 5.0;

/// A map that has ended early this often is left alone.
const MAX_EARLY_ENDS: u8 = 3;

/// A map without any progress is left alone for this long: it may be about to begin.
const NO_PROGRESS_S: f64 = 30.0;

impl Speculation {
    pub(super) fn needs(&self) -> Needs {
        Needs { attempt_progress: true, remaining_area: self.end_early, ..Needs::NOTHING }
    }

    pub(super) fn preempts_by(&self, action: PreemptAction) -> bool {
        self.end_early && action == PreemptAction::EndEarly
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let valid = self.rate_below > 0.0 && self.rate_below < 1.0;
        if valid { Ok(()) } else { Err("rate_below is a fraction between 0 and 1; write for example 0.5".into()) }
    }

    pub(super) fn spans_mut(&mut self) -> [&mut Span; 1] {
        [&mut self.min_runtime]
    }

    /// The stragglers of a kind that deserve a second attempt at the whole task, job by job. A job with pending tasks has none: a slot is better
    /// spent on those.
    pub fn stragglers(&self, view: View<'_>, kind: Kind) -> VecDeque<TaskId> {
        let mut stragglers = VecDeque::new();
        let jobs = view.state.jobs().iter().map(|(_, job)| job);
        for job in jobs.filter(|job| !job.is_closed() && job.counts(kind).demand() == 0) {
            let mut straggling = self.straggling(view, job, kind);
            if self.end_early {
                straggling.retain(|&key| gains_by_repeating(view, job, key));
            }
            stragglers.extend(straggling.into_iter().map(|key| key.of(job.id())));
        }
        stragglers
    }

    fn straggling(&self, view: View<'_>, job: &Job, kind: Kind) -> Vec<TaskKey> {
        let Some(mean) = estimates::observed_task_time(job, kind, view.now) else { return Vec::new() };
        let running = job.counts(kind).running.iter().map(|&index| TaskKey { kind, index });
        running.filter(|&key| self.is_straggler(job, key, mean.as_secs_f64(), view.now)).collect()
    }

    fn is_straggler(&self, job: &Job, key: TaskKey, mean_s: f64, now: Time) -> bool {
        let task = job.task(key);
        let runtime = now.since(task.launched());
        if task.state() != TaskState::Running || job.is_speculated(key) || runtime < self.min_runtime {
            return false;
        }
        let rate = f64::from(task.progress_ppm()) / f64::from(WHOLE_PPM) / runtime.as_secs_f64().max(1e-6);
        rate < self.rate_below / mean_s.max(1e-6)
    }
}

/// True if a second attempt at the whole of a reduce will probably be done well before the first. Maps end early instead.
fn gains_by_repeating(view: View<'_>, job: &Job, key: TaskKey) -> bool {
    // A reduce that waits for maps, here or elsewhere, is no straggler.
    if key.kind == Kind::Map || !job.maps_done() {
        return false;
    }
    let Some(whole) = estimates::observed_task_time(job, key.kind, view.now) else { return false };
    let done = f64::from(job.task(key).progress_ppm().max(1)) / f64::from(WHOLE_PPM);
    let left_s = job.service(key, view.now).as_secs_f64() * (1.0 / done - 1.0);
    left_s >= MIN_GAIN * (whole.as_secs_f64() + RESTART_S)
}

// Work-conserving speculation.
impl Speculation {
    /// All straggling maps, also of jobs with pending maps: ending one frees a slot and costs none.
    pub fn straggling_maps(&self, view: View<'_>) -> Vec<StragglingMap> {
        let jobs = view.state.jobs().iter().filter(|(_, job)| !job.is_closed() && !job.is_open());
        let maps = |(key, job)| {
            let straggling = self.straggling(view, job, Kind::Map);
            straggling.into_iter().map(move |task| StragglingMap { job: key, task })
        };
        jobs.flat_map(maps).collect()
    }

    /// Where the rest of a straggling map should run; none if it is done sooner where it is.
    pub fn rescue(
        &self,
        view: View<'_>,
        straggler: StragglingMap,
        placement: &Placement,
        free: &mut FreeNodes,
    ) -> Option<Rescue> {
        let job = view.state.job(straggler.job);
        let task = job.task(straggler.task);
        let runtime_s = view.now.since(task.launched()).as_secs_f64();
        let is_new = task.progress_ppm() == 0 && runtime_s < NO_PROGRESS_S;
        if task.preemptions() >= MAX_EARLY_ENDS || is_new {
            return None;
        }
        let done = f64::from(task.progress_ppm().max(1)) / f64::from(WHOLE_PPM);
        let left_s = runtime_s * (1.0 / done - 1.0);
        let whole_s = estimates::observed_task_time(job, Kind::Map, view.now)?.as_secs_f64();
        let again_s = whole_s * estimates::part_of_split(job, straggler.task) * (1.0 - done) + RESTART_S;
        if left_s < MIN_GAIN * again_s {
            return None;
        }
        let node = free.shortest(view, straggler, placement).or_else(|| self.own_node(view, straggler, placement))?;
        let reason = StragglerReason {
            progress_ppm: task.progress_ppm(),
            left: Span::from_secs_f64(left_s),
            again: Span::from_secs_f64(again_s),
            node,
        };
        Some(Rescue { node, reason })
    }

    /// The straggler's own node, unless it straggles because the node is slow.
    fn own_node(&self, view: View<'_>, straggler: StragglingMap, placement: &Placement) -> Option<NodeId> {
        let job = view.state.job(straggler.job);
        let node = job.task(straggler.task).node();
        let nodes = view.state.nodes();
        if !nodes.is_usable(node) {
            return None;
        }
        let Some(threshold) = placement.refuse_slow else { return Some(node) };
        let time_s = |of: &NodeType| task_time_s(job, Kind::Map, of);
        let here_s = time_s(&nodes.types()[nodes.type_of(node)]);
        let is_slow = nodes.types().iter().any(|of| of.slots[Kind::Map] > 0 && time_s(of) < threshold * here_s);
        (!is_slow).then_some(node)
    }
}

/// The nodes with an unreserved free map slot, by type, so that many stragglers do not each search all nodes.
#[derive(Debug)]
pub struct FreeNodes {
    /// Last node first.
    by_type: Vec<Vec<NodeId>>,
}

impl FreeNodes {
    /// The nodes that have one now.
    pub fn of(view: View<'_>) -> FreeNodes {
        let nodes = view.state.nodes();
        let mut by_type = vec![Vec::new(); nodes.types().len()];
        if nodes.free()[Kind::Map] > 0 {
            let free = nodes.ids_usable().filter(|&node| has_free_map_slot(view, node));
            free.for_each(|node| by_type[nodes.type_of(node)].push(node));
        }
        by_type.iter_mut().for_each(|nodes| nodes.reverse());
        FreeNodes { by_type }
    }

    /// The node elsewhere on which a map of the straggler's job is shortest.
    fn shortest(&mut self, view: View<'_>, straggler: StragglingMap, placement: &Placement) -> Option<NodeId> {
        let job = view.state.job(straggler.job);
        let (nodes, own) = (view.state.nodes(), job.task(straggler.task).node());
        let accepted = placement.accepted_nodes(job, straggler.job, Kind::Map, nodes);
        let first_of_type = |free: &mut Vec<NodeId>| {
            // Slots may have been reserved since.
            while free.last().is_some_and(|&node| !has_free_map_slot(view, node)) {
                free.pop();
            }
            free.iter().rev().copied().find(|&node| node != own && has_free_map_slot(view, node))
        };
        let first = self.by_type.iter_mut().filter_map(first_of_type).filter(|&node| accepted.contains(node, nodes));
        let time_s = |node: NodeId| task_time_s(job, Kind::Map, &nodes.types()[nodes.type_of(node)]);
        first.min_by(|&a, &b| time_s(a).total_cmp(&time_s(b)).then(a.cmp(&b)))
    }
}

fn has_free_map_slot(view: View<'_>, node: NodeId) -> bool {
    let node = view.state.node(node);
    usize::from(node.free(Kind::Map)) > node.reservations(Kind::Map).len()
}

/// The node on which a straggler still runs.
pub fn node_of(view: View<'_>, straggler: TaskId) -> Option<NodeId> {
    let job = view.state.job(view.state.find(straggler.job)?);
    let task = job.find_task(straggler.key())?;
    (task.state() == TaskState::Running).then(|| task.node())
}

impl Policy {
    /// The stragglers of a kind that may get a second attempt.
    pub fn stragglers(&self, view: View<'_>, kind: Kind) -> VecDeque<TaskId> {
        self.speculation.map_or(VecDeque::new(), |speculation| speculation.stragglers(view, kind))
    }

    /// The straggling maps that end early, and where their rest runs, one by one: each must have been stopped before the next is asked for.
    pub fn rescues(&self, view: View<'_>) -> Rescues {
        let rules = self.speculation.filter(|speculation| speculation.end_early);
        let stragglers = rules.map_or(Vec::new(), |rules| rules.straggling_maps(view));
        Rescues { rules, stragglers: stragglers.into_iter(), free: FreeNodes::of(view) }
    }
}

/// The straggling maps that may end early.
pub struct Rescues {
    rules: Option<Speculation>,
    stragglers: std::vec::IntoIter<StragglingMap>,
    free: FreeNodes,
}

impl Rescues {
    /// The next map that ends early, and where its rest runs.
    pub fn next(&mut self, view: View<'_>, placement: &Placement) -> Option<(StragglingMap, Rescue)> {
        let rules = self.rules?;
        self.stragglers.find_map(|map| Some((map, rules.rescue(view, map, placement, &mut self.free)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::State;

    /// Two maps launched at 0 s on nodes 0 and 1. The first took 10 s; the second is at 40 % at 20 s. With 50 s for the second, the mean is 30 s.
    fn one_slow_map(maps: u32) -> (State, JobKey) {
        let mut state = cluster(2, 1, 1);
        let job = submit(&mut state, &job(0, maps, 0));
        let first = state.launch(job, TaskKey::map(0), NodeId(0), at(0.0));
        let second = state.launch(job, TaskKey::map(1), NodeId(1), at(0.0));
        state.finish(job, first, 0, false, at(10.0));
        state.set_progress(second, 400_000);
        (state, job)
    }

    fn stragglers(state: &State, rate_below: f64, min_runtime_s: u64) -> Vec<TaskId> {
        let speculation = Speculation { rate_below, min_runtime: Span::from_secs(min_runtime_s), end_early: false };
        speculation.stragglers(View { now: at(20.0), state }, Kind::Map).into()
    }

    #[test]
    fn a_straggler_is_slower_than_a_fraction_of_the_mean_rate() {
        let (state, job) = one_slow_map(2);
        let slow = TaskKey::map(1).of(state.job(job).id());
        // Its rate is 2 % per second, the mean rate 3.33 %, a fraction of 0.6.
        assert_eq!(stragglers(&state, 0.61, 1), [slow]);
        assert_eq!(stragglers(&state, 0.59, 1), []);
    }

    #[test]
    fn a_straggler_has_run_for_the_minimum() {
        let (state, _) = one_slow_map(2);
        assert_eq!(stragglers(&state, 0.9, 20).len(), 1);
        assert_eq!(stragglers(&state, 0.9, 21), []);
    }

    #[test]
    fn a_job_with_pending_tasks_and_a_speculated_task_have_no_stragglers() {
        let (state, _) = one_slow_map(3);
        assert_eq!(stragglers(&state, 0.9, 1), []);
        let (mut state, job) = one_slow_map(2);
        state.launch_speculative(job, TaskKey::map(1), NodeId(0), at(15.0));
        assert_eq!(stragglers(&state, 0.9, 1), []);
    }

    #[test]
    fn a_straggler_is_found_where_it_runs() {
        let (state, job) = one_slow_map(2);
        let view = View { now: at(20.0), state: &state };
        let [done, slow] = [0, 1].map(|map| TaskKey::map(map).of(state.job(job).id()));
        assert_eq!(node_of(view, slow), Some(NodeId(1)));
        assert_eq!(node_of(view, done), None);
    }

    const ENDING: Speculation = Speculation { rate_below: 0.5, min_runtime: Span::from_secs(15), end_early: true };

    /// Two maps took 10 s each, another is at `progress_ppm` after 60 s on node 1 of three nodes with two map slots each.
    fn straggling_at(progress_ppm: u32) -> (State, StragglingMap) {
        let mut state = cluster(3, 2, 1);
        let key = submit(&mut state, &job(0, 4, 0));
        for map in [0, 2] {
            let attempt = state.launch(key, TaskKey::map(map), NodeId(0), at(0.0));
            state.finish(key, attempt, 0, true, at(10.0));
        }
        let slow = state.launch(key, TaskKey::map(1), NodeId(1), at(0.0));
        state.set_progress(slow, progress_ppm);
        (state, StragglingMap { job: key, task: TaskKey::map(1) })
    }

    fn rescue(state: &State, straggler: StragglingMap) -> Option<Rescue> {
        let view = View { now: at(60.0), state };
        let stragglers = ENDING.straggling_maps(view);
        stragglers
            .contains(&straggler)
            .then(|| ENDING.rescue(view, straggler, &Placement::default(), &mut FreeNodes::of(view)))
            .flatten()
    }

    #[test]
    fn the_rest_of_a_straggler_runs_in_a_free_slot_elsewhere() {
        let (state, straggler) = straggling_at(200_000);
        let rescue = rescue(&state, straggler).unwrap();
        // 60 s for a fifth: 240 s left. The mean of 10 s, 10 s and 300 s is 106.67 s; four fifths of it and 5 s are 90.33 s.
        assert_eq!(rescue.node, NodeId(0));
        assert_eq!(rescue.reason.left, Span::from_secs(240));
        assert_eq!(rescue.reason.again, Span(90_333_334));
    }

    #[test]
    fn without_a_free_slot_elsewhere_the_rest_runs_in_its_own_slot() {
        let (mut state, straggler) = straggling_at(200_000);
        let other = submit(&mut state, &job(1, 4, 0));
        for (map, node) in [(0, 0), (1, 0), (2, 2), (3, 2)] {
            state.launch(other, TaskKey::map(map), NodeId(node), at(0.0));
        }
        assert_eq!(rescue(&state, straggler).unwrap().node, NodeId(1));
    }

    #[test]
    fn a_map_that_is_soon_done_or_ended_often_is_left_alone() {
        let (state, straggler) = straggling_at(800_000);
        assert_eq!(rescue(&state, straggler), None, "15 s left, again 11 s: not worth it");
        let (state, straggler) = straggling_at(0);
        assert!(rescue(&state, straggler).is_some(), "no progress in 60 s");
        let view = View { now: at(29.0), state: &state };
        assert_eq!(
            ENDING.rescue(view, straggler, &Placement::default(), &mut FreeNodes::of(view)),
            None,
            "it may be about to begin"
        );
    }

    /// Of three reduces, two took 10 s each; the third is at `progress_ppm` after 60 s.
    fn straggling_reduce_at(maps_done: bool, progress_ppm: u32) -> State {
        let mut state = cluster(3, 2, 1);
        let key = submit(&mut state, &job(0, 1, 3));
        let map = state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
        if maps_done {
            state.finish(key, map, 0, true, at(1.0));
        }
        for reduce in [0, 1] {
            let attempt = state.launch(key, TaskKey::reduce(reduce), NodeId(reduce), at(0.0));
            state.finish(key, attempt, 0, true, at(10.0));
        }
        let slow = state.launch(key, TaskKey::reduce(2), NodeId(2), at(0.0));
        state.set_progress(slow, progress_ppm);
        state
    }

    #[test]
    fn a_reduce_is_repeated_only_if_that_is_sooner_done() {
        let stragglers = |state: &State| ENDING.stragglers(View { now: at(60.0), state }, Kind::Reduce).len();
        // 240 s left; again the mean of 10 s, 10 s and 300 s, and 5 s.
        assert_eq!(stragglers(&straggling_reduce_at(true, 200_000)), 1);
        // 90 s left; again the mean of 10 s, 10 s and 150 s, and 5 s: 62 s, which is no great gain.
        assert_eq!(stragglers(&straggling_reduce_at(true, 400_000)), 0);
        assert_eq!(stragglers(&straggling_reduce_at(false, 200_000)), 0, "it waits for a map");
    }

    #[test]
    fn the_fraction_is_between_0_and_1() {
        for (rate_below, valid) in [(0.0, false), (0.5, true), (1.0, false), (f64::NAN, false)] {
            let speculation = Speculation { rate_below, min_runtime: Span::ZERO, end_early: false };
            assert_eq!(speculation.check().is_ok(), valid, "{rate_below}");
        }
    }
}
