//! Cutting files into the pieces that maps read.

use crate::job::{InputFile, Packing, SplitAt};

/// Pieces of at most `split_bytes` each, in the order of the files. Packed files cannot be entered in the middle and stay whole; empty
/// files give nothing, except that a job has at least one map: if all are empty, the first gives one piece of no bytes.
pub fn cut(files: &[InputFile], split_bytes: u64) -> Vec<SplitAt> {
    let mut splits = Vec::new();
    for (file, ix) in files.iter().zip(0..) {
        let largest = if file.packing == Packing::Plain { split_bytes.max(1) } else { file.bytes };
        let mut offset = 0;
        while offset < file.bytes {
            let bytes = largest.min(file.bytes - offset);
            splits.push(SplitAt { file: ix, offset, bytes });
            offset += bytes;
        }
    }
    if splits.is_empty() && !files.is_empty() {
        splits.push(SplitAt { file: 0, offset: 0, bytes: 0 });
    }
    splits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Place;

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
    fn a_job_has_a_map_even_if_there_is_nothing_to_read() {
        assert_eq!(pieces(&[file(0, Packing::Plain), file(0, Packing::Plain)]), [(0, 0, 0)]);
    }
}
