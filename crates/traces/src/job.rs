//! One job of a trace, in the terms that all formats share.

use giveway_core::{Priority, Span};

/// One job of a trace. Times are on the trace's own clock, whose origin differs between formats.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// Identifier in the trace.
    pub id: String,
    /// Name of the job, or its identifier.
    pub name: String,
    /// User that submitted it; `default` where the trace has no users.
    pub user: String,
    /// Queue or pool; the user's name where the trace has no queues.
    pub pool: String,
    /// Priority within its pool.
    pub priority: Priority,
    /// Submission time in microseconds.
    pub submit_us: i64,
    /// Recorded end in microseconds, where the trace has one.
    pub finish_us: Option<i64>,
    /// How the recorded job ended.
    pub outcome: JobOutcome,
    /// Its maps; at least one.
    pub maps: Tasks,
    /// Its reduces; none in a map-only job.
    pub reduces: Tasks,
    /// Reduces may start once this fraction of the maps is done, in millionths.
    pub slowstart_ppm: u32,
}

/// All tasks of one kind of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tasks {
    pub count: u32,
    /// Input of all of them together; of reduces, what they fetch.
    pub input_bytes: u64,
    /// Output of all of them together; of the maps of a job with reduces, what is shuffled.
    pub output_bytes: u64,
    /// Mean time of one task.
    pub time: TaskTime,
}

/// The mean time of a task, and what it includes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskTime {
    /// Recorded from start to end: reading, fetching after the last map and writing are included.
    Recorded(Span),
    /// Compute time from the duration model; reading and writing are added by the simulator.
    Modelled(Span),
}

impl Default for TaskTime {
    fn default() -> TaskTime {
        TaskTime::Modelled(Span::ZERO)
    }
}

impl TaskTime {
    /// The span, whatever it includes.
    pub fn span(self) -> Span {
        match self {
            TaskTime::Recorded(span) | TaskTime::Modelled(span) => span,
        }
    }
}

/// How a recorded job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobOutcome {
    /// All of its tasks finished.
    Succeeded,
    Failed,
    /// It was killed or cancelled.
    Killed,
    /// The trace does not tell, or ends before the job does.
    #[default]
    Unknown,
}

impl JobOutcome {
    /// The outcome that Hadoop writes as this word.
    pub(crate) fn of(word: Option<&str>) -> JobOutcome {
        match word {
            Some("SUCCESS" | "SUCCEEDED") => JobOutcome::Succeeded,
            Some("FAILED" | "FAILURE") => JobOutcome::Failed,
            Some("KILLED") => JobOutcome::Killed,
            _ => JobOutcome::Unknown,
        }
    }
}

impl Tasks {
    /// Time of all tasks together, in seconds.
    pub fn total_s(&self) -> f64 {
        self.time.span().as_secs_f64() * f64::from(self.count)
    }
}

/// Largest number of tasks of a kind in a job, as in workload files.
pub(crate) const MAX_TASKS: u32 = 10_000_000;
