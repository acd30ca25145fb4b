//! Traces as workloads of the simulator.

use crate::topology::TopologyNode;
use crate::{JobOutcome, Oddity, TaskTime, Tasks, Trace, TraceError, TraceJob};
use giveway_core::{JobId, NodeSpec, PerKind, RackId, Span, Tenants, Time, WHOLE_PPM};
use giveway_sim::cluster::{Cluster, Costs, Faults, HeartbeatMode, NodeModel, Stragglers};
use giveway_sim::workload::{JobPlan, RecordedJob, RecordedRun, Workload};

/// Largest number of jobs in a workload, because all of them are in memory.
const MAX_JOBS: usize = 1_000_000;
/// Jobs submitted further from the median job than this are left out: their times are wrong.
const MAX_DISTANCE_US: u64 = 10 * 366 * 86_400 * 1_000_000;
/// Load of a cluster that is made for a trace: the fraction of its slot time that the trace's work fills.
const LOAD: f64 = 0.7;
const MAP_SLOTS: u16 = 4;
const REDUCE_SLOTS: u16 = 2;
const NODES_PER_RACK: usize = 40;
const MAX_NODES: f64 = 100_000.0;
/// A rate at which transfers take no time.
const INSTANT_BYTES_PER_S: u64 = 1 << 50;

/// Reads the rest of a trace as a recorded run; its first job is submitted at time zero. Without a cluster, one is made for it by
/// [`cluster_for`]. Jobs that are left out are counted in the trace's diagnostics.
pub fn to_workload(trace: &mut Trace, cluster: Option<Cluster>) -> Result<RecordedRun, TraceError> {
    let jobs = sorted_jobs(trace)?;
    let cluster = cluster.unwrap_or_else(|| cluster_for(&jobs));
    let recorded = jobs.iter().map(recorded_times).collect();
    let mut shorter = Vec::new();
    let workload = workload_of(trace.name(), jobs, &cluster, &mut |job| shorter.push(job.to_owned()));
    for job in shorter {
        trace.diagnostics_mut().odd(Oddity::ShorterThanCosts, job);
    }
    Ok(RecordedRun { workload, cluster, policy: None, jobs: recorded, left_out: Vec::new() })
}

/// The recorded completion time, where the trace has the end of a job that was not cut short.
fn recorded_times(job: &TraceJob) -> RecordedJob {
    let completion_us = job.finish_us.map(|finish_us| finish_us.saturating_sub(job.submit_us)).filter(|us| *us >= 0);
    match (job.outcome, completion_us) {
        (JobOutcome::Failed, _) => RecordedJob::not_compared("failed when it was recorded"),
        (JobOutcome::Killed, _) => RecordedJob::not_compared("killed when it was recorded"),
        (_, None) => RecordedJob::not_compared("without a recorded end"),
        (_, Some(us)) => {
            RecordedJob { number: None, completion_s: Some(us as f64 / 1e6), wait_s: None, not_compared: None }
        }
    }
}

/// Reads the rest of a trace: its jobs by submission time, without those whose times are wrong. At least one.
pub fn sorted_jobs(trace: &mut Trace) -> Result<Vec<TraceJob>, TraceError> {
    let mut jobs: Vec<TraceJob> = Vec::new();
    while let Some(job) = trace.next() {
        if jobs.len() == MAX_JOBS {
            return Err(TraceError::TooManyJobs { name: trace.name().into(), limit: MAX_JOBS });
        }
        jobs.push(job);
    }
    // The sort is stable: jobs that arrive at the same time keep their order.
    jobs.sort_by_key(|job| job.submit_us);
    let Some(median_us) = jobs.get(jobs.len() / 2).map(|job| job.submit_us) else {
        return Err(TraceError::NoJobs { name: trace.name().into() });
    };
    jobs.retain(|job| {
        let keep = job.submit_us.abs_diff(median_us) <= MAX_DISTANCE_US;
        if !keep {
            trace.diagnostics_mut().odd(Oddity::FarFromOthers, &job.id);
        }
        keep
    });
    Ok(jobs)
}

/// The workload of these jobs, sorted by submission, on a cluster; the first is submitted at time zero. `shorter` is called with each job whose
/// recorded task times are below what the simulator adds on that cluster.
pub fn workload_of(name: &str, jobs: Vec<TraceJob>, cluster: &Cluster, shorter: &mut dyn FnMut(&str)) -> Workload {
    let first_us = jobs.first().map_or(0, |job| job.submit_us);
    let costs = TaskCosts::of(cluster);
    let plans = jobs.into_iter().map(|job| {
        let (plan, is_shorter) = costs.plan(job, first_us);
        if is_shorter {
            shorter(&plan.name);
        }
        plan
    });
    let plans = plans.collect();
    Workload::from_jobs(name, Tenants::default(), plans)
}

/// A cluster of equal nodes on which the work of the jobs, sorted by submission, fills 70 % of the time of the slots that it needs most. If the
/// task times are recorded, reading and writing take no time on it, because they are part of the recorded times.
pub fn cluster_for(jobs: &[TraceJob]) -> Cluster {
    let longest = |tasks: fn(&TraceJob) -> &Tasks| {
        jobs.iter().map(|job| tasks(job).time.span()).max().unwrap_or_default().as_secs_f64()
    };
    let submissions_s = match jobs {
        [first, .., last] => last.submit_us.saturating_sub(first.submit_us) as f64 / 1e6,
        _ => 0.0,
    };
    let span_s = submissions_s.max(longest(|job| &job.maps) + longest(|job| &job.reduces)).max(1.0);
    let work_s = |tasks: fn(&TraceJob) -> &Tasks| jobs.iter().map(|job| tasks(job).total_s()).sum::<f64>();
    let nodes = |work_s: f64, slots: u16| (work_s / span_s / LOAD / f64::from(slots)).ceil();
    let nodes = nodes(work_s(|job| &job.maps), MAP_SLOTS).max(nodes(work_s(|job| &job.reduces), REDUCE_SLOTS));
    let recorded = jobs.iter().filter(|job| matches!(job.maps.time, TaskTime::Recorded(_))).count() * 2 > jobs.len();
    let nodes = nodes.clamp(3.0, MAX_NODES) as usize;
    cluster("synthetic", nodes, recorded)
}

fn cluster(name: &str, nodes: usize, recorded: bool) -> Cluster {
    let node = |number: usize| TopologyNode {
        name: format!("node-{number}"),
        rack: (number / NODES_PER_RACK) as u32,
        vcores: None,
    };
    cluster_of(name, (0..nodes).map(node).collect(), recorded)
}

/// A cluster of these nodes, with the default costs.
pub(crate) fn nodes_of(name: &str, nodes: Vec<TopologyNode>) -> Cluster {
    cluster_of(name, nodes, false)
}

fn cluster_of(name: &str, nodes: Vec<TopologyNode>, recorded: bool) -> Cluster {
    let (disk_bytes_per_s, net_bytes_per_s) =
        if recorded { (INSTANT_BYTES_PER_S, INSTANT_BYTES_PER_S) } else { (80 << 20, 125_000_000) };
    let replicas = nodes.len().min(3) as u32;
    let node = |node: TopologyNode| NodeModel {
        spec: NodeSpec {
            name: node.name,
            rack: RackId(node.rack),
            map_slots: node.vcores.map_or(MAP_SLOTS, |vcores| vcores.clamp(1, 1_000)),
            reduce_slots: node.vcores.map_or(REDUCE_SLOTS, |vcores| (vcores / 2).clamp(1, 1_000)),
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s,
            disk_bytes: 1_000 << 30,
        },
        net_bytes_per_s,
        shared: None,
    };
    let costs = if recorded {
        Costs { launch: Span::ZERO, sort_per_gb: Span::ZERO, ..Costs::default() }
    } else {
        Costs::default()
    };
    Cluster {
        name: name.into(),
        nodes: nodes.into_iter().map(node).collect(),
        heartbeat: Span::from_secs(3),
        reporting: HeartbeatMode::Heartbeat,
        lost_after: Span::from_secs(600),
        block_bytes: 128 << 20,
        replicas,
        cross_rack: 1.0,
        costs,
        noise: 0.0,
        stragglers: Stragglers::default(),
        faults: Faults::default(),
    }
}

/// What the simulator adds to the compute time of tasks on a cluster, on a mean node and with local input.
struct TaskCosts {
    launch_s: f64,
    sort_s_per_byte: f64,
    disk_s_per_byte: f64,
    write_s_per_byte: f64,
}

impl TaskCosts {
    fn of(cluster: &Cluster) -> TaskCosts {
        let nodes = cluster.nodes.len().max(1) as f64;
        let mean = |rate: fn(&NodeModel) -> u64| {
            (cluster.nodes.iter().map(|node| rate(node) as f64).sum::<f64>() / nodes).max(1.0)
        };
        TaskCosts {
            launch_s: cluster.costs.launch.as_secs_f64(),
            sort_s_per_byte: cluster.costs.sort_per_gb.as_secs_f64() / (1u64 << 30) as f64,
            disk_s_per_byte: 1.0 / mean(|node| node.spec.disk_bytes_per_s),
            write_s_per_byte: 1.0 / mean(|node| node.spec.disk_bytes_per_s.min(node.net_bytes_per_s)),
        }
    }

    /// The job on this cluster, and whether a recorded time is shorter than what the simulator adds.
    fn plan(&self, job: TraceJob, first_us: i64) -> (JobPlan, bool) {
        let each = |bytes: u64, tasks: &Tasks| bytes / u64::from(tasks.count.max(1));
        let map_only = job.reduces.count == 0;
        let mut plan = JobPlan {
            id: JobId(0),
            name: job.name,
            user: job.user,
            pool: job.pool,
            priority: job.priority,
            submit: Time(u64::try_from(job.submit_us.saturating_sub(first_us)).unwrap_or(0)),
            group: 0,
            maps: job.maps.count,
            map_bytes: each(job.maps.input_bytes, &job.maps),
            map_compute: Span::ZERO,
            map_output_bytes: if map_only { 0 } else { each(job.maps.output_bytes, &job.maps) },
            reduces: job.reduces.count,
            reduce_compute: Span::ZERO,
            reduce_output_bytes: each(job.reduces.output_bytes, &job.reduces),
            slowstart_ppm: job.slowstart_ppm,
            relative_ppm: PerKind::default(),
            input: None,
        };
        let map_added_s = self.launch_s + (plan.map_bytes + plan.map_output_bytes) as f64 * self.disk_s_per_byte;
        let reduce_added_s = plan.partition_bytes() as f64 * self.sort_s_per_byte
            + plan.reduce_output_bytes as f64 * self.write_s_per_byte;
        let (map_compute, maps_shorter) = compute(job.maps.time, map_added_s);
        let (reduce_compute, reduces_shorter) = compute(job.reduces.time, reduce_added_s);
        (plan.map_compute, plan.reduce_compute) = (map_compute, reduce_compute);
        (plan, maps_shorter || reduces_shorter && !map_only)
    }
}

/// The compute time of a task, and whether its recorded time is shorter than what the simulator adds.
fn compute(time: TaskTime, added_s: f64) -> (Span, bool) {
    match time {
        TaskTime::Modelled(span) => (span, false),
        TaskTime::Recorded(span) => {
            let compute_s = span.as_secs_f64() - added_s;
            (Span::from_secs_f64(compute_s), compute_s < 0.0 && !span.is_zero())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;
    use giveway_sim::cluster;

    const SWIM: &str = "a\t100\t0\t268435456\t1048576\t9\nb\t50\t0\t1000\t0\t9\n";

    #[test]
    fn the_first_job_is_submitted_at_time_zero() {
        let (jobs, _) = read_text(SWIM);
        let mut jobs = jobs;
        jobs.sort_by_key(|job| job.submit_us);
        let cluster = cluster_for(&jobs);
        let workload = workload_of("x", jobs, &cluster, &mut |_| {});
        let submits: Vec<f64> = workload.jobs.iter().map(|job| job.submit.as_secs_f64()).collect();
        assert_eq!(submits, [0.0, 50.0]);
        assert_eq!((workload.jobs[1].maps, workload.jobs[1].map_bytes), (2, 134_217_728));
    }

    #[test]
    fn recorded_times_include_what_the_simulator_adds() {
        let (mut jobs, _) = read_text(SWIM);
        jobs.sort_by_key(|job| job.submit_us);
        let cluster = cluster::by_name("fcs").unwrap();
        jobs[1].maps.time = TaskTime::Recorded(Span::from_secs(30));
        jobs[0].maps.time = TaskTime::Recorded(Span::from_millis(1));
        let mut shorter = Vec::new();
        let workload = workload_of("x", jobs, &cluster, &mut |job| shorter.push(job.to_owned()));
        let compute = workload.jobs[1].map_compute;
        assert!(compute < Span::from_secs(30) && compute > Span::from_secs(20), "{compute}");
        assert_eq!(workload.jobs[0].map_compute, Span::ZERO);
        assert_eq!(shorter, ["b"]);
    }

    #[test]
    fn a_cluster_is_made_for_the_work_of_a_trace() {
        let (jobs, _) = read_text(&"a\t0\t0\t134217728\t0\t0\n".repeat(999));
        let mut jobs = jobs;
        for (at, job) in (0..).zip(&mut jobs) {
            job.submit_us = at * 1_000_000;
        }
        // 999 maps of 74 s within 998 s, in slots of which 70 % are busy, four on a node.
        assert_eq!(cluster_for(&jobs).nodes.len(), (999.0f64 * 74.0 / 998.0 / 0.7 / 4.0).ceil() as usize);
        assert_eq!(cluster_for(&[]).nodes.len(), 3);
    }
}
