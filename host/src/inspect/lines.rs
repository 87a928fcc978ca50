//! The lines of a region, each judged by its CRC and against what the region's file says of itself.
//!
//! A line that nobody ever wrote is all zeros; so is every byte that belongs to no line.

use std::fmt;

use ringleader_core::layout::{
    AnswerLine, BeatLine, ConfigBlock, Header, HostLine, LAYOUT_VERSION, LeaderLine, Line, MAIL_LEN,
    ProgressLine, RequestLine, answer_of, control, log, request_of,
};
use ringleader_core::mem::{Area, Memory};
use ringleader_core::types::NodeId;

use super::consistency;

/// What the region's file says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The node.
    pub node: u64,
    /// Its boot.
    pub boot: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// Length of the ring in bytes.
    pub ring_len: u64,
}

/// The lines that say how far the replica was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines {
    /// The header.
    pub header: Header,
    /// The group's id; 0 when it was in none.
    pub group: u128,
    /// How far the acceptor was.
    pub progress: ProgressLine,
    /// The leader line, if this node ever led.
    pub leader: Option<LeaderLine>,
    /// The configuration, if the node was in a group.
    pub config: Option<ConfigBlock>,
    /// The last beat, if there ever was one.
    pub beat: Option<BeatLine>,
}

/// What is wrong with the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LinesError {
    /// It is missing.
    Missing(Name),
    /// Its CRC is wrong.
    Torn(Name),
    /// A field holds what it cannot.
    Field {
        /// The line.
        line: Name,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
    },
    /// Another version of the layout.
    Layout {
        /// The version.
        found: u32,
    },
    /// A byte that belongs to no line is not zero.
    Stray {
        /// "control" or "log".
        area: &'static str,
        /// Its offset in the area.
        offset: u64,
    },
}

/// Names a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    /// What it is.
    pub line: &'static str,
    /// The peer it belongs to; 0 for the node's own lines.
    pub peer: u8,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            0 => f.write_str(self.line),
            peer => write!(f, "{} of node {peer}", self.line),
        }
    }
}

impl fmt::Display for LinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinesError::Missing(name) => write!(f, "the {name} was never written"),
            LinesError::Torn(name) => write!(f, "damaged {name} (wrong CRC)"),
            LinesError::Field { line, field, found } => {
                write!(f, "damaged {line} ({field} cannot be {found})")
            }
            LinesError::Layout { found } => {
                write!(f, "layout version {found}; this program knows version {LAYOUT_VERSION}")
            }
            LinesError::Stray { area, offset } => {
                write!(f, "damaged {area} area: byte {offset} should be zero")
            }
        }
    }
}

impl std::error::Error for LinesError {}

/// A name without a peer.
pub(super) const fn own(line: &'static str) -> Name {
    Name { line, peer: 0 }
}

/// The line at `offset`; `None` when nobody ever wrote it.
fn read<L: Line, M: Memory>(area: &Area<M>, offset: u64, name: Name) -> Result<Option<L>, LinesError> {
    if let Some(line) = L::read(area, offset) {
        return Ok(Some(line));
    }
    let is_zero = (0..L::WORDS as u64).all(|word| area.load(offset + word * 8) == 0);
    if is_zero { Ok(None) } else { Err(LinesError::Torn(name)) }
}

/// Whether `len` bytes at `offset` are zero.
fn expect_zeros<M: Memory>(
    name: &'static str,
    area: &Area<M>,
    offset: u64,
    end: u64,
) -> Result<(), LinesError> {
    for at in (offset..end).step_by(8) {
        let word = area.load(at);
        if word != 0 {
            let offset = at + u64::from(word.trailing_zeros() / 8);
            return Err(LinesError::Stray { area: name, offset });
        }
    }
    Ok(())
}

/// Reads and judges every line of a region.
pub fn read_lines<M: Memory>(
    control_area: &Area<M>,
    log_area: &Area<M>,
    identity: &Identity,
) -> Result<Lines, LinesError> {
    let name = own("header line");
    let header: Header = read(control_area, control::HEADER, name)?.ok_or(LinesError::Missing(name))?;
    consistency::judge_header(&header, identity)?;
    let group = u128::from(header.group_high) << 64 | u128::from(header.group_low);

    let name = own("progress line");
    let progress: ProgressLine =
        read(control_area, control::PROGRESS, name)?.ok_or(LinesError::Missing(name))?;
    let is_apart = header.proposer != identity.boot;
    consistency::judge_progress(&progress, identity, is_apart)?;

    let leader = read(control_area, control::LEADER, own("leader line"))?;
    leader.as_ref().map_or(Ok(()), consistency::judge_leader)?;
    let name = own("configuration block");
    let config: Option<ConfigBlock> = read(control_area, control::CONFIG, name)?;
    if group != 0 && config.is_none() {
        return Err(LinesError::Missing(name));
    }
    if let Some(config) = &config {
        consistency::judge_config(config, group)?;
    }
    // Of an acceptor whose host is apart; a node that is whole has none.
    let host: Option<HostLine> = read(control_area, control::HOST, own("host line"))?;
    host.as_ref().map_or(Ok(()), consistency::judge_host)?;
    let host_end = control::HOST + size_of::<HostLine>() as u64;
    expect_zeros("control", control_area, host_end, control::REQUESTS)?;
    for peer in 0..16 {
        let name = Name { line: "request line", peer };
        let request: Option<RequestLine> = read(control_area, request_of(NodeId(peer)), name)?;
        request.map_or(Ok(()), |request| consistency::judge_request(&request, name))?;
        let name = Name { line: "answer line", peer };
        let answer: Option<AnswerLine> = read(control_area, answer_of(NodeId(peer)), name)?;
        answer.map_or(Ok(()), |answer| consistency::judge_answer(&answer, name))?;
    }
    expect_zeros("control", control_area, control::ANSWERS + 16 * MAIL_LEN, control::CONFIG)?;
    let config_end = control::CONFIG + size_of::<ConfigBlock>() as u64;
    expect_zeros("control", control_area, config_end, control::LEN)?;

    let beat = read(log_area, log::BEAT, own("beat line"))?;
    beat.as_ref().map_or(Ok(()), consistency::judge_beat)?;
    expect_zeros("log", log_area, log::BEAT + size_of::<BeatLine>() as u64, log::RING)?;
    Ok(Lines { header, group, progress, leader, config, beat })
}
