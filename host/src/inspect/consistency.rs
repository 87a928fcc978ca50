//! Whether the fields of a line agree with each other and with the region they are in: a right CRC only says that somebody
//! wrote just these bytes. Not: the CRC, and where the lines are.

use ringleader_core::entry::SLOT_ALIGN;
use ringleader_core::layout::{
    AnswerLine, BeatLine, ConfigBlock, Header, HostLine, LAYOUT_VERSION, LeaderLine, MAGIC, MemberRecord,
    ProgressLine, RequestLine, beat_flags, host_flags, progress_flags,
};
use ringleader_core::types::{MAX_NODES, NodeId, Promise};

use super::lines::{Identity, LinesError, Name, own};

/// Makes the error of a field that does not hold what it must.
fn field(line: Name) -> impl Fn(&'static str, u64, bool) -> Result<(), LinesError> {
    move |field, found, right| if right { Ok(()) } else { Err(LinesError::Field { line, field, found }) }
}

/// The words kept for later are zero.
fn reserved(line: Name, words: &[u64]) -> Result<(), LinesError> {
    let found = words.iter().copied().find(|word| *word != 0);
    found.map_or(Ok(()), |found| field(line)("reserved", found, false))
}

fn is_known(flags: u64, known: u64) -> bool {
    flags & !known == 0
}

/// Whether a promise word names nobody, or a node.
fn is_promise(word: u64) -> bool {
    let node = Promise(word).node();
    node == NodeId::NOBODY || node.is_valid()
}

pub(super) fn judge_header(header: &Header, identity: &Identity) -> Result<(), LinesError> {
    let name = own("header line");
    let is = field(name);
    is("magic", header.magic, header.magic == MAGIC)?;
    if header.layout != LAYOUT_VERSION {
        return Err(LinesError::Layout { found: header.layout });
    }
    is("flags", u64::from(header.flags), header.flags == 0)?;
    is("node", header.node, header.node == identity.node)?;
    is("incarnation", header.incarnation, header.incarnation == identity.incarnation)?;
    is("boot", header.boot, header.boot == identity.boot)?;
    is("ring_len", header.ring_len, header.ring_len == identity.ring_len)?;
    let max_entry = header.max_entry;
    let is_slot = max_entry > 0 && max_entry.is_multiple_of(SLOT_ALIGN) && max_entry <= header.ring_len / 8;
    is("max_entry", max_entry, is_slot)?;
    // The node's own; that of its host, where that is apart.
    is("proposer", header.proposer, header.proposer != 0)?;
    reserved(name, &header.reserved)
}

pub(super) fn judge_progress(
    line: &ProgressLine,
    identity: &Identity,
    is_apart: bool,
) -> Result<(), LinesError> {
    use progress_flags::{AWAY, FORMED, HOST_ALIVE, LEADER, QUIET, WANTS};
    let name = own("progress line");
    let is = field(name);
    is("boot", line.boot, line.boot == identity.boot)?;
    is("promise", line.promise, is_promise(line.promise))?;
    is("grant", line.grant, is_promise(line.grant))?;
    let of_hosts = if is_apart { WANTS } else { 0 };
    is("flags", line.flags, is_known(line.flags, QUIET | LEADER | HOST_ALIVE | FORMED | AWAY | of_hosts))?;
    // What an acceptor tells its host, where that is apart.
    let told =
        [("anchor", line.anchor), ("start", line.start), ("save", line.save), ("save_by", line.save_by)];
    told.into_iter().try_for_each(|(field, found)| is(field, found, is_apart || found == 0))?;
    is("start", line.start, line.start <= line.anchor)?;
    reserved(name, &line.reserved)
}

pub(super) fn judge_host(line: &HostLine) -> Result<(), LinesError> {
    use host_flags::{AWAY, LEADS, UNABLE, WANTS};
    let name = own("host line");
    let is = field(name);
    is("flags", line.flags, is_known(line.flags, LEADS | AWAY | WANTS | UNABLE))?;
    is("pad", u64::from(line.pad), line.pad == 0)?;
    reserved(name, &line.reserved)
}

pub(super) fn judge_leader(line: &LeaderLine) -> Result<(), LinesError> {
    let name = own("leader line");
    field(name)("flags", line.flags, line.flags == 0)?;
    reserved(name, &line.reserved)
}

pub(super) fn judge_beat(line: &BeatLine) -> Result<(), LinesError> {
    let name = own("beat line");
    let is = field(name);
    is("leader", line.leader, is_promise(line.leader))?;
    is("flags", line.flags, is_known(line.flags, beat_flags::YIELDING))?;
    reserved(name, &[line.reserved])
}

pub(super) fn judge_request(line: &RequestLine, name: Name) -> Result<(), LinesError> {
    field(name)("padding", u64::from(line.padding), line.padding == 0)?;
    reserved(name, &line.reserved)
}

pub(super) fn judge_answer(line: &AnswerLine, name: Name) -> Result<(), LinesError> {
    let is = field(name);
    is("promise", line.promise, is_promise(line.promise))?;
    is("padding", u64::from(line.padding[0]), line.padding == [0; 6])?;
    reserved(name, &line.reserved)
}

/// `group` is the header's; 0 before the group is formed, when the block may hold what it is to become.
pub(super) fn judge_config(config: &ConfigBlock, group: u128) -> Result<(), LinesError> {
    let name = own("configuration block");
    let is = field(name);
    reserved(name, &config.reserved)?;
    if group != 0 {
        is("group_low", config.group_low, config.group_low == group as u64)?;
        is("group_high", config.group_high, config.group_high == (group >> 64) as u64)?;
    }
    // Members, in the order of their ids, then nothing.
    let count = config.members.iter().take_while(|member| member.node != 0).count();
    let mut last = 0;
    for member in &config.members[..count] {
        let node = member.node;
        is("member", u64::from(node), usize::from(node) <= MAX_NODES && node > last)?;
        is("role", u64::from(member.role), matches!(member.role, 1..=3))?;
        let len = usize::from(member.address_len);
        let rest = member.address.get(len..);
        is("address", len as u64, rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)))?;
        is("incarnation", member.incarnation, member.incarnation != 0)?;
        is("reserved", u64::from(member.reserved[0]), member.reserved == [0; 5])?;
        let removed = config.removed[usize::from(node) - 1];
        is("removed", removed, removed != member.incarnation)?;
        last = node;
    }
    let stray = config.members[count..].iter().find(|member| **member != MemberRecord::default());
    is("member", stray.map_or(0, |member| u64::from(member.node)), stray.is_none())?;
    // It need not name this node: one that came later, or was removed, holds configurations without it.
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use ringleader_core::layout::{Line, control, log, request_of};
    use ringleader_core::mem::{Area, Memory};

    use super::*;
    use crate::inspect::read_lines;

    const RING: u64 = 512 << 10;
    const IDENTITY: Identity = Identity { node: 2, boot: 5, incarnation: 7, ring_len: RING };

    struct Words(Box<[AtomicU64]>);

    impl Memory for Words {
        fn words(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    fn area(len: u64) -> Area<Words> {
        Area::new(Words((0..len / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    struct All {
        header: Header,
        progress: ProgressLine,
        leader: LeaderLine,
        host: HostLine,
        config: ConfigBlock,
        beat: BeatLine,
        request: RequestLine,
        answer: AnswerLine,
    }

    /// All lines of a node that leads, with their CRCs right.
    fn judged(change: impl FnOnce(&mut All)) -> Result<(), String> {
        let mut config = ConfigBlock { group_low: 3, group_high: 4, ..ConfigBlock::default() };
        for (record, node) in config.members.iter_mut().zip([1, 2, 15]) {
            *record =
                MemberRecord { incarnation: u64::from(node) + 5, node, role: 1, ..MemberRecord::default() };
        }
        let header = Header {
            magic: MAGIC,
            layout: LAYOUT_VERSION,
            group_low: 3,
            group_high: 4,
            node: 2,
            incarnation: 7,
            boot: 5,
            ring_len: RING,
            max_entry: RING / 8,
            proposer: 5,
            ..Header::default()
        };
        let mut all = All {
            header,
            progress: ProgressLine { boot: 5, promise: 9 << 8 | 2, flags: 15, ..ProgressLine::default() },
            leader: LeaderLine { term: 9, ..LeaderLine::default() },
            config,
            beat: BeatLine { leader: 9 << 8 | 15, flags: 1, ..BeatLine::default() },
            request: RequestLine::default(),
            host: HostLine { flags: 15, ..HostLine::default() },
            answer: AnswerLine { promise: 9 << 8 | 2, ..AnswerLine::default() },
        };
        change(&mut all);
        let (control, log) = (area(control::LEN), area(log::len(RING)));
        all.header.write(&control, control::HEADER, 1);
        all.progress.write(&control, control::PROGRESS, 1);
        all.leader.write(&control, control::LEADER, 1);
        all.host.write(&control, control::HOST, 1);
        all.config.write(&control, control::CONFIG, 1);
        all.request.write(&control, request_of(NodeId(3)), 1);
        all.answer.write(&control, ringleader_core::layout::answer_of(NodeId(3)), 1);
        all.beat.write(&log, log::BEAT, 1);
        read_lines(&control, &log, &IDENTITY).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn sealed_nonsense_is_named() {
        assert_eq!(judged(|_| ()), Ok(()));
        let unformed = |all: &mut All| (all.header.group_low, all.header.group_high) = (0, 0);
        assert_eq!(judged(unformed), Ok(()));
        let apart = |all: &mut All| {
            all.header.proposer = 6;
            all.progress.flags |= progress_flags::WANTS;
            (all.progress.anchor, all.progress.start, all.progress.save) = (128, 64, 1);
        };
        assert_eq!(judged(apart), Ok(()));
        type Case = (&'static str, fn(&mut All));
        let cases: [Case; 34] = [
            ("header line (flags", |all| all.header.flags = 1),
            ("header line (max_entry", |all| all.header.max_entry = 0),
            ("header line (max_entry", |all| all.header.max_entry += 64),
            ("header line (max_entry", |all| all.header.max_entry = 65),
            ("header line (proposer", |all| all.header.proposer = 0),
            ("header line (reserved", |all| all.header.reserved[4] = 1),
            ("progress line (promise", |all| all.progress.promise |= 16),
            ("progress line (grant", |all| all.progress.grant = 255),
            ("progress line (flags", |all| all.progress.flags = 32),
            ("progress line (anchor", |all| all.progress.anchor = 64),
            ("progress line (start", |all| all.progress.start = 64),
            ("progress line (save", |all| all.progress.save = 1),
            ("host line (flags", |all| all.host.flags = 16),
            ("host line (reserved", |all| all.host.reserved[0] = 1),
            ("progress line (reserved", |all| all.progress.reserved[0] = 1),
            ("leader line (flags", |all| all.leader.flags = 1),
            ("leader line (reserved", |all| all.leader.reserved[2] = 1),
            ("configuration block (group_low", |all| all.config.group_low = 4),
            ("configuration block (group_high", |all| all.config.group_high = 0),
            ("configuration block (member", |all| all.config.members[2].node = 16),
            ("configuration block (member", |all| all.config.members[0].node = 2),
            ("configuration block (member", |all| all.config.members[4] = all.config.members[2]),
            ("configuration block (role", |all| all.config.members[0].role = 0),
            ("configuration block (incarnation", |all| all.config.members[0].incarnation = 0),
            ("configuration block (address", |all| all.config.members[1].address_len = 49),
            ("configuration block (reserved", |all| all.config.members[1].reserved[1] = 1),
            ("configuration block (reserved", |all| all.config.reserved[0] = 1),
            ("configuration block (removed", |all| {
                all.config.removed[0] = all.config.members[0].incarnation;
            }),
            ("configuration block (address", |all| all.config.members[1].address[5] = 1),
            ("beat line (leader", |all| all.beat.leader = 16),
            ("beat line (flags", |all| all.beat.flags = 2),
            ("request line of node 3 (reserved", |all| all.request.reserved[0] = 1),
            ("answer line of node 3 (promise", |all| all.answer.promise = 16),
            ("answer line of node 3 (reserved", |all| all.answer.reserved[4] = 1),
        ];
        for (at, (name, spoil)) in cases.into_iter().enumerate() {
            let said = judged(spoil).expect_err(name);
            assert!(said.contains(name), "case {at}: {said}");
        }
    }
}
