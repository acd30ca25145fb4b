//! An order of jobs: highest response ratio next.

use giveway_core::policy::orders::JobValue;
use giveway_core::policy::{Needs, View};
use giveway_core::state::Job;
use giveway_core::{Kind, Span};

/// Highest response ratio next (Brinch Hansen, 1971): short jobs first, but the longer a job waits, the sooner it is its turn.
pub struct HighestResponseRatio;

impl JobValue for HighestResponseRatio {
    fn value(&self, view: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
        let age = view.now.since(job.submitted());
        let left = job.estimate().remaining_time.max(Span::from_millis(1));
        // The lowest value comes first.
        -(age + left).as_secs_f64() / left.as_secs_f64()
    }

    fn needs(&self) -> Needs {
        Needs { remaining_time: true, ..Needs::NOTHING }
    }
}
