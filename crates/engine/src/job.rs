//! A job: what a user asks for ([`Request`]), and what it comes to once its input has been looked at ([`Plan`]).

use crate::data::Compression;
use crate::record::Failure;
use giveway_core::{JobId, Priority};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a user asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The application's name.
    pub app: String,
    /// Its options, as it documents them.
    pub options: BTreeMap<String, String>,
    /// Local files, folders or globs (absolute), `dfs:` paths, or the same in HDFS (`hdfs://`).
    pub input: Vec<String>,
    /// The folder for the output (absolute); it may not exist yet.
    pub output: PathBuf,
    /// How many reduces; the application's choice if left out.
    pub reduces: Option<u32>,
    /// Input for one map; the last piece of a file may be a tenth larger.
    pub split_bytes: u64,
    /// Memory for the buffers of one task.
    pub memory_bytes: u64,
    /// What people call the job.
    pub name: String,
    /// Who submits it.
    pub user: String,
    /// The pool or queue.
    pub pool: String,
    /// Urgent or not.
    pub priority: Priority,
    /// A task that does nothing for so long is given up.
    pub task_timeout_ms: u64,
    /// Each task takes at most so many records a second: to be gentle, or to watch it work. As many as it can if left out.
    pub records_per_s: Option<u64>,
    /// Compress what travels from maps to reduces where that saves room. On one machine it rarely saves time.
    pub compress: bool,
}

/// Everything a task of a job needs to know. Workers get it once for each job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The job.
    pub job: JobId,
    /// What was asked for.
    pub request: Request,
    /// The input files.
    pub files: Vec<InputFile>,
    /// One map for each of these.
    pub splits: Vec<SplitAt>,
    /// How many reduces.
    pub reduces: u32,
    /// Which key goes to which reduce.
    pub partition: Partition,
    /// How output records become bytes.
    pub format: Format,
    /// What the application worked out beforehand for its tasks (cut points, centroids), in its own words.
    pub notes: Vec<u8>,
    /// Which round of a job that runs in rounds this is, from zero.
    pub round: u32,
    /// Where this round's output goes: the request's output, or a folder of its own for rounds before the last.
    pub output: PathBuf,
}

/// A file of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// What the job calls it.
    pub name: String,
    /// Where its bytes are.
    pub place: Place,
    /// How they are packed.
    pub packing: Packing,
    /// How many there are, as packed.
    pub bytes: u64,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// In a file every worker can open.
    Local(PathBuf),
    /// In blocks on the workers' disks.
    Blocks(Vec<BlockAt>),
    /// In HDFS, in these blocks, under the name the job calls it by.
    Hdfs(Vec<HdfsBlock>),
}

/// A block of a stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockAt {
    /// The block's number.
    pub block: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// A block of a file in HDFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HdfsBlock {
    /// Where it begins in the file.
    pub offset: u64,
    /// The machines that have a replica, as far as is known.
    pub hosts: Vec<String>,
}

/// How a file is packed. Only plain files are cut into several splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard.
    Zstd,
    /// LZ4 frames.
    Lz4,
}

/// A piece of an input file. A map owns the lines that *begin* in its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitAt {
    /// Which of the plan's files.
    pub file: u32,
    /// From which byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Which key goes to which reduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partition {
    /// By a checksum of the key: even, in no order.
    Hash,
    /// Keys below the first cut to reduce 0, and so on: the parts together are in order.
    Ranges(Vec<Vec<u8>>),
}

/// How output records become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// Key, a tab, value, a line end; without the tab if the value is empty.
    Tabbed,
    /// Key and value with nothing between them, a line end.
    Joined,
}

impl Partition {
    /// The reduce for a key.
    #[inline]
    pub fn of(&self, key: &[u8], reduces: u32) -> u32 {
        match self {
            Partition::Hash => crc32c::crc32c(key) % reduces.max(1),
            Partition::Ranges(cuts) => cuts.partition_point(|cut| cut.as_slice() <= key) as u32,
        }
    }
}

impl Format {
    /// Appends a record's bytes.
    #[inline]
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(key);
        if self == Format::Tabbed && !value.is_empty() {
            out.push(b'\t');
        }
        out.extend_from_slice(value);
        out.push(b'\n');
    }
}

impl Request {
    /// How what travels from maps to reduces is compressed.
    pub fn compression(&self) -> Compression {
        if self.compress { Compression::Auto } else { Compression::None }
    }

    /// An option's value, or a default.
    pub fn option<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.options.get(name).map_or(default, String::as_str)
    }

    /// An option's value as a number, or a default.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, Failure> {
        match self.options.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                Failure(format!(
                    "option {name}={text} of {} is not a number; write for example {name}={default}",
                    self.app
                ))
            }),
        }
    }
}
