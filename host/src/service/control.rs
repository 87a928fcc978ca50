//! The socket by which a running node is told to form its group and asked how it is: one question, one answer, a line of
//! JSON each. Only the user that runs the node, and root, get an answer.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{geteuid, umask};
use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use super::members;
use super::status::NodeStatus;
use crate::exchange::GroupName;
use crate::members::{Change, Members};
use crate::{FormError, Half, Node, Read as HowToRead, ReadOutcome, Status, TransferError};

/// Bytes of the longest question or answer.
const MAX_LINE: usize = 64 << 10;
/// How long whoever asks may take to say what.
const ASK: Duration = Duration::from_secs(2);
/// Questions answered at a time.
const MAX_ASKED: usize = 8;
/// How often a forming is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a node is asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// How it is.
    Status,
    /// To hand the lead over.
    Transfer {
        /// To this node.
        to: u8,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
    /// Whether its state may be read.
    Read {
        /// How it makes sure of that.
        how: How,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
    /// To form its group.
    Form {
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
    /// Who is in its group.
    Members,
    /// To change that, as leader.
    ChangeMembers {
        /// How.
        change: Change,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
    /// To become a group of its own, because its group has lost a majority for good.
    Recover {
        /// Do it; else only say what it would mean.
        force_new_group: bool,
    },
}

/// How a node makes sure that a read misses nothing.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The leader asks a majority
    Quorum,
    /// Any node asks the leader's memory, and a majority
    Follower,
    /// The leader trusts its lease, which the configuration must allow
    Lease,
}

/// What it answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// How it is.
    Status(NodeStatus),
    /// It is in a group.
    Formed {
        /// The group's id, 32 hexadecimal digits.
        group: String,
        /// It was before it was asked.
        already: bool,
    },
    /// Who is in the group.
    Members(Members),
    /// What a new group of this node means, and whether it is made.
    Recovery {
        /// It is made.
        forced: bool,
        /// The id of the group that stopped.
        group: String,
        /// The id of the new one; empty when it is not made.
        new_group: String,
        /// The last entry that the node knew committed.
        commit_index: u64,
        /// Voters of the group that stopped.
        voters: usize,
        /// Of these, the ones that came back without their memory.
        lost: usize,
    },
    /// Another leads.
    Transferred {
        /// Who.
        to: u8,
    },
    /// Its state may be read: everything up to there has been applied.
    Read {
        /// The last entry applied.
        applied_index: u64,
        /// How long that took.
        took_us: u64,
    },
    /// What came in between.
    Failed {
        /// In one line.
        why: String,
    },
}

/// The socket. It goes when this is dropped, and its directories, if they were made for it and are empty.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    /// Directories that were made for it, each in the next.
    made: Vec<PathBuf>,
}

impl Control {
    /// Makes the socket, mode 0600, and its directory, mode 0700, when that is missing. An error when another process
    /// answers there.
    ///
    /// To be called while the process has one thread: it sets the mask of modes for a moment.
    pub fn bind(path: &Path) -> Result<Control, String> {
        let named =
            |what: &str, error: io::Error| format!("control socket {}: {what}{error}", path.display());
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let made: Vec<PathBuf> = dir.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let bound = if made.is_empty() {
            Ok(())
        } else {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            created.map_err(|error| named("its directory: ", error))
        };
        match bound.and_then(|()| bind_in(dir, path).map_err(|error| named("", error))) {
            Ok((listener, file)) => Ok(Control { listener, path: path.to_owned(), file, made }),
            Err(error) => {
                remove_empty(&made);
                Err(error)
            }
        }
    }

    /// The next that wants to ask something, and may.
    pub fn accept(&self) -> Option<UnixStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => match socket_peercred(&stream) {
                    Ok(who) if [0, geteuid().as_raw()].contains(&who.uid.as_raw()) => return Some(stream),
                    Ok(who) => warn!(user = who.uid.as_raw(), "may not ask this node anything"),
                    Err(error) => debug!(%error, "cannot tell who asks"),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Ready to be read when somebody wants to ask.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Unless another process has put its own there.
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
        remove_empty(&self.made);
    }
}

/// Removes directories, as long as they are empty.
fn remove_empty(dirs: &[PathBuf]) {
    let _ = dirs.iter().try_for_each(fs::remove_dir);
}

fn bind_in(dir: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    // Two that start at once would each take the other's socket for a dead one's.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = File::from(rustix::fs::open(dir, flags, Mode::empty())?);
    flock(&lock, FlockOperation::LockExclusive)?;
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::other("something else is there, which is no socket"));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::other("another process runs this node already")),
            // Left by one that was killed.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The socket never has another mode, not even for a moment.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound?;
    listener.set_nonblocking(true)?;
    let file = fs::symlink_metadata(path)?;
    Ok((listener, (file.dev(), file.ino())))
}

/// How many questions are being answered.
#[derive(Debug, Default)]
pub(crate) struct Asked(Arc<()>);

impl Asked {
    /// A turn, if not as many as `max` are taken; it ends when it is dropped.
    pub(super) fn turn(&self, max: usize) -> Option<Arc<()>> {
        (Arc::strong_count(&self.0) <= max).then(|| Arc::clone(&self.0))
    }
}

/// Takes questions in; each is answered by a thread of its own, for forming takes its time.
pub(crate) fn answer_all<'scope>(
    control: &Control,
    scope: &'scope Scope<'scope, '_>,
    node: &'scope Node,
    name: GroupName,
    asked: &Asked,
    stop: &'scope AtomicBool,
) {
    while let Some(stream) = control.accept() {
        let Some(turn) = asked.turn(MAX_ASKED) else { continue };
        let answer = move || {
            answer(&stream, node, name.as_str(), stop);
            drop(turn);
        };
        if let Err(error) = thread::Builder::new().name("control".to_owned()).spawn_scoped(scope, answer) {
            warn!(%error, "cannot answer");
        }
    }
}

/// Answers one question to whoever asks it.
fn answer(stream: &UnixStream, node: &Node, name: &str, stop: &AtomicBool) {
    let answered = read_line::<Question>(stream, ASK).and_then(|question| {
        let alone = node.options().half == Half::Acceptor;
        let answer = match question {
            Question::ChangeMembers { .. }
            | Question::Recover { .. }
            | Question::Transfer { .. }
            | Question::Read { .. }
                if alone =>
            {
                Answer::Failed {
                    why: "this is the acceptor of a node whose host is apart: ask that".to_owned(),
                }
            }
            Question::Status => Answer::Status(NodeStatus::new(name, &node.status())),
            Question::Members => members::list(node),
            Question::ChangeMembers { change, timeout_ms } => {
                members::change(node, &change, Duration::from_millis(timeout_ms), stop)
            }
            Question::Recover { force_new_group } => members::recover(node, force_new_group),
            Question::Transfer { to, timeout_ms } => transfer(node, to, Duration::from_millis(timeout_ms)),
            Question::Read { how, timeout_ms } => read(node, how, Duration::from_millis(timeout_ms)),
            Question::Form { timeout_ms } => form(node, Duration::from_millis(timeout_ms), stop, stream),
        };
        write_line(stream, &answer)
    });
    if let Err(error) = answered {
        debug!(%error, "a question was not answered");
    }
}

fn transfer(node: &Node, to: u8, timeout: Duration) -> Answer {
    match node.transfer(to, timeout) {
        Ok(()) => Answer::Transferred { to },
        Err(error @ (TransferError::NotVoter | TransferError::NotReady | TransferError::NotElected)) => {
            Answer::Failed { why: format!("node {to}: {error}") }
        }
        Err(error) => Answer::Failed { why: error.to_string() },
    }
}

fn read(node: &Node, how: How, timeout: Duration) -> Answer {
    let how = match how {
        How::Quorum => HowToRead::Quorum,
        How::Follower => HowToRead::Follower,
        How::Lease => HowToRead::Lease,
    };
    let begun = Instant::now();
    let outcome = node.reader().read(how, timeout);
    let why = match outcome {
        Some(ReadOutcome::Ready { applied_index }) => {
            return Answer::Read { applied_index, took_us: begun.elapsed().as_micros() as u64 };
        }
        Some(ReadOutcome::Failed(why)) => why.to_string(),
        Some(ReadOutcome::NotLeader { leader: Some(leader) }) => {
            format!("this node does not lead, node {leader} does")
        }
        Some(ReadOutcome::NotLeader { leader: None }) => {
            "this node does not lead, and knows nobody who does".to_owned()
        }
        Some(ReadOutcome::NotFormed) => "its group is not formed".to_owned(),
        Some(ReadOutcome::NoLeaseReads) => {
            "its configuration has no lease_reads_if_clocks_drift_below_ppm".to_owned()
        }
        Some(ReadOutcome::Closed) => "the node ends".to_owned(),
        None => format!("no answer within {} ms", timeout.as_millis()),
    };
    Answer::Failed { why }
}

/// Forms the group, and gives up waiting when the node is to end, or whoever asked has gone.
fn form(node: &Node, timeout: Duration, stop: &AtomicBool, asker: &UnixStream) -> Answer {
    let begun = Instant::now();
    let failed = |why: String| Answer::Failed { why };
    let formed =
        |status: &Status, already| Answer::Formed { group: format!("{:032x}", status.group), already };
    let before = node.status();
    if before.formed {
        return formed(&before, true);
    }
    // It only begins: this thread waits by itself, so that it can be told to stop.
    match node.form(Duration::ZERO) {
        Ok(()) | Err(FormError::Timeout) => {}
        Err(error) => return failed(error.to_string()),
    }
    loop {
        let status = node.status();
        if status.formed {
            return formed(&status, false);
        }
        if status.form_refusals > before.form_refusals {
            return failed(FormError::Refused.to_string());
        }
        if status.closed || stop.load(Ordering::Relaxed) {
            return failed("the node ends".to_owned());
        }
        if has_gone(asker) {
            return failed("nobody waits for the answer".to_owned());
        }
        if begun.elapsed() >= timeout {
            return failed(not_formed(&node.unreached(), timeout));
        }
        thread::sleep(LOOK);
    }
}

fn not_formed(unreached: &[u8], timeout: Duration) -> String {
    let who = match unreached {
        [] => "all members are reached, but not all have answered".to_owned(),
        [one] => format!("node {one} is not reached"),
        several => {
            let several: Vec<String> = several.iter().map(u8::to_string).collect();
            format!("nodes {} are not reached", several.join(", "))
        }
    };
    format!("not formed within {} s: {who}; the node goes on trying", timeout.as_secs())
}

/// Whether the other end is closed.
fn has_gone(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// Asks the node whose socket this is.
pub fn ask(path: &Path, question: &Question, patience: Duration) -> Result<Answer, String> {
    let named = |what: String| format!("control socket {}: {what}", path.display());
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => named(
            "no node runs there: start it with ringleader run, or, on a DPU, ringleader-dpu run".to_owned(),
        ),
        _ => named(error.to_string()),
    })?;
    write_line(&stream, question).and_then(|()| read_line(&stream, patience)).map_err(|error| {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                named("the node ended, or answers too many others: ask again".to_owned())
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => named("the node does not answer".to_owned()),
            _ => named(error.to_string()),
        }
    })
}

fn write_line(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(ASK))?;
    stream.write_all(&line)
}

/// Reads up to a line feed, which must come within `patience`, however slowly the bytes drip.
fn read_line<T: for<'de> Deserialize<'de>>(mut stream: &UnixStream, patience: Duration) -> io::Result<T> {
    let deadline = Instant::now() + patience;
    let mut line = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&chunk[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            return Ok(serde_json::from_slice(&line[..end])?);
        }
        if line.len() > MAX_LINE {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_socket_is_its_owners_and_goes() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("run/node.control");
        let control = Control::bind(&path).expect("bound");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&base.path().join("run")), 0o700);
        let said = Control::bind(&path).expect_err("taken");
        assert!(said.contains("runs this node already") && said.contains("node.control"), "{said}");
        assert!(path.exists());
        drop(control);
        assert!(!base.path().join("run").exists());
        // All that was made for it, and nothing else.
        let deep = Control::bind(&base.path().join("a/b/c/node.control")).expect("bound");
        fs::write(base.path().join("a/other"), b"precious").expect("written");
        drop(deep);
        assert!(base.path().join("a/other").exists() && !base.path().join("a/b").exists());
    }

    #[test]
    fn what_a_dead_node_left_is_replaced_and_nothing_else() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("node.control");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        let control = Control::bind(&path).expect("replaced");
        drop(control);
        assert!(!path.exists() && base.path().exists());
        fs::write(&path, b"precious").expect("written");
        assert!(Control::bind(&path).expect_err("a file").contains("no socket"));
        assert_eq!(fs::read(&path).expect("still there"), b"precious");
    }

    #[test]
    fn questions_and_answers_are_lines_of_json() {
        let form = serde_json::to_string(&Question::Form { timeout_ms: 5 }).expect("JSON");
        assert_eq!(form, r#"{"form":{"timeout_ms":5}}"#);
        assert_eq!(serde_json::to_string(&Question::Status).expect("JSON"), r#""status""#);
        assert!(serde_json::from_str::<Question>(r#"{"form":{"timeout_ms":5,"x":1}}"#).is_err());
    }

    #[test]
    fn a_question_that_drips_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let dripping = thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(5)).is_err() {
                let _ = (&theirs).write_all(b" ");
            }
        });
        let said = read_line::<Question>(&ours, Duration::from_millis(100)).expect_err("never a line");
        assert!([ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&said.kind()), "{said}");
        end.send(()).expect("it runs");
        dripping.join().expect("ended");
        assert!(has_gone(&ours));
    }

    #[test]
    fn nobody_there_is_said() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("node.control");
        let said = ask(&path, &Question::Status, ASK).expect_err("nobody");
        assert!(said.contains("no node runs there"), "{said}");
    }
}
