//! What can be wrong with an input: what happened, where, and what to do about it.

use crate::job::Codec;
use crate::record::Failure;
use std::io;

/// Why input cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// No input was named.
    #[error("the job has no input; name at least one file, folder or glob")]
    Nothing,
    /// A path that does not begin at the root.
    #[error(
        "input {path} is not an absolute path; write it from / on, dfs:/... for a stored file, or hdfs://HOST:PORT/..."
    )]
    Relative {
        /// What was given.
        path: String,
    },
    /// There is no such file or folder.
    #[error("input {path} does not exist; check the spelling, and that it is on this machine")]
    Missing {
        /// What was given.
        path: String,
    },
    /// A glob that is not one.
    #[error("input {pattern} is not a glob: {detail}; `*`, `**`, `?` and `[abc]` are understood")]
    BadGlob {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A glob without a match.
    #[error("input {pattern} matches no file; quote it if your shell should leave it alone, and check the folder")]
    NoMatch {
        /// What was given.
        pattern: String,
    },
    /// A folder without input.
    #[error(
        "input folder {path} holds no file (names that begin with `.` or `_` do not count); put files there or name another"
    )]
    EmptyFolder {
        /// The folder.
        path: String,
    },
    /// A pipe, a socket, a device.
    #[error("input {path} is not a regular file; copy what it gives into a file first")]
    NotAFile {
        /// What it is not.
        path: String,
    },
    /// The system refuses.
    #[error("input {name} cannot be read: {source}; check its permissions, and the disk or machine it is on")]
    Unreadable {
        /// The file.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A stored path where there is no store.
    #[error("input {path} is in the block store, and there is none here; start a cluster or name a local file")]
    NoStore {
        /// What was given.
        path: String,
    },
    /// A stored path that is not there, or another complaint of the store.
    #[error("input {path} cannot be found in the block store: {detail}")]
    NotStored {
        /// What was given.
        path: String,
        /// What the store says.
        detail: String,
    },
    /// A path in HDFS where HDFS is not built in.
    #[error(
        "input {path} is in HDFS, and this program was built without it; build it with `cargo build --release --features hdfs`"
    )]
    NoHdfs {
        /// What was given.
        path: String,
    },
    /// A path in HDFS that is not there, or another complaint of HDFS.
    #[error("input {path} cannot be found: {detail}")]
    NotInHdfs {
        /// What was given.
        path: String,
        /// What HDFS says.
        detail: String,
    },
    /// The name says packed, the bytes do not.
    #[error(
        "input {name} is named like a {packing} file but does not begin like one; rename it if it is plain text, or fetch it again"
    )]
    Misnamed {
        /// The file.
        name: String,
        /// What its name says.
        packing: Codec,
    },
    /// An archive that ends too soon or does not unpack.
    #[error("input {name} is damaged: its {packing} data does not unpack ({source}); fetch or pack it again")]
    Damaged {
        /// The file.
        name: String,
        /// How it is packed.
        packing: Codec,
        /// What the unpacker says.
        source: io::Error,
    },
    /// A file that lost bytes since the job was submitted.
    #[error(
        "input {name} ends at byte {found} but had more when the job was submitted; leave input alone while a job reads it"
    )]
    Shrunk {
        /// The file.
        name: String,
        /// Where it ends now.
        found: u64,
    },
    /// A line without end.
    #[error("input {name} has a line of more than {limit} bytes at byte {offset}; is it text?")]
    LongLine {
        /// The file.
        name: String,
        /// Where the line begins.
        offset: u64,
        /// How long a line may be.
        limit: usize,
    },
}

impl InputError {
    /// What a failed read means: a disk that refuses, or an archive that does not unpack.
    pub(super) fn while_reading(name: &str, packing: Codec, source: io::Error) -> InputError {
        let name = name.to_owned();
        match packing {
            Codec::Plain => InputError::Unreadable { name, source },
            packing => InputError::Damaged { name, packing, source },
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        Failure(error.to_string())
    }
}
