//! Groups in one process, whose state machines can be stopped from outside: a node whose application stands still is like one
//! that was stopped, for its agent neither beats nor votes, and its memory still answers.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringleader::{
    Change, CloseError, Confirm, Entry, Node, Options, Outcome, Role, StateMachine, SubmitError,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const RING: u64 = 512 << 10;
/// Bytes of an entry.
const ENTRY: usize = 1000;
/// Bytes of a state: several pieces.
const STATE: usize = 200_000;

pub(crate) struct Settings {
    pub(crate) nodes: u8,
    pub(crate) confirm: Confirm,
    pub(crate) snapshot_len: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { nodes: 3, confirm: Confirm::Completion, snapshot_len: RING }
    }
}

/// What the tests see and do of a node's application.
#[derive(Default)]
struct Outside {
    stopped: AtomicBool,
    /// Entries applied, and what they amount to.
    state: Mutex<(u64, u64)>,
    loads: AtomicU64,
}

/// Of the whole group.
#[derive(Default)]
struct Saving {
    held: AtomicBool,
    entered: AtomicBool,
}

struct Machine {
    outside: Arc<Outside>,
    saving: Arc<Saving>,
}

impl StateMachine for Machine {
    fn apply(&mut self, entry: Entry<'_>) {
        while self.outside.stopped.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let mut state = self.outside.state.lock().unwrap();
        let bytes = entry.payload.iter().chain(&entry.index.0.to_le_bytes()).copied().collect::<Vec<u8>>();
        *state = (state.0 + 1, bytes.iter().fold(state.1, |hash, byte| mix(hash ^ u64::from(*byte))));
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.saving.entered.store(true, Ordering::Relaxed);
        while self.saving.held.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let (entries, hash) = *self.outside.state.lock().unwrap();
        out.write_all(&entries.to_le_bytes())?;
        out.write_all(&hash.to_le_bytes())?;
        // In pieces that are no whole words.
        filler(hash).chunks(1001).try_for_each(|piece| out.write_all(piece))
    }

    fn load(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (entries, rest) = bytes.split_first_chunk::<8>().expect("whole");
        let (hash, rest) = rest.split_first_chunk::<8>().expect("whole");
        let (entries, hash) = (u64::from_le_bytes(*entries), u64::from_le_bytes(*hash));
        assert!(rest == filler(hash), "a damaged state");
        *self.outside.state.lock().unwrap() = (entries, hash);
        self.outside.loads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn mix(hash: u64) -> u64 {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// Bytes that only fit this state.
fn filler(hash: u64) -> Vec<u8> {
    let mut word = hash;
    let mut words = Vec::with_capacity(STATE);
    while words.len() < STATE {
        word = mix(word).wrapping_add(1);
        words.extend_from_slice(&word.to_le_bytes());
    }
    words
}

/// A group.
pub(crate) struct Group {
    settings: Settings,
    /// By id, from 1; `None`: closed.
    nodes: Vec<Option<Node>>,
    outsides: Vec<Arc<Outside>>,
    saving: Arc<Saving>,
    acknowledged: AtomicU64,
    dir: tempfile::TempDir,
}

impl Group {
    pub(crate) fn form(settings: Settings) -> Group {
        let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap();
        let count = usize::from(settings.nodes);
        let mut group = Group {
            settings,
            nodes: Vec::new(),
            outsides: (0..count).map(|_| Arc::default()).collect(),
            saving: Arc::default(),
            acknowledged: AtomicU64::new(0),
            dir,
        };
        group.nodes = (1..=group.settings.nodes).map(|id| Some(group.open(id))).collect();
        group.node(1).form(PATIENCE).unwrap();
        until("all are formed", || group.ids().all(|id| group.node(id).status().formed).then_some(()));
        group
    }

    fn open(&self, id: u8) -> Node {
        let mut options = Options::new(self.dir.path(), id, self.ids().collect::<Vec<u8>>());
        options.ring_len = RING;
        options.snapshot_len = Some(self.settings.snapshot_len);
        options.confirm = self.settings.confirm;
        let outside = Arc::clone(&self.outsides[usize::from(id) - 1]);
        Node::open(options, Machine { outside, saving: Arc::clone(&self.saving) }).unwrap()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.settings.nodes
    }

    pub(crate) fn node(&self, id: u8) -> &Node {
        self.nodes[usize::from(id) - 1].as_ref().expect("it is open")
    }

    pub(crate) fn try_leader(&self) -> Option<u8> {
        let mut open = self.nodes.iter().flatten();
        open.find(|node| node.status().role == Role::Leader).map(|node| node.status().node)
    }

    pub(crate) fn leader(&self) -> u8 {
        until("somebody leads", || self.try_leader())
    }

    /// Proposes so many entries, and waits until they are acknowledged.
    pub(crate) fn propose(&self, count: u64) {
        let mut left = count;
        while left > 0 {
            let mut handle = self.node(self.leader()).handle();
            let (mut posted, mut seen) = (0, 0);
            let deadline = Instant::now() + PATIENCE;
            let mut lost = false;
            while seen < left && !lost {
                assert!(Instant::now() < deadline, "{seen} of {left} entries: {:#?}", self.statuses());
                let mut full = posted == left;
                while !full && !lost && posted < left {
                    match handle.propose(&[posted as u8; ENTRY]) {
                        Ok(_) => posted += 1,
                        Err(SubmitError::Full) => full = true,
                        Err(_) => lost = true,
                    }
                }
                while let Some((_, outcome)) = handle.poll() {
                    match outcome {
                        Outcome::Committed { .. } => seen += 1,
                        _ => lost = true,
                    }
                }
                // The agents need the processors.
                thread::sleep(Duration::from_micros(200));
            }
            self.acknowledged.fetch_add(seen, Ordering::Relaxed);
            left -= seen;
        }
    }

    fn statuses(&self) -> Vec<ringleader::Status> {
        self.nodes.iter().flatten().map(Node::status).collect()
    }

    /// Proposes more than so many rings hold.
    pub(crate) fn propose_rings(&self, rings: u64) {
        self.propose(rings * RING / ENTRY as u64 + 100);
    }

    pub(crate) fn stop(&self, id: u8) {
        self.outsides[usize::from(id) - 1].stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn go_on(&self, id: u8) {
        self.outsides[usize::from(id) - 1].stopped.store(false, Ordering::Relaxed);
    }

    /// From now on nobody's saving ends.
    pub(crate) fn stop_in_save(&self) {
        self.saving.entered.store(false, Ordering::Relaxed);
        self.saving.held.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_in_save(&self) -> bool {
        self.saving.entered.load(Ordering::Relaxed)
    }

    pub(crate) fn go_on_saving(&self) {
        self.saving.held.store(false, Ordering::Relaxed);
    }

    /// How often a node has loaded a state.
    pub(crate) fn loads(&self, id: u8) -> u64 {
        self.outsides[usize::from(id) - 1].loads.load(Ordering::Relaxed)
    }

    /// Closes a node, in a thread of its own.
    pub(crate) fn close(&mut self, id: u8) -> JoinHandle<Result<(), CloseError>> {
        let node = self.nodes[usize::from(id) - 1].take().expect("it is open");
        thread::spawn(|| node.close())
    }

    /// A node dies, and begins again with nothing.
    pub(crate) fn restart(&mut self, id: u8) {
        self.close(id).join().expect("no panic").unwrap();
        self.outsides[usize::from(id) - 1] = Arc::default();
        self.nodes[usize::from(id) - 1] = Some(self.open(id));
    }

    pub(crate) fn readmit(&self, id: u8) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let change = Change::Readmit { node: id };
            match self.node(self.leader()).change_members(&change, PATIENCE) {
                Ok(()) => return,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    }

    /// Waits until all that are open have the same state, in which everything acknowledged is.
    pub(crate) fn all_equal(&self) {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE / 2;
        until("all states are equal", || {
            assert!(Instant::now() < deadline, "states differ: {:#?}", self.statuses());
            let open = self.ids().filter(|id| self.nodes[usize::from(*id) - 1].is_some());
            let states: Vec<(u64, u64)> =
                open.map(|id| *self.outsides[usize::from(id) - 1].state.lock().unwrap()).collect();
            let same = states.windows(2).all(|pair| pair[0] == pair[1]);
            (same && states[0].0 >= acknowledged).then_some(())
        });
    }
}

/// Waits until something is so.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
