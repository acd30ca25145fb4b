//! Entry points for fuzzing: arbitrary bytes are read as a segment, or as a glob and names. No input may cause a panic.

use crate::data::segment::segment_with_checksums;
use crate::data::{Position, SegmentReader, Source};
use crate::input::matches_glob;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A component of a glob in the first line, and names in the others. A pattern without wildcards matches itself alone.
pub fn glob(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let Some(Ok(pattern)) = lines.next().map(std::str::from_utf8) else { return };
    for name in lines {
        let is_match = matches_glob(pattern, OsStr::from_bytes(name));
        if !pattern.contains(['*', '?', '[']) {
            assert_eq!(is_match, pattern.as_bytes() == name, "{pattern:?} {name:?}");
        }
    }
}

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
