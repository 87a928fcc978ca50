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
    let _ = writeln!(text, "{:9}commits: from . few to # most acknowledged in that time", "");
    text
}

fn lane(history: &History, node: u8, start_ns: u64, column: impl Fn(u64) -> usize) -> Vec<Shown> {
    let mut moments: Vec<_> = history.moments().iter().filter(|moment| moment.node == node).collect();
    moments.sort_by_key(|moment| moment.at_ns);
    let mut lane = vec![Shown::Follows; WIDTH];
    // What follows a moment is written over the rest of the lane; within its column the greater stays.
    let mut asleep = false;
    let mut led_since = None;
    for moment in moments {
        let at = column(moment.at_ns);
        let (here, then) = match moment.mark {
            Mark::Saw(Happening::Elected { .. }) => {
                led_since = Some(moment.at_ns);
                (Shown::Leads, Shown::Leads)
            }
            Mark::Saw(Happening::Campaign { .. }) => (Shown::Asks, Shown::Follows),
            Mark::Saw(Happening::GaveUp { .. }) => match led_since.take() {
                Some(_) => (Shown::Leads, Shown::Follows),
                None => (Shown::Follows, Shown::Follows),
            },
            Mark::Stopped => {
                asleep = true;
                (Shown::Stopped, Shown::Stopped)
            }
            Mark::Woken => {
                asleep = false;
                // It believes that it leads until it has looked; everybody else knows better by then.
                led_since = led_since.filter(|since| !is_succeeded(history, node, *since, moment.at_ns));
                (Shown::Stopped, if led_since.is_some() { Shown::Leads } else { Shown::Follows })
            }
            Mark::Killed | Mark::Dead => (Shown::Killed, Shown::Gone),
            Mark::Saw(_) => continue,
        };
        // An event of before the stop may be heard of after it, never the other way round.
        let state = if asleep && then != Shown::Gone { Shown::Stopped } else { then };
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

/// Whether another node was elected in that time.
fn is_succeeded(history: &History, node: u8, since_ns: u64, until_ns: u64) -> bool {
    history.leaderships().iter().any(|led| led.node != node && (since_ns..until_ns).contains(&led.elected_ns))
}

/// A letter a column, the darker the more was acknowledged in it: in sevenths of the fullest column, rounded up.
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

    #[test]
    fn a_woken_leader_leads_no_more_and_a_shot_one_sleeps_no_more() {
        let ms = 1_000_000;
        let (end, elected) = (144 * ms, |term| Mark::Saw(Happening::Elected { term }));
        let mut history = History::default();
        history.add(0, 1, elected(1));
        history.add(20 * ms, 1, Mark::Stopped);
        history.add(60 * ms, 2, elected(2));
        let mut woken = history.clone();
        woken.add(120 * ms, 1, Mark::Woken);
        woken.add(124 * ms, 1, Mark::Saw(Happening::GaveUp { term: 1 }));
        let picture = draw(&woken, 3, 0, end, &[]);
        let first = format!("node 1   {}{}{}", "L".repeat(10), "z".repeat(51), "f".repeat(11));
        assert_eq!(picture.lines().nth(1), Some(first.as_str()));
        history.add(100 * ms, 1, Mark::Dead);
        let picture = draw(&history, 3, 0, end, &[]);
        let first = format!("node 1   {}{}x", "L".repeat(10), "z".repeat(40));
        assert_eq!(picture.lines().nth(1), Some(first.as_str()));
        // Nobody took over: it goes on leading.
        let mut alone = History::default();
        alone.add(0, 1, elected(1));
        alone.add(20 * ms, 1, Mark::Stopped);
        alone.add(120 * ms, 1, Mark::Woken);
        assert!(
            draw(&alone, 3, 0, end, &[]).lines().nth(1).is_some_and(|lane| lane.ends_with("zLLLLLLLLLLL"))
        );
    }
}
