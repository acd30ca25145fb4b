//! What an event log or a trace recorded about the jobs of a workload.

use super::Workload;
use crate::cluster::Cluster;
use giveway_core::Policy;

/// A recorded run as a workload, with what was recorded about each of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// Its jobs.
    pub workload: Workload,
    /// Its cluster, or one to simulate it on.
    pub cluster: Cluster,
    /// The policy it ran under; none if it is not recorded.
    pub policy: Option<Policy>,
    /// By job number, the recorded times.
    pub jobs: Vec<RecordedJob>,
    /// Jobs that are not part of the workload.
    pub left_out: Vec<LeftOut>,
}

/// The recorded times of one job, in seconds from its submission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedJob {
    /// Its number in the recorded cluster; none if jobs have no numbers there.
    pub number: Option<u32>,
    /// To its success; none if it did not succeed or its end is not recorded.
    pub completion_s: Option<f64>,
    /// To its first map, where that is recorded.
    pub wait_s: Option<f64>,
    /// Why it is simulated but not compared with its recorded times; none if it is.
    pub not_compared: Option<&'static str>,
}

/// A job that is not part of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub job: String,
    /// Why.
    pub reason: &'static str,
}

impl RecordedJob {
    /// A job without a recorded completion time, and why.
    pub fn not_compared(why: &'static str) -> RecordedJob {
        RecordedJob { number: None, completion_s: None, wait_s: None, not_compared: Some(why) }
    }
}
