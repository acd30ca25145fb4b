//! The efficiency of the cluster: how much of what its slots could do becomes work of jobs. The rest goes into heartbeats, process starts, reading
//! of input, and slots that no job accepts. The virtual cluster of `ageing.rs` is as efficient as the real one, or every job would be late.

use super::{View, area};
use crate::ids::{Kind, PerKind};
use crate::state::Job;
use crate::units::Span;

/// New measurements replace old ones in about this time.
const SMOOTHING_S: f64 = 120.0;
/// The least efficiency that is believed.
const LEAST: f64 = 0.1;

/// Work done over what the slots of each kind could do, while jobs need slots.
#[derive(Clone, Copy, Debug)]
pub struct Efficiency {
    of_kind: PerKind<f64>,
    had_demand: PerKind<bool>,
    /// Work of the jobs that have ended since the last update.
    ended_s: PerKind<f64>,
}

impl Default for Efficiency {
    fn default() -> Efficiency {
        Efficiency { of_kind: PerKind::new(1.0, 1.0), had_demand: PerKind::default(), ended_s: PerKind::default() }
    }
}

impl Efficiency {
    /// The efficiency of the slots of a kind, over 0 and up to 1.
    pub fn of(&self, kind: Kind) -> f64 {
        self.of_kind[kind]
    }

    /// Counts the work that a job has done since the last update, because it is complete.
    pub fn job_ended(&mut self, job: &Job) {
        for kind in Kind::BOTH {
            self.ended_s[kind] += job.estimate().tasks_left[kind] * job.estimate().task_work_s[kind];
        }
    }

    /// Measures what was done since the last update, before the estimates of that time are replaced.
    pub fn update(&mut self, view: View<'_>, elapsed: Span) {
        let elapsed_s = elapsed.as_secs_f64();
        for kind in Kind::BOTH {
            let open = || view.state.jobs().iter().map(|(_, job)| job).filter(|job| !job.is_closed());
            let done = |job: &Job| {
                let before = job.estimate().tasks_left[kind];
                (before - area::tasks_left(job, kind)).max(0.0) * job.estimate().task_work_s[kind]
            };
            let done_s = std::mem::take(&mut self.ended_s[kind]) + open().map(done).sum::<f64>();
            let possible_s = view.state.nodes().capacity(kind) * elapsed_s;
            let demand = open().any(|job| job.needs_slot(kind));
            // Without demand, slots are idle for want of work.
            if std::mem::replace(&mut self.had_demand[kind], demand) && demand && possible_s > 0.0 {
                let measured = (done_s / possible_s).clamp(LEAST, 1.0);
                self.of_kind[kind] += (measured - self.of_kind[kind]) * (elapsed_s / SMOOTHING_S).min(1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NodeId, TaskKey};
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::Estimate;

    #[test]
    fn work_done_is_compared_with_what_the_slots_could_do() {
        let mut state = cluster(1, 4, 1);
        let key = submit(&mut state, &job(0, 9, 0));
        let tasks_left = PerKind::new(9.0, 0.0);
        let estimate = Estimate { task_work_s: PerKind::new(60.0, 1.0), tasks_left, ..Estimate::default() };
        state.job_mut(key).set_estimate(estimate);
        let mut efficiency = Efficiency::default();
        efficiency.update(View { now: at(0.0), state: &state }, Span::ZERO);
        assert_eq!(efficiency.of(Kind::Map), 1.0);
        // Two of four slots do 60 s of work each in 120 s.
        for map in [0, 1] {
            let attempt = state.launch(key, TaskKey::map(map), NodeId(0), at(0.0));
            state.finish(key, attempt, 0, true, at(60.0));
        }
        efficiency.update(View { now: at(120.0), state: &state }, Span::from_secs(120));
        assert!((efficiency.of(Kind::Map) - 0.25).abs() < 1e-9, "{efficiency:?}");
        assert_eq!(efficiency.of(Kind::Reduce), 1.0, "no job needs reduce slots");
    }
}
