//! docs/operating.md, acted out: the commands of its cases, word for word, and what it says comes of them.

mod demo_common;
mod run_common;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use run_common::{Place, Running, said, until};
use rustix::process::Signal;

const PAGE: &str = include_str!("../../docs/operating.md");
const EXAMPLE: &str = include_str!("../../docs/examples/shm.toml");

/// The commands of a section, without their remarks.
fn commands(section: &str) -> Vec<Vec<String>> {
    let (_, rest) = PAGE.split_once(&format!("# {section}\n")).expect("the page has that section");
    let text = rest.split("\n#").next().expect("a section has an end");
    let lines = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let commands = lines.filter_map(|line| line.strip_prefix("ringleader "));
    let words = |command: &str| {
        command.split(" #").next().map(|line| line.split_whitespace().map(str::to_owned).collect())
    };
    let all: Vec<Vec<String>> = commands.filter_map(words).collect();
    assert!(!all.is_empty(), "{section}: no commands");
    all
}

/// Where the page's files are, and its terminals.
struct Scene {
    place: Place,
    nodes: Vec<Running>,
}

impl Scene {
    /// The files that the page names. Small rings, so that they are soon full.
    fn new() -> Scene {
        let place = Place::new();
        let regions = format!("{:?}", place.regions());
        let three = EXAMPLE
            .replace("\"/dev/shm/ringleader-orders\"", &regions)
            .replace("ring = \"16M\"", "ring = \"1M\"\nsnapshot = \"8M\"");
        assert!(three.contains(&regions) && three.contains("\"1M\""), "the example is another: {three}");
        let five = three.replace("[1, 2, 3]", "[1, 2, 3, 4, 5]");
        for (name, text) in [("shm.toml", &three), ("orders.toml", &three), ("five.toml", &five)] {
            fs::write(place.turn.path(name), text).expect("written");
        }
        fs::write(place.config(), five).expect("written");
        Scene { place, nodes: Vec::new() }
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.args(words).current_dir(self.place.turn.path("."));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Types a command: `run` goes on in a terminal of its own, everything else must come to a good end.
    #[track_caller]
    fn do_it(&mut self, words: &[String]) -> String {
        if words[0] == "run" {
            self.start(words);
            return String::new();
        }
        let output: Output = self.command(words).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {} {}", said(&output), self.all_said());
        said(&output)
    }

    #[track_caller]
    fn do_section(&mut self, section: &str) -> String {
        commands(section).iter().map(|words| self.do_it(words)).collect()
    }

    fn start(&mut self, words: &[String]) {
        let node: u8 = words.last().expect("words").parse().expect("the node comes last");
        let log = self.place.turn.path(&format!("log-{node}-{}", self.nodes.len()));
        let applied = self.applied_of(node);
        drop(fs::remove_file(&applied));
        let mut command = self.command(words);
        command.arg("--applied").arg(&applied);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&log).expect("made"));
        let mut child = command.spawn().expect("starts");
        let stdin = child.stdin.take();
        self.nodes.push(Running { node, child, stdin, log, applied });
        self.place.wait_for(&self.nodes[self.nodes.len() - 1..]);
    }

    fn applied_of(&self, node: u8) -> PathBuf {
        self.place.turn.path(&format!("applied-{node}"))
    }

    /// Like a machine that is gone.
    fn kill(&mut self, node: u8) {
        let at = self.at(node);
        drop(self.nodes.remove(at));
    }

    fn at(&self, node: u8) -> usize {
        self.nodes.iter().position(|running| running.node == node).expect("it runs")
    }

    fn node(&mut self, node: u8) -> &mut Running {
        let at = self.at(node);
        &mut self.nodes[at]
    }

    fn all_said(&self) -> String {
        self.nodes.iter().map(|node| format!("node {}: {}\n", node.node, node.said())).collect()
    }

    /// What is said of such a node on such a one.
    #[track_caller]
    fn waits_for(&self, node: u8, text: &str) {
        until(
            || self.nodes[self.at(node)].said().contains(text),
            || format!("{text:?}: {}", self.all_said()),
        );
    }

    fn leader(&self) -> u8 {
        self.nodes[self.place.leader(&self.nodes)].node
    }

    /// Remarks say who leads: that one is made to.
    fn lead(&mut self, node: u8) {
        until(
            || {
                let leader = self.leader();
                let to = [format!("--node={leader}"), format!("--to={node}")];
                leader == node
                    || self
                        .command(&["transfer".into(), "--config=shm.toml".into()])
                        .args(to)
                        .output()
                        .is_ok_and(|done| done.status.success())
            },
            || self.all_said(),
        );
    }

    /// A line comes out everywhere, behind those before.
    #[track_caller]
    fn everywhere(&mut self, line: &str) {
        let leader = self.leader();
        self.node(leader).write(&format!("{line}\n"));
        let whole = |node: &Running| fs::read_to_string(&node.applied).unwrap_or_default();
        until(
            || self.nodes.iter().all(|node| whole(node).ends_with(&format!("{line}\n"))),
            || self.all_said(),
        );
        let first = whole(&self.nodes[0]);
        assert!(self.nodes.iter().all(|node| whole(node) == first), "all write the same");
    }

    fn list(&self, node: u8) -> String {
        let words = ["member", "list", "--config", "shm.toml", "--node"].map(str::to_owned);
        said(&self.command(&words).arg(node.to_string()).output().expect("it runs"))
    }

    /// The page's first case.
    fn begin() -> Scene {
        let mut scene = Scene::new();
        scene.do_section("A group on one machine");
        scene.everywhere("a line typed");
        scene
    }
}

#[test]
fn a_group_grows_and_shrinks_and_hands_over() {
    let mut scene = Scene::begin();
    scene.lead(1);
    scene.do_section("`ringleader transfer`");
    assert_eq!(scene.leader(), 2);
    scene.lead(1);
    let grow = commands("To grow from three to five");
    for words in &grow {
        scene.do_it(words);
    }
    // "and the same for 5"
    for words in &grow {
        let five: Vec<String> =
            words.iter().map(|word| if word == "4" { "5".to_owned() } else { word.clone() }).collect();
        scene.do_it(&five);
    }
    let list = scene.list(1);
    assert_eq!(list.matches("voter").count(), 5, "{list}");
    scene.everywhere("by five");
    scene.do_section("To shrink");
    scene.waits_for(5, "removed");
    assert_eq!(scene.node(5).end(Signal::INT), Some(0));
    scene.kill(5);
    scene.everywhere("by four");
}

#[test]
fn a_node_lost_its_memory() {
    let mut scene = Scene::begin();
    scene.lead(1);
    scene.kill(3);
    for words in commands("When a node lost its memory") {
        scene.do_it(&words);
        // It takes the others a moment to notice.
        if words[0] == "run" {
            let came_back = "node 3: voter, came back without its memory";
            until(|| scene.list(1).contains(came_back), || scene.list(1));
        }
    }
    until(|| scene.list(1).matches("voter").count() == 3, || scene.list(1));
    scene.everywhere("by three again");
}

#[test]
fn a_node_was_stopped_for_longer_than_the_ring_holds() {
    let mut scene = Scene::begin();
    scene.lead(1);
    scene.node(3).signal(Signal::STOP);
    // Three rings of it.
    let lines: String = (0..3000).map(|number| format!("{number:01000}\n")).collect();
    scene.node(1).write(&lines);
    let behind = |scene: &Scene| {
        let status = said(&scene.place.command("status", 1).output().expect("it runs"));
        (status.contains("3: ") && !status.contains("3: window"), status)
    };
    until(
        || fs::metadata(scene.applied_of(1)).is_ok_and(|file| file.len() > 3_000_000) && behind(&scene).0,
        || behind(&scene).1,
    );
    scene.node(3).signal(Signal::CONT);
    // No ring holds what it lacks: it can only have that from the state of another.
    until(
        || {
            let status = said(&scene.place.command("status", 1).output().expect("it runs"));
            status.contains("node 3: window")
        },
        || scene.all_said(),
    );
    scene.everywhere("as if nothing had been");
}

#[test]
fn two_of_three_lost_their_memory() {
    let mut scene = Scene::begin();
    scene.kill(2);
    scene.kill(3);
    let again: Vec<_> = commands("A group on one machine")
        .into_iter()
        .filter(|words| words[0] == "run" && words[4] != "1")
        .collect();
    for words in &again {
        scene.do_it(words);
    }
    scene.waits_for(
        1,
        "has stopped: 2 of 3 voters came back without their memory; what is left: ringleader recover",
    );
    let ask = ["recover", "--config", "shm.toml", "--node", "1"].map(str::to_owned);
    let asked = |scene: &Scene| said(&scene.command(&ask).output().expect("it runs"));
    // A leader gives up first.
    until(|| asked(&scene).contains("--force-new-group"), || asked(&scene));
    thread::sleep(Duration::from_millis(200));
    assert!(!scene.list(1).contains("node 2: learner"), "nothing was done");
    scene.do_section("When two of three lost their memory");
    until(|| scene.list(1).matches("voter").count() == 3, || scene.list(1));
    scene.everywhere("a new group");
}
