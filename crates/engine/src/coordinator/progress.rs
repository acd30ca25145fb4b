//! The progress of running attempts, as old as the last heartbeat of their worker.

use giveway_core::{Kind, RunningAttempt, Time, WHOLE_PPM};

/// Progress that a worker has reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedProgress {
    pub(super) ppm: u32,
    /// When it was reported.
    pub(super) at: Time,
}

impl ReportedProgress {
    /// The progress at a later time. Maps work evenly, so the work since the report is added: for short maps it is a large part of the whole. A
    /// reduce may be waiting for maps.
    pub(super) fn at_time<T>(&self, time: Time, running: &RunningAttempt<T>) -> u32 {
        let (reported, now) = (self.at.since(running.launched).0, time.since(running.launched).0);
        match running.id.task.kind {
            Kind::Map if reported > 0 => {
                let ppm = u128::from(self.ppm) * u128::from(now.max(reported)) / u128::from(reported);
                ppm.min(u128::from(WHOLE_PPM)) as u32
            }
            Kind::Map | Kind::Reduce => self.ppm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::{AttemptId, JobId, NodeId, Start, Work};

    fn running(kind: Kind) -> RunningAttempt {
        let id = AttemptId::new(JobId(1), kind, 0, 0);
        RunningAttempt {
            id,
            node: NodeId(0),
            launched: Time(1_000),
            work: Work::Reduce { start: Start::Fresh },
            stop: None,
            data: (),
        }
    }

    #[test]
    fn a_map_has_worked_on_since_its_report_and_a_reduce_may_have_waited() {
        let reported = ReportedProgress { ppm: 200_000, at: Time(3_000) };
        assert_eq!(reported.at_time(Time(4_000), &running(Kind::Map)), 300_000);
        assert_eq!(reported.at_time(Time(90_000), &running(Kind::Map)), WHOLE_PPM);
        assert_eq!(reported.at_time(Time(4_000), &running(Kind::Reduce)), 200_000);
        let at_launch = ReportedProgress { ppm: 0, at: Time(1_000) };
        assert_eq!(at_launch.at_time(Time(4_000), &running(Kind::Map)), 0);
    }
}
