//! Errors that end the reading of a trace.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A trace that cannot be used. Oddities of single lines or jobs are not errors but are counted in [`crate::Diagnostics`].
#[derive(Debug, Error)]
pub enum TraceError {
    /// A file or folder cannot be opened or read.
    #[error("cannot read {}: {error}; check the path and that the file is complete", file.display())]
    Read {
        /// The file or folder.
        file: PathBuf,
        error: io::Error,
    },
    /// No reader accepts the content.
    #[error("{}: unknown trace format; docs/traces.md lists the formats that are read", file.display())]
    UnknownFormat { file: PathBuf },
    /// The content is known, but cannot be a workload.
    #[error("{}: {problem}", file.display())]
    Unsupported {
        file: PathBuf,
        /// What it is and what to do.
        problem: String,
    },
    /// A folder contains no trace.
    #[error("{}: the directory contains no trace; name a directory with files of one of the formats in docs/traces.md", folder.display())]
    EmptyFolder { folder: PathBuf },
    /// The files of a folder have different formats.
    #[error("{}: the directory contains traces of different formats ({formats}); name one file, or a directory with one format", folder.display())]
    MixedFolder {
        folder: PathBuf,
        /// Names of the formats, separated by commas.
        formats: String,
    },
    /// No job of the trace can be simulated.
    #[error("{name}: the trace has no job that can be simulated; its diagnostics say why")]
    NoJobs {
        /// Name of the trace.
        name: String,
    },
    /// The trace has more jobs than a workload may have.
    #[error(
        "{name}: the trace has more than {limit} jobs, all of which would be in memory; name fewer of its files, or read a part with `giveway trace sample --jobs N`"
    )]
    TooManyJobs {
        /// Name of the trace.
        name: String,
        /// Largest number of jobs.
        limit: usize,
    },
    /// The file of the duration model is invalid.
    #[error("{file}:{line}: {problem}; every key is described in docs/traces.md")]
    Model {
        /// Name of the file.
        file: String,
        /// Line number, from 1.
        line: usize,
        problem: String,
    },
}
