//! Clients: each submits one job, follows it to its end, and may kill it. A client that loses the coordinator asks again later.

use super::oracle::{Violation, output_path};
use super::scenario::{JobScript, SECOND};
use super::world::{Event, World};
use crate::coordinator::inputs::{ClientLink, Input};
use crate::job::{Codec, FileLocation, InputFile, InputSplit, OutputFormat, Partitioning, Plan, Request};
use crate::program::ProgramId;
use crate::wire::{FromClient, Rejection, RejectionCode, ToClient};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Priority, Tenants};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, TryRecvError};

/// Delay before a client asks again.
const ASK_AGAIN: u64 = SECOND / 2;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) state: ClientState,
    /// The current round, once an id is known.
    job: Option<JobId>,
    tries: u64,
    /// The answer to its request to kill the job.
    kill: Option<Receiver<ToClient>>,
}

#[derive(Debug)]
pub(super) enum ClientState {
    /// It does something at a later time.
    Waiting,
    Submitting(Receiver<ToClient>),
    /// Looks for a job that may have been accepted although no answer arrived.
    Searching(Receiver<ToClient>),
    Following(JobId, Receiver<ToClient>),
    Done,
}

impl ClientState {
    /// The next answer, if one is awaited.
    fn try_recv(&self) -> Option<Result<ToClient, TryRecvError>> {
        match self {
            ClientState::Submitting(receiver)
            | ClientState::Searching(receiver)
            | ClientState::Following(_, receiver) => Some(receiver.try_recv()),
            ClientState::Waiting | ClientState::Done => None,
        }
    }
}

impl Client {
    pub(super) fn new() -> Client {
        Client { state: ClientState::Waiting, job: None, tries: 0, kill: None }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, ClientState::Done)
    }
}

impl World {
    /// A client's next action: to submit its job, or to follow it.
    pub(super) fn client_acts(&mut self, client: usize) {
        if !matches!(self.clients[client].state, ClientState::Waiting) {
            return;
        }
        let (sender, receiver) = mpsc::channel();
        let link = ClientLink { id: self.next_id(), limited_to: None, sender };
        let (input, state) = match self.clients[client].job {
            Some(job) => {
                let request = FromClient::Job { job, follow: true };
                (Input::ClientRequest { request, client: link }, ClientState::Following(job, receiver))
            }
            None => {
                self.clients[client].tries += 1;
                let plan = Box::new(plan(client, &self.scenario.jobs[client], self.random.next()));
                let program = program(&plan);
                (Input::JobPlanned { plan, program, client: link }, ClientState::Submitting(receiver))
            }
        };
        self.ask(client, input, state);
    }

    fn ask(&mut self, client: usize, input: Input, state: ClientState) {
        if self.input(input) {
            self.clients[client].state = state;
        } else {
            self.clients[client].state = ClientState::Waiting;
            self.after(ASK_AGAIN, Event::ClientActs { client });
        }
    }

    pub(super) fn client_kills(&mut self, client: usize) {
        let request = match self.clients[client].job {
            Some(job) => FromClient::Kill { job },
            None if self.clients[client].is_done() => return,
            None => return self.after(ASK_AGAIN, Event::ClientKills { client }),
        };
        let (sender, receiver) = mpsc::channel();
        let link = ClientLink { id: self.next_id(), limited_to: None, sender };
        match self.input(Input::ClientRequest { request, client: link }) {
            true => self.clients[client].kill = Some(receiver),
            false => self.after(ASK_AGAIN, Event::ClientKills { client }),
        }
    }

    /// Handles the answer to a request to kill a job. Asks again if there is none because the coordinator was killed.
    fn kill_answered(&mut self, client: usize) -> Result<(), Violation> {
        let Some(answer) = self.clients[client].kill.as_ref().map(Receiver::try_recv) else { return Ok(()) };
        match answer {
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => self.after(ASK_AGAIN, Event::ClientKills { client }),
            Ok(ToClient::Done) => self.oracle.kill_acknowledged(client)?,
            // It has ended.
            Ok(_) => {}
        }
        self.clients[client].kill = None;
        Ok(())
    }

    /// Has the coordinator load another policy, until one accepts the request. Its answer is not awaited.
    pub(super) fn change_policy(&mut self, name: String) {
        let Some(policy) = catalog::by_name(&name) else { return };
        let client = ClientLink { id: self.next_id(), limited_to: None, sender: mpsc::channel().0 };
        if !self.input(Input::Reload { policy: Box::new(policy), tenants: Tenants::default(), client }) {
            self.after(ASK_AGAIN, Event::PolicyChanges { policy: name });
        }
    }

    /// Handles the answers that have arrived for clients.
    pub(super) fn clients_receive(&mut self) -> Result<(), Violation> {
        for client in 0..self.clients.len() {
            self.kill_answered(client)?;
            while let Some(answer) = self.clients[client].state.try_recv() {
                match answer {
                    Ok(answer) => self.client_receives(client, answer)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.wait(client),
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, client: usize) {
        self.clients[client].state = ClientState::Waiting;
        self.after(ASK_AGAIN, Event::ClientActs { client });
    }

    fn client_receives(&mut self, client: usize, answer: ToClient) -> Result<(), Violation> {
        let following = match self.clients[client].state {
            ClientState::Following(job, _) => Some(job),
            _ => None,
        };
        match answer {
            ToClient::Submitted { job } => {
                self.oracle.accepted(job, client)?;
                self.clients[client].job = Some(job);
                self.wait(client);
            }
            ToClient::Job(status) => {
                self.oracle.observed(&self.scenario, &status)?;
                match (status.outcome, status.next_round) {
                    (Some(_), Some(next)) => {
                        self.clients[client].job = Some(next);
                        self.wait(client);
                    }
                    (Some(_), None) => self.clients[client].state = ClientState::Done,
                    (None, _) => {}
                }
            }
            ToClient::Jobs { jobs, .. } => {
                let name = format!("job-{client}");
                match jobs.iter().find(|status| status.name == name) {
                    Some(status) => {
                        self.oracle.accepted(status.job, client)?;
                        self.clients[client].job = Some(status.job);
                        self.wait(client);
                    }
                    // Somebody else's folder has the name.
                    None => self.clients[client].state = ClientState::Done,
                }
            }
            ToClient::Rejected(Rejection { code, .. }) => match following {
                Some(job) => self.oracle.unknown(job)?,
                None if code == RejectionCode::Conflict => {
                    let (sender, receiver) = mpsc::channel();
                    let link = ClientLink { id: self.next_id(), limited_to: None, sender };
                    let request = FromClient::Jobs { after: None };
                    self.ask(client, Input::ClientRequest { request, client: link }, ClientState::Searching(receiver));
                }
                None => self.wait(client),
            },
            _ => {}
        }
        Ok(())
    }
}

/// The program that a job is shipped with: one for several jobs, and none for others.
pub(super) fn program(plan: &Plan) -> Option<ProgramId> {
    let number: usize = plan.request.name.strip_prefix("job-")?.parse().ok()?;
    match number % 3 {
        0 => None,
        shared => ProgramId::of(&[shared as u8][..]).ok().map(|(program, _)| program),
    }
}

/// The plan of a script's job.
pub(super) fn plan(script: usize, job: &JobScript, nonce: u64) -> Plan {
    let output = output_path(script);
    let request = Request {
        app: "model".into(),
        options: BTreeMap::from([("rounds".into(), job.rounds.to_string())]),
        input: Vec::new(),
        output: output.clone(),
        reduces: Some(job.reduces),
        split_bytes: 1000,
        memory_bytes: 1,
        name: format!("job-{script}"),
        user: "user".into(),
        pool: String::new(),
        priority: Priority::Normal,
        task_timeout_ms: 1000,
        records_per_s: None,
        compress: false,
        sync_output: true,
    };
    let file = |&bytes: &u64| InputFile {
        name: "input".into(),
        location: FileLocation::Local("/input".into()),
        codec: Codec::Plain,
        bytes,
    };
    let mut plan = Plan {
        job: JobId(0),
        nonce,
        files: job.split_bytes.iter().map(file).collect(),
        splits: (0..).zip(&job.split_bytes).map(|(file, &bytes)| InputSplit { file, offset: 0, bytes }).collect(),
        reduces: job.reduces,
        partitioning: Partitioning::Hash,
        format: OutputFormat::TabSeparated,
        app_data: Vec::new(),
        round: 0,
        output,
        request,
    };
    if job.rounds > 1 {
        plan.output = crate::apps::round_output(&plan, 0);
    }
    plan
}
