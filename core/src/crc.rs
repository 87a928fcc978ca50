//! CRC-32C (Castagnoli; RFC 3720, appendix B.4): the `crc32c` crate with `std`, which finds the processor's instruction
//! at run time, the `crc` crate's table without, and the bare instruction for a few bytes. One set of vectors proves all
//! equal.

/// CRC-32C of `bytes`, going on from `seed` (0 to begin). `append(append(0, a), b)` equals `append(0, ab)`.
#[cfg(feature = "std")]
#[inline]
pub fn append(seed: u32, bytes: &[u8]) -> u32 {
    if bytes.len() <= FEW
        && let Some(crc) = crate::mem::crc32c_of_few(seed, bytes)
    {
        return crc;
    }
    crc32c::crc32c_append(seed, bytes)
}

/// Up to here one stream of instructions is done before three are set up.
#[cfg(feature = "std")]
const FEW: usize = 256;

/// CRC-32C of `bytes`, going on from `seed` (0 to begin). `append(append(0, a), b)` equals `append(0, ab)`.
#[cfg(not(feature = "std"))]
#[inline]
pub fn append(seed: u32, bytes: &[u8]) -> u32 {
    table::append(seed, bytes)
}

#[cfg(any(test, not(feature = "std")))]
mod table {
    static TABLE: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

    pub(super) fn append(seed: u32, bytes: &[u8]) -> u32 {
        // The crate takes the register's content before the final complement, bit-reversed.
        let mut digest = TABLE.digest_with_initial((!seed).reverse_bits());
        digest.update(bytes);
        digest.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 3720, appendix B.4.
    const VECTORS: [([u8; 32], u32); 3] =
        [([0; 32], 0x8a9136aa), ([0xff; 32], 0x62a8ab43), (ascending(), 0x46dd794e)];

    const fn ascending() -> [u8; 32] {
        let mut bytes = [0; 32];
        let mut i = 0;
        while i < 32 {
            bytes[i] = i as u8;
            i += 1;
        }
        bytes
    }

    #[test]
    fn both_implementations_give_the_published_vectors() {
        for (bytes, crc) in VECTORS {
            assert_eq!(append(0, &bytes), crc);
            assert_eq!(table::append(0, &bytes), crc);
        }
    }

    #[test]
    fn few_bytes_and_many_are_the_same_to_all() {
        let bytes: std::vec::Vec<u8> = (0..600u32).map(|i| (i * 17) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(append(9, &bytes[..len]), table::append(9, &bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn a_seed_goes_on_from_a_prefix_in_both_implementations() {
        let bytes: std::vec::Vec<u8> = (0..777u32).map(|i| (i * 31) as u8).collect();
        for cut in [0, 1, 7, 8, 64, 500, 777] {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(append(append(0, a), b), append(0, &bytes));
            assert_eq!(table::append(append(0, a), b), append(0, &bytes));
        }
    }
}
