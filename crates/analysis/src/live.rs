//! The live jobs and their attempts, as a forecast needs them: how long tasks are expected to take, and how long those that run have worked.

use crate::model::{JobRow, Model};
use crate::remaining::JobError;
use crate::task_times::{NOTHING_KNOWN, TaskTime, task_noise, task_time};
use giveway_core::snapshot::Snapshot;
use giveway_core::state::Job;
use giveway_core::{
    AttemptId, JobId, Kind, Lifecycle, NodeId, NodeSpec, PerKind, RunningAttempt, Span, TaskKey, Time, WHOLE_PPM, Work,
};
use giveway_sim::workload::JobPlan;

/// A task is not taken to be shorter than this.
pub(crate) const TASK_TIME_MIN: Span = Span::from_millis(1);

/// Reduces of jobs to come start when this part of the maps is done.
const SLOWSTART_PPM: u32 = 50_000;

/// A live job.
#[derive(Clone, Debug)]
pub(crate) struct LiveJob {
    pub(crate) id: JobId,
    pub(crate) started: bool,
    /// False if it has ended, or if its tasks are not known yet.
    pub(crate) can_end: bool,
    /// False if nothing at all is known of the times of its tasks.
    pub(crate) is_known: bool,
    pub(crate) tasks_left: u64,
    pub(crate) plan: JobPlan,
    pub(crate) error: PerKind<JobError>,
    /// The standard deviation of the logarithms of the times of its tasks.
    pub(crate) noise: PerKind<f64>,
}

/// An attempt that runs, or a reduce that is paused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// With the number of its job.
    pub(crate) attempt: AttemptId,
    /// How long it is expected to take in all, if its job has no error, and how long it has worked; none if it waits for the maps of its job.
    pub(crate) expected_and_worked: Option<(Span, Span)>,
}

/// The speed of a node.
pub(crate) fn speed_of(node: &NodeSpec) -> f64 {
    f64::from(node.speed_ppm) / f64::from(WHOLE_PPM)
}

/// The live jobs of a snapshot by their numbers, and what they have begun. Observed times are those on nodes of this mean speed; in recent
/// jobs they have this relative variance.
pub(crate) fn of(
    model: &Model,
    snapshot: &Snapshot,
    ids: &[JobId],
    speed: f64,
    variance: PerKind<f64>,
) -> (Vec<LiveJob>, Vec<Begun>) {
    let mut running: Vec<RunningAttempt> = Lifecycle::restored(snapshot).iter().copied().collect();
    running.sort_unstable_by_key(|attempt| attempt.id);
    let (mut jobs, mut all_begun) = (Vec::new(), Vec::new());
    for ((key, &id), number) in snapshot.state.jobs().by_submission().into_iter().zip(ids).zip((0..).map(JobId)) {
        let job = snapshot.state.job(key);
        // A job that was submitted before the log began has no row.
        let row = model.job(id).cloned().unwrap_or_else(|| JobRow::new(&job.spec(), job.submitted(), 0));
        let noise = PerKind::from_fn(|kind| task_noise(Some(&row), kind, variance[kind]));
        let times = PerKind::from_fn(|kind| task_time(model, &row, job, kind, noise[kind]));
        let live = Live { snapshot, job, times, speed, noise, now: model.now };
        let first = running.partition_point(|attempt| attempt.id.task.job < number);
        let of_job = running[first..].iter().take_while(|attempt| attempt.id.task.job == number);
        let begun: Vec<Begun> = of_job.map(|attempt| live.running(attempt)).collect();
        jobs.push(live.job(&row, id, number, &begun));
        all_begun.extend(begun);
        all_begun.extend(job.paused().iter().filter(|_| !job.is_closed()).map(|&(reduce, _)| live.paused(reduce)));
    }
    (jobs, all_begun)
}

/// A live job and what is known of its tasks.
struct Live<'a> {
    snapshot: &'a Snapshot,
    job: &'a Job,
    times: PerKind<TaskTime>,
    /// The mean speed of the nodes.
    speed: f64,
    noise: PerKind<f64>,
    now: Time,
}

impl Live<'_> {
    fn job(&self, row: &JobRow, id: JobId, number: JobId, begun: &[Begun]) -> LiveJob {
        let job = self.job;
        let is_known = Kind::BOTH.iter().any(|&kind| self.times[kind].is_known);
        let error = PerKind::from_fn(|kind| {
            let of_kind = begun.iter().filter(|begun| begun.attempt.task.kind == kind);
            let worked = of_kind.filter_map(|begun| begun.expected_and_worked).filter(|(all, _)| !all.is_zero());
            let worked: Vec<f64> = worked.map(|(all, worked)| worked.as_secs_f64() / all.as_secs_f64()).collect();
            JobError::of(if is_known { self.times[kind].error } else { NOTHING_KNOWN }, self.noise[kind], &worked)
        });
        let (maps, reduces) = (job.splits().len() as u32, job.task_end(Kind::Reduce));
        let compute = Kind::BOTH.map(|kind| self.times[kind].mean.scaled(self.speed));
        let plan = plan(row, [maps, reduces], compute);
        LiveJob {
            id,
            started: row.started.is_some() || job.first_launch().is_some(),
            can_end: !job.is_closed() && !job.is_complete(),
            is_known,
            tasks_left: Kind::BOTH.iter().map(|&kind| u64::from(job.left(kind))).sum(),
            plan: JobPlan { id: number, submit: job.submitted(), ..plan },
            error,
            noise: self.noise,
        }
    }

    fn running(&self, attempt: &RunningAttempt) -> Begun {
        let RunningAttempt { id, node, launched, work, .. } = *attempt;
        let key = id.task.key();
        let task = self.job.task(key);
        let is_primary = task.holds_slot() && task.number() == id.number;
        let worked = if is_primary { self.worked(key) } else { self.now.since(launched) };
        let part = match work {
            Work::Map { bytes, .. } => self.part_of_map(bytes),
            Work::Reduce { .. } => 1.0,
        };
        // What must not be preempted, such as an application master, ends with its job.
        let part = if is_primary && task.is_protected() { 0.0 } else { part };
        self.begun(id, node, worked, part)
    }

    fn paused(&self, reduce: u32) -> Begun {
        let key = TaskKey::reduce(reduce);
        self.begun(self.job.attempt(key), self.job.task(key).node(), self.worked(key), 1.0)
    }

    fn begun(&self, attempt: AttemptId, node: NodeId, worked: Span, part: f64) -> Begun {
        let kind = attempt.task.kind;
        let speed = speed_of(self.snapshot.state.node(node).spec());
        let expected = self.times[kind].mean.scaled(part * self.speed / speed.max(1e-6));
        let waits = kind == Kind::Reduce && !self.job.maps_done();
        Begun { attempt, expected_and_worked: (!waits).then_some((expected, worked)) }
    }

    /// How long a task has worked, in all its attempts whose work was kept: a reduce that waits for maps does not.
    fn worked(&self, key: TaskKey) -> Span {
        Span(self.job.service(key, self.now).0.saturating_sub(self.job.wait_for_maps(key, self.now).0))
    }

    /// The part of a mean map that one of this many bytes is.
    fn part_of_map(&self, bytes: u64) -> f64 {
        let mean_bytes = self.job.input_bytes() as f64 / self.job.splits().len().max(1) as f64;
        if mean_bytes < 1.0 { 1.0 } else { (bytes as f64 / mean_bytes).max(0.01) }
    }
}

/// A job with this many tasks of these times at speed 1.
pub(crate) fn plan(row: &JobRow, tasks: [u32; 2], compute: [Span; 2]) -> JobPlan {
    // The simulator needs at least one map; a job without any gets one that takes no time.
    let maps = tasks[0].max(1);
    let output_bytes = row.expected_map_output().unwrap_or(row.input_bytes as f64) as u64;
    JobPlan {
        id: row.id,
        name: row.name.clone(),
        user: row.user.clone(),
        pool: row.pool.clone(),
        priority: row.priority,
        submit: row.submitted,
        group: 0,
        maps,
        map_bytes: row.input_bytes / u64::from(maps),
        map_compute: if tasks[0] == 0 { TASK_TIME_MIN } else { compute[0].max(TASK_TIME_MIN) },
        map_output_bytes: output_bytes / u64::from(maps),
        reduces: tasks[1],
        reduce_compute: compute[1].max(TASK_TIME_MIN),
        reduce_output_bytes: 1,
        slowstart_ppm: SLOWSTART_PPM,
        relative_ppm: PerKind::default(),
        input: None,
    }
}
