//! Opening a trace: a file, or a folder of files of one format.

use crate::detect::{Detected, detect};
use crate::formats::alibaba::AlibabaReader;
use crate::formats::google::{self, GoogleReader};
use crate::formats::job_history::JobHistoryReader;
use crate::formats::spark::SparkReader;
use crate::formats::{JobLines, JobObjects, JobReader, Reading, rumen, sls, swf, swim, yarn_apps};
use crate::input::Input;
use crate::job::MAX_TASKS;
use crate::records::{Lines, Objects};
use crate::{
    Count, Diagnostics, DurationModel, FailedJobs, Format, GoogleTable, JobOutcome, Limits, Oddity, TaskTime, Tasks,
    TraceError, TraceJob,
};
use giveway_core::Span;
use rustc_hash::{FxHashSet, FxHasher};
use std::collections::VecDeque;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Identifiers that are remembered to find repeated ones; further jobs are not checked.
const MAX_REMEMBERED_IDS: usize = 4_000_000;

/// How a trace is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Parameters for what the trace lacks.
    pub model: DurationModel,
    pub limits: Limits,
}

/// A trace that is being read: an iterator of its jobs, in the order of the file.
pub struct Trace {
    name: String,
    format: Format,
    reading: Reading,
    reader: Box<dyn JobReader>,
    /// Files of a folder that are not read yet.
    rest: VecDeque<PathBuf>,
    ids: FxHashSet<u64>,
    latest_submit_us: i64,
}

/// Opens a file, or a folder whose files have one format, and detects the format by content.
pub fn open(path: &Path, options: &Options) -> Result<Trace, TraceError> {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let mut diagnostics = Diagnostics::default();
    let (format, mut files) = if path.is_dir() {
        files_of(path, &mut diagnostics)?
    } else {
        (format_of(&Input::open(path)?)?, VecDeque::from([path.to_owned()]))
    };
    let Some(first) = files.pop_front() else { return Err(TraceError::EmptyFolder { folder: path.to_owned() }) };
    let input = Input::open(&first)?;
    // Events of one job may be spread over several files.
    let continued: Vec<PathBuf> = if format.jobs_span_files() { files.drain(..).collect() } else { Vec::new() };
    let mut trace = Trace::new(name, format, reader(format, input, continued, &options.limits), options);
    trace.reading.diagnostics = diagnostics;
    Ok(Trace { rest: files, ..trace })
}

/// A trace in memory; the format is detected by content. `name` is used in messages.
pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &Options) -> Result<Trace, TraceError> {
    let file = Path::new(name);
    let input = Input::new(file, Cursor::new(bytes)).map_err(|error| TraceError::Read { file: file.into(), error })?;
    let format = format_of(&input)?;
    Ok(Trace::new(name.into(), format, reader(format, input, Vec::new(), &options.limits), options))
}

fn format_of(input: &Input) -> Result<Format, TraceError> {
    match detect(&input.head) {
        Detected::Trace(format) => Ok(format),
        Detected::Unsupported(problem) => {
            Err(TraceError::Unsupported { file: input.file.clone(), problem: problem.into() })
        }
        Detected::Unknown => Err(TraceError::UnknownFormat { file: input.file.clone() }),
    }
}

/// The traces of a folder in the order of their names, and their format. Other files are counted.
fn files_of(folder: &Path, diagnostics: &mut Diagnostics) -> Result<(Format, VecDeque<PathBuf>), TraceError> {
    let read_error = |error| TraceError::Read { file: folder.to_owned(), error };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut formats = Vec::new();
    let mut files = VecDeque::new();
    for path in paths {
        match Input::open(&path).and_then(|input| format_of(&input)) {
            Ok(format) => {
                if !formats.contains(&format) {
                    formats.push(format);
                }
                files.push_back(path);
            }
            Err(error) => diagnostics.odd(Oddity::OtherFile, error),
        }
    }
    match formats.as_slice() {
        [] => Err(TraceError::EmptyFolder { folder: folder.to_owned() }),
        [format] => Ok((*format, files)),
        several => {
            let formats = several.iter().map(Format::to_string).collect::<Vec<_>>().join(", ");
            Err(TraceError::MixedFolder { folder: folder.to_owned(), formats })
        }
    }
}

fn reader(format: Format, input: Input, continued: Vec<PathBuf>, limits: &Limits) -> Box<dyn JobReader> {
    let lines = |input| Lines::new(input, continued, limits.line_bytes);
    let objects = |input| Objects::new(input, limits.object_bytes);
    match format {
        Format::Swim => Box::new(JobLines { lines: lines(input), read: swim::read }),
        Format::Swf => Box::new(JobLines { lines: lines(input), read: swf::read }),
        Format::Google(GoogleTable(google::Table::Jobs)) => {
            Box::new(JobLines { lines: lines(input), read: google::read_job })
        }
        Format::Sls => Box::new(JobObjects::new(objects(input), sls::jobs)),
        Format::Rumen => Box::new(JobObjects::new(objects(input), |number, job, reading| {
            rumen::job(number, job, reading).into_iter().collect()
        })),
        Format::YarnApps => {
            let objects = Objects::of_first_array(input, limits.object_bytes);
            Box::new(JobObjects::new(objects, |_, app, reading| yarn_apps::job(app, reading).into_iter().collect()))
        }
        Format::JobHistory => Box::new(JobHistoryReader(Some(lines(input)))),
        Format::Spark => Box::new(SparkReader::new(lines(input))),
        Format::Google(table) => Box::new(GoogleReader::new(lines(input), table.0)),
        Format::Alibaba(table) => Box::new(AlibabaReader::new(lines(input), table.0)),
    }
}

impl Trace {
    fn new(name: String, format: Format, reader: Box<dyn JobReader>, options: &Options) -> Trace {
        Trace {
            name,
            format,
            reading: Reading { options: options.clone(), ..Reading::default() },
            reader,
            rest: VecDeque::new(),
            ids: FxHashSet::default(),
            latest_submit_us: i64::MIN,
        }
    }

    /// Name of the file or folder, without its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The duration model that is applied.
    pub fn model(&self) -> &DurationModel {
        &self.reading.options.model
    }

    /// What was counted so far; complete once the iterator has ended.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.reading.diagnostics
    }

    /// For counts that arise after reading.
    pub(crate) fn diagnostics_mut(&mut self) -> &mut Diagnostics {
        &mut self.reading.diagnostics
    }

    /// Applies the rules that hold for every format. None if the job is left out.
    fn checked(&mut self, mut job: TraceJob) -> Option<TraceJob> {
        let reading = &mut self.reading;
        reading.add(Count::Jobs, 1);
        let mut hasher = FxHasher::default();
        job.id.hash(&mut hasher);
        if self.ids.len() < MAX_REMEMBERED_IDS && !self.ids.insert(hasher.finish()) {
            reading.odd(Oddity::RepeatedId, &job.id);
        }
        if job.submit_us < self.latest_submit_us && !self.format.returns_jobs_by_end() {
            reading.odd(Oddity::Unsorted, &job.id);
        }
        self.latest_submit_us = self.latest_submit_us.max(job.submit_us);
        if job.finish_us.is_some_and(|finish| finish < job.submit_us) {
            reading.odd(Oddity::JobEndsBeforeStart, &job.id);
            job.finish_us = None;
        }
        let failed = matches!(job.outcome, JobOutcome::Failed | JobOutcome::Killed);
        if failed && reading.model.failed_jobs == FailedJobs::Skip {
            reading.odd(Oddity::SkippedFailedJob, &job.id);
            return None;
        }
        match job.outcome {
            JobOutcome::Failed => reading.odd(Oddity::FailedJob, &job.id),
            JobOutcome::Killed => reading.odd(Oddity::KilledJob, &job.id),
            JobOutcome::Unknown => reading.odd(Oddity::UnfinishedJob, &job.id),
            JobOutcome::Succeeded => {}
        }
        if job.maps.count.max(job.reduces.count) >= MAX_TASKS {
            reading.odd(Oddity::LargestTaskCount, &job.id);
        }
        match (job.maps.count, job.reduces.count) {
            (0, 0) => {
                reading.odd(Oddity::NoTasks, &job.id);
                return None;
            }
            (0, _) => {
                reading.odd(Oddity::ReducesWithoutMaps, &job.id);
                job.maps = Tasks { count: 1, time: TaskTime::Recorded(Span::ZERO), ..job.maps };
            }
            _ => {}
        }
        Some(job)
    }
}

impl Iterator for Trace {
    type Item = TraceJob;

    fn next(&mut self) -> Option<TraceJob> {
        loop {
            if let Some(job) = self.reader.next_job(&mut self.reading) {
                if let Some(job) = self.checked(job) {
                    return Some(job);
                }
                continue;
            }
            let file = self.rest.pop_front()?;
            match Input::open(&file) {
                Ok(input) => self.reader = reader(self.format, input, Vec::new(), &self.reading.limits),
                Err(error) => self.reading.odd(Oddity::TruncatedInput, error),
            }
        }
    }
}

/// Reads a trace from memory, for tests of the readers. Panics if the format is unknown.
#[cfg(test)]
pub(crate) fn read_bytes(bytes: &[u8], options: &Options) -> (Vec<TraceJob>, Diagnostics) {
    let mut trace = from_bytes("trace", bytes.into(), options).unwrap();
    let jobs = trace.by_ref().collect();
    (jobs, trace.reading.diagnostics)
}

/// As [`read_bytes`], with the default options.
#[cfg(test)]
pub(crate) fn read_text(text: &str) -> (Vec<TraceJob>, Diagnostics) {
    read_bytes(text.as_bytes(), &Options::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_folder_are_read_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.tsv"), "b\t2\t1\t5\t5\t5\n").unwrap();
        fs::write(folder.path().join("a.tsv"), "a\t1\t1\t5\t5\t5\n").unwrap();
        fs::write(folder.path().join("README"), "Not a trace.\n").unwrap();
        let mut trace = open(folder.path(), &Options::default()).unwrap();
        let ids: Vec<String> = trace.by_ref().map(|job| job.id).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(trace.diagnostics().of(Oddity::OtherFile), 1);
    }

    #[test]
    fn what_is_no_trace_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| open(path, &Options::default()).err().unwrap().to_string();
        assert!(error(folder.path()).contains("contains no trace"));
        assert!(error(&folder.path().join("absent")).contains("check the path"));
        let file = folder.path().join("x");
        for text in ["", "hello\n", "\u{0}\u{1}\u{2}", "a\tb\tc\td\te\tf\n"] {
            fs::write(&file, text).unwrap();
            assert!(error(&file).contains("unknown trace format"), "{text:?}");
        }
    }

    #[test]
    fn failed_jobs_are_skipped_on_request() {
        let mut options = Options::default();
        options.model.failed_jobs = FailedJobs::Skip;
        let (jobs, _) = read_bytes(b"a\t1\t1\t5\t5\t5\n", &options);
        assert_eq!(jobs.len(), 1);
    }
}
