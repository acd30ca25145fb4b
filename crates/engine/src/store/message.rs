//! What is said about blocks and stored files. Wire types: they live at the processes' edges, beside those of [`crate::wire`].

use super::BlockId;
use crate::job::FileBlock;
use giveway_core::NodeId;
use serde::{Deserialize, Serialize};

/// A replica, as the worker that has it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The block.
    pub block: BlockId,
    /// How many bytes of content.
    pub bytes: u64,
    /// A checksum over the checksums: sound replicas of one block agree on it.
    pub seal: u32,
}

/// A worker to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreNews {
    /// All I have. Said once at the beginning of each line.
    Holds {
        /// Sound as far as sizes and tables of checksums tell.
        held: Vec<Held>,
        /// Set aside because they are damaged.
        damaged: Vec<BlockId>,
    },
    /// One more.
    Got(Held),
    /// A replica of mine turned out to be damaged or gone.
    Bad {
        /// The block.
        block: BlockId,
    },
    /// A copy that was ordered did not come about.
    NotCopied {
        /// The block.
        block: BlockId,
        /// Where it should have gone.
        to: NodeId,
        /// Why it did not.
        why: String,
    },
}

/// The coordinator to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreOrder {
    /// Give a replica of yours to another worker.
    Copy {
        /// The block.
        block: BlockId,
        /// Who gets it.
        to: NodeId,
        /// Where that one's data is.
        address: String,
    },
    /// Remove the block, sound or damaged.
    Forget {
        /// The block.
        block: BlockId,
    },
    /// Remove the damaged replica you set aside: the block is whole again without it.
    Discard {
        /// The block.
        block: BlockId,
    },
}

/// A user to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreRequest {
    /// I want to store a file. It exists once it is sealed; until then it lives as long as this line.
    Create {
        /// Its name.
        name: String,
        /// Replicas of each block.
        replicas: u8,
    },
    /// Where does the next block go?
    Allot {
        /// The put.
        put: u64,
        /// A block that did not come about and is replaced by this one.
        instead_of: Option<BlockId>,
        /// Workers that would not take it.
        avoid: Vec<NodeId>,
    },
    /// All blocks are written: make it a file.
    Seal {
        /// The put.
        put: u64,
        /// Its blocks in order, each with the workers that have it.
        blocks: Vec<(Held, Vec<NodeId>)>,
    },
    /// What is in this folder?
    List {
        /// The folder, or a file.
        path: String,
        /// Only what comes behind this name.
        after: Option<String>,
    },
    /// Of which blocks is this file?
    Stat {
        /// Its name.
        name: String,
    },
    /// Who has this block?
    Locate {
        /// The block.
        block: BlockId,
    },
    /// Remove a file.
    Remove {
        /// Its name.
        name: String,
        /// A folder with all that is in it, too.
        recursive: bool,
    },
    /// Read every replica, repair what can be repaired, and say what is wrong.
    Check,
}

/// The coordinator to a user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreAnswer {
    /// The put has begun.
    Created {
        /// Its number.
        put: u64,
    },
    /// The next block goes here, to each of them.
    Allotted {
        /// The block.
        block: BlockId,
        /// The workers.
        to: Vec<Holder>,
    },
    /// It is done.
    Done,
    /// What is in a folder, by name.
    Listed {
        /// Files and folders.
        entries: Vec<Entry>,
        /// True if there is more behind the last.
        more: bool,
    },
    /// A file.
    File {
        /// Its size.
        bytes: u64,
        /// Its blocks in order.
        blocks: Vec<FileBlock>,
    },
    /// Workers that have a block.
    At(Vec<Holder>),
    /// How the store is.
    Checked(Box<Health>),
}

/// A worker to fetch from or store with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Which.
    pub node: NodeId,
    /// Where its data is.
    pub address: String,
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The whole name.
    pub name: String,
    /// What is known of a file; nothing for a folder.
    pub file: Option<EntryFile>,
}

/// What a listing says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFile {
    /// Its size.
    pub bytes: u64,
    /// How many blocks.
    pub blocks: u32,
    /// Replicas each should have.
    pub replicas: u8,
}

/// How the store is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Files.
    pub files: u64,
    /// Their bytes, each counted once.
    pub bytes: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Sound replicas of them.
    pub replicas: u64,
    /// Workers that hold blocks.
    pub nodes: u32,
    /// Blocks without any sound replica.
    pub missing: u64,
    /// Blocks with too few.
    pub under_replicated: u64,
    /// Replicas found damaged just now.
    pub damaged: u64,
    /// Replicas of no file that were removed just now.
    pub strays: u64,
    /// What is wrong, a line each; the first of them if there are many.
    pub problems: Vec<String>,
}

/// How a worker answers [`crate::wire::DataRequest::ReadBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadAnswer {
    /// So many bytes follow behind this message; none at the end of the block.
    Here {
        /// How many.
        bytes: u32,
        /// Their checksum.
        sum: u32,
    },
    /// It is not to be had here: damaged, or never here.
    NotHere,
}

/// A piece of a block on its way to a worker; its bytes follow behind this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// How many.
    pub bytes: u32,
    /// Their checksum.
    pub sum: u32,
}

/// How a worker answers [`crate::wire::DataRequest::WriteBlock`] once all pieces have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteAnswer {
    /// It is on disk.
    Written(Held),
    /// It is not.
    Refused {
        /// Why.
        why: String,
    },
}

/// What a worker says, one after the other, when it is asked to read all its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckAnswer {
    /// Sound.
    Sound(Held),
    /// Damaged or gone, and set aside.
    Bad(BlockId),
    /// That was all.
    End,
}
