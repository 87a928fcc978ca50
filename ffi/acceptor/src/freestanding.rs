//! What std would bring: the end of a panic, which here is the processor's own.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
        // SAFETY: an undefined instruction touches no memory; whoever catches it does not come back here but into the loop.
        unsafe {
            core::arch::asm!("ud2", options(nomem, nostack));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above, of a breakpoint.
        unsafe {
            core::arch::asm!("brk #1", options(nomem, nostack));
        }
        core::hint::spin_loop();
    }
}

/// Precompiled parts of `core` name it in their unwind tables. Nothing unwinds: panics end above.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
