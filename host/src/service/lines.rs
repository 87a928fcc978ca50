//! The standard input, line by line, without ever waiting for it and without keeping more than a little of it.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, read};

/// Read at once.
const CHUNK: usize = 64 << 10;

/// See the module. A line's line feed does not belong to it.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins, and how far no line feed is.
    start: usize,
    scanned: usize,
    /// Number of the next line, from 1.
    number: u64,
    max_len: usize,
    /// The rest of a line that is too long is passed over.
    skipping: bool,
    ended: bool,
}

impl Lines {
    pub(super) fn new() -> Lines {
        Lines {
            bytes: Vec::new(),
            start: 0,
            scanned: 0,
            number: 1,
            max_len: usize::MAX,
            skipping: false,
            ended: false,
        }
    }

    /// Whether more can be taken in now.
    pub(super) fn wants_more(&self) -> bool {
        !self.ended && !self.has_next()
    }

    /// Whether the input has ended and all lines have been taken.
    pub(super) fn is_over(&self) -> bool {
        self.ended && !self.has_next()
    }

    /// Takes in what is there. To be called when there is something: it would wait otherwise.
    pub(super) fn receive(&mut self, from: BorrowedFd<'_>, max_len: usize) {
        self.max_len = max_len;
        let len = self.bytes.len();
        self.bytes.resize(len + CHUNK, 0);
        let count = match read(from, &mut self.bytes[len..]) {
            Ok(count) => Some(count),
            Err(Errno::INTR | Errno::AGAIN) => None,
            // As good as its end: there is nobody to be told but whoever made it so.
            Err(_) => Some(0),
        };
        self.bytes.truncate(len + count.unwrap_or(0));
        self.ended |= count == Some(0);
        self.scan();
    }

    /// The next line and its number; no line when it is longer than what was allowed.
    pub(super) fn next(&self) -> Option<(u64, Option<&[u8]>)> {
        if !self.has_next() {
            return None;
        }
        let line = &self.bytes[self.start..self.end()];
        Some((self.number, (!self.skipping && line.len() <= self.max_len).then_some(line)))
    }

    /// The line has been dealt with.
    pub(super) fn done(&mut self) {
        self.start = (self.end() + 1).min(self.bytes.len());
        self.scanned = self.start;
        self.number += 1;
        self.skipping = false;
        self.scan();
    }

    fn end(&self) -> usize {
        self.scanned
    }

    /// Whether a whole line is there. What is left at the end of the input is one, too.
    fn has_next(&self) -> bool {
        self.bytes.get(self.scanned) == Some(&b'\n')
            || (self.ended && (self.start < self.bytes.len() || self.skipping))
    }

    /// Looks for the end of the next line, and drops what is not needed any more.
    fn scan(&mut self) {
        let found = self.bytes[self.scanned..].iter().position(|byte| *byte == b'\n');
        self.scanned = found.map_or(self.bytes.len(), |at| self.scanned + at);
        if found.is_none() {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            if self.bytes.len() > self.max_len {
                self.skipping = true;
                self.bytes.clear();
                self.scanned = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    /// The lines that come out of these pieces; `None` for one that is too long.
    fn lines(pieces: &[&[u8]], max_len: usize) -> Vec<Option<Vec<u8>>> {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let (mut lines, mut out) = (Lines::new(), Vec::new());
        let mut take = |lines: &mut Lines| {
            while let Some((number, line)) = lines.next() {
                let line = line.map(<[u8]>::to_vec);
                out.push(line);
                assert_eq!(number, out.len() as u64);
                lines.done();
            }
        };
        for piece in pieces {
            assert!(lines.wants_more());
            writer.write_all(piece).expect("writes");
            lines.receive(reader.as_fd(), max_len);
            take(&mut lines);
        }
        drop(writer);
        while lines.wants_more() {
            lines.receive(reader.as_fd(), max_len);
            take(&mut lines);
        }
        assert!(lines.is_over());
        out
    }

    #[test]
    fn lines_come_out_however_they_arrive() {
        let text = b"one\n\ntwo\r\nthree";
        let expected: Vec<Option<Vec<u8>>> =
            [&b"one"[..], b"", b"two\r", b"three"].iter().map(|line| Some(line.to_vec())).collect();
        assert_eq!(lines(&[text], 100), expected);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes, 100), expected);
        let threes: Vec<&[u8]> = text.chunks(3).collect();
        assert_eq!(lines(&threes, 100), expected);
        assert_eq!(lines(&[], 100), Vec::<Option<Vec<u8>>>::new());
        assert_eq!(lines(&[b"\n"], 100), [Some(vec![])]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_nothing_else() {
        let expected = [Some(b"good".to_vec()), None, Some(b"fine".to_vec())];
        let text = b"good\ntoo long\nfine\n";
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines(&pieces, 5), expected, "{size}");
        }
        assert_eq!(lines(&[b"much ", b"too ", b"long"], 5), [None]);
        assert_eq!(lines(&[b"12345"], 5), [Some(b"12345".to_vec())]);
    }
}
