//! Detection of a trace's format by its content.

use crate::formats::{alibaba, google, job_history, swf, swim};
use std::fmt;

/// Formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SWIM: Facebook's jobs of 2009 and 2010.
    Swim,
    /// Jobs of YARN's Scheduler Load Simulator.
    Sls,
    Rumen,
    /// The application list of YARN's ResourceManager.
    YarnApps,
    Swf,
    /// Hadoop's JobHistory, in Avro's JSON or binary encoding.
    JobHistory,
    Spark,
    /// Google's cluster data of 2011.
    Google(GoogleTable),
    /// Alibaba's batch jobs of 2017 and 2018.
    Alibaba(AlibabaTable),
}

/// Which of Google's tables a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoogleTable(pub(crate) google::Table);

/// Which of Alibaba's tables a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlibabaTable(pub(crate) alibaba::Table);

impl Format {
    /// Whether the events of one job may be spread over the files of a folder, which are then read as one.
    pub(crate) fn jobs_span_files(self) -> bool {
        matches!(self, Format::Google(_) | Format::Alibaba(_))
    }
}

impl Format {
    /// Whether jobs are returned when they are complete, and not in the order of the input.
    pub(crate) fn returns_jobs_by_end(self) -> bool {
        matches!(self, Format::Google(GoogleTable(google::Table::TaskEvents | google::Table::JobEvents)))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Swim => "SWIM",
            Format::Sls => "SLS",
            Format::Rumen => "Rumen",
            Format::YarnApps => "YARN application list",
            Format::Swf => "SWF",
            Format::JobHistory => "JobHistory",
            Format::Spark => "Spark event log",
            Format::Google(GoogleTable(google::Table::TaskEvents)) => "Google 2011 task events",
            Format::Google(GoogleTable(google::Table::JobEvents)) => "Google 2011 job events",
            Format::Google(GoogleTable(google::Table::Jobs)) => "Google 2011 jobs",
            Format::Alibaba(_) => "Alibaba batch tasks",
        })
    }
}

/// What the beginning of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    Trace(Format),
    /// Known, but not a workload: what it is and what to do.
    Unsupported(&'static str),
    Unknown,
}

/// The format of a file that begins with these bytes.
pub(crate) fn detect(head: &[u8]) -> Detected {
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if matches!(text.lines().next(), Some(job_history::JSON | job_history::BINARY)) {
        return Detected::Trace(Format::JobHistory);
    }
    if text.starts_with("Meta VERSION=") || text.starts_with("!!FILE=") {
        return Detected::Unsupported(
            "the job history of Hadoop 1 is not read; convert it with Rumen's TraceBuilder and name its output",
        );
    }
    if text.starts_with(['{', '[']) {
        return json(text);
    }
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with(';'))
        .take(3)
        .find_map(line)
        .unwrap_or(if text.starts_with("; Version") { Detected::Trace(Format::Swf) } else { Detected::Unknown })
}

/// The format of a file with this line among its first three.
fn line(line: &str) -> Option<Detected> {
    let trace = |format| Some(Detected::Trace(format));
    if swim::matches(line) {
        return trace(Format::Swim);
    }
    if swf::matches(line) {
        return trace(Format::Swf);
    }
    if let Some(table) = alibaba::matches(line) {
        return trace(Format::Alibaba(AlibabaTable(table)));
    }
    google::matches(line).and_then(|table| trace(Format::Google(GoogleTable(table))))
}

/// The format of a file of JSON objects, by the keys at its beginning.
fn json(text: &str) -> Detected {
    let has = |key: &str| {
        let quoted = format!("\"{key}\"");
        text.match_indices(&quoted).any(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'))
    };
    if has("Event") && text.contains("\"SparkListener") {
        return Detected::Trace(Format::Spark);
    }
    if has("jobID") || has("mapTasks") && has("submitTime") {
        Detected::Trace(Format::Rumen)
    } else if has("job.tasks") || has("job.start.ms") || has("num.nodes") {
        Detected::Trace(Format::Sls)
    } else if has("apps") && has("app") || has("startedTime") && has("id") {
        Detected::Trace(Format::YarnApps)
    } else if has("num_jobs") && has("workloads") {
        Detected::Unsupported(
            "an SLS generator file has no jobs; give the jobs that SLS generates from it, or write a workload file with [generate]",
        )
    } else if has("rack") && has("nodes") || has("children") && has("name") {
        Detected::Unsupported("a cluster topology has no jobs; give it as --cluster, and name a file of jobs")
    } else {
        Detected::Unknown
    }
}
