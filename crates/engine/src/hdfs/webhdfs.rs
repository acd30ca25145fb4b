//! Where the blocks of a file lie, as WebHDFS tells: one small question over HTTP for each file.
//!
//! Nothing depends on the answer but where maps run best. So whoever does not answer is not asked again, and one line says so.

use super::THIS_HOST;
use super::client::wait;
use super::conf::Conf;
use crate::job::HdfsBlock;
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long an answer may take.
const ANSWER_MOST: Duration = Duration::from_secs(10);

/// A longer answer is none: it would be a file of a hundred thousand blocks.
const ANSWER_BYTES_MOST: u64 = 64 << 20;

/// Who knows where blocks lie.
#[derive(Debug)]
pub(super) struct Whereabouts {
    /// Who can be asked, best first; nobody once all have failed.
    addresses: Vec<String>,
    user: String,
    /// Which addresses are this machine's.
    here: HashMap<IpAddr, bool>,
}

impl Whereabouts {
    /// Of the files of this NameNode.
    pub(super) fn new(conf: &Conf, address: &str) -> Whereabouts {
        let user = std::env::var("HADOOP_USER_NAME").ok().or_else(|| whoami::username().ok()).unwrap_or_default();
        Whereabouts { addresses: conf.web_addresses(address), user, here: HashMap::new() }
    }

    /// The blocks of a file, and who has them; nothing if nobody can be asked.
    pub(super) fn of(&mut self, path: &str, bytes: u64) -> Option<Vec<HdfsBlock>> {
        let mut failed = None;
        while let Some(address) = self.addresses.first() {
            match ask(address, path, &self.user).and_then(|answer| self.blocks(&answer, bytes)) {
                Ok(blocks) => return Some(blocks),
                Err(why) => failed = Some((self.addresses.remove(0), why)),
            }
        }
        if let Some((address, why)) = failed {
            tracing::warn!(
                "WebHDFS at {address} does not tell where blocks of {path} lie ({why}); maps run wherever a slot is free"
            );
        }
        None
    }

    /// Reads an answer; what does not fit the file is none.
    fn blocks(&mut self, answer: &[u8], bytes: u64) -> Result<Vec<HdfsBlock>, String> {
        let answer: Answer = serde_json::from_slice(answer).map_err(|error| format!("an odd answer: {error}"))?;
        let mut blocks = Vec::new();
        let mut end = 0;
        for block in answer.locations.blocks {
            if block.offset != end || block.length == 0 {
                return Err(format!("an odd answer: a block at byte {} and not at {end}", block.offset));
            }
            end = end.saturating_add(block.length);
            let mut hosts = block.hosts;
            if block.names.iter().any(|name| self.is_here(name)) {
                hosts.push(THIS_HOST.to_owned());
            }
            blocks.push(HdfsBlock { offset: block.offset, hosts });
        }
        // A file that is being written may have more by now.
        blocks.retain(|block| block.offset < bytes);
        if end < bytes { Err(format!("an odd answer: {end} bytes and not {bytes}")) } else { Ok(blocks) }
    }

    /// Whether a DataNode's address is one of this machine's: only those can be listened on.
    fn is_here(&mut self, address: &str) -> bool {
        let Ok(address) = address.parse::<SocketAddr>() else { return false };
        *self.here.entry(address.ip()).or_insert_with_key(|&ip| UdpSocket::bind((ip, 0)).is_ok())
    }
}

/// As WebHDFS describes it.
#[derive(Deserialize)]
struct Answer {
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
    /// Names of machines,
    hosts: Vec<String>,
    /// and addresses with ports.
    names: Vec<String>,
}

/// Asks about one file.
fn ask(address: &str, path: &str, user: &str) -> Result<Vec<u8>, String> {
    let (path, user) = (escaped(path), escaped(user));
    // By the old version of HTTP the answer comes in one piece and ends with the connection.
    let question = format!(
        "GET /webhdfs/v1{path}?op=GETFILEBLOCKLOCATIONS&user.name={user} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n"
    );
    let called = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(question.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MOST).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = match wait(ANSWER_MOST, called) {
        Ok(Some(answer)) => answer.map_err(|error| error.to_string())?,
        Ok(None) => return Err(format!("no answer for {} s", ANSWER_MOST.as_secs())),
        Err(problem) => return Err(problem.to_string()),
    };
    body(&answer).map(<[u8]>::to_vec)
}

/// What an answer says, if it is one.
fn body(answer: &[u8]) -> Result<&[u8], String> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").ok_or("what answers there does not speak HTTP")?;
    let status = String::from_utf8_lossy(&answer[..end]).lines().next().unwrap_or_default().to_owned();
    match status.split(' ').nth(1) {
        Some("200") => Ok(&answer[end + 4..]),
        Some(_) if status.starts_with("HTTP/") => Err(status),
        _ => Err("what answers there does not speak HTTP".into()),
    }
}

/// As it may stand in an address.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    /// Answers once; returns what was asked.
    fn answering(answer: &str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = answer.to_owned();
        let asked = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (address, asked)
    }

    fn of(addresses: Vec<String>, path: &str, bytes: u64) -> Option<Vec<HdfsBlock>> {
        Whereabouts { addresses, user: "ann".into(), here: HashMap::new() }.of(path, bytes)
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
    fn blocks_are_told_with_their_machines() {
        // 192.0.2.0/24 is nobody's.
        let (address, asked) = answering(&ok(&[(0, 10, "127.0.0.1:9866"), (10, 5, "192.0.2.1:9866")]));
        let blocks = of(vec![address], "/a b/é%", 15).unwrap();
        assert_eq!(blocks[0], HdfsBlock { offset: 0, hosts: vec!["alpha".into(), "localhost".into()] });
        assert_eq!(blocks[1], HdfsBlock { offset: 10, hosts: vec!["alpha".into()] });
        let asked = asked.join().unwrap();
        let line = "GET /webhdfs/v1/a%20b/%C3%A9%25?op=GETFILEBLOCKLOCATIONS&user.name=ann HTTP/1.0\r\n";
        assert!(asked.starts_with(line), "{asked}");
    }

    #[test]
    fn the_next_is_asked_if_one_does_not_know() {
        let standby = "HTTP/1.1 403 Forbidden\r\n\r\n{\"RemoteException\":{}}";
        let (first, second) = (answering(standby).0, answering(&ok(&[(0, 7, "192.0.2.1:9866")])).0);
        assert_eq!(of(vec![first, second], "/a", 7).unwrap().len(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_no_answer() {
        let (holes, other) = (ok(&[(0, 5, "h:1"), (6, 4, "h:1")]), ok(&[(0, 5, "h:1")]));
        for answer in [&holes, &other, "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n", ""] {
            assert_eq!(of(vec![answering(answer).0], "/a", 10), None, "{answer}");
        }
        assert_eq!(of(vec![], "/a", 10), None);
    }
}
