//! Unpacking. An archive that ends too soon is an error and never the end of the text: half a file would give a wrong answer.

use super::lines::FromStart;
use crate::job::Codec;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// How many packed bytes are read at once.
const CHUNK: usize = 256 << 10;

/// The text in packed bytes.
pub(super) fn unpack(packing: Codec, bytes: FromStart) -> Box<dyn Read + Send> {
    let buffered = |bytes| BufReader::with_capacity(CHUNK, bytes);
    match packing {
        Codec::Plain => Box::new(bytes),
        Codec::Gzip => Box::new(MultiGzDecoder::new(buffered(bytes))),
        Codec::Zstd => Box::new(ZstdFrames { packed: buffered(bytes), frame: FrameDecoder::new() }),
        Codec::Lz4 => Box::new(Lz4Frames(lz4_flex::frame::FrameDecoder::new(Watched::new(buffered(bytes))))),
    }
}

/// Zstandard frames, one after the other, those to be skipped skipped.
struct ZstdFrames<R> {
    packed: R,
    frame: FrameDecoder,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 {
            if !self.frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(buffer.len());
                self.frame.decode_blocks(&mut self.packed, some).map_err(io::Error::other)?;
                continue;
            }
            if self.frame.get_checksum_from_data().is_some_and(|sum| self.frame.get_calculated_checksum() != Some(sum))
            {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is wrong"));
            }
            if self.packed.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.frame.reset(&mut self.packed) {
                Ok(()) => {}
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.packed).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        self.frame.read(buffer)
    }
}

/// LZ4 frames, one after the other.
struct Lz4Frames<R: Read>(lz4_flex::frame::FrameDecoder<Watched<R>>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.0.read(buffer)?;
            if bytes > 0 {
                return Ok(bytes);
            }
            // The decoder says "no more" at the end of a frame, and also where one breaks off. Only in the second case has it asked for
            // bytes that were not there.
            let packed = self.0.get_mut();
            if packed.was_short {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it breaks off"));
            }
            if packed.inner.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}

/// A reader that remembers whether it was asked for more than there was.
struct Watched<R> {
    inner: R,
    was_short: bool,
}

impl<R> Watched<R> {
    fn new(inner: R) -> Watched<R> {
        Watched { inner, was_short: false }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.was_short |= bytes == 0 && !buffer.is_empty();
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LineReader, packing};
    use crate::job::{FileLocation, InputFile, InputSplit};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn lz4(text: &[u8]) -> Vec<u8> {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
        let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let packing = packing("f", &bytes.to_vec()).unwrap();
        let file = InputFile {
            name: "f".into(),
            location: FileLocation::Local("/f".into()),
            codec: packing,
            bytes: bytes.len() as u64,
        };
        let piece = InputSplit { file: 0, offset: 0, bytes: file.bytes };
        let mut reader = LineReader::over(&file, piece, Box::new(bytes.to_vec()));
        assert_eq!(reader.position(), None, "a packed file cannot end early");
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
    fn archives_give_their_text() {
        let text = text();
        for pack in [gzip, zstd, lz4] {
            assert!(unpacked(&pack(&text)).unwrap() == text);
        }
    }

    #[test]
    fn archives_may_be_joined() {
        for pack in [gzip, zstd, lz4] {
            let joined = [pack(b"one\nt"), pack(b""), pack(b"wo\n")].concat();
            assert_eq!(unpacked(&joined).unwrap(), b"one\ntwo\n");
        }
        let skipped = [zstd(b"a\n"), vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9], zstd(b"b\n")].concat();
        assert_eq!(unpacked(&skipped).unwrap(), b"a\nb\n");
    }

    #[test]
    fn an_archive_that_breaks_off_is_an_error_wherever_it_does() {
        let text = b"some text, some more text, and some text again\n".repeat(20);
        for pack in [gzip, zstd, lz4] {
            let whole = pack(&text);
            for length in 4..whole.len() {
                let error = unpacked(&whole[..length]).unwrap_err();
                assert!(error.starts_with("input f is damaged: its "), "{length}: {error}");
            }
        }
    }

    #[test]
    fn an_archive_with_a_wrong_byte_is_an_error() {
        let text = text();
        for pack in [gzip, zstd, lz4] {
            let mut bytes = pack(&text);
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            assert!(unpacked(&bytes).unwrap_err().starts_with("input f is damaged: its "));
        }
    }
}
