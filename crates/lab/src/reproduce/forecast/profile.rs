//! Profiles of jobs: how long each of their tasks takes, measured on a cluster that runs only jobs of one type.

use super::experiments::{EngineExperiment, Speed, cores};
use anyhow::Result;
use giveway_core::event_log::{EventLogError, EventLogReader, EventLogWriter};
use giveway_core::{Lifecycle, Span, Time};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::{self, JobPlan};

/// The measured jobs of one type, at least one, and the cluster on which they ran.
pub struct Profile {
    pub jobs: Vec<JobPlan>,
    pub cluster: Cluster,
}

impl Profile {
    /// The jobs of an event log of the experiment's profile cluster.
    pub fn of(experiment: &EngineExperiment, event_log: &[u8]) -> Result<Profile> {
        let workload::RecordedRun { workload, cluster, .. } = match experiment.speed {
            Speed::Limited(_) => workload::from_event_log(event_log, "a profile")?,
            Speed::Cores => workload::from_event_log(&in_core_time(event_log, cores())?, "a profile")?,
        };
        Ok(Profile { jobs: workload.jobs, cluster })
    }
}

/// The time of all tasks of a job together.
pub fn task_time_s(job: &JobPlan) -> f64 {
    let of_kind = |tasks: u32, compute: Span| f64::from(tasks) * compute.as_secs_f64();
    of_kind(job.maps, job.map_compute) + of_kind(job.reduces, job.reduce_compute)
}

/// The event log of one node with another clock: it advances as fast as each task does while the running tasks share the cores. The time of a task
/// is then that which it would take with a core of its own.
fn in_core_time(event_log: &[u8], cores: u16) -> Result<Vec<u8>> {
    let reader = EventLogReader::open(event_log)?;
    let (mut writer, mut rewritten) = EventLogWriter::begin(reader.setup())?;
    let mut running = Lifecycle::<()>::default();
    let (mut last, mut core_time) = (Time::ZERO, Time::ZERO);
    for record in reader {
        let record = match record {
            Ok(record) => record,
            // The journal of a cluster that may be restarted has no closing record.
            Err(EventLogError::Truncated { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let tasks = running.iter().count() as f64;
        core_time = core_time + record.now.since(last).scaled((f64::from(cores) / tasks).min(1.0));
        last = record.now;
        writer.record(core_time, &record.event, &record.actions, &mut rewritten)?;
        running.observe(&record.event, &record.actions, record.now, &mut |_| {});
    }
    Ok(rewritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::policy::catalog;
    use giveway_core::{Action, Event, JobId, Kind, NodeSpec, PerKind, Priority, RackId, Setup, Tenants, WHOLE_PPM};
    use giveway_sim::cluster::{HeartbeatMode, SharedHardware};
    use giveway_sim::workload::Workload;
    use giveway_sim::{Observer, Simulation};

    struct LogWriter(EventLogWriter, Vec<u8>);

    impl Observer for LogWriter {
        fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
            self.0.record(now, event, actions, &mut self.1).unwrap();
        }
    }

    #[test]
    fn the_time_of_a_task_on_a_core_of_its_own_is_found_from_runs_that_share_cores() {
        let spec = NodeSpec {
            name: "node".into(),
            rack: RackId(0),
            map_slots: 5,
            reduce_slots: 1,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 1 << 50,
            disk_bytes: 1 << 40,
        };
        let mut cluster = workload::recorded_cluster("one node", vec![spec], HeartbeatMode::Immediate);
        cluster.nodes[0].shared = Some(SharedHardware { cores: 2, disks: u16::MAX, page_cache_bytes: None });
        let job = |id: u32, map_s: u64| JobPlan {
            id: JobId(id),
            name: format!("job {id}"),
            user: "user".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            submit: Time::ZERO,
            group: 0,
            maps: 3,
            map_bytes: 1,
            map_compute: Span::from_secs(map_s),
            map_output_bytes: 1,
            reduces: 1,
            reduce_compute: Span::from_secs(4),
            reduce_output_bytes: 1,
            slowstart_ppm: WHOLE_PPM,
            relative_ppm: PerKind::default(),
            input: None,
        };
        let workload = Workload::from_jobs("test", Tenants::default(), vec![job(0, 10), job(1, 7), job(2, 12)]);
        let policy = catalog::by_name("fifo").unwrap();
        let (writer, head) = EventLogWriter::begin(&Setup::new(policy.clone())).unwrap();
        let mut log = LogWriter(writer, head);
        Simulation::new(&cluster, &workload, policy, 1).unwrap().run(&mut log);
        let times = |event_log: &[u8]| -> Vec<PerKind<f64>> {
            let jobs = workload::from_event_log(event_log, "test").unwrap().workload.jobs;
            jobs.iter()
                .map(|job| {
                    PerKind::from_fn(|kind| if kind == Kind::Map { job.map_compute } else { job.reduce_compute })
                })
                .map(|times| times.map(|time| (time.as_secs_f64() * 10.0).round() / 10.0))
                .collect()
        };
        let expected = [10.0, 7.0, 12.0].map(|map| PerKind::from_fn(|kind| if kind == Kind::Map { map } else { 4.0 }));
        assert_eq!(times(&in_core_time(&log.1, 2).unwrap()), expected);
        assert!(times(&log.1).iter().all(|times| times[Kind::Map] > 13.0), "they have waited for the cores");
    }
}
