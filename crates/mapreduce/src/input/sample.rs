//! A sample of the input before a job begins, for range partitions and initial centroids.
//!
//! The sample consists of lines at positions spread evenly over all bytes; the same input always gives the same sample. At most a few MiB are read,
//! however large the input is: a cut point that is off by one percent does not matter.

use super::{InputError, LineReader};
use crate::job::{Codec, InputSplit, Plan};

/// Number of positions in the whole input.
const POSITIONS: u64 = 128;

/// Bytes of lines read at each position.
const BYTES_PER_POSITION: u64 = 16 << 10;

/// Calls `take` with the lines of a sample of the input. Of compressed files only the beginning is sampled.
pub fn sample_lines(plan: &Plan, mut take: impl FnMut(&[u8])) -> Result<(), InputError> {
    let total: u64 = plan.files.iter().map(|file| file.bytes).sum();
    let stride = (total / POSITIONS).max(BYTES_PER_POSITION);
    // The next position, relative to the beginning of the current file.
    let mut position = 0;
    for (file, ix) in plan.files.iter().zip(0..) {
        let mut is_done = false;
        while position < file.bytes {
            if !is_done {
                let bytes = BYTES_PER_POSITION.min(file.bytes - position);
                let mut reader = LineReader::open(file, InputSplit { file: ix, offset: position, bytes })?;
                let mut sampled = 0;
                while sampled < BYTES_PER_POSITION
                    && let Some(record) = reader.next()?
                {
                    sampled += record.line.len() as u64 + 1;
                    take(record.line);
                }
            }
            is_done = file.codec != Codec::Plain;
            position += stride;
        }
        position -= file.bytes;
    }
    Ok(())
}

/// Cut points that divide the sampled keys into `reduces` ranges of about equal size, for [`Partitioning::Ranges`](crate::job::Partitioning::Ranges).
pub fn cut_points(mut keys: Vec<Vec<u8>>, reduces: u32) -> Vec<Vec<u8>> {
    keys.sort_unstable();
    let all = keys.len();
    let reduces = reduces as usize;
    (1..reduces).filter_map(|cut| keys.get(cut * all / reduces).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_points_divide_evenly() {
        let keys = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(cut_points(keys(&["d", "b", "a", "c"]), 2), keys(&["c"]));
        assert_eq!(cut_points(keys(&["d", "b", "a", "c"]), 4), keys(&["b", "c", "d"]));
        assert_eq!(cut_points(keys(&["a"]), 3), keys(&["a", "a"]));
        assert_eq!(cut_points(keys(&[]), 3), keys(&[]));
        assert_eq!(cut_points(keys(&["a", "b"]), 1), keys(&[]));
    }
}
