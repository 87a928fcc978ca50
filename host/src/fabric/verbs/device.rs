//! An opened device with what all groups of one agent thread share on it: the context, and one completion queue a plane, each
//! large enough for the send queues of all groups together. Not: domains and memory, of which each group has its own
//! (`parts`): a key is void on every queue pair of another group.
//!
//! Whichever group polls a queue takes what it finds there for all of them: a work request's id ([`WorkId`]) says whose it is,
//! and what belongs to another waits in that one's inbox for its turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{debug, error, info, warn};

use super::context::{AsyncEvent, Context, Limits};
use super::cq::{CompletionQueue, Done};
use super::error::VerbsError;
use super::memory::{check_environment, check_memlock};
use super::place::HostLog;
use super::port::{self, Choice, Port};
use super::posted::DEPTH;
use super::receives::Channel;
use super::worker::End;

/// Groups on one device of one thread: as many as [`WorkId`] has numbers for.
pub(super) const PLACES: usize = 64;
/// Queue pairs of one kind that a group has to one peer: the one in use, and the one that replaces it before its last completions
/// are taken.
const A_PEER: u64 = 2;
/// Peers that a queue has room for at least.
const PEERS: u64 = 16;

/// Completions of one plane of a group with so many peers: the sum of all send queues, for on an error each request completes. An
/// acceptor's ends post nothing there.
pub(super) fn completions_of(peers: u64) -> u64 {
    A_PEER * peers * DEPTH as u64
}

/// Whose a request is, and which one: its id at the device.
///
/// From the top: place 6 bits, log plane 1, peer 4, life 21, number 32. The core's own id, which has no bit to spare, is found
/// again where the request is remembered as posted. (The number of a queue pair, which a completion tells, too, would have to be
/// looked up in a table for each, and says nothing of which life of which group it was.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WorkId {
    /// The group's place at the device.
    pub(super) place: u8,
    /// Which group had the place: a completion of a former one may still come.
    pub(super) life: u32,
    pub(super) end: End,
    pub(super) peer: u8,
    /// Counts the requests of this end.
    pub(super) number: u32,
}

const LIFE_BITS: u32 = 21;
const LIFE_MASK: u32 = (1 << LIFE_BITS) - 1;

impl WorkId {
    #[inline(always)]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.place) << 58
            | u64::from(self.end == End::Log) << 57
            | u64::from(self.peer & 15) << 53
            | u64::from(self.life & LIFE_MASK) << 32
            | u64::from(self.number)
    }

    #[inline(always)]
    pub(super) fn unpack(word: u64) -> WorkId {
        WorkId {
            place: (word >> 58) as u8,
            end: if word >> 57 & 1 == 1 { End::Log } else { End::Control },
            peer: (word >> 53) as u8 & 15,
            life: (word >> 32) as u32 & LIFE_MASK,
            number: word as u32,
        }
    }
}

/// An opened device, shared by the groups of one agent thread.
#[derive(Debug)]
pub struct Device {
    pub(super) context: Arc<Context>,
    pub(super) port: Port,
    pub(super) limits: Limits,
    pub(super) is_software: bool,
    pub(super) control_cq: Arc<CompletionQueue>,
    pub(super) log_cq: Arc<CompletionQueue>,
    completions: u64,
    taken: Mutex<Taken>,
    /// One bit a place with something in its inbox.
    waiting: AtomicU64,
    inboxes: Box<[Mutex<VecDeque<Done>>]>,
    channel: Mutex<Option<Arc<Channel>>>,
    news: Mutex<News>,
}

/// What the groups of a device need of it, together.
#[derive(Debug, Default)]
struct Taken {
    places: u64,
    lives: u32,
    completions: u64,
    queue_pairs: u64,
    locked: u64,
}

/// What a group needs of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) completions: u64,
    pub(super) queue_pairs: u64,
    /// Bytes of memory that are locked.
    pub(super) locked: u64,
}

/// What became known of a device beside any request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct News {
    pub(super) is_dead: bool,
    /// How often the port went up or down, and whether it is up since.
    pub(super) port_changes: u64,
    pub(super) is_port_up: bool,
}

/// A group's place at a device, and what it needs of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    device: Arc<Device>,
    needs: Needs,
    pub(super) at: u8,
    pub(super) life: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics with one of these in hand; and counts and queues are whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Opens a device for so many groups of so many peers each. Groups of more peers find room for fewer of them.
    pub fn open(choice: &Choice, groups: usize, peers: usize) -> Result<Arc<Device>, VerbsError> {
        check_environment()?;
        let (context, port) = port::open(choice)?;
        Device::with(context, port, groups, peers)
    }

    /// The one by which a host's memory can be reached, for the one group whose log is there.
    pub fn lent(log: &HostLog, choice: &Choice, peers: usize) -> Result<Arc<Device>, VerbsError> {
        check_environment()?;
        let context = Context::lent(log)?;
        if let Some(wanted) = choice.device.as_ref().filter(|wanted| *wanted != context.name()) {
            let there = vec![context.name().to_owned()];
            return Err(VerbsError::NoDevice { wanted: Some(wanted.clone()), there });
        }
        let port = port::find(&context, choice)?;
        Device::with(context, port, 1, peers)
    }

    fn with(
        context: Arc<Context>,
        port: Port,
        groups: usize,
        peers: usize,
    ) -> Result<Arc<Device>, VerbsError> {
        let limits = context.limits()?;
        let is_software = context.is_software();
        let wanted = groups.min(PLACES) as u64 * completions_of(peers as u64);
        // With less than one group needs there is no use; the group that asks says how much that is.
        let completions = wanted.max(completions_of(PEERS)).min(limits.completions.max(1));
        let cq = || CompletionQueue::new(&context, completions as u32);
        Ok(Arc::new(Device {
            port,
            limits,
            is_software,
            control_cq: cq()?,
            log_cq: cq()?,
            completions,
            taken: Mutex::default(),
            waiting: AtomicU64::new(0),
            inboxes: (0..PLACES).map(|_| Mutex::default()).collect(),
            channel: Mutex::default(),
            news: Mutex::default(),
            context,
        }))
    }

    /// A place for a group, if the device has what it needs.
    pub(super) fn take_place(self: &Arc<Device>, needs: Needs) -> Result<Place, VerbsError> {
        let mut taken = lock(&self.taken);
        let check = |what, needed, limit| {
            if needed <= limit {
                Ok(())
            } else {
                Err(VerbsError::Limit { device: self.context.name().to_owned(), what, needed, limit })
            }
        };
        let at = taken.places.trailing_ones();
        check("groups of one agent thread", u64::from(at) + 1, PLACES as u64)?;
        check("queue pairs", taken.queue_pairs + needs.queue_pairs, self.limits.queue_pairs)?;
        check("requests of one queue pair", DEPTH as u64, self.limits.requests)?;
        check("completions of one queue", taken.completions + needs.completions, self.completions)?;
        check_memlock(taken.locked + needs.locked)?;
        taken.places |= 1 << at;
        taken.lives = (taken.lives + 1) & LIFE_MASK;
        taken.completions += needs.completions;
        taken.queue_pairs += needs.queue_pairs;
        taken.locked += needs.locked;
        // Both planes: nothing is allocated when completions come.
        lock(&self.inboxes[at as usize]).reserve(2 * needs.completions as usize);
        Ok(Place { device: Arc::clone(self), needs, at: at as u8, life: taken.lives })
    }

    /// Groups that are on it.
    pub(super) fn groups(&self) -> u32 {
        lock(&self.taken).places.count_ones()
    }

    /// Keeps a completion for the group that it belongs to.
    #[cold]
    pub(super) fn keep(&self, place: u8, done: Done) {
        let Some(inbox) = self.inboxes.get(usize::from(place)) else { return };
        lock(inbox).push_back(done);
        self.waiting.fetch_or(1 << place, Ordering::Relaxed);
    }

    /// Whether completions of a group were kept.
    #[inline(always)]
    pub(super) fn has_kept(&self, place: u8) -> bool {
        // One thread polls for all its groups: it reads what it wrote itself.
        self.waiting.load(Ordering::Relaxed) >> place & 1 == 1
    }

    /// Hands over what was kept for a group.
    #[cold]
    pub(super) fn take_kept(&self, place: u8, mut each: impl FnMut(Done)) {
        self.waiting.fetch_and(!(1 << place), Ordering::Relaxed);
        if let Some(inbox) = self.inboxes.get(usize::from(place)) {
            lock(inbox).drain(..).for_each(&mut each);
        }
    }

    /// Where queues of receives tell that a WRITE has come: one descriptor, whichever group it wakes.
    pub(super) fn channel(&self) -> Result<Arc<Channel>, VerbsError> {
        let mut channel = lock(&self.channel);
        match &*channel {
            Some(channel) => Ok(Arc::clone(channel)),
            None => Ok(Arc::clone(channel.insert(Channel::new(&self.context)?))),
        }
    }

    /// What is known of the device by now. Each event is told once, to whoever asks first; what it means is for all.
    pub(super) fn news(&self) -> News {
        let mut news = lock(&self.news);
        let device = self.context.name();
        while let Some(event) = self.context.poll_event() {
            match event {
                AsyncEvent::DeviceFatal | AsyncEvent::CompletionQueue => {
                    error!(device, ?event, "the device is gone");
                    news.is_dead = true;
                }
                AsyncEvent::Port { port, up } if port == self.port.number => {
                    if up {
                        info!(device, port, "the port is up")
                    } else {
                        warn!(device, port, "the port is down")
                    }
                    news.port_changes += 1;
                    news.is_port_up = up;
                }
                // Whoever waits for it gets a completion with an error, or the session ends.
                AsyncEvent::QueuePair { number, event } => {
                    debug!(device, number, event, "a queue pair is in error")
                }
                other => debug!(device, event = ?other),
            }
        }
        *news
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.device.taken);
        taken.places &= !(1 << self.at);
        taken.completions -= self.needs.completions;
        taken.queue_pairs -= self.needs.queue_pairs;
        taken.locked -= self.needs.locked;
        lock(&self.device.inboxes[usize::from(self.at)]).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_id_comes_back_as_it_was() {
        for place in [0, 1, 63] {
            for (end, peer, life, number) in
                [(End::Log, 15, LIFE_MASK, u32::MAX), (End::Control, 1, 0, 0), (End::Log, 0, 1, 1 << 31)]
            {
                let id = WorkId { place, life, end, peer, number };
                assert_eq!(WorkId::unpack(id.pack()), id);
            }
        }
    }
}
