//! Entry point for fuzzing: arbitrary bytes are read as a segment. No input may cause a panic.

use crate::data::segment::segment_with_checksums;
use crate::data::{Position, SegmentReader, Source};

/// A segment, as it is and with corrected checksums: all records from the first, and from each position that a reader returns.
pub fn segment(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), segment_with_checksums(bytes)] {
        let source = Source::from(bytes);
        let Ok(mut reader) = SegmentReader::open(source.clone()) else { continue };
        // Reading again from every position is quadratic.
        for number in 0.. {
            let (position, is_done) = (reader.position(), reader.is_done());
            if number < 16 {
                let again = SegmentReader::open_at(source.clone(), position)
                    .unwrap_or_else(|error| panic!("{position:?} was returned: {error}"));
                assert_eq!((again.key(), again.value()), (reader.key(), reader.value()), "{position:?}");
            }
            if is_done || reader.advance().is_err() {
                break;
            }
        }
        for block in [1, 16, u64::MAX - 1] {
            let _ = SegmentReader::open_at(source.clone(), Position { block, record: u32::MAX }).map(drop);
        }
    }
}
