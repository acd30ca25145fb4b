//! Decompression that the engine's input and the readers of traces share. Truncated or damaged data is an error and never taken for the end of
//! the text.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// Decodes concatenated Zstandard frames and verifies their checksums; skippable frames are skipped.
pub struct ZstdDecoder<R> {
    compressed: R,
    frame: FrameDecoder,
}

impl<R: BufRead> ZstdDecoder<R> {
    /// Decodes this data.
    pub fn new(compressed: R) -> ZstdDecoder<R> {
        ZstdDecoder { compressed, frame: FrameDecoder::new() }
    }
}

impl<R: BufRead> Read for ZstdDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 {
            if !self.frame.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBytes(buffer.len());
                self.frame.decode_blocks(&mut self.compressed, strategy).map_err(io::Error::other)?;
                continue;
            }
            if self.frame.get_checksum_from_data().is_some_and(|sum| self.frame.get_calculated_checksum() != Some(sum))
            {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"));
            }
            if self.compressed.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.frame.reset(&mut self.compressed) {
                Ok(()) => {}
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.compressed).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        self.frame.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        ZstdDecoder::new(bytes).read_to_end(&mut text).ok().map(|_| text)
    }

    #[test]
    fn frames_are_concatenated_and_skippable_ones_skipped() {
        let text = b"job0\t1\t1\t5\t0\t5\n".repeat(20_000);
        let frame = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert_eq!(decoded(&[&frame, skippable.as_slice(), &frame].concat()), Some(text.repeat(2)));
        assert_eq!(decoded(&[]), Some(Vec::new()));
        assert_eq!(decoded(&[&frame, &skippable[..9]].concat()), None, "a skippable frame is cut");
        for cut in [5, frame.len() / 2, frame.len() - 1] {
            assert_ne!(decoded(&frame[..cut]), Some(text.clone()), "cut at {cut}");
        }
    }
}
