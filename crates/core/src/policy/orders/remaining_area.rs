//! Least remaining area first: the slot time that a job's tasks still need, over the slots of their kind (shortest remaining processing time, on
//! work instead of waves).
//!
//! hSRTF's eq. 1 counts waves: `ceil(tasks left / slots)`. All jobs of one wave then rank alike, and change places whenever an estimate
//! does. The area has no steps, so that of two jobs with the same task time the one with fewer tasks left is always first.

use super::{Order, Rank, span_bits};
use crate::ids::Kind;
use crate::policy::{Needs, View};
use crate::reason::Measure;
use crate::state::Job;
use crate::units::Span;

/// Least remaining area first.
pub struct RemainingArea;

impl Order for RemainingArea {
    fn needs(&self) -> Needs {
        Needs { remaining_time: true, ..Needs::NOTHING }
    }

    fn rank(&self, view: View<'_>, job: &Job, _: Kind, _: i32) -> Rank {
        span_bits(area(view, job)) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, view: View<'_>, job: &Job, _: Kind) -> Measure {
        Measure::RemainingTime(area(view, job))
    }
}

/// The time in which the whole cluster would do what is left of the job, if its tasks could be divided at will.
fn area(view: View<'_>, job: &Job) -> Span {
    let slots = view.state.nodes().slots();
    let of_kind = |kind: Kind| {
        let tasks_per_slot = f64::from(job.left(kind)) / f64::from(slots[kind].max(1));
        job.estimate().task_time[kind].scaled(tasks_per_slot)
    };
    of_kind(Kind::Map) + of_kind(Kind::Reduce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{JobSpec, NodeSpec, Priority, Split};
    use crate::ids::{JobId, NodeId, PerKind, RackId};
    use crate::state::{Estimate, JobKey, State};
    use crate::units::{Time, WHOLE_PPM};

    fn cluster() -> State {
        let mut state = State::default();
        let spec = NodeSpec {
            name: "n0".into(),
            rack: RackId(0),
            map_slots: 10,
            reduce_slots: 5,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 1,
            disk_bytes: 1,
        };
        state.add_node(NodeId(0), &spec);
        state
    }

    fn submit(state: &mut State, id: u32, maps: usize, reduces: u32) -> JobKey {
        let spec = JobSpec {
            id: JobId(id),
            name: String::new(),
            external_id: None,
            user: String::new(),
            pool: String::new(),
            priority: Priority::Normal,
            splits: vec![Split::default(); maps].into(),
            reduces,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        let job = state.add_job(&spec, 0, false, Time::ZERO);
        let task_time = PerKind::new(Span::from_secs(20), Span::from_secs(30));
        state.job_mut(job).set_estimate(Estimate { task_time, ..Estimate::default() });
        job
    }

    #[test]
    fn the_area_is_slot_time_over_slots() {
        let mut state = cluster();
        let job = submit(&mut state, 0, 15, 2);
        let view = View { now: Time::ZERO, state: &state };
        // 15 maps of 20 s on 10 slots and 2 reduces of 30 s on 5 slots: 30 s + 12 s.
        let measure = RemainingArea.measure(view, state.job(job), Kind::Map);
        assert_eq!(measure, Measure::RemainingTime(Span::from_secs(42)));
    }

    #[test]
    fn jobs_of_one_wave_differ_and_equal_jobs_rank_by_submission() {
        let mut state = cluster();
        let [large, small, equal] = [(0, 9), (1, 3), (2, 3)].map(|(id, maps)| submit(&mut state, id, maps, 0));
        let view = View { now: Time::ZERO, state: &state };
        let rank = |job: JobKey| RemainingArea.rank(view, state.job(job), Kind::Map, 0);
        assert!(rank(small) < rank(equal) && rank(equal) < rank(large));
    }
}
