//! The recorded jobs of a log, simulated under the policy they ran under and under another one.

use crate::model::Model;
use giveway_core::event_log::Record;
use giveway_core::{Action, Capabilities, Event, JobId, Policy, Setup, SetupError, Time};
use giveway_engine::coordinator::{self, JournalError};
use giveway_sim::workload::{EventLogWorkloadError, RecordedRun, from_event_log};
use giveway_sim::{Observer, Simulation};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};
use thiserror::Error;

const SEED: u64 = 1;

/// Why jobs cannot be simulated again.
#[derive(Debug, Error)]
pub enum RerunError {
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot simulate the recorded jobs: {0}")]
    Workload(#[from] EventLogWorkloadError),
    #[error("the policy cannot run these jobs: {0}")]
    Policy(#[from] SetupError),
    #[error("the simulations take more than {0} s; use `giveway what-if` on the command line, which has no limit")]
    TooLong(u64),
}

/// Simulates the jobs of a log under the policy they ran under, and under another one. Both are simulations, so that they have the same model; jobs have their
/// recorded numbers. Takes `limit` at most.
pub fn rerun(log: &Path, other: Policy, limit: Duration) -> Result<[Model; 2], RerunError> {
    let mut bytes = fs::read(log)?;
    if coordinator::is_journal(&bytes) {
        bytes = coordinator::read_event_log(log)?;
    }
    let run = from_event_log(&bytes, "recorded jobs")?;
    let deadline = Instant::now() + limit;
    let simulate = |policy: Policy, epoch| {
        let model = simulate(&run, policy, epoch, deadline)?;
        model.ok_or(RerunError::TooLong(limit.as_secs()))
    };
    Ok([simulate(run.policy.clone().unwrap_or_else(|| other.clone()), 1)?, simulate(other, 2)?])
}

/// One run; none if it has not ended at the deadline.
fn simulate(run: &RecordedRun, policy: Policy, epoch: u64, deadline: Instant) -> Result<Option<Model>, SetupError> {
    let tenants = run.workload.tenants.clone();
    let setup = Setup { policy: policy.clone(), tenants, capabilities: Capabilities::ALL, seed: SEED };
    let mut follower = Follower(Model::new(setup, epoch)?);
    let mut simulation = Simulation::new(&run.cluster, &run.workload, policy, SEED)?;
    while simulation.step(&mut follower) {
        if Instant::now() > deadline {
            return Ok(None);
        }
    }
    let Follower(mut model) = follower;
    for job in &mut model.jobs {
        job.id = run.jobs.get(job.id.0 as usize).and_then(|job| job.number).map_or(job.id, JobId);
    }
    Ok(Some(model))
}

struct Follower(Model);

impl Observer for Follower {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.apply(&Record { now, event: event.clone(), actions: actions.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use giveway_core::policy::catalog;

    #[test]
    fn recorded_jobs_run_again_under_both_policies() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run.eventlog");
        fs::write(&log, fixture::event_log()).unwrap();
        let recorded = crate::feed::read(&log).unwrap();
        let fifo = || catalog::by_name("fifo").unwrap();
        let [own, other] = rerun(&log, fifo(), Duration::from_secs(600)).unwrap();
        assert_eq!([&own, &other].map(|model| model.scheduler().setup().policy.name.as_str()), ["giveway", "fifo"]);
        for model in [&own, &other] {
            assert_eq!(model.mismatch(), None);
            assert_eq!(
                model.jobs.iter().map(|job| (job.id, &job.name)).collect::<Vec<_>>(),
                recorded.jobs.iter().map(|job| (job.id, &job.name)).collect::<Vec<_>>()
            );
            assert!(model.jobs.iter().all(|job| job.ended.is_some()));
        }
        let small = |model: &Model| model.jobs[1].ended.unwrap();
        assert!(small(&own) < small(&other), "under fifo the small job waits for the large one");
        assert!(matches!(rerun(&log, fifo(), Duration::ZERO), Err(RerunError::TooLong(0))));
    }
}
