//! Applications: what a job runs.
//!
//! An [`App`] is a MapReduce program under a name; [`Apps`] are the ones a cluster knows. The built-in ones, a file each, are the eight of
//! the FCS paper (after the PUMA benchmarks), grep and sort, and [`streaming`](streaming::Streaming), which runs any executable.
//!
//! What an application writes depends on its input and options alone: not on the order of maps, on how often values were combined, or on
//! pauses and failures. Sums are sums of integers, and everything else is put in order.

mod child;
mod documents;
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
pub use words::words;

use crate::input::{self, Stored};
use crate::job::{OutputFormat, Partitioning, Plan, Request};
use crate::record::{Combine, Failure, Mapper, Reducer};
use giveway_core::JobId;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A MapReduce program under a name. One value serves many tasks at once.
pub trait App: Send + Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// One line for people: what it does.
    fn about(&self) -> &'static str;

    /// The options it knows, each with a line for people. Others are refused.
    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Looks at the request and at the input before the job begins. The plan comes with the files, the splits, a number of reduces by
    /// the size of the input if the request left it open, [`Partitioning::Hash`] and [`OutputFormat::TabSeparated`]; what suits the application
    /// better is put in their place. Runs on the coordinator's machine.
    fn prepare(&self, _plan: &mut Plan, _stored: &dyn Stored) -> Result<(), Failure> {
        Ok(())
    }

    /// A mapper for one task.
    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure>;

    /// A reducer for one task; none if the output of the maps is the output of the job (then the job has no reduces).
    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure>;

    /// What is done with a key's values before they travel.
    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Nothing
    }

    /// A round is over and its output stands in `plan.output`: the plan of the next round, if there is one. `job` is left for the caller to
    /// set. The round whose output is the request's own is the last; rounds before it, the first one in `prepare`, set `plan.output` to
    /// [`round_output`].
    fn next_round(&self, _plan: &Plan) -> Result<Option<Plan>, Failure> {
        Ok(None)
    }
}

/// The applications a cluster knows.
#[derive(Clone, Default)]
pub struct Apps {
    by_name: BTreeMap<&'static str, Arc<dyn App>>,
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Apps {
    /// No application at all.
    pub fn none() -> Apps {
        Apps::default()
    }

    /// Those that come with Giveway.
    pub fn builtin() -> Apps {
        Apps::none()
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
            .with(word_count::WordCount)
    }

    /// With one more.
    pub fn with(mut self, app: impl App + 'static) -> Apps {
        self.by_name.insert(app.name(), Arc::new(app));
        self
    }

    /// The application of this name.
    pub fn find(&self, name: &str) -> Result<Arc<dyn App>, Failure> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().copied().collect();
            Failure(format!("there is no application `{name}`; there are {}", known.join(", ")))
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &dyn App> {
        self.by_name.values().map(|app| app.as_ref())
    }
}

/// How much input a reduce is there for, where nobody says how many there should be.
const INPUT_BYTES_A_REDUCE: u64 = 128 << 20;

/// More reduces than this are only made on request.
const MOST_REDUCES: u64 = 64;

/// What a request comes to: finds and cuts its input, and lets the application have its say. Whatever is wrong with the request comes to
/// light here, before anything runs.
pub fn plan(app: &dyn App, job: JobId, request: Request, stored: &dyn Stored) -> Result<Plan, Failure> {
    check_options(app, &request)?;
    let files = input::find(&request.input, stored)?;
    let splits = input::cut(&files, request.split_bytes);
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let by_size = (bytes / INPUT_BYTES_A_REDUCE).clamp(1, MOST_REDUCES) as u32;
    let mut plan = Plan {
        job,
        files,
        splits,
        reduces: request.reduces.unwrap_or(by_size),
        partitioning: Partitioning::Hash,
        format: OutputFormat::TabSeparated,
        app_data: Vec::new(),
        round: 0,
        output: request.output.clone(),
        request,
    };
    app.prepare(&mut plan, stored)?;
    app.mapper(&plan)?;
    if app.reducer(&plan)?.is_none() {
        plan.reduces = 0;
    } else if plan.reduces == 0 {
        return Err(Failure(format!(
            "{} cannot do without reduces; ask for one or more, or leave it open",
            app.name()
        )));
    }
    Ok(plan)
}

fn check_options(app: &dyn App, request: &Request) -> Result<(), Failure> {
    let known = app.options();
    match request.options.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
        None => Ok(()),
        Some(name) if known.is_empty() => {
            Err(Failure(format!("{} has no option `{name}`, nor any other; leave it out", app.name())))
        }
        Some(name) => {
            let known: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
            Err(Failure(format!("{} has no option `{name}`; it has {}", app.name(), known.join(", "))))
        }
    }
}

/// Where a round before the last puts its output: beside the job's own output, out of the user's sight.
pub fn round_output(plan: &Plan, round: u32) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(plan.request.output.file_name().unwrap_or_default());
    name.push(format!(".round-{round}"));
    plan.request.output.with_file_name(name)
}

/// What an output file is called: `part-r-00000` for the first reduce, `part-m-00000` for the first split of a job without reduces.
pub fn part_name(plan: &Plan, part: u32) -> String {
    let kind = if plan.reduces == 0 { 'm' } else { 'r' };
    format!("part-{kind}-{part:05}")
}

/// The lines of a round's output, part after part.
fn output_lines(folder: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let mut lines = Vec::new();
    for file in input::find(&[folder.to_string_lossy().into_owned()], &input::LocalOnly)? {
        for piece in input::cut(std::slice::from_ref(&file), u64::MAX) {
            let mut reader = input::LineReader::open(&file, piece, &input::LocalOnly)?;
            while let Some(record) = reader.next()? {
                lines.push(record.line.to_vec());
            }
        }
    }
    Ok(lines)
}
