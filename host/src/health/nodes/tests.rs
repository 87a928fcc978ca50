use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::Node;

const PAGE: &str = include_str!("../../../../docs/operating.md");

/// Rows of the table of metrics on the page: name, type, what it says.
fn rows() -> BTreeMap<String, (String, String)> {
    let (_, rest) = PAGE.split_once("\n### Metrics\n").expect("the page has that section");
    let section = rest.split("\n#").next().expect("a section has an end");
    let rows = section.lines().filter(|line| line.starts_with("| `ringleader_"));
    let cells = |line: &str| {
        let [name, labels, kind, help] = line
            .trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_else(|cells| panic!("four cells: {cells:?}"));
        let _: &str = labels;
        (name.trim_matches('`').to_owned(), (kind.to_owned(), help.to_owned()))
    };
    rows.map(cells).collect()
}

#[test]
fn the_page_has_every_metric_as_it_is_told() {
    let told = |metric: &Metric| {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        (metric.name.to_owned(), (kind.to_owned(), metric.help.to_owned()))
    };
    let ours: BTreeMap<_, _> = ALL.iter().map(told).collect();
    assert_eq!(ours.len(), ALL.len(), "no name twice");
    assert_eq!(rows(), ours);
}

#[test]
fn names_are_prometheus_own() {
    for metric in ALL {
        let Metric { name, kind, help } = *metric;
        assert!(name.starts_with("ringleader_") && help.ends_with('.'), "{name}: {help}");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        // A length has its unit, before the total.
        let says_bytes = help.contains("ytes") || name.contains("position");
        assert_eq!(name.trim_end_matches("_total").ends_with("_bytes"), says_bytes, "{name}: {help}");
    }
}

#[test]
fn ready_is_a_member_that_follows_or_leads() {
    let follows = || Status {
        node: 1,
        formed: true,
        voters: 3,
        role: Role::Follower,
        leader: Some(2),
        ..Status::default()
    };
    assert!(is_ready(Half::Whole, &follows()));
    assert!(is_ready(Half::Whole, &Status { role: Role::Leader, leader: Some(1), ..follows() }));
    assert!(is_ready(Half::Whole, &Status { lost: 1, ..follows() }));
    for not in [
        Status { formed: false, ..follows() },
        Status { removed: true, ..follows() },
        Status { leader: None, ..follows() },
        Status { leader: Some(1), ..follows() },
        Status { role: Role::Candidate, leader: None, ..follows() },
        Status { voters: 0, ..follows() },
        Status { lost: 2, ..follows() },
    ] {
        assert!(!is_ready(Half::Whole, &not), "{not:?}");
    }
}

#[test]
fn an_acceptor_is_ready_as_soon_as_it_is_a_member() {
    let alone = Status { node: 1, formed: true, ..Status::default() };
    assert!(is_ready(Half::Acceptor, &alone));
    for not in [Status { formed: false, ..alone.clone() }, Status { removed: true, ..alone }] {
        assert!(!is_ready(Half::Acceptor, &not), "{not:?}");
    }
}

/// The families on a page.
fn families(nodes: &Nodes) -> Vec<String> {
    let mut page = Page::default();
    nodes.measure(&mut page);
    let (text, _) = page.encode();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn of_an_acceptor_alone_that_is_told_which_it_has() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("made");
    let options = |half| {
        let mut options = crate::Options::new(dir.path(), 1, [1]);
        options.ring_len = 512 << 10;
        options.snapshot_len = Some(0);
        options.half = half;
        options
    };
    let agent = AgentThread::start(&crate::AgentOptions::default()).expect("started");
    let acceptor = Acceptor::open_on(&agent, options(Half::Acceptor)).expect("opened");
    let host = Node::open(options(Half::Proposer), |_: crate::Entry<'_>| {}).expect("opened");
    let votes = Nodes::new(&agent).with_acceptor("orders", &acceptor);
    let leads = Nodes::new(host.agent()).with("orders", host.view(), |_| String::new());
    let said = |nodes: &Nodes| nodes.readiness().remove(0);
    assert!(said(&votes).text.starts_with("acceptor of node 1 of orders: waits for its group; "));
    let before = families(&votes);
    assert!(!before.contains(&"ringleader_term".to_owned()), "{before:?}");

    host.form(Duration::from_secs(30)).expect("formed");
    let begun = Instant::now();
    while !(said(&votes).is_ready && said(&leads).is_ready) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?} {:?}", said(&votes), said(&leads));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        said(&votes).text.starts_with("acceptor of node 1 of orders: ")
            && said(&votes).text.contains("group ")
    );
    let (of_acceptor, of_host) = (families(&votes), families(&leads));
    for (name, is) in [("ringleader_host_alive", true), ("ringleader_role", false)] {
        assert_eq!(of_acceptor.iter().any(|family| family == name), is, "{name}: {of_acceptor:?}");
    }
    let hosts_alone = ["ringleader_role", "ringleader_proposals_total", "ringleader_applied_index"];
    for name in hosts_alone {
        assert!(of_host.iter().any(|family| family == name), "{name}: {of_host:?}");
        assert!(!of_acceptor.iter().any(|family| family == name), "{name}: {of_acceptor:?}");
    }
    for name in ["ringleader_term", "ringleader_end_position_bytes", "ringleader_verbs_total"] {
        assert!(of_acceptor.iter().any(|family| family == name), "{name}: {of_acceptor:?}");
    }
    // Fencing is an acceptor's.
    assert!(of_acceptor.iter().any(|family| family == "ringleader_shots_total"));
    assert!(!of_host.iter().any(|family| family == "ringleader_shots_total"));

    assert!(votes.rounds().is_some());
    acceptor.close().expect("closed");
    assert_eq!(votes.rounds(), None, "there are none to be made");
    assert_eq!(said(&votes), Readiness { is_ready: false, text: "node 1 of orders: has ended".to_owned() });
    assert_eq!(
        families(&votes),
        ["ringleader_build_info", "ringleader_agent_rounds_total", "ringleader_ready"]
    );
    host.close().expect("closed");
}
