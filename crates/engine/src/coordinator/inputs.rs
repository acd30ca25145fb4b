//! What goes into the state machine and what comes out of it.

use super::journal::{Journal, JournalError};
use super::output_work::{OutputResult, OutputWork};
use crate::job::Plan;
use crate::planted::{Bug, planted};
use crate::program::ProgramId;
use crate::wire::{FromClient, FromWorker, JobStatus, Join, ToClient, ToWorker};
use giveway_core::{JobId, Policy, Tenants};
use std::sync::mpsc::Sender;

/// An input of the state machine.
#[derive(Debug)]
pub(crate) enum Input {
    /// A worker connected and sent its first message.
    WorkerJoined { join: Box<Join>, link: WorkerLink },
    /// A worker sent a later message.
    WorkerMessage { link: u64, message: FromWorker },
    /// A worker's connection was closed.
    WorkerDisconnected { link: u64 },
    /// A client sent a request other than a submission.
    ClientRequest { request: FromClient, client: ClientLink },
    /// A client submitted a job, and its plan is ready. The job may have been shipped with the program of its application.
    JobPlanned { plan: Box<Plan>, program: Option<ProgramId>, client: ClientLink },
    /// No client is about to submit a job with this program any more.
    ProgramUnpinned { program: ProgramId },
    /// An answer could not be sent: the client has disconnected.
    ClientDisconnected { client: u64 },
    /// The policy and the tenants are to be replaced.
    Reload { policy: Box<Policy>, tenants: Tenants, client: ClientLink },
    /// Work on a job's output folder is done.
    OutputDone { job: JobId, result: OutputResult },
}

/// Something to do once the journal is on disk.
#[derive(Debug)]
pub(crate) enum Effect {
    Send(WorkerLink, ToWorker),
    Reply(ClientLink, ToClient),
    /// Work on a job's output folder, which may take any time; answered by [`Input::OutputDone`]. There is at most one at a time for a job.
    Output(JobId, OutputWork),
    /// A job has ended, and no round follows it.
    JobEnded(Box<JobStatus>),
    /// No live job needs this program: it is removed, unless a client is about to submit one.
    RemoveProgram(ProgramId),
    Stop,
}

/// What must be durable before the effects are carried out.
#[derive(Debug)]
pub(super) enum JournalWrite {
    Nothing,
    Append(Vec<u8>),
    /// Append `last`, which may be empty, archive the journal, and begin a new one with `content`.
    Replace {
        last: Vec<u8>,
        content: Vec<u8>,
    },
}

/// The result of handling inputs. Its effects can be had only once its records are on disk.
#[derive(Debug)]
#[must_use]
pub(crate) struct Output {
    journal: JournalWrite,
    effects: Vec<Effect>,
}

impl Output {
    pub(super) fn new(journal: JournalWrite, effects: Vec<Effect>) -> Output {
        Output { journal, effects }
    }

    /// True if the journal has to be written.
    pub(crate) fn has_records(&self) -> bool {
        !matches!(self.journal, JournalWrite::Nothing)
    }

    /// True if a new journal begins.
    pub(crate) fn begins_journal(&self) -> bool {
        matches!(self.journal, JournalWrite::Replace { .. })
    }

    /// Writes and syncs the records. Returns the effects, which may be carried out now.
    pub(crate) fn make_durable(self, journal: &mut Journal) -> Result<Vec<Effect>, JournalError> {
        let written = match self.journal {
            JournalWrite::Nothing => Ok(()),
            JournalWrite::Append(frame) => journal.append(&frame),
            JournalWrite::Replace { last, content } => journal.replace(&last, &content),
        };
        if !planted(Bug::WriteErrorIgnored) {
            written?;
        }
        Ok(self.effects)
    }
}

/// The sending half of a connection to a worker. The connection is closed when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct WorkerLink {
    /// Unique among all connections since the coordinator started.
    pub(crate) id: u64,
    pub(crate) sender: Sender<ToWorker>,
}

/// Where the answers to one request of a client go. There are no more after the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ClientLink {
    /// Unique among all requests since the coordinator started.
    pub(crate) id: u64,
    /// The user whose jobs alone the client may change; `None` if it may change all.
    pub(crate) limited_to: Option<String>,
    pub(crate) sender: Sender<ToClient>,
}
