//! Least remaining area first: shortest remaining processing time, on work instead of waves.
//!
//! [`RemainingArea`] ranks by the area alone. [`RemainingAreaAndShuffle`] adds, for reduce slots, the time until the job's last map beyond
//! what a shuffle needs, so that a job whose maps will still take long does not occupy reduce slots with reduces that wait.
//!
//! A job of unknown size (an open job) ranks by the slot time it has received, over the slots of the cluster; its reason says so.

use super::{Order, Rank};
use crate::ids::Kind;
use crate::policy::{Needs, View, area};
use crate::reason::Measure;
use crate::state::Job;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// The power of two below a time: jobs within a factor of two rank alike, and so by submission. Estimates are not exact, and a job that is overtaken by
/// equal ones whenever they are submitted would wait for ever.
fn power_of_two(span: Span) -> Rank {
    Rank::from(span.0.max(1).ilog2())
}

/// Least remaining area first.
pub struct RemainingArea;

impl Order for RemainingArea {
    fn needs(&self) -> Needs {
        Needs { attempt_progress: true, remaining_time: true, remaining_area: true, ..Needs::NOTHING }
    }

    fn rank(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        power_of_two(job.estimate().remaining_area) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, view: View<'_>, job: &Job, _: Kind) -> Measure {
        if area::is_unknown(job) {
            return Measure::UnknownSize { attained: super::attained_service(view, job) };
        }
        Measure::RemainingArea(job.estimate().remaining_area)
    }

    fn time(&self, job: &Job, _: Kind) -> Option<Span> {
        Some(job.estimate().remaining_area)
    }
}

/// Least remaining area first; for reduce slots with a penalty for jobs that are far from their last map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemainingAreaAndShuffle {
    /// How much a second until the last map weighs against a second of area.
    pub weight: f64,
    /// The last part of the time until the last map, which does not count: reduces fetch map output meanwhile.
    pub ahead: Span,
}

impl RemainingAreaAndShuffle {
    fn penalty(&self, job: &Job, kind: Kind) -> Span {
        if kind == Kind::Map || area::is_unknown(job) {
            return Span::ZERO;
        }
        Span(area::time_to_last_map(job).0.saturating_sub(self.ahead.0)).scaled(self.weight)
    }

    fn total(&self, job: &Job, kind: Kind) -> Span {
        job.estimate().remaining_area + self.penalty(job, kind)
    }
}

impl Order for RemainingAreaAndShuffle {
    fn needs(&self) -> Needs {
        Needs { remaining_work: true, running_maps: true, ..RemainingArea.needs() }
    }

    fn rank(&self, _: View<'_>, job: &Job, kind: Kind, _: i32) -> Rank {
        power_of_two(self.total(job, kind)) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure {
        match self.penalty(job, kind) {
            Span::ZERO => RemainingArea.measure(view, job, kind),
            shuffle => Measure::RemainingAreaAndShuffle { area: job.estimate().remaining_area, shuffle },
        }
    }

    fn time(&self, job: &Job, kind: Kind) -> Option<Span> {
        Some(self.total(job, kind))
    }

    fn check(&self, _: &crate::policy::SlotPolicy) -> Result<(), String> {
        if self.weight.is_finite() && self.weight >= 0.0 {
            return Ok(());
        }
        Err("order.remaining-area-and-shuffle.weight must be a number of at least 0; write for example 3.0".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PerKind;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::{Estimate, JobKey, State};

    fn with_estimate(state: &mut State, id: u32, area_s: u64, shuffle_s: u64) -> JobKey {
        let key = submit(state, &job(id, 4, 2));
        let estimate = Estimate {
            remaining_area: Span::from_secs(area_s),
            remaining_shuffle: Span::from_secs(shuffle_s),
            task_work_s: PerKind::new(1.0, 1.0),
            ..Estimate::default()
        };
        state.job_mut(key).set_estimate(estimate);
        key
    }

    #[test]
    fn the_smaller_area_is_first_and_equal_jobs_rank_by_submission() {
        let mut state = cluster(2, 5, 2);
        let [large, small, equal] = [(0, 9), (1, 3), (2, 3)].map(|(id, area)| with_estimate(&mut state, id, area, 0));
        let view = View { now: at(0.0), state: &state };
        let rank = |job: JobKey| RemainingArea.rank(view, state.job(job), Kind::Map, 0);
        assert!(rank(small) < rank(equal) && rank(equal) < rank(large));
    }

    #[test]
    fn a_job_far_from_its_last_map_ranks_later_for_reduce_slots_only() {
        let mut state = cluster(2, 5, 2);
        let far = with_estimate(&mut state, 0, 10, 40);
        let near = with_estimate(&mut state, 1, 20, 25);
        let view = View { now: at(0.0), state: &state };
        let order = RemainingAreaAndShuffle { weight: 3.0, ahead: Span::from_secs(30) };
        // Far: 10 s + 3 x (40 - 30) s = 40 s. Near: 20 s, for its last map is within 30 s.
        assert_eq!(order.time(state.job(far), Kind::Reduce), Some(Span::from_secs(40)));
        assert_eq!(order.time(state.job(near), Kind::Reduce), Some(Span::from_secs(20)));
        assert!(order.rank(view, state.job(near), Kind::Reduce, 0) < order.rank(view, state.job(far), Kind::Reduce, 0));
        assert!(order.rank(view, state.job(far), Kind::Map, 0) < order.rank(view, state.job(near), Kind::Map, 0));
        let shuffle = Span::from_secs(30);
        let expected = Measure::RemainingAreaAndShuffle { area: Span::from_secs(10), shuffle };
        assert_eq!(order.measure(view, state.job(far), Kind::Reduce), expected);
    }

    #[test]
    fn the_reason_of_an_open_job_is_its_attained_service() {
        let mut state = cluster(1, 2, 1);
        let open = state.add_job(&job(0, 0, 0), 0, true, at(0.0));
        let view = View { now: at(0.0), state: &state };
        let measure = RemainingArea.measure(view, state.job(open), Kind::Map);
        assert_eq!(measure, Measure::UnknownSize { attained: Span::ZERO });
    }
}
