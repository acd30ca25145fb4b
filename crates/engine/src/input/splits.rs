//! Cutting files into the pieces that maps read.

use crate::job::{Codec, FileLocation, InputFile, InputSplit};

/// A file may leave so much of a split behind its last whole one, as a share of it, and still be cut no further: a map for a few bytes
/// costs more than it spreads.
const REST: u64 = 10;

/// Pieces of `split_bytes` each, in the order of the files; the last one of a file may be smaller, or a tenth larger. A piece of a file
/// in blocks lies in one of them, so that whoever has the block has all of it. Packed files cannot be entered in the middle and stay whole; empty
/// files give nothing, except that a job has at least one map: if all are empty, the first gives one piece of no bytes.
pub fn cut(files: &[InputFile], split_bytes: u64) -> Vec<InputSplit> {
    let mut splits = Vec::new();
    for (file, ix) in files.iter().zip(0..) {
        let largest = if file.codec == Codec::Plain { split_bytes.max(1) } else { file.bytes };
        let mut offset = 0;
        while offset < file.bytes {
            let left = end_of_block(file, offset) - offset;
            let bytes = if left.saturating_sub(largest) <= largest / REST { left } else { largest };
            splits.push(InputSplit { file: ix, offset, bytes });
            offset += bytes;
        }
    }
    if splits.is_empty() && !files.is_empty() {
        splits.push(InputSplit { file: 0, offset: 0, bytes: 0 });
    }
    splits
}

/// Where the block ends that a byte is in; files that are in no blocks, and those that are not cut, end where they end.
fn end_of_block(file: &InputFile, offset: u64) -> u64 {
    let next = match &file.location {
        FileLocation::Local(_) => None,
        FileLocation::Blocks(blocks) => {
            blocks.get(blocks.partition_point(|block| block.offset <= offset)).map(|block| block.offset)
        }
        FileLocation::Hdfs(blocks) => {
            blocks.get(blocks.partition_point(|block| block.offset <= offset)).map(|block| block.offset)
        }
    };
    next.filter(|_| file.codec == Codec::Plain).unwrap_or(file.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{FileBlock, HdfsBlock};

    fn file(bytes: u64, packing: Codec) -> InputFile {
        InputFile { name: "f".into(), location: FileLocation::Local("/f".into()), codec: packing, bytes }
    }

    fn pieces(files: &[InputFile]) -> Vec<(u32, u64, u64)> {
        cut(files, 10).iter().map(|split| (split.file, split.offset, split.bytes)).collect()
    }

    #[test]
    fn plain_files_are_cut_and_packed_ones_are_not() {
        let files = [file(25, Codec::Plain), file(0, Codec::Plain), file(25, Codec::Gzip), file(10, Codec::Plain)];
        assert_eq!(pieces(&files), [(0, 0, 10), (0, 10, 10), (0, 20, 5), (2, 0, 25), (3, 0, 10)]);
    }

    #[test]
    fn a_small_rest_goes_with_the_piece_before_it() {
        assert_eq!(
            pieces(&[file(21, Codec::Plain), file(22, Codec::Plain)]),
            [(0, 0, 10), (0, 10, 11), (1, 0, 10), (1, 10, 10), (1, 20, 2)]
        );
    }

    #[test]
    fn pieces_of_files_in_blocks_lie_in_one_block() {
        let block = |offset, bytes| FileBlock { block: 1, offset, bytes };
        let stored = |packing| InputFile {
            location: FileLocation::Blocks(vec![block(0, 14), block(14, 7), block(21, 4)]),
            ..file(25, packing)
        };
        let files = [stored(Codec::Plain), stored(Codec::Gzip)];
        assert_eq!(pieces(&files), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4), (1, 0, 25)]);
        let in_hdfs = [0, 14, 21].map(|offset| HdfsBlock { offset, hosts: Vec::new() });
        let file = InputFile { location: FileLocation::Hdfs(in_hdfs.to_vec()), ..file(25, Codec::Plain) };
        assert_eq!(pieces(&[file]), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4)]);
    }

    #[test]
    fn a_job_has_a_map_even_if_there_is_nothing_to_read() {
        assert_eq!(pieces(&[file(0, Codec::Plain), file(0, Codec::Plain)]), [(0, 0, 0)]);
    }
}
