//! The story of a demo: start, form, measure, stream, strike in the middle, wait for who lives, close, compare.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::client::Client;
use super::cluster::{Cluster, Fate, Notice, Signals};
use super::history::{History, Mark};
use super::place::Place;
use super::plan::{BadInput, Carrier, Fault, Plan, Whom};
use super::reads::{ReadSummary, Tally};
use super::source::{Source, Survey, survey};
use super::summary::{Led, Story, Summary};
use super::verify::compare;
use super::wire::{GroupSetup, Happening, Measured, Order, Report, Setup, State};
use super::{now_ns, picture};
use crate::neighbours::Neighbours;
use crate::random::random;

/// Nothing may stand still for longer than this.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Who was stopped is woken early when nothing goes forward without it for so long.
const SLEEP_LIMIT: Duration = Duration::from_secs(5);
/// A stream that ended is begun anew after this, when its node still leads.
pub(super) const BACK_OFF: Duration = Duration::from_millis(5);
/// Nodes that have applied more than this and not written it to their files hold the feed: memory is not endless.
pub(super) const MAX_BACKLOG: u64 = 64 << 20;

/// Why there is no summary.
#[derive(Debug)]
pub enum Error {
    /// Something the user gave cannot be: exit status 2.
    BadInput(BadInput),
    /// The user ended it: exit status 130.
    Interrupted,
    /// Something else: exit status 1.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadInput(error) => error.fmt(f),
            Error::Interrupted => f.write_str("interrupted"),
            Error::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<BadInput> for Error {
    fn from(error: BadInput) -> Error {
        Error::BadInput(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Failed(error.to_string())
    }
}

/// How far it is, for a progress bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Processes start and form a group.
    Starting,
    /// Latency is measured.
    Measuring,
    /// So many of so many entries are acknowledged.
    Streaming(u64, u64),
    /// Survivors apply what is left, and close.
    Closing,
    /// Files are compared.
    Comparing,
}

/// Runs a demo. To be called by the program's first thread: the nodes die with the thread that started them.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Stage)) -> Result<Summary, Error> {
    let signals = Signals::install()?;
    plan.check()?;
    let survey = survey(plan)?;
    let source = Source::open(plan)?;
    if signals.is_raised() {
        return Err(Error::Interrupted);
    }
    let mut place = Place::make(plan, &survey)?;
    if signals.is_raised() {
        return Err(Error::Interrupted);
    }
    let mut show = Show {
        plan,
        survey,
        watch,
        cluster: Cluster::start(plan.nodes, signals)?,
        client: Client::new(source, survey.entries, plan.ring_len),
        nodes: vec![NodeView::default(); usize::from(plan.nodes) + 1],
        history: History::default(),
        strike: None,
        is_spared: false,
        began_ns: 0,
        ended_ns: 0,
        begin_at: Instant::now(),
        acked_at: Vec::new(),
        measured: None,
        moved_at: Instant::now(),
        is_over: false,
        failure: None,
    };
    show.start(&place)?;
    show.form()?;
    show.measure()?;
    show.stream()?;
    show.catch_up()?;
    show.close()?;
    (show.watch)(Stage::Comparing);
    let summary = show.summarize(&mut place)?;
    place.keep();
    Ok(summary)
}

/// What each node is to open.
pub(super) fn setups(plan: &Plan, place: &Place) -> Result<Vec<Setup>, Error> {
    let neighbours = match plan.carrier {
        Carrier::SharedMemory => None,
        Carrier::Verbs { .. } => {
            let count = u16::from(plan.nodes) * u16::from(plan.groups);
            let neighbours = Neighbours::arrange(count, place.regions());
            Some(neighbours.map_err(|text| Error::BadInput(BadInput(text)))?)
        }
    };
    // Each group has ports of its own.
    let verbs = |group: u8, node| {
        let Neighbours { ports, key_file, .. } = neighbours.as_ref()?;
        let ports = ports.chunks(usize::from(plan.nodes)).nth(usize::from(group))?.to_vec();
        let device = plan.carrier.device(node).map(str::to_owned);
        Some(Neighbours { ports, key_file: key_file.clone(), device })
    };
    // Also where there are no regions: what is acknowledged stands there.
    for group in 0..plan.groups {
        let dir = place.regions_of(group);
        std::fs::create_dir_all(&dir).map_err(|error| BadInput(format!("{}: {error}", dir.display())))?;
    }
    let clients: Vec<u64> = (0..plan.groups).map(|_| random()).collect();
    let setup = |node| Setup {
        node,
        nodes: plan.nodes,
        ring_len: plan.ring_len,
        snapshot_len: plan.snapshot_len(),
        profile: plan.profile,
        stored: plan.quorum == crate::Quorum::Stored,
        readback: plan.confirm == crate::Confirm::Readback,
        busy: plan.idle == crate::Idle::Busy,
        keep_region: plan.keep_regions,
        groups: (0..plan.groups)
            .map(|group| GroupSetup {
                regions: place.regions_of(group),
                verbs: verbs(group, node),
                applied: place.applied_of(group, node),
                client: clients[usize::from(group)],
            })
            .collect(),
    };
    Ok((1..=plan.nodes).map(setup).collect())
}

/// What is known of a node.
#[derive(Clone, Debug, Default)]
struct NodeView {
    opened: bool,
    formed: bool,
    state: State,
    /// The term it leads, or 0.
    leads: u64,
    behind: bool,
    measured: Option<Result<Measured, String>>,
    read: Option<Tally>,
}

/// The blow.
#[derive(Clone, Copy, Debug)]
struct Strike {
    node: u8,
    at_ns: u64,
    /// The term the node led.
    term: u64,
}

struct Show<'a> {
    plan: &'a Plan,
    survey: Survey,
    watch: &'a mut dyn FnMut(Stage),
    cluster: Cluster,
    client: Client,
    /// By id.
    nodes: Vec<NodeView>,
    history: History,
    strike: Option<Strike>,
    /// Nobody is struck: nodes that stayed behind before have left no majority without the victim.
    is_spared: bool,
    began_ns: u64,
    ended_ns: u64,
    /// No stream begins before.
    begin_at: Instant,
    acked_at: Vec<(u64, u64)>,
    measured: Option<Measured>,
    /// When something last went forward.
    moved_at: Instant,
    /// The nodes are told to end.
    is_over: bool,
    /// Why it cannot end well. The first reason stays.
    failure: Option<String>,
}

impl Show<'_> {
    fn start(&mut self, place: &Place) -> Result<(), Error> {
        (self.watch)(Stage::Starting);
        let setups = setups(self.plan, place)?;
        for (node, setup) in (1..=self.plan.nodes).zip(setups) {
            self.cluster.member(node).order(&Order::Open(setup));
        }
        self.wait_for("the nodes to open", |show| show.nodes[1..].iter().all(|node| node.opened))
    }

    fn form(&mut self) -> Result<(), Error> {
        self.cluster.member(1).order(&Order::Form { timeout_ms: PATIENCE.as_millis() as u64 });
        self.wait_for("the group to form", |show| show.nodes[1].formed)?;
        self.wait_for("a leader", |show| {
            show.history.last_leader().is_some_and(|leader| leader.first_commit_ns.is_some())
        })
    }

    fn measure(&mut self) -> Result<(), Error> {
        if self.plan.samples == 0 {
            return Ok(());
        }
        (self.watch)(Stage::Measuring);
        // A measurement fails with its leader, and on a busy machine leaders fall: it is tried again as long as that may take.
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        while Instant::now() < deadline {
            self.wait_for("a leader", |show| show.leader().is_some())?;
            let Some(leader) = self.leader() else { continue };
            self.nodes[usize::from(leader)].measured = None;
            let (samples, size) = (self.plan.samples, self.plan.sample_size);
            self.cluster.member(leader).order(&Order::Measure { samples, size });
            self.wait_for("the measurement", |show| show.nodes[usize::from(leader)].measured.is_some())?;
            match self.nodes[usize::from(leader)].measured.take() {
                Some(Ok(measured)) => {
                    self.measured = Some(measured);
                    return Ok(());
                }
                Some(Err(message)) => {
                    tracing::info!(leader, "not measured: {message}");
                    said = message;
                    self.wait(BACK_OFF)?;
                }
                None => {}
            }
        }
        self.fail(format!("the latency could not be measured: {said}"));
        Ok(())
    }

    /// Proposes everything, strikes in the middle, and sees the fail-over through.
    fn stream(&mut self) -> Result<(), Error> {
        self.history.forget_commits();
        if self.plan.reads > 0 {
            for node in 1..=self.plan.nodes {
                self.cluster.member(node).order(&Order::Read { threads: self.plan.reads });
            }
        }
        self.began_ns = now_ns();
        self.moved_at = Instant::now();
        loop {
            self.feed()?;
            self.strike()?;
            (self.watch)(Stage::Streaming(self.client.acknowledged(), self.survey.entries));
            let struck = self.plan.fault == Fault::None || self.is_spared || self.strike.is_some();
            if self.client.is_done() && struck && self.is_failed_over() {
                self.ended_ns = now_ns();
                return Ok(());
            }
            self.wait(Duration::from_millis(5))?;
            if self.moved_at.elapsed() > SLEEP_LIMIT {
                self.wake()?;
            }
            if self.is_stuck("an entry to be acknowledged") || self.is_lost() {
                return Ok(());
            }
        }
    }

    fn feed(&mut self) -> Result<(), Error> {
        if self.client.is_done() {
            return Ok(());
        }
        let leader = self.leader();
        if self.client.target().is_some_and(|target| leader.is_some_and(|leader| leader != target)) {
            // Somebody with a higher term leads.
            self.client.abandon();
        }
        if let (None, Some(leader)) = (self.client.target(), leader)
            && Instant::now() >= self.begin_at
        {
            self.client.begin(leader, &mut self.cluster.member(leader).outbox);
        }
        let nodes = &self.nodes;
        let held = self
            .cluster
            .members()
            .iter()
            .any(|member| member.runs() && nodes[usize::from(member.id)].state.backlog > MAX_BACKLOG);
        if let Some(target) = self.client.target().filter(|_| !held) {
            let outbox = &mut self.cluster.member(target).outbox;
            // What is not sent yet is enough.
            if outbox.is_empty() {
                self.client.fill(outbox)?;
            }
        }
        Ok(())
    }

    /// Kills or stops somebody when half of the entries are acknowledged.
    fn strike(&mut self) -> Result<(), Error> {
        let (Fault::Kill(whom) | Fault::Pause(whom)) = self.plan.fault else { return Ok(()) };
        if self.strike.is_some() || self.is_spared || self.client.acknowledged() < self.survey.entries / 2 {
            return Ok(());
        }
        let Some(leader) = self.leader() else { return Ok(()) };
        let node = match whom {
            Whom::Leader => leader,
            Whom::Follower => {
                let follower =
                    self.cluster.members().iter().find(|member| member.runs() && member.id != leader);
                let Some(follower) = follower else { return Ok(()) };
                follower.id
            }
        };
        let is_left = |id: u8| id != node && !self.nodes[usize::from(id)].behind;
        let left = self.cluster.members().iter().filter(|member| member.runs() && is_left(member.id)).count();
        if left <= usize::from(self.plan.nodes) / 2 && self.nodes.iter().any(|node| node.behind) {
            tracing::warn!(node, left, "spared: the others would be no majority");
            self.is_spared = true;
            return Ok(());
        }
        let term = self.nodes[usize::from(leader)].leads;
        let member = self.cluster.member(node);
        let (at_ns, mark) = match self.plan.fault {
            Fault::Pause(_) => (member.stop()?, Mark::Stopped),
            _ => (member.kill()?, Mark::Killed),
        };
        tracing::info!(node, %whom, "struck");
        self.strike = Some(Strike { node, at_ns, term });
        self.history.add(at_ns, node, mark);
        self.lose(node);
        Ok(())
    }

    fn is_failed_over(&self) -> bool {
        !self.plan.fault.strikes_leader()
            || self.is_spared
            || self.strike.is_some_and(|strike| self.history.fail_over(strike.term, strike.at_ns).is_some())
    }

    /// Wakes who sleeps, and waits until everybody who can has applied everything.
    fn catch_up(&mut self) -> Result<(), Error> {
        (self.watch)(Stage::Closing);
        self.wake()?;
        self.moved_at = Instant::now();
        while !self.is_stuck("the survivors to apply everything") {
            let entries = self.client.acknowledged();
            if !self.has_majority() {
                // Who is left will never hear what is committed.
                self.fail("the survivors are no majority: the group has stopped".to_owned());
                return Ok(());
            }
            let nodes = &self.nodes;
            let is_settled = self.cluster.members().iter().filter(|member| member.lives()).all(|member| {
                let node = &nodes[usize::from(member.id)];
                node.behind || node.state.applied >= entries
            });
            if is_settled {
                return Ok(());
            }
            self.wait(Duration::from_millis(20))?;
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), Error> {
        let Some(strike) = self.strike else { return Ok(()) };
        let member = self.cluster.member(strike.node);
        if *member.fate() == Fate::Stopped {
            let at_ns = member.wake()?;
            self.history.add(at_ns, strike.node, Mark::Woken);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        // Who hears that a node has ended may ask for votes once more: that is no part of the story.
        self.is_over = true;
        for node in 1..=self.plan.nodes {
            self.cluster.member(node).order(&Order::Close);
        }
        let deadline = Instant::now() + PATIENCE;
        while self.cluster.members().iter().any(|member| member.lives()) {
            if Instant::now() > deadline {
                let nodes: Vec<u8> = self
                    .cluster
                    .members()
                    .iter()
                    .filter(|member| member.lives())
                    .map(|member| member.id)
                    .collect();
                self.fail(format!("nodes {nodes:?} did not end"));
                return Ok(());
            }
            self.wait(Duration::from_millis(20))?;
        }
        Ok(())
    }

    fn summarize(mut self, place: &mut Place) -> Result<Summary, Error> {
        let mut survivors = Vec::new();
        let (mut shot, mut behind) = (Vec::new(), Vec::new());
        let (mut lost, mut duplicated) = (0, 0);
        let mut compared = Vec::new();
        let acknowledged = self.client.acknowledged();
        for node in 1..=self.plan.nodes {
            let is_behind = self.nodes[usize::from(node)].behind;
            match self.cluster.member(node).fate().clone() {
                Fate::Killed => place.discard(node)?,
                Fate::Shot => {
                    shot.push(node);
                    place.discard(node)?;
                }
                Fate::Died(_) => place.discard(node)?,
                Fate::Running | Fate::Stopped | Fate::Closed => {
                    if self.cluster.is_interrupted() {
                        return Err(Error::Interrupted);
                    }
                    let expected = if is_behind { 0 } else { acknowledged };
                    let found = compare(self.plan, &place.applied(node), expected)?;
                    lost = lost.max(found.lost);
                    duplicated = duplicated.max(found.duplicated);
                    if is_behind {
                        behind.push(node);
                        place.set_behind(node)?;
                        if !found.is_prefix {
                            self.fail(format!(
                                "node {node} is behind, and what it applied is not what was proposed"
                            ));
                        }
                    } else {
                        survivors.push(node);
                        compared.push(found);
                    }
                }
            }
        }
        // A minority was perhaps not told that what it has is committed: that is no loss.
        let is_majority = survivors.len() + behind.len() > usize::from(self.plan.nodes) / 2;
        let unknown = if is_majority || compared.iter().any(|found| !found.is_prefix) {
            0
        } else {
            std::mem::take(&mut lost)
        };
        let identical = !compared.is_empty()
            && compared.iter().all(|found| found.is_prefix && found.entries == compared[0].entries);
        if self.plan.keep_regions {
            place.save_regions(self.plan.nodes)?;
        }
        let elapsed_ns = self.acked_at.last().map_or(0, |last| last.0.saturating_sub(self.began_ns));
        let since = |at_ns: u64| at_ns as i64 - self.began_ns as i64;
        let leaders = self.history.leaderships().iter().map(|led| Led {
            node: led.node,
            term: led.term,
            from_ns: since(led.elected_ns),
            until_ns: led.ended_ns.map(since),
        });
        let leaders: Vec<Led> = leaders.collect();
        let end_ns = self.history.moments().iter().map(|moment| moment.at_ns).fold(self.ended_ns, u64::max);
        let mut summary = Summary {
            nodes: self.plan.nodes,
            entries: self.survey.entries,
            acknowledged,
            retried: self.client.retried(),
            lost,
            unknown,
            duplicated,
            identical,
            shot: shot.len(),
            behind: behind.len(),
            leader_changes: leaders.len().saturating_sub(1),
            longest_gap_ns: self.history.longest_gap_ns(),
            reads: (self.plan.reads > 0).then(|| {
                let tallies: Vec<Tally> = self.nodes.iter_mut().filter_map(|node| node.read.take()).collect();
                ReadSummary::of(&tallies, self.nodes.iter().map(|node| node.state.stale).sum())
            }),
            commit_ns: None,
            floor_ns: None,
            failover_ns: self
                .strike
                .filter(|_| self.plan.fault.strikes_leader())
                .and_then(|strike| self.history.fail_over(strike.term, strike.at_ns)),
            dir: place.dir().to_owned(),
            samples: 0,
            survivors,
            shot_nodes: shot,
            behind_nodes: behind,
            leaders,
            elapsed_ns,
            entries_per_s: (u128::from(acknowledged) * 1_000_000_000 / u128::from(elapsed_ns.max(1))) as u64,
            failure: self.failure,
            story: Story {
                feed: self.plan.feed.clone(),
                fault: if self.is_spared { Fault::None } else { self.plan.fault },
                is_spared: self.is_spared,
                struck: self.strike.map(|strike| strike.node),
                picture: picture::draw(&self.history, self.plan.nodes, self.began_ns, end_ns, &self.acked_at),
                sample_size: self.plan.sample_size,
                regions: self.plan.keep_regions,
                in_memory: place.is_in_memory(),
            },
        };
        summary.set_measured(self.measured);
        Ok(summary)
    }

    /// The running node that leads in the highest term.
    fn leader(&self) -> Option<u8> {
        let leads = |id: u8| self.nodes[usize::from(id)].leads;
        self.cluster
            .members()
            .iter()
            .filter(|member| member.runs() && leads(member.id) > 0)
            .max_by_key(|member| leads(member.id))
            .map(|member| member.id)
    }

    /// A node leads and takes nothing any more.
    fn lose(&mut self, node: u8) {
        self.nodes[usize::from(node)].leads = 0;
        if self.client.target() == Some(node) {
            self.client.abandon();
        }
    }

    fn wait_for(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            if let Some(dead) = self.cluster.members().iter().find(|member| !member.lives()) {
                let fate = || format!("node {} {}, while the demo waited for {what}", dead.id, dead.fate());
                return Err(Error::Failed(self.failure.clone().unwrap_or_else(fate)));
            }
            if Instant::now() > deadline {
                return Err(Error::Failed(format!("waited {} s for {what}", PATIENCE.as_secs())));
            }
            self.wait(Duration::from_millis(50))?;
        }
        Ok(())
    }

    /// Whether nothing will be committed any more: who stayed behind hardly comes back, and the dead do not.
    fn is_lost(&mut self) -> bool {
        if self.moved_at.elapsed() < SLEEP_LIMIT {
            return false;
        }
        let nodes = &self.nodes;
        let can = self
            .cluster
            .members()
            .iter()
            .filter(|member| member.lives() && !nodes[usize::from(member.id)].behind);
        let is_lost = can.count() <= usize::from(self.plan.nodes) / 2;
        if is_lost {
            let why = if nodes.iter().any(|node| node.behind) {
                "a node fell below the ring, and the survivors without it are no majority; a larger --ring keeps it"
            } else {
                "the survivors are no majority: the group has stopped"
            };
            self.fail(why.to_owned());
        }
        is_lost
    }

    fn has_majority(&mut self) -> bool {
        let living = self.cluster.members().iter().filter(|member| member.lives()).count();
        living > usize::from(self.plan.nodes) / 2
    }

    fn is_stuck(&mut self, what: &str) -> bool {
        let is_stuck = self.moved_at.elapsed() > PATIENCE;
        if is_stuck {
            self.fail(format!("waited {} s for {what}", PATIENCE.as_secs()));
        }
        is_stuck
    }

    fn fail(&mut self, why: String) {
        tracing::warn!("{why}");
        self.failure.get_or_insert(why);
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let mut notices = Vec::new();
        self.cluster.wait(timeout, &mut notices)?;
        for notice in notices {
            match notice {
                Notice::Interrupted => return Err(Error::Interrupted),
                Notice::Gone(node) => self.handle_gone(node),
                Notice::Said(node, _, report) => self.handle_report(node, report)?,
            }
        }
        Ok(())
    }

    fn handle_gone(&mut self, node: u8) {
        self.lose(node);
        match self.cluster.member(node).fate().clone() {
            Fate::Shot => self.history.add(now_ns(), node, Mark::Dead),
            Fate::Died(how) => {
                self.history.add(now_ns(), node, Mark::Dead);
                self.fail(format!("node {node} died: {how}"));
            }
            _ => {}
        }
    }

    fn handle_report(&mut self, id: u8, report: Report) -> Result<(), Error> {
        let runs = self.cluster.member(id).runs();
        let node = &mut self.nodes[usize::from(id)];
        match report {
            Report::Opened => node.opened = true,
            Report::Refused { message } => return Err(BadInput(format!("node {id}: {message}")).into()),
            Report::Formed => node.formed = true,
            Report::NotFormed { message } => return Err(Error::Failed(format!("node {id}: {message}"))),
            // Only several groups are loaded.
            Report::Loaded { .. } => {}
            Report::Measured(measured) => node.measured = Some(Ok(measured)),
            Report::NotMeasured { message } => node.measured = Some(Err(message)),
            Report::Commits(commits) => {
                if commits.first_ns >= self.began_ns {
                    self.history.add_commits(commits);
                }
            }
            Report::Acked { stream, up_to } => {
                let count = self.client.handle_acked(id, stream, up_to);
                if count > 0 {
                    self.acked_at.push((now_ns(), count));
                    self.moved_at = Instant::now();
                }
            }
            Report::Ended { stream } => {
                if self.client.handle_ended(id, stream) {
                    self.begin_at = Instant::now() + BACK_OFF;
                }
            }
            Report::Reads(tally) => node.read = Some(tally),
            Report::State(state) | Report::Closed(state) => {
                if state.applied > node.state.applied {
                    self.moved_at = Instant::now();
                    node.behind &= state.applied < self.survey.entries;
                }
                node.state = state;
                if runs {
                    node.leads = state.leads;
                }
            }
            Report::Broken { message } => {
                self.fail(format!("node {id}: what it applied cannot be written: {message}"))
            }
            Report::Saw { at_ns, what } => self.handle_happening(id, at_ns, what, runs),
        }
        Ok(())
    }

    fn handle_happening(&mut self, id: u8, at_ns: u64, what: Happening, runs: bool) {
        match what {
            Happening::Elected { term } if runs => {
                self.nodes[usize::from(id)].leads = term;
                self.begin_at = Instant::now();
            }
            Happening::GaveUp { term } => {
                let leads = &mut self.nodes[usize::from(id)].leads;
                if *leads == term {
                    *leads = 0;
                }
            }
            // With room for its state it takes another node's, and comes back.
            Happening::Behind { .. } if self.plan.snapshot_len() > 0 => {}
            Happening::Behind { node } => {
                if let Some(view) = self.nodes.get_mut(usize::from(node)) {
                    view.behind = view.state.applied < self.survey.entries;
                }
            }
            Happening::Forgetful { node } => self.fail(format!("node {node} came back without its memory")),
            Happening::Stuck => self.fail(format!("node {id} cannot apply its log any further")),
            _ => {}
        }
        if !self.is_over {
            self.history.add(at_ns, id, Mark::Saw(what));
        }
    }
}
