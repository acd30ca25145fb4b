//! What can be wrong with HDFS, in the words of its users.

use hdfs_native::HdfsError;
use std::io;
use std::path::PathBuf;

/// Why HDFS did not give what was asked for. It follows on the name of what was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// The name leads to no NameNode.
    #[error(
        "it names no NameNode; write hdfs://HOST:PORT/PATH, or let HADOOP_CONF_DIR name a folder whose core-site.xml has fs.defaultFS"
    )]
    Nowhere,
    /// Hadoop's configuration cannot be read.
    #[error("Hadoop's configuration {} cannot be read: {why}; repair it, or unset HADOOP_CONF_DIR", file.display())]
    Conf { file: PathBuf, why: String },
    /// No thread for all this.
    #[error("no thread can be started: {0}")]
    NoThread(String),
    /// There is no such NameNode.
    #[error("the NameNode at {address} cannot be reached ({error}); check that it runs, and that this is its RPC port")]
    Unreachable { address: String, error: io::Error },
    /// The NameNode has just been started.
    #[error("the NameNode at {address} is not ready: {what}")]
    NotReady { address: String, what: String },
    /// Nothing came in time.
    #[error("HDFS at {address} gave no answer for {seconds} s; check the NameNode and the DataNodes")]
    Silent { address: String, seconds: u64 },
    /// There is no such file.
    #[error("it does not exist; check the spelling")]
    Missing,
    /// Nobody gives the bytes.
    #[error("no DataNode that should have the block gives it (`hdfs dfsadmin -report` lists them)")]
    NoReplica,
    /// HDFS says no.
    #[error("HDFS at {address} says: {what}")]
    Other { address: String, what: String },
}

impl Problem {
    /// What the client says, in our words.
    pub(super) fn new(address: &str, error: HdfsError) -> Problem {
        let address = address.to_owned();
        match error {
            HdfsError::IOError(error) => Problem::Unreachable { address, error },
            HdfsError::FileNotFound(_) => Problem::Missing,
            HdfsError::RPCError(class, _) if class == "java.io.FileNotFoundException" => Problem::Missing,
            HdfsError::RPCError(class, what) | HdfsError::FatalRPCError(class, what) => {
                let what = first_line(&what);
                match class.rsplit('.').next() {
                    Some("SafeModeException" | "RetriableException") => Problem::NotReady { address, what },
                    _ => Problem::Other { address, what },
                }
            }
            HdfsError::DataTransferError(what) if what.starts_with("All DataNodes failed") => Problem::NoReplica,
            error => Problem::Other { address, what: first_line(&error.to_string()) },
        }
    }

    /// Whether it may be otherwise in a moment, if somebody is just being started again.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Problem::Unreachable { .. } | Problem::NotReady { .. } | Problem::NoReplica)
    }
}

/// Behind it comes where in Hadoop it happened, which helps nobody here.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hadoop_is_cut_short() {
        let said = |error| Problem::new("nn:8020", error).to_string();
        let denied = "Permission denied: user=ann, access=READ\n\tat org.apache.hadoop.hdfs.Foo(Foo.java:1)\n";
        let denied = HdfsError::RPCError("org.apache.hadoop.security.AccessControlException".into(), denied.into());
        assert_eq!(said(denied), "HDFS at nn:8020 says: Permission denied: user=ann, access=READ");
        let missing = HdfsError::RPCError("java.io.FileNotFoundException".into(), "File does not exist: /x".into());
        assert!(said(missing).starts_with("it does not exist"));
        let safe = "Zero blocklocations for /x. Name node is in safe mode.\nIt was turned on automatically.";
        let safe = HdfsError::RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException".into(), safe.into());
        assert!(Problem::new("nn", safe).may_pass());
        let gone = HdfsError::DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: ...".into());
        assert!(said(gone).starts_with("no DataNode"));
        let refused = HdfsError::IOError(io::ErrorKind::ConnectionRefused.into());
        assert!(said(refused).starts_with("the NameNode at nn:8020 cannot be reached (connection refused)"));
    }
}
