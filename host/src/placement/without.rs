//! Without DOCA a log is where its acceptor is, and what asks for anything else is refused.

use std::convert::Infallible;

use super::is_asked;
use crate::config::Config;
use crate::service::Error;
use crate::{Node, Options};

/// There is none.
pub(crate) struct Borrowed(Infallible);

/// See [`Borrowed`].
pub(crate) struct Watch(Infallible);

/// See [`Borrowed`].
pub(crate) struct Lent(Infallible);

/// The options as they are.
pub(crate) fn lend(
    config: &Config,
    options: Options,
    _stop: impl Fn() -> bool,
) -> Result<Option<(Options, Option<Lent>)>, Error> {
    refuse(config).map(|()| Some((options, None)))
}

/// The same.
pub(crate) fn borrow(
    config: &Config,
    options: Options,
    _stop: impl Fn() -> bool,
) -> Result<Option<(Options, Option<Borrowed>)>, Error> {
    refuse(config).map(|()| Some((options, None)))
}

fn refuse(config: &Config) -> Result<(), Error> {
    if !is_asked(config) {
        return Ok(());
    }
    let path = config.path.display();
    let what = "placement = \"host\" needs DOCA, which is not part of this build";
    Err(Error::Wrong(format!("{path}: {what}")))
}

impl Borrowed {
    pub(crate) fn accept(self) -> Result<Watch, Error> {
        match self.0 {}
    }
}

impl Lent {
    pub(crate) fn watch(self, _node: &Node) -> Result<(), Error> {
        match self.0 {}
    }
}

impl Watch {
    pub(crate) fn has_another_come(&mut self) -> bool {
        match self.0 {}
    }
}
