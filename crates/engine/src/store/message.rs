//! Wire types of the block store. They are used at the edges of processes, beside those of [`crate::wire`].

use super::BlockId;
use crate::job::FileBlock;
use giveway_core::NodeId;
use serde::{Deserialize, Serialize};

/// Identity of a block's content. Valid replicas of one block have equal `BlockInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockInfo {
    /// The block's id.
    pub block: BlockId,
    /// Size of the content, in bytes.
    pub bytes: u64,
    /// CRC-32C over the table of chunk checksums, the size and the id.
    pub checksum: u32,
}

/// Sent by a worker to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreReport {
    /// All replicas of the worker (a full block report). The first report of each connection.
    Full {
        /// Replicas whose size and checksum table are valid; their content was not read.
        blocks: Vec<BlockInfo>,
        /// Quarantined replicas.
        corrupt: Vec<BlockId>,
    },
    /// A replica was written to disk.
    Received(BlockInfo),
    /// A replica was found corrupt or missing.
    Corrupt {
        /// The block of the replica.
        block: BlockId,
    },
    /// A [`StoreCommand::Replicate`] failed.
    CopyFailed {
        /// The block to be copied.
        block: BlockId,
        /// The worker it was to be copied to.
        to: NodeId,
        /// The error text.
        reason: String,
    },
}

/// Sent by the coordinator to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreCommand {
    /// Copy a replica to another worker.
    Replicate {
        /// The block to be copied.
        block: BlockId,
        /// The target.
        to: NodeId,
        /// Data address of the target.
        address: String,
    },
    /// Delete the replica, valid or corrupt.
    Delete {
        /// The block of the replica.
        block: BlockId,
    },
    /// Delete the quarantined replica: the block has enough valid ones.
    DeleteCorrupt {
        /// The block of the replica.
        block: BlockId,
    },
}

/// Sent by a client to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreRequest {
    /// Begin to write a file. It exists once it is committed; the write is abandoned when the connection ends before that.
    Create {
        /// Path of the file, with its scheme.
        path: String,
        /// Replicas of each block.
        replicas: u8,
    },
    /// Allocate the next block and the workers that store it.
    AllocateBlock {
        /// The id of the write, from [`StoreResponse::Created`].
        write_id: u64,
        /// A block whose write failed; the new block replaces it.
        replaces: Option<BlockId>,
        /// Workers that must not be chosen, because they failed.
        excluded: Vec<NodeId>,
    },
    /// Create the file. All its blocks have been written.
    Commit {
        /// The id of the write.
        write_id: u64,
        /// Its blocks in order, each with the workers that have it.
        blocks: Vec<(BlockInfo, Vec<NodeId>)>,
    },
    /// List a directory.
    List {
        /// Path of the directory, or of a file.
        path: String,
        /// Entries after this path only.
        after: Option<String>,
    },
    /// Return a file's size and blocks.
    Stat {
        /// Path of the file.
        path: String,
    },
    /// Return the workers that have a block.
    Locate {
        /// The block in question.
        block: BlockId,
    },
    /// Remove a file.
    Remove {
        /// Path of the file.
        path: String,
        /// Remove a directory with its content, too.
        recursive: bool,
    },
    /// Verify every replica, begin repairs, and report all problems.
    Fsck {
        /// Delete replicas that belong to no file, and give up names that were lost.
        repair: bool,
    },
}

/// Sent by the coordinator to a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreResponse {
    /// A write has begun.
    Created {
        /// Id of the write, for the requests that follow.
        write_id: u64,
    },
    /// A block was allocated; the client writes it to each of the workers.
    BlockAllocated {
        /// The new block.
        block: BlockId,
        /// The workers chosen.
        to: Vec<WorkerEndpoint>,
    },
    /// The request was carried out.
    Done,
    /// Entries of a directory, ordered by path.
    Listed {
        /// Files and directories.
        entries: Vec<Entry>,
        /// True if there are more after the last.
        more: bool,
    },
    /// A file's metadata.
    File {
        /// Size in bytes.
        bytes: u64,
        /// Blocks in order.
        blocks: Vec<FileBlock>,
    },
    /// Workers that have a valid replica of a block.
    Located(Vec<WorkerEndpoint>),
    /// The result of a check.
    Fsck(Box<FsckReport>),
}

/// A worker and where its blocks are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEndpoint {
    /// The worker's node.
    pub node: NodeId,
    /// Its data address.
    pub address: String,
}

/// An entry of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The whole path with its scheme; a directory's ends with `/`.
    pub path: String,
    /// The metadata of a file; `None` for a directory.
    pub file: Option<FileStatus>,
}

/// Metadata of a file in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Size in bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Replicas each block should have.
    pub replicas: u8,
}

/// The state of the store, as found by a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckReport {
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes; replicas are not counted.
    pub bytes: u64,
    /// Number of blocks of the files.
    pub blocks: u64,
    /// Valid replicas of these blocks.
    pub replicas: u64,
    /// Workers that are up.
    pub nodes: u32,
    /// Blocks without a valid replica.
    pub missing: u64,
    /// Blocks with too few valid replicas, but at least one.
    pub under_replicated: u64,
    /// Replicas that this check found corrupt or missing.
    pub corrupt: u64,
    /// Replicas that belong to no file.
    pub orphans: u64,
    /// Those of them that were deleted.
    pub orphans_deleted: u64,
    /// One line per problem; truncated if there are many.
    pub problems: Vec<String>,
}

/// Response of a worker to [`crate::wire::DataRequest::ReadBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadResponse {
    /// The content follows this message.
    Data {
        /// Number of bytes that follow; zero at the end of the block.
        bytes: u32,
        /// CRC-32C of these bytes.
        checksum: u32,
    },
    /// The worker has no valid replica.
    Unavailable,
}

/// Header of a packet of a block's content on its way to a worker. The content follows this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Number of bytes that follow.
    pub bytes: u32,
    /// CRC-32C of these bytes.
    pub checksum: u32,
}

/// Response of a worker to [`crate::wire::DataRequest::WriteBlock`], sent after the last packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteResponse {
    /// The replica is on disk.
    Written(BlockInfo),
    /// The replica was not stored.
    Refused {
        /// The error text.
        reason: String,
    },
}

/// Responses of a worker that verifies all its replicas: one per replica, then [`VerifyResponse::End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifyResponse {
    /// All checksums match.
    Valid(BlockInfo),
    /// Corrupt or missing; the replica was quarantined.
    Corrupt(BlockId),
    /// All replicas were verified.
    End,
}
