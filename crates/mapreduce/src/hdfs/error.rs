//! Errors of HDFS input.

use super::webhdfs::WebHdfsError;
use std::io;
use std::path::PathBuf;

/// Why HDFS input cannot be found or read. The messages follow the path of the input.
#[derive(Debug, thiserror::Error)]
pub(super) enum HdfsError {
    /// Neither the path nor the configuration names a NameNode.
    #[error(
        "it names no NameNode; write hdfs://HOST:PORT/PATH, or set HADOOP_CONF_DIR to a directory whose core-site.xml has fs.defaultFS"
    )]
    NoNameNode,
    /// Hadoop's configuration cannot be read.
    #[error("cannot read Hadoop's configuration {}: {error}; repair it, or unset HADOOP_CONF_DIR", file.display())]
    Conf { file: PathBuf, error: ConfError },
    /// The asynchronous runtime did not start.
    #[error("cannot start a thread: {0}; check the process limits")]
    Runtime(String),
    /// No connection to the NameNode.
    #[error("the NameNode at {address} cannot be reached ({error}); check that it runs, and that this is its RPC port")]
    Unreachable { address: String, error: io::Error },
    /// The NameNode is in safe mode or starting.
    #[error("the NameNode at {address} is not ready: {message}; wait until it has left safe mode")]
    NotReady { address: String, message: String },
    #[error("HDFS at {address} did not respond for {seconds} s; check the NameNode and the DataNodes")]
    Timeout { address: String, seconds: u64 },
    /// There is no such file or directory.
    #[error("it does not exist; check the spelling")]
    NotFound,
    /// All DataNodes with a replica failed.
    #[error("no DataNode with a replica of the block could be read; list them with `hdfs dfsadmin -report`")]
    NoReplica,
    /// Any other error of HDFS, with its own message.
    #[error("HDFS at {address} reported: {message}")]
    Other { address: String, message: String },
}

/// Why a file of Hadoop's configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Xml(#[from] roxmltree::Error),
}

impl HdfsError {
    /// Classifies an error of the client library. `address` is the NameNode's.
    pub(super) fn new(address: &str, error: hdfs_native::HdfsError) -> HdfsError {
        use hdfs_native::HdfsError as Client;
        let address = address.to_owned();
        match error {
            Client::IOError(error) => HdfsError::Unreachable { address, error },
            Client::FileNotFound(_) => HdfsError::NotFound,
            Client::RPCError(class, _) if class == "java.io.FileNotFoundException" => HdfsError::NotFound,
            Client::RPCError(class, message) | Client::FatalRPCError(class, message) => {
                let message = first_line(&message);
                match class.rsplit('.').next() {
                    Some("SafeModeException" | "RetriableException") => HdfsError::NotReady { address, message },
                    _ => HdfsError::Other { address, message },
                }
            }
            Client::DataTransferError(message) if message.starts_with("All DataNodes failed") => HdfsError::NoReplica,
            error => HdfsError::Other { address, message: first_line(&error.to_string()) },
        }
    }

    /// True if a retry may succeed, because a NameNode or DataNode may be restarting.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, HdfsError::Unreachable { .. } | HdfsError::NotReady { .. } | HdfsError::NoReplica)
    }
}

impl From<HdfsError> for WebHdfsError {
    fn from(error: HdfsError) -> WebHdfsError {
        WebHdfsError::Runtime(error.to_string())
    }
}

/// The first line of a message. Hadoop's stack trace follows it.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdfs_native::HdfsError as Client;

    #[test]
    fn errors_of_the_client_are_classified_without_stack_traces() {
        let text = |error| HdfsError::new("nn:8020", error).to_string();
        let denied = "Permission denied: user=ann, access=READ\n\tat org.apache.hadoop.hdfs.Foo(Foo.java:1)\n";
        let denied = Client::RPCError("org.apache.hadoop.security.AccessControlException".into(), denied.into());
        assert_eq!(text(denied), "HDFS at nn:8020 reported: Permission denied: user=ann, access=READ");
        let missing = Client::RPCError("java.io.FileNotFoundException".into(), "File does not exist: /x".into());
        assert!(text(missing).starts_with("it does not exist"));
        let safe = "Zero blocklocations for /x. Name node is in safe mode.\nIt was turned on automatically.";
        let safe = Client::RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException".into(), safe.into());
        assert!(HdfsError::new("nn", safe).is_transient());
        let gone = Client::DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: ...".into());
        assert!(text(gone).starts_with("no DataNode"));
        let refused = Client::IOError(io::ErrorKind::ConnectionRefused.into());
        assert!(text(refused).starts_with("the NameNode at nn:8020 cannot be reached (connection refused)"));
    }
}
