//! `ringleader-dpu run`: the acceptor of a node as a process of its own, until a signal ends it. Its application is elsewhere: here
//! are only the socket by which it is asked how it is, and what is said of its changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{self, Asked, Control};
use super::{Error, bind_health, options_of, say, start_agent};
use crate::config::{Config, Dpu};
use crate::health::{Nodes, describe_acceptor};
use crate::placement::{self, Borrowed, Watch};
use crate::signals::Signals;
use crate::{Acceptor, Status};

/// How often it is looked at.
const NAP: Duration = Duration::from_millis(2);

/// Runs the acceptor of this configuration until a signal comes. `look` is shown how it is again and again, some hundred times a
/// second, on this thread.
pub fn run_acceptor(config: &Config, mut look: impl FnMut(&Status)) -> Result<(), Error> {
    let Some(Dpu { control, .. }) = &config.dpu else {
        let what = "no table [dpu]: the acceptor of this node is not apart, and ringleader run runs it";
        return Err(Error::Wrong(format!("{}: {what}", config.path.display())));
    };
    let signals = Signals::install().map_err(|error| Error::Failed(error.to_string()))?;
    let control = Control::bind(control).map_err(Error::Wrong)?;
    let door = bind_health(std::slice::from_ref(config))?;
    let agent = start_agent(std::slice::from_ref(config))?;
    let borrowed = placement::borrow(config, options_of(config)?, || signals.is_raised())?;
    let Some((options, host)) = borrowed else { return Ok(()) };
    let acceptor = Acceptor::open_on(&agent, options).map_err(|error| Error::Wrong(error.to_string()))?;
    let mut watch = host.map(Borrowed::accept).transpose()?;
    let mut look = |status: &Status| {
        look(status);
        watch.as_mut().is_some_and(Watch::has_another_come)
    };
    let watched = Nodes::new(&agent).with_acceptor(config.group, &acceptor);
    let health = door.open(watched).map_err(|error| Error::Failed(error.to_string()))?;
    let ended = attend(config, &acceptor, &control, &signals, &mut look);
    health.stopping();
    let closed = acceptor.close().map_err(|error| Error::Failed(error.to_string()));
    closed.and(ended)
}

fn attend(
    config: &Config,
    acceptor: &Acceptor,
    control: &Control,
    signals: &Signals,
    look: &mut impl FnMut(&Status) -> bool,
) -> Result<(), Error> {
    let (stop, asked) = (AtomicBool::new(false), Asked::default());
    let (mut shown, mut said) = (None, String::new());
    thread::scope(|scope| {
        let ended = loop {
            if signals.is_raised() {
                break Ok(());
            }
            let status = acceptor.status();
            if status.closed {
                break Err(Error::Failed("the agent has ended".to_owned()));
            }
            if look(&status) {
                let what =
                    "its host came again with other memory, and the log was in the former: start it anew";
                break Err(Error::Failed(what.to_owned()));
            }
            // What of it is said.
            let Status { formed, removed, term, leader, host, .. } = status;
            let about = Some((formed, removed, term, leader, host));
            if shown != about {
                let line = describe_acceptor(config.group.as_str(), &status);
                // Another host may be told of by the same words.
                if line != said {
                    say(format_args!("{line}"));
                }
                (shown, said) = (about, line);
            }
            // Events are for applications.
            while acceptor.next_event().is_some() {}
            let mut fds = [
                PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(control.fd(), PollFlags::IN),
            ];
            let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(NAP.subsec_nanos()) };
            // A signal ends it early, and is looked for next.
            let _ = poll(&mut fds, Some(&nap));
            control::answer_all(control, scope, acceptor.node(), config.group, &asked, &stop);
        };
        stop.store(true, Ordering::Relaxed);
        ended
    })
}
