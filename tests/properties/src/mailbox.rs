//! A mailbox line on its way: words land one by one, at any time, and reading goes on meanwhile.

use arbitrary::{Result, Unstructured};
use ringleader_core::layout::{MAIL_LEN, RequestLine};
use ringleader_core::mailbox::{Inbox, Outbox, Route};
use ringleader_core::types::{Epoch, Instant, NodeId};
use ringleader_core::verb::{Class, RequestId, Verb};

use crate::choice::{roll, with, word};
use crate::memory::area;

const WORDS: u64 = MAIL_LEN / 8;
const EVERY: u64 = 16;

/// A WRITE of a line under way: its number, and which words have not landed.
type Flight = Option<(u32, u32)>;

/// What is handed out was said, whole, once each time it was said, in order; and the newest is handed out in the end.
pub fn mailbox(bytes: &[u8]) {
    with(bytes, |u| {
        let (staging, control) = (area(MAIL_LEN), area(2 * MAIL_LEN));
        let route = Route { class: Class::Request, from: 0, to: MAIL_LEN };
        let (mut outbox, mut inbox) = (Outbox::<RequestLine>::new(), Inbox::default());
        let mut said = vec![RequestLine::default()];
        let mut heard = RequestLine::default();
        let (mut flight, mut epoch, mut now): (Flight, u32, u64) = (None, 1, 0);

        let land = |flight: &mut Flight, which: u64| {
            if let Some((_, missing)) = flight
                && *missing & 1 << which != 0
            {
                control.store(MAIL_LEN + which * 8, staging.load(which * 8));
                *missing &= !(1 << which);
            }
        };
        let hear = |inbox: &mut Inbox, said: &[RequestLine], heard: &mut RequestLine| {
            let Some(line) = inbox.look::<RequestLine, _>(&control, MAIL_LEN) else { return };
            let fields = RequestLine { version: 0, crc: 0, ..line };
            assert!(said.contains(&fields), "nobody said {fields:?}");
            assert!(fields.sequence >= heard.sequence, "lines never go back");
            assert_ne!((line.version, line.crc), (heard.version, heard.crc), "once each time");
            *heard = line;
        };
        while !u.is_empty() {
            now += roll(u, 4)?;
            match roll(u, 12)? {
                0 => {
                    let line = next_line(u, said.len() as u64)?;
                    outbox.set(line);
                    said.push(line);
                }
                1 => outbox.say_again(),
                2 => outbox.repeat_every(Instant(now), EVERY),
                3 | 4 => {
                    let verb = outbox.poll(Instant(now), Epoch(epoch), &staging, NodeId(2), route);
                    if let Some(verb) = verb {
                        assert!(flight.is_none(), "one at a time: its source must stay as it is");
                        flight = Some(posted(&verb, epoch));
                    }
                }
                5 => {
                    if let Some((number, _)) = flight {
                        (0..WORDS).for_each(|which| land(&mut flight, which));
                        flight = None;
                        outbox.handle_success(number);
                    }
                }
                6 => {
                    // A completion that belongs to nothing under way.
                    let number = u.arbitrary()?;
                    if flight.is_none_or(|(flying, _)| flying != number) {
                        outbox.handle_success(number);
                    }
                }
                7 => {
                    // The connection breaks: nothing more lands of what is under way. The reader may notice.
                    flight = None;
                    epoch += 1;
                    outbox.handle_down();
                    if roll(u, 2)? == 0 {
                        inbox.zero::<RequestLine, _>(&control, MAIL_LEN);
                        (heard.version, heard.crc) = (0, 0);
                    }
                }
                8 | 9 => land(&mut flight, roll(u, WORDS)?),
                _ => hear(&mut inbox, &said, &mut heard),
            }
        }
        // All that was posted lands, all that is to be said is said.
        for turn in 0.. {
            if let Some((number, _)) = flight {
                (0..WORDS).for_each(|which| land(&mut flight, which));
                outbox.handle_success(number);
            }
            let verb = outbox.poll(Instant(now), Epoch(epoch), &staging, NodeId(2), route);
            let Some(verb) = verb else { break };
            flight = Some(posted(&verb, epoch));
            assert!(turn < 2, "what was said is said");
        }
        hear(&mut inbox, &said, &mut heard);
        assert_eq!(heard.sequence, said.len() as u64 - 1, "the newest comes through");
        Ok(())
    });
}

fn next_line(u: &mut Unstructured<'_>, sequence: u64) -> Result<RequestLine> {
    let (term, hash) = (word(u)?, word(u)?);
    Ok(RequestLine { sequence, term, hash, kind: u.arbitrary()?, ..RequestLine::default() })
}

fn posted(verb: &Verb, epoch: u32) -> (u32, u32) {
    let Verb::Write { id, from, to, len, .. } = *verb else { panic!("a line is written: {verb:?}") };
    assert_eq!((from, to, u64::from(len)), (0, MAIL_LEN, MAIL_LEN));
    let expected =
        RequestId { peer: NodeId(2), class: Class::Request, epoch: Epoch(epoch), number: id.number };
    assert_eq!(id, expected);
    (id.number, (1 << WORDS) - 1)
}
