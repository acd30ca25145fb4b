//! Input from HDFS. Only with the cargo feature `hdfs`; without it such input is refused.
//!
//! File status and content are read over Hadoop's own protocols from NameNode and DataNodes (`client.rs`, with the crate `hdfs-native`). Block locations
//! are queried over WebHDFS (`webhdfs.rs`), because that crate does not expose them. The NameNode is given by the path or by Hadoop's configuration
//! (`conf.rs`). `find.rs` combines these into input files.
//!
//! The implementation is asynchronous, on a thread of its own; callers block, with a timeout. No other module depends on that.

#[cfg(feature = "hdfs")]
mod client;
#[cfg(feature = "hdfs")]
mod conf;
#[cfg(not(feature = "hdfs"))]
mod disabled;
#[cfg(feature = "hdfs")]
mod error;
#[cfg(feature = "hdfs")]
mod find;
#[cfg(feature = "hdfs")]
mod webhdfs;

#[cfg(not(feature = "hdfs"))]
pub(crate) use disabled::{find_files, open};
#[cfg(feature = "hdfs")]
pub(crate) use {client::open, find::find_files};

/// The scheme of HDFS paths.
pub const SCHEME: &str = "hdfs:";

/// The default host name of a worker, for locality. Block locations on this machine contain it, too.
pub const LOCALHOST: &str = "localhost";
