//! Workloads: which jobs arrive when, and what their tasks do.
//!
//! A [`Workload`] is compact (a line a job); the splits and their replicas are laid out when a job arrives, from the
//! seed and the job's number alone, so every policy sees the same input in the same places.
//!
//! Where they come from: [`by_name`] knows the experiments of the four papers (one file a paper), [`generate`] draws
//! synthetic ones, [`mod@file`] reads what a user wrote, [`from_tape`] takes what ran once. What an application does to a megabyte is in [`apps`], one table
//! for all of them. Nothing here knows a policy, and nothing here looks at what a policy did.

pub mod apps;
mod catalog;
mod chronos;
mod coshh;
mod fcs;
pub mod file;
pub mod generate;
mod gridmix;
mod hsrtf;
mod past;
pub mod random;

pub use catalog::{UnknownWorkload, by_name, default_cluster_for, names};
pub use past::{PastError, from_event_log};

use giveway_core::{JobId, Kind, Priority, Span, Tenants, Time};

/// A whole workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What people call it.
    pub name: String,
    /// Users and pools.
    pub tenants: Tenants,
    /// The jobs, by arrival; `jobs[i].id == JobId(i)`.
    pub jobs: Vec<JobPlan>,
    /// Names of the size groups, smallest first; `JobPlan::group` is an index into this.
    pub groups: Vec<String>,
    /// Whether the core is told beforehand what the tasks of a job last (COSHH's task scheduling process).
    pub hints: bool,
    /// Largest error of any estimate, of 1: each job's bias is drawn from 1 - e to 1 + e.
    pub estimate_error: f64,
}

/// One job, before it is laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Its number.
    pub id: JobId,
    /// What people call it.
    pub name: String,
    /// Who submits it.
    pub user: String,
    /// Into which pool.
    pub pool: String,
    /// Urgent or not.
    pub priority: Priority,
    /// When.
    pub submit: Time,
    /// Its size group.
    pub group: u16,
    /// How many maps.
    pub maps: u32,
    /// Input of one map.
    pub map_bytes: u64,
    /// What one map computes on a node of speed 1, beside reading its input and spilling its output.
    pub map_compute: Span,
    /// What one map writes for the reduces.
    pub map_output_bytes: u64,
    /// How many reduces.
    pub reduces: u32,
    /// What one reduce computes on a node of speed 1, beside fetching, sorting and writing its output.
    pub reduce_compute: Span,
    /// What one reduce writes.
    pub reduce_output_bytes: u64,
    /// Reduces may start once this part of the maps is done.
    pub slowstart_ppm: u32,
}

impl Workload {
    /// A workload of these jobs, numbered by arrival, without hints and with honest estimates.
    pub(crate) fn numbered(name: &str, tenants: Tenants, groups: &[&str], mut jobs: Vec<JobPlan>) -> Workload {
        // A stable sort: jobs that arrive together keep the order they were written in.
        jobs.sort_by_key(|job| job.submit);
        for (i, job) in jobs.iter_mut().enumerate() {
            job.id = JobId(i as u32);
        }
        let groups = groups.iter().map(|&group| group.into()).collect();
        Workload { name: name.into(), tenants, jobs, groups, hints: false, estimate_error: 0.0 }
    }
}

impl JobPlan {
    /// Tasks of a kind.
    pub fn tasks(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Map => self.maps,
            Kind::Reduce => self.reduces,
        }
    }

    /// What one task of a kind computes on a node of speed 1.
    pub fn compute(&self, kind: Kind) -> Span {
        match kind {
            Kind::Map => self.map_compute,
            Kind::Reduce => self.reduce_compute,
        }
    }

    /// What all its tasks of a kind compute on a node of speed 1, in seconds.
    pub fn compute_seconds(&self, kind: Kind) -> f64 {
        self.compute(kind).as_secs_f64() * f64::from(self.tasks(kind))
    }

    /// What one reduce fetches.
    pub fn partition_bytes(&self) -> u64 {
        if self.reduces == 0 {
            return 0;
        }
        self.map_output_bytes.saturating_mul(u64::from(self.maps)) / u64::from(self.reduces)
    }
}
