//! Classes of bytes as bit masks: one bit for each byte of a block, the first byte lowest.
//!
//! Lines and words are found by looking at every byte of the input. A mask answers for 64 bytes at once, and only the bits that are set
//! are visited. On x86-64 the masks come from SSE2, elsewhere from plain code with the same result.
//!
//! The instructions of SSE2 are safe functions that need the processor to have them, hence the `unsafe` of the two calls here. Every
//! x86-64 processor has them. No pointer is involved: the bytes are passed by value.

#![allow(unsafe_code)]

/// Bytes that a mask of 64 bits describes.
pub(crate) const BLOCK_BYTES: usize = 64;

/// The bytes that are `\n`.
#[inline(always)]
pub(crate) fn newlines(block: &[u8; BLOCK_BYTES]) -> u64 {
    by_sixteen(block, newlines_16)
}

/// The bytes that belong to words: all but space, tab, `\n`, `\r` and form feed.
#[inline(always)]
pub(crate) fn word_bytes(block: &[u8; BLOCK_BYTES]) -> u64 {
    by_sixteen(block, word_bytes_16)
}

#[inline(always)]
fn by_sixteen(block: &[u8; BLOCK_BYTES], mask: impl Fn(&[u8; 16]) -> u64) -> u64 {
    let (sixteens, _) = block.as_chunks::<16>();
    sixteens.iter().rev().fold(0, |all, sixteen| all << 16 | mask(sixteen))
}

/// The newlines among sixteen bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn newlines_16(bytes: &[u8; 16]) -> u64 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { sse2::newlines_16(bytes) }
}

/// The bytes of words among sixteen bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn word_bytes_16(bytes: &[u8; 16]) -> u64 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { sse2::word_bytes_16(bytes) }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8, _mm_sub_epi8,
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; 16]) -> __m128i {
        // The compiler loads the two halves at once.
        let bytes = u128::from_le_bytes(*bytes);
        _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn newlines_16(bytes: &[u8; 16]) -> u64 {
        _mm_movemask_epi8(_mm_cmpeq_epi8(load(bytes), _mm_set1_epi8(b'\n' as i8))) as u64
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn word_bytes_16(bytes: &[u8; 16]) -> u64 {
        let bytes = load(bytes);
        // Tab, newline, vertical tab, form feed and carriage return are 9 to 13, and the vertical tab is no separator.
        let above_tab = _mm_sub_epi8(bytes, _mm_set1_epi8(b'\t' as i8));
        let is_control = _mm_cmpeq_epi8(_mm_min_epu8(above_tab, _mm_set1_epi8(4)), above_tab);
        let is_vertical_tab = _mm_cmpeq_epi8(above_tab, _mm_set1_epi8(2));
        let is_space = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b' ' as i8));
        let is_separator = _mm_or_si128(_mm_andnot_si128(is_vertical_tab, is_control), is_space);
        !(_mm_movemask_epi8(is_separator) as u64) & 0xffff
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    #[inline]
    pub fn newlines_16(bytes: &[u8; 16]) -> u64 {
        mask(bytes, |byte| byte == b'\n')
    }

    #[inline]
    pub fn word_bytes_16(bytes: &[u8; 16]) -> u64 {
        const FORM_FEED: u8 = 0x0c;
        mask(bytes, |byte| (byte != b' ') & (byte != b'\t') & (byte != b'\n') & (byte != b'\r') & (byte != FORM_FEED))
    }

    /// Without branches, so that the compiler can use vector instructions.
    #[inline]
    fn mask(bytes: &[u8; 16], is_set: impl Fn(u8) -> bool) -> u64 {
        bytes.iter().rev().fold(0, |mask, &byte| mask << 1 | u64::from(is_set(byte)))
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain::{newlines_16, word_bytes_16};

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte value at each position, and all values at once.
    #[test]
    fn masks_agree_with_plain_code() {
        let check = |block: &[u8; BLOCK_BYTES]| {
            assert_eq!(newlines(block), by_sixteen(block, plain::newlines_16), "{block:?}");
            assert_eq!(word_bytes(block), by_sixteen(block, plain::word_bytes_16), "{block:?}");
        };
        for byte in 0..=u8::MAX {
            for other in [b'a', b' ', b'\n', 0xff] {
                for at in 0..BLOCK_BYTES {
                    let mut block = [other; BLOCK_BYTES];
                    block[at] = byte;
                    check(&block);
                }
            }
            check(&std::array::from_fn(|at| byte.wrapping_add(at as u8)));
        }
    }
}
