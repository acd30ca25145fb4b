//! Decompression of input. Truncated data is an error and never taken for the end of the text: half a file would give a wrong result.

use super::lines::SequentialReader;
use crate::job::Codec;
use flate2::bufread::MultiGzDecoder;
use giveway_compression::ZstdDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// Compressed bytes per read.
const CHUNK_BYTES: usize = 256 << 10;

/// A reader of the decompressed text.
pub(super) fn decompress(codec: Codec, bytes: SequentialReader) -> Box<dyn Read + Send> {
    let buffered = |bytes| BufReader::with_capacity(CHUNK_BYTES, bytes);
    match codec {
        Codec::Plain => Box::new(bytes),
        Codec::Gzip => Box::new(MultiGzDecoder::new(buffered(bytes))),
        Codec::Zstd => Box::new(ZstdDecoder::new(buffered(bytes))),
        Codec::Lz4 => Box::new(Lz4Decoder(lz4_flex::frame::FrameDecoder::new(EofTracker::new(buffered(bytes))))),
    }
}

/// Decodes concatenated LZ4 frames.
struct Lz4Decoder<R: Read>(lz4_flex::frame::FrameDecoder<EofTracker<R>>);

impl<R: BufRead> Read for Lz4Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.0.read(buffer)?;
            if bytes > 0 {
                return Ok(bytes);
            }
            // The decoder returns 0 both at the end of a frame and where a frame is truncated. Only in the second case has it read past the
            // end of the compressed data.
            let compressed = self.0.get_mut();
            if compressed.hit_eof {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the data is truncated"));
            }
            if compressed.inner.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}

/// Records whether a read has hit the end of the data.
struct EofTracker<R> {
    inner: R,
    hit_eof: bool,
}

impl<R> EofTracker<R> {
    fn new(inner: R) -> EofTracker<R> {
        EofTracker { inner, hit_eof: false }
    }
}

impl<R: Read> Read for EofTracker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.hit_eof |= bytes == 0 && !buffer.is_empty();
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LineReader, detect_codec};
    use crate::job::{FileLocation, InputFile, InputSplit};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn lz4(text: &[u8]) -> Vec<u8> {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let packing = detect_codec("f", &bytes.to_vec()).unwrap();
        let file = InputFile {
            name: "f".into(),
            location: FileLocation::Local("/f".into()),
            codec: packing,
            bytes: bytes.len() as u64,
        };
        let split = InputSplit { file: 0, offset: 0, bytes: file.bytes };
        let mut reader = LineReader::over(&file, split, Box::new(bytes.to_vec()));
        assert_eq!(reader.position(), None, "a map of a compressed file cannot end early");
        let mut text = Vec::new();
        while let Some(record) = reader.next().map_err(|error| error.to_string())? {
            assert_eq!(record.offset, text.len() as u64);
            text.extend_from_slice(record.line);
            text.push(b'\n');
        }
        assert_eq!(reader.bytes_done(), file.bytes);
        Ok(text)
    }

    fn text() -> Vec<u8> {
        (0..200_000_u32).flat_map(|n| format!("line {}\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    #[test]
    fn compressed_text_round_trips() {
        let text = text();
        for compress in [gzip, zstd, lz4] {
            assert!(decompressed(&compress(&text)).unwrap() == text);
        }
    }

    #[test]
    fn concatenated_frames_are_decoded() {
        for compress in [gzip, zstd, lz4] {
            let joined = [compress(b"one\nt"), compress(b""), compress(b"wo\n")].concat();
            assert_eq!(decompressed(&joined).unwrap(), b"one\ntwo\n");
        }
        let skipped = [zstd(b"a\n"), vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9], zstd(b"b\n")].concat();
        assert_eq!(decompressed(&skipped).unwrap(), b"a\nb\n");
    }

    #[test]
    fn truncation_anywhere_is_an_error() {
        let text = b"some text, some more text, and some text again\n".repeat(20);
        for compress in [gzip, zstd, lz4] {
            let whole = compress(&text);
            for length in 4..whole.len() {
                let error = decompressed(&whole[..length]).unwrap_err();
                assert!(error.starts_with("input f is corrupt: its "), "{length}: {error}");
            }
        }
    }

    #[test]
    fn a_flipped_byte_is_an_error() {
        let text = text();
        for compress in [gzip, zstd, lz4] {
            let mut bytes = compress(&text);
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            assert!(decompressed(&bytes).unwrap_err().starts_with("input f is corrupt: its "));
        }
    }
}
