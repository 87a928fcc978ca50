//! What the service manager is told, over the socket that it names in the environment (sd_notify(3)). Without one there is nobody
//! to tell.

use std::env;
use std::time::{Duration, Instant};

use sd_notify::NotifyState::{self, Ready, Status, Stopping, Watchdog};
use tracing::debug;

/// The variables by which a process knows its service manager. Processes that it starts are not that service.
pub(crate) const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Manager {
    /// It ends the service when it is not told to be alive for so long.
    watchdog: Option<Duration>,
    told_at: Option<Instant>,
    status: String,
}

impl Manager {
    pub(super) fn of_environment() -> Option<Manager> {
        env::var_os(VARIABLES[0]).filter(|socket| !socket.is_empty())?;
        let watchdog = sd_notify::watchdog_enabled().filter(|watchdog| !watchdog.is_zero());
        Some(Manager { watchdog, told_at: None, status: String::new() })
    }

    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service is up.
    pub(super) fn ready(&self) {
        tell(&[Ready]);
    }

    /// How it is, when that has changed.
    pub(super) fn status(&mut self, line: &str) {
        // A line of its own would be another assignment.
        let line = line.replace('\n', " ");
        if line != self.status {
            tell(&[Status(&line)]);
            self.status = line;
        }
    }

    /// Whether it wants to hear now that the service is alive.
    pub(super) fn is_due(&self) -> bool {
        self.watchdog
            .is_some_and(|watchdog| self.told_at.is_none_or(|told_at| told_at.elapsed() >= watchdog / 3))
    }

    pub(super) fn alive(&mut self) {
        tell(&[Watchdog]);
        self.told_at = Some(Instant::now());
    }

    pub(super) fn stopping(&self) {
        tell(&[Stopping]);
    }
}

/// A manager that is gone hears nothing, and that is its own affair.
fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        debug!(%error, "the service manager cannot be told");
    }
}
