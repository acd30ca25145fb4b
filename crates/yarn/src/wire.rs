//! The protocol between plug-in and sidecar, byte by byte in `docs/yarn.md`.
//!
//! A frame is a length of four bytes and so many bytes of content; the content begins with a letter that says what it is. Integers are big-endian,
//! text is a length of two bytes and UTF-8. The plug-in begins with a `Hello`, is welcomed or refused, and then sends news; the sidecar sends
//! orders and answers beats.

use giveway_core::{Kind, Outcome};
use std::io::{self, ErrorKind, Read, Write};
use thiserror::Error;

/// Version of the protocol. Both sides must speak the same one.
pub const VERSION: u16 = 1;
/// A longer frame is taken for nonsense, before any room is made for it.
pub const FRAME_BYTES_MAX: u32 = 4 << 20;
/// Who has not shown a token yet is given less room.
const HELLO_BYTES_MAX: u32 = 4 << 10;
const MARK: &[u8; 7] = b"GIVEWAY";

/// Why a peer was not understood.
#[derive(Debug, Error)]
pub enum WireError {
    /// It closed the connection between two frames.
    #[error("it hung up")]
    HungUp,
    /// It stopped within a frame.
    #[error("it hung up within a frame")]
    CutShort,
    /// It said nothing for too long.
    #[error("it said nothing for too long, or only half a frame")]
    Silent,
    /// The length makes no sense.
    #[error("a frame of {bytes} bytes is none; at most {most} make sense here")]
    Length {
        /// What it said.
        bytes: u32,
        /// The limit.
        most: u32,
    },
    /// It is no plug-in.
    #[error("it does not begin as the plug-in does; is something else talking to this port?")]
    NotHello,
    /// Another release.
    #[error(
        "the plug-in speaks version {theirs} of the protocol, this sidecar {VERSION}; install the same release on both sides"
    )]
    Version {
        /// What it speaks.
        theirs: u16,
    },
    /// The token differs.
    #[error("the token is not this sidecar's; giveway.token.file and --token-file must have the same content")]
    Token,
    /// A frame with this letter cannot be, or ends within a field, or has a field that makes no sense.
    #[error("a frame `{}` makes no sense: {problem}", what.escape_ascii())]
    Nonsense {
        /// The letter.
        what: u8,
        /// What is wrong.
        problem: &'static str,
    },
    /// The connection broke.
    #[error("the connection broke ({0})")]
    Io(io::Error),
}

/// What the plug-in tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// What follows, up to the end of it, is everything there is.
    SyncBegan,
    /// That was everything.
    SyncEnded,
    /// A node is up.
    NodeUp {
        /// Host and port.
        name: String,
        /// Its rack.
        rack: String,
        /// What it has for containers.
        memory_mb: u64,
        /// The smallest container the ResourceManager gives.
        least_mb: u64,
    },
    /// A node is gone.
    NodeDown {
        /// Host and port.
        name: String,
    },
    /// An application became active in its queue.
    AppAdded(AppSpec),
    /// An application is over, or left its queue.
    AppGone {
        /// Its id.
        app: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// How far an application is.
    Reported {
        /// Its id.
        app: String,
        /// How far it says it is.
        progress_ppm: u32,
        /// What it asks for now.
        asks: [u32; 2],
    },
    /// A container was given to an application.
    Started {
        /// The application.
        app: String,
        /// The container.
        container: String,
        /// Where.
        node: String,
        /// What it was asked for.
        kind: Kind,
        /// What the application still asks for.
        asks: [u32; 2],
    },
    /// A container ended.
    Ended {
        /// The application.
        app: String,
        /// The container.
        container: String,
        /// Whether what ran there came to its end.
        done: bool,
        /// What the application asks for now.
        asks: [u32; 2],
    },
    /// The plug-in is alive and waits for an answer.
    Beat,
}

/// An application as YARN knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSpec {
    /// Its id.
    pub app: String,
    /// What its user calls it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Into which queue.
    pub queue: String,
    /// YARN's priority: larger is more urgent.
    pub priority: i32,
}

/// What the sidecar says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The token is right; this policy orders the applications.
    Welcome(String),
    /// There will be no order, and why.
    Refused(String),
    /// The applications, first to be served first. Those not named come after them.
    Ranked(Vec<String>),
    /// The answer to a beat.
    Beat,
}

/// Reads a hello and compares the token, in a time that does not depend on where it differs.
pub fn read_hello(from: &mut impl Read, token: &str) -> Result<(), WireError> {
    let content = read_frame(from, HELLO_BYTES_MAX)?;
    let mut fields = Fields { content: &content, at: 1 };
    let mark = fields.bytes(MARK.len()).map_err(|_| WireError::NotHello)?;
    if content[0] != b'H' || mark != MARK {
        return Err(WireError::NotHello);
    }
    let theirs = fields.number(2)? as u16;
    if theirs != VERSION {
        return Err(WireError::Version { theirs });
    }
    let shown = fields.text()?;
    let same: bool = subtle::ConstantTimeEq::ct_eq(shown.as_bytes(), token.as_bytes()).into();
    if same { Ok(()) } else { Err(WireError::Token) }
}

/// Reads one piece of news.
pub fn read_news(from: &mut impl Read) -> Result<News, WireError> {
    let content = read_frame(from, FRAME_BYTES_MAX)?;
    let mut fields = Fields { content: &content, at: 1 };
    let news = match content[0] {
        b'[' => News::SyncBegan,
        b']' => News::SyncEnded,
        b'N' => News::NodeUp {
            name: fields.text()?,
            rack: fields.text()?,
            memory_mb: fields.number(8)?,
            least_mb: fields.number(8)?,
        },
        b'n' => News::NodeDown { name: fields.text()? },
        b'A' => News::AppAdded(AppSpec {
            app: fields.text()?,
            name: fields.text()?,
            user: fields.text()?,
            queue: fields.text()?,
            priority: fields.number(4)? as u32 as i32,
        }),
        b'a' => News::AppGone { app: fields.text()?, outcome: fields.outcome()? },
        b'Q' => News::Reported { app: fields.text()?, progress_ppm: fields.number(4)? as u32, asks: fields.asks()? },
        b'C' => News::Started {
            app: fields.text()?,
            container: fields.text()?,
            node: fields.text()?,
            kind: fields.kind()?,
            asks: fields.asks()?,
        },
        b'c' => News::Ended {
            app: fields.text()?,
            container: fields.text()?,
            done: fields.number(1)? == 1,
            asks: fields.asks()?,
        },
        b'b' => News::Beat,
        what => return Err(WireError::Nonsense { what, problem: "there is no such frame" }),
    };
    if fields.at < content.len() {
        return Err(WireError::Nonsense { what: content[0], problem: "it goes on after its last field" });
    }
    Ok(news)
}

impl Order {
    /// Writes it as a frame.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut content = Vec::new();
        match self {
            Order::Welcome(policy) => {
                content.push(b'W');
                content.extend(VERSION.to_be_bytes());
                put_text(&mut content, policy);
            }
            Order::Refused(why) => {
                content.push(b'R');
                put_text(&mut content, why);
            }
            Order::Ranked(apps) => {
                content.push(b'O');
                // Those beyond the limit would come last anyway, and whoever is not named does.
                let room = FRAME_BYTES_MAX as usize - 5;
                let mut bytes = 0;
                let fit = apps.iter().take_while(|app| {
                    bytes += app.len() + 2;
                    bytes <= room
                });
                let fit: Vec<&String> = fit.collect();
                content.extend((fit.len() as u32).to_be_bytes());
                fit.into_iter().for_each(|app| put_text(&mut content, app));
            }
            Order::Beat => content.push(b'b'),
        }
        to.write_all(&(content.len() as u32).to_be_bytes())?;
        to.write_all(&content)
    }
}

fn put_text(content: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    content.extend(length.to_be_bytes());
    content.extend(&text.as_bytes()[..usize::from(length)]);
}

fn read_frame(from: &mut impl Read, most: u32) -> Result<Vec<u8>, WireError> {
    let mut length = [0; 4];
    let first = from.read(&mut length[..1]).map_err(broken)?;
    if first == 0 {
        return Err(WireError::HungUp);
    }
    from.read_exact(&mut length[1..]).map_err(broken)?;
    let bytes = u32::from_be_bytes(length);
    if bytes == 0 || bytes > most {
        return Err(WireError::Length { bytes, most });
    }
    let mut content = vec![0; bytes as usize];
    from.read_exact(&mut content).map_err(broken)?;
    Ok(content)
}

fn broken(error: io::Error) -> WireError {
    match error.kind() {
        ErrorKind::UnexpectedEof => WireError::CutShort,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => WireError::Silent,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => WireError::HungUp,
        _ => WireError::Io(error),
    }
}

/// A content's fields, read one after the other.
struct Fields<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let found = self.content.get(self.at..self.at + length);
        self.at += length;
        found.ok_or_else(|| self.nonsense("it ends within a field"))
    }

    fn number(&mut self, width: usize) -> Result<u64, WireError> {
        Ok(self.bytes(width)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn text(&mut self) -> Result<String, WireError> {
        let length = self.number(2)? as usize;
        // The plug-in cuts long text by bytes, so a letter may have lost its end.
        Ok(String::from_utf8_lossy(self.bytes(length)?).into_owned())
    }

    fn asks(&mut self) -> Result<[u32; 2], WireError> {
        Ok([self.number(4)? as u32, self.number(4)? as u32])
    }

    fn kind(&mut self) -> Result<Kind, WireError> {
        match self.number(1)? {
            0 => Ok(Kind::Map),
            1 => Ok(Kind::Reduce),
            _ => Err(self.nonsense("there is no such kind of task")),
        }
    }

    fn outcome(&mut self) -> Result<Outcome, WireError> {
        match self.number(1)? {
            0 => Ok(Outcome::Succeeded),
            1 => Ok(Outcome::Killed),
            2 => Ok(Outcome::Failed),
            _ => Err(self.nonsense("there is no such end")),
        }
    }

    fn nonsense(&self, problem: &'static str) -> WireError {
        WireError::Nonsense { what: self.content[0], problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    fn hello(version: u16, token: &str) -> Vec<u8> {
        let mut content = [b"H", &MARK[..], &version.to_be_bytes()].concat();
        put_text(&mut content, token);
        framed(&content)
    }

    #[test]
    fn the_bytes_are_those_the_protocol_names() {
        let mut bytes = Vec::new();
        Order::Ranked(vec!["a".into(), "bc".into()]).write(&mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 12, b'O', 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c']);
        let content = [&b"c\0\x01a\0\x02c7"[..], &[1, 0, 0, 0, 5, 0, 0, 0, 6]].concat();
        let news = News::Ended { app: "a".into(), container: "c7".into(), done: true, asks: [5, 6] };
        assert_eq!(read_news(&mut &framed(&content)[..]).unwrap(), news);
    }

    #[test]
    fn a_hello_is_refused_for_what_is_wrong_with_it() {
        assert!(read_hello(&mut &hello(VERSION, "secret")[..], "secret").is_ok());
        for (bytes, part) in [
            (hello(VERSION, "secreT"), "the token is not this sidecar's"),
            (hello(VERSION, "secret and more"), "the token is not this sidecar's"),
            (hello(VERSION + 1, "secret"), "speaks version 2 of the protocol, this sidecar 1"),
            (hello(VERSION, "secret")[..9].to_vec(), "hung up within a frame"),
            (Vec::new(), "hung up"),
            (framed(b"GET / HTTP/1.1"), "does not begin as the plug-in does"),
            (b"GET / HTTP/1.1\r\n".to_vec(), "a frame of 1195725856 bytes is none"),
            (0x8000_0000u32.to_be_bytes().to_vec(), "a frame of 2147483648 bytes is none"),
        ] {
            let error = read_hello(&mut &bytes[..], "secret").unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn news_that_makes_no_sense_is_named() {
        for (content, part) in [
            (&b"z"[..], "`z` makes no sense: there is no such frame"),
            (b"n\0\x05abc", "`n` makes no sense: it ends within a field"),
            (b"bb", "`b` makes no sense: it goes on"),
            (b"a\0\x01x\x09", "`a` makes no sense: there is no such end"),
        ] {
            let error = read_news(&mut &framed(content)[..]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
