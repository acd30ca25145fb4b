//! A job as submitted ([`Request`]), and as executed once its input has been listed and split ([`Plan`]).

use crate::data::Compression;
use giveway_core::{JobId, Priority};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use thiserror::Error;

/// A job as its user submits it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Name of the application.
    pub app: String,
    /// The application's options by name. Each application documents its own.
    pub options: BTreeMap<String, String>,
    /// Input paths: absolute local files, folders or globs, or files, folders or globs in HDFS (`hdfs://`).
    #[serde(with = "crate::path_bytes::list")]
    pub input: Vec<OsString>,
    /// Output folder, an absolute path. It must not exist.
    #[serde(with = "crate::path_bytes")]
    pub output: PathBuf,
    /// Number of reduces; `None` leaves the choice to the application.
    pub reduces: Option<u32>,
    /// Input size of one map. The last split of a file may be up to 10 % larger.
    pub split_bytes: u64,
    /// Memory for the buffers of one task.
    pub memory_bytes: u64,
    /// A name for people; need not be unique.
    pub name: String,
    /// The submitting user, for policies that share by user.
    pub user: String,
    /// The pool (queue) the job is submitted to; empty for the one that is named after the user.
    pub pool: String,
    /// Scheduling priority, for policies that use it.
    pub priority: Priority,
    /// An attempt that makes no progress for this long fails.
    pub task_timeout_ms: u64,
    /// Maximum rate of each task, to limit its load or to observe it; `None` for no limit.
    pub records_per_s: Option<u64>,
    /// Compress map outputs where that makes them smaller. On one machine this rarely saves time.
    pub compress: bool,
    /// Make the output durable before the job succeeds. Without it a job ends sooner, but after a power cut its output may be incomplete
    /// although it is marked as complete.
    pub sync_output: bool,
}

/// The complete description of a job that its tasks need. Each worker receives it once per job and connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub job: JobId,
    /// Random number that identifies the job's output folder, so that no other folder is ever removed.
    pub nonce: u64,
    /// The request as submitted.
    pub request: Request,
    pub files: Vec<InputFile>,
    /// The input splits, one map for each.
    pub splits: Vec<InputSplit>,
    /// Number of reduces; 0 for a map-only job.
    pub reduces: u32,
    /// Assignment of keys to reduces.
    pub partitioning: Partitioning,
    /// Encoding of output records.
    pub format: OutputFormat,
    /// Data that the application computed for its tasks (cut points, centroids), in its own encoding.
    pub app_data: Vec<u8>,
    /// Index of this round, from 0. Applications that need one pass only have one round.
    pub round: u32,
    /// Output folder of this round: the request's output for the last round, a folder of its own for the others.
    #[serde(with = "crate::path_bytes")]
    pub output: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// The name shown to the application. Need not be UTF-8.
    #[serde(with = "crate::path_bytes")]
    pub name: OsString,
    /// Where its content is stored.
    pub location: FileLocation,
    /// How its content is compressed.
    pub codec: Codec,
    /// Its size as stored, that is compressed.
    pub bytes: u64,
}

/// Where a file's content is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileLocation {
    /// A local file that every worker can open, in whatever version it is.
    Local(#[serde(with = "crate::path_bytes")] PathBuf),
    /// HDFS, under the file's name, in these blocks.
    Hdfs(Vec<HdfsBlock>),
    /// A local file that every worker can open, and that must not change while the job reads it.
    LocalVersion {
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// When the job was submitted.
        version: FileVersion,
    },
}

/// What tells a version of a file from another, beside its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    pub inode: u64,
    /// Time of the last change of the content, in nanoseconds of the Unix epoch.
    pub modified_ns: i64,
}

/// A block of a file in HDFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HdfsBlock {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Hosts with a replica; empty if the NameNode did not report them.
    pub hosts: Vec<String>,
}

/// Compression format of an input file. Only uncompressed files are divided into several splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Codec {
    Plain,
    /// gzip, one or more members.
    Gzip,
    Zstd,
    /// LZ4 frames.
    Lz4,
}

/// A byte range of an input file. A map processes the lines that *begin* in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSplit {
    /// Index of the file in [`Plan::files`].
    pub file: u32,
    /// Offset of the range, in bytes.
    pub offset: u64,
    /// Length of the range.
    pub bytes: u64,
}

/// Assignment of keys to reduces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioning {
    /// By CRC-32C of the key: balanced, without a total order.
    Hash,
    /// By sorted cut points: keys below the first go to reduce 0, and so on. The concatenated outputs are totally ordered.
    Ranges(Vec<Vec<u8>>),
}

/// Encoding of output records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputFormat {
    /// Key, tab, value, newline. The tab is left out if the value is empty.
    TabSeparated,
    /// Key, value, newline, without a separator.
    Concatenated,
}

/// An option of a request has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// A numeric option is not a non-negative integer.
    #[error("option {name}={value} of {app} is not a number; write for example {name}={default}")]
    NotANumber {
        app: String,
        name: String,
        /// The value as given.
        value: String,
        default: u64,
    },
}

impl Partitioning {
    /// The index of the reduce that receives a key.
    #[inline]
    pub fn of(&self, key: &[u8], reduces: u32) -> u32 {
        match self {
            Partitioning::Hash => crc32c::crc32c(key) % reduces.max(1),
            Partitioning::Ranges(cuts) => cuts.partition_point(|cut| cut.as_slice() <= key) as u32,
        }
    }
}

impl OutputFormat {
    /// Appends an encoded record to `out`.
    #[inline]
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(key);
        if self == OutputFormat::TabSeparated && !value.is_empty() {
            out.push(b'\t');
        }
        out.extend_from_slice(value);
        out.push(b'\n');
    }
}

impl Request {
    /// A request for one application with these input paths and this output directory, and the defaults of `giveway submit`.
    pub fn new<P: Into<OsString>>(
        app: &str,
        input: impl IntoIterator<Item = P>,
        output: impl Into<PathBuf>,
    ) -> Request {
        Request {
            app: app.to_owned(),
            options: BTreeMap::new(),
            input: input.into_iter().map(Into::into).collect(),
            output: output.into(),
            reduces: None,
            split_bytes: 64 << 20,
            memory_bytes: 256 << 20,
            name: app.to_owned(),
            user: String::new(),
            pool: String::new(),
            priority: Priority::Normal,
            task_timeout_ms: 600_000,
            records_per_s: None,
            compress: false,
            sync_output: true,
        }
    }

    /// Compression of map outputs.
    pub fn compression(&self) -> Compression {
        if self.compress { Compression::Auto } else { Compression::None }
    }

    /// An option's value, or `default` if it is not set.
    pub fn option<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.options.get(name).map_or(default, String::as_str)
    }

    /// An option's value as a number, or `default` if it is not set.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, OptionError> {
        match self.options.get(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| OptionError::NotANumber {
                app: self.app.clone(),
                name: name.into(),
                value: value.clone(),
                default,
            }),
        }
    }
}
