//! Records into bytes.

use super::{CHECK_BYTES, EVENT_LOG_VERSION, EventLogWriteError, HEAD_BYTES, LENGTH_BYTES, MARK, RECORD_BYTES_MAX};
use crate::action::Action;
use crate::event::Event;
use crate::setup::Setup;
use crate::units::Time;
use crc32c::crc32c_append;
use serde::Serialize;

/// What a record holds; `Content` beside the readers is the same, as it is read.
#[derive(Serialize)]
enum ContentRef<'a> {
    Record(Time, &'a Event, &'a [Action]),
    Close(u64),
}

/// Turns records into bytes, which the caller appends to the event log in the order they were made.
#[derive(Clone, Debug)]
pub struct EventLogWriter {
    /// The check of all bytes so far.
    pub(super) chain: u32,
    pub(super) records: u64,
}

impl EventLogWriter {
    /// Begins an event log; the bytes are its head.
    pub fn begin(setup: &Setup) -> Result<(EventLogWriter, Vec<u8>), EventLogWriteError> {
        let text = toml::to_string(&Setup { seed: 0, ..setup.clone() })
            .map_err(|error| EventLogWriteError::Setup { problem: error.to_string() })?;
        let length = length_u32(text.len()).ok_or(EventLogWriteError::TooLong { record: 0, bytes: text.len() })?;
        let mut head = Vec::with_capacity(HEAD_BYTES + text.len() + CHECK_BYTES);
        head.extend_from_slice(&MARK);
        head.extend_from_slice(&EVENT_LOG_VERSION.to_le_bytes());
        head.extend_from_slice(&setup.seed.to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        let chain = crc32c_append(0, &head);
        head.extend_from_slice(&chain.to_le_bytes());
        let chain = crc32c_append(chain, text.as_bytes());
        head.extend_from_slice(text.as_bytes());
        head.extend_from_slice(&chain.to_le_bytes());
        Ok((EventLogWriter { chain, records: 0 }, head))
    }

    /// Appends one record's bytes to `out`. If the record is refused, neither `out` nor the event log has changed.
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
        self.frame(&close, out).expect("a number is shorter than the limit");
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn frame(&mut self, content: &ContentRef<'_>, out: &mut Vec<u8>) -> Result<(), EventLogWriteError> {
        let start = out.len();
        // The length is known only once the content is there: leave room for it.
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        postcard::serialize_with_flavor(content, Appender(out))
            .expect("events and actions hold nothing of unknown length");
        let bytes = out.len() - start - LENGTH_BYTES;
        let Some(length) = length_u32(bytes) else {
            out.truncate(start);
            return Err(EventLogWriteError::TooLong { record: self.records + 1, bytes });
        };
        let length = length.to_le_bytes();
        let length_check = crc32c_append(self.chain, &length);
        out[start..start + 4].copy_from_slice(&length);
        out[start + 4..start + LENGTH_BYTES].copy_from_slice(&length_check.to_le_bytes());
        self.chain = crc32c_append(length_check, &out[start + LENGTH_BYTES..]);
        out.extend_from_slice(&self.chain.to_le_bytes());
        Ok(())
    }
}

fn length_u32(bytes: usize) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|length| *length <= RECORD_BYTES_MAX)
}

/// Lets postcard write at the end of a buffer that others use too.
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
    fn the_bytes_are_those_the_format_names() {
        let setup = Setup { seed: u64::MAX - 1, ..setup() };
        let (mut writer, head) = EventLogWriter::begin(&setup).unwrap();
        let text = toml::to_string(&Setup { seed: 0, ..setup.clone() }).unwrap();
        assert_eq!(head[..8], [0x89, 0x47, 0x49, 0x56, 0x45, 0x57, 0x41, 0x59]);
        assert_eq!(head[8..12], [1, 0, 0, 0]);
        assert_eq!(head[12..20], (u64::MAX - 1).to_le_bytes());
        assert_eq!(head[20..24], (text.len() as u32).to_le_bytes());
        let mut covered = head[..24].to_vec();
        assert_eq!(head[24..28], crc32c::crc32c(&covered).to_le_bytes());
        covered.extend_from_slice(text.as_bytes());
        assert_eq!(head[28..28 + text.len()], *text.as_bytes());
        assert_eq!(head[28 + text.len()..], crc32c::crc32c(&covered).to_le_bytes());

        let mut record = Vec::new();
        let wake = [Action::SetTimer { timer: Timer::Estimates, at: Time(300) }];
        writer.record(Time(200), &Event::NodeLost { node: NodeId(5) }, &wake, &mut record).unwrap();
        assert_eq!(record[..4], [9, 0, 0, 0]);
        covered.extend_from_slice(&record[..4]);
        assert_eq!(record[4..8], crc32c::crc32c(&covered).to_le_bytes());
        // A record; 200 us; event 4, node 5; one action, number 6, 300 us.
        assert_eq!(record[8..17], [0, 0xc8, 0x01, 4, 5, 1, 6, 0xac, 0x02]);
        covered.extend_from_slice(&record[8..17]);
        assert_eq!(record[17..], crc32c::crc32c(&covered).to_le_bytes());

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
