//! What a WRITE or READ does to memory, a piece at a time: sent, on its way, judged by the acceptor's end, landed.

use std::sync::atomic::Ordering;

use ringleader_core::layout::log;
use ringleader_core::mem::Memory;
use ringleader_core::types::Epoch;
use ringleader_core::verb::{Plane, Status};

use super::ends::{GateState, Op, PipeId, PipeState, Readable, Shape, Written};
use super::{Fabric, Happening, Home, SimArea, fingerprint, same};

/// Most pieces of one verb; a boundary can be anywhere, so a few show all that many would.
const MAX_PIECES: u64 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// About to be read from its source.
    Send,
    /// On its way.
    Arrive,
    /// Past the permission check.
    Land,
}

/// A part of a verb.
#[derive(Debug)]
pub(super) struct Piece {
    pipe: PipeId,
    life: u32,
    serial: u64,
    /// Place in the verb.
    offset: u64,
    len: u64,
    stage: Stage,
    /// The bytes, once they have left their source.
    data: Vec<u64>,
    flight_ns: u64,
    landing_ns: u64,
    /// Numbers of both ends when it was sent, and the life of the memory it is for.
    ours: u64,
    theirs: u64,
    target_life: u32,
    epoch: Epoch,
    /// Where it goes, in the target's area.
    to: u64,
    /// Which is its snapshot area.
    in_snapshot: bool,
    /// It counts as placed, and is not.
    early: bool,
}

impl Fabric {
    /// Cuts a verb that was just posted into pieces and sends them on their way, `after_ns` from now.
    pub(super) fn send_pieces(&mut self, id: PipeId, serial: u64, after_ns: u64) {
        let op = self.pipe_mut(id).op(serial).expect("a verb is outstanding while it is sent");
        let (shape, epoch) = (op.shape, op.id.epoch);
        let in_snapshot = matches!(shape, Shape::Write { source: Written::Snapshot, .. });
        let (len, is_write, to) = match shape {
            Shape::Write { len, to, .. } => (len, true, to),
            Shape::Read { len, to, .. } => (len, false, to),
            Shape::Confirm { to, .. } => (8, false, to),
        };
        let split = self.rng.chance(self.weather.split_ppm);
        let grain = if split && self.rng.chance(self.weather.word_split_ppm) { 8 } else { 64 };
        let mut cuts = vec![0, len];
        if split && len > grain {
            let count = 1 + self.rng.below(MAX_PIECES.min(len / grain - 1).max(1));
            for _ in 0..count {
                cuts.push(self.rng.below(len / grain) * grain);
            }
            cuts.sort_unstable();
            cuts.dedup();
            if is_write {
                self.faults.split_writes += 1;
            } else {
                self.faults.split_reads += 1;
            }
        }
        let pipe = self.pipe_mut(id);
        let (life, ours, theirs, target_life) = (pipe.life, pipe.ours, pipe.theirs, pipe.target_life);
        pipe.op(serial).expect("still there").pieces = cuts.len() as u32 - 1;
        let base_ns = self.latency_ns();
        let slow_flight = self.weather.slow_flight.filter(|(slow, _)| *slow == id);
        for pair in cuts.windows(2) {
            let flight_ns = if let Some((_, flight_ns)) = slow_flight.filter(|_| is_write) {
                self.faults.in_flight += 1;
                flight_ns
            } else if is_write && self.rng.chance(self.weather.flight_ppm) {
                self.faults.in_flight += 1;
                1 + self.rng.below(self.weather.flight_ns)
            } else {
                0
            };
            let landing_ns = if is_write && self.rng.chance(self.weather.landing_ppm) {
                self.faults.late_landings += 1;
                1 + self.rng.below(self.weather.landing_ns)
            } else {
                0
            };
            let own_ns = if split { self.latency_ns() } else { base_ns };
            let piece = Piece {
                pipe: id,
                life,
                serial,
                offset: pair[0],
                len: pair[1] - pair[0],
                stage: Stage::Send,
                data: Vec::new(),
                flight_ns,
                landing_ns,
                ours,
                theirs,
                target_life,
                epoch,
                to: to + pair[0],
                in_snapshot,
                early: false,
            };
            self.schedule(after_ns + own_ns, Happening::Piece(piece));
        }
    }

    pub(super) fn move_piece(&mut self, piece: Piece) {
        match piece.stage {
            Stage::Send => self.send(piece),
            Stage::Arrive => self.arrive(piece),
            Stage::Land => self.land(piece),
        }
    }

    fn send(&mut self, mut piece: Piece) {
        let now = self.now_ns;
        let id = piece.pipe;
        let unlucky = self.rng.chance(500_000);
        let pipe = self.pipe_mut(id);
        if pipe.life != piece.life || pipe.state != PipeState::Open {
            // Verbs before the one that failed were sent before it did.
            self.faults.dropped_pieces += 1;
            return self.lose(&piece);
        }
        let first = pipe.ops.front().map_or(0, |op| op.serial);
        let Some(op) = pipe.op(piece.serial) else { return };
        if op.end.is_some() {
            self.faults.dropped_pieces += 1;
            return;
        }
        let (shape, doomed) = (op.shape, op.doomed);
        let before = (piece.serial - first) as usize;
        // What was sent before to the same bytes lands before: one queue pair writes in order.
        if pipe.ops.iter().take(before).any(|other| other.pieces > 0 && other.shape.overlaps(&shape)) {
            let wait = 1 + self.weather.latency_ns.0 / 8;
            return self.schedule(wait, Happening::Piece(piece));
        }
        // Also where it completed before it landed.
        let again = matches!(shape, Shape::Write { to: log::BEAT, .. }) && id.plane == Plane::Log;
        if self.weather.early_ppm > 0 && again && self.gate(id.to, id.from).passed > 0 {
            let wait = 1 + self.weather.latency_ns.0 / 8;
            return self.schedule(wait, Happening::Piece(piece));
        }
        if doomed && unlucky {
            self.faults.partial_writes += 1;
            return self.fail(id, piece.life, piece.serial, Status::Failed);
        }
        let is_read = !matches!(shape, Shape::Write { .. });
        if self.is_cut(id.from, id.to) || is_read && self.is_cut(id.to, id.from) {
            return self.send_again(piece);
        }
        if id.plane == Plane::Control && self.memory_of(id.to) != Some(piece.target_life) {
            return self.no_answer(&piece, Status::Unreachable);
        }
        match shape {
            Shape::Confirm { from, to } => self.confirm(piece, from, to),
            Shape::Read { area, from, to, .. } => {
                let (Some(remote), Some(local)) = (self.home(id.to), self.home(id.from)) else { return };
                let (remote, local) = read_areas(area, remote, local);
                copy(remote, from + piece.offset, local, to + piece.offset, piece.len);
                self.faults.reads_of_the_dead += u64::from(self.process_of(id.to).is_none());
                self.placed(&piece);
            }
            Shape::Write { source, from, len, .. } => {
                let Some(home) = self.home(id.from) else { return };
                let area = source.area(home);
                let words = &area.memory().words()[((from + piece.offset) / 8) as usize..];
                piece.data.clear();
                piece
                    .data
                    .extend(words[..(piece.len / 8) as usize].iter().map(|w| w.load(Ordering::Relaxed)));
                // A large source is looked at once more at its completion; not at each of its pieces.
                let changed = len <= 4096 && {
                    let now_is = fingerprint(area, from, len);
                    self.pipe_mut(id).op(piece.serial).is_some_and(|op| op.fingerprint != now_is)
                };
                if changed && let Some(op) = self.pipe_mut(id).op(piece.serial) {
                    let request = op.id;
                    self.source_changed(id, request, &shape, "before it was sent");
                }
                piece.stage = Stage::Arrive;
                if piece.flight_ns == 0 {
                    self.arrive(piece);
                } else {
                    let wait = piece.flight_ns;
                    self.schedule(wait, Happening::Piece(piece));
                }
            }
        }
        debug_assert!(self.now_ns == now);
    }

    /// A READ of the log area is carried out behind all WRITEs before it, and when they have landed.
    fn confirm(&mut self, piece: Piece, from: u64, to: u64) {
        let id = piece.pipe;
        let gate = self.gate(id.to, id.from);
        let ours_match = gate.ours == piece.theirs && gate.theirs == piece.ours;
        if !ours_match || gate.state != GateState::Granted {
            let known = ours_match && gate.state != GateState::Closed;
            return self.refuse(&piece, known);
        }
        let landing = gate.passed > 0;
        let now = self.now_ns;
        let pipe = self.pipe_mut(id);
        let writing = pipe.ops.iter().any(|op| op.serial < piece.serial && op.pieces > 0);
        if landing || writing {
            if pipe.op(piece.serial).is_some_and(|op| op.deadline_ns <= now) {
                return self.expire(id, piece.life, piece.serial, Status::Unreachable);
            }
            let wait = 1 + self.weather.latency_ns.0 / 8;
            return self.schedule(wait, Happening::Piece(piece));
        }
        let (Some(remote), Some(local)) = (self.home(id.to), self.home(id.from)) else { return };
        copy(&remote.log, from, &local.staging, to, 8);
        self.placed(&piece);
    }

    fn arrive(&mut self, mut piece: Piece) {
        let id = piece.pipe;
        if self.is_cut(id.from, id.to) {
            return self.send_again(piece);
        }
        match id.plane {
            Plane::Control => {
                // A new connection drains the former one.
                if self.pipe(id).life != piece.life || self.memory_of(id.to) != Some(piece.target_life) {
                    self.faults.dropped_pieces += 1;
                    return self.lose(&piece);
                }
                let wait = piece.landing_ns;
                piece.stage = Stage::Land;
                if wait == 0 {
                    self.land(piece);
                } else {
                    self.schedule(wait, Happening::Piece(piece));
                }
            }
            Plane::Log => {
                let checks = self.weather.checks_permission;
                let gate = self.gate_mut(id.to, id.from);
                let ours_match = gate.ours == piece.theirs && gate.theirs == piece.ours;
                if !ours_match || checks && gate.state != GateState::Granted {
                    let known = ours_match && gate.state != GateState::Closed;
                    return self.refuse(&piece, known);
                }
                gate.passed += 1;
                if self.rng.chance(self.weather.early_ppm) {
                    piece.early = true;
                    self.faults.early_completions += 1;
                    self.placed(&piece);
                }
                let slow_ns = self.slow_landings_until[id.from.slot()].saturating_sub(self.now_ns);
                let wait = piece.landing_ns.max(self.rng.below(slow_ns));
                self.faults.late_landings += u64::from(wait > piece.landing_ns);
                piece.stage = Stage::Land;
                if wait == 0 {
                    self.land(piece);
                } else {
                    self.schedule(wait, Happening::Piece(piece));
                }
            }
        }
    }

    fn refuse(&mut self, piece: &Piece, known: bool) {
        let id = piece.pipe;
        self.faults.dropped_pieces += 1;
        let (now, epoch) = (self.now_ns, piece.epoch);
        let state = self.gate(id.to, id.from).state;
        self.trace.note(now, || {
            format!("{}: keeps out a piece from {} (its epoch {epoch}; {state:?})", id.to, id.from)
        });
        let status = if known { Status::Refused } else { Status::Unreachable };
        if known {
            self.faults.refused += 1;
            let breaks = self.rng.chance(self.weather.refusal_breaks_ppm);
            let gate = self.gate_mut(id.to, id.from);
            if breaks && gate.state == GateState::Armed {
                gate.state = GateState::Error;
            }
        }
        self.no_answer(piece, status);
    }

    fn land(&mut self, piece: Piece) {
        let id = piece.pipe;
        let arrived = self.memory_of(id.to) == Some(piece.target_life);
        if id.plane == Plane::Log {
            if !arrived {
                return self.lose(&piece);
            }
            let gate = self.gate_mut(id.to, id.from);
            gate.passed = gate.passed.saturating_sub(1);
        } else if !arrived || self.pipe(id).life != piece.life {
            return self.lose(&piece);
        }
        let Some(home) = self.home(id.to) else { return };
        let area = match id.plane {
            _ if piece.in_snapshot => &home.snapshot,
            Plane::Control => &home.control,
            Plane::Log => &home.log,
        };
        area.write(piece.to, &piece.data);
        self.landings += 1;
        let in_beat = id.plane == Plane::Log && piece.to < log::RING;
        self.beat_landed = in_beat.then_some(id.to);
        self.faults.writes_to_the_dead += u64::from(self.process_of(id.to).is_none());
        let (now, epoch) = (self.now_ns, piece.epoch);
        self.trace.note(now, || {
            format!(
                "{}: [{}, +{}] from {} lands in its {:?} area (epoch {epoch})",
                id.to, piece.to, piece.len, id.from, id.plane
            )
        });
        if !piece.early {
            self.placed(&piece);
        }
        if id.plane == Plane::Log {
            self.passed_landed(id.to, id.from);
        }
    }

    /// A piece is where it should be.
    fn placed(&mut self, piece: &Piece) {
        if self.count_down(piece) {
            self.count_torn(piece);
            if self.rng.chance(self.weather.ack_lost_ppm) {
                // It stays outstanding, and all behind it, until its end is closed.
                self.faults.lost_completions += 1;
                return;
            }
            let late = if self.rng.chance(self.weather.ack_late_ppm) {
                self.faults.late_completions += 1;
                self.rng.below(self.weather.ack_ns)
            } else {
                0
            };
            let after = self.rng.within(self.weather.latency_ns) + late;
            let (pipe, life, serial) = (piece.pipe, piece.life, piece.serial);
            self.schedule(after, Happening::Ack { pipe, life, serial });
        }
    }

    /// A READ is whole: are its words of different times?
    fn count_torn(&mut self, piece: &Piece) {
        let id = piece.pipe;
        let Some(&mut Op { shape: Shape::Read { area, from, to, len }, .. }) =
            self.pipe_mut(id).op(piece.serial)
        else {
            return;
        };
        let (Some(remote), Some(local)) = (self.home(id.to), self.home(id.from)) else { return };
        let (remote, local) = read_areas(area, remote, local);
        let torn = len > piece.len && !same(remote, from, local, to, len);
        self.faults.torn_reads += u64::from(torn);
    }

    /// A piece will never be where it should be.
    fn lose(&mut self, piece: &Piece) {
        let pipe = self.pipe_mut(piece.pipe);
        if pipe.life == piece.life && pipe.op(piece.serial).is_some_and(|op| op.end.is_none()) {
            self.no_answer(piece, Status::Unreachable);
        }
    }

    fn count_down(&mut self, piece: &Piece) -> bool {
        let pipe = self.pipe_mut(piece.pipe);
        if pipe.life != piece.life {
            return false;
        }
        let Some(op) = pipe.op(piece.serial) else { return false };
        op.pieces = op.pieces.saturating_sub(1);
        op.pieces == 0 && op.end.is_none()
    }

    /// The network lost a piece: it is read and sent once more, or given up.
    fn send_again(&mut self, mut piece: Piece) {
        let (now, resend_ns) = (self.now_ns, self.weather.resend_ns);
        let pipe = self.pipe_mut(piece.pipe);
        if pipe.life != piece.life {
            return;
        }
        let Some(op) = pipe.op(piece.serial) else { return };
        if op.end.is_some() {
            return;
        }
        if now + resend_ns > op.deadline_ns {
            return self.expire(piece.pipe, piece.life, piece.serial, Status::Unreachable);
        }
        self.faults.resends += 1;
        piece.stage = Stage::Send;
        self.schedule(resend_ns, Happening::Piece(piece));
    }

    /// The target does not take a piece: the poster learns it at once, or by the time-out.
    fn no_answer(&mut self, piece: &Piece, status: Status) {
        let now = self.now_ns;
        let prompt = self.rng.chance(self.weather.prompt_ppm);
        let soon = self.latency_ns();
        self.faults.silent_refusals += u64::from(!prompt);
        let pipe = self.pipe_mut(piece.pipe);
        if pipe.life != piece.life {
            return;
        }
        let Some(op) = pipe.op(piece.serial) else { return };
        let wait = if prompt { soon } else { op.deadline_ns.saturating_sub(now).max(soon) };
        let status = if prompt { status } else { Status::Unreachable };
        let (pipe, life, serial) = (piece.pipe, piece.life, piece.serial);
        self.schedule(wait, Happening::Expire { pipe, life, serial, status });
    }
}

/// Where a READ reads, and where it puts what it has read.
fn read_areas<'a>(area: Readable, remote: &'a Home, local: &'a Home) -> (&'a SimArea, &'a SimArea) {
    match area {
        Readable::Control => (&remote.control, &local.staging),
        Readable::Snapshot => (&remote.snapshot, &local.snapshot),
        Readable::OwnLines => (&remote.control, &local.control),
        Readable::OwnLog => (&remote.log, &local.log),
    }
}

fn copy(from: &SimArea, from_offset: u64, to: &SimArea, to_offset: u64, len: u64) {
    for at in (0..len).step_by(8) {
        to.store(to_offset + at, from.load(from_offset + at));
    }
}
