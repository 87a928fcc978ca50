//! scratch
use ringleader_tests::model::{actions::*, state::*};
use ringleader_core::types::NodeId;
fn settle(world: &World, mut s: State) -> State {
    loop {
        if let Some(a) = world.fabric_actions(&s).into_iter().next() { s = world.apply(&s, a).unwrap().unwrap(); continue; }
        let mut moved = false;
        for id in State::ids() { if let Some(n) = world.apply(&s, Action::Tick(id)).unwrap() { s = n; moved = true; break; } }
        if !moved { return s; }
    }
}
fn settle_rev(world: &World, mut s: State) -> State {
    loop {
        let mut moved = false;
        for id in [3,2,1].map(NodeId) { if let Some(n) = world.apply(&s, Action::Tick(id)).unwrap() { s = n; moved = true; break; } }
        if moved { continue; }
        if let Some(a) = world.fabric_actions(&s).into_iter().last() { s = world.apply(&s, a).unwrap().unwrap(); continue; }
        return s;
    }
}
fn diff(a: &State, b: &State) {
    println!("same: {}", a.hash() == b.hash());
    for id in State::ids() {
        let (x, y) = (format!("{:#?}", a.node(id).replica), format!("{:#?}", b.node(id).replica));
        let (x, y): (Vec<_>, Vec<_>) = (x.lines().collect(), y.lines().collect());
        let mut path: Vec<&str> = vec![];
        if x.len() != y.len() { println!("{id}: lengths differ {} {}", x.len(), y.len()); std::fs::write(format!("/tmp/a{id}"), x.join("\n")).unwrap(); std::fs::write(format!("/tmp/b{id}"), y.join("\n")).unwrap(); continue; }
        for (l, r) in x.iter().zip(&y) {
            let depth = (l.len() - l.trim_start().len()) / 4;
            path.truncate(depth); path.push(l.trim());
            if l != r { println!("{id}: {} | {} vs {}", path[..path.len()-1].join(" "), l.trim(), r.trim()); }
        }
        for part in world_map().parts() {
            let (p, q) = (&a.node(id).words[part.at..part.at+part.len], &b.node(id).words[part.at..part.at+part.len]);
            if p != q { println!("{id}: words of {part:?}\n   {p:x?}\n   {q:x?}"); }
        }
    }
}
fn world_map() -> ringleader_tests::model::memory::Map { ringleader_tests::model::memory::Map::new(256) }
fn main() {
    let world = World::new(Bounds::default());
    let s = world.first_state().unwrap();
    let go = |s: &State, a| world.apply(s, a).unwrap().unwrap();
    let a = settle(&world, go(&settle(&world, go(&s, Action::Propose(NodeId(1)))), Action::Propose(NodeId(1))));
    let b = settle_rev(&world, go(&settle_rev(&world, go(&s, Action::Propose(NodeId(1)))), Action::Propose(NodeId(1))));
    diff(&a, &b);
    println!("-----");
    let a = settle(&world, go(&settle(&world, go(&s, Action::Wait(NodeId(2)))), Action::Propose(NodeId(1))));
    let b = settle(&world, go(&settle(&world, go(&s, Action::Propose(NodeId(1)))), Action::Wait(NodeId(2))));
    diff(&a, &b);
    println!("-----");
    let a = settle(&world, go(&settle(&world, go(&s, Action::Wait(NodeId(2)))), Action::Wait(NodeId(3))));
    let b = settle(&world, go(&settle(&world, go(&s, Action::Wait(NodeId(3)))), Action::Wait(NodeId(2))));
    diff(&a, &b);
}
