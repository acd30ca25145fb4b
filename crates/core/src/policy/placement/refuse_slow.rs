//! Refusing slow nodes: a job leaves a slow node to others if faster nodes will finish its waiting tasks sooner (the threshold rule for
//! slow servers: Lin and Kumar, 1984).
//!
//! With t(n) the time of a task on node n, the job refuses n if
//!
//! `t(n) > (work ahead) / (faster capacity) + (own waiting tasks) / (faster rate) + (shortest time)`,
//!
//! over the types of nodes with a time below `threshold` x t(n): even if all that ranks before it and all its own waiting tasks first went to the
//! faster nodes, its last task would be done there before one that starts here now. The fastest type is never refused, so every job can run. A job
//! some of whose attempts failed refuses no node: it may have to avoid the fast ones (`failures.rs`).
//!
//! A job that would refuse the nodes with its input does not wait for them either (`delay.rs`).

use super::Placement;
use crate::ids::Kind;
use crate::policy::ranking::{Ranking, TypeSet, Visits};
use crate::reason::SlowNode;
use crate::state::{Job, JobKey, NodeTable, NodeType, State};
use crate::units::Span;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// The work of a job's waiting tasks, in seconds at speed 1.
pub fn waiting_work_s(job: &Job, kind: Kind) -> f64 {
    f64::from(job.counts(kind).demand()) * job.estimate().task_work_s[kind]
}

/// Launch of an attempt, which no speed shortens, in seconds.
const LAUNCH_S: f64 = 1.0;

/// The time of one task of a job on a node of a type, its input at hand, in seconds.
pub fn task_time_s(job: &Job, kind: Kind, on: &NodeType) -> f64 {
    let read_s = match kind {
        Kind::Map => job.input_bytes() as f64 / job.splits().len().max(1) as f64 / on.disk_bytes_per_s,
        Kind::Reduce => 0.0,
    };
    LAUNCH_S + read_s + job.estimate().task_work_s[kind] / on.speed
}

/// A type of nodes compared with the faster ones, for the tasks of one job.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    here_s: f64,
    /// The shortest time of a task; infinite if no type is faster.
    shortest_s: f64,
    /// Tasks of the job, and work of others, that the faster types do per second.
    tasks_per_s: f64,
    work_per_s: f64,
}

impl Comparison {
    /// The job refuses the type while the work ahead of it is below this, given its own waiting tasks.
    fn limit_s(&self, waiting: f64) -> f64 {
        let limit = self.limit();
        limit.alone_s - waiting * limit.per_waiting_s
    }

    fn limit(&self) -> Limit {
        if self.tasks_per_s == 0.0 {
            return Limit::NEVER_REFUSED;
        }
        Limit {
            alone_s: (self.here_s - self.shortest_s) * self.work_per_s,
            per_waiting_s: self.work_per_s / self.tasks_per_s,
        }
    }

    fn elsewhere_s(&self, waiting: f64, ahead_s: f64) -> f64 {
        ahead_s / self.work_per_s + waiting / self.tasks_per_s + self.shortest_s
    }
}

/// Compares each type with the faster ones.
fn compare(threshold: f64, job: &Job, kind: Kind, types: &[NodeType]) -> SmallVec<[Comparison; 4]> {
    let time_s = |of: &NodeType| task_time_s(job, kind, of);
    let times_s: SmallVec<[f64; 4]> = types.iter().map(time_s).collect();
    // A job avoids nodes where its tasks failed, which may be the fastest.
    let refuses = job.failed_on().is_empty();
    let has_slots = |&at: &usize| refuses && types[at].slots[kind] > 0;
    let mut by_time: SmallVec<[usize; 4]> = (0..types.len()).filter(has_slots).collect();
    by_time.sort_unstable_by(|&a, &b| times_s[a].total_cmp(&times_s[b]));
    let shortest_s = by_time.first().map_or(f64::INFINITY, |&at| times_s[at]);
    let compare = |here_s: f64| {
        let faster = by_time.iter().take_while(|&&at| times_s[at] < threshold * here_s);
        let (tasks_per_s, work_per_s) = faster.fold((0.0, 0.0), |(tasks, work), &at| {
            let slots = f64::from(types[at].slots[kind]);
            (tasks + slots / times_s[at], work + slots * types[at].speed)
        });
        Comparison { here_s, shortest_s, tasks_per_s, work_per_s }
    };
    times_s.iter().map(|&here_s| compare(here_s)).collect()
}

/// The times compared if a job refuses a type of nodes, given the work of jobs that rank before it, in seconds at speed 1.
pub fn too_slow(
    threshold: f64,
    job: &Job,
    kind: Kind,
    here: usize,
    types: &[NodeType],
    ahead_s: f64,
) -> Option<SlowNode> {
    if types.len() < 2 {
        return None;
    }
    let comparison = compare(threshold, job, kind, types)[here];
    let waiting = f64::from(job.counts(kind).demand());
    (ahead_s < comparison.limit_s(waiting)).then(|| SlowNode {
        here: Span::from_secs_f64(comparison.here_s),
        elsewhere: Span::from_secs_f64(comparison.elsewhere_s(waiting, ahead_s)),
    })
}

/// True if some input of a job is on a type of nodes that it would not refuse, so that waiting for such a node makes sense.
pub(super) fn has_fast_input(threshold: f64, job: &Job, nodes: &NodeTable) -> bool {
    let types = nodes.types();
    if types.len() < 2 {
        return true;
    }
    let waiting = f64::from(job.counts(Kind::Map).demand());
    let comparisons = compare(threshold, job, Kind::Map, types);
    let is_fast = |at: usize| types[at].slots[Kind::Map] > 0 && comparisons[at].limit_s(waiting) <= 0.0;
    (0..types.len()).any(|at| job.has_input_on_type(at) && is_fast(at))
}

/// Which types of nodes a job refuses if no other job is before it.
pub fn refused_types(threshold: f64, job: &Job, kind: Kind, types: &[NodeType]) -> SmallVec<[bool; 4]> {
    let waiting = f64::from(job.counts(kind).demand());
    compare(threshold, job, kind, types).into_iter().map(|of| of.limit_s(waiting) > 0.0).collect()
}

/// The work ahead of a job below which it refuses a type: `alone_s`, less `per_waiting_s` for each of its waiting tasks.
#[derive(Clone, Copy, Debug)]
struct Limit {
    alone_s: f64,
    per_waiting_s: f64,
}

impl Limit {
    const NEVER_REFUSED: Limit = Limit { alone_s: f64::NEG_INFINITY, per_waiting_s: 0.0 };
}

/// Which types of nodes the queued jobs refuse. The work ahead of a job is computed with the estimates, so that what it refuses changes in
/// between only with its own waiting tasks.
#[derive(Debug, Default)]
pub struct Refusals {
    /// None if no node is refused.
    threshold: Option<f64>,
    types: usize,
    /// The version of the types that the limits are computed from; none at first.
    version: Option<u64>,
    /// By job, then by type.
    limits: Vec<Limit>,
    jobs: Vec<RefusingJob>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RefusingJob {
    ahead_s: f64,
    /// The work of one task, the job, and whether attempts of it failed, that the limits are computed from.
    task_work_s: f64,
    sequence: u32,
    has_failed: bool,
}

impl Refusals {
    /// Those of a policy for placement.
    pub fn new(placement: &Placement) -> Refusals {
        Refusals { threshold: placement.refuse_slow, ..Refusals::default() }
    }

    /// True if there are nodes that jobs may refuse.
    #[inline]
    pub fn are_possible(&self) -> bool {
        self.types > 1
    }

    /// Computes the work ahead of each job that needs a slot; returns these jobs, if what they refuse may have changed.
    pub fn update(&mut self, ranking: &Ranking, kind: Kind, state: &State) -> Vec<JobKey> {
        let (nodes, mut queued) = (state.nodes(), Vec::new());
        if self.threshold.is_none() {
            return queued;
        }
        if self.version != Some(nodes.types_version()) {
            let (types, version) = (nodes.types().len(), Some(nodes.types_version()));
            *self = Refusals { threshold: self.threshold, types, version, ..Refusals::default() };
        }
        if self.types < 2 {
            return queued;
        }
        let mut ahead_s = 0.0;
        let _ = ranking.search::<()>(nodes.slots()[kind], &|_| true, Visits::All, &mut |job| {
            self.set_work_ahead(job, ahead_s);
            ahead_s += waiting_work_s(state.job(job), kind);
            queued.push(job);
            ControlFlow::Continue(())
        });
        queued
    }

    /// Sets the work of the jobs that rank before a job.
    pub fn set_work_ahead(&mut self, key: JobKey, ahead_s: f64) {
        if self.types > 1 {
            self.entry(key).ahead_s = ahead_s;
        }
    }

    /// The work of the jobs that rank before a job, when it was last computed.
    pub fn work_ahead_s(&self, key: JobKey) -> f64 {
        self.jobs.get(key.index()).map_or(0.0, |job| job.ahead_s)
    }

    fn entry(&mut self, key: JobKey) -> &mut RefusingJob {
        if self.jobs.len() <= key.index() {
            self.jobs.resize(key.index() + 1, RefusingJob::default());
            self.limits.resize((key.index() + 1) * self.types, Limit::NEVER_REFUSED);
        }
        &mut self.jobs[key.index()]
    }

    /// The types that a job refuses now.
    #[inline]
    pub fn of(&mut self, key: JobKey, job: &Job, kind: Kind, nodes: &NodeTable) -> TypeSet {
        let Some(threshold) = self.threshold.filter(|_| self.types > 1) else { return 0 };
        debug_assert_eq!(self.version, Some(nodes.types_version()), "refusals follow every change of nodes");
        let entry = self.entry(key);
        let ahead_s = entry.ahead_s;
        let from = (job.estimate().task_work_s[kind], job.sequence(), !job.failed_on().is_empty());
        let is_current = (entry.task_work_s, entry.sequence, entry.has_failed) == from;
        (entry.task_work_s, entry.sequence, entry.has_failed) = from;
        let limits = &mut self.limits[key.index() * self.types..][..self.types];
        if !is_current {
            let comparisons = compare(threshold, job, kind, nodes.types());
            limits.iter_mut().zip(comparisons).for_each(|(limit, comparison)| *limit = comparison.limit());
        }
        let waiting = f64::from(job.counts(kind).demand());
        let refuses = |limit: &Limit| ahead_s < limit.alone_s - waiting * limit.per_waiting_s;
        limits.iter().rev().fold(0, |refused, limit| refused << 1 | TypeSet::from(refuses(limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{JobSpec, NodeSpec, Split};
    use crate::ids::{NodeId, PerKind, RackId, TaskKey};
    use crate::policy::placement::{Offer, Placement};
    use crate::policy::test_state::{at, job, submit};
    use crate::state::{Estimate, JobKey, State};
    use crate::units::WHOLE_PPM;
    use proptest::prelude::*;

    const THRESHOLD: f64 = 0.75;

    fn node_of(speed_ppm: u32, map_slots: u16) -> NodeSpec {
        NodeSpec {
            name: String::new(),
            rack: RackId(0),
            map_slots,
            reduce_slots: 1,
            speed_ppm,
            disk_bytes_per_s: 1_000_000,
            disk_bytes: 1,
        }
    }

    fn state_of(nodes: &[(u32, u16)]) -> State {
        let mut state = State::default();
        for (node, &(speed_ppm, slots)) in (0..).zip(nodes) {
            state.add_node(NodeId(node), &node_of(speed_ppm, slots));
        }
        state
    }

    fn with_work(state: &mut State, spec: &JobSpec, work_s: f64) -> JobKey {
        let key = submit(state, spec);
        let task_work_s = PerKind::new(work_s, work_s);
        state.job_mut(key).set_estimate(Estimate { task_work_s, ..Estimate::default() });
        key
    }

    #[test]
    fn a_few_tasks_wait_for_the_fast_node_and_many_do_not() {
        // 20 s of work: 21 s on the fast node with two slots, 101 s on the slow one. The fast slots do 2 tasks in 21 s.
        let mut state = state_of(&[(WHOLE_PPM, 2), (WHOLE_PPM / 5, 2)]);
        let few = with_work(&mut state, &job(0, 7, 0), 20.0);
        let many = with_work(&mut state, &job(1, 8, 0), 20.0);
        let refuses = |key: JobKey, node, ahead_s| {
            let nodes = state.nodes();
            let here = nodes.type_of(NodeId(node));
            too_slow(THRESHOLD, state.job(key), Kind::Map, here, nodes.types(), ahead_s)
        };
        // 7 x 21 / 2 + 21 = 94.5 s; 8 x 21 / 2 + 21 = 105 s.
        let slow = refuses(few, 1, 0.0).unwrap();
        assert_eq!((slow.here, slow.elsewhere), (Span::from_secs(101), Span::from_millis(94_500)));
        assert_eq!(refuses(many, 1, 0.0), None);
        assert_eq!(refuses(few, 1, 14.0), None, "7 s of work of others on each fast slot");
        assert_eq!(refuses(few, 0, 0.0), None, "the fastest node is never refused");
    }

    #[test]
    fn a_job_waits_only_for_local_nodes_that_it_would_not_refuse() {
        let mut state = state_of(&[(WHOLE_PPM, 2), (WHOLE_PPM, 2), (WHOLE_PPM / 5, 2)]);
        let input_on = |id, host| {
            let split = Split { bytes: 1, hosts: [NodeId(host)].into_iter().collect() };
            JobSpec { splits: [split].into(), ..job(id, 1, 0) }
        };
        let [fast, slow] = [(0, 1), (1, 2)].map(|(id, host)| with_work(&mut state, &input_on(id, host), 20.0));
        for key in [fast, slow] {
            let (jobs, nodes) = state.jobs_and_nodes();
            jobs.get_mut(key).set_input_types(|host| nodes.type_of(host));
        }
        let placement =
            Placement { node_locality_delay: Span::from_secs(3), refuse_slow: Some(THRESHOLD), ..Placement::default() };
        let (jobs, nodes) = state.jobs_and_nodes();
        let offer = Offer { node: NodeId(0), nodes, now: at(0.0) };
        let mut takes = |key: JobKey| placement.choose(jobs.get_mut(key), key, Kind::Map, offer).is_some();
        assert!(!takes(fast), "it waits for node 1");
        assert!(takes(slow), "node 2 has its input and is too slow");
    }

    /// The reference: the tasks ahead and then its own waiting ones flow to the faster slots, each slot as fast as its type, and one more
    /// task then runs where it is shortest.
    fn elsewhere_by_flow(job: &Job, types: &[NodeType], here: usize, ahead_s: f64) -> Option<f64> {
        let here_s = task_time_s(job, Kind::Map, &types[here]);
        let is_faster =
            |of: &&NodeType| of.slots[Kind::Map] > 0 && task_time_s(job, Kind::Map, of) < THRESHOLD * here_s;
        let faster: Vec<&NodeType> = types.iter().filter(is_faster).collect();
        let shortest = faster.iter().map(|of| task_time_s(job, Kind::Map, of)).min_by(f64::total_cmp)?;
        let mut clock = 0.0;
        let (mut ahead, mut own) = (ahead_s, f64::from(job.counts(Kind::Map).demand()));
        let step = 0.01;
        while ahead > 0.0 || own > 0.0 {
            for of in &faster {
                let slots = f64::from(of.slots[Kind::Map]);
                if ahead > 0.0 {
                    ahead -= step * slots * of.speed;
                } else {
                    own -= step * slots / task_time_s(job, Kind::Map, of);
                }
            }
            clock += step;
        }
        Some(clock + shortest)
    }

    proptest! {
        #[test]
        fn the_rule_matches_a_flow_of_tasks(
            nodes in prop::collection::vec((1u32..20, 1u16..4), 2..5),
            (maps, work, ahead) in (1u32..20, 1u32..30, 0u32..100),
        ) {
            let nodes: Vec<(u32, u16)> = nodes.into_iter().map(|(speed, slots)| (speed * 200_000, slots)).collect();
            let mut state = state_of(&nodes);
            let key = with_work(&mut state, &job(0, maps, 0), f64::from(work));
            let running = state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
            let _ = running;
            let (job, types) = (state.job(key), state.nodes().types());
            for here in 0..types.len() {
                let here_s = task_time_s(job, Kind::Map, &types[here]);
                let slow = too_slow(THRESHOLD, job, Kind::Map, here, types, f64::from(ahead));
                match elsewhere_by_flow(job, types, here, f64::from(ahead)) {
                    None => prop_assert_eq!(slow, None),
                    Some(elsewhere_s) if (here_s - elsewhere_s).abs() > 0.1 => {
                        prop_assert_eq!(slow.is_some(), here_s > elsewhere_s, "{} and {}", here_s, elsewhere_s);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
