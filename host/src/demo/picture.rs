//! A picture in letters of what happened: a lane a node, time to the right.

use std::fmt::Write;

use super::history::{History, Mark};
use super::wire::Happening;

const WIDTH: usize = 72;

/// What a node was at a moment. Of two in one column the greater is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Follows,
    Leads,
    Asks,
    Stopped,
    Killed,
    Gone,
}

impl Shown {
    fn letter(self) -> char {
        match self {
            Shown::Follows => 'f',
            Shown::Leads => 'L',
            Shown::Asks => 'c',
            Shown::Stopped => 'z',
            Shown::Killed => 'x',
            Shown::Gone => ' ',
        }
    }
}

/// Draws what happened from `start_ns` to `end_ns`; `acked` has the moments at which acknowledgements came, with how many.
pub fn draw(history: &History, nodes: u8, start_ns: u64, end_ns: u64, acked: &[(u64, u64)]) -> String {
    let span = (end_ns.saturating_sub(start_ns)).max(1);
    let column = |at_ns: u64| {
        let at = u128::from(at_ns.saturating_sub(start_ns)) * WIDTH as u128 / u128::from(span);
        (at as usize).min(WIDTH - 1)
    };
    let mut text = String::new();
    let end = format!("{:.0} ms", span as f64 / 1e6);
    let _ = writeln!(text, "{:9}0{end:>width$}", "", width = WIDTH - 1);
    for node in 1..=nodes {
        let lane = lane(history, node, start_ns, column);
        let letters: String = lane.iter().map(|shown| shown.letter()).collect();
        let _ = writeln!(text, "node {node:<3} {}", letters.trim_end());
    }
    let _ = writeln!(text, "commits  {}", rate(acked, column).trim_end());
    let _ = writeln!(text, "{:9}L leads  f follows  c asks for votes  x killed  z stopped", "");
    text
}

fn lane(history: &History, node: u8, start_ns: u64, column: impl Fn(u64) -> usize) -> Vec<Shown> {
    let mut moments: Vec<_> = history.moments().iter().filter(|moment| moment.node == node).collect();
    moments.sort_by_key(|moment| moment.at_ns);
    let mut lane = vec![Shown::Follows; WIDTH];
    // What follows a moment is written over the rest of the lane; within its column the greater stays.
    let mut asleep = false;
    for moment in moments {
        let at = column(moment.at_ns);
        let (here, then) = match moment.mark {
            Mark::Saw(Happening::Elected { .. }) => (Shown::Leads, Shown::Leads),
            Mark::Saw(Happening::Campaign { .. }) => (Shown::Asks, Shown::Follows),
            Mark::Saw(Happening::GaveUp { .. }) => (Shown::Leads, Shown::Follows),
            Mark::Stopped => {
                asleep = true;
                (Shown::Stopped, Shown::Stopped)
            }
            Mark::Woken => {
                asleep = false;
                (Shown::Stopped, Shown::Follows)
            }
            Mark::Killed | Mark::Dead => (Shown::Killed, Shown::Gone),
            Mark::Saw(_) => continue,
        };
        // An event of before the stop may be heard of after it, never the other way round.
        let state = if asleep { Shown::Stopped } else { then };
        lane[at] = match (lane[at], here) {
            // What was before the picture is only where its lane starts.
            _ if moment.at_ns < start_ns => state,
            (_, Shown::Killed) => here,
            (before, here) => before.max(here),
        };
        for shown in &mut lane[at + 1..] {
            *shown = state;
        }
        if state == Shown::Gone {
            break;
        }
    }
    lane
}

/// A digit a column: how many tenths of the fullest column were acknowledged in it.
fn rate(acked: &[(u64, u64)], column: impl Fn(u64) -> usize) -> String {
    let mut counts = [0_u64; WIDTH];
    for (at_ns, count) in acked {
        counts[column(*at_ns)] += count;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let letters = [' ', '.', ':', '-', '=', '+', '*', '#'];
    counts.iter().map(|count| letters[(count * 7).div_ceil(most) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_dies() {
        let mut history = History::default();
        let ms = 1_000_000;
        history.add(1, 1, Mark::Saw(Happening::Campaign { term: 1 }));
        history.add(2, 1, Mark::Saw(Happening::Elected { term: 1 }));
        history.add(50 * ms + 10, 1, Mark::Killed);
        history.add(80 * ms + 10, 3, Mark::Saw(Happening::Campaign { term: 2 }));
        history.add(81 * ms + 10, 3, Mark::Saw(Happening::Elected { term: 2 }));
        history.add(60 * ms + 10, 2, Mark::Stopped);
        history.add(90 * ms + 10, 2, Mark::Woken);
        let picture = draw(&history, 3, 10, 144 * ms + 10, &[(ms, 10), (3 * ms, 10), (101 * ms, 1)]);
        let lines: Vec<&str> = picture.lines().collect();
        assert_eq!(lines[0], format!("{:9}0{:>71}", "", "144 ms"));
        assert_eq!(lines[1], format!("node 1   {}x", "L".repeat(25)));
        assert_eq!(lines[2], format!("node 2   {}{}{}", "f".repeat(30), "z".repeat(16), "f".repeat(26)));
        assert_eq!(lines[3], format!("node 3   {}c{}", "f".repeat(40), "L".repeat(31)));
        assert_eq!(lines[4], format!("commits  ##{}.", " ".repeat(48)));
    }
}
