//! What a client of a Redis cluster is told: one shard with all slots, whose master is the node that leads.

use super::command::{Args, NOT_A_NUMBER, is, number, wrong_count};
use super::reply::Reply;
use super::server::Server;
use crate::Role;

/// Slots of a cluster.
const SLOTS: u16 = 16384;

/// The slot of a key: of what is between its first braces, if there is anything.
pub(super) fn slot(key: &[u8]) -> u16 {
    redis_protocol::redis_keyslot(key)
}

/// A node as clients see it.
struct Seen<'a> {
    id: u8,
    host: &'a str,
    port: i64,
    leads: bool,
    is_healthy: bool,
}

impl Server<'_> {
    /// CLUSTER.
    pub(super) fn cluster(&self, args: Args<'_>) -> Reply<'static> {
        let Some(what) = args.get(1) else { return wrong_count("cluster") };
        if is(what, "INFO") {
            Reply::text(self.cluster_info())
        } else if is(what, "MYID") {
            Reply::text(self.name_of(self.status.node))
        } else if is(what, "NODES") {
            Reply::text(self.nodes_as_text())
        } else if is(what, "SLOTS") {
            self.slots()
        } else if is(what, "SHARDS") {
            self.shards()
        } else if is(what, "KEYSLOT") {
            match args {
                [_, _, key] => Reply::Int(i64::from(slot(key))),
                _ => wrong_count("cluster|keyslot"),
            }
        } else if is(what, "COUNTKEYSINSLOT") {
            match args {
                [_, _, slot] => match number(slot) {
                    Ok(slot) if (0..i64::from(SLOTS)).contains(&slot) => {
                        Reply::Int(self.count_in(slot as u16))
                    }
                    Ok(_) => Reply::error("ERR Invalid slot"),
                    Err(_) => NOT_A_NUMBER,
                },
                _ => wrong_count("cluster|countkeysinslot"),
            }
        } else {
            let shown = what[..what.len().min(64)].escape_ascii();
            Reply::error(format!(
                "ERR CLUSTER {shown} is not served: the nodes look after their group themselves"
            ))
        }
    }

    fn count_in(&self, wanted: u16) -> i64 {
        let store = self.shared.store();
        store.keys_from(0).filter(|(_, key, item)| store.shows(item) && slot(key) == wanted).count() as i64
    }

    /// The nodes of the group that have an address, the one that leads first.
    fn seen(&self) -> Vec<Seen<'_>> {
        let is_member = |id: u8| {
            self.members.members.is_empty() || self.members.members.iter().any(|member| member.node == id)
        };
        let mut seen: Vec<Seen<'_>> = self
            .facts
            .addresses
            .iter()
            .filter(|(id, _)| is_member(**id))
            .filter_map(|(id, address)| {
                let (host, port) = address.rsplit_once(':')?;
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let follower = self.status.followers.iter().find(|follower| follower.node == *id);
                Some(Seen {
                    id: *id,
                    host,
                    port: port.parse().ok()?,
                    leads: self.status.leader == Some(*id),
                    // Who does not lead knows of no other.
                    is_healthy: self.status.role != Role::Leader
                        || *id == self.status.node
                        || follower.is_some_and(|follower| follower.counts),
                })
            })
            .collect();
        seen.sort_by_key(|seen| (!seen.leads, seen.id));
        seen
    }

    /// The 40 hexadecimal digits that name a node: the same as long as its group is.
    pub(super) fn name_of(&self, node: u8) -> String {
        format!("{node:08x}{:032x}", self.status.group)
    }

    fn leader_is_seen(&self) -> bool {
        self.seen().first().is_some_and(|first| first.leads)
    }

    fn cluster_info(&self) -> String {
        let (is_served, nodes) = (self.leader_is_seen(), self.seen().len());
        let slots = if is_served { SLOTS } else { 0 };
        let lines = [
            format!("cluster_enabled:1\r\ncluster_state:{}", if is_served { "ok" } else { "fail" }),
            format!("cluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}"),
            "cluster_slots_pfail:0\r\ncluster_slots_fail:0".to_owned(),
            format!("cluster_known_nodes:{nodes}\r\ncluster_size:1"),
            format!("cluster_current_epoch:{0}\r\ncluster_my_epoch:{0}\r\n", self.status.term),
        ];
        lines.join("\r\n")
    }

    fn nodes_as_text(&self) -> String {
        let seen = self.seen();
        let master = seen.first().filter(|first| first.leads).map(|first| first.id);
        let line = |node: &Seen<'_>| {
            let flags = [
                (node.id == self.status.node).then_some("myself"),
                Some(if node.leads { "master" } else { "slave" }),
                (!node.is_healthy).then_some("fail?"),
            ];
            let flags: Vec<&str> = flags.into_iter().flatten().collect();
            let master = match master {
                Some(master) if !node.leads => self.name_of(master),
                _ => "-".to_owned(),
            };
            let slots = if node.leads { " 0-16383" } else { "" };
            format!(
                "{} {}:{}@{} {} {master} 0 0 {} connected{slots}\n",
                self.name_of(node.id),
                node.host,
                node.port,
                node.port,
                flags.join(","),
                self.status.term,
            )
        };
        seen.iter().map(line).collect()
    }

    fn slots(&self) -> Reply<'static> {
        if !self.leader_is_seen() {
            return Reply::Array(Vec::new());
        }
        let node = |seen: &Seen<'_>| {
            Reply::Array(vec![
                Reply::text(seen.host),
                Reply::Int(seen.port),
                Reply::text(self.name_of(seen.id)),
                Reply::Array(Vec::new()),
            ])
        };
        let mut row = vec![Reply::Int(0), Reply::Int(i64::from(SLOTS) - 1)];
        row.extend(self.seen().iter().filter(|seen| seen.leads || seen.is_healthy).map(node));
        Reply::Array(vec![Reply::Array(row)])
    }

    fn shards(&self) -> Reply<'static> {
        let node = |seen: &Seen<'_>| {
            Reply::Map(vec![
                (Reply::text("id"), Reply::text(self.name_of(seen.id))),
                (Reply::text("port"), Reply::Int(seen.port)),
                (Reply::text("ip"), Reply::text(seen.host)),
                (Reply::text("endpoint"), Reply::text(seen.host)),
                (Reply::text("role"), Reply::text(if seen.leads { "master" } else { "replica" })),
                (Reply::text("replication-offset"), Reply::Int(self.status.applied_index as i64)),
                (Reply::text("health"), Reply::text(if seen.is_healthy { "online" } else { "fail" })),
            ])
        };
        let slots = if self.leader_is_seen() { vec![0, i64::from(SLOTS) - 1] } else { Vec::new() };
        Reply::Array(vec![Reply::Map(vec![
            (Reply::text("slots"), Reply::Array(slots.into_iter().map(Reply::Int).collect())),
            (Reply::text("nodes"), Reply::Array(self.seen().iter().map(node).collect())),
        ])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` of a Redis has them, by the rules of its cluster specification.
    #[test]
    fn keys_are_in_the_slots_of_a_redis_cluster() {
        assert_eq!((slot(b"foo"), slot(b"bar"), slot(b"123456789"), slot(b"")), (12182, 5061, 12739, 0));
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        // Nothing between the braces, or no end of them: the whole key.
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_ne!(slot(b"foo{bar"), slot(b"bar"));
    }
}
