//! Has a program plan a job, and its rounds, for the coordinator.

use super::protocol::RoundError;
use super::{FromRunner, ProgramId, Received, Runner, RunnerError, ToRunner};
use crate::job::Plan;
use crate::record::AppError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an application may take to plan a job or a round: it may sample the input, or read the output of a round.
const PLAN_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the planning code of programs.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    cluster: PathBuf,
}

impl Planner {
    /// For the programs of the cluster in a folder.
    pub(crate) fn new(cluster: &Path) -> Planner {
        Planner { cluster: cluster.to_path_buf() }
    }

    /// Has the application of a request check it and complete its plan.
    pub(crate) fn complete_plan(&self, program: ProgramId, draft: Plan) -> Result<Plan, AppError> {
        let question = ToRunner::CompletePlan { draft: Box::new(draft.clone()) };
        match self.ask(program, &question)? {
            // Only what an application may change: the rest belongs to the coordinator.
            FromRunner::Planned(Ok(plan)) => {
                Ok(Plan { job: draft.job, nonce: draft.nonce, request: draft.request, ..*plan })
            }
            FromRunner::Planned(Err(refusal)) => Err(refusal.into()),
            _ => Err(other_answer()),
        }
    }

    /// The plan of the round after one that has ended. The error is an [`io::Error`] if a later try may succeed.
    pub(crate) fn next_round(&self, program: ProgramId, plan: &Plan) -> Result<Option<Plan>, AppError> {
        let question = ToRunner::NextRound { plan: Box::new(plan.clone()) };
        let answer = self.ask(program, &question).map_err(|error| match error.is_permanent() {
            true => AppError::from(error),
            false => io::Error::other(error.to_string()).into(),
        });
        match answer? {
            FromRunner::NextRound(Ok(next)) => {
                Ok(next.map(|next| Plan { request: plan.request.clone(), nonce: plan.nonce, ..*next }))
            }
            FromRunner::NextRound(Err(RoundError { text, is_transient: true })) => Err(io::Error::other(text).into()),
            FromRunner::NextRound(Err(RoundError { text, .. })) => Err(text.into()),
            _ => Err(other_answer()),
        }
    }

    fn ask(&self, program: ProgramId, question: &ToRunner) -> Result<FromRunner, RunnerError> {
        let mut runner = Runner::start(&self.cluster, program)?;
        runner.send(question)?;
        let deadline = Instant::now() + PLAN_TIMEOUT;
        loop {
            match runner.receive(deadline) {
                Some(Received::Message(answer)) => return Ok(answer),
                Some(Received::Printed(_)) => {}
                Some(Received::Gone(broken)) => return Err(runner.gone(broken)),
                None => {
                    let how = format!("did not plan the job within {} s", PLAN_TIMEOUT.as_secs());
                    return Err(RunnerError::Ended { how, output: Vec::new() });
                }
            }
        }
    }
}

fn other_answer() -> AppError {
    "the program sent another answer than was asked for; build it with the cluster's release".into()
}
