//! Files as streams of decompressed bytes.

use crate::TraceError;
use flate2::bufread::MultiGzDecoder;
use giveway_compression::ZstdDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// Bytes per read.
const CHUNK_BYTES: usize = 256 << 10;
/// Decompressed bytes at the beginning of a file that detection may look at.
const HEAD_BYTES: u64 = 64 << 10;

/// Bounds on what a reader holds in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub line_bytes: usize,
    /// Largest JSON object, such as a Rumen job with all its tasks.
    pub object_bytes: usize,
    /// Jobs whose events have begun and not ended.
    pub open_jobs: usize,
    pub tasks_per_job: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line_bytes: 16 << 20, object_bytes: 256 << 20, open_jobs: 1_000_000, tasks_per_job: 1_000_000 }
    }
}

/// An open file, decompressed while it is read.
pub(crate) struct Input {
    pub(crate) file: PathBuf,
    /// The first decompressed bytes.
    pub(crate) head: Vec<u8>,
    reader: BufReader<Box<dyn Read + Send>>,
}

impl Input {
    /// Opens a file; gzip and Zstandard are detected by their first bytes.
    pub(crate) fn open(file: &Path) -> Result<Input, TraceError> {
        let read_error = |error| TraceError::Read { file: file.to_owned(), error };
        let opened = File::open(file).map_err(read_error)?;
        Input::new(file, opened).map_err(read_error)
    }

    /// Decompresses a stream of bytes; `file` is used in messages.
    pub(crate) fn new(file: &Path, bytes: impl Read + Send + 'static) -> io::Result<Input> {
        let mut compressed = BufReader::with_capacity(CHUNK_BYTES, bytes);
        let magic = first_bytes(&mut compressed)?;
        let chained = BufReader::with_capacity(CHUNK_BYTES, Cursor::new(magic.clone()).chain(compressed));
        let mut decoded: Box<dyn Read + Send> = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(chained)),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Box::new(ZstdDecoder::new(chained)),
            _ => Box::new(chained),
        };
        let mut head = Vec::new();
        // An error in the first bytes is seen again, and counted, when the records are read.
        let error = decoded.by_ref().take(HEAD_BYTES).read_to_end(&mut head).err();
        let rest: Box<dyn Read + Send> = match error {
            None => decoded,
            Some(error) => Box::new(Failed(Some(error))),
        };
        let whole: Box<dyn Read + Send> = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(Input { file: file.to_owned(), head, reader: BufReader::with_capacity(CHUNK_BYTES, whole) })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}

fn first_bytes(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut magic)?;
    Ok(magic)
}

/// Returns an error once, then the end of the data.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: Vec<u8>) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut input = Input::new(Path::new("x"), Cursor::new(bytes)).unwrap();
        let mut text = Vec::new();
        let error = input.read_to_end(&mut text).err();
        (text, error.map(|error| error.kind()))
    }

    #[test]
    fn compression_is_detected_by_content() {
        let text = b"job0\t1\t1\t5\t0\t5\n".repeat(20_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(text.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        for bytes in [text.clone(), gzip.clone(), zstd.clone(), [zstd.clone(), zstd.clone()].concat()] {
            let (read, error) = read(bytes);
            assert_eq!(error, None);
            assert!(read == text || read == text.repeat(2));
        }
        for cut in [gzip, zstd] {
            for bytes in [5, cut.len() / 2, cut.len() - 1] {
                let (read, error) = read(cut[..bytes].to_vec());
                assert!(error.is_some() || read.len() == text.len(), "cut at {bytes}");
                assert!(text.starts_with(&read));
            }
        }
    }

    #[test]
    fn short_files_are_read_whole() {
        for text in ["", "a", "ab", "abcde"] {
            assert_eq!(read(text.into()), (text.into(), None));
        }
    }
}
