//! Errors of the built-in applications. They are converted into [`AppError`], the error of all user code.

use std::path::PathBuf;

/// Why a request is refused before the job begins.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error("unknown application `{name}`; {hint}choose one of {known}")]
    UnknownApp { name: String, hint: String, known: String },
    #[error("{app} has no option `{option}` and takes none; leave it out")]
    NoOptions { app: &'static str, option: String },
    #[error("{app} has no option `{option}`; it has {known}")]
    UnknownOption { app: &'static str, option: String, known: String },
    #[error("{app} needs at least one reduce; ask for one or more, or omit the number")]
    NoReduces { app: &'static str },
    #[error("wordcount has no combiner `{name}`; choose builtin or custom")]
    UnknownCombiner { name: String },
    #[error("grep needs a pattern; add -O pattern=REGEX")]
    MissingPattern,
    #[error("grep: invalid pattern={pattern}: {error}; escape special characters with \\")]
    BadPattern { pattern: String, error: regex::Error },
    #[error(
        "too much input for one job: {splits} splits, and at most {max} are supported; use larger splits (--split) or fewer files"
    )]
    TooManySplits { splits: u64, max: u64 },
    #[error("streaming needs a mapper; add --mapper COMMAND (`cat` passes lines through unchanged)")]
    MissingMapper,
    #[error("streaming has a combiner but no reducer; remove the combiner or add --reducer COMMAND")]
    CombinerWithoutReducer,
    #[error("streaming cannot run in dir={}: it must be the absolute path of an existing directory", dir.display())]
    BadDir { dir: PathBuf },
    #[error("the {role} {} {problem}; check the path, and `chmod +x` it if it is a script", program.display())]
    BadProgram { role: &'static str, program: PathBuf, problem: &'static str },
    #[error(
        "kmeans needs k={k} distinct points and found {found}; choose a smaller k, and check that the input is lines of numbers"
    )]
    TooFewPoints { found: usize, k: usize },
}

/// Why an application cannot process its data.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataError {
    #[error(
        "{file}: the line at byte {offset} is not a point; write decimal numbers below {limit}, separated by commas or blanks"
    )]
    NotAPoint { file: String, offset: u64, limit: i64 },
    #[error(
        "{file}: the line at byte {offset} has {found} numbers and others have {expected}; give all points the same dimensions"
    )]
    Dimensions { file: String, offset: u64, found: usize, expected: usize },
    #[error("{} contains a line that kmeans did not write; do not change a job's files while it runs", path.display())]
    ForeignLine { path: PathBuf },
    #[error("the plan's centroids cannot be decoded: {0}; use programs of the same release")]
    Centroids(#[from] postcard::Error),
    #[error(
        "{file}: the line at byte {offset} is not a sequence, a document and a count; do not change a job's files while it runs"
    )]
    NotACount { file: String, offset: u64 },
    #[error("a value of key `{key}` is not a number; emit values with varint::with_encoded")]
    NotANumber { key: String },
    #[error("the sum of key `{key}` exceeds 64 bits; use a reducer with larger numbers")]
    SumOverflow { key: String },
}
