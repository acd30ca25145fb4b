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

/// What is left of 16 bytes that begin with a key.
struct Mask {
    low: u64,
    high: u64,
    /// The length of the key plus one, in the last byte.
    length: u64,
}

/// By length of the key.
static MASKS: [Mask; SHORT_BYTES_MAX + 1] = {
    const EMPTY: Mask = Mask { low: 0, high: 0, length: 0 };
    let mut masks = [EMPTY; SHORT_BYTES_MAX + 1];
    let mut bytes = 0;
    while bytes <= SHORT_BYTES_MAX {
        let mask = (1_u128 << (8 * bytes)) - 1;
        masks[bytes] = Mask { low: mask as u64, high: (mask >> 64) as u64, length: (bytes as u64 + 1) << 56 };
        bytes += 1;
    }
    masks
};

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

    /// The key that is a range of a text; `None` if it is not short. Unlike [`ShortKey::new`] it does not branch on the length of the key, except
    /// for the last 15 bytes of the text.
    ///
    /// # Panics
    ///
    /// If the range is not within the text.
    #[inline(always)]
    pub fn within(text: &[u8], key: &Range<usize>) -> Option<ShortKey> {
        let bytes = key.end.wrapping_sub(key.start);
        let rest = text.get(key.start..).unwrap_or_default();
        let (Some(mask), Some(&low), Some(&high)) =
            (MASKS.get(bytes), rest.first_chunk(), rest.get(8..).and_then(|rest| rest.first_chunk()))
        else {
            return ShortKey::new(&text[key.clone()]);
        };
        let (low, high) = (u64::from_le_bytes(low), u64::from_le_bytes(high));
        Some(ShortKey { low: low & mask.low, high: high & mask.high | mask.length })
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
    #[should_panic(expected = "out of range")]
    fn a_range_beyond_the_text_is_rejected() {
        let _ = ShortKey::within(&[0; 20], &(15..21));
    }
}
