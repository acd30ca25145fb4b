//! What is estimated of a job. Filled in by `policy::estimates`; kept with the job because ranks read it with every decision.

use crate::ids::PerKind;
use crate::units::Span;

/// Estimates of a job's times and work. Values that no part of the policy needs are not kept up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// Work of each kind that fair sharing would have done for it by now, in seconds on a slot of speed 1.
    pub fair_credit_s: PerKind<f64>,
    /// Slots of each kind that it needs to keep up with fair sharing, because it is late; zero if it is not.
    pub late_slots: PerKind<f64>,
    /// Its position among the late jobs of each kind.
    pub late_position: PerKind<u32>,
}
