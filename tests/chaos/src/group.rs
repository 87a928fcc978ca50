//! The processes of a round: started, struck, continued, and what became of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringleader::processes::{Fate, Process};

use crate::judge::Life;
use crate::list::Applied;
use crate::wire::{Part, Setup};

/// A process of a node.
#[derive(Debug)]
pub struct Slot {
    process: Process,
    life: u32,
    /// When it goes on, when it is stopped.
    wakes_at: Option<Instant>,
    /// When it last went on.
    woken_at: Instant,
    /// It was stopped for so long that others may shoot it, or have done so.
    is_at_risk: bool,
}

/// The acceptor of a node, where it is a process of its own.
#[derive(Debug)]
struct Held {
    process: Process,
    /// The process of the node that it was started for.
    life: u32,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The node.
    pub node: u8,
    /// How.
    pub fate: Fate,
    /// It said that it could not fence a writer in time: then it is to end, for its end is a fence.
    pub is_fence: bool,
}

/// See the module. Dropped, all that live are killed.
#[derive(Debug)]
pub struct Group {
    program: PathBuf,
    /// Of any node.
    setup: Setup,
    devices: Vec<String>,
    slots: BTreeMap<u8, Slot>,
    /// Those that live.
    acceptors: BTreeMap<u8, Held>,
    /// How many processes there were of each node.
    lives: BTreeMap<u8, u32>,
}

impl Group {
    /// No process yet. `program` is started for each, and `setup` is what they have in common.
    pub fn new(program: PathBuf, setup: Setup, devices: Vec<String>) -> Group {
        Group {
            program,
            setup,
            devices,
            slots: BTreeMap::new(),
            acceptors: BTreeMap::new(),
            lives: BTreeMap::new(),
        }
    }

    /// Starts a node, in a new life. To be called by the thread that lives as long as the program.
    pub fn start(&mut self, node: u8) -> io::Result<()> {
        let life = self.lives.entry(node).or_default();
        *life += 1;
        let mut setup = Setup { node, life: *life, ..self.setup.clone() };
        let device = self.devices.iter().cycle().nth(usize::from(node) - 1).map(String::as_str);
        setup.neighbours = setup.neighbours.map(|neighbours| neighbours.on(device));
        if setup.part == Part::Host && !self.acceptors.contains_key(&node) {
            let acceptor = Setup { part: Part::Acceptor, ..setup.clone() };
            let process = self.spawn(&acceptor, &Setup::acceptor_said(&setup.dir, node, setup.life))?;
            self.acceptors.insert(node, Held { process, life: setup.life });
        }
        let process = self.spawn(&setup, &Setup::said(&setup.dir, node, setup.life))?;
        let slot =
            Slot { process, life: setup.life, wakes_at: None, woken_at: Instant::now(), is_at_risk: false };
        self.slots.insert(node, slot);
        Ok(())
    }

    fn spawn(&self, setup: &Setup, said: &Path) -> io::Result<Process> {
        let mut command = Command::new(&self.program);
        command
            .args(["node", "--parent", &std::process::id().to_string(), "--setup"])
            .arg(serde_json::to_string(setup)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(said)?);
        Process::start(&mut command)
    }

    /// Whether a process of that node lives, be it stopped.
    pub fn lives(&self, node: u8) -> bool {
        self.slots.contains_key(&node)
    }

    /// Whether it lives and is not stopped.
    pub fn runs(&self, node: u8) -> bool {
        self.slots.get(&node).is_some_and(|slot| slot.process.runs())
    }

    /// All nodes whose process lives.
    pub fn alive(&self) -> impl Iterator<Item = u8> {
        self.slots.keys().copied()
    }

    /// All that others may shoot.
    pub fn at_risk(&self) -> impl Iterator<Item = u8> {
        self.slots.iter().filter(|(_, slot)| slot.is_at_risk).map(|(node, _)| *node)
    }

    /// SIGKILL. Where host and acceptor are apart, for both, or every other time for the host alone: its node has lost nothing then.
    pub fn kill(&mut self, node: u8) -> io::Result<()> {
        let Some(mut slot) = self.slots.remove(&node) else { return Ok(()) };
        if slot.life.is_multiple_of(2)
            && let Some(mut acceptor) = self.acceptors.remove(&node)
        {
            acceptor.process.kill()?;
            acceptor.process.wait()?;
        }
        slot.process.kill()?;
        slot.process.wait()
    }

    /// SIGSTOP, for so long.
    pub fn stop(&mut self, node: u8, length: Duration, is_at_risk: bool) -> io::Result<()> {
        let Some(slot) = self.slots.get_mut(&node) else { return Ok(()) };
        slot.process.stop()?;
        slot.wakes_at = Some(Instant::now() + length);
        slot.is_at_risk |= is_at_risk;
        Ok(())
    }

    /// SIGCONT for all whose time has come, or for all; who was continued.
    pub fn wake(&mut self, all: bool) -> io::Result<Vec<u8>> {
        let mut woken = Vec::new();
        for (node, slot) in &mut self.slots {
            if slot.wakes_at.is_some_and(|at| all || at <= Instant::now()) {
                slot.process.wake()?;
                (slot.wakes_at, slot.woken_at) = (None, Instant::now());
                woken.push(*node);
            }
        }
        Ok(woken)
    }

    /// A process that was asked then has answered: if it had been continued before, it was not shot.
    pub fn handle_answer(&mut self, node: u8, asked: Instant) {
        if let Some(slot) = self.slots.get_mut(&node) {
            slot.is_at_risk &= slot.wakes_at.is_some() || asked < slot.woken_at;
        }
    }

    /// Those that have ended since the last look, and were not killed from here.
    pub fn ended(&mut self) -> io::Result<Vec<Ended>> {
        let mut ended = Vec::new();
        for (node, slot) in &mut self.slots {
            if slot.process.went()? {
                let fate = slot.process.fate().clone();
                let said = fs::read_to_string(Setup::said(&self.setup.dir, *node, slot.life))?;
                let is_fence = matches!(fate, Fate::Died(_)) && said.contains("could not be fenced in time");
                ended.push(Ended { node: *node, fate, is_fence });
            }
        }
        // An acceptor ends when it cannot fence a writer. Its host is of no use then.
        for (node, held) in &mut self.acceptors {
            if held.process.went()? {
                let fate = held.process.fate().clone();
                let said = fs::read_to_string(Setup::acceptor_said(&self.setup.dir, *node, held.life))?;
                let is_fence = matches!(fate, Fate::Died(_)) && said.contains("could not be fenced in time");
                ended.retain(|gone| gone.node != *node);
                ended.push(Ended { node: *node, fate, is_fence });
            }
        }
        for gone in &ended {
            if self.acceptors.get(&gone.node).is_some_and(|held| !held.process.lives()) {
                self.acceptors.remove(&gone.node);
            }
            if let Some(mut slot) = self.slots.remove(&gone.node)
                && slot.process.lives()
            {
                slot.process.kill()?;
                slot.process.wait()?;
            }
        }
        Ok(ended)
    }

    /// What each process of each node applied. Those that live now are to have everything.
    pub fn applied(&self, whole: &[(u8, u32)]) -> io::Result<Vec<Life>> {
        let mut all = Vec::new();
        for (node, count) in &self.lives {
            for life in 1..=*count {
                let bytes = match fs::read(Setup::applied(&self.setup.dir, *node, life)) {
                    // It was killed before it had opened it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    bytes => bytes?,
                };
                all.push(Life {
                    name: format!("process {life} of node {node}"),
                    applied: Applied::all(&bytes),
                    is_whole: whole.contains(&(*node, life)),
                });
            }
        }
        Ok(all)
    }

    /// Nodes whose processes live, and which process that is.
    pub fn lives_now(&self) -> Vec<(u8, u32)> {
        self.slots.iter().map(|(node, slot)| (*node, slot.life)).collect()
    }
}
