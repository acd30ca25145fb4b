//! Attempts and decisions, in columns.

use giveway_core::{AttemptId, End, Kind, NodeId, PreemptAction, Reason, Start, Time, Work};
use rustc_hash::FxHashMap;
use strum::{IntoStaticStr, VariantArray};

/// No row.
pub const NONE: u32 = u32::MAX;

/// How an attempt began. The names are those in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Began {
    Fresh = 0,
    Recovery = 1,
    Speculative = 2,
    Resumed = 3,
    Migrated = 4,
}

impl Began {
    pub(super) fn of(work: Work, reason: &Reason) -> Began {
        match (work, reason) {
            (Work::Reduce { start: Start::Resumed { .. } }, _) => Began::Resumed,
            (Work::Reduce { start: Start::Migrated { .. } }, _) => Began::Migrated,
            (_, Reason::Recovery { .. }) => Began::Recovery,
            (_, Reason::Speculative { .. }) => Began::Speculative,
            _ => Began::Fresh,
        }
    }
}

/// How an attempt ended. The names are those in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Ended {
    Running = 0,
    Finished = 1,
    Paused = 2,
    EndedEarly = 3,
    /// To free its slot for another job.
    #[strum(serialize = "killed-for-other-job")]
    KilledForOther = 4,
    /// Because its job ended or another attempt of its task finished.
    Killed = 5,
    Failed = 6,
    #[strum(serialize = "lost-with-node")]
    NodeLost = 7,
    #[strum(serialize = "reported-again")]
    Resynced = 8,
}

impl Ended {
    pub(super) fn of(end: End) -> Ended {
        match end {
            End::Finished { .. } => Ended::Finished,
            End::Paused => Ended::Paused,
            End::EndedEarly { .. } => Ended::EndedEarly,
            End::Killed { preempted: true } => Ended::KilledForOther,
            End::Killed { preempted: false } => Ended::Killed,
            End::Failed => Ended::Failed,
            End::NodeLost => Ended::NodeLost,
            End::Resynced => Ended::Resynced,
        }
    }
}

/// What a mark on the timeline stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[repr(u8)]
pub enum MarkKind {
    Paused = 0,
    Resumed = 1,
    EndedEarly = 2,
    Killed = 3,
    Failed = 4,
    NodeLost = 5,
    NodeJoined = 6,
    JobSubmitted = 7,
    JobEnded = 8,
    Migrated = 9,
    NodeExcluded = 10,
    NodeIncluded = 11,
    NodeDrained = 12,
}

/// The codes of the columns as a script, for the pages: what a number stands for is defined here only.
pub fn codes_script() -> String {
    fn object(variants: &[impl std::fmt::Debug]) -> String {
        let entry = |(code, variant): (u32, &_)| {
            let name = format!("{variant:?}");
            format!("{}{}: {code}, ", name[..1].to_lowercase(), &name[1..])
        };
        format!("{{ {}}}", (0..).zip(variants).map(entry).collect::<String>())
    }
    format!(
        "// The codes of the timeline's columns, as the server has them.\n\n\
         export const NONE = {NONE};\nexport const KIND = {{ map: 0, reduce: 1 }};\nexport const BEGAN = {};\n\
         export const ENDED = {};\nexport const MARK = {};\n",
        object(Began::VARIANTS),
        object(Ended::VARIANTS),
        object(MarkKind::VARIANTS)
    )
}

/// A decision or an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it took effect.
    pub at: Time,
    pub kind: MarkKind,
    pub subject: Subject,
}

/// What a mark is about. Jobs and attempts are rows; the row of a job that is not known is [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Node(NodeId),
    Job(u32),
    Attempt {
        job: u32,
        row: u32,
        /// The job that gets the slot.
        beneficiary: Option<u32>,
    },
}

impl Subject {
    /// Its numbers in the columns: the job, the beneficiary, and the attempt or node, each [`NONE`] if there is none.
    pub(super) fn columns(self) -> (u32, u32, u32) {
        match self {
            Subject::Node(node) => (NONE, NONE, node.0),
            Subject::Job(job) => (job, NONE, NONE),
            Subject::Attempt { job, row, beneficiary } => (job, beneficiary.unwrap_or(NONE), row),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttemptRow {
    pub kind: Kind,
    pub task: u32,
    /// Its number among the attempts of its task.
    pub number: u16,
    pub node: NodeId,
    /// When it started, in seconds of the log.
    pub start_s: f64,
    /// When it ended; none while it runs.
    pub end_s: Option<f64>,
    pub began: Began,
    pub ended: Ended,
}

/// The attempts, in columns; a row is an index into all of them.
#[derive(Debug, Default)]
pub struct Attempts {
    pub(super) start_s: Vec<f64>,
    /// NaN while it runs.
    pub(super) end_s: Vec<f64>,
    pub(super) job: Vec<u32>,
    pub(super) node: Vec<u32>,
    pub(super) task: Vec<u32>,
    pub(super) number: Vec<u16>,
    pub(super) lane: Vec<u16>,
    pub(super) kind: Vec<u8>,
    pub(super) began: Vec<Began>,
    pub(super) ended: Vec<Ended>,
    launch_reasons: Vec<Reason>,
    /// By row, how it was requested to stop, why, and the row of the job that gets the slot.
    pub(super) stops: FxHashMap<u32, (PreemptAction, Reason, Option<u32>)>,
    /// By row, the progress that a paused reduce kept.
    pub(super) progress_ppm: FxHashMap<u32, u32>,
}

impl Attempts {
    /// Number of attempts.
    pub fn len(&self) -> usize {
        self.start_s.len()
    }

    /// True without any attempt.
    pub fn is_empty(&self) -> bool {
        self.start_s.is_empty()
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn launch(
        &mut self,
        now: Time,
        id: AttemptId,
        node: NodeId,
        job: u32,
        lane: u16,
        began: Began,
        reason: Reason,
    ) -> u32 {
        let row = self.len() as u32;
        self.start_s.push(now.as_secs_f64());
        self.end_s.push(f64::NAN);
        self.job.push(job);
        self.node.push(node.0);
        self.task.push(id.task.index);
        self.number.push(id.number);
        self.lane.push(lane);
        self.kind.push(u8::from(id.task.kind == Kind::Reduce));
        self.began.push(began);
        self.ended.push(Ended::Running);
        self.launch_reasons.push(reason);
        row
    }

    pub(super) fn end(&mut self, row: u32, now: Time, ended: Ended) {
        let at = row as usize;
        if let (Some(end), Some(how)) = (self.end_s.get_mut(at), self.ended.get_mut(at)) {
            (*end, *how) = (now.as_secs_f64(), ended);
        }
    }

    /// The attempts of the job in this row, in the order of launch.
    pub fn of_job(&self, job: u32) -> impl Iterator<Item = AttemptRow> {
        (0..self.len()).filter(move |&row| self.job[row] == job).filter_map(|row| self.row(row as u32))
    }

    /// The attempt in a row.
    pub fn row(&self, row: u32) -> Option<AttemptRow> {
        let row = row as usize;
        (row < self.len()).then(|| AttemptRow {
            kind: if self.kind[row] == 0 { Kind::Map } else { Kind::Reduce },
            task: self.task[row],
            number: self.number[row],
            node: NodeId(self.node[row]),
            start_s: self.start_s[row],
            end_s: Some(self.end_s[row]).filter(|end_s| !end_s.is_nan()),
            began: self.began[row],
            ended: self.ended[row],
        })
    }

    /// Whether a row is that of this attempt of the job in row `job`.
    pub(super) fn is_at(&self, row: u32, job: u32, id: AttemptId) -> bool {
        let at = row as usize;
        let is_reduce = u8::from(id.task.kind == Kind::Reduce);
        self.job.get(at) == Some(&job)
            && self.kind.get(at) == Some(&is_reduce)
            && self.task.get(at) == Some(&id.task.index)
            && self.number.get(at) == Some(&id.number)
    }

    pub(super) fn lane(&self, row: u32) -> u16 {
        self.lane.get(row as usize).copied().unwrap_or(0)
    }

    /// Why it was launched.
    pub fn launch_reason(&self, row: u32) -> Option<&Reason> {
        self.launch_reasons.get(row as usize)
    }

    /// How it was last requested to stop, and why.
    pub fn stop_reason(&self, row: u32) -> Option<(PreemptAction, &Reason)> {
        self.stops.get(&row).map(|(action, reason, _)| (*action, reason))
    }

    /// The part of its task that a paused reduce kept, in parts per million.
    pub fn kept_ppm(&self, row: u32) -> Option<u32> {
        self.progress_ppm.get(&row).copied()
    }
}
