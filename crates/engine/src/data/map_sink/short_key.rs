//! Keys of up to 15 bytes as two machine words, which are fast to compare and to hash.

use std::ops::Range;

/// Maximum length of a short key.
pub(super) const SHORT_BYTES_MAX: usize = 15;

/// A key of up to 15 bytes, padded with zeros, with its length plus one in the last byte; all zeros is no key. Stored as
/// little-endian words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortKey {
    low: u64,
    high: u64,
}

impl ShortKey {
    /// No key: that of an empty slot.
    pub const NONE: ShortKey = ShortKey { low: 0, high: 0 };

    /// Returns `None` if the key is not short. Uses overlapping reads instead of a copy, which would branch on the
    /// unpredictable length.
    #[inline(always)]
    pub fn new(key: &[u8]) -> Option<ShortKey> {
        let bytes = key.len();
        if bytes > SHORT_BYTES_MAX {
            return None;
        }
        let (low, high) = if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            // The last eight bytes, without those that are among the first eight.
            (u64::from_le_bytes(*first), (u64::from_le_bytes(*last) >> 8) >> (8 * (15 - bytes)))
        } else if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            (u64::from(first) | u64::from(last) << (8 * (bytes - 4)), 0)
        } else if let (Some(&first), Some(&last)) = (key.first(), key.last()) {
            let middle = key[bytes / 2];
            let low = u64::from(first) | u64::from(middle) << (8 * (bytes / 2)) | u64::from(last) << (8 * (bytes - 1));
            (low, 0)
        } else {
            (0, 0)
        };
        Some(ShortKey { low, high: high | (bytes as u64 + 1) << 56 })
    }

    /// The key that is a range of a text; `None` if it is not short. Unlike [`ShortKey::new`] it does not branch on the length of the key if the
    /// text has at least 16 bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the text.
    #[inline(always)]
    pub fn within(text: &[u8], key: &Range<usize>) -> Option<ShortKey> {
        let bytes = key.end.wrapping_sub(key.start);
        let Some(last_chunk_at) = text.len().checked_sub(16).filter(|_| bytes <= SHORT_BYTES_MAX) else {
            return ShortKey::new(&text[key.clone()]);
        };
        assert!(key.end <= text.len(), "a key is within its text");
        // 16 bytes that begin with the key, or that are the last of the text.
        let from = key.start.min(last_chunk_at);
        let chunk = text[from..].first_chunk().map_or(0, |chunk| u128::from_le_bytes(*chunk));
        let word = chunk.unbounded_shr(8 * (key.start - from) as u32) & ((1 << (8 * bytes)) - 1);
        Some(ShortKey { low: word as u64, high: (word >> 64) as u64 | (bytes as u64 + 1) << 56 })
    }

    /// True for [`ShortKey::NONE`].
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.high == 0
    }

    /// Equality with a single branch.
    #[inline(always)]
    pub fn is(self, other: ShortKey) -> bool {
        (self.low ^ other.low) | (self.high ^ other.high) == 0
    }

    /// Folded multiplication of the two halves.
    #[inline(always)]
    pub fn hash(self) -> u32 {
        let product = u128::from(self.low ^ 0x9e37_79b9_7f4a_7c15) * u128::from(self.high ^ 0xd6e8_feb8_6659_fd93);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// See [`crate::data::prefix`].
    #[inline]
    pub fn prefix(self) -> u64 {
        self.low.swap_bytes()
    }

    /// Calls `f` with the key's bytes.
    #[inline]
    pub fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        f(&bytes[..usize::from(bytes[15]).saturating_sub(1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prefix;

    #[test]
    fn short_keys_round_trip() {
        let whole = b"\x00abcdefg\xff\x00hijklm";
        for length in 0..=SHORT_BYTES_MAX {
            let key = &whole[..length];
            let short = ShortKey::new(key).expect("short");
            assert!(!short.is_none());
            assert_eq!(short.prefix(), prefix(key));
            short.with(|bytes| assert_eq!(bytes, key));
        }
        assert_eq!(ShortKey::new(&whole[..]), None);
    }

    #[test]
    fn a_part_of_a_text_is_the_same_key_as_its_copy() {
        let text: Vec<u8> = (0..40).map(|number: u8| number.wrapping_mul(7)).collect();
        for text in [&text[..], &text[..17], &text[..16], &text[..15], &text[..3], &[]] {
            for start in 0..=text.len() {
                for end in start..=text.len() {
                    assert_eq!(ShortKey::within(text, &(start..end)), ShortKey::new(&text[start..end]));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "within its text")]
    fn a_range_beyond_the_text_is_rejected() {
        let _ = ShortKey::within(&[0; 20], &(15..21));
    }
}
