//! Corrects the checksums of a changed journal and of the event log in it, for fuzzing.

use super::frames;
use super::records::Batch;
use crc32c::crc32c_append;

/// The journal with the same contents and correct checksums, as far as its frames can be told apart.
pub(crate) fn with_checksums(file: &[u8]) -> Vec<u8> {
    let mut rest = file.get(frames::MAGIC.len()..).unwrap_or_default();
    let mut batches = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(content) = after.get(4..).and_then(|after| after.get(..length)) else { break };
        // A frame that cannot be decoded stays as it is.
        batches.push(postcard::from_bytes::<Batch>(content).map_err(|_| content));
        rest = after.get(4 + length..).unwrap_or_default();
    }
    let mut events: Vec<u8> = batches.iter().flatten().flat_map(|batch| batch.events.iter().copied()).collect();
    correct_event_log(&mut events);
    let (mut events, mut corrected) = (events.as_slice(), frames::MAGIC.to_vec());
    for batch in batches {
        let content = match batch {
            Err(content) => content.to_vec(),
            Ok(mut batch) => {
                let own = events.split_off(..batch.events.len()).unwrap_or_default();
                batch.events = own.to_vec();
                postcard::to_allocvec(&batch).unwrap_or_default()
            }
        };
        let _ = frames::write(&content, &mut corrected);
    }
    corrected
}

/// Corrects the checksums of an event log, as far as its records can be told apart. Its format is described in the core's module `event_log`.
pub(crate) fn correct_event_log(log: &mut [u8]) {
    /// Where the length of the head is; a checksum follows it.
    const HEAD_LENGTH_AT: usize = 20;
    let (mut begin, mut length_at, mut checksum) = (0, HEAD_LENGTH_AT, 0);
    loop {
        let content_at = length_at + 8;
        let Some(length) = log.get(length_at..length_at + 4).and_then(|bytes| bytes.try_into().ok()) else { return };
        let length = u32::from_le_bytes(length) as usize;
        checksum = crc32c_append(checksum, log.get(begin..length_at + 4).unwrap_or_default());
        if let Some(stored) = log.get_mut(length_at + 4..content_at) {
            stored.copy_from_slice(&checksum.to_le_bytes());
        }
        let Some(content) = log.get(content_at..).and_then(|rest| rest.get(..length)) else { return };
        checksum = crc32c_append(checksum, content);
        let end = content_at + length;
        let Some(stored) = log.get_mut(end..end + 4) else { return };
        stored.copy_from_slice(&checksum.to_le_bytes());
        (begin, length_at) = (end + 4, end + 4);
    }
}
