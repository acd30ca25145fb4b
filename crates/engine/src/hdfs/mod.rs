//! Files in HDFS: found, located and read. Only with the cargo feature `hdfs`; without it such input is refused.
//!
//! Names and bytes come over Hadoop's own protocols from NameNode and DataNodes (`client.rs`, by the crate `hdfs-native`). Where blocks lie is asked of WebHDFS
//! (`webhdfs.rs`), because that crate keeps it to itself. Which NameNode a name means is written in the name or in Hadoop's configuration
//! (`conf.rs`). `find.rs` makes input files of all that.
//!
//! Inside it is asynchronous, with a thread of its own; whoever calls is blocked, and never for longer than a limit. No other module knows of that.

#[cfg(feature = "hdfs")]
mod client;
#[cfg(feature = "hdfs")]
mod conf;
#[cfg(feature = "hdfs")]
mod error;
#[cfg(feature = "hdfs")]
mod find;
#[cfg(feature = "hdfs")]
mod webhdfs;
#[cfg(not(feature = "hdfs"))]
mod without;

#[cfg(not(feature = "hdfs"))]
pub(crate) use without::{find, open};
#[cfg(feature = "hdfs")]
pub(crate) use {client::open, find::find};

/// How names of files in HDFS begin.
pub const SCHEME: &str = "hdfs:";

/// What the machine is called that all workers stand on, unless they say otherwise.
pub const THIS_HOST: &str = "localhost";
