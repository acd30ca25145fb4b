//! The reference implementation: a sequential, simple MapReduce.
//!
//! It reads whole files, maps line by line, sorts all records in memory and reduces key by key. It shares no code with the data path, so a job's
//! output can be compared with its result byte for byte.

use crate::apps::{App, part_name};
use crate::input::{self, InputError};
use crate::job::{Codec, InputSplit, Plan};
use crate::record::{AppError, Emit, Record, Values};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Output files, sorted by name: name and content.
pub type Parts = Vec<(String, Vec<u8>)>;

/// Why the reference run of a job failed.
#[derive(Debug, Error)]
pub enum ReferenceError {
    /// The input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The application returned an error.
    #[error(transparent)]
    App(#[from] AppError),
    /// The plan has reduces, but the application has no reducer.
    #[error(
        "application `{app}` has no reducer, but the job has {reduces} reduces; run it with 0 reduces or add a reducer"
    )]
    NoReducer {
        /// Name of the application.
        app: String,
        /// Number of reduces of the job.
        reduces: u32,
    },
    /// The application ended its rounds before the one that writes the job's output.
    #[error(
        "application `{app}` ended with round {round}, which does not write the job's output; fix its `next_round`"
    )]
    MissingRound {
        /// Name of the application.
        app: String,
        /// Number of the last round.
        round: u32,
    },
    /// A folder for intermediate rounds cannot be written.
    #[error("cannot write to {folder}: {error}; check free space and permissions there", folder = .folder.display())]
    Write { folder: PathBuf, error: io::Error },
}

/// The expected output of a job: the files of its last round.
pub fn run(app: &dyn App, plan: &Plan) -> Result<Parts, ReferenceError> {
    run_rounds(app, plan, |plan| run_round(app, plan))
}

/// Reads the output of a job from its folder, for comparison with [`run`]. The parts of a split whose map ended early are joined.
pub fn read_output(output: &Path) -> io::Result<Parts> {
    let mut names = Vec::new();
    for entry in fs::read_dir(output)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut parts = Parts::new();
    for name in names.iter().filter(|name| name.starts_with("part-")) {
        let bytes = fs::read(output.join(name))?;
        let part: String = name.chars().take("part-r-00000".len()).collect();
        match parts.last_mut().filter(|(last, _)| *last == part) {
            Some((_, whole)) => whole.extend(bytes),
            None => parts.push((part, bytes)),
        }
    }
    Ok(parts)
}

/// Runs all rounds of a job. Earlier rounds than the last write to a temporary folder, from which the application reads them.
pub(crate) fn run_rounds<E>(
    app: &dyn App,
    plan: &Plan,
    mut round: impl FnMut(&Plan) -> Result<Parts, E>,
) -> Result<Parts, ReferenceError>
where
    ReferenceError: From<E>,
{
    let temporary = TempFolder::new()?;
    let mut plan = plan.clone();
    loop {
        let parts = round(&plan)?;
        if plan.output == plan.request.output {
            return Ok(parts);
        }
        plan.output = temporary.round_folder(plan.round)?;
        for (name, bytes) in parts {
            fs::write(plan.output.join(name), bytes).map_err(write_error(&plan.output))?;
        }
        let missing = || ReferenceError::MissingRound { app: app.name().to_owned(), round: plan.round };
        plan = app.next_round(&plan)?.ok_or_else(missing)?;
    }
}

fn run_round(app: &dyn App, plan: &Plan) -> Result<Parts, ReferenceError> {
    let mut parts = Parts::new();
    let mut all = Records::default();
    let mut texts = TextCache { plan, last: None };
    let no_reducer = || ReferenceError::NoReducer { app: app.name().to_owned(), reduces: plan.reduces };
    for (split, part) in plan.splits.iter().zip(0..) {
        let mut mapper = app.mapper(plan)?;
        let text = texts.text(split.file)?;
        for (offset, line) in lines(plan, *split, text) {
            mapper.map(Record { file: &plan.files[split.file as usize].name, offset, line }, &mut all)?;
        }
        mapper.finish(&mut all)?;
        if plan.reduces == 0 {
            parts.push((part_name(plan, part), std::mem::take(&mut all).to_output(plan)));
        }
    }
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_unstable();
    for part in 0..plan.reduces {
        let mut out = Records::default();
        let mut reducer = app.reducer(plan)?.ok_or_else(no_reducer)?;
        for group in sorted.chunk_by(|a, b| a.0 == b.0) {
            let key = group[0].0;
            if plan.partitioning.of(key, plan.reduces) == part {
                reducer.reduce(key, &mut SliceValues(group.iter()), &mut out)?;
            }
        }
        reducer.finish(&mut out)?;
        parts.push((part_name(plan, part), out.to_output(plan)));
    }
    Ok(parts)
}

/// Uncompressed contents of input files. Caches the last one, because the splits of a file are adjacent.
struct TextCache<'a> {
    plan: &'a Plan,
    last: Option<(u32, Vec<u8>)>,
}

impl TextCache<'_> {
    fn text(&mut self, file: u32) -> Result<&[u8], InputError> {
        let text = match self.last.take() {
            Some((last, text)) if last == file => text,
            _ => input::read_text(&self.plan.files[file as usize])?,
        };
        Ok(&self.last.insert((file, text)).1)
    }
}

/// The lines that begin in a split, with their offsets.
fn lines<'a>(plan: &Plan, split: InputSplit, text: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
    let owned = match plan.files[split.file as usize].codec {
        Codec::Plain => split.offset..split.offset + split.bytes,
        _ => 0..u64::MAX,
    };
    let mut next = 0;
    let all = text.split_inclusive(|byte| *byte == b'\n').map(move |line| {
        let at = next;
        next += line.len() as u64;
        (at, line.strip_suffix(b"\n").unwrap_or(line))
    });
    all.filter(move |(at, _)| owned.contains(at))
}

/// Records in emission order, in one buffer.
#[derive(Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// Offsets of each record's key and value.
    at: Vec<(usize, usize)>,
}

impl Emit for Records {
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.at.push((self.bytes.len(), self.bytes.len() + key.len()));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn count(&mut self, _counter: &'static str, _by: u64) {}
}

impl Records {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ends = self.at.iter().skip(1).map(|(next, _)| *next).chain([self.bytes.len()]);
        self.at.iter().zip(ends).map(|(&(key, value), end)| (&self.bytes[key..value], &self.bytes[value..end]))
    }

    /// The content of an output file with these records.
    pub(crate) fn to_output(&self, plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in self.iter() {
            plan.format.write(key, value, &mut bytes);
        }
        bytes
    }
}

/// The values of a slice of records.
pub(crate) struct SliceValues<'a>(pub(crate) std::slice::Iter<'a, (&'a [u8], &'a [u8])>);

impl Values for SliceValues<'_> {
    fn next(&mut self) -> Option<&[u8]> {
        self.0.next().map(|(_, value)| *value)
    }
}

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Result<TempFolder, ReferenceError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("giveway-reference-{}-{count}", std::process::id()));
        fs::create_dir_all(&folder).map_err(write_error(&folder))?;
        Ok(TempFolder(folder))
    }

    fn round_folder(&self, round: u32) -> Result<PathBuf, ReferenceError> {
        let folder = self.0.join(format!("round-{round}"));
        fs::create_dir_all(&folder).map_err(write_error(&folder))?;
        Ok(folder)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_error(folder: &Path) -> impl FnOnce(io::Error) -> ReferenceError {
    let folder = folder.to_owned();
    move |error| ReferenceError::Write { folder, error }
}
