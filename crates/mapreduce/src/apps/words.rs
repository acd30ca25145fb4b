//! Words, as Hadoop's WordCount defines them.
//!
//! A word is a maximal run of bytes that are not separators. The separators are those of Java's `StringTokenizer`: space, tab, newline, carriage
//! return and form feed. All other bytes, control bytes such as NUL and vertical tab included, belong to words.
//!
//! A line is classified 64 bytes at a time into a mask with one bit per byte, and only the bits where words begin and end are visited.

use crate::byte_masks::{BLOCK_BYTES, word_bytes, word_bytes_16};
use crate::record::Emit;
use std::ops::Range;

/// Number of words that are passed to [`Emit::emit_all`] at once.
const BATCH_WORDS: usize = 32;

/// Calls `take` with each word of a line, in order. The line may contain newlines, so a text of several lines works, too.
///
/// This is the fast way to find words: a few nanoseconds for each, on top of what `take` does. To emit all of them with the same value, use
/// [`emit_words`].
#[inline]
pub fn words<'a>(line: &'a [u8], mut take: impl FnMut(&'a [u8])) {
    word_ranges(line, |range| take(&line[range]));
}

/// Emits each word of a line, all with the same value. A mapper that counts words:
///
/// ```
/// use giveway_mapreduce::apps::emit_words;
/// use giveway_mapreduce::record::{AppError, Emit, Mapper, Record};
///
/// struct WordMapper;
///
/// impl Mapper for WordMapper {
///     fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
///         emit_words(record.line, &[1], out);
///         Ok(())
///     }
/// }
/// ```
pub fn emit_words(line: &[u8], value: &[u8], out: &mut dyn Emit) {
    let mut ranges = [const { 0..0 }; BATCH_WORDS];
    let mut found = 0;
    word_ranges(line, |range| {
        ranges[found % BATCH_WORDS] = range;
        found += 1;
        if found == BATCH_WORDS {
            out.emit_all(line, &ranges, value);
            found = 0;
        }
    });
    out.emit_all(line, &ranges[..found], value);
}

#[inline]
fn word_ranges(line: &[u8], mut take: impl FnMut(Range<usize>)) {
    // Start of the current word; meaningless between words.
    let mut start = 0_usize;
    // 1 if the last byte of the previous block belongs to a word, otherwise 0.
    let mut in_word = 0;
    let mut offset = 0_usize;
    while offset < line.len() {
        let mask = word_bytes_from(line, offset);
        let before = mask << 1 | in_word;
        let (mut starts, mut ends) = (mask & !before, before & !mask);
        // A word that began in an earlier block has no start here. Otherwise, the first end belongs to the first start.
        if in_word == 0 {
            start = offset.wrapping_add(starts.trailing_zeros() as usize);
            starts &= starts.wrapping_sub(1);
        }
        while ends != 0 {
            take(start..offset.wrapping_add(ends.trailing_zeros() as usize));
            ends &= ends.wrapping_sub(1);
            start = offset.wrapping_add(starts.trailing_zeros() as usize);
            starts &= starts.wrapping_sub(1);
        }
        in_word = mask >> 63;
        offset = offset.wrapping_add(BLOCK_BYTES);
    }
    if in_word == 1 {
        take(start..line.len());
    }
}

/// The mask of up to 64 bytes from `offset` on. Bytes after the line are separators.
#[inline(always)]
fn word_bytes_from(line: &[u8], offset: usize) -> u64 {
    let rest = &line[offset..];
    if let Some(block) = rest.first_chunk() {
        return word_bytes(block);
    }
    // The last 64 bytes of the line, without those before the offset, which is cheaper than a copy.
    if let Some(block) = line.last_chunk() {
        return word_bytes(block).unbounded_shr((BLOCK_BYTES - rest.len()) as u32);
    }
    // A short line: four blocks that overlap, so that the code does not branch on the length.
    if let Some(last) = rest.len().checked_sub(16) {
        let at = |from: usize| {
            let from = from.min(last);
            rest[from..].first_chunk().map_or(0, word_bytes_16) << from
        };
        return at(0) | at(16) | at(32) | at(48);
    }
    let mut block = [b' '; 16];
    block[..rest.len()].copy_from_slice(rest);
    word_bytes_16(&block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(line: &[u8]) -> Vec<&[u8]> {
        let mut all = Vec::new();
        words(line, |word| all.push(word));
        all
    }

    /// The keys of emitted records.
    #[derive(Default)]
    struct Emitted(Vec<Vec<u8>>);

    impl Emit for Emitted {
        fn emit(&mut self, key: &[u8], value: &[u8]) {
            assert_eq!(value, b"1");
            self.0.push(key.to_vec());
        }

        fn count(&mut self, _counter: &'static str, _by: u64) {}
    }

    /// Naive implementation.
    fn naive(line: &[u8]) -> Vec<&[u8]> {
        line.split(|byte| b" \t\n\r\x0c".contains(byte)).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn words_are_split_at_the_separators_of_string_tokenizer() {
        assert_eq!(found(b" to  be,\tor\r"), [&b"to"[..], b"be,", b"or"]);
        assert_eq!(found(b"not\nto\x0cbe"), [&b"not"[..], b"to", b"be"]);
        assert_eq!(found("na\u{ef}ve \u{7f}".as_bytes()), ["na\u{ef}ve".as_bytes(), b"\x7f"]);
        assert_eq!(found(b""), Vec::<&[u8]>::new());
    }

    #[test]
    fn control_bytes_that_are_no_separators_belong_to_words() {
        assert_eq!(found(b"a\0b \x0b c\x1f\x01"), [&b"a\0b"[..], b"\x0b", b"c\x1f\x01"]);
        // Each byte value between two letters, at each position of a block.
        for byte in 0..=u8::MAX {
            for before in 0..130 {
                let line = [&vec![b'a'; before][..], &[byte], b"z"].concat();
                assert_eq!(found(&line), naive(&line), "byte {byte:#04x} at {before}");
            }
        }
    }

    #[test]
    fn words_may_end_where_blocks_do() {
        for length in 0..200 {
            let line = vec![b'a'; length];
            assert_eq!(found(&line), naive(&line));
            let line = [&line[..], b" b "].concat();
            assert_eq!(found(&line), naive(&line));
        }
    }

    proptest! {
        #[test]
        fn any_line_has_the_words_of_the_naive_split(
            line in proptest::collection::vec(prop_oneof![Just(b' '), Just(b'a'), 0..=b' ', any::<u8>()], 0..300),
        ) {
            prop_assert_eq!(found(&line), naive(&line));
            let mut emitted = Emitted::default();
            emit_words(&line, b"1", &mut emitted);
            prop_assert_eq!(emitted.0, naive(&line));
        }
    }
}
