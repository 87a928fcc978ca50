//! Bytes as choices. When they run out every choice is the first one, and loops end.

use arbitrary::{Result, Unstructured};

/// Runs a property on bytes.
pub(crate) fn with(bytes: &[u8], property: impl FnOnce(&mut Unstructured<'_>) -> Result<()>) {
    // Fails only for want of bytes: there is nothing more to try.
    let _ = property(&mut Unstructured::new(bytes));
}

/// One of so many.
pub(crate) fn roll(u: &mut Unstructured<'_>, sides: u64) -> Result<u64> {
    u.int_in_range(0..=sides - 1)
}

/// A number that is small, near a power of two or near the largest, or any.
pub(crate) fn word(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match roll(u, 6)? {
        0 | 1 => roll(u, 8)?,
        2 => u64::MAX - roll(u, 256)?,
        3 => (1_u64 << roll(u, 64)?).wrapping_sub(roll(u, 2)?),
        4 => u64::from(u.arbitrary::<u16>()?) * 64,
        _ => u.arbitrary()?,
    })
}

/// A number within two of `near`, mostly.
pub(crate) fn about(u: &mut Unstructured<'_>, near: u64, unit: u64) -> Result<u64> {
    match roll(u, 8)? {
        0 => word(u),
        1 => Ok(near.wrapping_add(unit)),
        2 => Ok(near.wrapping_sub(unit)),
        3 => Ok(near.wrapping_add(roll(u, 64)?.wrapping_mul(unit))),
        4 => Ok(near.wrapping_sub(roll(u, 64)?.wrapping_mul(unit))),
        _ => Ok(near),
    }
}
