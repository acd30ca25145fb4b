//! Block locations over WebHDFS: one small HTTP request per file.
//!
//! Locations only improve the placement of maps. So a NameNode that fails is not asked again, and one log line reports it.

use super::LOCALHOST;
use super::client::block_on;
use super::conf::HadoopConf;
use crate::job::HdfsBlock;
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of a response, in bytes: enough for about a hundred thousand blocks.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// Why block locations are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebHdfsError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no response for {seconds} s")]
    Timeout { seconds: u64 },
    #[error("{0}")]
    Runtime(String),
    #[error("the server does not speak HTTP")]
    NotHttp,
    /// The status line of a response that is not 200.
    #[error("{0}")]
    Status(String),
    #[error("invalid response: {0}")]
    Json(#[from] serde_json::Error),
    #[error("invalid response: a block at byte {found} instead of {expected}")]
    BlockOffset { found: u64, expected: u64 },
    #[error("invalid response: blocks of {found} bytes instead of {expected}")]
    FileSize { found: u64, expected: u64 },
}

/// Locates the blocks of files.
#[derive(Debug)]
pub(super) struct BlockLocator {
    /// WebHDFS addresses that have not failed yet, in the order in which they are tried.
    addresses: Vec<String>,
    user: String,
    /// Whether an IP address is one of this machine's.
    local_ips: HashMap<IpAddr, bool>,
}

impl BlockLocator {
    /// A locator for the files of a NameNode or name service.
    pub(super) fn new(conf: &HadoopConf, address: &str) -> BlockLocator {
        let user = std::env::var("HADOOP_USER_NAME").ok().or_else(|| whoami::username().ok()).unwrap_or_default();
        BlockLocator { addresses: conf.web_addresses(address), user, local_ips: HashMap::new() }
    }

    /// The blocks of a file of `bytes` bytes with their hosts; `None` if no address responds.
    pub(super) fn locate(&mut self, path: &str, bytes: u64) -> Option<Vec<HdfsBlock>> {
        let mut failed = None;
        while let Some(address) = self.addresses.first() {
            match request(address, path, &self.user).and_then(|body| self.parse(&body, bytes)) {
                Ok(blocks) => return Some(blocks),
                Err(error) => failed = Some((self.addresses.remove(0), error)),
            }
        }
        if let Some((address, error)) = failed {
            tracing::warn!(
                "cannot locate the blocks of {path} over WebHDFS at {address}: {error}; maps run without locality"
            );
        }
        None
    }

    /// Parses a response. It is invalid if its blocks do not cover the file.
    fn parse(&mut self, body: &[u8], bytes: u64) -> Result<Vec<HdfsBlock>, WebHdfsError> {
        let response: Response = serde_json::from_slice(body)?;
        let mut blocks = Vec::new();
        let mut end = 0;
        for block in response.locations.blocks {
            if block.offset != end || block.length == 0 {
                return Err(WebHdfsError::BlockOffset { found: block.offset, expected: end });
            }
            end = end.saturating_add(block.length);
            let mut hosts = block.hosts;
            if block.names.iter().any(|name| self.is_local(name)) {
                hosts.push(LOCALHOST.to_owned());
            }
            blocks.push(HdfsBlock { offset: block.offset, hosts });
        }
        // A file that is being written may be longer by now.
        blocks.retain(|block| block.offset < bytes);
        if end < bytes { Err(WebHdfsError::FileSize { found: end, expected: bytes }) } else { Ok(blocks) }
    }

    /// True if a DataNode's address is one of this machine's: only those can be bound.
    fn is_local(&mut self, address: &str) -> bool {
        let Ok(address) = address.parse::<SocketAddr>() else { return false };
        *self.local_ips.entry(address.ip()).or_insert_with_key(|&ip| UdpSocket::bind((ip, 0)).is_ok())
    }
}

/// Response to `GETFILEBLOCKLOCATIONS`.
#[derive(Deserialize)]
struct Response {
    #[serde(rename = "BlockLocations")]
    locations: Locations,
}

#[derive(Deserialize)]
struct Locations {
    #[serde(rename = "BlockLocation")]
    blocks: Vec<Location>,
}

#[derive(Deserialize)]
struct Location {
    offset: u64,
    length: u64,
    /// Host names of the DataNodes.
    hosts: Vec<String>,
    /// Addresses of the DataNodes, with ports.
    names: Vec<String>,
}

/// Requests the block locations of a file. Returns the body of the response.
fn request(address: &str, path: &str, user: &str) -> Result<Vec<u8>, WebHdfsError> {
    let (path, user) = (percent_encode(path), percent_encode(user));
    // With HTTP/1.0 the body is not chunked and ends with the connection.
    let request = format!(
        "GET /webhdfs/v1{path}?op=GETFILEBLOCKLOCATIONS&user.name={user} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n"
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response).await?;
        Ok::<_, io::Error>(response)
    };
    match block_on(REQUEST_TIMEOUT, exchange)? {
        Some(response) => body(&response?).map(<[u8]>::to_vec),
        None => Err(WebHdfsError::Timeout { seconds: REQUEST_TIMEOUT.as_secs() }),
    }
}

/// The body of an HTTP response with status 200.
fn body(response: &[u8]) -> Result<&[u8], WebHdfsError> {
    let end = memchr::memmem::find(response, b"\r\n\r\n").ok_or(WebHdfsError::NotHttp)?;
    let status = String::from_utf8_lossy(&response[..end]).lines().next().unwrap_or_default().to_owned();
    match status.split(' ').nth(1) {
        Some("200") => Ok(&response[end + 4..]),
        Some(_) if status.starts_with("HTTP/") => Err(WebHdfsError::Status(status)),
        _ => Err(WebHdfsError::NotHttp),
    }
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    /// A server that sends one response. Returns its address and, once joined, the request.
    fn serve(response: &str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let response = response.to_owned();
        let request = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        (address, request)
    }

    fn locate(addresses: Vec<String>, path: &str, bytes: u64) -> Option<Vec<HdfsBlock>> {
        BlockLocator { addresses, user: "ann".into(), local_ips: HashMap::new() }.locate(path, bytes)
    }

    fn ok(blocks: &[(u64, u64, &str)]) -> String {
        let block = |&(offset, length, name): &(u64, u64, &str)| {
            format!(r#"{{"offset":{offset},"length":{length},"hosts":["alpha"],"names":["{name}"],"corrupt":false}}"#)
        };
        let blocks: Vec<String> = blocks.iter().map(block).collect();
        let blocks = blocks.join(",");
        format!("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n{{\"BlockLocations\":{{\"BlockLocation\":[{blocks}]}}}}")
    }

    #[test]
    fn blocks_have_their_hosts() {
        // 192.0.2.0/24 is reserved for documentation and not an address of this machine.
        let (address, request) = serve(&ok(&[(0, 10, "127.0.0.1:9866"), (10, 5, "192.0.2.1:9866")]));
        let blocks = locate(vec![address], "/a b/é%", 15).unwrap();
        assert_eq!(blocks[0], HdfsBlock { offset: 0, hosts: vec!["alpha".into(), "localhost".into()] });
        assert_eq!(blocks[1], HdfsBlock { offset: 10, hosts: vec!["alpha".into()] });
        let request = request.join().unwrap();
        let line = "GET /webhdfs/v1/a%20b/%C3%A9%25?op=GETFILEBLOCKLOCATIONS&user.name=ann HTTP/1.0\r\n";
        assert!(request.starts_with(line), "{request}");
    }

    #[test]
    fn the_next_address_is_tried_after_a_failure() {
        let standby = "HTTP/1.1 403 Forbidden\r\n\r\n{\"RemoteException\":{}}";
        let (first, second) = (serve(standby).0, serve(&ok(&[(0, 7, "192.0.2.1:9866")])).0);
        assert_eq!(locate(vec![first, second], "/a", 7).unwrap().len(), 1);
    }

    #[test]
    fn invalid_responses_are_refused() {
        let (gap, short) = (ok(&[(0, 5, "h:1"), (6, 4, "h:1")]), ok(&[(0, 5, "h:1")]));
        for response in [&gap, &short, "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n", ""] {
            assert_eq!(locate(vec![serve(response).0], "/a", 10), None, "{response}");
        }
        assert_eq!(locate(vec![], "/a", 10), None);
    }
}
