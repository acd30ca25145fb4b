//! Words, as Hadoop's WordCount defines them.
//!
//! A word is a maximal run of bytes that are not separators. The separators are those of Java's `StringTokenizer`: space, tab, newline, carriage
//! return and form feed. All other bytes, control bytes such as NUL and vertical tab included, belong to words.
//!
//! Word count spends most of its time here. A line is therefore classified 64 bytes at a time into a mask with one bit per byte, and only the
//! mask's edges, where words begin and end, are visited.

/// Calls `take` with each word of a line, in order.
#[inline]
pub fn words<'a>(line: &'a [u8], mut take: impl FnMut(&'a [u8])) {
    // Start of the current word; meaningless between words.
    let mut start = 0;
    // 1 if the last byte of the previous block belongs to a word, otherwise 0.
    let mut in_word = 0;
    let mut scan = |mask: u64, offset: usize| {
        let mut edges = mask ^ (mask << 1 | in_word);
        if in_word == 1 && edges != 0 {
            take(&line[start..offset + edges.trailing_zeros() as usize]);
            edges &= edges - 1;
        }
        while edges != 0 {
            start = offset + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            if edges == 0 {
                break;
            }
            take(&line[start..offset + edges.trailing_zeros() as usize]);
            edges &= edges - 1;
        }
        in_word = mask >> 63;
    };
    let (blocks, rest) = line.as_chunks::<64>();
    let mut offset = 0;
    for block in blocks {
        scan(word_mask(block), offset);
        offset += 64;
    }
    // The rest of the line, padded with separators. If the line has at least 64 bytes, its last 64 are classified again and the bits of
    // those already scanned are shifted out, which is cheaper than a copy.
    let mask = match line.last_chunk::<64>() {
        Some(last) => word_mask(last).unbounded_shr(64 - rest.len() as u32),
        None => {
            let mut last = [b' '; 64];
            last[..rest.len()].copy_from_slice(rest);
            word_mask(&last)
        }
    };
    scan(mask, offset);
}

/// One bit for each byte that belongs to a word; the first byte is the lowest bit.
#[inline]
fn word_mask(block: &[u8; 64]) -> u64 {
    /// Moves the lowest bit of each byte to the top byte, in order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    // Comparisons without a branch: the compiler turns this loop into vector instructions.
    let mut is_word = [0_u8; 64];
    for (is_word, &byte) in is_word.iter_mut().zip(block) {
        let is_separator = (byte == b' ') | (byte == b'\t') | (byte == b'\n') | (byte == b'\r') | (byte == FORM_FEED);
        *is_word = u8::from(!is_separator);
    }
    let (eights, _) = is_word.as_chunks::<8>();
    eights.iter().rev().fold(0, |mask, eight| mask << 8 | u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56)
}

const FORM_FEED: u8 = 0x0c;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(line: &[u8]) -> Vec<&[u8]> {
        let mut all = Vec::new();
        words(line, |word| all.push(word));
        all
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
        }
    }
}
