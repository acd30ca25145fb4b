//! Words: maximal runs of bytes above the space.
//!
//! This is what Hadoop's `StringTokenizer` makes of ASCII text. Counting words is mostly finding them, so a line is looked at 64 bytes at a
//! time: one bit for each byte that belongs to a word, and then only the bits where words begin and end.

/// Calls `take` with each word of a line.
#[inline]
pub fn words<'a>(line: &'a [u8], mut take: impl FnMut(&'a [u8])) {
    // Where the word at hand began; meaningless between words.
    let mut began = 0;
    // One if the last byte looked at belongs to a word.
    let mut inside = 0;
    let mut look = |mask: u64, at: usize| {
        let mut edges = mask ^ (mask << 1 | inside);
        if inside == 1 && edges != 0 {
            take(&line[began..at + edges.trailing_zeros() as usize]);
            edges &= edges - 1;
        }
        while edges != 0 {
            began = at + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            if edges == 0 {
                break;
            }
            take(&line[began..at + edges.trailing_zeros() as usize]);
            edges &= edges - 1;
        }
        inside = mask >> 63;
    };
    let (blocks, rest) = line.as_chunks::<64>();
    let mut at = 0;
    for block in blocks {
        look(word_bytes(block), at);
        at += 64;
    }
    // The rest of the line, with blanks behind it. If the line is long enough, its last 64 bytes are looked at and those seen before
    // shifted out, which is cheaper than a copy.
    let mask = match line.last_chunk::<64>() {
        Some(last) => word_bytes(last).unbounded_shr(64 - rest.len() as u32),
        None => {
            let mut last = [b' '; 64];
            last[..rest.len()].copy_from_slice(rest);
            word_bytes(&last)
        }
    };
    look(mask, at);
}

/// One bit for each byte above the space, the first byte lowest.
#[inline]
fn word_bytes(block: &[u8; 64]) -> u64 {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const TOP: u64 = !LOW_SEVEN;
    /// What lifts 0x21, and nothing below, to the top bit.
    const LIFT: u64 = 0x5f5f_5f5f_5f5f_5f5f;
    /// Moves the lowest bit of each byte to the top byte, in order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = block.as_chunks::<8>();
    eights.iter().rev().fold(0, |mask, eight| {
        let bytes = u64::from_le_bytes(*eight);
        let above = (((bytes & LOW_SEVEN) + LIFT) | bytes) & TOP;
        mask << 8 | (above >> 7).wrapping_mul(GATHER) >> 56
    })
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

    /// The obvious twin.
    fn obvious(line: &[u8]) -> Vec<&[u8]> {
        line.split(|byte| *byte <= b' ').filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn words_are_runs_of_bytes_above_the_space() {
        assert_eq!(found(b" to  be,\tor\r"), [&b"to"[..], b"be,", b"or"]);
        assert_eq!(found("na\u{ef}ve \u{7f}".as_bytes()), ["na\u{ef}ve".as_bytes(), b"\x7f"]);
        assert_eq!(found(b""), Vec::<&[u8]>::new());
    }

    #[test]
    fn words_may_end_where_blocks_do() {
        for length in 0..200 {
            let line = vec![b'a'; length];
            assert_eq!(found(&line), obvious(&line));
            let line = [&line[..], b" b "].concat();
            assert_eq!(found(&line), obvious(&line));
        }
    }

    proptest! {
        #[test]
        fn any_line_has_the_obvious_words(
            line in proptest::collection::vec(prop_oneof![Just(b' '), Just(b'a'), any::<u8>()], 0..300),
        ) {
            prop_assert_eq!(found(&line), obvious(&line));
        }
    }
}
