//! The core without std, linked into something that has none.

#![no_std]

use core::sync::atomic::AtomicU64;

use ringleader_core::mem::Memory;
use ringleader_core::replica::Replica;
use ringleader_core::types::Instant;

/// Memory as an embedder without an allocator has it.
#[derive(Clone, Copy)]
pub struct Words(pub &'static [AtomicU64]);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        self.0
    }
}

/// Makes the whole core be compiled for this memory.
pub fn turn(replica: &mut Replica<Words>, now: Instant) {
    replica.handle_tick(now);
    while let Some(event) = replica.poll_event() {
        core::hint::black_box(event);
    }
    while let Some(verb) = replica.poll_verb() {
        core::hint::black_box(verb);
    }
    let _ = replica.propose(now, b"entry");
    while replica.apply(|entry| {
        core::hint::black_box(entry.payload);
    }) {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
