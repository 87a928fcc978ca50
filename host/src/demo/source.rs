//! The entries, one after the other, from a file or made up. The same plan gives the same entries each time it is asked.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::plan::{BadInput, Feed, Plan};

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Entries.
    pub entries: u64,
    /// Bytes of all of them together.
    pub bytes: u64,
}

/// A reader of entries.
#[derive(Debug)]
pub enum Source {
    /// Lines of a file.
    File {
        /// The file.
        reader: BufReader<File>,
        /// A longer line is an error.
        max_len: u64,
    },
    /// Made up.
    Generated {
        /// Number of the next.
        next: u64,
        /// So many.
        entries: u64,
        /// Bytes of each.
        size: usize,
    },
}

impl Source {
    /// A reader from the first entry on.
    pub fn open(plan: &Plan) -> io::Result<Source> {
        Ok(match &plan.feed {
            Feed::File(path) => Source::File {
                reader: BufReader::with_capacity(256 << 10, File::open(path)?),
                max_len: plan.max_entry_len(),
            },
            Feed::Generated { entries, size } => {
                Source::Generated { next: 1, entries: *entries, size: *size }
            }
        })
    }

    /// Puts the next entry in `out`; false when there is none.
    pub fn next_entry(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        out.clear();
        match self {
            Source::File { reader, max_len } => {
                read_line(reader, *max_len, |part| out.extend_from_slice(part))?;
                Ok(!out.is_empty())
            }
            Source::Generated { next, entries, size } => {
                if next > entries {
                    return Ok(false);
                }
                generate(*next, *size, out);
                *next += 1;
                Ok(true)
            }
        }
    }
}

/// Counts the entries, and refuses what cannot be replicated, before anything is started.
pub fn survey(plan: &Plan) -> Result<Survey, BadInput> {
    match &plan.feed {
        Feed::Generated { entries, size } => match entries.checked_mul(*size as u64) {
            Some(bytes) => Ok(Survey { entries: *entries, bytes }),
            None => Err(BadInput(format!("--entries {entries} of {size} bytes are too many bytes"))),
        },
        Feed::File(path) if path.as_os_str() == "-" => Err(BadInput(
            "--input -: the standard input is not supported, for the entries are read more than once"
                .to_owned(),
        )),
        Feed::File(path) => survey_file(path, plan.max_entry_len()),
    }
}

fn survey_file(path: &Path, max_len: u64) -> Result<Survey, BadInput> {
    let named = |error: io::Error| BadInput(format!("--input {}: {error}", path.display()));
    // The file is read twice, and a third time to compare: what can be read only once does not do.
    if !std::fs::metadata(path).map_err(named)?.is_file() {
        return Err(BadInput(format!("--input {}: not a regular file", path.display())));
    }
    let mut reader = BufReader::with_capacity(256 << 10, File::open(path).map_err(named)?);
    let mut survey = Survey { entries: 0, bytes: 0 };
    loop {
        match read_line(&mut reader, u64::MAX, |_| ()).map_err(named)? {
            0 => return Ok(survey),
            len if len > max_len => {
                return Err(BadInput(format!(
                    "--input {}: line {} has {len} bytes, and an entry has at most {max_len} (an eighth of the ring)",
                    path.display(),
                    survey.entries + 1
                )));
            }
            len => {
                survey.entries += 1;
                survey.bytes += len;
            }
        }
    }
}

/// Hands over the next line in parts, its newline included; returns its length, 0 at the end of the file.
fn read_line(reader: &mut impl BufRead, max_len: u64, mut part: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut len = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let take = newline.map_or(buffer.len(), |at| at + 1);
        len += take as u64;
        if len > max_len {
            return Err(io::Error::other("a line has grown since the file was checked"));
        }
        part(&buffer[..take]);
        reader.consume(take);
        if newline.is_some() || take == 0 {
            return Ok(len);
        }
    }
}

/// The number, letters that differ from entry to entry, and a newline; cut off at the front when there is no room.
fn generate(number: u64, size: usize, out: &mut Vec<u8>) {
    let head = format!("{number} ");
    out.extend(head.bytes().take(size - 1));
    let start = number as usize;
    out.extend((out.len()..size - 1).map(|at| b'a' + ((start.wrapping_add(at)) % 26) as u8));
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::{Fault, Profile};

    fn plan(feed: Feed) -> Plan {
        Plan {
            carrier: crate::demo::Carrier::SharedMemory,
            nodes: 3,
            groups: 1,
            ring_len: 512 << 10,
            profile: Profile::Local,
            quorum: crate::Quorum::Live,
            confirm: crate::Confirm::Completion,
            idle: crate::Idle::Adaptive,
            feed,
            fault: Fault::None,
            dir: None,
            keep_regions: false,
            samples: 0,
            sample_size: 64,
            reads: 0,
        }
    }

    fn all(plan: &Plan) -> Vec<Vec<u8>> {
        let mut source = Source::open(plan).expect("opens");
        let (mut entry, mut all) = (Vec::new(), Vec::new());
        while source.next_entry(&mut entry).expect("reads") {
            all.push(entry.clone());
        }
        all
    }

    #[test]
    fn a_file_comes_out_as_it_went_in() {
        let texts: [&[u8]; 7] =
            [b"", b"\n", b"a", b"a\n", b"a\r\n\n\nb", b"\0\xff\xfe\n\x80", &[b'x'; 300 << 10][..60 << 10]];
        for text in texts {
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), text).expect("writes");
            let plan = plan(Feed::File(file.path().to_owned()));
            let entries = all(&plan);
            assert_eq!(entries.concat(), text);
            assert!(entries.iter().all(|entry| entry.iter().filter(|byte| **byte == b'\n').count() <= 1));
            let survey = survey(&plan).expect("nothing to refuse");
            assert_eq!(survey, Survey { entries: entries.len() as u64, bytes: text.len() as u64 });
        }
    }

    #[test]
    fn a_line_over_the_limit_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut text = b"short\n".to_vec();
        text.extend(vec![b'x'; 64 << 10]);
        std::fs::write(file.path(), &text).expect("writes");
        let plan = plan(Feed::File(file.path().to_owned()));
        let said = survey(&plan).expect_err("too long").to_string();
        assert!(said.contains("line 2") && said.contains("65536") && said.contains("65479"), "{said}");
        let most = text.len() - (65536 - 65479);
        std::fs::write(file.path(), &text[..most]).expect("writes");
        assert_eq!(survey(&plan).expect("fits").entries, 2);
    }

    #[test]
    fn made_up_entries_are_lines_of_the_size_asked_for() {
        for size in [1, 2, 3, 64, 1000] {
            let plan = plan(Feed::Generated { entries: 120, size });
            let entries = all(&plan);
            assert_eq!(entries.len(), 120);
            assert!(entries.iter().all(|entry| entry.len() == size && entry.ends_with(b"\n")));
        }
        assert!(all(&plan(Feed::Generated { entries: 12, size: 64 }))[11].starts_with(b"12 "));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let said = survey(&plan(Feed::File("/".into()))).expect_err("a directory").to_string();
        assert_eq!(said, "--input /: not a regular file");
        assert!(survey(&plan(Feed::File("/nowhere/at/all".into()))).is_err());
    }
}
