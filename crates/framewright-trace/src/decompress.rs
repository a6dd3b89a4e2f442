//! Decompresses files as they are read.
//!
//! The first bytes of a file tell how it is compressed, never its name.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes that one read asks a file for.
const CHUNK: usize = 256 << 10;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A source of bytes, decompressed.
pub type Source = Box<dyn Read + Send>;

/// The bytes of `file`, decompressed if its first bytes are those of zstd or gzip.
///
/// # Errors
/// The first bytes cannot be read.
pub fn decompress(file: impl Read + Send + 'static) -> io::Result<Source> {
    let mut file = file;
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start)?;
    let is_zstd = start == ZSTD_MAGIC || matches!(start[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    let is_gzip = start.starts_with(&GZIP_MAGIC);
    let whole = Cursor::new(start).chain(file);
    Ok(if is_zstd {
        Box::new(ZstdFrames::new(BufReader::with_capacity(CHUNK, whole))?)
    } else if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, whole)))
    } else {
        Box::new(whole)
    })
}

/// A frame without content.
///
/// A decoder checks the window of a frame against its limit of 100 MiB only after it has read a frame. This one goes
/// first, so that no frame of a file escapes the check.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00];

/// The content of all frames of a zstd file.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> io::Result<ZstdFrames<R>> {
        let mut decoder = FrameDecoder::new();
        decoder.init(&EMPTY_FRAME[..]).map_err(damaged)?;
        Ok(ZstdFrames { source, decoder, inside: false })
    }

    /// Starts the next frame that holds data; false at the end of the file.
    fn enter_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(damaged("a frame is cut off"));
                    }
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    fn leave_frame(&mut self) -> io::Result<()> {
        self.inside = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => Err(damaged("the checksum is wrong")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.inside {
                self.inside = self.enter_frame()?;
                if !self.inside {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() < buf.len() && !self.decoder.is_finished() {
                let missing = buf.len() - self.decoder.can_collect();
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(missing))
                    .map_err(damaged)?;
            }
            match self.decoder.read(buf)? {
                0 => self.leave_frame()?,
                n => return Ok(n),
            }
        }
    }
}

fn damaged(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(Cursor::new(bytes))?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn compression_is_told_by_the_first_bytes() {
        let text = b"one line\nanother\n".repeat(10_000);
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&text)].concat();
        for packed in [text.clone(), gzip(&text), zstd(&text), skippable] {
            assert_eq!(read(packed).unwrap(), text);
        }
        let twice = text.repeat(2);
        assert_eq!(read(zstd(&text).repeat(2)).unwrap(), twice);
        assert_eq!(read(gzip(&text).repeat(2)).unwrap(), twice);
        for short in [&b""[..], b"\x1f", b"\x28\xb5"] {
            assert_eq!(read(short.to_vec()).unwrap(), short);
        }
    }

    #[test]
    fn cut_and_damaged_files_are_errors() {
        let text = b"one line\nanother\n".repeat(10_000);
        for packed in [gzip(&text), zstd(&text)] {
            for cut in [5, packed.len() / 2, packed.len() - 1] {
                assert!(read(packed[..cut].to_vec()).is_err(), "{cut} of {}", packed.len());
            }
        }
        assert!(read([&zstd(&text)[..], b"rubbish"].concat()).is_err());
        assert!(read(vec![0x53, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1]).is_err());
        let mut flipped = zstd(&text);
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        assert_eq!(read(flipped).unwrap_err().to_string(), "the checksum is wrong");
    }

    #[test]
    fn a_frame_cannot_ask_for_any_amount_of_memory() {
        // A window of 1 TiB.
        let error = read(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 30 << 3, 0x01, 0x00, 0x00]).unwrap_err();
        assert!(error.to_string().contains("window"), "{error}");
    }
}
