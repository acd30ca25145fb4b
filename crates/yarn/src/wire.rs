//! The protocol between plug-in and sidecar. `docs/yarn.md` describes it byte by byte.
//!
//! A frame is a 4-byte length followed by its content; the first byte of the content is the frame type. Integers are big-endian; a string is a 2-byte
//! length followed by UTF-8. A connection begins with a handshake (`handshake.rs`). After that the plug-in sends [`PluginMessage`]s, and the sidecar sends
//! rankings and orders for single containers, and answers heartbeats.

use giveway_core::{Kind, Outcome, Span};
use std::io::{self, ErrorKind, Read, Write};
use thiserror::Error;

/// Protocol version. Plug-in and sidecar must have the same one.
pub const PROTOCOL_VERSION: u16 = 6;

/// Limit on a frame's content. Longer frames are rejected before memory is allocated.
pub const FRAME_BYTES_MAX: u32 = 4 << 20;

/// The headroom of an application that no queue's maximum keeps from what it asks for.
pub const NO_HEADROOM_LIMIT: u32 = i32::MAX as u32;

/// Why reading from the plug-in failed.
#[derive(Debug, Error)]
pub enum WireError {
    /// The peer closed the connection between two frames.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed the connection within a frame.
    #[error("the peer closed the connection within a frame")]
    Truncated,
    /// No complete frame arrived before the read timeout.
    #[error("timed out waiting for a complete frame")]
    TimedOut,
    /// The length is zero or over the limit.
    #[error("invalid frame length {bytes}: expected 1 to {max_bytes} bytes")]
    Length {
        /// Length in the frame.
        bytes: u32,
        max_bytes: u32,
    },
    /// The first frame is not a `HELLO`.
    #[error("the first frame is not a HELLO of the Giveway plug-in; check which program connects to this port")]
    UnknownPeer,
    /// The plug-in has another protocol version.
    #[error(
        "protocol version mismatch: plug-in {plugin_version}, sidecar {PROTOCOL_VERSION}; install the same release of both"
    )]
    Version {
        /// The plug-in's protocol version.
        plugin_version: u16,
    },
    /// The plug-in did not prove that it knows the sidecar's token.
    #[error("token mismatch: giveway.token.file and --token-file must have the same content")]
    Token,
    /// The frame's type is unknown, or its fields are invalid.
    #[error("invalid frame of type `{}`: {problem}", frame_type.escape_ascii())]
    Decode {
        /// First byte of the frame's content.
        frame_type: u8,
        /// What is wrong with the frame.
        problem: &'static str,
    },
    /// Reading from the socket failed.
    #[error("connection error: {0}")]
    Io(io::Error),
}

/// A message of the plug-in: a change in the ResourceManager's state.
///
/// Every message about a live application has its `outstanding_asks`: containers requested and not allocated, for maps and for reduces, indexed by
/// [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginMessage {
    /// The messages up to `SnapshotEnded` describe the complete state.
    SnapshotStarted,
    /// The snapshot is complete.
    SnapshotEnded,
    /// A node is up, or what was sent of it has changed.
    NodeAdded {
        /// `host:port` of the NodeManager.
        name: String,
        rack: String,
        /// Containers that it holds, and those of the size that is asked for next which still fit, by Hadoop's own calculation.
        slots: u32,
        /// Containers that may be paused there at once, by the memory that they keep. Zero if the NodeManager cannot pause containers.
        pausable: u32,
        /// Whether a container that is paused there would fit now.
        can_resume: bool,
        /// Its speed in parts per million of that of an ordinary node; zero counts as an ordinary node.
        speed_ppm: u32,
    },
    /// A node is down or decommissioned.
    NodeRemoved {
        /// `host:port` of the NodeManager.
        name: String,
    },
    /// An application became active in its queue.
    AppAdded(AppSpec),
    /// An application ended or left its queue.
    AppRemoved {
        app_id: String,
        /// Final status; killed if unknown.
        outcome: Outcome,
    },
    /// An application's progress or outstanding asks changed.
    AppUpdated {
        app_id: String,
        /// Progress as reported by the application master, in parts per million.
        progress_ppm: u32,
        outstanding_asks: [u32; 2],
        /// Of those, the asks for work that was lost with a node or failed.
        recovery_asks: u32,
        /// How many of its asks the maxima of its queue and of those above allow; [`NO_HEADROOM_LIMIT`] if all.
        headroom: u32,
        /// Whether the resources that one of its queue's containers leaves would go to its queue again, and not to one that is furthest below its capacity.
        gets_freed: bool,
    },
    /// A container was allocated.
    ContainerAllocated {
        app_id: String,
        container_id: String,
        /// `host:port` of its NodeManager.
        node: String,
        /// Map or reduce, by the priority of its `ResourceRequest`.
        kind: Kind,
        /// True for the container of the application master.
        is_master: bool,
        /// True if the container is demoted: it has no guaranteed resources and may be paused by its NodeManager. Only in a snapshot.
        is_demoted: bool,
        /// Outstanding asks after the allocation.
        outstanding_asks: [u32; 2],
    },
    ContainerReleased {
        app_id: String,
        container_id: String,
        /// True if its task counts as done.
        succeeded: bool,
        /// Outstanding asks after the release.
        outstanding_asks: [u32; 2],
    },
    /// The execution type of a container changed, or could not be changed as ordered.
    ContainerUpdated {
        app_id: String,
        container_id: String,
        /// What became of it.
        update: ContainerUpdate,
    },
    /// Progress of the task in a container, as the application master's web service reports it.
    ContainerProgress {
        app_id: String,
        container_id: String,
        /// In parts per million.
        progress_ppm: u32,
    },
    /// Requests a heartbeat in reply.
    Heartbeat,
}

/// What became of an order to pause or resume a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerUpdate {
    /// It is opportunistic now: its resources are free, and its NodeManager pauses it when they are used.
    Demoted,
    /// It is guaranteed again.
    Promoted,
    /// It could not be demoted and stays guaranteed.
    NotDemoted,
}

/// An application's submission context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSpec {
    /// Application id, `application_<cluster timestamp>_<number>`.
    pub app_id: String,
    /// Display name. Not unique.
    pub name: String,
    /// The user who submitted it.
    pub user: String,
    /// Name of the leaf queue.
    pub queue: String,
    /// YARN's application priority: a larger number is more urgent.
    pub priority: i32,
    /// True if its containers may be paused.
    pub may_pause: bool,
}

/// A message of the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SidecarMessage {
    /// Both ends have proved themselves.
    Welcome {
        /// Name of the policy.
        policy: String,
        /// Time without a heartbeat after which a NodeManager counts as lost; zero to leave that to the ResourceManager.
        node_expiry_ms: u32,
    },
    /// The connection is rejected or ended, with the reason. The sidecar closes it.
    Rejected(String),
    /// Application ids in the order in which they are to be served. Applications not in the list come after those.
    Ranking(Vec<String>),
    /// Demote a container, so that its NodeManager pauses it when its resources are used. Answered by [`ContainerUpdate`].
    Pause(String),
    /// Promote a container that was demoted.
    Resume(String),
    /// Kill a container as preempted.
    Kill(String),
    /// The class of each node by name, replacing all earlier ones. Nodes not in the list are never refused.
    NodeClasses(Vec<(String, u16)>),
    /// The classes of nodes that are refused to applications, replacing all earlier ones.
    Refusals {
        /// Time after which an application that gets no container on other nodes may use any; none for never.
        max_wait: Option<Span>,
        /// Application id and the numbers of the classes.
        refused: Vec<(String, Vec<u16>)>,
    },
    /// Reply to a heartbeat.
    Heartbeat,
}

/// Reads one message of the plug-in. The first byte of a frame tells which; the same bytes are in `Frame.java`.
pub fn read_message(from: &mut impl Read) -> Result<PluginMessage, WireError> {
    let content = read_frame(from, FRAME_BYTES_MAX)?;
    let mut fields = FieldReader::new(&content);
    /// A message with these fields, in this order.
    macro_rules! read {
        ($message:ident { $($field:ident),* }) => { PluginMessage::$message { $($field: fields.take()?),* } };
    }
    let message = match content[0] {
        b'[' => PluginMessage::SnapshotStarted,
        b']' => PluginMessage::SnapshotEnded,
        b'N' => read!(NodeAdded { name, rack, slots, pausable, can_resume, speed_ppm }),
        b'n' => read!(NodeRemoved { name }),
        b'A' => PluginMessage::AppAdded(AppSpec {
            app_id: fields.take()?,
            name: fields.take()?,
            user: fields.take()?,
            queue: fields.take()?,
            priority: fields.take::<u32>()? as i32,
            may_pause: fields.take()?,
        }),
        b'a' => read!(AppRemoved { app_id, outcome }),
        b'Q' => read!(AppUpdated { app_id, progress_ppm, outstanding_asks, recovery_asks, headroom, gets_freed }),
        b'C' => {
            read!(ContainerAllocated { app_id, container_id, node, kind, is_master, is_demoted, outstanding_asks })
        }
        b'c' => read!(ContainerReleased { app_id, container_id, succeeded, outstanding_asks }),
        b'u' => read!(ContainerUpdated { app_id, container_id, update }),
        b'g' => read!(ContainerProgress { app_id, container_id, progress_ppm }),
        b'b' => PluginMessage::Heartbeat,
        frame_type => return Err(WireError::Decode { frame_type, problem: "unknown frame type" }),
    };
    if fields.position < content.len() {
        return Err(fields.error("bytes after the last field"));
    }
    Ok(message)
}

impl SidecarMessage {
    /// Writes the message as one frame. A list that exceeds the frame limit is cut at its end.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut content = Vec::new();
        match self {
            SidecarMessage::Welcome { policy, node_expiry_ms } => {
                content.push(b'W');
                content.extend(PROTOCOL_VERSION.to_be_bytes());
                put_string(&mut content, policy);
                content.extend(node_expiry_ms.to_be_bytes());
            }
            SidecarMessage::Rejected(reason) => put_text(&mut content, b'R', reason),
            SidecarMessage::Ranking(app_ids) => {
                content.push(b'O');
                // Cutting the end loses only their order among each other: applications not in the list are served last.
                put_list(&mut content, app_ids, |app_id, item| put_string(item, app_id));
            }
            SidecarMessage::NodeClasses(classes) => {
                content.push(b'L');
                put_list(&mut content, classes, |(name, class), item| {
                    put_string(item, name);
                    item.extend(class.to_be_bytes());
                });
            }
            SidecarMessage::Refusals { max_wait, refused } => {
                content.push(b'V');
                let wait_ms = max_wait.map_or(u32::MAX, |wait| u32::try_from(wait.0 / 1_000).unwrap_or(u32::MAX));
                content.extend(wait_ms.to_be_bytes());
                put_list(&mut content, refused, |(app_id, classes), item| {
                    put_string(item, app_id);
                    let count = u16::try_from(classes.len()).unwrap_or(u16::MAX);
                    item.extend(count.to_be_bytes());
                    classes.iter().take(usize::from(count)).for_each(|class| item.extend(class.to_be_bytes()));
                });
            }
            SidecarMessage::Pause(container_id) => put_text(&mut content, b'P', container_id),
            SidecarMessage::Resume(container_id) => put_text(&mut content, b'p', container_id),
            SidecarMessage::Kill(container_id) => put_text(&mut content, b'K', container_id),
            SidecarMessage::Heartbeat => content.push(b'b'),
        }
        to.write_all(&(content.len() as u32).to_be_bytes())?;
        to.write_all(&content)
    }
}

fn put_text(content: &mut Vec<u8>, frame_type: u8, text: &str) {
    content.push(frame_type);
    put_string(content, text);
}

/// Appends the number of items and the items, as many as fit into a frame.
fn put_list<T>(content: &mut Vec<u8>, items: &[T], put: impl Fn(&T, &mut Vec<u8>)) {
    let count_at = content.len();
    content.extend([0; 4]);
    let (mut count, mut encoded) = (0u32, Vec::new());
    for item in items {
        encoded.clear();
        put(item, &mut encoded);
        if content.len() + encoded.len() > FRAME_BYTES_MAX as usize {
            break;
        }
        content.extend(&encoded);
        count += 1;
    }
    content[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
}

/// Appends a string, cut to 65,535 bytes.
fn put_string(content: &mut Vec<u8>, string: &str) {
    let length = u16::try_from(string.len()).unwrap_or(u16::MAX);
    content.extend(length.to_be_bytes());
    content.extend(&string.as_bytes()[..usize::from(length)]);
}

/// Reads the content of one frame, at least one byte.
pub(crate) fn read_frame(from: &mut impl Read, max_bytes: u32) -> Result<Vec<u8>, WireError> {
    let mut length = [0; 4];
    // The first byte is read alone: end of file is a normal close only before it. A process that was stopped and continued finds its read interrupted.
    loop {
        match from.read(&mut length[..1]) {
            Ok(0) => return Err(WireError::Closed),
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
    from.read_exact(&mut length[1..]).map_err(read_error)?;
    let bytes = u32::from_be_bytes(length);
    if bytes == 0 || bytes > max_bytes {
        return Err(WireError::Length { bytes, max_bytes });
    }
    let mut content = vec![0; bytes as usize];
    from.read_exact(&mut content).map_err(read_error)?;
    Ok(content)
}

pub(crate) fn read_error(error: io::Error) -> WireError {
    match error.kind() {
        ErrorKind::UnexpectedEof => WireError::Truncated,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => WireError::TimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => WireError::Closed,
        _ => WireError::Io(error),
    }
}

/// Reads the fields of a frame's content in order.
pub(crate) struct FieldReader<'a> {
    content: &'a [u8],
    position: usize,
}

impl<'a> FieldReader<'a> {
    /// The fields after the frame type.
    pub(crate) fn new(content: &'a [u8]) -> FieldReader<'a> {
        FieldReader { content, position: 1 }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let found = self.content.get(self.position..self.position + length);
        self.position += length;
        found.ok_or_else(|| self.error("the frame ends within a field"))
    }

    /// An unsigned integer of `width` bytes, at most 8.
    pub(crate) fn integer(&mut self, width: usize) -> Result<u64, WireError> {
        Ok(self.bytes(width)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    pub(crate) fn take<T: Field>(&mut self) -> Result<T, WireError> {
        T::read(self)
    }

    /// One of a few values, by its number.
    fn choice<T: Copy, const N: usize>(&mut self, values: [T; N], problem: &'static str) -> Result<T, WireError> {
        let number = self.integer(1)? as usize;
        values.get(number).copied().ok_or_else(|| self.error(problem))
    }

    fn error(&self, problem: &'static str) -> WireError {
        WireError::Decode { frame_type: self.content[0], problem }
    }
}

/// A field of a frame.
pub(crate) trait Field: Sized {
    fn read(from: &mut FieldReader<'_>) -> Result<Self, WireError>;
}

/// Fields of these types, each read by an expression.
macro_rules! fields {
    ($($type:ty => |$from:ident| $value:expr),* $(,)?) => {
        $(impl Field for $type {
            fn read($from: &mut FieldReader<'_>) -> Result<$type, WireError> {
                Ok($value)
            }
        })*
    };
}

fields! {
    u32 => |from| from.integer(4)? as u32,
    [u32; 2] => |from| [from.take()?, from.take()?],
    // Lossy, because the plug-in cuts long strings at a byte limit, possibly within a character.
    String => |from| {
        let length = from.integer(2)? as usize;
        String::from_utf8_lossy(from.bytes(length)?).into_owned()
    },
    bool => |from| from.choice([false, true], "invalid flag, expected 0 (no) or 1 (yes)")?,
    Kind => |from| from.choice(Kind::BOTH, "invalid task kind, expected 0 (map) or 1 (reduce)")?,
    Outcome => |from| {
        let outcomes = [Outcome::Succeeded, Outcome::Killed, Outcome::Failed];
        from.choice(outcomes, "invalid outcome, expected 0 (succeeded), 1 (killed) or 2 (failed)")?
    },
    ContainerUpdate => |from| {
        let updates = [ContainerUpdate::Demoted, ContainerUpdate::Promoted, ContainerUpdate::NotDemoted];
        from.choice(updates, "invalid update, expected 0 (demoted), 1 (promoted) or 2 (not demoted)")?
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    /// Fails with `Interrupted` before each byte.
    struct InterruptedReader<'a>(&'a [u8], bool);

    impl Read for InterruptedReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.1 {
                true => Err(ErrorKind::Interrupted.into()),
                false => self.0.read(&mut buffer[..1]),
            }
        }
    }

    #[test]
    fn interrupted_reads_are_repeated() {
        let bytes = frame(b"b");
        assert_eq!(read_message(&mut InterruptedReader(&bytes, false)).unwrap(), PluginMessage::Heartbeat);
    }

    #[test]
    fn frames_have_the_documented_bytes() {
        let mut bytes = Vec::new();
        SidecarMessage::Ranking(vec!["a".into(), "bc".into()]).write(&mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 12, b'O', 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c']);
        let content = [&b"c\0\x01a\0\x02c7"[..], &[1, 0, 0, 0, 5, 0, 0, 0, 6]].concat();
        let message = PluginMessage::ContainerReleased {
            app_id: "a".into(),
            container_id: "c7".into(),
            succeeded: true,
            outstanding_asks: [5, 6],
        };
        assert_eq!(read_message(&mut &frame(&content)[..]).unwrap(), message);
        let mut bytes = Vec::new();
        SidecarMessage::Pause("c7".into()).write(&mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 5, b'P', 0, 2, b'c', b'7']);
        let mut bytes = Vec::new();
        SidecarMessage::NodeClasses(vec![("n".into(), 258)]).write(&mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 10, b'L', 0, 0, 0, 1, 0, 1, b'n', 1, 2]);
        for (max_wait, wait_bytes) in [(Some(Span::from_secs(1)), [0, 0, 3, 232]), (None, [255; 4])] {
            let mut bytes = Vec::new();
            let refused = vec![("a".into(), vec![1, 2])];
            SidecarMessage::Refusals { max_wait, refused }.write(&mut bytes).unwrap();
            let content = [&b"V"[..], &wait_bytes, &[0, 0, 0, 1, 0, 1, b'a', 0, 2, 0, 1, 0, 2]].concat();
            assert_eq!(bytes, frame(&content));
        }
    }

    #[test]
    fn an_invalid_message_is_rejected_with_its_reason() {
        for (content, reason) in [
            (&b"z"[..], "invalid frame of type `z`: unknown frame type"),
            (b"n\0\x05abc", "invalid frame of type `n`: the frame ends within a field"),
            (b"bb", "invalid frame of type `b`: bytes after the last field"),
            (b"a\0\x01x\x09", "invalid frame of type `a`: invalid outcome"),
            (b"u\0\x01x\0\x01y\x03", "invalid frame of type `u`: invalid update"),
            (b"c\0\x01x\0\x01y\x02", "invalid frame of type `c`: invalid flag"),
        ] {
            let error = read_message(&mut &frame(content)[..]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
