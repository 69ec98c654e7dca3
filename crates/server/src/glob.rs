//! Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[abc]`, `[^a]`, `[a-z]` and `\` before what is meant itself.
//!
//! Takes time proportional to pattern times text: of the stars only the last one passed is ever tried again.

/// Bytes of a pattern of a client. A class of a pattern is looked through for each byte of each name.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Whether all of `text` matches `pattern`; with `any_case`, letters match in either case.
pub fn matches(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    let fold = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    let (mut p, mut t) = (0, 0);
    // After the last star passed: where the pattern goes on, and the first text byte that the star has not taken.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        let step = match text.get(t) {
            Some(byte) => one(&pattern[p..], *byte, &fold),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((after, taken))) if taken < text.len() => {
                (p, t) = (after, taken + 1);
                star = Some((after, taken + 1));
            }
            (None, _) => return false,
        }
    }
}

/// Whether the first element of `pattern`, which is no star, matches `byte`; the length of that element.
fn one(pattern: &[u8], byte: u8, fold: &impl Fn(u8) -> u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', meant, ..] => (fold(*meant) == fold(byte)).then_some(2),
        [b'[', class @ ..] => {
            let (matched, length) = in_class(class, byte, fold);
            matched.then_some(1 + length)
        }
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
    }
}

/// Whether `byte` is in the class that `class` begins with, after its `[`; the length up to and with its `]`. A class
/// that does not end, ends with the pattern.
fn in_class(class: &[u8], byte: u8, fold: &impl Fn(u8) -> u8) -> (bool, usize) {
    let not = class.first() == Some(&b'^');
    let mut at = usize::from(not);
    let mut found = false;
    loop {
        match &class[at.min(class.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', meant, ..] => {
                found |= fold(*meant) == fold(byte);
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (fold(*from.min(to)), fold(*from.max(to)));
                found |= (from.min(to)..=to.max(from)).contains(&fold(byte));
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == fold(byte);
                at += 1;
            }
        }
    }
    (found != not, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_redis_matches() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hallo", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a[\\]]", "a]", true),
            ("a[", "ab", false),
            ("a[b", "ab", true),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("user:*:name", "user:17:name", true),
            ("***a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
        }
        assert!(matches(b"Save", b"sAVE", true) && !matches(b"Save", b"save", false));
    }

    /// By trying everything.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            (_, []) => false,
            (_, [byte, text @ ..]) => {
                one(pattern, *byte, &|byte| byte).is_some_and(|length| naive(&pattern[length..], text))
            }
        }
    }

    proptest! {
        #[test]
        fn the_last_star_is_enough(pattern in "[ab*?\\[\\]^\\\\-]{0,10}", text in "[ab]{0,10}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text, false), naive(pattern, text));
        }
    }
}
