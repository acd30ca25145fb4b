//! Decoding of records, from memory or in pieces. Nothing is decoded before its checksum matches, and no memory is allocated because of an
//! unchecked length.

use super::{
    CHECKSUM_BYTES, EVENT_LOG_VERSION, EventLogError, EventLogWriter, HEAD_BYTES, LENGTH_BYTES, MAGIC,
    RECORD_BYTES_MAX, Record,
};
use crate::setup::Setup;
use crc32c::crc32c_append;
use serde::Deserialize;
use std::fmt;

/// The content of a record, as it is read; `ContentRef` in `write.rs` is the same, as it is written.
#[derive(Deserialize)]
enum Content {
    Record(Record),
    Close(u64),
}

/// How far an event log has been read.
#[derive(Clone, Debug, Default)]
struct Cursor {
    stage: Stage,
    checksum: u32,
    records: u64,
    /// Where the last complete record ends.
    valid_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    Records,
    /// Zeros where a record should begin: space that was allocated for records that were never written.
    Zeros,
    Closed,
}

/// What was at the front of the unread bytes.
enum Step {
    /// More bytes are needed.
    More,
    Head(Box<Setup>),
    Record(Record),
    /// Something that is not passed to the caller.
    Skipped,
}

/// Bytes whose checksum matches.
struct Checked<'a> {
    content: &'a [u8],
    checksum: u32,
    /// Bytes of the log that were used, the checksum included.
    used: usize,
}

impl Cursor {
    /// Reads what is at the front of `bytes`; returns how many of them were used.
    fn step(&mut self, bytes: &[u8]) -> Result<(Step, usize), EventLogError> {
        match self.stage {
            Stage::Head => self.head(bytes),
            Stage::Records => self.frame(bytes),
            Stage::Zeros if bytes.iter().all(|byte| *byte == 0) => {
                Ok((if bytes.is_empty() { Step::More } else { Step::Skipped }, bytes.len()))
            }
            Stage::Zeros => Err(self.damaged()),
            Stage::Closed if bytes.is_empty() => Ok((Step::More, 0)),
            Stage::Closed => Err(EventLogError::Trailing { records: self.records }),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(Step, usize), EventLogError> {
        let marked = bytes.len().min(MAGIC.len());
        if bytes[..marked] != MAGIC[..marked] {
            return Err(EventLogError::NotAnEventLog);
        }
        let Some(found) = u32_at(bytes, 8) else { return Ok((Step::More, 0)) };
        if found != EVENT_LOG_VERSION {
            return Err(EventLogError::Version { found, known: EVENT_LOG_VERSION });
        }
        let (Some(length), Some(check)) = (u32_at(bytes, 20), u32_at(bytes, 24)) else { return Ok((Step::More, 0)) };
        let checksum = crc32c_append(0, &bytes[..24]);
        if checksum != check {
            return Err(self.damaged());
        }
        let Some(Checked { content, checksum, used }) = self.checked(bytes, HEAD_BYTES, length, checksum)? else {
            return Ok((Step::More, 0));
        };
        let text = std::str::from_utf8(content).map_err(|error| self.invalid(error))?;
        let mut setup: Setup = toml::from_str(text).map_err(|error| self.invalid(error))?;
        setup.seed = u64::from_le_bytes(bytes[12..20].try_into().expect("eight bytes"));
        *self = Cursor { stage: Stage::Records, checksum, records: 0, valid_bytes: used as u64 };
        Ok((Step::Head(Box::new(setup)), used))
    }

    fn frame(&mut self, bytes: &[u8]) -> Result<(Step, usize), EventLogError> {
        let (Some(length), Some(check)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else { return Ok((Step::More, 0)) };
        if length == 0 && check == 0 {
            self.stage = Stage::Zeros;
            return Ok((Step::Skipped, LENGTH_BYTES));
        }
        let checksum = crc32c_append(self.checksum, &bytes[..4]);
        if checksum != check {
            return Err(self.damaged());
        }
        let Some(Checked { content, checksum, used }) = self.checked(bytes, LENGTH_BYTES, length, checksum)? else {
            return Ok((Step::More, 0));
        };
        match postcard::take_from_bytes(content) {
            Ok((Content::Record(record), [])) => {
                self.checksum = checksum;
                self.records += 1;
                self.valid_bytes += used as u64;
                Ok((Step::Record(record), used))
            }
            // `valid_bytes` stays before the closing record, so that a closed journal can be continued.
            Ok((Content::Close(records), [])) if records == self.records => {
                self.stage = Stage::Closed;
                Ok((Step::Skipped, used))
            }
            Ok((Content::Close(records), [])) => {
                Err(self.invalid(format!("it closes a log of {records} records after {}", self.records)))
            }
            Ok((_, rest)) => Err(self.invalid(format!("{} surplus bytes", rest.len()))),
            Err(error) => Err(self.invalid(error)),
        }
    }

    /// The `length` bytes at `start`, if they are there and match the checksum behind them.
    fn checked<'a>(
        &self,
        bytes: &'a [u8],
        start: usize,
        length: u32,
        checksum: u32,
    ) -> Result<Option<Checked<'a>>, EventLogError> {
        if length > RECORD_BYTES_MAX {
            return Err(self.invalid(format!("its length is {length} bytes")));
        }
        let end = start + length as usize;
        let Some(check) = u32_at(bytes, end) else { return Ok(None) };
        let content = &bytes[start..end];
        let checksum = crc32c_append(checksum, content);
        if checksum != check {
            return Err(self.damaged());
        }
        Ok(Some(Checked { content, checksum, used: end + CHECKSUM_BYTES }))
    }

    /// An error if the log may not end here.
    fn end(&self) -> Result<(), EventLogError> {
        match self.stage {
            Stage::Closed => Ok(()),
            _ => Err(EventLogError::Truncated { record: self.at(), valid_bytes: self.valid_bytes }),
        }
    }

    /// The number of the record that is being read.
    fn at(&self) -> u64 {
        if self.stage == Stage::Head { 0 } else { self.records + 1 }
    }

    fn damaged(&self) -> EventLogError {
        EventLogError::Damaged { record: self.at() }
    }

    fn invalid(&self, problem: impl fmt::Display) -> EventLogError {
        EventLogError::Invalid { record: self.at(), problem: problem.to_string().trim_end().into() }
    }

    fn writer(&self) -> EventLogWriter {
        EventLogWriter { checksum: self.checksum, records: self.records }
    }
}

fn u32_at(bytes: &[u8], start: usize) -> Option<u32> {
    let four = bytes.get(start..start.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().expect("four bytes")))
}

/// Reads an event log that is in memory. It iterates over the records; the last item is an error if the log is not complete.
#[derive(Clone, Debug)]
pub struct EventLogReader<'a> {
    unread: &'a [u8],
    cursor: Cursor,
    setup: Box<Setup>,
    over: bool,
}

impl<'a> EventLogReader<'a> {
    /// Reads the head.
    pub fn open(event_log: &'a [u8]) -> Result<EventLogReader<'a>, EventLogError> {
        let mut cursor = Cursor::default();
        match cursor.step(event_log)? {
            (Step::Head(setup), used) => Ok(EventLogReader { unread: &event_log[used..], cursor, setup, over: false }),
            _ => Err(EventLogError::Truncated { record: 0, valid_bytes: 0 }),
        }
    }

    /// The setup in the head.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Records read so far.
    pub fn records(&self) -> u64 {
        self.cursor.records
    }

    /// Where the last record read ends, and [`EventLogReader::writer`] continues.
    pub fn valid_bytes(&self) -> u64 {
        self.cursor.valid_bytes
    }

    /// A writer that continues after the last record read, replacing what follows it.
    pub fn writer(&self) -> EventLogWriter {
        self.cursor.writer()
    }
}

impl Iterator for EventLogReader<'_> {
    type Item = Result<Record, EventLogError>;

    fn next(&mut self) -> Option<Result<Record, EventLogError>> {
        while !self.over {
            match self.cursor.step(self.unread) {
                Ok((Step::Record(record), used)) => {
                    self.unread = &self.unread[used..];
                    return Some(Ok(record));
                }
                Ok((Step::Head(_) | Step::Skipped, used)) => self.unread = &self.unread[used..],
                Ok((Step::More, _)) => {
                    self.over = true;
                    return self.cursor.end().err().map(Err);
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Reads an event log that arrives in pieces: [`feed`](EventLogDecoder::feed) it bytes, [`pull`](EventLogDecoder::pull) records until
/// there is none, feed it more; when no more come, ask it to [`finish`](EventLogDecoder::finish). It holds what was fed and
/// not yet pulled.
#[derive(Clone, Debug, Default)]
pub struct EventLogDecoder {
    buffer: Vec<u8>,
    /// How much of the buffer has been read.
    read: usize,
    cursor: Cursor,
    setup: Option<Box<Setup>>,
    failed: Option<EventLogError>,
}

impl EventLogDecoder {
    /// A decoder at the beginning of a log.
    pub fn new() -> EventLogDecoder {
        EventLogDecoder::default()
    }

    /// A decoder that continues in the middle of a log, where a writer was.
    pub fn resume(setup: Setup, at: &EventLogWriter) -> EventLogDecoder {
        let cursor = Cursor { stage: Stage::Records, checksum: at.checksum, records: at.records, valid_bytes: 0 };
        EventLogDecoder { cursor, setup: Some(Box::new(setup)), ..EventLogDecoder::default() }
    }

    /// Adds the next bytes of the log, however many.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next record; none if it is not complete yet, or the log is closed. An error is final.
    pub fn pull(&mut self) -> Result<Option<Record>, EventLogError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        loop {
            match self.cursor.step(&self.buffer[self.read..]) {
                Ok((step, used)) => {
                    self.read += used;
                    match step {
                        Step::Record(record) => return Ok(Some(record)),
                        Step::Head(setup) => self.setup = Some(setup),
                        Step::Skipped => {}
                        Step::More => return Ok(None),
                    }
                }
                Err(error) => {
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
    }

    /// An error if the log is not complete. To be called when all bytes were fed and all records pulled.
    pub fn finish(&self) -> Result<(), EventLogError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.cursor.end(),
        }
    }

    /// The setup, once [`pull`](EventLogDecoder::pull) has read the head.
    pub fn setup(&self) -> Option<&Setup> {
        self.setup.as_deref()
    }

    /// Records pulled so far.
    pub fn records(&self) -> u64 {
        self.cursor.records
    }

    /// Where the last record pulled ends, and [`EventLogDecoder::writer`] continues. Counted from where the decoder began.
    pub fn valid_bytes(&self) -> u64 {
        self.cursor.valid_bytes
    }

    /// A writer that continues after the last record pulled, replacing what follows it. None before the head was read.
    pub fn writer(&self) -> Option<EventLogWriter> {
        self.setup.is_some().then(|| self.cursor.writer())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{records, setup};
    use super::*;
    use crate::timer::Timer;
    use proptest::prelude::*;

    /// An event log, and where its head, each of its records and its closing record end.
    fn event_log(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let (mut writer, mut event_log) = EventLogWriter::begin(&setup()).unwrap();
        let mut ends = vec![event_log.len()];
        for record in records {
            writer.record(record.now, &record.event, &record.actions, &mut event_log).unwrap();
            ends.push(event_log.len());
        }
        writer.close(&mut event_log);
        ends.push(event_log.len());
        (event_log, ends)
    }

    /// Reads an event log as far as it goes.
    fn read(event_log: &[u8]) -> (Vec<Record>, Result<(), EventLogError>) {
        let mut read = Vec::new();
        let reader = match EventLogReader::open(event_log) {
            Ok(reader) => reader,
            Err(error) => return (read, Err(error)),
        };
        for record in reader {
            match record {
                Ok(record) => read.push(record),
                Err(error) => return (read, Err(error)),
            }
        }
        (read, Ok(()))
    }

    /// Reads an event log in pieces.
    fn read_in_pieces(event_log: &[u8], piece_bytes: usize) -> (Vec<Record>, Result<(), EventLogError>) {
        let (mut decoder, mut read) = (EventLogDecoder::new(), Vec::new());
        for piece in event_log.chunks(piece_bytes) {
            decoder.feed(piece);
            loop {
                match decoder.pull() {
                    Ok(Some(record)) => read.push(record),
                    Ok(None) => break,
                    Err(error) => return (read, Err(error)),
                }
            }
        }
        (read, decoder.finish())
    }

    /// An event log of one record with this content and matching checksums, as an attacker would write it.
    fn forged(length: u32, content: &[u8]) -> Vec<u8> {
        let (writer, mut event_log) = EventLogWriter::begin(&setup()).unwrap();
        let check = crc32c_append(writer.checksum, &length.to_le_bytes());
        event_log.extend_from_slice(&length.to_le_bytes());
        event_log.extend_from_slice(&check.to_le_bytes());
        event_log.extend_from_slice(content);
        event_log.extend_from_slice(&crc32c_append(check, content).to_le_bytes());
        event_log
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in records(), piece_bytes in 1usize..200) {
            let (event_log, _) = event_log(&records);
            prop_assert_eq!(read(&event_log), (records.clone(), Ok(())));
            prop_assert_eq!(read_in_pieces(&event_log, piece_bytes), (records, Ok(())));
            prop_assert!(*EventLogReader::open(&event_log).unwrap().setup() == setup());
        }

        #[test]
        fn any_cut_is_seen_and_keeps_what_is_whole(records in records(), at in any::<prop::sample::Index>()) {
            let (event_log, ends) = event_log(&records);
            let cut = &event_log[..at.index(event_log.len())];
            // The closing record is the last end; an event log without it is cut, however many records it has.
            let whole = ends[..ends.len() - 1].iter().take_while(|end| **end <= cut.len()).count();
            let valid_bytes = if whole == 0 { 0 } else { ends[whole - 1] as u64 };
            let error = EventLogError::Truncated { record: whole as u64, valid_bytes };
            let kept = records[..whole.saturating_sub(1)].to_vec();
            prop_assert_eq!(read(cut), (kept.clone(), Err(error.clone())));
            prop_assert_eq!(read_in_pieces(cut, 17), (kept, Err(error)));
        }

        #[test]
        fn any_flipped_bit_is_seen_where_it_is(records in records(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let (mut event_log, ends) = event_log(&records);
            let at = at.index(event_log.len());
            event_log[at] ^= 1u8 << bit;
            let record = ends.iter().take_while(|end| **end <= at).count();
            let error = match at {
                0..8 => EventLogError::NotAnEventLog,
                8..12 => EventLogError::Version { found: u32_at(&event_log, 8).unwrap(), known: EVENT_LOG_VERSION },
                _ => EventLogError::Damaged { record: record as u64 },
            };
            let kept = records[..record.saturating_sub(1)].to_vec();
            prop_assert_eq!(read(&event_log), (kept.clone(), Err(error.clone())));
            prop_assert_eq!(read_in_pieces(&event_log, 40), (kept, Err(error)));
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), from in any::<prop::sample::Index>()) {
            prop_assert!(read(&noise).1.is_err());
            let (mut event_log, _) = event_log(&[]);
            event_log.truncate(from.index(event_log.len()));
            event_log.extend_from_slice(&noise);
            let _ = read(&event_log);
        }

        #[test]
        fn forged_content_never_panics(
            record in records().prop_filter_map("a record", |mut records| records.pop()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut content = postcard::to_allocvec(&(0u8, &record)).unwrap();
            for (at, byte) in changes {
                let at = at.index(content.len());
                content[at] = byte;
            }
            let error = read(&forged(content.len() as u32, &content)).1.unwrap_err();
            prop_assert!(matches!(error, EventLogError::Invalid { record: 1, .. } | EventLogError::Truncated { record: 2, .. }), "{error}");
        }

        #[test]
        fn a_cut_journal_goes_on(records in records(), at in any::<prop::sample::Index>()) {
            let (event_log, ends) = event_log(&records);
            let mut journal = event_log[..at.index(event_log.len() + 1).max(ends[0])].to_vec();
            let mut reader = EventLogReader::open(&journal).unwrap();
            while let Some(Ok(_)) = reader.next() {}
            let (mut writer, valid_bytes) = (reader.writer(), reader.valid_bytes());
            journal.truncate(valid_bytes as usize);
            for record in &records[writer.records() as usize..] {
                writer.record(record.now, &record.event, &record.actions, &mut journal).unwrap();
            }
            writer.close(&mut journal);
            prop_assert_eq!(journal, event_log);
        }
    }

    fn three() -> Vec<Record> {
        use crate::event::Event;
        use crate::ids::{JobId, NodeId};
        use crate::units::Time;
        let record = |at, event| Record { now: Time(at), event, actions: vec![] };
        vec![
            record(1, Event::NodeLost { node: NodeId(1) }),
            record(2, Event::JobKilled { job: JobId(2) }),
            record(3, Event::TimerFired { timer: Timer::Estimates }),
        ]
    }

    #[test]
    fn removed_swapped_and_doubled_records_are_seen() {
        let (event_log, ends) = event_log(&three());
        let piece = |record: usize| &event_log[ends[record - 1]..ends[record]];
        let rest = &event_log[ends[3]..];
        let head = &event_log[..ends[0]];
        for (order, record) in
            [(vec![2, 3], 1), (vec![1, 3], 2), (vec![1, 2], 3), (vec![1, 3, 2], 2), (vec![1, 1, 2, 3], 2)]
        {
            let records: Vec<&[u8]> = order.iter().map(|record| piece(*record)).collect();
            let changed = [head, &records.concat(), rest].concat();
            assert_eq!(read(&changed).1, Err(EventLogError::Damaged { record }), "{order:?}");
        }
    }

    #[test]
    fn zeros_at_the_end_are_a_cut_and_zeros_in_the_middle_are_damage() {
        let (event_log, ends) = event_log(&three());
        for zeros in 1..40 {
            let mut cut = event_log[..ends[2]].to_vec();
            cut.resize(ends[2] + zeros, 0);
            let error = EventLogError::Truncated { record: 3, valid_bytes: ends[2] as u64 };
            assert_eq!(read(&cut).1, Err(error.clone()));
            assert_eq!(read_in_pieces(&cut, 3).1, Err(error));
        }
        let mut wiped = event_log.clone();
        wiped[ends[1]..ends[2]].fill(0);
        assert_eq!(read(&wiped).1, Err(EventLogError::Damaged { record: 2 }));
        assert_eq!(read_in_pieces(&wiped, 3).1, Err(EventLogError::Damaged { record: 2 }));
    }

    #[test]
    fn nothing_may_follow_the_closing_record() {
        let (mut event_log, _) = event_log(&three());
        event_log.push(0);
        assert_eq!(read(&event_log).1, Err(EventLogError::Trailing { records: 3 }));
    }

    #[test]
    fn a_closing_record_must_count_right() {
        let close = postcard::to_allocvec(&(1u8, 5u64)).unwrap();
        let error = read(&forged(close.len() as u32, &close)).1.unwrap_err();
        assert_eq!(
            error.to_string().split(';').next().unwrap(),
            "invalid record 1 in the event log: it closes a log of 5 records after 0"
        );
    }

    #[test]
    fn a_nonsense_length_is_refused_before_its_bytes_are_waited_for() {
        let mut decoder = EventLogDecoder::new();
        decoder.feed(&forged(u32::MAX, &[]));
        let error = decoder.pull().unwrap_err();
        assert!(matches!(error, EventLogError::Invalid { record: 1, .. }), "{error}");
        assert_eq!(decoder.pull(), Err(error), "an error is final");
    }

    #[test]
    fn an_empty_file_is_a_truncated_event_log() {
        assert_eq!(read(b"").1, Err(EventLogError::Truncated { record: 0, valid_bytes: 0 }));
        assert_eq!(read(b"name,submit_s\n").1, Err(EventLogError::NotAnEventLog));
        assert!(EventLogDecoder::new().writer().is_none());
    }

    #[test]
    fn messages_say_where_and_what_to_do() {
        let error = EventLogError::Truncated { record: 7, valid_bytes: 4096 }.to_string();
        assert_eq!(
            error,
            "the event log is truncated in record 7: its writer was stopped before it closed the log; the first 4096 bytes are \
             complete (`head -c 4096` keeps them), and `giveway replay --open` accepts them without a closing record"
        );
        let error = EventLogError::Damaged { record: 0 }.to_string();
        assert!(error.starts_with("the event log is damaged in the head: "), "{error}");
        let error = EventLogError::Version { found: 1, known: EVENT_LOG_VERSION }.to_string();
        assert!(error.starts_with("unsupported event log: it has format version 1"), "{error}");
    }
}
