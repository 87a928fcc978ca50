//! Commands that a node answers by itself: who a client is, how the node is, what there is. Not about keys.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::client::Client;
use super::command::{Args, SYNTAX, is, number, wrong_count};
use super::glob;
use super::reply::{Protocol, Reply};
use super::server::Server;
use super::table::{self, COMMANDS, Command, Kind};
use crate::Role;

/// The version of Redis whose commands these are: clients ask what they may expect.
const REDIS_VERSION: &str = "7.0.0";

/// The longest name of a client, in bytes.
const MAX_NAME: usize = 256;

impl Command {
    /// Whether who has not shown the password may ask for it.
    pub(super) fn is_for_strangers(&self) -> bool {
        matches!(self.name, "AUTH" | "HELLO" | "QUIT" | "RESET")
    }

    /// Whether it changes how a client is answered: what came before is answered first.
    pub(super) fn changes_client(&self) -> bool {
        matches!(self.name, "AUTH" | "HELLO" | "QUIT" | "RESET")
    }
}

impl Server<'_> {
    /// Answers a command that is not about keys.
    pub(super) fn local(&mut self, client: &mut Client, name: &str, args: Args<'_>) -> Reply<'static> {
        match name {
            "PING" => match args {
                [_] => Reply::Status("PONG"),
                [_, text] => Reply::Bulk(text.to_vec().into()),
                _ => wrong_count("ping"),
            },
            "ECHO" => Reply::Bulk(args[1].to_vec().into()),
            "AUTH" => match args {
                [_, password] => self.auth(client, b"default", password),
                [_, user, password] => self.auth(client, user, password),
                _ => SYNTAX,
            },
            "HELLO" => self.hello(client, args),
            "RESET" => {
                client.protocol = Protocol::Resp2;
                client.is_known = self.facts.password.is_none();
                client.name.clear();
                Reply::Status("RESET")
            }
            "QUIT" | "READONLY" | "READWRITE" | "ASKING" => Reply::OK,
            "SELECT" => match number(args[1]) {
                Ok(0) => Reply::OK,
                Ok(_) => Reply::error("ERR DB index is out of range: there is database 0"),
                Err(error) => error,
            },
            "CLIENT" => self.client(client, args),
            "CLUSTER" => self.cluster(args),
            "COMMAND" => commands(args),
            "CONFIG" => self.config(args),
            "INFO" => Reply::text(self.info(&args[1..])),
            "ROLE" => self.role(),
            "TIME" => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let (seconds, micros) = (since.as_secs().to_string(), since.subsec_micros().to_string());
                Reply::Array(vec![Reply::text(seconds), Reply::text(micros)])
            }
            // An acknowledged write is at a majority; nothing was acknowledged that is not.
            "WAIT" => Reply::Int(self.status.voters as i64 / 2),
            _ => Reply::error(format!("ERR {name} is not served")),
        }
    }

    /// What comes behind the answer.
    pub(super) fn after_local(&mut self, client: &mut Client, name: &str) {
        if name == "QUIT" {
            client.dismiss();
        }
    }

    fn auth(&self, client: &mut Client, user: &[u8], shown: &[u8]) -> Reply<'static> {
        let Some(password) = &self.facts.password else {
            return Reply::error(
                "ERR AUTH <password> called without any password configured: this server needs none",
            );
        };
        if user == b"default" && password.is(shown) {
            client.is_known = true;
            Reply::OK
        } else {
            client.is_known = false;
            Reply::error("WRONGPASS invalid username-password pair or user is disabled.")
        }
    }

    fn hello(&self, client: &mut Client, args: Args<'_>) -> Reply<'static> {
        let mut protocol = client.protocol;
        let mut options = args[1..].iter();
        if let Some(version) = options.next() {
            protocol = match number(version) {
                Ok(2) => Protocol::Resp2,
                Ok(3) => Protocol::Resp3,
                _ => return Reply::error("NOPROTO unsupported protocol version"),
            };
        }
        let mut name = None;
        while let Some(option) = options.next() {
            if is(option, "AUTH")
                && let (Some(user), Some(password)) = (options.next(), options.next())
            {
                let reply = self.auth(client, user, password);
                if reply != Reply::OK {
                    return reply;
                }
            } else if is(option, "SETNAME")
                && let Some(given) = options.next()
            {
                name = Some(*given);
            } else {
                return SYNTAX;
            }
        }
        if !client.is_known {
            return Reply::error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(Err(error)) = name.map(|name| set_name(client, name)) {
            return error;
        }
        client.protocol = protocol;
        let pair = |key: &str, value: Reply<'static>| (Reply::text(key), value);
        Reply::Map(vec![
            pair("server", Reply::text("redis")),
            pair("version", Reply::text(REDIS_VERSION)),
            pair("proto", Reply::Int(if protocol == Protocol::Resp3 { 3 } else { 2 })),
            pair("id", Reply::Int(client.id as i64)),
            pair("mode", Reply::text("cluster")),
            pair("role", Reply::text(self.role_name())),
            pair("modules", Reply::Array(Vec::new())),
        ])
    }

    fn role_name(&self) -> &'static str {
        if self.status.role == Role::Leader { "master" } else { "replica" }
    }

    fn client(&mut self, client: &mut Client, args: Args<'_>) -> Reply<'static> {
        let what = args[1];
        match args {
            _ if is(what, "ID") => Reply::Int(client.id as i64),
            _ if is(what, "GETNAME") => match client.name.is_empty() {
                true => Reply::Nil,
                false => Reply::Bulk(client.name.clone().into()),
            },
            [_, _, name] if is(what, "SETNAME") => set_name(client, name).err().unwrap_or(Reply::OK),
            [_, _, _, _] if is(what, "SETINFO") => Reply::OK,
            [_, _, how] if is(what, "REPLY") && is(how, "ON") => Reply::OK,
            [_, _, how] if is(what, "TRACKING") && is(how, "OFF") => Reply::OK,
            [_, _, _] if is(what, "NO-EVICT") || is(what, "NO-TOUCH") => Reply::OK,
            _ if is(what, "INFO") => Reply::text(line_of(client)),
            _ if is(what, "LIST") => {
                let mut lines = line_of(client);
                self.clients.iter_mut().for_each(|other| lines.push_str(&line_of(other)));
                Reply::text(lines)
            }
            _ => not_served("CLIENT", what),
        }
    }

    fn config(&self, args: Args<'_>) -> Reply<'static> {
        let what = args[1];
        if !is(what, "GET") {
            return not_served("CONFIG", what);
        }
        let values = [
            ("appendonly", "no".to_owned()),
            ("bind", self.facts.listen.ip().to_string()),
            ("databases", "1".to_owned()),
            ("maxclients", self.clients.max().to_string()),
            ("maxmemory", self.facts.max_size.to_string()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("port", self.facts.listen.port().to_string()),
            ("proto-max-bulk-len", self.writes.max_entry().to_string()),
            ("save", String::new()),
            ("timeout", "0".to_owned()),
        ];
        let is_asked = |name: &str| {
            args[2..].iter().any(|asked| glob::matches(&asked.to_ascii_lowercase(), name.as_bytes()))
        };
        let found = values.into_iter().filter(|(name, _)| is_asked(name));
        Reply::Map(found.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
    }

    fn role(&self) -> Reply<'static> {
        let place = |node: u8| {
            let address = self.facts.addresses.get(&node).map_or("?:0", String::as_str);
            let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
            (host.to_owned(), port.to_owned())
        };
        if self.status.role == Role::Leader {
            let followers = self.status.followers.iter().map(|follower| {
                let (host, port) = place(follower.node);
                let applied = follower.applied_position.to_string();
                Reply::Array(vec![Reply::text(host), Reply::text(port), Reply::text(applied)])
            });
            let applied = self.status.applied_position as i64;
            return Reply::Array(vec![
                Reply::text("master"),
                Reply::Int(applied),
                Reply::Array(followers.collect()),
            ]);
        }
        let (host, port) = self.status.leader.map(place).unwrap_or_default();
        let state = if self.status.leader.is_some() { "connected" } else { "connect" };
        Reply::Array(vec![
            Reply::text("slave"),
            Reply::text(host),
            Reply::Int(port.parse().unwrap_or(0)),
            Reply::text(state),
            Reply::Int(self.status.applied_position as i64),
        ])
    }

    fn info(&self, wanted: Args<'_>) -> String {
        let is_wanted = |section: &str| {
            wanted.is_empty()
                || wanted.iter().any(|one| {
                    is(one, section) || is(one, "ALL") || is(one, "DEFAULT") || is(one, "EVERYTHING")
                })
        };
        let (store, counted, status) = (self.shared.store(), &self.counted, &self.status);
        let mut out = String::new();
        let mut section = |name: &str, lines: &[(&str, String)]| {
            if is_wanted(&name.to_ascii_uppercase()) {
                if !out.is_empty() {
                    out.push_str("\r\n");
                }
                let _ = write!(out, "# {name}\r\n");
                for (key, value) in lines {
                    let _ = write!(out, "{key}:{value}\r\n");
                }
            }
        };
        section(
            "Server",
            &[
                ("redis_version", REDIS_VERSION.to_owned()),
                ("redis_mode", "cluster".to_owned()),
                ("ringleader_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", self.facts.listen.port().to_string()),
                ("uptime_in_seconds", self.begun.elapsed().as_secs().to_string()),
            ],
        );
        section(
            "Clients",
            &[
                ("connected_clients", self.clients.count().to_string()),
                ("maxclients", self.clients.max().to_string()),
                ("client_bytes_waiting", self.clients.kept().to_string()),
            ],
        );
        section(
            "Memory",
            &[
                ("used_memory_dataset", store.size().to_string()),
                ("maxmemory", self.facts.max_size.to_string()),
                ("maxmemory_policy", "noeviction".to_owned()),
            ],
        );
        section(
            "Stats",
            &[
                ("total_connections_received", counted.connections.to_string()),
                ("total_commands_processed", counted.commands.to_string()),
                ("rejected_connections", counted.rejected.to_string()),
                ("dropped_connections", counted.dropped.to_string()),
                ("moved_replies", counted.moved.to_string()),
                ("unknown_replies", counted.doubtful.to_string()),
                ("states_taken", counted.loaded.to_string()),
            ],
        );
        let leader = status.leader.map_or("none".to_owned(), |leader| leader.to_string());
        section(
            "Replication",
            &[
                ("role", if self.leads() { "master" } else { "slave" }.to_owned()),
                ("connected_slaves", status.followers.iter().filter(|one| one.counts).count().to_string()),
                ("ringleader_group", self.facts.group.clone()),
                ("ringleader_node", status.node.to_string()),
                ("ringleader_leader", leader),
                ("ringleader_term", status.term.to_string()),
                ("ringleader_commit_index", status.commit_index.to_string()),
                ("ringleader_applied_index", status.applied_index.to_string()),
            ],
        );
        section("Cluster", &[("cluster_enabled", "1".to_owned())]);
        let keys = if store.count() == 0 {
            Vec::new()
        } else {
            vec![("db0", format!("keys={},expires={},avg_ttl=0", store.count(), store.ending()))]
        };
        section("Keyspace", &keys);
        out
    }
}

fn set_name(client: &mut Client, name: &[u8]) -> Result<(), Reply<'static>> {
    if name.len() > MAX_NAME || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Reply::error("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    client.name = name.to_vec();
    Ok(())
}

fn line_of(client: &Client) -> String {
    format!(
        "id={} addr={} name={} age={} resp={} cmds={}\n",
        client.id,
        client.address,
        String::from_utf8_lossy(&client.name),
        client.since.elapsed().as_secs(),
        if client.protocol == Protocol::Resp3 { 3 } else { 2 },
        client.commands
    )
}

fn not_served(command: &str, what: &[u8]) -> Reply<'static> {
    Reply::error(format!("ERR {command} {} is not served", what[..what.len().min(64)].escape_ascii()))
}

/// COMMAND.
fn commands(args: Args<'_>) -> Reply<'static> {
    let Some(what) = args.get(1) else { return Reply::Array(COMMANDS.iter().map(described).collect()) };
    if is(what, "COUNT") {
        Reply::Int(COMMANDS.len() as i64)
    } else if is(what, "LIST") {
        Reply::Array(COMMANDS.iter().map(|command| Reply::text(command.name.to_lowercase())).collect())
    } else if is(what, "INFO") {
        let described = |name: &&[u8]| table::find(name).map_or(Reply::Nil, described);
        Reply::Array(args[2..].iter().map(described).collect())
    } else if is(what, "DOCS") {
        // There are no texts: they are Redis's.
        Reply::Map(Vec::new())
    } else if is(what, "GETKEYS") {
        match args.get(2).and_then(|name| table::find(name)) {
            None => Reply::error("ERR Invalid command specified"),
            Some(command) if !command.takes(args.len() - 2) => {
                Reply::error("ERR Invalid number of arguments specified for command")
            }
            Some(command) if command.keys.0 == 0 => Reply::error("ERR The command has no key arguments"),
            Some(command) => {
                let keys = command.keys_of(args.len() - 2);
                Reply::Array(keys.map(|at| Reply::Bulk(args[2 + at].to_vec().into())).collect())
            }
        }
    } else {
        not_served("COMMAND", what)
    }
}

fn described(command: &Command) -> Reply<'static> {
    let flags = match command.kind {
        Kind::Read => vec![Reply::Status("readonly")],
        Kind::Write => vec![Reply::Status("write"), Reply::Status("denyoom")],
        Kind::Local => vec![Reply::Status("fast")],
    };
    let (first, last, step) = command.keys;
    Reply::Array(vec![
        Reply::text(command.name.to_lowercase()),
        Reply::Int(command.arity),
        Reply::Array(flags),
        Reply::Int(first),
        Reply::Int(last),
        Reply::Int(step),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}
