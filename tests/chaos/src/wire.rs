//! What a node is asked over its socket, and what it answers: a line of JSON each, one question at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringleader::neighbours::Neighbours;
use ringleader::{Change, Members, Profile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a node is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The directory of the round.
    pub dir: PathBuf,
    /// This node.
    pub node: u8,
    /// Which process of this node it is: 1, 2, 3, …
    pub life: u32,
    /// All nodes that there may be are 1 to this.
    pub members: u8,
    /// Those that form the group are 1 to this.
    pub founders: u8,
    /// Bytes of the ring.
    pub ring_len: u64,
    /// Durations.
    pub profile: Profile,
    /// A leader takes members back that lost their memory.
    pub readmits: bool,
    /// A leader answers by its lease.
    pub lease_reads: bool,
    /// Acknowledgements of stopped followers count.
    pub stored: bool,
    /// The agent sleeps until it is woken, and does not look all the time.
    pub wakes: bool,
    /// WRITEs are confirmed by READs.
    pub readback: bool,
    /// What of the node this process is.
    pub part: Part,
    /// `None` on shared memory.
    pub neighbours: Option<Neighbours>,
    /// What is made wrong, to see that it is found.
    pub plant: Option<Plant>,
}

/// What of its node a process is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its acceptor, whose host is another process.
    Acceptor,
    /// That host.
    Host,
}

impl Setup {
    /// Where a node is asked.
    pub fn socket(dir: &Path, node: u8) -> PathBuf {
        dir.join(format!("node-{node}.socket"))
    }

    /// What that process of a node applied.
    pub fn applied(dir: &Path, node: u8, life: u32) -> PathBuf {
        dir.join(format!("node-{node}.life-{life}.applied"))
    }

    /// What the acceptor of that process said, where it is apart.
    pub fn acceptor_said(dir: &Path, node: u8, life: u32) -> PathBuf {
        dir.join(format!("node-{node}.life-{life}.acceptor.log"))
    }

    /// What it said.
    pub fn said(dir: &Path, node: u8, life: u32) -> PathBuf {
        dir.join(format!("node-{node}.life-{life}.log"))
    }
}

/// Something that a node may do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// A follower read is answered out of the state as it stands.
    Stale,
    /// A write now and then is acknowledged and not even proposed.
    Lost,
    /// A write now and then is applied twice.
    Doubled,
    /// One node passes over an entry now and then.
    Skipped,
}

/// How a read is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By the leader.
    Quorum,
    /// By any node.
    Follower,
    /// By the leader, while its lease runs.
    Lease,
}

impl How {
    /// All of them.
    pub const ALL: [How; 3] = [How::Quorum, How::Follower, How::Lease];

    /// In the words of the library.
    pub fn read(self) -> ringleader::Read {
        match self {
            How::Quorum => ringleader::Read::Quorum,
            How::Follower => ringleader::Read::Follower,
            How::Lease => ringleader::Read::Lease,
        }
    }
}

/// What a node is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// To propose commands of a client, in their order.
    Write {
        /// Whose.
        client: u32,
        /// The number of the first command.
        first: u32,
        /// The number of the first attempt.
        attempt: u64,
        /// So many commands.
        count: u32,
        /// Bytes of each payload.
        len: u32,
    },
    /// To look at its state when it may.
    Read {
        /// How.
        how: How,
    },
    /// How it is.
    Status,
    /// Who is in the group.
    Members,
    /// To change that.
    Change {
        /// How.
        change: Change,
        /// Within this.
        timeout_ms: u64,
    },
    /// To hand the lead over.
    Transfer {
        /// To whom.
        to: u8,
        /// Within this.
        timeout_ms: u64,
    },
    /// To form the group.
    Form {
        /// Within this.
        timeout_ms: u64,
    },
    /// To close the node and to end.
    Close,
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// What became of each command.
    Written(Vec<WriteEnd>),
    /// What the state was.
    Read {
        /// The last entry in it.
        saw: u64,
        /// Of all entries.
        digest: u64,
    },
    /// The state could not be looked at.
    NotRead(NotRead),
    /// How it is.
    Status(Box<NodeStatus>),
    /// Who is in the group.
    Members(Members),
    /// It is done.
    Done,
    /// It is not, or not known to be.
    Refused {
        /// Why.
        why: String,
        /// It may still come about.
        unknown: bool,
        /// Who leads, when that is why.
        leader: Option<u8>,
    },
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteEnd {
    /// It is committed.
    Committed {
        /// As this entry.
        index: u64,
        /// The entry by which it took effect, when that is known already.
        effect: Option<u64>,
    },
    /// It may be, or never.
    Unknown,
    /// It never will be.
    NotProposed {
        /// Who leads.
        leader: Option<u8>,
    },
}

/// Why a state could not be looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotRead {
    /// Nothing was made certain in time.
    Failed(String),
    /// Only the leader can.
    NotLeader(Option<u8>),
    /// Not in this group.
    NotAllowed,
    /// The node is closed, or in no group.
    NotThere,
    /// A read that ends neither way.
    Endless,
}

/// How a node is.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The life of its memory.
    pub incarnation: String,
    /// States of other nodes that it has taken.
    pub loads: u64,
    /// Whether it is in a group.
    pub formed: bool,
    /// Whether it leads.
    pub leads: bool,
    /// The term of its promise.
    pub term: u64,
    /// Whom it follows.
    pub leader: Option<u8>,
    /// The last entry known committed there.
    pub commit_index: u64,
    /// The last that is applied there.
    pub applied_index: u64,
    /// The last in its list.
    pub listed: u64,
    /// Whether it was removed from its group.
    pub removed: bool,
    /// How many members vote.
    pub voters: usize,
    /// How many of them came back without their memory.
    pub lost: usize,
    /// The followers, in words.
    pub followers: String,
}

/// A connection to a node.
#[derive(Debug)]
pub struct Line {
    reader: BufReader<UnixStream>,
    text: String,
}

impl Line {
    /// Connects to a node. Whatever takes longer than `timeout` is an error from now on.
    pub fn open(dir: &Path, node: u8, timeout: Duration) -> io::Result<Line> {
        let socket = UnixStream::connect(Setup::socket(dir, node))?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        Ok(Line::on(socket))
    }

    /// Over that socket.
    pub fn on(socket: UnixStream) -> Line {
        Line { reader: BufReader::new(socket), text: String::new() }
    }

    /// Asks, and waits for the answer. After an error nothing more is to be asked: an answer may still come.
    pub fn ask(&mut self, question: &Question) -> io::Result<Answer> {
        self.say(question)?;
        self.hear()
    }

    /// Sends one line.
    pub fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Waits for one.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        self.text.clear();
        if self.reader.read_line(&mut self.text)? == 0 || !self.text.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&self.text)?)
    }
}

/// One question on a connection of its own.
pub fn ask(dir: &Path, node: u8, timeout: Duration, question: &Question) -> io::Result<Answer> {
    Line::open(dir, node, timeout)?.ask(question)
}
