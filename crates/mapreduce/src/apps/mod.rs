//! Applications: the MapReduce programs that jobs run.
//!
//! An [`App`] is a program with a name; [`Apps`] is the set that a cluster can run. Built in, one file each, are the eight of the FCS paper (after
//! the PUMA benchmarks), grep and sort, and [`streaming`](streaming::Streaming), which runs any executable.
//!
//! The output of an application is determined by its input and options. It does not depend on the order of maps, on how often values were combined,
//! or on pauses and failures: sums are sums of integers, and everything else is sorted.

/// The name of a built-in application, and what it does.
macro_rules! named {
    ($name:literal, $about:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn about(&self) -> &'static str {
            $about
        }
    };
}

mod child;
mod documents;
mod error;
mod grep;
mod inverted_index;
mod kmeans;
mod ranked_inverted_index;
mod self_join;
mod sequence_count;
mod sort;
pub mod streaming;
mod sum;
mod tera_sort;
mod term_vector;
#[cfg(test)]
mod tests;
mod word_count;
mod words;

pub use sum::Sum;
pub use words::{emit_words, words};

use crate::input;
use crate::job::{OutputFormat, Partitioning, Plan, Request};
use crate::record::{AppError, Combine, Mapper, Reducer};
use error::PlanError;
use giveway_core::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A MapReduce program. One value is shared by concurrent tasks.
pub trait App: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one line for `giveway apps`.
    fn about(&self) -> &'static str;

    /// Its options, each with one line of help. A request with other options is refused.
    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The largest split that suits the application, in bytes, where the request does not set the split size. Larger splits mean fewer
    /// tasks and more combined values; smaller ones use all slots evenly and need less memory to be sorted.
    fn split_bytes(&self) -> u64 {
        64 << 20
    }

    /// Validates the request and completes the plan before the job begins. The plan has the files, the splits, the requested number of reduces
    /// (by default chosen by the size of the input), [`Partitioning::Hash`] and [`OutputFormat::TabSeparated`]; the application may replace them. Runs in the
    /// coordinator's process.
    fn prepare(&self, _plan: &mut Plan) -> Result<(), AppError> {
        Ok(())
    }

    /// Creates the mapper of one task.
    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, AppError>;

    /// Creates the reducer of one task; `None` if the job is map-only, so that the output of the maps is the output of the job.
    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError>;

    /// How the values of a key are combined on the map side, before the shuffle.
    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Nothing
    }

    /// Returns the plan of the next round after a round has ended with its output in `plan.output`; `None` after the last round. The caller
    /// sets `job`. The last round is the one whose output is the request's. Earlier rounds have [`round_output`] as `plan.output`; that of
    /// the first is set in `prepare`.
    fn next_round(&self, _plan: &Plan) -> Result<Option<Plan>, AppError> {
        Ok(None)
    }
}

/// The applications a cluster can run, by name.
#[derive(Clone, Default)]
pub struct Apps {
    by_name: BTreeMap<&'static str, Arc<dyn App>>,
    /// Those that were added to the built-in ones.
    own: BTreeSet<&'static str>,
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Apps {
    /// The empty set.
    pub fn none() -> Apps {
        Apps::default()
    }

    /// The built-in applications.
    pub fn builtin() -> Apps {
        let builtin = Apps::none()
            .with(grep::Grep)
            .with(inverted_index::InvertedIndex)
            .with(kmeans::Kmeans)
            .with(ranked_inverted_index::RankedInvertedIndex)
            .with(self_join::SelfJoin)
            .with(sequence_count::SequenceCount)
            .with(sort::Sort)
            .with(streaming::Streaming)
            .with(term_vector::TermVector)
            .with(tera_sort::TeraSort)
            .with(word_count::WordCount);
        Apps { own: BTreeSet::new(), ..builtin }
    }

    /// Adds an application. It replaces one of the same name.
    pub fn with(mut self, app: impl App + 'static) -> Apps {
        self.own.insert(app.name());
        self.by_name.insert(app.name(), Arc::new(app));
        self
    }

    /// True if the application of this name is not one of the built-in ones, which every cluster has.
    pub fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// The application of this name. The error lists all names.
    pub fn find(&self, name: &str) -> Result<Arc<dyn App>, AppError> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().copied().collect();
            let nearest = nearest(name, known.iter().copied());
            let hint = nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "));
            PlanError::UnknownApp { name: name.to_owned(), hint, known: known.join(", ") }.into()
        })
    }

    /// All applications, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &dyn App> {
        self.by_name.values().map(|app| app.as_ref())
    }
}

/// The name that was probably meant: the one with the fewest changed letters, if those are few.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let changes_max = (name.chars().count() / 3).max(1);
    let with_changes = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    with_changes
        .filter(|(changes, _)| *changes <= changes_max)
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, known)| known)
}

/// Input bytes per reduce, where the request does not set the number of reduces.
const INPUT_BYTES_PER_REDUCE: u64 = 128 << 20;

/// Limit of the reduces of a job whose request does not set their number.
const DEFAULT_REDUCES_MAX: u64 = 64;

/// Maximum number of splits of a job. Checked before memory is allocated for them: a split size of one byte is most likely a typing error.
const SPLITS_MAX: u64 = 1_000_000;

/// Plans a job: finds its input, computes the splits, and has the application complete the plan. All errors of the request are found here, before
/// a task runs.
pub fn plan(app: &dyn App, job: JobId, request: Request) -> Result<Plan, AppError> {
    // Before the input is listed, which may take long.
    check_options(app, &request)?;
    complete(app, draft(job, request)?)
}

/// The part of planning that does not depend on the application: finds the input and computes the splits.
pub fn draft(job: JobId, request: Request) -> Result<Plan, AppError> {
    let files = input::find_files(&request.input)?;
    let splits = input::split_count_bound(&files, request.split_bytes);
    if splits > SPLITS_MAX {
        return Err(PlanError::TooManySplits { splits, max: SPLITS_MAX }.into());
    }
    let splits = input::compute_splits(&files, request.split_bytes);
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    // Rounded to the nearest number: an input a few bytes short of 1 GiB gets eight reduces, as 1 GiB does, and not seven.
    let by_size = bytes.saturating_add(INPUT_BYTES_PER_REDUCE / 2) / INPUT_BYTES_PER_REDUCE;
    let by_size = by_size.clamp(1, DEFAULT_REDUCES_MAX) as u32;
    Ok(Plan {
        job,
        nonce: 0,
        files,
        splits,
        reduces: request.reduces.unwrap_or(by_size),
        partitioning: Partitioning::Hash,
        format: OutputFormat::TabSeparated,
        app_data: Vec::new(),
        round: 0,
        output: request.output.clone(),
        request,
    })
}

/// The rest of planning: has the application check the request and complete the plan.
pub fn complete(app: &dyn App, mut plan: Plan) -> Result<Plan, AppError> {
    check_options(app, &plan.request)?;
    app.prepare(&mut plan)?;
    app.mapper(&plan)?;
    if app.reducer(&plan)?.is_none() {
        plan.reduces = 0;
    } else if plan.reduces == 0 {
        return Err(PlanError::NoReduces { app: app.name() }.into());
    }
    Ok(plan)
}

/// Split size of an application that is not known here.
const SPLIT_BYTES_MAX: u64 = 64 << 20;

/// The split size of a job that does not set it, for a cluster with this many map slots. If the size of the input is not known here (it is not local, or
/// missing, which is reported when the job is planned), the application's limit.
pub fn automatic_split_bytes(apps: &Apps, app: &str, input: &[OsString], map_slots: u32) -> u64 {
    let max = apps.find(app).map_or(SPLIT_BYTES_MAX, |app| app.split_bytes());
    if input.iter().any(|path| input::is_remote(path)) {
        return max;
    }
    match input::find_files(input) {
        Ok(files) => input::automatic_split_bytes(files.iter().map(|file| file.bytes).sum(), map_slots, max),
        Err(_) => max,
    }
}

fn check_options(app: &dyn App, request: &Request) -> Result<(), PlanError> {
    let known = app.options();
    match request.options.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
        None => Ok(()),
        Some(option) if known.is_empty() => Err(PlanError::NoOptions { app: app.name(), option: option.clone() }),
        Some(option) => {
            let known: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
            Err(PlanError::UnknownOption { app: app.name(), option: option.clone(), known: known.join(", ") })
        }
    }
}

/// The output directory of a round before the last: a hidden directory beside the job's output.
pub fn round_output(plan: &Plan, round: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(plan.request.output.file_name().unwrap_or_default());
    name.push(format!(".round-{round}"));
    plan.request.output.with_file_name(name)
}

/// The name of an output file: `part-r-00000` for the first reduce, `part-m-00000` for the first split of a map-only job. With more than 100,000 files all
/// numbers have more digits, so that the names sort in the order of the parts.
pub fn part_name(plan: &Plan, part: u32) -> String {
    let (kind, parts) = if plan.reduces == 0 { ('m', plan.splits.len()) } else { ('r', plan.reduces as usize) };
    let digits = parts.saturating_sub(1).to_string().len().max(5);
    format!("part-{kind}-{part:0digits$}")
}

/// Reads the lines of a round's output, in the order of its parts.
fn read_output(dir: &Path) -> Result<Vec<Vec<u8>>, AppError> {
    let mut lines = Vec::new();
    for file in input::find_files(&[dir.into()])? {
        for split in input::compute_splits(std::slice::from_ref(&file), u64::MAX) {
            let mut reader = input::LineReader::open(&file, split)?;
            while let Some(record) = reader.next()? {
                lines.push(record.line.to_vec());
            }
        }
    }
    Ok(lines)
}
