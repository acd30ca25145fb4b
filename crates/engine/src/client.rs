//! The client of a coordinator: one method for each request.

use crate::access;
use crate::address;
use crate::attempt_logs::LogChunk;
use crate::coordinator::Clock;
use crate::job::Request;
use crate::program::{PIECE_BYTES, ProgramId};
use crate::wire::{
    self, FromClient, JobStatus, LogStatus, MESSAGE_BYTES_MAX, NodeStatus, ProgramOffer, Rejection, RejectionCode,
    Reload, Role, ToClient, WireError,
};
use giveway_core::{AttemptId, JobId};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a request to a cluster failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No coordinator listens for this folder.
    #[error("no cluster is running in {}; start one with `giveway up --dir {}`", folder.display(), folder.display())]
    NoCluster { folder: PathBuf },
    /// A file in the cluster directory cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    /// The cluster belongs to another user.
    #[error("no access to {}: {problem}", folder.display())]
    NoAccess {
        folder: PathBuf,
        /// Whose it is, and whom to ask.
        problem: String,
    },
    /// The connection failed.
    #[error(transparent)]
    Wire(WireError),
    /// The coordinator closed the connection before it answered.
    #[error(
        "the coordinator ended before it answered; `giveway up` prints why; start the cluster again, and see in `giveway jobs` what was accepted"
    )]
    Ended,
    /// The coordinator did not accept the request.
    #[error(transparent)]
    Rejected(Rejection),
    /// The program of an application cannot be read.
    #[error("cannot read the program of the application: {error}")]
    Program { error: io::Error },
    /// The answer does not belong to the request.
    #[error("unexpected answer from the coordinator; run the same release everywhere")]
    UnexpectedAnswer,
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> ClientError {
        match error {
            WireError::Refused(reason) => ClientError::Rejected(RejectionCode::Forbidden.because(reason)),
            error if error.is_disconnect() => ClientError::Ended,
            error => ClientError::Wire(error),
        }
    }
}

/// Sends a request, and returns what the expected answer has.
macro_rules! ask {
    ($client:ident, $request:expr, $answer:pat => $result:expr) => {
        match $client.request(&$request)? {
            $answer => Ok($result),
            _ => Err(ClientError::UnexpectedAnswer),
        }
    };
}

/// A connection to a coordinator. Requests are answered one at a time, in order.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// The cluster's owner, if that is another user.
    other_owner: Option<u32>,
}

impl Client {
    /// Connects to the coordinator of the cluster in a folder. Its address is read from there.
    pub fn connect(folder: &Path) -> Result<Client, ClientError> {
        let socket = match address::read(folder) {
            Ok(Some(socket)) => socket,
            Ok(None) => return Err(ClientError::NoCluster { folder: folder.into() }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Client::connect_shared(folder),
            Err(error) => return Err(ClientError::Folder { path: address::path(folder), error }),
        };
        match wire::connect_to_own(&socket, Role::Client) {
            Ok(stream) => Ok(Client { stream, other_owner: None }),
            // The socket of a coordinator that has ended, or that was removed with the system's temporary files.
            Err(WireError::Io { error, .. })
                if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
            {
                Err(ClientError::NoCluster { folder: folder.into() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to the cluster of another user, who may have admitted this one.
    fn connect_shared(folder: &Path) -> Result<Client, ClientError> {
        // Of the first folder on the path that can be seen: without it, nothing below it can be reached.
        let visible = folder.ancestors().find_map(|folder| Some((folder, std::fs::metadata(folder).ok()?)));
        let Some((visible, metadata)) = visible else { return Err(ClientError::NoCluster { folder: folder.into() }) };
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        let denied = || ClientError::NoAccess { folder: folder.into(), problem: access::no_answer(owner, user) };
        if visible != folder {
            return Err(denied());
        }
        let socket = access::shared_socket(folder, owner).map_err(|_| denied())?;
        match wire::connect(&socket, owner, Role::Client) {
            Ok(stream) => Ok(Client { stream, other_owner: Some(owner) }),
            // There is no such socket, or somebody else's: nobody is admitted, or the cluster is not running.
            Err(WireError::Io { error, .. })
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                Err(denied())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The user whose rights the programs of jobs have, if that is not the caller.
    pub fn runs_as(&self) -> Option<String> {
        self.other_owner.map(access::user_name)
    }

    /// Whether a coordinator answers in a folder. One that is ending, or does not serve yet, does not.
    pub fn is_served(folder: &Path) -> bool {
        match Client::connect(folder).and_then(|mut client| client.nodes()) {
            Ok(_) => true,
            Err(ClientError::NoCluster { .. } | ClientError::Ended | ClientError::Rejected(_)) => false,
            Err(_) => true,
        }
    }

    /// Submits a job. Once this returns, the job is in the journal and will run even if the coordinator is killed.
    pub fn submit(&mut self, request: Request) -> Result<JobId, ClientError> {
        ask!(self, FromClient::Submit { request: Box::new(request), shipped: false }, ToClient::Submitted { job } => job)
    }

    /// Submits a job whose application is in a program of one's own, which the cluster runs in processes of its own. The program is sent, unless
    /// the cluster has it. If the cluster was started by the same program, the job is one of a built-in application.
    pub fn submit_with_program(&mut self, request: Request, program: &mut File) -> Result<JobId, ClientError> {
        let failed = |error| ClientError::Program { error };
        let (id, bytes) = ProgramId::of(&*program).map_err(failed)?;
        let offer = match self.request(&FromClient::OfferProgram { program: id, bytes })? {
            ToClient::ProgramOffered(offer) => offer,
            _ => return Err(ClientError::UnexpectedAnswer),
        };
        if offer == ProgramOffer::BuiltIn {
            return self.submit(request);
        }
        if offer == ProgramOffer::Wanted {
            program.rewind().map_err(failed)?;
            let mut left = bytes;
            while left > 0 {
                let mut piece = Vec::new();
                let limit = left.min(PIECE_BYTES as u64);
                (&*program).take(limit).read_to_end(&mut piece).map_err(failed)?;
                // A file that became shorter: the coordinator refuses the empty piece.
                left = left.saturating_sub(piece.len() as u64);
                self.request(&FromClient::ProgramPiece { bytes: piece })?;
            }
        }
        ask!(self, FromClient::Submit { request: Box::new(request), shipped: true }, ToClient::Submitted { job } => job)
    }

    /// Returns a job's current status.
    pub fn job(&mut self, job: JobId) -> Result<JobStatus, ClientError> {
        ask!(self, FromClient::Job { job, follow: false }, ToClient::Job(status) => *status)
    }

    /// Blocks until a job and all rounds that follow it have ended. Calls `on_status` with each status received, about once per heartbeat
    /// interval, and returns the final status of the last round.
    pub fn follow(&mut self, job: JobId, mut on_status: impl FnMut(&JobStatus)) -> Result<JobStatus, ClientError> {
        let mut answer = self.request(&FromClient::Job { job, follow: true })?;
        loop {
            let ToClient::Job(status) = answer else { return Err(ClientError::UnexpectedAnswer) };
            on_status(&status);
            answer = match (status.outcome, status.next_round) {
                (Some(_), Some(next)) => self.request(&FromClient::Job { job: next, follow: true })?,
                (Some(_), None) => return Ok(*status),
                (None, _) => self.receive()?,
            };
        }
    }

    /// Returns the status of all jobs that are not forgotten yet, by id.
    pub fn jobs(&mut self) -> Result<Vec<JobStatus>, ClientError> {
        let mut all: Vec<JobStatus> = Vec::new();
        loop {
            let after = all.last().map(|status| status.job);
            let ToClient::Jobs { jobs, more } = self.request(&FromClient::Jobs { after })? else {
                return Err(ClientError::UnexpectedAnswer);
            };
            let is_last = !more || jobs.is_empty();
            all.extend(jobs);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Returns the status of all nodes, by id, including lost ones that were up since the coordinator's start.
    pub fn nodes(&mut self) -> Result<Vec<NodeStatus>, ClientError> {
        ask!(self, FromClient::Nodes, ToClient::Nodes(nodes) => nodes)
    }

    /// Returns the event log in the cluster's journal and the wall clock, for a user who cannot read the journal.
    pub fn event_log(&mut self) -> Result<(Vec<u8>, Clock), ClientError> {
        let (mut log, mut answer) = (Vec::new(), self.request(&FromClient::EventLog)?);
        loop {
            let ToClient::EventLog { bytes, clock } = answer else { return Err(ClientError::UnexpectedAnswer) };
            log.extend(bytes);
            if let Some(clock) = clock {
                return Ok((log, clock));
            }
            answer = self.receive()?;
        }
    }

    /// Lists what the attempts of a job have printed, ordered by task and attempt. Attempts that have printed nothing are left out.
    pub fn logs(&mut self, job: JobId) -> Result<Vec<LogStatus>, ClientError> {
        ask!(self, FromClient::Logs { job }, ToClient::Logs(logs) => logs)
    }

    /// Reads a part of an attempt's log.
    pub fn read_log(&mut self, attempt: AttemptId, from: u64) -> Result<LogChunk, ClientError> {
        ask!(self, FromClient::ReadLog { attempt, from }, ToClient::LogChunk(chunk) => chunk)
    }

    /// Kills a job. Its output is removed.
    pub fn kill(&mut self, job: JobId) -> Result<(), ClientError> {
        self.request(&FromClient::Kill { job }).map(drop)
    }

    /// Makes every running attempt of a job yield once: maps end early, reduces pause. No completed work is lost.
    pub fn yield_job(&mut self, job: JobId) -> Result<(), ClientError> {
        self.request(&FromClient::Yield { job }).map(drop)
    }

    /// Has the coordinator read the files of its policy and its tenants again. Once this returns, they are in force, also after a restart. If something is
    /// wrong with them, nothing changes.
    pub fn reload(&mut self) -> Result<Reload, ClientError> {
        ask!(self, FromClient::Reload, ToClient::Reloaded(reload) => reload)
    }

    /// Drains the node of this name, so that it gets no new tasks, or has it used again.
    pub fn set_drained(&mut self, node: String, drained: bool) -> Result<(), ClientError> {
        self.request(&FromClient::SetDrained { node, drained }).map(drop)
    }

    /// Stops the cluster. Unfinished jobs continue when it is started again.
    pub fn stop(&mut self) -> Result<(), ClientError> {
        match self.request(&FromClient::Stop) {
            // The coordinator's process may end before its answer is sent.
            Err(ClientError::Ended) => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn request(&mut self, message: &FromClient) -> Result<ToClient, ClientError> {
        wire::send(&mut self.stream, message)?;
        self.receive()
    }

    fn receive(&mut self) -> Result<ToClient, ClientError> {
        match wire::receive(&mut self.stream, MESSAGE_BYTES_MAX)? {
            ToClient::Rejected(rejection) => Err(ClientError::Rejected(rejection)),
            answer => Ok(answer),
        }
    }
}
