//! What a browser receives: all tables at once, and then what is new.
//!
//! The first answer is binary, because it may have hundreds of thousands of attempts: a `u32` length, as many bytes of JSON ([`View`]), zeros up to a
//! multiple of 8, then the columns, each padded to a multiple of 8, at the offsets that the JSON names. Integers and floats are little-endian.
//! Updates are JSON.

use super::{Ended, JobRow, Kind, Mark, Model, NodeRow};
use crate::forecast::Forecasts;
use giveway_core::JobId;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Jobs whose rank and share an update contains, at most.
const LIVE_JOBS_MAX: usize = 2_000;

/// How far a browser has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    epoch: u64,
    attempts: usize,
    ended: usize,
    marks: usize,
    version: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { epoch, attempts, ended, marks, version } = self;
        write!(f, "{epoch:x}.{attempts:x}.{ended:x}.{marks:x}.{version:x}")
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Cursor, ()> {
        let mut parts = text.split('.').map(|part| u64::from_str_radix(part, 16).map_err(drop));
        let mut next = || parts.next().ok_or(())?;
        let index = |number: u64| usize::try_from(number).map_err(drop);
        let cursor = Cursor {
            epoch: next()?,
            attempts: index(next()?)?,
            ended: index(next()?)?,
            marks: index(next()?)?,
            version: next()?,
        };
        if parts.next().is_some() { Err(()) } else { Ok(cursor) }
    }
}

/// The tables, or what is new in them.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    /// Where the next update continues.
    cursor: String,
    /// True if the browser must drop what it has: the log is another one, or its cursor was too old.
    reset: bool,
    /// Time of the last record, in seconds.
    now: f64,
    /// Milliseconds of the Unix epoch at time zero; none for a simulation.
    wall_ms: Option<f64>,
    /// Seconds since the last record, by the wall clock; of a cluster that runs, the present is so much later than `now`.
    idle_s: f64,
    /// Readings of the wall clock: time in seconds, milliseconds of the Unix epoch.
    clock: Vec<(f64, f64)>,
    policy: &'a str,
    /// False if this release would have decided otherwise somewhere: ranks and shares may then be wrong.
    replica: bool,
    /// Row and content of each changed job.
    jobs: Vec<(u32, &'a JobRow)>,
    /// Number and content of each changed node.
    nodes: Vec<(u32, &'a NodeRow)>,
    /// Present ranks and shares.
    live: LiveJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<NewAttempts<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marks: Option<Vec<MarkJson>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<Column>,
}

/// Time, kind, job, other job, attempt or node.
type MarkJson = (f64, u8, u32, u32, u32);

/// 5th, 50th and 95th percentile, in seconds; the middle one only if enough is known.
type IntervalJson = [Option<f64>; 3];

#[derive(Debug, Default, Serialize)]
struct LiveJson {
    /// By kind, rows of the jobs that wait for slots, first to be served first.
    ranks: [Vec<u32>; 2],
    /// Row; by kind: fair share, pending, done and all tasks; estimated seconds left, if estimated.
    jobs: Vec<(u32, [[f64; 2]; 4])>,
    /// Row; 5th, 50th and 95th percentile of the start and of the end, in seconds.
    forecasts: Vec<(u32, [Option<IntervalJson>; 2])>,
}

#[derive(Debug, Serialize)]
struct NewAttempts<'a> {
    /// Row of the first one.
    from: usize,
    start: &'a [f64],
    job: &'a [u32],
    node: &'a [u32],
    task: &'a [u32],
    number: &'a [u16],
    lane: &'a [u16],
    kind: &'a [u8],
    began: Vec<u8>,
    /// Row, time and manner of each end.
    ended: Vec<(u32, f64, u8)>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: &'static str,
    kind: &'static str,
    offset: usize,
    len: usize,
}

impl Model {
    /// Where an update after everything continues.
    pub fn cursor(&self) -> Cursor {
        let (attempts, ended, marks) = (self.attempts.len(), self.ended.len(), self.marks.len());
        Cursor { epoch: self.epoch, attempts, ended, marks, version: self.version }
    }

    /// True if a cursor continues this log.
    pub fn continues(&self, cursor: Cursor) -> bool {
        let now = self.cursor();
        cursor.epoch == now.epoch
            && cursor.attempts <= now.attempts
            && cursor.ended <= now.ended
            && cursor.marks <= now.marks
            && cursor.version <= now.version
    }

    fn view(&self, after: Cursor, forecasts: &Forecasts) -> View<'_> {
        View {
            cursor: self.cursor().to_string(),
            reset: false,
            now: self.now.as_secs_f64(),
            wall_ms: self.wall_ms(),
            idle_s: self.present().since(self.now).as_secs_f64(),
            clock: self
                .clock
                .readings()
                .iter()
                .map(|read| (read.at.as_secs_f64(), read.unix_us as f64 / 1e3))
                .collect(),
            policy: &self.scheduler().setup().policy.name,
            replica: self.mismatch().is_none(),
            jobs: (0..).zip(&self.jobs).filter(|(_, job)| job.version > after.version).collect(),
            nodes: (0..).zip(&self.nodes).filter(|(_, node)| node.version > after.version).collect(),
            live: self.live(forecasts),
            attempts: None,
            marks: None,
            columns: Vec::new(),
        }
    }

    fn live(&self, forecasts: &Forecasts) -> LiveJson {
        let scheduler = self.scheduler();
        let up = scheduler.nodes().find(|node| node.up).map(|node| node.id);
        let ranks = Kind::BOTH.map(|kind| {
            let ranked = up.map_or_else(Vec::new, |node| scheduler.rank(kind, node));
            ranked.into_iter().take(LIVE_JOBS_MAX).filter_map(|job| self.job_row(job)).collect()
        });
        let mut jobs: Vec<_> = scheduler
            .running_jobs()
            .filter_map(|job| {
                let (row, status) = (self.job_row(job)?, scheduler.job_status(job)?);
                let tasks = Kind::BOTH.map(|kind| status.tasks[kind]);
                Some((
                    row,
                    [
                        tasks.map(|tasks| (tasks.fair_share * 100.0).round() / 100.0),
                        tasks.map(|tasks| f64::from(tasks.pending)),
                        tasks.map(|tasks| f64::from(tasks.done)),
                        tasks.map(|tasks| f64::from(tasks.total)),
                    ],
                ))
            })
            .collect();
        jobs.sort_unstable_by_key(|(row, _)| *row);
        jobs.truncate(LIVE_JOBS_MAX);
        let is_ahead = |job: &JobId| self.job(*job).is_some_and(|job| job.outcome.is_none());
        let (ahead, now) = (forecasts.jobs.keys().filter(|job| is_ahead(job)), self.present());
        let forecasts = ahead.filter_map(|&job| {
            let forecast = forecasts.of_job(job, now)?;
            Some((self.job_row(job)?, [forecast.start, forecast.end].map(|interval| interval.map(|of| of.seconds()))))
        });
        LiveJson { ranks, jobs, forecasts: forecasts.collect() }
    }

    /// Everything, in the binary form.
    pub fn snapshot(&self, forecasts: &Forecasts) -> Vec<u8> {
        let attempts = &self.attempts;
        let mut body = Columns::default();
        body.add_f64("start", &attempts.start_s);
        body.add_f64("end", &attempts.end_s);
        body.add_u32("job", &attempts.job);
        body.add_u32("node", &attempts.node);
        body.add_u32("task", &attempts.task);
        body.add_u16("number", &attempts.number);
        body.add_u16("lane", &attempts.lane);
        body.add_u8("kind", attempts.kind.iter().copied());
        body.add_u8("began", attempts.began.iter().map(|&began| began as u8));
        body.add_u8("ended", attempts.ended.iter().map(|&ended| ended as u8));
        body.add_f64("markTime", &self.marks.iter().map(|mark| mark.at.as_secs_f64()).collect::<Vec<_>>());
        body.add_u8("markKind", self.marks.iter().map(|mark| mark.kind as u8));
        let subjects: Vec<_> = self.marks.iter().map(|mark| mark.subject.columns()).collect();
        body.add_u32("markJob", &subjects.iter().map(|columns| columns.0).collect::<Vec<_>>());
        body.add_u32("markOther", &subjects.iter().map(|columns| columns.1).collect::<Vec<_>>());
        body.add_u32("markSubject", &subjects.iter().map(|columns| columns.2).collect::<Vec<_>>());
        let mut view = self.view(Cursor::default(), forecasts);
        view.reset = true;
        view.columns = body.columns;
        let mut head = serde_json::to_vec(&view).unwrap_or_default();
        // Spaces after JSON do no harm, and with them the columns are aligned.
        head.resize((head.len() + 4).next_multiple_of(8) - 4, b' ');
        let mut out = Vec::with_capacity(4 + head.len() + body.bytes.len());
        out.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&body.bytes);
        out
    }

    /// What is new since a cursor of this log, as JSON.
    pub fn update(&self, after: Cursor, forecasts: &Forecasts) -> String {
        let attempts = &self.attempts;
        let from = after.attempts.min(attempts.len());
        let ends = self.ended.get(after.ended..).unwrap_or_default().iter().filter_map(|&row| {
            let at = row as usize;
            let how = attempts.ended.get(at).filter(|how| **how != Ended::Running)?;
            Some((row, *attempts.end_s.get(at)?, *how as u8))
        });
        let mut view = self.view(after, forecasts);
        view.attempts = Some(NewAttempts {
            from,
            start: &attempts.start_s[from..],
            job: &attempts.job[from..],
            node: &attempts.node[from..],
            task: &attempts.task[from..],
            number: &attempts.number[from..],
            lane: &attempts.lane[from..],
            kind: &attempts.kind[from..],
            began: attempts.began[from..].iter().map(|&began| began as u8).collect(),
            ended: ends.collect(),
        });
        let marks = self.marks.get(after.marks..).unwrap_or_default().iter();
        let json = |mark: &Mark| {
            let (job, other, subject) = mark.subject.columns();
            (mark.at.as_secs_f64(), mark.kind as u8, job, other, subject)
        };
        view.marks = Some(marks.map(json).collect());
        serde_json::to_string(&view).unwrap_or_default()
    }
}

#[derive(Default)]
struct Columns {
    columns: Vec<Column>,
    bytes: Vec<u8>,
}

impl Columns {
    fn add(&mut self, name: &'static str, kind: &'static str, len: usize, bytes: impl Iterator<Item = u8>) {
        self.columns.push(Column { name, kind, offset: self.bytes.len(), len });
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn add_f64(&mut self, name: &'static str, values: &[f64]) {
        self.add(name, "f64", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn add_u32(&mut self, name: &'static str, values: &[u32]) {
        self.add(name, "u32", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn add_u16(&mut self, name: &'static str, values: &[u16]) {
        self.add(name, "u16", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn add_u8(&mut self, name: &'static str, values: impl ExactSizeIterator<Item = u8>) {
        self.add(name, "u8", values.len(), values);
    }
}
