//! By which a piece of host memory is imported. Whoever has it can write to that memory, so it is a secret: it is not printed, and
//! wiped when it is not needed any more.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Error;

/// The most that is taken for one. DOCA sets no limit; the channel carries whole messages of 4080 bytes.
pub const MAX_DESCRIPTOR_LEN: usize = 2048;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Descriptor(Zeroizing<Vec<u8>>);

impl Descriptor {
    /// Of bytes that DOCA gave, here or elsewhere.
    pub fn new(bytes: &[u8]) -> Result<Descriptor, Error> {
        match bytes.len() {
            1..=MAX_DESCRIPTOR_LEN => Ok(Descriptor(Zeroizing::new(bytes.to_vec()))),
            len => Err(Error::Descriptor { len }),
        }
    }

    /// To hand on, by a channel that nobody else can read.
    pub fn secret(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptor({} secret bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_printed() {
        let descriptor = Descriptor::new(b"open sesame").expect("a descriptor");
        assert_eq!(format!("{descriptor:?}"), "Descriptor(11 secret bytes)");
        assert_eq!(format!("{descriptor:#?}"), "Descriptor(11 secret bytes)");
    }

    #[test]
    fn what_is_empty_or_too_long_is_none() {
        assert!(matches!(Descriptor::new(&[]), Err(Error::Descriptor { len: 0 })));
        assert!(Descriptor::new(&[1; MAX_DESCRIPTOR_LEN]).is_ok());
        let error = Descriptor::new(&[1; MAX_DESCRIPTOR_LEN + 1]).expect_err("too long");
        assert_eq!(error.to_string(), "a descriptor of 2049 bytes: it is empty, or longer than 2048 bytes");
    }
}
