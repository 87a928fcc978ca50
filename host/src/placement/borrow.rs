//! The acceptor's side: it listens until its host offers its memory, and takes it if it is the right one's.
//!
//! What it gives back at its end is the key: the queue pairs of writers, which are the fence, go before (protocol.md 2, A2).

#![expect(unsafe_code, reason = "lends the fabric DOCA's protection domain")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringleader_core::layout::log;
use ringleader_doca::channel::{Answer, ChannelError, Note, Offer, Server};
use ringleader_doca::{Device, Domain, Import, Representor};
use tracing::{error, warn};

use super::about::{About, Lender};
use super::doca::{channel, library, table, verbs_device, wrong};
use super::is_asked;
use crate::Options;
use crate::config::Config;
use crate::fabric::verbs::{HostLog, LogPlace};
use crate::service::{Error, say};

/// Between two looks at whether to go on listening.
const LOOK: Duration = Duration::from_millis(100);
/// How long a host may take to hear an answer, and that to a question, while all others wait.
const ANSWER: Duration = Duration::from_secs(10);
const HEARD: Duration = Duration::from_secs(1);

/// Memory that was taken, and the host that waits to hear it.
pub(crate) struct Borrowed {
    server: Server,
    door: Door,
    /// Which start of it.
    host: u64,
}

/// Where hosts come to.
struct Door {
    representor: Arc<Representor>,
    about: About,
}

/// Looks for a host that comes again.
pub(crate) struct Watch {
    /// `None` where it cannot be listened.
    server: Option<Server>,
    door: Door,
    host: u64,
}

/// A host's memory in this process's hands.
struct Loan {
    /// `None` only while it is dropped.
    import: Option<Import>,
    /// It goes behind what is in it.
    domain: Domain,
}

/// The options of an acceptor with its host's memory, and that host; as they are, where nothing else is asked for. `None` when it was
/// stopped before one came.
pub(crate) fn borrow(
    config: &Config,
    mut options: Options,
    stop: impl Fn() -> bool,
) -> Result<Option<(Options, Option<Borrowed>)>, Error> {
    if !is_asked(config) {
        return Ok(Some((options, None)));
    }
    let (about, library) = (About::of(config), library()?);
    let host = table(config)?.host.as_deref().ok_or_else(|| {
        let path = config.path.display();
        let what = "placement = \"host\" needs the PCI address of the host's function, as in host = \"0000:3b:00.0\"";
        Error::Wrong(format!("{path}: {what} in [dpu]"))
    })?;
    let channel = channel(&library, config)?;
    let door = Door { representor: Representor::open(&channel, host).map_err(wrong)?, about };
    // A sub-function has its own device; the channel is the physical function's.
    let device = match verbs_device(config) {
        Some(named) if channel.listed().name.as_deref() != Some(named) => {
            Device::open(&library, named).map_err(wrong)?
        }
        _ => channel,
    };
    say(format_args!("node {} of {}: waits for its host's memory", config.node, config.group));
    loop {
        let mut server = door.listen().map_err(wrong)?;
        let Some(offer) = wait(&mut server, &stop)? else { return Ok(None) };
        match offer.map_err(|error| error.to_string()).and_then(|offer| take(&offer, &about, &device)) {
            Ok((log, host)) => {
                options.log = LogPlace::OfHost(log);
                return Ok(Some((options, Some(Borrowed { server, door, host }))));
            }
            Err(why) => {
                warn!(why, "what a host offers is refused");
                // It may be gone.
                let _ = server.answer(&Answer::Refused { why }, Instant::now() + ANSWER);
            }
        }
    }
}

/// What a host that comes says; `None` when it was stopped before.
fn wait(server: &mut Server, stop: &impl Fn() -> bool) -> Result<Option<Result<Offer, ChannelError>>, Error> {
    while !stop() {
        match server.offer(Instant::now() + LOOK) {
            Err(ChannelError::Deadline { .. }) => {}
            Err(error @ ChannelError::Doca(_)) => return Err(wrong(error)),
            heard => return Ok(Some(heard)),
        }
    }
    Ok(None)
}

/// Imports it, if it is what it should be. Returns whose it is, too.
fn take(offer: &Offer, about: &About, device: &Arc<Device>) -> Result<(HostLog, u64), String> {
    let Lender { number, is_had } = about.check(offer.note.secret())?;
    if is_had {
        return Err("the acceptor that had the log in this host's memory is gone".to_owned());
    }
    let [exported] = &offer.exports[..] else { return Err("a log is one piece of memory".to_owned()) };
    let (range, len) = (exported.range, log::len(about.ring_len));
    if range.len() != len {
        return Err(format!("the host's memory has {} bytes, and the log takes {len}", range.len()));
    }
    let text = |error: ringleader_doca::Error| error.to_string();
    let import = Import::new(device, &exported.descriptor, range).map_err(text)?;
    let domain = Domain::new(device).map_err(text)?;
    let (key, raw) = (import.key(&domain).map_err(text)?, domain.raw());
    let loan = Arc::new(Loan { import: Some(import), domain });
    // SAFETY: the domain is libibverbs', as DOCA says, and is valid as long as `Domain`, which the loan holds.
    Ok((unsafe { HostLog::new(raw, (range.address(), len), key, loan) }, number))
}

impl Door {
    fn listen(&self) -> Result<Server, ChannelError> {
        Server::listen(&self.representor, &self.about.service())
    }
}

impl Borrowed {
    /// Tells the host, now that the acceptor stands on its memory. Looks for another one from then on.
    pub(crate) fn accept(self) -> Result<Watch, Error> {
        let Borrowed { server, door, host } = self;
        let accepted = Answer::Accepted { note: Note::default() };
        let told = server.answer(&accepted, Instant::now() + ANSWER);
        told.map_err(|error| Error::Failed(format!("the host that has offered its memory: {error}")))?;
        let server = Some(door.listen().map_err(wrong)?);
        Ok(Watch { server, door, host })
    }
}

impl Watch {
    /// Whether a host offers memory again: that of the former one, and the log in it, is gone.
    pub(crate) fn has_another_come(&mut self) -> bool {
        let Some(server) = &mut self.server else {
            self.server = self.door.listen().ok();
            return false;
        };
        match server.offer(Instant::now()) {
            Ok(offer) => match self.door.about.check(offer.note.secret()) {
                Ok(lender) if lender.is_had => {
                    self.answer(lender);
                    false
                }
                // It is not answered, and asks whoever listens next.
                _ => true,
            },
            Err(ChannelError::Deadline { .. }) => false,
            Err(error) => {
                warn!(%error, "a host came, and offered nothing");
                self.server = None;
                false
            }
        }
    }
}

impl Watch {
    /// A host that does not reach its acceptor asks whether this is it.
    fn answer(&mut self, lender: Lender) {
        let Some(server) = self.server.take() else { return };
        let answer = match lender.number == self.host {
            true => Answer::Accepted { note: Note::default() },
            false => Answer::Refused { why: "the log is in the memory of another host".to_owned() },
        };
        // It may be gone, and asks again if it is not.
        let _ = server.answer(&answer, Instant::now() + HEARD);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(Err((_, error))) = self.import.take().map(Import::revoke) {
            let device = self.domain.device().listed();
            error!(%device, %error, "the key to the host's memory is not taken back: it is with the end of this process");
        }
    }
}

impl fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrowed").field("of", &self.door.about).finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("of", &self.door.about).finish_non_exhaustive()
    }
}
