//! The queue of events between the agent and the one consumer of [`crate::Node::next_event`].

use ringleader_core::event::Event;
use rtrb::{Consumer, Producer, RingBuffer};

/// An event of the protocol with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedEvent {
    /// When the agent saw it, in nanoseconds of `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// What.
    pub event: Event,
}

const CAPACITY: usize = 8192;

/// The agent's end: never waits for the consumer.
#[derive(Debug)]
pub(crate) struct Events {
    queue: Producer<TimedEvent>,
    dropped: u64,
}

/// Both ends.
pub(crate) fn events() -> (Events, Consumer<TimedEvent>) {
    let (queue, consumer) = RingBuffer::new(CAPACITY);
    (Events { queue, dropped: 0 }, consumer)
}

impl Events {
    /// Queues an event. Commits are by far the most, and each says all that those before it said: they leave half of the
    /// queue to the others.
    pub(crate) fn push(&mut self, event: TimedEvent) {
        let frequent = matches!(event.event, Event::Committed { .. });
        if (frequent && self.queue.slots() <= CAPACITY / 2) || self.queue.push(event).is_err() {
            self.dropped += 1;
        }
    }

    /// Events that found no place.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringleader_core::types::{Index, Position, Term};

    #[test]
    fn commits_are_dropped_before_anything_else() {
        let (mut events, mut consumer) = events();
        let commit = Event::Committed { term: Term(1), index: Index(1), position: Position(64) };
        for _ in 0..CAPACITY {
            events.push(TimedEvent { at_ns: 0, event: commit });
        }
        assert_eq!(events.dropped(), CAPACITY as u64 / 2);
        events.push(TimedEvent { at_ns: 1, event: Event::Elected { term: Term(2) } });
        let last = std::iter::from_fn(|| consumer.pop().ok()).last().unwrap();
        assert_eq!(last.event, Event::Elected { term: Term(2) });
    }
}
