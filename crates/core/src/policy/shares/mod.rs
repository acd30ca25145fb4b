//! Shares: how many slots each job is entitled to.

mod inverse_remaining_time;
mod water_filling;
pub mod weighted;

pub use inverse_remaining_time::{MakespanAlone, starvation_ratio};
pub use water_filling::{Claimant, Division, divide};

use super::ranking::Ranking;
use super::{Needs, Policy, SlotPolicy, View};
use crate::ids::Kind;
use crate::state::JobKey;
use serde::{Deserialize, Serialize};

/// How many slots a job is entitled to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// No job is entitled to anything.
    #[default]
    None,
    /// By weight of pool and job, min shares first (Hadoop's fair scheduler).
    Weighted,
    /// In inverse proportion to remaining time, times a starvation ratio against the time alone on its share (hSRTF, eqs. 3-5).
    InverseRemainingTime,
    /// The same with eq. 5 as printed: against the time alone on the whole cluster, which cancels most of eq. 3.
    InverseRemainingTimeLiteral,
}

/// The result of the last division of slots of a kind, from which the share of a new job is derived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaterLevel {
    /// Slots per unit of weight; infinite if there were enough slots for all jobs.
    per_weight: f64,
    /// Slots needed by all jobs together, those submitted since included.
    needed: f64,
}

impl Default for WaterLevel {
    fn default() -> WaterLevel {
        WaterLevel { per_weight: f64::INFINITY, needed: 0.0 }
    }
}

/// Newly computed shares.
pub struct Shares {
    /// The share of each job that was considered.
    pub of: Vec<(JobKey, f64)>,
    /// The water level, where shares of new jobs are derived from it.
    pub level: Option<WaterLevel>,
}

/// The share of a new job.
pub enum NewShare {
    /// This many slots.
    Slots(f64),
    /// Not known until all shares are computed again.
    Recompute,
}

impl Share {
    /// What it reads.
    pub fn needs(self) -> Needs {
        Needs { remaining_time: self.is_by_remaining_time(), ..Needs::NOTHING }
    }

    /// True if no job is entitled to anything.
    pub fn is_none(self) -> bool {
        self == Share::None
    }

    /// True if shares follow from remaining times.
    fn is_by_remaining_time(self) -> bool {
        matches!(self, Share::InverseRemainingTime | Share::InverseRemainingTimeLiteral)
    }

    /// True if shares are computed whether or not slots are preempted by them.
    pub fn is_always_computed(self) -> bool {
        self.is_by_remaining_time()
    }

    /// Computes the shares of all jobs, if anything depends on them.
    pub fn compute(view: View<'_>, kind: Kind, policy: &Policy, groups: &Ranking) -> Option<Shares> {
        match policy.slots(kind).share {
            Share::None => None,
            Share::InverseRemainingTime => Some(inverse_remaining_time::shares(view, kind, MakespanAlone::OnItsShare)),
            Share::InverseRemainingTimeLiteral => {
                Some(inverse_remaining_time::shares(view, kind, MakespanAlone::OnTheCluster))
            }
            Share::Weighted if !policy.uses_shares(kind) => None,
            Share::Weighted => Some(Shares { of: weighted::job_shares(view, kind, groups), level: None }),
        }
    }

    /// The share of a job that was just submitted, until shares are next computed; none if shares do not follow from remaining times.
    ///
    /// It is the share that the job's remaining time would have given it in the last division. All shares are computed again if this job
    /// makes slots scarce, and if slots are preempted by share, because other jobs are over their share only after their shares have
    /// shrunk.
    pub fn of_new_job(
        view: View<'_>,
        kind: Kind,
        slots: &SlotPolicy,
        job: JobKey,
        level: &mut WaterLevel,
    ) -> Option<NewShare> {
        if !slots.share.is_by_remaining_time() {
            return None;
        }
        let job = view.state.job(job);
        let need = f64::from(job.total(kind));
        let was_unconstrained = level.per_weight.is_infinite();
        level.needed += need;
        let becomes_scarce = was_unconstrained && level.needed > f64::from(view.state.nodes().slots()[kind]);
        if !slots.preempt.is_empty() || becomes_scarce {
            return Some(NewShare::Recompute);
        }
        let by_remaining = level.per_weight / job.estimate().remaining_time.as_secs_f64().max(1e-3);
        Some(NewShare::Slots(by_remaining.min(need)))
    }
}
