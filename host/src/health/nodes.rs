//! Nodes of an agent thread, and acceptors alone, as they are told of: whether each is ready, and all its numbers. docs/operating.md has
//! the same table.

use std::fmt;

use ringleader_core::options::Half;

use super::{Kind, Metric, Page, Readiness, Watched};
use crate::node::View;
use crate::{
    Acceptor, AgentThread, CatchUp, Follower, FollowerState, HostState, Metrics, Role, Status, Taking,
};

/// All that an agent thread hosts, to be watched ([`Door::open`](super::Door::open)).
pub struct Nodes {
    agent: AgentThread,
    nodes: Vec<One>,
}

struct One {
    group: String,
    view: View,
    describe: Box<dyn Fn(&Status) -> String + Send>,
}

impl Nodes {
    /// None yet. The thread ends no earlier than this.
    pub fn new(agent: &AgentThread) -> Nodes {
        Nodes { agent: agent.clone(), nodes: Vec::new() }
    }

    /// With this node, or acceptor, of the group of that name. `describe` says in one line how it is.
    pub fn with(
        mut self,
        group: impl fmt::Display,
        view: View,
        describe: impl Fn(&Status) -> String + Send + 'static,
    ) -> Nodes {
        self.nodes.push(One { group: group.to_string(), view, describe: Box::new(describe) });
        self
    }

    /// With this acceptor of the group of that name.
    pub fn with_acceptor(self, group: impl fmt::Display, acceptor: &Acceptor) -> Nodes {
        let group = group.to_string();
        let name = group.clone();
        self.with(group, acceptor.view(), move |status| describe_acceptor(&name, status))
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Watched for Nodes {
    fn rounds(&self) -> Option<u64> {
        // With nobody to give turns to it waits until somebody comes.
        (self.agent.groups() > 0).then(|| self.agent.rounds())
    }

    fn readiness(&self) -> Vec<Readiness> {
        let one = |one: &One| {
            let status = one.view.status();
            if status.closed {
                let text = format!("node {} of {}: has ended", status.node, one.group);
                return Readiness { is_ready: false, text };
            }
            Readiness { is_ready: is_ready(one.view.half(), &status), text: (one.describe)(&status) }
        };
        self.nodes.iter().map(one).collect()
    }

    fn measure(&self, page: &mut Page) {
        page.add(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.add(&ROUNDS, &[], self.agent.rounds());
        for one in &self.nodes {
            one.measure(page);
        }
    }
}

/// What an acceptor alone is, in a few words.
pub(crate) fn describe_acceptor(group: &str, status: &Status) -> String {
    let of = format!("acceptor of node {} of {group}", status.node);
    let host = status.host.map_or_else(|| "its host has not come yet".to_owned(), |host| host.to_string());
    if !status.formed {
        return format!("{of}: waits for its group; {host}");
    }
    let led = match status.leader {
        _ if status.removed => "was removed".to_owned(),
        Some(leader) => format!("follows node {leader} in term {}", status.term),
        None => "hears of no leader".to_owned(),
    };
    format!("{of}: {led}, group {:032x}; {host}", status.group)
}

/// It is a member of its group, and follows or leads; its acceptor runs, where that is apart. An acceptor alone answers votes whoever leads, and above all when nobody does.
fn is_ready(half: Half, status: &Status) -> bool {
    let is_member = status.formed && !status.removed;
    if half == Half::Acceptor {
        return is_member;
    }
    let leads_or_follows =
        status.role == Role::Leader || status.leader.is_some_and(|leader| leader != status.node);
    let has_stopped = status.voters == 0 || status.voters - status.lost <= status.voters / 2;
    is_member && !has_stopped && leads_or_follows && !status.acceptor_silent
}

impl One {
    fn measure(&self, page: &mut Page) {
        let (status, half) = (self.view.status(), self.view.half());
        let node = status.node.to_string();
        let labels = [("group", self.group.as_str()), ("node", node.as_str())];
        let mut add = |metric: &Metric, value: u64| page.add(metric, &labels, value);
        add(&READY, u64::from(!status.closed && is_ready(half, &status)));
        // All that it ever was it is no more.
        if status.closed {
            return;
        }
        add(&FORMED, u64::from(status.formed));
        count(&self.view.metrics(), half, &mut add);
        add(&EVENTS_DROPPED, status.events_dropped);
        if self.view.shoots() {
            add(&SHOTS, status.shots);
        }
        if status.formed {
            add(&REMOVED, u64::from(status.removed));
            add(&TERM, status.term);
            if let Some(leader) = status.leader {
                add(&LEADER, u64::from(leader));
            }
            // Before its log has come it knows no members.
            if status.voters > 0 {
                add(&VOTERS, status.voters as u64);
                add(&VOTERS_LOST, status.lost as u64);
            }
            add(&COMMIT_INDEX, status.commit_index);
            add(&COMMIT_POSITION, status.commit_position);
            add(&END_POSITION, status.end_position);
        }
        if half == Half::Acceptor {
            if let Some(HostState { alive, leads, .. }) = status.host {
                add(&HOST_ALIVE, u64::from(alive));
                add(&HOST_LEADS, u64::from(leads));
            }
        } else {
            measure_host(&status, labels, page);
        }
    }
}

/// What an acceptor alone has nothing to do with.
fn measure_host(status: &Status, labels: [(&str, &str); 2], page: &mut Page) {
    let mut add = |metric: &Metric, value: u64| page.add(metric, &labels, value);
    add(&FORM_REFUSALS, status.form_refusals);
    add(&TRANSFER_FAILURES, status.transfer_failures);
    if let Some(Taking { source, fetched, len, loading }) = status.taking {
        add(&SNAPSHOT_SOURCE, u64::from(source));
        add(&SNAPSHOT_FETCHED, fetched);
        // Not known before the source has said so.
        if len > 0 {
            add(&SNAPSHOT_LEN, len);
        }
        add(&SNAPSHOT_LOADING, u64::from(loading));
    }
    if !status.formed {
        return;
    }
    add(&APPLIED_INDEX, status.applied_index);
    add(&APPLIED_POSITION, status.applied_position);
    for (role, name) in
        [(Role::Follower, "follower"), (Role::Candidate, "candidate"), (Role::Leader, "leader")]
    {
        let [group, node] = labels;
        page.add(&ROLE, &[group, node, ("role", name)], u64::from(status.role == role));
    }
    for follower in &status.followers {
        measure_follower(follower, labels, page);
    }
}

/// All of them: a new one does not compile before it is told.
fn count(metrics: &Metrics, half: Half, add: &mut impl FnMut(&Metric, u64)) {
    let &Metrics {
        turns,
        proposed,
        committed,
        unknown,
        applied,
        applied_bytes,
        reads,
        reads_failed,
        campaigns,
        elected,
        gave_up,
        saved,
        loaded,
        verbs,
        verbs_failed,
    } = metrics;
    let all = [(&TURNS, turns), (&VERBS, verbs), (&VERBS_FAILED, verbs_failed)];
    all.into_iter().for_each(|(metric, value)| add(metric, value));
    if half == Half::Acceptor {
        return;
    }
    for (metric, value) in [
        (&PROPOSALS, proposed),
        (&PROPOSALS_COMMITTED, committed),
        (&PROPOSALS_UNKNOWN, unknown),
        (&APPLIED, applied),
        (&APPLIED_BYTES, applied_bytes),
        (&READS, reads),
        (&READS_FAILED, reads_failed),
        (&CAMPAIGNS, campaigns),
        (&ELECTIONS_WON, elected),
        (&LEADS_LOST, gave_up),
        (&SNAPSHOTS_SAVED, saved),
        (&SNAPSHOTS_LOADED, loaded),
    ] {
        add(metric, value);
    }
}

fn measure_follower(follower: &Follower, labels: [(&str, &str); 2], page: &mut Page) {
    let id = follower.node.to_string();
    let [group, node] = labels;
    let labels = [group, node, ("follower", id.as_str())];
    for (state, name) in [
        (FollowerState::Down, "down"),
        (FollowerState::Asking, "asking"),
        (FollowerState::Window, "window"),
        (FollowerState::Broken, "broken"),
        (FollowerState::Behind, "behind"),
    ] {
        let [group, node, id] = labels;
        page.add(&FOLLOWER_STATE, &[group, node, id, ("state", name)], u64::from(follower.state == state));
    }
    page.add(&FOLLOWER_COUNTS, &labels, u64::from(follower.counts));
    // Of one that was not reached nothing is known.
    if follower.state != FollowerState::Down {
        page.add(&FOLLOWER_MATCHED, &labels, follower.matched_position);
        page.add(&FOLLOWER_APPLIED, &labels, follower.applied_position);
    }
    let Some(catch_up) = follower.catch_up else { return };
    let steps = ["waiting", "saving", "taking", "no-source", "unable"];
    let now = match catch_up {
        CatchUp::Waiting => 0,
        CatchUp::Saving { .. } => 1,
        CatchUp::Taking { fetched, len, .. } => {
            page.add(&FOLLOWER_FETCHED, &labels, fetched);
            if len > 0 {
                page.add(&FOLLOWER_LEN, &labels, len);
            }
            2
        }
        CatchUp::NoSource => 3,
        CatchUp::Unable => 4,
    };
    for (at, step) in steps.into_iter().enumerate() {
        let [group, node, id] = labels;
        page.add(&FOLLOWER_CATCH_UP, &[group, node, id, ("step", step)], u64::from(at == now));
    }
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal)*) => {
        $(const $constant: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*
        /// All of them.
        #[cfg(test)]
        const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD Gauge "ringleader_build_info" "1, with the version as a label."
    ROUNDS Counter "ringleader_agent_rounds_total" "Rounds of the agent's thread, in each of which every node of the process had a turn."
    READY Gauge "ringleader_ready" "1 when the node is a member of its group and follows or leads; an acceptor alone, when it is a member."
    FORMED Gauge "ringleader_formed" "1 when the node is in a group."
    REMOVED Gauge "ringleader_removed" "1 when the node was a member of its group and is none any more."
    ROLE Gauge "ringleader_role" "1 for the role that the node has: follower, candidate or leader."
    TERM Gauge "ringleader_term" "The term of the node's promise."
    LEADER Gauge "ringleader_leader" "The id of the node that leads, as far as this one knows."
    VOTERS Gauge "ringleader_voters" "Members that vote."
    VOTERS_LOST Gauge "ringleader_voters_lost" "Voters that came back without their memory."
    COMMIT_INDEX Gauge "ringleader_commit_index" "Index of the last entry that the node knows committed."
    COMMIT_POSITION Gauge "ringleader_commit_position_bytes" "Its end in the log, in bytes from the beginning."
    APPLIED_INDEX Gauge "ringleader_applied_index" "Index of the last entry that the node has applied."
    APPLIED_POSITION Gauge "ringleader_applied_position_bytes" "Its end in the log."
    END_POSITION Gauge "ringleader_end_position_bytes" "End of the node's log, committed or not."
    HOST_ALIVE Gauge "ringleader_host_alive" "Of an acceptor alone: 1 when its host was heard of late."
    HOST_LEADS Gauge "ringleader_host_leads" "Of an acceptor alone: 1 when its host leads, and is alive."
    TURNS Counter "ringleader_turns_total" "Turns of the node's agent."
    PROPOSALS Counter "ringleader_proposals_total" "Proposals that became entries of this node's log, as leader."
    PROPOSALS_COMMITTED Counter "ringleader_proposals_committed_total" "Proposals of this node that were reported committed."
    PROPOSALS_UNKNOWN Counter "ringleader_proposals_unknown_total" "Proposals of this node whose outcome is unknown, because the lead was lost."
    APPLIED Counter "ringleader_applied_entries_total" "Entries that the application was handed."
    APPLIED_BYTES Counter "ringleader_applied_bytes_total" "Bytes of their payloads."
    READS Counter "ringleader_reads_total" "Reads that were allowed."
    READS_FAILED Counter "ringleader_reads_failed_total" "Reads that were begun and not allowed."
    CAMPAIGNS Counter "ringleader_campaigns_total" "Elections in which the node stood."
    ELECTIONS_WON Counter "ringleader_elections_won_total" "Elections that the node won."
    LEADS_LOST Counter "ringleader_leads_lost_total" "How often the node gave up the lead, or was deposed."
    SNAPSHOTS_SAVED Counter "ringleader_snapshots_saved_total" "States that were saved for other nodes."
    SNAPSHOTS_LOADED Counter "ringleader_snapshots_loaded_total" "States of other nodes that were loaded."
    VERBS Counter "ringleader_verbs_total" "Verbs posted to the fabric."
    VERBS_FAILED Counter "ringleader_verbs_failed_total" "Verbs that did not end well."
    FORM_REFUSALS Counter "ringleader_form_refusals_total" "How often another node refused to form a group with this one."
    TRANSFER_FAILURES Counter "ringleader_transfer_failures_total" "How often the lead was to be handed over, and was not."
    EVENTS_DROPPED Counter "ringleader_events_dropped_total" "Events that nobody took in time."
    SHOTS Counter "ringleader_shots_total" "Processes of former writers that had to be killed to shut them out; on shared memory only."
    SNAPSHOT_SOURCE Gauge "ringleader_snapshot_source" "The id of the node whose state this one takes, because it has fallen too far behind."
    SNAPSHOT_FETCHED Gauge "ringleader_snapshot_fetched_bytes" "Bytes of that state that are here."
    SNAPSHOT_LEN Gauge "ringleader_snapshot_size_bytes" "Bytes that it has, once that is known."
    SNAPSHOT_LOADING Gauge "ringleader_snapshot_loading" "1 when all of it is here and the application loads it."
    FOLLOWER_STATE Gauge "ringleader_follower_state" "1 for the state in which the leader has a follower: down, asking, window, broken or behind."
    FOLLOWER_COUNTS Gauge "ringleader_follower_counts" "1 when the follower counts for a commit now."
    FOLLOWER_MATCHED Gauge "ringleader_follower_matched_position_bytes" "Position up to which the follower's log is known to equal the leader's."
    FOLLOWER_APPLIED Gauge "ringleader_follower_applied_position_bytes" "Position up to which the follower has applied, as last read."
    FOLLOWER_CATCH_UP Gauge "ringleader_follower_catch_up" "1 for what is done for a follower that is too far behind: waiting, saving, taking, no-source or unable."
    FOLLOWER_FETCHED Gauge "ringleader_follower_snapshot_fetched_bytes" "Bytes of another node's state that the follower has."
    FOLLOWER_LEN Gauge "ringleader_follower_snapshot_size_bytes" "Bytes that it will have, once that is known."
}

#[cfg(test)]
mod tests;
