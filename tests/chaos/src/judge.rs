//! Whether all that clients were told fits what the nodes applied. The judgement itself is the simulator's
//! (`ringleader_tests::invariants::linearizability`); here is what it is asked.
//!
//! It is asked twice. The log of *attempts*, as the library has it: an entry that was acknowledged stands where it was
//! acknowledged, once. And the log of *commands*, as the list has it: each takes effect once, however often it was tried.
//! Reads are held against both, and against the entries themselves: a node shows a digest of all that it had applied.

use std::collections::BTreeMap;

use ringleader_core::types::{Index, Term};
use ringleader_tests::invariants::linearizability::{self, Entry, Read, Write};

use crate::list::{Applied, Effect, List};
use crate::record::{Attempt, Record};

/// Clients are not told the terms of their entries: one log, in which the index alone is a place.
const TERM: Term = Term(1);

/// What one process of a node applied.
#[derive(Clone, Debug)]
pub struct Life {
    /// Which process, in words.
    pub name: String,
    /// All of it.
    pub applied: Vec<Applied>,
    /// Whether it lived to the end, and is to have everything.
    pub is_whole: bool,
}

/// Whether all is as it must be; in words what is not. `record` is to be left out of a group that has lost more than a group
/// can lose.
pub fn judge(record: Option<&Record>, lives: &[Life]) -> Result<(), String> {
    let log = one_log(lives)?;
    let Some(record) = record else { return Ok(()) };
    if let Some(wrong) = record.wrong.first() {
        return Err(wrong.clone());
    }
    judge_attempts(record, log)?;
    judge_commands(record, log)
}

/// The longest of the lives, which all others are the beginning of.
fn one_log(lives: &[Life]) -> Result<&[Applied], String> {
    let Some(longest) = lives.iter().max_by_key(|life| life.applied.len()) else { return Ok(&[]) };
    for life in lives {
        let differs = life.applied.iter().zip(&longest.applied).find(|(one, other)| one != other);
        if let Some((one, other)) = differs {
            return Err(format!("{} applied {one:?} where {} applied {other:?}", life.name, longest.name));
        }
        if life.is_whole && life.applied.len() < longest.applied.len() {
            return Err(format!(
                "{} applied {} entries, and {} applied {}",
                life.name,
                life.applied.len(),
                longest.name,
                longest.applied.len()
            ));
        }
    }
    Ok(&longest.applied)
}

fn judge_attempts(record: &Record, log: &[Applied]) -> Result<(), String> {
    // Where each stands for the first time. A second time is found by the judgement.
    let mut places = BTreeMap::new();
    for applied in log {
        places.entry(applied.command.attempt).or_insert(applied.index);
    }
    let write = |attempt: &Attempt| {
        let stands = || places.get(&attempt.command.attempt).copied();
        let place = attempt.acknowledged.map(|(_, index)| index).or_else(stands)?;
        Some(Write {
            number: attempt.command.attempt,
            ticket: (TERM, Index(place)),
            invoked: attempt.invoked,
            acknowledged: attempt.acknowledged.map(|(at, _)| at),
        })
    };
    // One that is neither acknowledged nor in the log says nothing.
    let writes: Vec<Write> = record.attempts.iter().filter_map(write).collect();
    let entry = |applied: &Applied| Entry {
        index: Index(applied.index),
        term: TERM,
        number: applied.command.attempt,
    };
    let log: Vec<Entry> = log.iter().map(entry).collect();
    linearizability::judge(&writes, &reads(record), &log).map_err(|found| format!("attempts: {found}"))
}

fn judge_commands(record: &Record, log: &[Applied]) -> Result<(), String> {
    let mut list = List::default();
    let mut effects = Vec::new();
    // Of all entries up to each, and of none.
    let mut digests = BTreeMap::from([(0, 0)]);
    for applied in log {
        match list.apply(*applied) {
            Effect::First => effects.push(Entry {
                index: Index(applied.index),
                term: TERM,
                number: number(applied.command.client, applied.command.number),
            }),
            Effect::Repeated => {}
            Effect::Early => return Err(format!("{applied:?} is applied, and the command before it is not")),
        }
        digests.insert(applied.index, list.digest());
    }
    let mut writes: BTreeMap<u64, Write> = BTreeMap::new();
    for attempt in &record.attempts {
        let (client, its) = (attempt.command.client, attempt.command.number);
        let place = list.effect(client, its);
        if attempt.effect.is_some() && attempt.effect != place {
            return Err(format!("{attempt:?} took effect at {place:?}"));
        }
        // Acknowledged and without any effect: it is lost, and the attempts have shown it.
        let Some(place) = place else { continue };
        let write = writes.entry(number(client, its)).or_insert(Write {
            number: number(client, its),
            ticket: (TERM, Index(place)),
            invoked: attempt.invoked,
            acknowledged: None,
        });
        write.invoked = write.invoked.min(attempt.invoked);
        let told = attempt.acknowledged.map(|(at, _)| at);
        write.acknowledged = write.acknowledged.into_iter().chain(told).min();
    }
    for look in &record.looks {
        if digests.get(&look.saw) != Some(&look.digest) {
            return Err(format!("{look:?} shows another state than the log makes up to there"));
        }
    }
    let writes: Vec<Write> = writes.into_values().collect();
    linearizability::judge(&writes, &reads(record), &effects).map_err(|found| format!("commands: {found}"))
}

fn reads(record: &Record) -> Vec<Read> {
    let read = |look: &crate::record::Look| Read {
        invoked: look.invoked,
        answered: look.answered,
        saw: Index(look.saw),
    };
    record.looks.iter().map(read).collect()
}

fn number(client: u32, number: u32) -> u64 {
    u64::from(client) << 32 | u64::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Command;
    use crate::record::Look;
    use crate::wire::How;

    fn applied(index: u64, number: u32, attempt: u64) -> Applied {
        Applied { index, term: 1, command: Command { client: 1, number, attempt } }
    }

    fn life(name: &str, applied: &[Applied]) -> Life {
        Life { name: name.to_owned(), applied: applied.to_vec(), is_whole: true }
    }

    fn attempt(number: u32, attempt: u64, invoked: u64, acknowledged: Option<(u64, u64)>) -> Attempt {
        Attempt {
            command: Command { client: 1, number, attempt },
            invoked,
            acknowledged,
            effect: acknowledged.map(|(_, index)| index),
        }
    }

    fn look(invoked: u64, answered: u64, log: &[Applied]) -> Look {
        let list = List::of(log);
        Look { node: 1, how: How::Follower, invoked, answered, saw: list.last(), digest: list.digest() }
    }

    /// Two commands; the second was tried twice, and both attempts are in the log.
    fn good() -> (Record, Vec<Applied>) {
        let log = vec![applied(2, 1, 10), applied(4, 2, 11), applied(5, 2, 12)];
        let attempts = vec![
            attempt(1, 10, 1, Some((2, 2))),
            attempt(2, 11, 3, None),
            Attempt { effect: Some(4), ..attempt(2, 12, 6, Some((9, 5))) },
            attempt(3, 13, 12, None),
        ];
        let looks = vec![look(4, 5, &log[..1]), look(7, 8, &log[..2]), look(10, 11, &log)];
        (Record { attempts, looks, ..Record::default() }, log)
    }

    fn found(change: impl Fn(&mut Record, &mut Vec<Applied>)) -> String {
        let (mut record, mut log) = good();
        change(&mut record, &mut log);
        judge(Some(&record), &[life("one", &log), life("two", &log)]).expect_err("must be found")
    }

    #[test]
    fn what_is_well_is_well_and_a_life_cut_short_is_no_fault() {
        let (record, log) = good();
        let cut = Life { is_whole: false, ..life("two", &log[..2]) };
        assert_eq!(judge(Some(&record), &[life("one", &log), cut]), Ok(()));
        assert_eq!(judge(Some(&Record::default()), &[]), Ok(()));
    }

    #[test]
    fn logs_that_differ_are_found() {
        let (record, log) = good();
        let other = [log[0], applied(4, 2, 12)];
        assert!(judge(Some(&record), &[life("one", &log), life("two", &log[..2])]).is_err());
        let killed = Life { is_whole: false, ..life("two", &other) };
        assert!(judge(Some(&record), &[life("one", &log), killed.clone()]).is_err());
        assert!(judge(None, &[life("one", &log), killed]).is_err());
    }

    #[test]
    fn an_acknowledged_entry_that_is_lost_or_doubled_is_found() {
        let cut_off = |_: &mut Record, log: &mut Vec<Applied>| log.truncate(2);
        assert!(found(cut_off).contains("not in the log"));
        assert!(
            found(|record, _| record.attempts[3].acknowledged = Some((13, 6))).contains("not in the log")
        );
        assert!(found(|_, log| log.push(applied(6, 1, 10))).contains("nobody proposed"));
        assert!(found(|_, log| log.insert(1, log[0])).contains("stands behind"));
    }

    #[test]
    fn what_nobody_proposed_and_gaps_are_found() {
        assert!(found(|_, log| log.push(applied(6, 0, 0))).contains("nobody proposed"));
        assert!(
            found(|record, log| {
                record.attempts[3].command.number = 4;
                log.push(applied(6, 4, 13));
            })
            .contains("the command before it")
        );
    }

    #[test]
    fn an_effect_that_is_told_wrong_is_found() {
        assert!(found(|record, _| record.attempts[2].effect = Some(5)).contains("took effect"));
    }

    #[test]
    fn reads_that_are_stale_or_show_something_else_are_found() {
        let stale = |record: &mut Record, log: &mut Vec<Applied>| record.looks[2] = look(10, 11, &log[..2]);
        assert!(found(stale).contains("did not see"));
        assert!(found(|record, _| record.looks[0].digest ^= 1).contains("another state"));
        assert!(found(|record, _| record.looks[0].saw = 3).contains("another state"));
        let future = |record: &mut Record, log: &mut Vec<Applied>| record.looks[0] = look(4, 5, log);
        assert!(found(future).contains("proposed later"));
    }

    #[test]
    fn a_wrong_answer_is_found() {
        assert_eq!(found(|record, _| record.wrong.push("a lease read".to_owned())), "a lease read");
    }
}
