//! What the threads of a process meet at. A file that takes these from here, and nothing else that threads share, is
//! compiled a second time by `tests/loom`, with the model checker's in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

pub(crate) use rtrb::chunks::WriteChunk;
pub(crate) use rtrb::{Consumer, Producer, RingBuffer};
