//! The desk: mail in, the core asked, the journal synced, then deeds.

use super::books::{self, Asked, Books};
use super::journal::{Found, Journal, JournalError, Note};
use super::{Options, StartError};
use crate::job::Plan;
use crate::store::Namespace;
use crate::wire::{FromClient, FromWorker, Join, ToClient, ToWorker};
use giveway_core::{
    Action, AttemptId, Capabilities, Event, JobId, Kind, NodeId, Outcome, Progress, Scheduler, Setup, Time, Timers,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// An event log that has grown so long is put aside once no job is live.
const EVENT_LOG_BYTES_ENOUGH: u64 = 64 << 20;

/// What comes to the desk.
pub(crate) enum Mail {
    /// A worker has called and said who it is.
    Joined { join: Box<Join>, link: Link },
    /// A worker says something on an established line.
    Worker { line: u64, message: FromWorker },
    /// A worker's line is dead.
    Left { line: u64 },
    /// A user asks for something.
    Client { message: FromClient, reply: Sender<ToClient> },
    /// A user's job, its input already looked at.
    Submit { plan: Box<Plan>, reply: Sender<ToClient> },
}

/// A line to a worker.
#[derive(Debug)]
pub(crate) struct Link {
    /// Its number, never used twice.
    pub(crate) line: u64,
    /// What is sent here goes out.
    pub(crate) to: Sender<ToWorker>,
    /// The welcome went out on it. Nothing may come before that: what was meant for the line before is said again to who comes back.
    pub(crate) welcomed: bool,
    /// Jobs whose plan went out on it.
    pub(crate) plans: HashSet<JobId>,
    /// Jobs whose map outputs are told as they come.
    pub(crate) told_outputs: HashSet<JobId>,
}

/// What the desk keeps of a node beside what the core knows.
#[derive(Debug)]
pub(crate) struct Desked {
    pub(crate) link: Option<Link>,
    pub(crate) heard: Instant,
    pub(crate) data_address: String,
    /// The machine it counts as standing on.
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// What had been stirred when its slots were last offered.
    pub(crate) offered: u64,
    /// Its beat has come: its slots are offered even if nothing was stirred.
    pub(crate) due: bool,
}

/// Something to do once the journal is on disk.
#[derive(Debug)]
pub(crate) enum Deed {
    /// What the core asked for.
    Act(Action),
    /// Say something to a worker.
    Say(NodeId, ToWorker),
    /// Tell who follows the job where a map's output is.
    TellOutput(AttemptId),
    /// Answer a user.
    Reply(Sender<ToClient>, ToClient),
}

pub(crate) struct Desk {
    pub(super) options: Options,
    pub(super) core: Scheduler,
    pub(super) journal: Journal,
    pub(super) books: Books,
    pub(super) nodes: Vec<Desked>,
    /// Stored files and who has their blocks.
    pub(super) store: Arc<Namespace>,
    pub(super) outbox: Vec<Deed>,
    pub(super) followers: Vec<(JobId, Sender<ToClient>)>,
    /// How far each attempt was when last heard of.
    pub(super) progress: HashMap<AttemptId, u32>,
    /// Moves whenever a free slot might find a task it did not find before.
    pub(super) stirred: u64,
    /// Who is offered first the next time.
    turn: usize,
    began: Instant,
    /// The core's time when this life began.
    base: Time,
    told_followers: Instant,
    /// When the clock was last looked at.
    looked: Instant,
    stopping: bool,
    failed: Option<JournalError>,
}

impl Desk {
    /// Opens the journal, or begins one. Unfinished jobs of an earlier life go on under the policy they were submitted to.
    pub(super) fn open(options: Options, store: Arc<Namespace>) -> Result<Desk, StartError> {
        let setup = Setup {
            policy: options.policy.clone(),
            tenants: options.tenants.clone(),
            capabilities: Capabilities::ALL,
            seed: options.seed,
        };
        let fresh = Scheduler::new(setup.clone())?;
        let mut next_job = 1;
        if let Some(found) = Journal::find(&options.folder)? {
            let (mut desk, same) = Desk::restore(options.clone(), found, &setup, Arc::clone(&store))?;
            if same || desk.core.state().live_count() > 0 {
                desk.pick_up();
                return Ok(desk);
            }
            desk.pick_up();
            desk.commit()?;
            next_job = desk.books.next_job;
        }
        let journal = Journal::begin(&options.folder, &setup, next_job)?;
        let mut books = Books::default();
        books.next_job = next_job;
        Ok(Desk::new(options, fresh, journal, books, Time::ZERO, store))
    }

    fn new(
        options: Options,
        core: Scheduler,
        journal: Journal,
        books: Books,
        base: Time,
        store: Arc<Namespace>,
    ) -> Desk {
        let now = Instant::now();
        store.expect_nodes(core.state().nodes.iter().map(|node| (node.spec.name.as_str(), node.up)));
        let nodes = core.state().nodes.iter().map(|_| Desked::unknown(now)).collect();
        Desk {
            options,
            core,
            journal,
            books,
            nodes,
            store,
            outbox: Vec::new(),
            followers: Vec::new(),
            progress: HashMap::new(),
            stirred: 1,
            turn: 0,
            began: now,
            base,
            told_followers: now,
            looked: now,
            stopping: false,
            failed: None,
        }
    }

    fn restore(
        options: Options,
        found: Found,
        wanted: &Setup,
        store: Arc<Namespace>,
    ) -> Result<(Desk, bool), StartError> {
        let Found { setup, records, notes, journal } = found;
        let same = setup == *wanted;
        let mut core = Scheduler::new(setup)?;
        let mut books = Books::default();
        notes.iter().for_each(|note| books.noted(note));
        let (mut actions, mut last) = (Vec::new(), Time::ZERO);
        for (record, number) in records.iter().zip(1..) {
            actions.clear();
            core.handle(record.now, &record.event, &mut actions);
            if actions != record.actions {
                return Err(StartError::OtherMind { path: options.folder, record: number });
            }
            books.saw(record.now, &record.event, &actions);
            last = record.now;
        }
        Ok((Desk::new(options, core, journal, books, last, store), same))
    }

    /// The policy by which is decided.
    pub(super) fn policy(&self) -> &str {
        &self.core.setup().policy.name
    }

    /// The core's time: goes on from where an earlier life stopped.
    pub(super) fn now(&self) -> Time {
        Time(self.base.0 + self.began.elapsed().as_micros() as u64)
    }

    /// Serves until it is told to stop or the journal cannot be written.
    pub(super) fn run(mut self, inbox: &Receiver<Mail>) -> Result<(), JournalError> {
        while !self.stopping {
            match inbox.recv_timeout(self.patience()) {
                Ok(mail) => self.take(mail),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Whatever else has come shares the next sync.
            for _ in 0..4096 {
                match inbox.try_recv() {
                    Ok(mail) => self.take(mail),
                    Err(_) => break,
                }
            }
            self.look_at_the_clock();
            self.offer();
            self.commit()?;
            self.tidy_up();
        }
        for node in &self.nodes {
            if let Some(link) = &node.link {
                let _ = link.to.send(ToWorker::Stop);
            }
        }
        Ok(())
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Joined { join, link } => self.joined(*join, link),
            Mail::Worker { line, message } => self.heard(line, message),
            Mail::Left { line } => self.left(line),
            Mail::Client { message: FromClient::Stop, reply } => {
                self.stopping = true;
                let _ = reply.send(ToClient::Done);
            }
            Mail::Client { message, reply } => self.asked(message, reply),
            Mail::Submit { plan, reply } => self.submit(*plan, reply),
        }
    }

    /// Tells the core what happened and notes what it asks for. True unless the core could make nothing of it.
    pub(super) fn tell(&mut self, event: Event) -> bool {
        let now = self.now();
        let mut actions = Vec::new();
        self.core.handle(now, &event, &mut actions);
        if let Err(error) = self.journal.record(now, &event, &actions) {
            self.failed.get_or_insert(error);
        }
        self.books.saw(now, &event, &actions);
        if !matches!(event, Event::SlotsOffered { .. } | Event::ProgressReported { .. }) {
            self.stirred += 1;
        }
        let refused = books::refusal(&actions).is_some();
        self.outbox.extend(actions.into_iter().map(Deed::Act));
        !refused
    }

    /// Writes a note down.
    pub(super) fn note(&mut self, note: Note) {
        self.books.noted(&note);
        self.journal.note(&note);
    }

    /// How long nothing needs to be done if no mail comes.
    fn patience(&self) -> Duration {
        let tick = self.options.beat.min(Duration::from_millis(100));
        let wake = self.books.timers.next().map(|at| Duration::from_micros(at.0.saturating_sub(self.now().0)));
        wake.map_or(tick, |wake| wake.min(tick))
    }

    fn look_at_the_clock(&mut self) {
        let now = self.now();
        let mut expired = self.books.timers.expire(now);
        if expired.is_some() {
            self.tell_progress(|core, attempt| core.wants_progress_of(attempt.task.job, attempt.task.kind));
        }
        while let Some(timer) = expired {
            self.tell(Event::TimerFired { timer });
            expired = self.books.timers.expire(now);
        }
        // Whoever was stopped for a while has heard nobody meanwhile; that says nothing about them.
        if self.looked.elapsed() > self.options.timeout / 2 {
            let now = Instant::now();
            self.nodes.iter_mut().for_each(|node| node.heard = now);
        }
        self.looked = Instant::now();
        for node in 0..self.nodes.len() {
            let node = NodeId(node as u32);
            let silent = self.nodes[node.0 as usize].heard.elapsed() > self.options.timeout;
            if silent && self.core.state().up(node).is_some() {
                self.lose(node);
            }
        }
        let orders = self.store.take_commands().into_iter();
        self.outbox.extend(orders.map(|(node, order)| Deed::Say(node, ToWorker::Store(order))));
        if self.told_followers.elapsed() >= self.options.beat {
            self.told_followers = Instant::now();
            self.tell_followers();
        }
    }

    /// A long event log is put aside when nothing is under way: no job, no attempt, nothing unwritten and nothing undone.
    fn tidy_up(&mut self) {
        let idle = self.core.state().live_count() == 0
            && self.books.at_work.is_empty()
            && self.outbox.is_empty()
            && self.books.jobs.values().all(|book| book.settled);
        if idle && self.journal.event_log_bytes() > EVENT_LOG_BYTES_ENOUGH {
            self.begin_anew();
        }
    }

    /// Nothing is live, so a new core with the nodes that are up is as good as the old one, and its journal is short.
    fn begin_anew(&mut self) {
        let setup = self.core.setup().clone();
        let nodes: Vec<_> = self.core.state().nodes.iter().map(|node| (node.up, node.spec.clone())).collect();
        let renewed = Scheduler::new(setup.clone())
            .map_err(|error| JournalError::Record(error.to_string()))
            .and_then(|core| Ok((core, Journal::begin(&self.options.folder, &setup, self.books.next_job)?)));
        match renewed {
            Ok((core, journal)) => {
                (self.core, self.journal) = (core, journal);
                self.books.timers = Timers::default();
                for (node, (up, spec)) in nodes.into_iter().enumerate() {
                    let node = NodeId(node as u32);
                    self.tell(Event::NodeJoined { node, spec });
                    if !up {
                        self.tell(Event::NodeLost { node });
                    }
                }
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Says how far attempts are, those that `wanted` picks out.
    pub(super) fn tell_progress(&mut self, wanted: impl Fn(&Scheduler, AttemptId) -> bool) {
        let mut progress: Vec<Progress> = self
            .progress
            .iter()
            .filter(|(attempt, _)| self.books.at_work.contains_key(attempt) && wanted(&self.core, **attempt))
            .map(|(&attempt, &progress_ppm)| Progress { attempt, progress_ppm })
            .collect();
        if !progress.is_empty() {
            progress.sort_by_key(|progress| progress.attempt);
            self.tell(Event::ProgressReported { progress });
        }
    }

    /// Offers the free slots of every node for which that could make a difference now.
    fn offer(&mut self) {
        let count = self.nodes.len();
        for at in 0..count {
            let at = (self.turn + at) % count;
            let node = NodeId(at as u32);
            let desked = &self.nodes[at];
            if desked.link.is_none() || !(desked.due || desked.offered < self.stirred) {
                continue;
            }
            let Some(state) = self.core.state().up(node) else { continue };
            let wanted = |&kind: &Kind| state.free[kind.ix()] > 0 && self.core.has_pending(kind);
            if Kind::BOTH.iter().any(wanted) {
                self.tell(Event::SlotsOffered { node, progress: Vec::new() });
            }
            (self.nodes[at].offered, self.nodes[at].due) = (self.stirred, false);
        }
        self.turn = if count == 0 { 0 } else { (self.turn + 1) % count };
    }

    /// Brings the journal to the disk, then does what was asked for; deeds may bring more of both.
    pub(super) fn commit(&mut self) -> Result<(), JournalError> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.journal.sync()?;
            let deeds = std::mem::take(&mut self.outbox);
            if deeds.is_empty() {
                return Ok(());
            }
            deeds.into_iter().for_each(|deed| self.act(deed));
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Act(action) => self.carry_out(action),
            Deed::Say(node, message) => self.say(node, message),
            Deed::TellOutput(map) => self.tell_output(map),
            Deed::Reply(to, answer) => {
                // A user who has gone does not wait for the answer.
                let _ = to.send(answer);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Launch { attempt, node, work, .. } => self.launch(attempt, node, work),
            Action::Pause { attempt, node, .. } | Action::EndEarly { attempt, node, .. } => {
                self.order(attempt, node, Asked::GiveWay);
            }
            Action::Kill { attempt, node, .. } => self.order(attempt, node, Asked::Kill),
            Action::CloseJob { job, outcome } => self.close(job, outcome),
            // Input lies where its owner put it; the core is told where that is with each job.
            Action::PlaceReplicas { .. } => {}
            // The books know when to wake; a refusal concerns whoever told, and they have seen it.
            Action::SetTimer { .. } | Action::Refuse { .. } => {}
        }
    }

    fn close(&mut self, job: JobId, outcome: Outcome) {
        for node in 0..self.nodes.len() {
            self.say(NodeId(node as u32), ToWorker::CloseJob { job });
        }
        self.progress.retain(|attempt, _| attempt.task.job != job);
        self.settle(job, outcome);
    }

    /// Says something to a worker, if it is there to hear it. What matters is said again when it comes back.
    pub(super) fn say(&mut self, node: NodeId, message: ToWorker) {
        if let Some(Desked { link: Some(link), .. }) = self.nodes.get_mut(node.0 as usize) {
            link.welcomed |= matches!(message, ToWorker::Welcome { .. });
            if link.welcomed {
                let _ = link.to.send(message);
            }
        }
    }
}

impl Desked {
    /// A node of which only the core knows yet: the journal spoke of it.
    pub(super) fn unknown(now: Instant) -> Desked {
        Desked {
            link: None,
            heard: now,
            data_address: String::new(),
            host: String::new(),
            pid: 0,
            offered: 0,
            due: false,
        }
    }
}
