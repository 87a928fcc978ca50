//! The application's state on its way into a snapshot, or out of one. Meanwhile the state machine is in a thread of its own,
//! and the agent beats and votes without it: nothing is applied, however long it takes.

use std::io::{self, Write};
use std::panic;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use ringleader_core::mem::{Area, Memory};
use ringleader_core::snapshot::{Saved, TooLong, Writer};
use tracing::{Span, debug, warn};

use crate::app::StateMachine;

/// The state machine, here or in a thread that saves or loads.
#[derive(Debug)]
pub(crate) struct Machine<S> {
    /// `None` while it is away.
    here: Option<S>,
    away: Option<Away<S>>,
}

#[derive(Debug)]
struct Away<S> {
    number: u32,
    thread: JoinHandle<(S, Outcome)>,
}

/// How a save or a load ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Saved(Option<Saved>),
    Loaded(bool),
}

impl<S: StateMachine> Machine<S> {
    pub(crate) fn new(machine: S) -> Machine<S> {
        Machine { here: Some(machine), away: None }
    }

    /// The state machine, when it is here.
    #[inline]
    pub(crate) fn here(&mut self) -> Option<&mut S> {
        self.here.as_mut()
    }

    /// Sends it to write its state into the snapshot area.
    pub(crate) fn save<M>(&mut self, area: &Area<M>, number: u32) -> Option<Outcome>
    where
        M: Memory + Clone + Send + 'static,
    {
        let area = area.clone();
        let failed = Outcome::Saved(None);
        self.send(number, failed, move |machine| {
            let mut out = Saving { writer: Writer::new(&area), is_full: false };
            let saved = machine.save(&mut out);
            if out.is_full {
                let room = area.len() >> 20;
                warn!(
                    "the state does not fit into a snapshot, for which there are {room} MiB: see `snapshot`"
                );
                return failed;
            }
            match saved {
                Ok(()) => {
                    let saved = out.writer.finish();
                    debug!(bytes = saved.len, "saved the state");
                    Outcome::Saved(Some(saved))
                }
                Err(error) => {
                    warn!(%error, "cannot save the state");
                    failed
                }
            }
        })
    }

    /// Sends it to become what the first `len` bytes in the snapshot area say.
    pub(crate) fn load<M>(&mut self, area: &Area<M>, number: u32, len: u64) -> Option<Outcome>
    where
        M: Memory + Clone + Send + 'static,
    {
        let area = area.clone();
        let failed = Outcome::Loaded(false);
        self.send(number, failed, move |machine| {
            let Some(state) = area.lend_loading(len) else { return failed };
            match machine.load(state) {
                Ok(()) => {
                    debug!(bytes = len, "loaded a state");
                    Outcome::Loaded(true)
                }
                Err(error) => {
                    warn!(%error, "cannot load the state of another node");
                    failed
                }
            }
        })
    }

    /// `None`: it is on its way. Else that is how it ended.
    fn send(
        &mut self,
        number: u32,
        failed: Outcome,
        work: impl FnOnce(&mut S) -> Outcome + Send + 'static,
    ) -> Option<Outcome> {
        let Some(machine) = self.here.take() else { return Some(failed) };
        let span = Span::current();
        // What a thread that cannot be started was given would be gone: it is sent when there is one.
        let (give, take) = sync_channel::<S>(1);
        let spawned = thread::Builder::new().name("rl-snapshot".to_owned()).spawn(move || {
            let _entered = span.enter();
            let mut machine = take.recv().expect("whoever started this thread sends next");
            let outcome = work(&mut machine);
            (machine, outcome)
        });
        let thread = match spawned {
            Ok(thread) => thread,
            Err(error) => {
                warn!(%error, "no thread for a snapshot");
                self.here = Some(machine);
                return Some(failed);
            }
        };
        give.send(machine).unwrap_or_else(|_| unreachable!("the thread takes it before anything else"));
        self.away = Some(Away { number, thread });
        None
    }

    /// Takes it back when it is done: which number, and how it ended.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<(u32, Outcome)> {
        if self.away.as_ref()?.thread.is_finished() { self.take_back() } else { None }
    }

    /// Waits for it, if it is away. A panic of the application is one of the agent.
    pub(crate) fn take_back(&mut self) -> Option<(u32, Outcome)> {
        let Away { number, thread } = self.away.take()?;
        let (machine, outcome) = thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        self.here = Some(machine);
        Some((number, outcome))
    }
}

/// Where a state is written to.
struct Saving<'a, M> {
    writer: Writer<'a, M>,
    is_full: bool,
}

impl<M: Memory> Write for Saving<'_, M> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.writer.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(TooLong) => {
                self.is_full = true;
                Err(io::Error::new(io::ErrorKind::StorageFull, "the snapshot area is full"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
