//! Division of input files into splits, one per map.

use crate::job::{InputFile, Packing, Place, SplitAt};

/// The last split of a file may be larger than the split size by one part in this many (Hadoop's `SPLIT_SLOP`, 1.1): a map for a few bytes
/// costs more than it gains.
const SLOP_DIVISOR: u64 = 10;

/// Divides files into splits of `split_bytes` each, in the order of the files; the last split of a file may be smaller, or a tenth larger.
///
/// A split of a file in blocks lies within one block, so that a node with the block has the whole split. Compressed files cannot be read from the
/// middle and are one split each. Empty files give no split; if all files are empty, the first gives one empty split, because a job has at
/// least one map.
pub fn compute_splits(files: &[InputFile], split_bytes: u64) -> Vec<SplitAt> {
    let mut splits = Vec::new();
    for (file, ix) in files.iter().zip(0..) {
        let split_bytes = if file.packing == Packing::Plain { split_bytes.max(1) } else { file.bytes };
        let mut offset = 0;
        while offset < file.bytes {
            let left = end_of_block(file, offset) - offset;
            let bytes = if left.saturating_sub(split_bytes) <= split_bytes / SLOP_DIVISOR { left } else { split_bytes };
            splits.push(SplitAt { file: ix, offset, bytes });
            offset += bytes;
        }
    }
    if splits.is_empty() && !files.is_empty() {
        splits.push(SplitAt { file: 0, offset: 0, bytes: 0 });
    }
    splits
}

/// End of the block that contains a byte. The end of the file if it has no blocks or is not divided.
fn end_of_block(file: &InputFile, offset: u64) -> u64 {
    let next = match &file.place {
        Place::Local(_) => None,
        Place::Blocks(blocks) => {
            blocks.get(blocks.partition_point(|block| block.offset <= offset)).map(|block| block.offset)
        }
        Place::Hdfs(blocks) => {
            blocks.get(blocks.partition_point(|block| block.offset <= offset)).map(|block| block.offset)
        }
    };
    next.filter(|_| file.packing == Packing::Plain).unwrap_or(file.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{BlockAt, HdfsBlock};

    fn file(bytes: u64, packing: Packing) -> InputFile {
        InputFile { name: "f".into(), place: Place::Local("/f".into()), packing, bytes }
    }

    fn splits(files: &[InputFile]) -> Vec<(u32, u64, u64)> {
        compute_splits(files, 10).iter().map(|split| (split.file, split.offset, split.bytes)).collect()
    }

    #[test]
    fn plain_files_are_divided_and_compressed_ones_are_not() {
        let files =
            [file(25, Packing::Plain), file(0, Packing::Plain), file(25, Packing::Gzip), file(10, Packing::Plain)];
        assert_eq!(splits(&files), [(0, 0, 10), (0, 10, 10), (0, 20, 5), (2, 0, 25), (3, 0, 10)]);
    }

    #[test]
    fn a_small_rest_is_added_to_the_last_split() {
        assert_eq!(
            splits(&[file(21, Packing::Plain), file(22, Packing::Plain)]),
            [(0, 0, 10), (0, 10, 11), (1, 0, 10), (1, 10, 10), (1, 20, 2)]
        );
    }

    #[test]
    fn splits_of_files_in_blocks_lie_within_one_block() {
        let block = |offset, bytes| BlockAt { block: 1, offset, bytes };
        let stored = |packing| InputFile {
            place: Place::Blocks(vec![block(0, 14), block(14, 7), block(21, 4)]),
            ..file(25, packing)
        };
        let files = [stored(Packing::Plain), stored(Packing::Gzip)];
        assert_eq!(splits(&files), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4), (1, 0, 25)]);
        let in_hdfs = [0, 14, 21].map(|offset| HdfsBlock { offset, hosts: Vec::new() });
        let file = InputFile { place: Place::Hdfs(in_hdfs.to_vec()), ..file(25, Packing::Plain) };
        assert_eq!(splits(&[file]), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4)]);
    }

    #[test]
    fn empty_input_gives_one_empty_split() {
        assert_eq!(splits(&[file(0, Packing::Plain), file(0, Packing::Plain)]), [(0, 0, 0)]);
    }
}
