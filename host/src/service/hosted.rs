//! A node as the desk has it: what is on its way, what was said of it, and who asks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use super::applied::Writer;
use super::control::{self, Asked, Control};
use super::status::NodeStatus;
use super::{Error, say};
use crate::config::Config;
use crate::exchange::GroupName;
use crate::{Handle, Node, Outcome, Role, Status, SubmitError};

/// Whether a line is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// It is, one way or the other.
    Done,
    /// Not yet.
    Waits,
}

/// What became of the lines.
#[derive(Default)]
struct Count {
    committed: u64,
    unknown: u64,
    refused: u64,
}

/// See the head of this file.
pub(super) struct Hosted<'a> {
    config: &'a Config,
    /// By which lines are told apart, and what is said: where there are several.
    name: Option<GroupName>,
    node: &'a Node,
    writer: &'a Writer,
    pub(super) control: &'a Control,
    handle: Handle,
    status: Status,
    /// Number of each line that the agent has, in its order.
    outstanding: VecDeque<u64>,
    /// Lines refused since that was told, the first and the last.
    refused: Option<(u64, u64)>,
    count: Count,
    /// The last status line.
    shown: Option<String>,
    over: Option<Result<(), Error>>,
}

impl<'a> Hosted<'a> {
    pub(super) fn new(
        config: &'a Config,
        name: Option<GroupName>,
        node: &'a Node,
        writer: &'a Writer,
        control: &'a Control,
    ) -> Hosted<'a> {
        Hosted {
            config,
            name,
            node,
            writer,
            control,
            handle: node.handle(),
            status: node.status(),
            outstanding: VecDeque::new(),
            refused: None,
            count: Count::default(),
            shown: None,
            over: None,
        }
    }

    pub(super) fn name(&self) -> Option<String> {
        self.name.map(|name| name.to_string())
    }

    /// Bytes of the longest line that may be for it.
    pub(super) fn max_line(&self) -> usize {
        self.handle.max_payload() + self.name.map_or(0, |name| name.as_str().len() + 1)
    }

    /// Whether proposals of it are on their way.
    pub(super) fn waits(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Whether the node has ended, or is to end, by itself.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// How it ended.
    pub(super) fn ended(self) -> Result<(), Error> {
        self.over.unwrap_or(Ok(()))
    }

    /// A text, with the group's name where there are several.
    fn of(&self, text: impl fmt::Display) -> String {
        match self.name {
            Some(name) => format!("group {name}: {text}"),
            None => text.to_string(),
        }
    }

    /// Looks how the node is, and says what has changed.
    pub(super) fn look(&mut self) {
        if self.is_over() {
            return;
        }
        self.status = self.node.status();
        if self.status.closed {
            self.over = Some(Err(Error::Failed(self.of("the agent has ended"))));
        } else if self.writer.is_broken() {
            // What broke is told by whoever waits for its end. The others go on.
            self.node.ask_to_close();
            self.over = Some(Ok(()));
        }
        if self.is_over() {
            if self.name.is_some() {
                say(format_args!("{}", self.of("this node ends; those of other groups go on")));
            }
            return;
        }
        let line = describe(self.config, &self.status);
        if self.shown.as_ref() != Some(&line) {
            say(format_args!("{line}"));
            self.shown = Some(line);
        }
    }

    /// Proposes a line while this node leads, and remembers to say so when it does not.
    pub(super) fn propose(&mut self, number: u64, line: Option<&[u8]>) -> Taken {
        let Some(line) = line.filter(|line| line.len() <= self.handle.max_payload()) else {
            let max = self.handle.max_payload();
            say(format_args!("line {number}: longer than an entry can be ({max} bytes): not proposed"));
            self.count.refused += 1;
            return Taken::Done;
        };
        if self.status.role != Role::Leader || self.is_over() {
            // Nobody leads: somebody soon will.
            if self.other_leader().is_none() && !self.is_over() {
                return Taken::Waits;
            }
            self.count.refused += 1;
            self.refused = Some((self.refused.map_or(number, |(first, _)| first), number));
            return Taken::Done;
        }
        match self.handle.propose(line) {
            Ok(_) => {
                self.outstanding.push_back(number);
                Taken::Done
            }
            Err(SubmitError::Full) => Taken::Waits,
            // It has ended, which is noticed next.
            Err(_) => Taken::Waits,
        }
    }

    fn other_leader(&self) -> Option<u8> {
        self.status.leader.filter(|leader| *leader != self.status.node)
    }

    /// Says which lines were refused just now.
    pub(super) fn tell_refused(&mut self) {
        let Some((first, last)) = self.refused.take() else { return };
        let why = match self.other_leader().filter(|_| !self.is_over()) {
            Some(leader) => format!("node {leader} leads"),
            None => "the node has ended".to_owned(),
        };
        say(format_args!("{}", self.of(format_args!("{}: not proposed: {why}", numbered(first, last)))));
    }

    /// Says what became of the lines, at their end.
    pub(super) fn tell_count(&self) {
        let Count { committed, unknown, refused } = self.count;
        if committed + unknown + refused > 0 {
            let text = format!(
                "end of input: {committed} lines committed, {unknown} of unknown outcome, {refused} not proposed"
            );
            say(format_args!("{}", self.of(text)));
        }
    }

    pub(super) fn take_outcomes(&mut self) {
        let (mut unknown, mut refused) = (None, None);
        while let Some((_, outcome)) = self.handle.poll() {
            let Some(number) = self.outstanding.pop_front() else { break };
            let (range, count) = match outcome {
                Outcome::Committed { .. } => {
                    self.count.committed += 1;
                    continue;
                }
                Outcome::Unknown => (&mut unknown, &mut self.count.unknown),
                Outcome::NotLeader { .. } => (&mut refused, &mut self.count.refused),
            };
            *count += 1;
            let first = range.map_or(number, |(first, _)| first);
            *range = Some((first, number));
        }
        for (range, what) in [
            (unknown, "the lead was lost: may be applied, or never"),
            (refused, "not proposed: the lead was lost"),
        ] {
            if let Some((first, last)) = range {
                say(format_args!("{}", self.of(format_args!("{}: {what}", numbered(first, last)))));
            }
        }
    }

    /// Takes questions in; each is answered by a thread of its own, for forming takes its time.
    pub(super) fn answer<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        asked: &Asked,
        stop: &'scope AtomicBool,
    ) where
        'a: 'scope,
    {
        control::answer_all(self.control, scope, self.node, self.config.group, asked, stop);
    }
}

/// What a node is, in a few words.
pub(crate) fn describe(config: &Config, status: &Status) -> String {
    let node = status.node;
    if status.acceptor_silent {
        return format!(
            "node {node} of {}: waits for its acceptor: ringleader-dpu run --config {} --node {node}, on its DPU",
            config.group,
            config.path.display()
        );
    }
    if !status.formed && status.met_group {
        return format!(
            "node {node} of {0}: its group runs, and it is not in it: ringleader member readmit {node}, if it was before, or member add {node}, asked of the leader",
            config.group
        );
    }
    if !status.formed {
        return format!(
            "node {node} of {}: waits for its group to be formed: ringleader form --config {} --node {node}, once; or to be added to one: ringleader member add {node}, asked of its leader",
            config.group,
            config.path.display()
        );
    }
    let NodeStatus { group, .. } = NodeStatus::new("", status);
    let (name, path) = (config.group, config.path.display());
    if status.removed {
        return format!(
            "node {node} of {name}: was removed from group {group}; to add it again, start it anew"
        );
    }
    if status.voters == 0 {
        return format!("node {node} of {name}: comes to group {group}, waits for its log");
    }
    if status.lost > 0 && status.voters - status.lost <= status.voters / 2 {
        return format!(
            "node {node} of {name}: group {group} has stopped: {} of {} voters came back without their memory; what is left: ringleader recover --config {path} --node {node}",
            status.lost, status.voters
        );
    }
    match (status.role, status.leader) {
        (Role::Leader, _) => {
            format!("node {node} of {}: leads in term {}, group {group}", config.group, status.term)
        }
        (_, Some(leader)) if leader != node => {
            format!(
                "node {node} of {}: follows node {leader} in term {}, group {group}",
                config.group, status.term
            )
        }
        _ => format!("node {node} of {}: hears of no leader, group {group}", config.group),
    }
}

fn numbered(first: u64, last: u64) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first} to {last}") }
}
