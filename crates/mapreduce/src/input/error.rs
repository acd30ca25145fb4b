//! Errors of finding and reading input.

use crate::job::Codec;
use std::error::Error;
use std::io;

/// Why input cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// No input was given.
    #[error("the job has no input; name at least one file, directory or glob")]
    Nothing,
    /// A relative path.
    #[error("input {path} is not an absolute path; write it from / on, or hdfs://HOST:PORT/...")]
    Relative {
        /// The path that was given.
        path: String,
    },
    /// There is no such file or directory.
    #[error("input {path} does not exist; check the spelling, and that it is on this machine")]
    Missing {
        /// The path that was given.
        path: String,
    },
    /// A glob with a syntax error.
    #[error("invalid glob {pattern}: {detail}; use `*`, `**`, `?` and `[abc]`")]
    BadGlob {
        /// The glob that was given.
        pattern: String,
        detail: String,
    },
    /// A glob without a match.
    #[error(
        "input {pattern} matches no file; check the directory, and quote the glob so that the shell does not expand it"
    )]
    NoMatch {
        /// The glob that was given.
        pattern: String,
    },
    /// A directory without input files.
    #[error(
        "input directory {path} contains no input (names that begin with `.` or `_` are ignored); add files or name another directory"
    )]
    EmptyDirectory {
        /// The path that was given.
        path: String,
    },
    /// A pipe, a socket or a device.
    #[error("input {path} is not a regular file; copy its content into a file first")]
    NotAFile {
        /// The path that was given.
        path: String,
    },
    /// An I/O error.
    #[error("cannot read input {name}: {source}; check its permissions, and the disk or machine it is on")]
    Unreadable { name: String, source: io::Error },
    /// A path in HDFS in a build without HDFS.
    #[error(
        "input {path} is in HDFS, which this build does not support; build with `cargo build --release --features hdfs`"
    )]
    NoHdfs {
        /// The path that was given.
        path: String,
    },
    /// HDFS refused a path or is unreachable.
    #[error("cannot find input {path}: {source}")]
    Hdfs {
        /// The path that was given.
        path: String,
        /// The error of the HDFS client.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file's extension names a codec that its first bytes are not of.
    #[error(
        "input {name} has the extension of a {codec} file but is not one; rename it if it is plain text, or copy it again"
    )]
    WrongExtension {
        name: String,
        /// The codec of the extension.
        codec: Codec,
    },
    /// Compressed data that is truncated or corrupt.
    #[error("input {name} is corrupt: its {codec} data cannot be decompressed ({source}); copy or compress it again")]
    Corrupt { name: String, codec: Codec, source: io::Error },
    /// A file that was truncated after the job was submitted.
    #[error(
        "input {name} ends at byte {found} but was longer when the job was submitted; do not change input while a job reads it"
    )]
    Shrunk { name: String, found: u64 },
    /// A line above the size limit.
    #[error("input {name} has a line of more than {limit} bytes at byte {offset}; check that it is a text file")]
    LineTooLong {
        name: String,
        /// Offset of the line.
        offset: u64,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl InputError {
    /// The meaning of a failed read: an I/O error of a plain file, corruption of a compressed one.
    pub(super) fn while_reading(name: &str, codec: Codec, source: io::Error) -> InputError {
        let name = name.to_owned();
        match codec {
            Codec::Plain => InputError::Unreadable { name, source },
            codec => InputError::Corrupt { name, codec, source },
        }
    }
}
