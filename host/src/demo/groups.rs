//! The story of a demo with many groups: start, form, spread the leads, load more and more of them, stream to all, strike one
//! process in the middle, see every group that it led through its fail-over, close, compare.
//!
//! Of one group `run` tells much more. Here a group is a client and what is known of its members; the processes are the same,
//! and each has a member of every group on one agent thread.

use std::time::{Duration, Instant};

use super::client::Client;
use super::cluster::{Cluster, Fate, Notice, Signals};
use super::now_ns;
use super::place::Place;
use super::plan::{BadInput, Fault, Plan, Whom};
use super::run::{BACK_OFF, Error, MAX_BACKLOG, PATIENCE, Stage, setups};
use super::source::{Source, Survey, survey};
use super::tally::{FellOver, Step, Tally};
use super::verify::compare;
use super::wire::{Happening, Order, Report, State};

/// A load is counted for so long, after it has run in for a tenth of that.
const LOADED: Duration = Duration::from_secs(1);
/// Proposals on their way in each group are doubled so often at the most, ...
const MAX_DOUBLINGS: u32 = 10;
/// ... and as long as that makes so many times as many commits.
const GROWS: f64 = 1.1;
/// So often it is repeated when an election came in between.
const TRIES: usize = 5;
/// Bytes that wait for one process: with more nothing is added.
const MAX_WAITING: usize = 256 << 10;

/// Runs a demo of several groups. To be called by the program's first thread: the nodes die with the thread that started them.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Stage)) -> Result<Tally, Error> {
    let signals = Signals::install()?;
    plan.check()?;
    let survey = survey(plan)?;
    let sources: Result<Vec<Source>, _> = (0..plan.groups).map(|_| Source::open(plan)).collect();
    let sources = sources?;
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
        groups: sources.into_iter().map(|source| Group::new(plan, source, survey.entries)).collect(),
        opened: 0,
        loaded: Vec::new(),
        steps: Vec::new(),
        struck: None,
        began_ns: 0,
        acked_ns: 0,
        moved_at: Instant::now(),
        failure: None,
    };
    show.start(&place)?;
    show.form()?;
    show.load()?;
    show.spread()?;
    show.stream()?;
    show.catch_up()?;
    show.close()?;
    (show.watch)(Stage::Comparing);
    let tally = show.tally(&place)?;
    place.keep();
    Ok(tally)
}

/// What is known of a node as a member of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    formed: bool,
    state: State,
    /// The term it leads, or 0.
    leads: u64,
    behind: bool,
}

/// One group.
struct Group {
    client: Client,
    /// By id.
    members: Vec<Member>,
    /// No stream begins before.
    begin_at: Instant,
    /// The term that the struck node led, if it led this group.
    fallen: Option<u64>,
    /// When a later leader first committed.
    risen_ns: Option<u64>,
}

impl Group {
    fn new(plan: &Plan, source: Source, entries: u64) -> Group {
        Group {
            client: Client::new(source, entries, plan.ring_len),
            members: vec![Member::default(); usize::from(plan.nodes) + 1],
            begin_at: Instant::now(),
            fallen: None,
            risen_ns: None,
        }
    }

    /// Who leads in the highest term.
    fn leader(&self) -> Option<u8> {
        let leads = |id: &usize| self.members[*id].leads;
        (1..self.members.len()).filter(|id| leads(id) > 0).max_by_key(leads).map(|id| id as u8)
    }

    fn is_failed_over(&self) -> bool {
        self.fallen.is_none() || self.risen_ns.is_some()
    }
}

struct Show<'a> {
    plan: &'a Plan,
    survey: Survey,
    watch: &'a mut dyn FnMut(Stage),
    cluster: Cluster,
    groups: Vec<Group>,
    opened: u8,
    /// What nodes said of the load that is under way.
    loaded: Vec<(u64, u8)>,
    steps: Vec<Step>,
    /// Who was struck, and when.
    struck: Option<(u8, u64)>,
    began_ns: u64,
    acked_ns: u64,
    /// When something last went forward.
    moved_at: Instant,
    /// Why it cannot end well. The first reason stays.
    failure: Option<String>,
}

impl Show<'_> {
    fn start(&mut self, place: &Place) -> Result<(), Error> {
        (self.watch)(Stage::Starting);
        for (node, setup) in (1..=self.plan.nodes).zip(setups(self.plan, place)?) {
            self.cluster.member(node).order(&Order::Open(setup));
        }
        let nodes = self.plan.nodes;
        self.wait_for("the nodes to open", |show| show.opened == nodes)
    }

    /// The node that is to lead a group: they take turns.
    fn wanted(&self, group: usize) -> u8 {
        (group % usize::from(self.plan.nodes)) as u8 + 1
    }

    fn form(&mut self) -> Result<(), Error> {
        let timeout_ms = PATIENCE.as_millis() as u64;
        for group in 0..self.groups.len() {
            let node = self.wanted(group);
            self.cluster.member(node).outbox.of(group as u8).push(&Order::Form { timeout_ms });
        }
        self.wait_for("the groups to form", |show| {
            show.groups.iter().all(|group| group.members.iter().any(|member| member.formed))
        })?;
        self.wait_for("a leader in each group", |show| {
            show.groups.iter().all(|group| group.leader().is_some())
        })
    }

    /// Has leads handed over until each node leads its share. Where an election comes in between, a group is led by another one: a
    /// process that had to wait for its processor loses all its leads at once.
    fn spread(&mut self) -> Result<(), Error> {
        for _ in 0..TRIES {
            let mut asked = false;
            for at in 0..self.groups.len() {
                let (leader, to) = (self.groups[at].leader(), self.wanted(at));
                if let Some(leader) = leader.filter(|leader| *leader != to) {
                    self.cluster.member(leader).outbox.of(at as u8).push(&Order::Transfer { to });
                    asked = true;
                }
            }
            if !asked {
                return Ok(());
            }
            let deadline = Instant::now() + Duration::from_secs(3);
            while Instant::now() < deadline && !self.is_spread() {
                self.wait(Duration::from_millis(20))?;
            }
        }
        self.wait_for("a leader in each group", |show| {
            show.groups.iter().all(|group| group.leader().is_some())
        })
    }

    fn is_spread(&self) -> bool {
        (0..self.groups.len()).all(|at| self.groups[at].leader() == Some(self.wanted(at)))
    }

    /// Loads the first 1, 2, 4, … groups, and all of them; then all with more and more on their way in each, until that brings
    /// nothing: the processors are full.
    fn load(&mut self) -> Result<(), Error> {
        if self.plan.samples == 0 {
            return Ok(());
        }
        (self.watch)(Stage::Measuring);
        let all = self.plan.groups;
        let fewer = (0..).map(|power| 1 << power).take_while(|count| *count < all);
        let mut last = 0.0;
        for (groups, depth) in
            fewer.map(|count| (count, 1)).chain((0..=MAX_DOUBLINGS).map(|power| (all, 1 << power)))
        {
            let Some(step) = self.load_step(groups, depth)? else {
                self.fail(format!("{groups} groups could not be loaded: their leaders fell"));
                return Ok(());
            };
            self.steps.push(step);
            if depth > 1 && step.per_s() < last * GROWS {
                return Ok(());
            }
            last = step.per_s();
        }
        Ok(())
    }

    /// `None` when an election came in between, again and again.
    fn load_step(&mut self, groups: u8, depth: u64) -> Result<Option<Step>, Error> {
        let step = Step { groups, depth, commits: 0, loaded: 0, elapsed_ns: LOADED.as_nanos() as u64 };
        for _ in 0..TRIES {
            self.spread()?;
            let step = self.load_once(step)?;
            if step.loaded == groups {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    fn load_once(&mut self, step: Step) -> Result<Step, Error> {
        self.loaded.clear();
        let from_ns = now_ns() + step.elapsed_ns / 10;
        let until_ns = from_ns + step.elapsed_ns;
        let Step { groups, depth, .. } = step;
        let order = Order::Load { groups, depth, from_ns, until_ns, size: self.plan.sample_size };
        for node in 1..=self.plan.nodes {
            self.cluster.member(node).outbox.of(0).push(&order);
        }
        let nodes = usize::from(self.plan.nodes);
        self.wait_for("the load to end", |show| show.loaded.len() == nodes)?;
        let (commits, loaded) =
            self.loaded.iter().fold((0, 0), |(commits, groups), one| (commits + one.0, groups + one.1));
        Ok(Step { commits, loaded, ..step })
    }

    /// Proposes everything to all groups, strikes in the middle, and sees every fail-over through.
    fn stream(&mut self) -> Result<(), Error> {
        self.began_ns = now_ns();
        self.moved_at = Instant::now();
        loop {
            self.feed()?;
            self.strike()?;
            let (acknowledged, entries) = (self.acknowledged(), self.entries());
            (self.watch)(Stage::Streaming(acknowledged, entries));
            let struck = self.plan.fault == Fault::None || self.struck.is_some();
            let done = self.groups.iter().all(|group| group.client.is_done() && group.is_failed_over());
            if struck && done || self.is_stuck("an entry to be acknowledged") {
                return Ok(());
            }
            self.wait(Duration::from_millis(5))?;
        }
    }

    fn acknowledged(&self) -> u64 {
        self.groups.iter().map(|group| group.client.acknowledged()).sum()
    }

    fn entries(&self) -> u64 {
        self.survey.entries * u64::from(self.plan.groups)
    }

    fn feed(&mut self) -> Result<(), Error> {
        for (at, group) in self.groups.iter_mut().enumerate() {
            if group.client.is_done() {
                continue;
            }
            let leader = group.leader();
            if group.client.target().is_some_and(|target| leader.is_some_and(|leader| leader != target)) {
                // Somebody with a higher term leads.
                group.client.abandon();
            }
            let cluster = &mut self.cluster;
            if let (None, Some(leader)) = (group.client.target(), leader)
                && Instant::now() >= group.begin_at
            {
                group.client.begin(leader, cluster.member(leader).outbox.of(at as u8));
            }
            let held = (1..=self.plan.nodes).any(|id| {
                cluster.member(id).runs() && group.members[usize::from(id)].state.backlog > MAX_BACKLOG
            });
            if let Some(target) = group.client.target().filter(|_| !held) {
                let outbox = &mut cluster.member(target).outbox;
                // What is not sent yet is enough.
                if outbox.len() < MAX_WAITING {
                    group.client.fill(outbox.of(at as u8))?;
                }
            }
        }
        Ok(())
    }

    /// Kills the node that leads the first group, or one that does not, when half of the entries are acknowledged.
    fn strike(&mut self) -> Result<(), Error> {
        let Fault::Kill(whom) = self.plan.fault else { return Ok(()) };
        if self.struck.is_some() || self.acknowledged() < self.entries() / 2 {
            return Ok(());
        }
        let Some(leader) = self.groups[0].leader() else { return Ok(()) };
        let node = match whom {
            Whom::Leader => leader,
            Whom::Follower => leader % self.plan.nodes + 1,
        };
        let at_ns = self.cluster.member(node).kill()?;
        tracing::info!(node, %whom, "struck");
        self.struck = Some((node, at_ns));
        for group in &mut self.groups {
            let leads = group.members[usize::from(node)].leads;
            group.fallen = Some(leads).filter(|_| group.leader() == Some(node));
        }
        self.lose(node);
        Ok(())
    }

    /// Waits until everybody who lives has applied everything.
    fn catch_up(&mut self) -> Result<(), Error> {
        (self.watch)(Stage::Closing);
        self.moved_at = Instant::now();
        while !self.is_stuck("the survivors to apply everything") {
            let (groups, cluster) = (&self.groups, &self.cluster);
            let is_settled = cluster.members().iter().filter(|member| member.lives()).all(|member| {
                groups.iter().all(|group| {
                    let known = &group.members[usize::from(member.id)];
                    known.behind || known.state.applied >= group.client.acknowledged()
                })
            });
            if is_settled {
                return Ok(());
            }
            self.wait(Duration::from_millis(20))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        for node in 1..=self.plan.nodes {
            self.cluster.member(node).outbox.of(0).push(&Order::Close);
        }
        let deadline = Instant::now() + PATIENCE;
        while self.cluster.members().iter().any(|member| member.lives()) {
            if Instant::now() > deadline {
                self.fail("nodes did not end".to_owned());
                return Ok(());
            }
            self.wait(Duration::from_millis(20))?;
        }
        Ok(())
    }

    fn tally(mut self, place: &Place) -> Result<Tally, Error> {
        let (mut survivors, mut lost, mut duplicated, mut strange) = (Vec::new(), 0, 0, 0);
        let (mut identical, mut behind) = (true, 0);
        for node in 1..=self.plan.nodes {
            if matches!(self.cluster.member(node).fate(), Fate::Killed | Fate::Shot | Fate::Died(_)) {
                place.discard(node)?;
                continue;
            }
            survivors.push(node);
            for (at, group) in self.groups.iter().enumerate() {
                if self.cluster.is_interrupted() {
                    return Err(Error::Interrupted);
                }
                let member = &group.members[usize::from(node)];
                strange += member.state.strange;
                let expected = if member.behind { 0 } else { group.client.acknowledged() };
                let found = compare(self.plan, &place.applied_of(at as u8, node), expected)?;
                lost += found.lost;
                duplicated += found.duplicated;
                behind += usize::from(member.behind);
                identical &= found.is_prefix && (member.behind || found.entries == expected);
            }
        }
        let (struck, at_ns) = self.struck.unzip();
        let fell_over: Vec<u64> = self
            .groups
            .iter()
            .filter_map(|group| group.fallen.and(group.risen_ns))
            .map(|risen_ns| risen_ns.saturating_sub(at_ns.unwrap_or(0)))
            .collect();
        let led_by =
            |node| self.groups.iter().filter(|group| group.fallen.is_some() && struck == Some(node)).count();
        let fallen = struck.map_or(0, led_by);
        if fell_over.len() < fallen {
            self.fail(format!("{} of {fallen} groups found no other leader", fallen - fell_over.len()));
        }
        if strange > 0 {
            self.fail(format!("{strange} entries are in the log of another group than their own"));
        }
        let elapsed_ns = self.acked_ns.saturating_sub(self.began_ns);
        let acknowledged = self.acknowledged();
        Ok(Tally {
            nodes: self.plan.nodes,
            groups: self.plan.groups,
            entries: self.entries(),
            acknowledged,
            retried: self.groups.iter().map(|group| group.client.retried()).sum(),
            lost,
            duplicated,
            identical,
            behind,
            survivors,
            struck,
            fallen,
            failover_ns: FellOver::of(fell_over),
            load: self.steps,
            elapsed_ns,
            entries_per_s: (u128::from(acknowledged) * 1_000_000_000 / u128::from(elapsed_ns.max(1))) as u64,
            dir: place.dir().to_owned(),
            failure: self.failure,
        })
    }

    /// A node leads nothing and takes nothing any more.
    fn lose(&mut self, node: u8) {
        for group in &mut self.groups {
            group.members[usize::from(node)].leads = 0;
            if group.client.target() == Some(node) {
                group.client.abandon();
            }
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
            self.wait(Duration::from_millis(20))?;
        }
        Ok(())
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
                Notice::Gone(node) => {
                    self.lose(node);
                    let fate = self.cluster.member(node).fate().clone();
                    if matches!(fate, Fate::Shot | Fate::Died(_)) {
                        self.fail(format!("node {node} {fate}"));
                    }
                }
                Notice::Said(node, group, report) => self.handle_report(node, group, report)?,
            }
        }
        Ok(())
    }

    fn handle_report(&mut self, id: u8, group: u8, report: Report) -> Result<(), Error> {
        let runs = self.cluster.member(id).runs();
        let entries = self.survey.entries;
        let Some(of) = self.groups.get_mut(usize::from(group)) else { return Ok(()) };
        let member = &mut of.members[usize::from(id)];
        match report {
            Report::Opened => self.opened += 1,
            Report::Refused { message } => return Err(BadInput(format!("node {id}: {message}")).into()),
            Report::Formed => member.formed = true,
            Report::NotFormed { message } => {
                return Err(Error::Failed(format!("group {group} on node {id}: {message}")));
            }
            // Nobody is told to read here.
            Report::Reads(_) => {}
            Report::Loaded { commits, groups } => self.loaded.push((commits, groups)),
            Report::Acked { stream, up_to } => {
                if of.client.handle_acked(id, stream, up_to) > 0 {
                    self.acked_ns = now_ns();
                    self.moved_at = Instant::now();
                }
            }
            Report::Ended { stream } => {
                if of.client.handle_ended(id, stream) {
                    of.begin_at = Instant::now() + BACK_OFF;
                }
            }
            Report::State(state) | Report::Closed(state) => {
                if state.applied > member.state.applied {
                    self.moved_at = Instant::now();
                    member.behind &= state.applied < entries;
                }
                member.state = state;
                if runs {
                    member.leads = state.leads;
                }
            }
            Report::Broken { message } => {
                self.fail(format!("group {group} on node {id}: what it applied cannot be written: {message}"))
            }
            Report::Saw { at_ns, what } => self.handle_happening(id, group, at_ns, what, runs),
            // Only one group is measured, and its commits told.
            Report::Measured(_) | Report::NotMeasured { .. } | Report::Commits(_) => {}
        }
        Ok(())
    }

    fn handle_happening(&mut self, id: u8, group: u8, at_ns: u64, what: Happening, runs: bool) {
        let entries = self.survey.entries;
        let of = &mut self.groups[usize::from(group)];
        let leads = &mut of.members[usize::from(id)].leads;
        match what {
            Happening::Elected { term } if runs => {
                *leads = term;
                of.begin_at = Instant::now();
            }
            Happening::GaveUp { term } if *leads == term => *leads = 0,
            Happening::FirstCommit { term } if of.fallen.is_some_and(|fallen| term > fallen) => {
                of.risen_ns.get_or_insert(at_ns);
            }
            // With room for its state it takes another node's, and comes back.
            Happening::Behind { .. } if self.plan.snapshot_len() > 0 => {}
            Happening::Behind { node } => {
                if let Some(member) = of.members.get_mut(usize::from(node)) {
                    member.behind = member.state.applied < entries;
                }
            }
            Happening::Forgetful { node } => {
                self.fail(format!("group {group}: node {node} came back without its memory"))
            }
            Happening::Stuck => {
                self.fail(format!("group {group} on node {id}: its log cannot be applied any further"))
            }
            _ => {}
        }
    }
}
