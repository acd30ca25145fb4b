//! Workloads: when jobs arrive, and the size and cost of their tasks.
//!
//! A [`Workload`] is compact (one [`JobPlan`] per job); splits and replicas are created when a job arrives, as recorded or from the seed and
//! the job number alone, so every policy gets the same input on the same nodes.
//!
//! Sources: [`by_name`] has the experiments of the four papers (one file for each paper), [`generate`] draws synthetic workloads, [`mod@file`]
//! reads a TOML file, [`from_event_log`] uses a recorded run. [`apps`] has the cost of each application per megabyte, the same for all
//! workloads. Nothing here depends on a policy or on its decisions.

pub mod apps;
mod catalog;
mod chronos;
mod coshh;
mod event_log;
mod fcs;
pub mod file;
pub mod generate;
mod gridmix;
mod hsrtf;
pub mod random;
mod recorded;

pub use catalog::{UnknownWorkload, by_name, default_cluster_for, names};
pub use event_log::{EventLogWorkloadError, from_event_log, recorded_cluster};
pub use recorded::{LeftOut, RecordedJob, RecordedRun};

use giveway_core::{Hosts, JobId, Kind, PerKind, Priority, Span, Tenants, Time, WHOLE_PPM};
use std::sync::Arc;

/// The jobs of a run, with users and pools.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name in messages and reports.
    pub name: String,
    /// Declared users and pools.
    pub tenants: Tenants,
    /// Jobs in the order of arrival; `jobs[i].id == JobId(i)`.
    pub jobs: Vec<JobPlan>,
    /// Names of the size groups, smallest first; `JobPlan::group` is an index into this.
    pub groups: Vec<String>,
    /// Whether the core receives the task durations of each job at submission (COSHH's task scheduling process).
    pub hints: bool,
    /// Largest relative error e of any estimate (0 to below 1): each job's bias is drawn from 1 - e to 1 + e.
    pub estimate_error: f64,
}

/// One job, before its splits and replicas are created.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Number in the order of arrival.
    pub id: JobId,
    /// Name in messages and reports.
    pub name: String,
    /// User that submits it.
    pub user: String,
    /// Pool into which it is submitted.
    pub pool: String,
    /// Priority within its pool, for policies that use it.
    pub priority: Priority,
    /// Submission time.
    pub submit: Time,
    /// Size group, an index into [`Workload::groups`].
    pub group: u16,
    /// Number of maps; at least 1.
    pub maps: u32,
    /// Input of one map.
    pub map_bytes: u64,
    /// Compute time of one map on a node of speed 1, without reading its input and spilling its output.
    pub map_compute: Span,
    /// Output of one map for all reduces together.
    pub map_output_bytes: u64,
    /// Number of reduces; 0 for a map-only job.
    pub reduces: u32,
    /// Compute time of one reduce on a node of speed 1, without fetching, sorting and writing its output.
    pub reduce_compute: Span,
    /// Output of one reduce.
    pub reduce_output_bytes: u64,
    /// Reduces may start once this fraction of the maps is done, in millionths.
    pub slowstart_ppm: u32,
    /// The compute time of each task by its index, in millionths of that of its kind; empty if all are equal.
    pub relative_ppm: PerKind<Arc<[u64]>>,
    /// Where its input was when the job was recorded; otherwise its location is drawn.
    pub input: Option<RecordedInput>,
}

/// The location of a recorded job's input. On a cluster with another number of nodes it is drawn instead.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedInput {
    /// Number of nodes of the recorded cluster.
    pub nodes: usize,
    /// The nodes that have the input of each map, by its index.
    pub hosts: Arc<[Hosts]>,
}

impl Workload {
    /// A workload of these jobs, numbered by arrival and grouped by their number of maps: small, medium, large.
    pub fn from_jobs(name: &str, tenants: Tenants, mut jobs: Vec<JobPlan>) -> Workload {
        for job in &mut jobs {
            job.group = generate::group_of(job.maps);
        }
        Workload::numbered(name, tenants, &generate::GROUPS, jobs)
    }

    /// A workload of these jobs, numbered by arrival, without hints and without estimate errors.
    pub(crate) fn numbered(name: &str, tenants: Tenants, groups: &[&str], mut jobs: Vec<JobPlan>) -> Workload {
        // The sort is stable: jobs that arrive at the same time keep their order.
        jobs.sort_by_key(|job| job.submit);
        for (i, job) in jobs.iter_mut().enumerate() {
            job.id = JobId(i as u32);
        }
        let groups = groups.iter().map(|&group| group.into()).collect();
        Workload { name: name.into(), tenants, jobs, groups, hints: false, estimate_error: 0.0 }
    }
}

impl JobPlan {
    /// Number of tasks of a kind.
    pub fn tasks(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Map => self.maps,
            Kind::Reduce => self.reduces,
        }
    }

    /// The compute time of a task in relation to that of its kind.
    pub(crate) fn relative_time(&self, kind: Kind, index: u32) -> f64 {
        let ppm = self.relative_ppm[kind].get(index as usize).copied().unwrap_or(u64::from(WHOLE_PPM));
        ppm as f64 / f64::from(WHOLE_PPM)
    }

    /// Compute time of one task of a kind on a node of speed 1.
    pub fn compute(&self, kind: Kind) -> Span {
        match kind {
            Kind::Map => self.map_compute,
            Kind::Reduce => self.reduce_compute,
        }
    }

    /// Total compute time of all tasks of a kind on a node of speed 1, in seconds.
    pub fn compute_seconds(&self, kind: Kind) -> f64 {
        self.compute(kind).as_secs_f64() * f64::from(self.tasks(kind))
    }

    /// Bytes that one reduce fetches; all partitions of a job are equal.
    pub fn partition_bytes(&self) -> u64 {
        if self.reduces == 0 {
            return 0;
        }
        self.map_output_bytes.saturating_mul(u64::from(self.maps)) / u64::from(self.reduces)
    }
}
