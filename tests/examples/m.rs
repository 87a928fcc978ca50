//! scratch
use ringleader_core::types::NodeId;
use ringleader_tests::model::{actions::*, state::*};
fn settle(world: &World, mut s: State) -> State {
    loop {
        if let Some(a) = world.fabric_actions(&s).into_iter().next() {
            s = world.apply(&s, a).unwrap().unwrap();
            continue;
        }
        let mut moved = false;
        for id in State::ids() {
            if let Some(n) = world.apply(&s, Action::Tick(id)).unwrap() {
                s = n;
                moved = true;
                break;
            }
        }
        if !moved {
            return s;
        }
    }
}
fn settle_rev(world: &World, mut s: State) -> State {
    loop {
        let mut moved = false;
        for id in [3, 2, 1].map(NodeId) {
            if let Some(n) = world.apply(&s, Action::Tick(id)).unwrap() {
                s = n;
                moved = true;
                break;
            }
        }
        if moved {
            continue;
        }
        if let Some(a) = world.fabric_actions(&s).into_iter().last() {
            s = world.apply(&s, a).unwrap().unwrap();
            continue;
        }
        return s;
    }
}
fn diff(a: &State, b: &State) {
    println!("same: {}", a.hash() == b.hash());
    for id in State::ids() {
        let (x, y) = (format!("{:#?}", a.node(id).replica), format!("{:#?}", b.node(id).replica));
        let (x, y): (Vec<_>, Vec<_>) = (x.lines().collect(), y.lines().collect());
        let mut path: Vec<&str> = vec![];
        if x.len() != y.len() {
            println!("{id}: lengths differ {} {}", x.len(), y.len());
            std::fs::write(format!("/tmp/a{id}"), x.join("\n")).unwrap();
            std::fs::write(format!("/tmp/b{id}"), y.join("\n")).unwrap();
            continue;
        }
        for (l, r) in x.iter().zip(&y) {
            let depth = (l.len() - l.trim_start().len()) / 4;
            path.truncate(depth);
            path.push(l.trim());
            if l != r {
                println!("{id}: {} | {} vs {}", path[..path.len() - 1].join(" "), l.trim(), r.trim());
            }
        }
        for part in world_map().parts() {
            let (p, q) = (
                &a.node(id).words[part.at..part.at + part.len],
                &b.node(id).words[part.at..part.at + part.len],
            );
            if p != q {
                println!("{id}: words of {part:?}\n   {p:x?}\n   {q:x?}");
            }
        }
    }
}
fn world_map() -> ringleader_tests::model::memory::Map {
    ringleader_tests::model::memory::Map::new(256)
}

fn same_task(a: &Action, b: &Action) -> bool {
    use Action::*;
    fn key(a: &Action) -> (u8, usize) {
        match a {
            Land(i, ..) | Complete(i) | Fail(i) | Step(i) | FalseSuccess(i) => (0, i.at()),
            Gate(a, b) => (1, a.0 as usize * 8 + b.0 as usize),
            Tick(n) => (2, n.0 as usize),
            _ => (3, 0),
        }
    }
    key(a) == key(b)
}
fn settle_held(world: &World, mut s: State, k: usize) -> (State, usize, Option<Action>) {
    let mut n = 0;
    let mut held: Option<Action> = None;
    let mut was = None;
    loop {
        let mut moved = false;
        let mut acts = world.fabric_actions(&s);
        acts.extend(State::ids().map(Action::Tick));
        for a in acts {
            if held.as_ref().is_some_and(|h| same_task(h, &a)) {
                continue;
            }
            let Some(next) = world.apply(&s, a).unwrap() else { continue };
            if n == k {
                held = Some(a);
                was = Some(a);
                n += 1;
                moved = true;
                break;
            }
            n += 1;
            s = next;
            moved = true;
            break;
        }
        if !moved {
            if held.is_none() {
                return (s, n, was);
            }
            held = None;
        }
    }
}
fn main() {
    let world = World::new(Bounds::default());
    let s = world.first_state().unwrap();
    let go = |s: &State, a| world.apply(s, a).unwrap().unwrap();
    let act = match std::env::args().nth(1).as_deref() {
        Some("p") => Action::Propose(NodeId(1)),
        Some("w1") => Action::Wait(NodeId(1)),
        _ => Action::Wait(NodeId(2)),
    };
    let s = go(&s, act);
    let (base, n, _) = settle_held(&world, s.clone(), usize::MAX);
    println!("{n} steps");
    let mut seen = std::collections::HashMap::new();
    seen.insert(base.hash(), (base.clone(), 0));
    for k in 0..n {
        let (end, _, was) = settle_held(&world, s.clone(), k);
        let new = !seen.contains_key(&end.hash());
        println!("{k} {was:?} new {new}");
        if new {
            diff(&base, &end);
        }
        seen.insert(end.hash(), (end, k));
    }
    println!("{} ends", seen.len());
}
