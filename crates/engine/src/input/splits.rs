//! Cutting files into the pieces that maps read.

use crate::job::{InputFile, Packing, Place, SplitAt};

/// A file may leave so much of a split behind its last whole one, as a share of it, and still be cut no further: a map for a few bytes
/// costs more than it spreads.
const REST: u64 = 10;

/// Pieces of `split_bytes` each, in the order of the files; the last one of a file may be smaller, or a tenth larger. A piece of a file
/// in blocks lies in one of them, so that whoever has the block has all of it. Packed files cannot be entered in the middle and stay whole; empty
/// files give nothing, except that a job has at least one map: if all are empty, the first gives one piece of no bytes.
pub fn cut(files: &[InputFile], split_bytes: u64) -> Vec<SplitAt> {
    let mut splits = Vec::new();
    for (file, ix) in files.iter().zip(0..) {
        let largest = if file.packing == Packing::Plain { split_bytes.max(1) } else { file.bytes };
        let mut offset = 0;
        while offset < file.bytes {
            let left = end_of_block(file, offset) - offset;
            let bytes = if left.saturating_sub(largest) <= largest / REST { left } else { largest };
            splits.push(SplitAt { file: ix, offset, bytes });
            offset += bytes;
        }
    }
    if splits.is_empty() && !files.is_empty() {
        splits.push(SplitAt { file: 0, offset: 0, bytes: 0 });
    }
    splits
}

/// Where the block ends that a byte is in; files that are in no blocks, and those that are not cut, end where they end.
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

    fn pieces(files: &[InputFile]) -> Vec<(u32, u64, u64)> {
        cut(files, 10).iter().map(|split| (split.file, split.offset, split.bytes)).collect()
    }

    #[test]
    fn plain_files_are_cut_and_packed_ones_are_not() {
        let files =
            [file(25, Packing::Plain), file(0, Packing::Plain), file(25, Packing::Gzip), file(10, Packing::Plain)];
        assert_eq!(pieces(&files), [(0, 0, 10), (0, 10, 10), (0, 20, 5), (2, 0, 25), (3, 0, 10)]);
    }

    #[test]
    fn a_small_rest_goes_with_the_piece_before_it() {
        assert_eq!(
            pieces(&[file(21, Packing::Plain), file(22, Packing::Plain)]),
            [(0, 0, 10), (0, 10, 11), (1, 0, 10), (1, 10, 10), (1, 20, 2)]
        );
    }

    #[test]
    fn pieces_of_files_in_blocks_lie_in_one_block() {
        let block = |offset, bytes| BlockAt { block: 1, offset, bytes };
        let stored = |packing| InputFile {
            place: Place::Blocks(vec![block(0, 14), block(14, 7), block(21, 4)]),
            ..file(25, packing)
        };
        let files = [stored(Packing::Plain), stored(Packing::Gzip)];
        assert_eq!(pieces(&files), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4), (1, 0, 25)]);
        let in_hdfs = [0, 14, 21].map(|offset| HdfsBlock { offset, hosts: Vec::new() });
        let file = InputFile { place: Place::Hdfs(in_hdfs.to_vec()), ..file(25, Packing::Plain) };
        assert_eq!(pieces(&[file]), [(0, 0, 10), (0, 10, 4), (0, 14, 7), (0, 21, 4)]);
    }

    #[test]
    fn a_job_has_a_map_even_if_there_is_nothing_to_read() {
        assert_eq!(pieces(&[file(0, Packing::Plain), file(0, Packing::Plain)]), [(0, 0, 0)]);
    }
}
