//! Runs that continue from the state of another cluster, or of another run, instead of beginning with an empty cluster.
//!
//! What the core knows comes from its snapshot: jobs, attempts, paused reduces, reservations, timers, nodes that are down or excluded. What only a backend
//! knows is how far the attempts are; the caller says that. Map output is where it was written. Attempts that have been requested to stop get the request
//! again, and a reduce that fetches begins with what it has fetched. Contention, failures and jobs to come go on as in any run.

use super::Simulation;
use crate::attempts::{Activity, PausedReduce, Running, StopKind, StopRequest};
use crate::cluster::Cluster;
use crate::contention::TaskWork;
use crate::event_queue::{EventQueue, NONE, SimEvent};
use crate::tasks::{MapRun, ReduceProgress, ReduceRun};
use crate::workload::{JobPlan, Workload};
use giveway_core::state::Job;
use giveway_core::{
    Action, AttemptId, Event, Kind, Lifecycle, Locality, Policy, PreemptAction, Refusal, RunningAttempt, SetupError,
    Span, TaskKey, Time, Work, refusal,
};
use rustc_hash::FxHashMap;
use thiserror::Error;

/// Where a run continues.
#[derive(Clone, Copy, Debug)]
pub struct ResumePoint<'a> {
    /// The instant of the snapshot.
    pub at: Time,
    /// [`Event::Restored`] with a snapshot whose live jobs are the first jobs of the workload, by their numbers. The cluster has the nodes of the snapshot,
    /// those that are down included.
    pub restored: &'a Event,
    /// How far attempts are that run or are paused. A map without an entry has just begun; a reduce without one has done what it has reported.
    pub work: &'a [(AttemptId, AttemptWork)],
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttemptWork {
    /// A map, or a reduce that has fetched everything: how long it has worked, and how much longer it has to, alone on its node.
    Works {
        /// How long it has worked.
        done: Span,
        /// How much longer it has to.
        left: Span,
    },
    /// A reduce that fetches map output, or waits for it.
    Fetches {
        /// The fraction (0-1) of its input that it has.
        fetched: f64,
    },
}

/// Why a run cannot continue from a snapshot.
#[derive(Clone, Debug, Error)]
pub enum ResumeError {
    /// The policy is not valid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The core refused the snapshot.
    #[error("the snapshot is refused: {0:?}")]
    Refused(Refusal),
    /// The cluster or the workload is not that of the snapshot.
    #[error(
        "the snapshot has other nodes or jobs than the cluster and the workload; number its jobs as in the workload"
    )]
    Mismatch,
}

impl<'a> Simulation<'a> {
    /// Sets up a run that continues from a point.
    pub fn resume(
        cluster: &'a Cluster,
        workload: &'a Workload,
        policy: Policy,
        seed: u64,
        point: &ResumePoint<'_>,
    ) -> Result<Simulation<'a>, ResumeError> {
        let mut simulation = Simulation::new(cluster, workload, policy, seed)?;
        simulation.begin_at(point.at);
        let mut actions = Vec::new();
        simulation.scheduler.handle(point.at, point.restored, &mut actions);
        if let Some(refusal) = refusal(&actions) {
            return Err(ResumeError::Refused(refusal));
        }
        let Event::Restored(snapshot) = point.restored else { return Err(ResumeError::Mismatch) };
        simulation.resume_nodes()?;
        simulation.resume_jobs()?;
        let known: FxHashMap<AttemptId, AttemptWork> = point.work.iter().copied().collect();
        let mut running: Vec<RunningAttempt> = Lifecycle::restored(snapshot).iter().copied().collect();
        running.sort_unstable_by_key(|attempt| attempt.id);
        running.iter().for_each(|attempt| simulation.resume_attempt(attempt, known.get(&attempt.id).copied()));
        simulation.resume_paused(&known);
        for attempt in &running {
            let Some(stop) = attempt.stop else { continue };
            let kind = match stop.action {
                PreemptAction::Pause => StopKind::Pause,
                PreemptAction::EndEarly => StopKind::EndEarly,
                PreemptAction::Kill => StopKind::Kill,
            };
            simulation.send_stop_request(attempt.node.0, StopRequest { attempt: attempt.id, kind }, None);
        }
        actions.iter().for_each(|action| match action {
            Action::SetTimer { timer, at } => simulation.set_timer(*timer, *at),
            other => unreachable!("a snapshot is restored without {other:?}"),
        });
        simulation.begin_to_offer();
        Ok(simulation)
    }

    /// Sets the clock, and forgets what was to happen before.
    fn begin_at(&mut self, at: Time) {
        (self.now, self.last_progress, self.started) = (at, at, true);
        let mut before = std::mem::replace(&mut self.queue, EventQueue::new(self.cluster.heartbeat));
        while let Some((due, event)) = before.pop() {
            if due > at && matches!(event, SimEvent::NodeFailure { .. }) {
                self.queue.push(due, event);
            }
        }
    }

    fn resume_nodes(&mut self) -> Result<(), ResumeError> {
        let nodes = self.scheduler.state().nodes();
        if nodes.len() != self.nodes.len() {
            return Err(ResumeError::Mismatch);
        }
        for (node, (_, known)) in self.nodes.iter_mut().zip(nodes.iter()) {
            (node.up, node.core_sees_up) = (known.is_up(), known.is_up());
        }
        Ok(())
    }

    /// Takes over the live jobs, with the output of their maps.
    fn resume_jobs(&mut self) -> Result<(), ResumeError> {
        let Simulation { scheduler, shuffle, jobs, stats, workload, now, .. } = self;
        let state = scheduler.state();
        for (number, key) in state.jobs().by_submission().into_iter().enumerate() {
            let job = state.job(key);
            let plan = workload.jobs.get(number).filter(|plan| plan.id == job.id()).ok_or(ResumeError::Mismatch)?;
            stats.jobs_submitted += 1;
            if job.is_closed() {
                stats.jobs_closed += 1;
                continue;
            }
            let output_bytes = plan.map_output_bytes.saturating_mul(u64::from(plan.maps));
            let maps = if plan.reduces > 0 { job.task_end(Kind::Map).max(1) } else { 0 };
            let shuffle_id = shuffle.open(maps, output_bytes, plan.reduces);
            jobs[number].shuffle_id = shuffle_id;
            if plan.reduces > 0 {
                for output in scheduler.map_outputs(job.id()) {
                    let bytes = MapRun::new(plan, output.start_bytes, output.bytes).output_bytes();
                    shuffle.add_output(*now, shuffle_id, output.attempt.task.index, bytes, output.node.0);
                }
                if job.task_end(Kind::Map) == 0 {
                    // Reduces without maps, as of an application whose slots are all of one kind, have their input.
                    shuffle.add_output(*now, shuffle_id, 0, output_bytes, 0);
                }
            }
        }
        stats.max_live_jobs = stats.jobs_submitted;
        if let Some(next) = workload.jobs.get(stats.jobs_submitted) {
            self.queue.push(next.submit.max(self.now), SimEvent::JobArrival);
        }
        self.queue_fetch_deadlines();
        Ok(())
    }

    fn resume_attempt(&mut self, attempt: &RunningAttempt, work: Option<AttemptWork>) {
        let RunningAttempt { id, node, .. } = *attempt;
        let plan = &self.workload.jobs[id.task.job.0 as usize];
        let is_closed = self.jobs[id.task.job.0 as usize].shuffle_id == NONE;
        let (running, end) = match (attempt.work, work) {
            (Work::Map { start_bytes, bytes, .. }, work) => {
                let map = MapRun::new(plan, start_bytes, bytes);
                let alone = map.work(plan, &self.node_rates[node.0 as usize], Locality::Node, 1.0);
                let (done, left) = match work {
                    Some(AttemptWork::Works { done, left }) => (done, left),
                    Some(AttemptWork::Fetches { .. }) | None => (Span::ZERO, alone.span),
                };
                let end = self.begin_work(node.0, id, self.now, TaskWork { span: left, ..alone });
                let key = if map.is_whole(plan) { NONE } else { self.attempts.add(id, node, Activity::Map(map)) };
                (Running::new(id, key, before(self.now, done)), end)
            }
            (Work::Reduce { .. }, Some(AttemptWork::Works { done, left })) => {
                let from = before(self.now, done);
                let sorting = |progress| {
                    let mut reduce = ReduceRun::new(progress);
                    let rates = &self.node_rates[node.0 as usize];
                    let alone = reduce.sort(from, plan, &self.cluster.costs, rates, 1.0);
                    (reduce, alone)
                };
                let (whole, (mut reduce, mut alone)) = (done + left, sorting(ReduceProgress::default()));
                if whole < alone.span {
                    // It was paused before, or is short. A later pause must not give it more work.
                    let reduced = 1.0 - whole.as_secs_f64() / alone.span.as_secs_f64();
                    (reduce, alone) = sorting(ReduceProgress { fetched: 1.0, sorted: 1.0, reduced });
                }
                let end = self.begin_work(node.0, id, self.now, TaskWork { span: left, ..alone });
                let key = self.attempts.add(id, node, Activity::Reduce(reduce));
                (Running::new(id, key, before(self.now, done)), end)
            }
            (Work::Reduce { .. }, work) => {
                let progress = match work {
                    Some(AttemptWork::Fetches { fetched }) => ReduceProgress { fetched, ..ReduceProgress::default() },
                    _ => self.reported(id.task.key(), plan),
                };
                let key = self.attempts.add(id, node, Activity::Reduce(ReduceRun::new(progress)));
                let end = if progress.fetched < 1.0 || is_closed {
                    let version = self.attempts[key].version;
                    self.queue.push(self.now, SimEvent::ReduceLaunched { attempt: key, version });
                    Time::NEVER
                } else {
                    self.sort(key, self.now)
                };
                (Running::new(id, key, self.now), end)
            }
        };
        self.nodes[node.0 as usize].occupy_slot(id.task.kind, running, end);
        self.schedule_report(node.0, end);
        self.follow_contention(node.0);
    }

    /// The state that paused reduces have left on their nodes.
    fn resume_paused(&mut self, known: &FxHashMap<AttemptId, AttemptWork>) {
        let state = self.scheduler.state();
        let on_node =
            |job: &Job, reduce: u32| (job.attempt(TaskKey::reduce(reduce)), job.task(TaskKey::reduce(reduce)).node());
        let live = state.jobs().iter().filter(|(_, job)| !job.is_closed());
        let paused = live.flat_map(|(_, job)| job.paused().iter().map(move |&(reduce, _)| on_node(job, reduce)));
        for (attempt, node) in paused.collect::<Vec<_>>() {
            let number = attempt.task.job.0 as usize;
            let progress = match known.get(&attempt) {
                Some(AttemptWork::Works { done, left }) => ReduceProgress {
                    fetched: 1.0,
                    sorted: 1.0,
                    reduced: done.as_secs_f64() / (done.as_secs_f64() + left.as_secs_f64()).max(1e-6),
                },
                Some(AttemptWork::Fetches { fetched }) => {
                    ReduceProgress { fetched: *fetched, ..ReduceProgress::default() }
                }
                None => self.reported(attempt.task.key(), &self.workload.jobs[number]),
            };
            self.jobs[number].paused_reduces += 1;
            self.nodes[node.0 as usize].paused.push(PausedReduce { attempt, progress });
        }
    }

    /// The progress that a reduce of a job has reported.
    fn reported(&self, task: TaskKey, plan: &JobPlan) -> ReduceProgress {
        let state = self.scheduler.state();
        let job = state.find(plan.id).map(|key| state.job(key));
        job.map_or_else(ReduceProgress::default, |job| ReduceProgress::of_ppm(job.task(task).progress_ppm()))
    }

    /// Lets nodes with free slots offer them if tasks are pending, as after any event.
    fn begin_to_offer(&mut self) {
        (0..self.nodes.len() as u32).for_each(|node| self.update_free_slots(node));
        (self.state_changed, self.event_sent) = (true, true);
        // A step needs an event. This one finds no expired timer, and then all offer.
        self.queue.push(self.now, SimEvent::TimersDue);
    }
}

/// The instant that is this long before another; not before zero.
fn before(at: Time, span: Span) -> Time {
    Time(at.0.saturating_sub(span.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::observe::Observer;
    use giveway_core::policy::catalog;
    use giveway_core::{JobId, NodeId};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// When jobs were closed.
    #[derive(Default)]
    struct Ends(Vec<(JobId, Time)>);

    impl Observer for Ends {
        fn observe(&mut self, now: Time, _event: &Event, actions: &[Action]) {
            self.0.extend(actions.iter().filter_map(|action| match action {
                Action::CloseJob { job, .. } => Some((*job, now)),
                _ => None,
            }));
        }
    }

    /// How far the attempts of a run are; none if some are being stopped, which a snapshot does not describe exactly.
    fn true_work(simulation: &Simulation<'_>) -> Option<Vec<(AttemptId, AttemptWork)>> {
        let now = simulation.now;
        let mut work = Vec::new();
        for (running, end) in simulation.nodes.iter().flat_map(|node| node.running()) {
            let works = |from: Time| AttemptWork::Works { done: now.since(from), left: end.since(now) };
            let of = match simulation.attempts.activity(running.key) {
                None | Some(Activity::Map(_)) => works(running.ready),
                Some(Activity::Stopping(_)) => return None,
                Some(Activity::Reduce(reduce)) if reduce.sort_from() != Time::NEVER => works(reduce.sort_from()),
                Some(Activity::Reduce(reduce)) => AttemptWork::Fetches {
                    fetched: reduce.fetch.map_or(0.0, |fetch| simulation.shuffle.fetched(now, fetch)),
                },
            };
            work.push((running.id(), of));
        }
        for paused in simulation.nodes.iter().flat_map(|node| &node.paused) {
            if paused.progress.fetched < 1.0 {
                work.push((paused.attempt, AttemptWork::Fetches { fetched: paused.progress.fetched }));
            }
        }
        Some(work)
    }

    /// A workload of small and large jobs that come one after the other. The core's timers begin with the first: at a moment of no heartbeat, because which of
    /// two events of the same instant comes first is not part of a snapshot.
    fn workload(jobs: &[(u32, u32, u32)]) -> Workload {
        let mut at_s = 0.0137;
        let plans = (0..).zip(jobs).map(|(number, &(maps, reduces, gap_s))| {
            at_s += f64::from(gap_s);
            let mut plan = fixture::plan(number, at_s, maps, reduces);
            plan.map_compute = Span::from_secs_f64(7.0 + 1.37 * f64::from(number));
            plan.reduce_compute = Span::from_secs_f64(11.0 + 2.61 * f64::from(number));
            plan
        });
        Workload::from_jobs("test", Default::default(), plans.collect())
    }

    /// The ends of jobs of a whole run, and of one that continues from a moment of it with what was true then, with that moment.
    #[allow(clippy::type_complexity)]
    fn ends(
        cluster: &Cluster,
        workload: &Workload,
        policy: &str,
        moment: f64,
    ) -> Option<(Time, Vec<(JobId, Time)>, Vec<(JobId, Time)>)> {
        let policy = catalog::by_name(policy).unwrap();
        let mut whole = Ends::default();
        let mut run = Simulation::new(cluster, workload, policy.clone(), 1).unwrap();
        let end = run.run(&mut whole).end;
        let from = Time::from_secs_f64(end.as_secs_f64() * moment);
        let mut run = Simulation::new(cluster, workload, policy.clone(), 1).unwrap();
        while run.now < from
            || run.queue.has_event_at(run.now)
            || run.undetected_failures > 0
            || true_work(&run).is_none()
        {
            if !run.step(&mut ()) {
                return None;
            }
        }
        let work = true_work(&run)?;
        let (snapshot, live) = run.scheduler.snapshot().numbered();
        if live.is_empty() {
            return None;
        }
        let plans = live.iter().map(|job| workload.jobs[job.0 as usize].clone());
        let later = workload.jobs.iter().filter(|plan| plan.id.0 as usize >= run.stats.jobs_submitted);
        let rest = Workload::from_jobs("rest", Default::default(), plans.chain(later.cloned()).collect());
        let number_of = |job: JobId| live.iter().position(|of| *of == job).map(|number| JobId(number as u32)).unwrap();
        let work: Vec<_> = work
            .into_iter()
            .map(|(mut attempt, work)| {
                attempt.task.job = number_of(attempt.task.job);
                (attempt, work)
            })
            .collect();
        let restored = Event::Restored(Box::new(snapshot));
        // Nothing happens in this microsecond, and heartbeats of the present instant are over.
        let point = ResumePoint { at: Time(run.now.0 + 1), restored: &restored, work: &work };
        let mut resumed = Ends::default();
        let stats = Simulation::resume(cluster, &rest, policy, 1, &point).unwrap().run(&mut resumed);
        assert_eq!((stats.refusals, stats.jobs_unfinished), (0, 0));
        let later = (run.stats.jobs_submitted as u32..workload.jobs.len() as u32).map(JobId);
        let ids: Vec<JobId> = live.iter().copied().chain(later).collect();
        let mut resumed: Vec<_> = resumed.0.into_iter().map(|(job, at)| (ids[job.0 as usize], at)).collect();
        whole.0.retain(|(_, at)| *at > run.now);
        whole.0.sort_unstable();
        resumed.sort_unstable();
        Some((run.now, whole.0, resumed))
    }

    fn jobs(reduces: std::ops::Range<u32>) -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
        prop::collection::vec((1u32..60, reduces, 0u32..60), 1..7)
    }

    fn cluster(fails: bool) -> Cluster {
        let mut cluster = fixture::cluster(5);
        cluster.costs.launch = Span::ZERO;
        // Where the input of a job is depends on its number, which changes.
        cluster.replicas = 5;
        if fails {
            let fault = crate::cluster::ScriptedFault { node: NodeId(3), at_s: 40.0, back_after_s: None };
            cluster.faults.scripted = vec![fault];
        }
        cluster
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Without noise, a run that continues from a random moment with what was true then ends as the whole one.
        #[test]
        fn a_resumed_run_ends_as_the_whole_one(
            jobs in jobs(0..1),
            moment in 0.02f64..0.98,
            policy in prop::sample::select(vec!["fair", "fifo", "las"]),
            fails in any::<bool>(),
        ) {
            if let Some((from, whole, resumed)) = ends(&cluster(fails), &workload(&jobs), policy, moment) {
                prop_assert_eq!(whole, resumed, "from {}", from);
            }
        }

    }

    proptest! {
        // Always the same cases: in one of some 20,000 a reduce that ends a heartbeat later is lost with its node, or gets another one, and its job ends much later.
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(100) })]

        /// Fetches are computed in steps, which begin anew: a reduce may end a heartbeat sooner or later, and then others begin so.
        #[test]
        fn a_resumed_run_with_reduces_ends_nearly_as_the_whole_one(
            jobs in jobs(0..6),
            moment in 0.02f64..0.98,
            policy in prop::sample::select(vec!["fair", "fifo", "las", "giveway", "hsrtf-pr"]),
            fails in any::<bool>(),
        ) {
            let Some((from, whole, resumed)) = ends(&cluster(fails), &workload(&jobs), policy, moment) else { return Ok(()) };
            prop_assert_eq!(whole.len(), resumed.len());
            for (&(job, at), &(of, resumed)) in whole.iter().zip(&resumed) {
                prop_assert_eq!(job, of);
                let error_s = (at.as_secs_f64() - resumed.as_secs_f64()).abs();
                let left_s = at.since(from).as_secs_f64();
                prop_assert!(error_s <= 6.1f64.max(0.1 * left_s), "{}: {} instead of {}, from {}", job, resumed, at, from);
            }
        }
    }
}
