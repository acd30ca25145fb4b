//! A user's side of the line to a coordinator.

use crate::job::Request;
use crate::store::{StoreRequest, StoreResponse};
use crate::wire::{self, FromClient, JobStatus, MESSAGE_BYTES_MAX, NodeStatus, Role, ToClient, Token, WireError};
use giveway_core::JobId;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a cluster did not do what was asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is no cluster.
    #[error("no cluster is running in {}; start one with `giveway up --dir {}`", folder.display(), folder.display())]
    NoCluster {
        /// The folder that was looked at.
        folder: PathBuf,
    },
    /// A file of the cluster cannot be read.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The line to it broke.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// It answered something else than what was asked.
    #[error("the coordinator answered something else; run the same release everywhere")]
    Confused,
}

/// A line to a coordinator.
#[derive(Debug)]
pub struct Client {
    line: TcpStream,
}

impl Client {
    /// Calls the coordinator of the cluster that lives in a folder.
    pub fn connect(folder: &Path) -> Result<Client, ClientError> {
        let path = folder.join("address");
        let address = match std::fs::read_to_string(&path) {
            Ok(address) => address,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ClientError::NoCluster { folder: folder.into() });
            }
            Err(error) => return Err(ClientError::Folder { path, error }),
        };
        let path = folder.join("token");
        let token = Token::read(&path).map_err(|error| ClientError::Folder { path, error })?;
        match wire::connect(&address, &token, Role::Client) {
            Ok(line) => Ok(Client { line }),
            Err(WireError::Io { error, .. }) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(ClientError::NoCluster { folder: folder.into() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Submits a job. Once this returns, the job is written down and will run, whatever happens to the coordinator.
    pub fn submit(&mut self, request: Request) -> Result<JobId, ClientError> {
        match self.ask(&FromClient::Submit(Box::new(request)))? {
            ToClient::Submitted { job } => Ok(job),
            _ => Err(ClientError::Confused),
        }
    }

    /// How a job is.
    pub fn job(&mut self, job: JobId) -> Result<JobStatus, ClientError> {
        match self.ask(&FromClient::Job { job, follow: false })? {
            ToClient::Job(status) => Ok(*status),
            _ => Err(ClientError::Confused),
        }
    }

    /// Follows a job through all its rounds until it is over.
    pub fn follow(&mut self, job: JobId, mut see: impl FnMut(&JobStatus)) -> Result<JobStatus, ClientError> {
        let mut answer = self.ask(&FromClient::Job { job, follow: true })?;
        loop {
            let ToClient::Job(status) = answer else { return Err(ClientError::Confused) };
            see(&status);
            answer = match (status.outcome, status.next) {
                (Some(_), Some(next)) => self.ask(&FromClient::Job { job: next, follow: true })?,
                (Some(_), None) => return Ok(*status),
                (None, _) => self.listen()?,
            };
        }
    }

    /// The jobs.
    pub fn jobs(&mut self) -> Result<Vec<JobStatus>, ClientError> {
        match self.ask(&FromClient::Jobs)? {
            ToClient::Jobs(jobs) => Ok(jobs),
            _ => Err(ClientError::Confused),
        }
    }

    /// The nodes.
    pub fn nodes(&mut self) -> Result<Vec<NodeStatus>, ClientError> {
        match self.ask(&FromClient::Nodes)? {
            ToClient::Nodes(nodes) => Ok(nodes),
            _ => Err(ClientError::Confused),
        }
    }

    /// Why a job stands where it stands.
    pub fn explain(&mut self, job: JobId) -> Result<Vec<String>, ClientError> {
        match self.ask(&FromClient::Explain { job })? {
            ToClient::Explained(lines) => Ok(lines),
            _ => Err(ClientError::Confused),
        }
    }

    /// Kills a job.
    pub fn kill(&mut self, job: JobId) -> Result<(), ClientError> {
        self.ask(&FromClient::Kill { job }).map(drop)
    }

    /// Has every running task of a job give way once: maps end early, reduces pause, and nothing they did is lost.
    pub fn give_way(&mut self, job: JobId) -> Result<(), ClientError> {
        self.ask(&FromClient::Yield { job }).map(drop)
    }

    /// Stops the cluster. Jobs that are not done go on when it is started again.
    pub fn stop(&mut self) -> Result<(), ClientError> {
        self.ask(&FromClient::Stop).map(drop)
    }

    /// Asks something about stored files. [`StoreClient`](crate::store::StoreClient) knows what to ask.
    pub fn store(&mut self, request: StoreRequest) -> Result<StoreResponse, ClientError> {
        match self.ask(&FromClient::Store(request))? {
            ToClient::Store(answer) => Ok(answer),
            _ => Err(ClientError::Confused),
        }
    }

    fn ask(&mut self, message: &FromClient) -> Result<ToClient, ClientError> {
        wire::send(&mut self.line, message)?;
        self.listen()
    }

    fn listen(&mut self) -> Result<ToClient, ClientError> {
        match wire::receive(&mut self.line, MESSAGE_BYTES_MAX)? {
            ToClient::Refused { why } => Err(ClientError::Refused(why)),
            answer => Ok(answer),
        }
    }
}
