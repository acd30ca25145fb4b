//! What is estimated of a job. Filled in by `policy::estimates`; kept with the job because ranks read it with every decision.

use crate::ids::PerKind;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// Estimates of a job's times and work. Values that no part of the policy needs are not kept up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean time of its maps and of its reduces.
    pub task_time: PerKind<Span>,
    /// Time left if it were alone on the cluster (hSRTF, eq. 1).
    pub remaining_time: Span,
    /// Time from beginning to end if it were alone on the cluster.
    pub time_alone: Span,
    /// Time until its last map is done at its present rate (FCS, T_rs).
    pub remaining_shuffle: Span,
    /// Bytes still to reduce (FCS, R_left).
    pub remaining_reduce_bytes: u64,
    /// Slot time received so far.
    pub attained_service: Span,
    /// Work of one task of each kind: its time on a slot of speed 1 without reading its split, in seconds.
    pub task_work_s: PerKind<f64>,
    /// Time in which the whole cluster would do what is left of it.
    pub remaining_area: Span,
    /// Tasks of each kind that were left when this was estimated, running ones by the part they had left.
    pub tasks_left: PerKind<f64>,
    /// Its slot time of each kind beside its fair share. Filled in by `policy::lag`.
    pub lag: PerKind<JobLag>,
}

/// How the slot time that a job has received compares with its fair share. Times are seconds on a slot of speed 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLag {
    /// Slot time that fair sharing among the jobs present would have given it.
    pub entitled_s: f64,
    /// Slot time that it has received.
    pub received_s: f64,
    /// Speed of the slots that it held at the last update, in sum.
    pub held_speed: f64,
    /// Its share at the last update, in slots.
    pub share: f64,
    /// The share that it would have if it had received what it was entitled to.
    pub share_if_fair: f64,
    /// It ranks first up to this many slots; zero if it is not late.
    pub due_slots: f64,
    /// Its position among the jobs that are due slots.
    pub due_position: u32,
}
