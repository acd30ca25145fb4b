//! Division of input files into splits, one per map.

use crate::job::{Codec, FileLocation, InputFile, InputSplit};

/// The last split of a file may be larger than the split size by one part in this many (Hadoop's `SPLIT_SLOP`, 1.1): a map for a few bytes
/// costs more than it gains.
const SLOP_DIVISOR: u64 = 10;

/// Automatic splits are not smaller: a task costs a few milliseconds.
const AUTOMATIC_SPLIT_BYTES_MIN: u64 = 4 << 20;

/// Split size for an input of `bytes` bytes on a cluster with `map_slots` map slots, at most `split_bytes_max`: chosen so that the splits
/// fill all slots the same number of times, and the job does not wait for one last map.
pub fn automatic_split_bytes(bytes: u64, map_slots: u32, split_bytes_max: u64) -> u64 {
    let (slots, max) = (u64::from(map_slots.max(1)), split_bytes_max.max(1));
    let waves = bytes.div_ceil(slots.saturating_mul(max)).max(1);
    bytes.div_ceil(waves.saturating_mul(slots)).clamp(AUTOMATIC_SPLIT_BYTES_MIN.min(max), max)
}

/// An upper bound of the number of splits that [`compute_splits`] returns, computed without memory for them.
pub fn split_count_bound(files: &[InputFile], split_bytes: u64) -> u64 {
    let splits = |file: &InputFile| match (&file.codec, &file.location) {
        (Codec::Plain, FileLocation::Local(_) | FileLocation::LocalVersion { .. }) => {
            file.bytes.div_ceil(split_bytes.max(1))
        }
        (Codec::Plain, FileLocation::Hdfs(blocks)) => file.bytes.div_ceil(split_bytes.max(1)) + blocks.len() as u64,
        _ => 1,
    };
    files.iter().map(splits).fold(0, u64::saturating_add).max(1)
}

/// Divides files into splits of `split_bytes` each, in the order of the files; the last split of a file may be smaller, or a tenth larger.
///
/// A split of a file in blocks lies within one block, so that a node with the block has the whole split. Compressed files cannot be read from the
/// middle and are one split each. Empty files give no split; if all files are empty, the first gives one empty split, because a job has at
/// least one map.
pub fn compute_splits(files: &[InputFile], split_bytes: u64) -> Vec<InputSplit> {
    let mut splits = Vec::new();
    for (file, ix) in files.iter().zip(0..) {
        let split_bytes = if file.codec == Codec::Plain { split_bytes.max(1) } else { file.bytes };
        let mut offset = 0;
        while offset < file.bytes {
            let left = end_of_block(file, offset) - offset;
            let bytes = if left.saturating_sub(split_bytes) <= split_bytes / SLOP_DIVISOR { left } else { split_bytes };
            splits.push(InputSplit { file: ix, offset, bytes });
            offset += bytes;
        }
    }
    if splits.is_empty() && !files.is_empty() {
        splits.push(InputSplit { file: 0, offset: 0, bytes: 0 });
    }
    splits
}

/// End of the block that contains a byte. The end of the file if it has no blocks or is not divided.
fn end_of_block(file: &InputFile, offset: u64) -> u64 {
    let next = match &file.location {
        FileLocation::Local(_) | FileLocation::LocalVersion { .. } => None,
        FileLocation::Hdfs(blocks) => {
            blocks.get(blocks.partition_point(|block| block.offset <= offset)).map(|block| block.offset)
        }
    };
    next.filter(|_| file.codec == Codec::Plain).unwrap_or(file.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::HdfsBlock;

    #[test]
    fn automatic_splits_fill_all_slots() {
        const MIB: u64 = 1 << 20;
        for (mib, slots, expected_mib) in
            [(1024, 2, 64), (64, 2, 32), (100, 3, 34), (65, 1, 33), (1, 8, 4), (0, 2, 4), (1000, 0, 63)]
        {
            let split = automatic_split_bytes(mib * MIB, slots, 64 * MIB);
            assert_eq!(split.div_ceil(MIB), expected_mib, "{mib} MiB on {slots} slots");
        }
        assert_eq!(automatic_split_bytes(u64::MAX, u32::MAX, u64::MAX), u64::from(u32::MAX) + 2);
        assert_eq!(automatic_split_bytes(1000, 2, 0), 1);
    }

    fn file(bytes: u64, packing: Codec) -> InputFile {
        InputFile { name: "f".into(), location: FileLocation::Local("/f".into()), codec: packing, bytes }
    }

    fn splits(files: &[InputFile]) -> Vec<(u32, u64, u64)> {
        compute_splits(files, 10).iter().map(|split| (split.file, split.offset, split.bytes)).collect()
    }

    #[test]
    fn plain_files_are_divided_and_compressed_ones_are_not() {
        let files = [file(25, Codec::Plain), file(0, Codec::Plain), file(25, Codec::Gzip), file(10, Codec::Plain)];
        assert_eq!(splits(&files), [(0, 0, 10), (0, 10, 10), (0, 20, 5), (2, 0, 25), (3, 0, 10)]);
    }

    #[test]
    fn the_number_of_splits_is_bounded_without_computing_them() {
        let files = [file(25, Codec::Plain), file(0, Codec::Plain), file(25, Codec::Gzip), file(10, Codec::Plain)];
        assert_eq!(split_count_bound(&files, 10), 5);
        assert!(split_count_bound(&files, 10) >= splits(&files).len() as u64);
        assert_eq!(split_count_bound(&[file(u64::MAX, Codec::Plain), file(9, Codec::Plain)], 1), u64::MAX);
    }

    #[test]
    fn a_small_rest_is_added_to_the_last_split() {
        assert_eq!(
            splits(&[file(21, Codec::Plain), file(22, Codec::Plain)]),
            [(0, 0, 10), (0, 10, 11), (1, 0, 10), (1, 10, 10), (1, 20, 2)]
        );
    }

    #[test]
    fn splits_of_files_in_blocks_lie_within_one_block() {
        let blocks = [0, 14, 21].map(|offset| HdfsBlock { offset, hosts: Vec::new() });
        let in_hdfs = |codec| InputFile { location: FileLocation::Hdfs(blocks.to_vec()), ..file(25, codec) };
        let files = [in_hdfs(Codec::Plain), in_hdfs(Codec::Gzip)];
        assert_eq!(splits(&files), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4), (1, 0, 25)]);
    }

    #[test]
    fn empty_input_gives_one_empty_split() {
        assert_eq!(splits(&[file(0, Codec::Plain), file(0, Codec::Plain)]), [(0, 0, 0)]);
    }
}
