//! Reading a journal while a coordinator writes it.

use super::records::Batch;
use super::{Clock, JournalError, LOG, frames, io_error};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that one call of [`JournalTail::read`] takes from the file, unless a single frame is longer.
const READ_BYTES_MAX: u64 = 64 << 20;

/// The path of the journal of a cluster.
pub fn journal_path(folder: &Path) -> PathBuf {
    folder.join("journal").join(LOG)
}

/// Follows the journal file of a cluster. Takes no lock and changes nothing.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    file: File,
    identity: u64,
    /// Length of the frames read so far.
    valid_bytes: u64,
    clock: Clock,
}

impl JournalTail {
    /// Opens a journal file.
    pub fn open(path: &Path) -> Result<JournalTail, JournalError> {
        let file = File::open(path).map_err(io_error(path))?;
        let identity = identity(&file.metadata().map_err(io_error(path))?);
        Ok(JournalTail { path: path.into(), file, identity, valid_bytes: 0, clock: Clock::default() })
    }

    /// Tells this journal from those before and after it in the same place.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The wall clock in the frames that were read.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// False once another journal has taken its place, or a coordinator has cut off frames that were read here.
    pub fn is_current(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| identity(&now) == self.identity && now.len() >= self.valid_bytes)
    }

    /// The bytes of the event log in the complete frames that are new since the last call. Empty if there are none.
    pub fn read(&mut self) -> Result<Vec<u8>, JournalError> {
        let failed = io_error(&self.path);
        let mut bytes = Vec::new();
        let mut limit = READ_BYTES_MAX;
        let mut events = Vec::new();
        loop {
            bytes.clear();
            self.file.seek(SeekFrom::Start(self.valid_bytes)).map_err(&failed)?;
            (&self.file).take(limit).read_to_end(&mut bytes).map_err(&failed)?;
            let mut rest = bytes.as_slice();
            if self.valid_bytes == 0 {
                match rest.strip_prefix(&frames::MAGIC) {
                    Some(after) => (rest, self.valid_bytes) = (after, frames::MAGIC.len() as u64),
                    None if rest.len() < frames::MAGIC.len() => return Ok(events),
                    None => return Err(JournalError::Damaged { path: self.path.clone(), at_bytes: 0 }),
                }
            }
            let before = self.valid_bytes;
            while let Some(content) = frames::read(rest).filter(|content| !content.is_empty()) {
                let batch: Batch = postcard::from_bytes(content)
                    .map_err(|error| JournalError::Decode { path: self.path.clone(), error })?;
                events.extend_from_slice(&batch.events);
                batch.metadata.iter().for_each(|metadata| self.clock.apply(metadata));
                let length = frames::HEADER_BYTES + content.len();
                self.valid_bytes += length as u64;
                rest = rest.get(length..).unwrap_or_default();
            }
            let is_cut_by_limit = bytes.len() as u64 == limit;
            match (is_cut_by_limit, self.valid_bytes > before) {
                (false, _) => return Ok(events),
                (true, true) => return Ok(events),
                // A frame longer than the limit, or one that will never be complete: a frame has at most 4 GiB.
                (true, false) if limit > 1 << 32 => return Ok(events),
                (true, false) => limit *= 4,
            }
        }
    }
}

fn identity(file: &fs::Metadata) -> u64 {
    // The creation time tells apart two files with the same number, of which the first was removed.
    let created = file.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    file.ino() ^ created.map_or(0, |since| since.as_nanos() as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Open;
    use super::*;
    use giveway_core::event_log::EventLogDecoder;
    use std::io::Write;

    fn times(decoder: &mut EventLogDecoder, tail: &mut JournalTail) -> Vec<u64> {
        decoder.feed(&tail.read().unwrap());
        std::iter::from_fn(|| decoder.pull().unwrap()).map(|record| record.now.0).collect()
    }

    #[test]
    fn a_tail_reads_each_complete_frame_once_and_notices_another_journal() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Open::create(folder.path());
        let path = journal_path(folder.path());
        let (mut tail, mut decoder) = (JournalTail::open(&path).unwrap(), EventLogDecoder::new());
        journal.append(1);
        journal.append(2);
        assert_eq!(times(&mut decoder, &mut tail), [1, 2]);
        assert_eq!(times(&mut decoder, &mut tail), [0; 0]);
        // A frame that is being written is not read until it is complete.
        journal.append(3);
        let whole = fs::read(&path).unwrap();
        let other = folder.path().join("cut");
        fs::write(&other, &whole[..whole.len() - 1]).unwrap();
        let (mut cut, mut cut_decoder) = (JournalTail::open(&other).unwrap(), EventLogDecoder::new());
        assert_eq!(times(&mut cut_decoder, &mut cut), [1, 2]);
        fs::OpenOptions::new().append(true).open(&other).unwrap().write_all(&whole[whole.len() - 1..]).unwrap();
        assert_eq!(times(&mut cut_decoder, &mut cut), [3]);
        assert!(tail.is_current());
        let _new = Open::create(folder.path());
        assert!(!tail.is_current());
        // What was written to the old one can still be read.
        assert_eq!(times(&mut decoder, &mut tail), [3]);
    }
}
