//! Lengths in bytes as people write them.

/// Reads a length in bytes: digits, and K, M or G for the powers of 1024.
pub fn parse_len(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    // `parse` takes a sign, which no length has.
    let number =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text:?} is no length in bytes, such as 65536, 512K, 64M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(parse_len("65536"), Ok(65536));
        assert_eq!(parse_len("512K"), Ok(512 << 10));
        assert_eq!(parse_len("1m"), Ok(1 << 20));
        assert_eq!(parse_len("2G"), Ok(2 << 30));
        for wrong in ["", "K", "-1", "+1", "1T", "1 M", "99999999999G", "6\u{664}M", "M\u{20ac}"] {
            assert!(parse_len(wrong).is_err(), "{wrong}");
        }
    }
}
