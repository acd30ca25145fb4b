//! A look at the input before a job begins, for cut points and first centroids.
//!
//! The sample is lines from places spread evenly over all bytes, the same whenever it is taken. It sees at most a few MiB, however
//! large the input: a cut point off by a percent costs nobody anything.

use super::{InputError, LineReader, Stored};
use crate::job::{Codec, InputSplit, Plan};

/// How many places are looked at.
const PLACES: u64 = 128;

/// How many bytes of lines are read at each.
const BYTES_EACH: u64 = 16 << 10;

/// Shows a sample of the input's lines to `see`. Packed files are only seen from their beginning.
pub fn sample(plan: &Plan, stored: &dyn Stored, mut see: impl FnMut(&[u8])) -> Result<(), InputError> {
    let total: u64 = plan.files.iter().map(|file| file.bytes).sum();
    let stride = (total / PLACES).max(BYTES_EACH);
    // The next place, counted from the beginning of the file at hand.
    let mut place = 0;
    for (file, ix) in plan.files.iter().zip(0..) {
        let mut seen_packed = false;
        while place < file.bytes {
            if !seen_packed {
                let piece = InputSplit { file: ix, offset: place, bytes: BYTES_EACH.min(file.bytes - place) };
                let mut reader = LineReader::open(file, piece, stored)?;
                let mut seen = 0;
                while seen < BYTES_EACH
                    && let Some(record) = reader.next()?
                {
                    seen += record.line.len() as u64 + 1;
                    see(record.line);
                }
            }
            seen_packed = file.codec != Codec::Plain;
            place += stride;
        }
        place -= file.bytes;
    }
    Ok(())
}

/// Cut points that give `reduces` ranges of about as many sampled keys each.
pub fn cuts(mut keys: Vec<Vec<u8>>, reduces: u32) -> Vec<Vec<u8>> {
    keys.sort_unstable();
    let all = keys.len();
    let reduces = reduces as usize;
    (1..reduces).filter_map(|cut| keys.get(cut * all / reduces).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_divide_evenly() {
        let keys = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(cuts(keys(&["d", "b", "a", "c"]), 2), keys(&["c"]));
        assert_eq!(cuts(keys(&["d", "b", "a", "c"]), 4), keys(&["b", "c", "d"]));
        assert_eq!(cuts(keys(&["a"]), 3), keys(&["a", "a"]));
        assert_eq!(cuts(keys(&[]), 3), keys(&[]));
        assert_eq!(cuts(keys(&["a", "b"]), 1), keys(&[]));
    }
}
