//! Bytes in: files that may be compressed, and lines of bounded length.
//!
//! How a file is compressed is told by its first bytes, never by its name. A line that is longer than
//! [`LINE_LIMIT`] is reported and passed over without being held, so that a file without any line end costs no more
//! memory than one with many. Memory maps were rejected: they need `unsafe`, cannot be compressed, and a file that is cut
//! while it is read kills the process.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::{Reason, Result, TraceError, file_name};

/// The longest line that is read, in bytes. The longest that a tracer prints for our events has under 400.
pub const LINE_LIMIT: usize = 64 << 10;
/// How much is asked of a file at once.
const CHUNK: usize = 256 << 10;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A source of bytes, decompressed.
pub type Source = Box<dyn Read + Send>;

/// Opens a file, decompressed if it is compressed.
///
/// # Errors
/// The file cannot be read, or its compression is damaged.
pub fn open(path: &Path) -> Result<Source> {
    let name = file_name(path);
    let file = File::open(path).map_err(|error| TraceError::new(&name, error))?;
    decompress(file).map_err(|error| TraceError::new(&name, error))
}

/// Reads a whole file, decompressed, of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, is damaged, or is longer.
pub fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let name = file_name(path);
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| TraceError::new(&name, error))?;
    if bytes.len() as u64 > limit {
        return Err(TraceError::new(&name, Reason::TooLarge(limit)));
    }
    Ok(bytes)
}

/// The bytes of `file`, decompressed if its first bytes are those of zstd or gzip.
///
/// # Errors
/// The first bytes cannot be read.
pub fn decompress(file: impl Read + Send + 'static) -> io::Result<Source> {
    let mut file = file;
    let mut start = [0; 4];
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let start = start[..filled].to_vec();
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

/// A frame without content. A decoder that has read one checks the window of later frames against its limit of
/// 100 MiB; the first frame's it would take as it comes.
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

    /// Goes to the next frame that holds data; false at the end of the file.
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

/// One line of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// Without its end (`\n` or `\r\n`).
    Whole(&'a [u8]),
    /// The last one, if the file does not end with a line end.
    Unterminated(&'a [u8]),
    /// Longer than [`LINE_LIMIT`]; its start.
    TooLong(&'a [u8]),
}

/// The lines of a source.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer that have been read from the source and not handed out.
    start: usize,
    end: usize,
    number: u64,
    /// Start of the last line that was too long.
    overlong: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The lines of `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines { source, buffer: vec![0; LINE_LIMIT + CHUNK], start: 0, end: 0, number: 0, overlong: Vec::new() }
    }

    /// Number of the line that was handed out last, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line, none at the end.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            if let Some(found) = memchr::memchr(b'\n', rest) {
                return Ok(Some(self.take_line(searched + found)));
            }
            searched = self.end - self.start;
            if searched > LINE_LIMIT {
                return self.pass_over().map(Some);
            }
            if self.fill()? == 0 {
                return Ok(self.take_last());
            }
        }
    }

    fn take_line(&mut self, len: usize) -> Line<'_> {
        let line = self.start..self.start + len;
        self.start = line.end + 1;
        self.number += 1;
        let line = &self.buffer[line];
        if len > LINE_LIMIT {
            return Line::TooLong(&line[..LINE_LIMIT]);
        }
        Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn take_last(&mut self) -> Option<Line<'_>> {
        let line = self.start..self.end;
        self.start = self.end;
        if line.is_empty() {
            return None;
        }
        self.number += 1;
        Some(Line::Unterminated(&self.buffer[line]))
    }

    /// Reads more behind what is there; 0 at the end of the source.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops the rest of a line that is too long, keeping its start for the message.
    fn pass_over(&mut self) -> io::Result<Line<'_>> {
        self.number += 1;
        let head = self.buffer[self.start..self.start + LINE_LIMIT].to_vec();
        loop {
            self.start = self.end;
            if self.fill()? == 0 {
                break;
            }
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[..self.end]) {
                self.start = found + 1;
                break;
            }
        }
        self.overlong = head;
        Ok(Line::TooLong(&self.overlong))
    }
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

    fn lines(text: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = match line {
                Line::Whole(text) => format!("{}", text.escape_ascii()),
                Line::Unterminated(text) => format!("{} without end", text.escape_ascii()),
                Line::TooLong(text) => format!("{}... too long, {}", text[..3].escape_ascii(), text.len()),
            };
            found.push((lines.number(), text));
        }
        found
    }

    #[test]
    fn lines_are_counted_and_bounded() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [(1, String::new())]);
        assert_eq!(lines(b"a\r\nb"), [(1, "a".into()), (2, "b without end".into())]);
        for len in [LINE_LIMIT + 1, LINE_LIMIT + CHUNK, LINE_LIMIT + CHUNK + 1, 3 << 20] {
            let text = [&b"a\n"[..], &vec![b'x'; len], b"\nb\n"].concat();
            let expected = [(1, "a".into()), (2, format!("xxx... too long, {LINE_LIMIT}")), (3, "b".into())];
            assert_eq!(lines(&text), expected, "{len}");
        }
        assert_eq!(lines(&[&vec![b'x'; LINE_LIMIT][..], b"\n"].concat())[0].1.len(), LINE_LIMIT);
        assert_eq!(lines(&vec![b'x'; 1 << 20]), [(1, format!("xxx... too long, {LINE_LIMIT}"))]);
    }
}
