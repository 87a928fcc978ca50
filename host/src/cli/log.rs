//! `ringleader log`: shows or checks the entries in the region file of a replica that does not run.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ringleader_core::entry::{HEADER_LEN, Kind, Valid, judge, offset};
use ringleader_core::mem::Area;
use ringleader_core::types::{LogPoint, Position};
use serde::Serialize;

use super::wrong;
use crate::fabric::shm::{Mapped, Observed, Owner};
use crate::inspect::{self, Held, Identity, Lines};

/// Look at the log in the region file of a replica that is stopped or dead.
///
/// A demo leaves such files with --keep-regions. The entries in one are those of its measurement first, all zeros
/// (`--samples 0` leaves them out), then those of its client; each of these has 17 bytes before the line: client id and
/// number, 8 bytes each and little-endian, and a 1.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

const DUMP_STATUS: &str = "\
Exit status:
  0  everything asked for was printed
  2  something is damaged (entries before it were printed), or the file cannot be read, or its
     replica runs, or the output cannot be written

The region of a demo begins with the proposals of its measurement, all zeros (`--samples 0` leaves \
them out). Each of its client's payloads has 17 bytes before the line: client id and number, 8 bytes \
each and little-endian, and a 1.";

const VERIFY_STATUS: &str = "\
Exit status:
  0  header, lines, and every entry up to what was applied are intact
  2  something is damaged: the first such thing is named; or the file cannot be read, or its
     replica runs";

#[derive(Subcommand, Debug)]
enum What {
    /// Print the entries that the ring still holds, oldest first
    #[command(after_help = DUMP_STATUS)]
    Dump(Dump),
    /// Check header, lines and entries; exit status 2 says that something is damaged
    #[command(after_help = VERIFY_STATUS)]
    Verify(Region),
}

#[derive(clap::Args, Debug)]
struct Region {
    /// Region file of a replica: DIR/node-<ID>.region
    region: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Dump {
    #[command(flatten)]
    region: Region,
    /// Begin at this index
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// The payloads as they are, each followed by a line feed, and nothing else
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// One JSON object a line; `payload` is the payload as text, with U+FFFD for what is none, `payload_hex` is exact
    #[arg(long)]
    json: bool,
    /// Go on past what the replica had applied, as far as entries are valid
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
    Raw,
}

/// One entry as JSON.
#[derive(Serialize)]
struct EntryRow<'a> {
    index: u64,
    term: u64,
    position: u64,
    kind: &'a str,
    len: u32,
    applied: bool,
    /// For people: what is no UTF-8 is replaced.
    payload: String,
    payload_hex: String,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let done = match &args.what {
        What::Dump(dump) => show(dump),
        What::Verify(region) => verify(region),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => wrong(text),
    }
}

/// A region whose lines have been found right.
struct Opened {
    name: String,
    observed: Observed,
    lines: Lines,
    log: Area<Mapped>,
}

impl Opened {
    fn open(region: &Region) -> Result<Opened, String> {
        let observed = Observed::open(&region.region).map_err(|error| error.to_string())?;
        let name = region.region.display().to_string();
        if observed.owner().map_err(|error| error.to_string())? == Owner::Running {
            return Err(format!(
                "{name}: its replica runs (process {}); stop it first",
                observed.header().pid
            ));
        }
        let of = observed.header();
        let identity =
            Identity { node: of.node, boot: of.boot, incarnation: of.incarnation, ring_len: of.ring_len };
        let (control, log) = (Area::new(observed.control()), Area::new(observed.log()));
        let lines =
            inspect::read_lines(&control, &log, &identity).map_err(|error| format!("{name}: {error}"))?;
        Ok(Opened { name, observed, lines, log })
    }

    fn ring_len(&self) -> u64 {
        self.observed.header().ring_len
    }

    fn applied(&self) -> Position {
        Position(self.lines.progress.applied)
    }

    fn held(&self) -> Result<Held, String> {
        inspect::held(&self.log, self.ring_len(), self.lines.group, self.applied()).map_err(self.named())
    }

    fn named<E: std::fmt::Display>(&self) -> impl Fn(E) -> String {
        move |error| format!("{}: {error}", self.name)
    }
}

fn verify(region: &Region) -> Result<(), String> {
    let opened = Opened::open(region)?;
    let held = opened.held()?;
    let (mut entries, mut bytes) = (0_u64, 0_u64);
    let end = inspect::verify(&opened.log, opened.ring_len(), &held, opened.applied(), |_, valid| {
        entries += 1;
        bytes += u64::from(valid.len);
    })
    .map_err(opened.named())?;
    let node = opened.observed.header().node;
    let intact = format!(
        "{}: node {node}, promise term {}, applied up to entry {} at position {}: {} with {bytes} bytes of payload, \
         intact{}",
        opened.name,
        opened.lines.progress.promise >> 8,
        end.index,
        end.position,
        if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") },
        if held.is_wrapped {
            format!(" (older than entry {}: overwritten)", held.start.index.next())
        } else {
            String::new()
        }
    );
    printed(writeln!(io::stdout().lock(), "{intact}"))
}

/// Whoever reads the output may have seen enough; anything else that keeps it from being written is an error.
fn printed(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

fn show(dump: &Dump) -> Result<(), String> {
    let format = match (dump.raw, dump.json) {
        (true, _) => Format::Raw,
        (_, true) => Format::Json,
        _ => Format::Text,
    };
    let opened = Opened::open(&dump.region)?;
    let held = opened.held()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match show_entries(&opened, &held, dump, format, &mut out).and_then(|end| out.flush().map(|()| end)) {
        Ok(end) if end.position < opened.applied() => {
            Err(format!("{}: damaged entry {} at position {}", opened.name, end.index.next(), end.position))
        }
        done => printed(done.map(drop)),
    }
}

/// Shows entries as far as asked for and valid; the place reached.
fn show_entries(
    opened: &Opened,
    held: &Held,
    dump: &Dump,
    format: Format,
    out: &mut impl Write,
) -> io::Result<LogPoint> {
    let (ring_len, applied) = (opened.ring_len(), opened.applied());
    let mut at = held.start;
    let mut payload = Vec::new();
    // A ring's worth at the most, whatever the bytes are.
    while (dump.all || at.position < applied) && at.position.0 - held.start.position.0 <= ring_len {
        let Ok(valid) = judge(&opened.log, ring_len, &at) else { break };
        let position = at.position;
        at = valid.next;
        if valid.next.index.0 < dump.from {
            continue;
        }
        copy_payload(&opened.log, ring_len, position, &valid, &mut payload);
        let is_applied = valid.next.position <= applied;
        match format {
            Format::Raw if valid.kind != Kind::PAYLOAD => {}
            Format::Raw => {
                out.write_all(&payload)?;
                out.write_all(b"\n")?;
            }
            Format::Json => {
                let row = EntryRow {
                    index: valid.next.index.0,
                    term: valid.term.0,
                    position: position.0,
                    kind: kind_name(valid.kind),
                    len: valid.len,
                    applied: is_applied,
                    payload: String::from_utf8_lossy(&payload).into_owned(),
                    payload_hex: hex(&payload),
                };
                serde_json::to_writer(&mut *out, &row)?;
                out.write_all(b"\n")?;
            }
            Format::Text => writeln!(
                out,
                "{:>10}  term {:>4}  at {:>12}  {:<7}  {:>7} B  {}{}",
                valid.next.index.0,
                valid.term.0,
                position.0,
                kind_name(valid.kind),
                valid.len,
                if is_applied { "" } else { "(not applied) " },
                preview(&payload),
            )?,
        }
    }
    Ok(at)
}

fn copy_payload(log: &Area<Mapped>, ring_len: u64, position: Position, valid: &Valid, out: &mut Vec<u8>) {
    let start = offset(ring_len, position) + HEADER_LEN;
    out.clear();
    for at in (start..start + u64::from(valid.len)).step_by(8) {
        out.extend_from_slice(&log.load(at).to_le_bytes());
    }
    out.truncate(valid.len as usize);
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::PAYLOAD => "payload",
        Kind::NO_OP => "no-op",
        Kind::CONFIG => "config",
        Kind::PAD => "pad",
        _ => "unknown",
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The first bytes of a payload in one line.
fn preview(payload: &[u8]) -> String {
    const SHOWN: usize = 48;
    let more = if payload.len() > SHOWN { "…" } else { "" };
    format!("{}{more}", payload[..payload.len().min(SHOWN)].escape_ascii())
}
