//! The host's side: a log area of its own, exported, and offered until its acceptor has taken it.
//!
//! Its own function gives nobody a key to it. The export ends with the node that has it: then nothing that was imported opens it any more.
//! An acceptor that comes after that one waits for memory before there is anything else of it, and this host's belongs to a life that is
//! over: so who does not reach its acceptor asks by the channel, too.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::layout::log;
use ringleader_core::mem::Memory;
use ringleader_doca::channel::{ChannelError, Client, Exported, Note, Offer};
use ringleader_doca::{Access, Device, Export, HostMemory, Range};

use super::about::{About, Lender};
use super::doca::{channel, library, wrong};
use super::is_asked;
use crate::config::Config;
use crate::fabric::verbs::{LentLog, LogPlace};
use crate::fabric::{Mapped, exportable};
use crate::random::random;
use crate::service::{Error, say};
use crate::{Node, Options, memory};

/// How long an acceptor is called before it is called anew, and how long it may take with an offer: it gets as much memory itself.
const CALL: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(60);
/// Between two looks at whether to go on.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks at whether the acceptor is reached, or two questions after it.
const SEEN: Duration = Duration::from_millis(200);

/// A host that has lent its log.
#[derive(Debug)]
pub(crate) struct Lent {
    device: Arc<Device>,
    about: About,
    /// What it has offered, by which it asks.
    offer: Offer,
}

/// A log area that can be exported.
pub(super) struct LogMemory {
    mapped: Mapped,
    /// The file that it is of, without a name.
    _file: OwnedFd,
}

// SAFETY: mapped, readable and writable, as long as `mapped` lives, and reached through atomics alone.
#[expect(unsafe_code, reason = "promises what a mapping is")]
unsafe impl HostMemory for LogMemory {
    fn range(&self) -> Range {
        let words = self.mapped.words();
        let range = Range::new(words.as_ptr().expose_provenance() as u64, size_of_val(words) as u64);
        range.expect("a mapping has bytes and does not wrap")
    }
}

/// The options of a host whose acceptor has its log; as they are, where nothing else is asked for. `None` when it was stopped before
/// there was one.
pub(crate) fn lend(
    config: &Config,
    mut options: Options,
    stop: impl Fn() -> bool,
) -> Result<Option<(Options, Option<Lent>)>, Error> {
    if !is_asked(config) {
        return Ok(Some((options, None)));
    }
    let about = About::of(config);
    let device = channel(&library()?, config)?;
    let memory = log_memory(log::len(options.ring_len))?;
    let mapped = memory.mapped.clone();
    let export = Export::new(&device, memory, Access::Write).map_err(wrong)?;
    let exported = Exported { descriptor: export.descriptor().clone(), range: export.range() };
    let number = random();
    let note = |is_had| Note::new(&about.encode(Lender { number, is_had }));
    let mut offer = Offer { exports: vec![exported], note: note(false) };
    say(format_args!(
        "node {} of {}: its log is in the memory of this host; waits for its acceptor on the DPU",
        config.node, config.group
    ));
    if !until_taken(&device, &about, offer.clone(), stop)? {
        return Ok(None);
    }
    options.log = LogPlace::Lent(LentLog { memory: mapped, lender: Arc::new(export) });
    offer.note = note(true);
    Ok(Some((options, Some(Lent { device, about, offer }))))
}

impl Lent {
    /// Looks after the acceptor of this node, as long as that runs, on a thread of its own.
    pub(crate) fn watch(self, node: &Node) -> Result<(), Error> {
        let (view, orphan) = (node.view(), node.orphaner());
        let watch = move || {
            while !view.status().closed {
                thread::sleep(SEEN);
                if view.status().acceptor_silent && self.is_given_up() {
                    return orphan();
                }
            }
        };
        thread::Builder::new().name("rl-lent".to_owned()).spawn(watch).map(drop).map_err(wrong)
    }

    /// Whether somebody answers for the acceptor, and has not its log in this host's memory.
    pub(super) fn is_given_up(&self) -> bool {
        let called = Client::connect(&self.device, &self.about.service(), Instant::now() + CALL);
        let asked = called.and_then(|client| client.exchange(&self.offer, Instant::now() + CALL));
        matches!(asked, Err(ChannelError::Refused { .. }))
    }
}

fn log_memory(len: u64) -> Result<LogMemory, Error> {
    if let Some(available) = memory::available().filter(|available| *available < len) {
        let (needed, available) = (len >> 20, available >> 20);
        return Err(wrong(format!("the log needs {needed} MiB of memory, and {available} MiB are free")));
    }
    let failed = |error: io::Error| wrong(format!("memory for the log: {error}"));
    let (mapped, file) = exportable(len).map_err(failed)?;
    Ok(LogMemory { mapped, _file: file })
}

/// Offers it until it is taken; false when it was stopped before. An acceptor may come late, or end over a former host's offer.
fn until_taken(
    device: &Arc<Device>,
    about: &About,
    offer: Offer,
    stop: impl Fn() -> bool,
) -> Result<bool, Error> {
    let (told, answers) = mpsc::channel();
    let (device, service) = (Arc::clone(device), about.service());
    // An end of the channel waits, and stays in its thread. One that is not waited for goes with the process.
    let ask = move || {
        loop {
            let called = Client::connect(&device, &service, Instant::now() + CALL);
            let asked = called.and_then(|client| client.exchange(&offer, Instant::now() + ANSWER));
            let again = matches!(asked, Err(ChannelError::Deadline { .. } | ChannelError::Gone { .. }));
            let heard = if again { None } else { Some(asked.map(|_| ())) };
            // Nobody hears it any more: it was stopped.
            if told.send(heard).is_err() || !again {
                return;
            }
        }
    };
    let asking = thread::Builder::new().name("rl-offer".to_owned()).spawn(ask).map_err(wrong)?;
    let asked = loop {
        if stop() {
            return Ok(false);
        }
        match answers.recv_timeout(LOOK) {
            Ok(Some(asked)) => break Some(asked),
            Ok(None) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    match (asking.join(), asked) {
        (Ok(()), Some(asked)) => asked.map(|()| true).map_err(wrong),
        _ => Err(Error::Failed("the thread that offers the log has panicked".to_owned())),
    }
}
