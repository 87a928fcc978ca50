//! Forming a group: one explicit command, unanimous (protocol.md 10).
//!
//! The node that is told to collects the headers of all members, all fresh, draws a configuration and asks all to lock to its
//! hash; when all have, the group is formed, and every formed node tells the members that are only locked. Fresh nodes never
//! form by themselves: after a power cut a memory group is gone, and must not come back empty.

use crate::layout::{ConfigBlock, Line, RequestLine, control, request_kind, staging, verdict};
use crate::link::Link;
use crate::mark::{self, mark};
use crate::mem::{Area, Memory};
use crate::membership::{Configuration, Member};
use crate::options::Identity;
use crate::table::Table;
use crate::types::{Boot, NodeId};
use crate::verb::{Class, RequestId, Verb};

/// How far this node is with becoming a member.
#[derive(Clone, Hash, Debug)]
enum State {
    Fresh,
    /// Told to form; waiting until all are connected.
    Collecting {
        group: u128,
    },
    /// All were asked to lock to this.
    Asking {
        configuration: Configuration,
    },
    /// Locked to what the coordinator asked for.
    Locked {
        configuration: Configuration,
        coordinator: NodeId,
        boot: Boot,
    },
    Formed,
}

/// A coordinator's wish that waits for its configuration block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Wish {
    from: NodeId,
    boot: Boot,
    sequence: u64,
    hash: u64,
    posted: bool,
}

/// What is to be said to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) to: NodeId,
    pub(crate) boot: Boot,
    pub(crate) sequence: u64,
    pub(crate) verdict: u8,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Forming {
    me: Identity,
    state: State,
    wish: Option<Wish>,
}

impl Forming {
    pub(crate) fn new(me: Identity) -> Forming {
        Forming { me, state: State::Fresh, wish: None }
    }

    /// Nothing is being formed with this node.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self.state, State::Fresh)
    }

    /// It was told to form, and has asked nobody for anything yet.
    pub(crate) fn is_collecting(&self) -> bool {
        matches!(self.state, State::Collecting { .. })
    }

    /// The command. Ignored by nobody but a node that is already part of something.
    pub(crate) fn begin(&mut self, group: u128) -> bool {
        let may = matches!(self.state, State::Fresh | State::Collecting { .. } | State::Asking { .. });
        if may {
            self.state = State::Collecting { group };
        }
        may
    }

    pub(crate) fn handle_formed(&mut self) {
        self.state = State::Formed;
        self.wish = None;
    }

    /// What the coordinator asks of all, once all are connected and fresh; makes the configuration the first time.
    pub(crate) fn coordinate<M: Memory>(
        &mut self,
        founders: &Table<bool>,
        links: &Table<Link>,
        control_area: &Area<M>,
    ) -> Option<u64> {
        if let State::Collecting { group } = self.state {
            let all = || founders.entries().filter(|(_, is_one)| **is_one).map(|(node, _)| node);
            if !all().all(|node| links[node].is_up() && links[node].peer().group == 0) {
                return None;
            }
            let own = (self.me.node, self.me.incarnation);
            let members = all().map(|node| (node, links[node].peer().incarnation)).chain([own]);
            let configuration = Configuration::formed(
                group,
                members.map(|(node, incarnation)| Member::voter(node, incarnation)),
            );
            configuration.block().write(control_area, control::CONFIG, 1);
            self.state = State::Asking { configuration };
        }
        match &self.state {
            State::Asking { configuration } => Some(configuration.hash()),
            _ => None,
        }
    }

    /// The coordinator's configuration, when `locked` says of every other member that it is locked to it.
    pub(crate) fn all_locked(&self, locked: impl Fn(NodeId) -> bool) -> Option<Configuration> {
        let State::Asking { configuration } = &self.state else { return None };
        configuration
            .members()
            .all(|member| member.node == self.me.node || locked(member.node))
            .then(|| configuration.clone())
    }

    /// Somebody refused: the group is not formed, and whoever locked waits for the next wish.
    pub(crate) fn give_up(&mut self) {
        self.state = State::Fresh;
    }

    /// A request about forming. `formed` are the group that this node is in, if it is in one, and the hash of the configuration
    /// that it was formed with. Returns what to answer at once, and the configuration to put in force.
    pub(crate) fn handle_line(
        &mut self,
        from: NodeId,
        line: &RequestLine,
        formed: Option<(u128, u64)>,
        links: &Table<Link>,
    ) -> (Option<Reply>, Option<Configuration>) {
        let reply =
            |verdict| Some(Reply { to: from, boot: Boot(line.from_boot), sequence: line.sequence, verdict });
        let told = u128::from(line.last_index) << 64 | u128::from(line.last_term);
        if let Some((group, hash)) = formed {
            let same = if line.kind == request_kind::FORMED { group == told } else { hash == line.hash };
            return (reply(if same { verdict::GRANTED } else { verdict::NOT_FRESH }), None);
        }
        if line.kind == request_kind::FORMED {
            let configuration = match &self.state {
                State::Locked { configuration, .. } | State::Asking { configuration }
                    if configuration.hash() == line.hash =>
                {
                    configuration.clone()
                }
                // A node that comes to a group later: who is in it stands in the log that it will get. (One that locked to
                // something else has been left alone with it.)
                State::Fresh | State::Collecting { .. } | State::Locked { .. } if told != 0 => {
                    mark(mark::Member::Joined);
                    Configuration::unknown(told)
                }
                _ => return (reply(verdict::NOT_FRESH), None),
            };
            return (reply(verdict::GRANTED), Some(configuration));
        }
        match &self.state {
            State::Fresh => {}
            State::Locked { configuration, .. } if configuration.hash() == line.hash => {
                return (reply(verdict::GRANTED), None);
            }
            // The same process has another wish: it gave the former up. Another may only follow one that is gone.
            State::Locked { coordinator, boot, .. } => {
                let same = *coordinator == from && boot.0 == line.from_boot;
                let gone = !links[*coordinator].is_up() || links[*coordinator].peer().boot != *boot;
                if !same && !gone {
                    return (reply(verdict::NOT_FRESH), None);
                }
            }
            _ => return (reply(verdict::NOT_FRESH), None),
        }
        let wish = Wish {
            from,
            boot: Boot(line.from_boot),
            sequence: line.sequence,
            hash: line.hash,
            posted: false,
        };
        if self.wish.is_none_or(|pending| {
            (pending.from, pending.boot, pending.hash) != (wish.from, wish.boot, wish.hash)
        }) {
            self.wish = Some(wish);
        }
        (None, None)
    }

    pub(crate) fn poll(&mut self, links: &Table<Link>) -> Option<Verb> {
        let wish = self.wish.as_mut().filter(|wish| !wish.posted && links[wish.from].is_up())?;
        wish.posted = true;
        Some(Verb::Read {
            id: RequestId {
                peer: wish.from,
                class: Class::Config,
                epoch: links[wish.from].connection(),
                number: wish.sequence as u32 & crate::verb::NUMBER_MASK,
            },
            from: control::CONFIG,
            to: staging::config(wish.from.slot()),
            len: size_of::<ConfigBlock>() as u32,
        })
    }

    pub(crate) fn handle_link_down(&mut self, node: NodeId) {
        self.wish = self.wish.filter(|wish| wish.from != node);
    }

    /// The coordinator's block was read: lock to it, if it is what was asked for and means this node.
    pub(crate) fn handle_block<M: Memory>(
        &mut self,
        from: NodeId,
        number: u32,
        area: &Area<M>,
    ) -> Option<Reply> {
        let wish = self.wish.filter(|wish| {
            wish.from == from && wish.posted && wish.sequence as u32 & crate::verb::NUMBER_MASK == number
        })?;
        self.wish = None;
        let configuration = ConfigBlock::read(area, staging::config(from.slot()))
            .and_then(|block| Configuration::from_block(&block))
            .filter(|configuration| {
                configuration.hash() == wish.hash
                    && configuration.names(self.me.node, self.me.incarnation)
                    && configuration.member(from).is_some()
            });
        let verdict = match configuration {
            Some(configuration) => {
                self.state = State::Locked { configuration, coordinator: from, boot: wish.boot };
                verdict::GRANTED
            }
            None => verdict::NOT_FRESH,
        };
        Some(Reply { to: from, boot: wish.boot, sequence: wish.sequence, verdict })
    }
}

#[cfg(feature = "model")]
impl Forming {
    /// A group is formed once: its sequence numbers are as good as any.
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Forming { me: _, state, wish } = self;
        out.plain((state, wish));
    }
}
