//! The lane between a handle and the agent: submitting, replying, and either end going away at any time.
//!
//! Nobody ever waits for a signal here: the agent and a handle that waits look again after a pause, so that there is no
//! wake-up to lose.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::thread;
use ringleader::SubmitError;
use ringleader_core::types::{Index, Term};

use super::explore;
use crate::handle::{Handle, Outcome};
use crate::lane::{self, INLINE_MAX, Take};
use crate::lanes::{Lanes, Refusal};
use crate::shared::Shared;
use crate::sync::{AtomicBool, yield_now};

/// While the agent commits something and ends: each proposal that was accepted has exactly one outcome, in order; what the
/// agent committed is known as committed, what it never took is not unknown before what it took.
pub fn every_proposal_has_one_outcome() {
    explore(3, || {
        let (handle, agent) = lane::lane();
        let shared = Arc::new(Shared { closed: AtomicBool::new(false), max_payload: INLINE_MAX });
        let mut handle = Handle::new(handle, Arc::clone(&shared));
        let agent = thread::spawn(move || {
            let mut lanes = Lanes::new();
            lanes.add(agent);
            let mut taken = 0;
            lanes.propose(8, None, |payload| {
                taken += 1;
                assert_eq!(payload, [taken as u8], "in the order of proposing, whole");
                if taken > 2 { Err(Refusal::Full) } else { Ok((Term(1), Index(taken))) }
            });
            lanes.committed(Term(1), Index(1));
            shared.closed.store(true, Ordering::Relaxed);
            lanes.close();
            taken
        });
        let mut accepted = 0;
        for payload in 1..=2 {
            match handle.propose(&[payload]) {
                Ok(ticket) => {
                    assert_eq!(ticket.0, accepted);
                    accepted += 1;
                }
                Err(error) => assert_eq!(error, SubmitError::Closed),
            }
        }
        let mut outcomes = Vec::new();
        while handle.outstanding() > 0 {
            match handle.poll() {
                Some((ticket, outcome)) => {
                    assert_eq!(ticket.0, outcomes.len() as u64);
                    outcomes.push(outcome);
                }
                None => yield_now(),
            }
        }
        let taken = agent.join().expect("the agent ends");
        assert_eq!(handle.poll(), None, "one outcome more");
        assert_eq!(outcomes.len() as u64, accepted);
        for (i, outcome) in outcomes.iter().enumerate() {
            let i = i as u64;
            match outcome {
                Outcome::Committed { index } => assert_eq!((i, *index), (0, 1)),
                Outcome::Unknown => assert!(i > 0 || taken == 0, "the first one was committed"),
                Outcome::NotLeader { .. } => assert!(i >= taken, "the agent proposed it"),
            }
        }
    });
}

/// While a handle pushes, among others a payload that is boxed, and is dropped: the agent takes all of it, and only then
/// finds the lane over.
pub fn what_was_pushed_is_taken() {
    explore(3, || {
        let (mut handle, mut agent) = lane::lane();
        let handle = thread::spawn(move || {
            let large = vec![2; INLINE_MAX + 1];
            handle.push(&[1], 0).expect("room");
            handle.push(&large, 0).expect("room");
        });
        let mut scratch = lane::scratch();
        let mut taken = Vec::new();
        loop {
            let is_over = agent.is_over();
            let head = agent.head(&mut scratch, |payload, _| Take::Taken((payload.len(), payload[0])));
            match head {
                Some(head) => {
                    assert!(!is_over, "a lane that is over is empty");
                    taken.push(head);
                }
                None if is_over => break,
                None => yield_now(),
            }
        }
        handle.join().expect("the handle ends");
        assert_eq!(taken, [(1, 1), (INLINE_MAX + 1, 2)], "something is left in the lane");
    });
}
