//! Patterns of keys, as SCAN ... MATCH has them: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` in front of any of these.

/// Whether the whole of `text` is what the pattern says. Takes at most as many steps as the lengths multiplied: only the last `*`
/// is ever gone back to.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Behind the last star: what it stood for ends here.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, from));
            at += 1;
        } else if let Some(len) = one(&pattern[at..], text[from]) {
            at += len;
            from += 1;
        } else if let Some((behind, end)) = star {
            star = Some((behind, end + 1));
            (at, from) = (behind, end + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Bytes of the pattern that stand for this byte; `None` when they stand for another one, or there are none.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [b'[', ref class @ ..] => {
            let (is_in, len) = in_class(class, byte);
            is_in.then_some(1 + len)
        }
        [plain, ..] => (plain == byte).then_some(1),
    }
}

/// Whether a byte is in a class, and the bytes of that, its end included. One without an end goes to the end of the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let is_not = class.first() == Some(&b'^');
    let (mut at, mut found) = (usize::from(is_not), false);
    loop {
        match class[at.min(class.len())..] {
            [] => return (found != is_not, class.len()),
            [b']', ..] => return (found != is_not, at + 1),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] if high != b']' => {
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= plain == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("[ab", "b", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("a**b", "ab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        // Would not end in this life if every star were tried.
        let (pattern, text) = (b"a*".repeat(200), [b'a'; 10_000]);
        assert!(matches(&pattern, &text) && !matches(&[&pattern[..], b"b"].concat(), &text));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_a_text_matches_itself(
            pattern in "[a-c*?\\[\\]\\\\^-]{0,12}", text in "[a-c*?\\[\\]\\\\^-]{0,12}",
        ) {
            let _ = matches(pattern.as_bytes(), text.as_bytes());
            let escaped: String = text.chars().flat_map(|letter| ['\\', letter]).collect();
            prop_assert!(matches(escaped.as_bytes(), text.as_bytes()));
        }
    }
}
