//! Looks at the region of a replica that does not run: which entries its ring still holds, and whether anything in it is
//! damaged. Not the opening of the file (`fabric::shm`), nor how it is shown (`cli::log`).

mod consistency;
mod entries;
mod lines;

pub use entries::{Damage, Held, held, verify};
pub use lines::{Identity, Lines, LinesError, read_lines};
