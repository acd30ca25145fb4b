//! Encoding of records.

use super::{CHECKSUM_BYTES, EVENT_LOG_VERSION, EventLogWriteError, HEAD_BYTES, LENGTH_BYTES, MAGIC, RECORD_BYTES_MAX};
use crate::action::Action;
use crate::event::Event;
use crate::setup::Setup;
use crate::units::Time;
use crc32c::crc32c_append;
use serde::{Deserialize, Serialize};

/// The content of a record, as it is written; `Content` in `read.rs` is the same, as it is read.
#[derive(Serialize)]
enum ContentRef<'a> {
    Record(Time, &'a Event, &'a [Action]),
    Close(u64),
}

/// Encodes records. The caller appends the bytes to the log in the order in which they were encoded. It can be stored itself, as a position in
/// a log from which reading and writing continue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventLogWriter {
    /// The checksum over everything so far.
    pub(super) checksum: u32,
    pub(super) records: u64,
}

impl EventLogWriter {
    /// Begins an event log; returns the bytes of its head.
    pub fn begin(setup: &Setup) -> Result<(EventLogWriter, Vec<u8>), EventLogWriteError> {
        let text = toml::to_string(&Setup { seed: 0, ..setup.clone() })
            .map_err(|error| EventLogWriteError::Setup { problem: error.to_string() })?;
        let length = length_u32(text.len()).ok_or(EventLogWriteError::TooLong { record: 0, bytes: text.len() })?;
        let mut head = Vec::with_capacity(HEAD_BYTES + text.len() + CHECKSUM_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&EVENT_LOG_VERSION.to_le_bytes());
        head.extend_from_slice(&setup.seed.to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        let checksum = crc32c_append(0, &head);
        head.extend_from_slice(&checksum.to_le_bytes());
        let checksum = crc32c_append(checksum, text.as_bytes());
        head.extend_from_slice(text.as_bytes());
        head.extend_from_slice(&checksum.to_le_bytes());
        Ok((EventLogWriter { checksum, records: 0 }, head))
    }

    /// Appends a record's bytes to `out`. On an error neither `out` nor the writer has changed.
    pub fn record(
        &mut self,
        now: Time,
        event: &Event,
        actions: &[Action],
        out: &mut Vec<u8>,
    ) -> Result<(), EventLogWriteError> {
        self.frame(&ContentRef::Record(now, event, actions), out)?;
        self.records += 1;
        Ok(())
    }

    /// Appends the closing record's bytes to `out`.
    pub fn close(mut self, out: &mut Vec<u8>) {
        let close = ContentRef::Close(self.records);
        self.frame(&close, out).expect("a closing record is short");
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn frame(&mut self, content: &ContentRef<'_>, out: &mut Vec<u8>) -> Result<(), EventLogWriteError> {
        let start = out.len();
        // The length is known after the content is encoded.
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        postcard::serialize_with_flavor(content, Appender(out)).expect("events and actions have a known length");
        let bytes = out.len() - start - LENGTH_BYTES;
        let Some(length) = length_u32(bytes) else {
            out.truncate(start);
            return Err(EventLogWriteError::TooLong { record: self.records + 1, bytes });
        };
        let length = length.to_le_bytes();
        let length_checksum = crc32c_append(self.checksum, &length);
        out[start..start + 4].copy_from_slice(&length);
        out[start + 4..start + LENGTH_BYTES].copy_from_slice(&length_checksum.to_le_bytes());
        self.checksum = crc32c_append(length_checksum, &out[start + LENGTH_BYTES..]);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        Ok(())
    }
}

fn length_u32(bytes: usize) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|length| *length <= RECORD_BYTES_MAX)
}

/// Has postcard append to a buffer that already has content.
struct Appender<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Appender<'_> {
    type Output = ();
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::EventLogReader;
    use super::super::tests::setup;
    use super::*;
    use crate::ids::NodeId;
    use crate::timer::Timer;

    #[test]
    fn the_bytes_match_the_documented_format() {
        let setup = Setup { seed: u64::MAX - 1, ..setup() };
        let (mut writer, head) = EventLogWriter::begin(&setup).unwrap();
        let text = toml::to_string(&Setup { seed: 0, ..setup.clone() }).unwrap();
        assert_eq!(head[..8], [0x89, 0x47, 0x49, 0x56, 0x45, 0x57, 0x41, 0x59]);
        assert_eq!(head[8..12], [3, 0, 0, 0]);
        assert_eq!(head[12..20], (u64::MAX - 1).to_le_bytes());
        assert_eq!(head[20..24], (text.len() as u32).to_le_bytes());
        let mut covered = head[..24].to_vec();
        assert_eq!(head[24..28], crc32c::crc32c(&covered).to_le_bytes());
        covered.extend_from_slice(text.as_bytes());
        assert_eq!(head[28..28 + text.len()], *text.as_bytes());
        assert_eq!(head[28 + text.len()..], crc32c::crc32c(&covered).to_le_bytes());

        let mut record = Vec::new();
        let set_timer = [Action::SetTimer { timer: Timer::Estimates, at: Time(300) }];
        writer.record(Time(200), &Event::NodeLost { node: NodeId(5) }, &set_timer, &mut record).unwrap();
        assert_eq!(record[..4], [10, 0, 0, 0]);
        covered.extend_from_slice(&record[..4]);
        assert_eq!(record[4..8], crc32c::crc32c(&covered).to_le_bytes());
        // A record; 200 us; event 4, node 5; one action, number 6, timer 0, 300 us.
        assert_eq!(record[8..18], [0, 0xc8, 0x01, 4, 5, 1, 6, 0, 0xac, 0x02]);
        covered.extend_from_slice(&record[8..18]);
        assert_eq!(record[18..], crc32c::crc32c(&covered).to_le_bytes());

        let mut close = Vec::new();
        writer.close(&mut close);
        assert_eq!(close[..4], [2, 0, 0, 0]);
        assert_eq!(close[8..10], [1, 1]);
        assert_eq!(close.len(), 14);
    }

    #[test]
    fn a_seed_beyond_toml_survives() {
        let setup = Setup { seed: u64::MAX, ..setup() };
        let (writer, mut event_log) = EventLogWriter::begin(&setup).unwrap();
        writer.close(&mut event_log);
        assert_eq!(EventLogReader::open(&event_log).unwrap().setup(), &setup);
    }
}
