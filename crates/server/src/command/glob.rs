//! Glob patterns as MATCH and KEYS take them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that stands for itself.

/// Whether all of `text` fits `pattern`. O(pattern * text) at worst.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern_at, mut text_at) = (0, 0);
    // Where to go on if what follows the last star does not fit: after the star, one byte further in the text. An
    // earlier star needs no second try, since the last one can take whatever that one would have left to it.
    let mut retry: Option<(usize, usize)> = None;
    while text_at < text.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += 1;
            retry = Some((pattern_at, text_at));
            continue;
        }
        match one(&pattern[pattern_at..], text[text_at]) {
            Some(taken) => (pattern_at, text_at) = (pattern_at + taken, text_at + 1),
            None => match &mut retry {
                Some((after_star, from)) => {
                    *from += 1;
                    (pattern_at, text_at) = (*after_star, *from);
                }
                None => return false,
            },
        }
    }
    pattern[pattern_at..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of `pattern` stand for `byte`, if its first element does.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => class_of(class, byte).map(|taken| taken + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// The same for a class, of which `class` is what follows the bracket. One that is not closed ends with the pattern.
fn class_of(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [start, b'-', end, ..] => {
                found |= (*start.min(end)..=*start.max(end)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_as_redis_reads_them() {
        let cases: [(&str, &str, bool); 26] = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*f", "abcde", false),
            ("*ab", "aab", true),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("[abc]", "b", true),
            ("[^abc]", "b", false),
            ("[^abc]", "d", true),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[a-", "-", true),
            ("[ab", "b", true),
            ("[]", "a", false),
            ("[\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("user:*:name", "user:17:name", true),
            ("user:*:name", "user:17:names", false),
            ("**a**", "xax", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!matches("a*".repeat(100).as_bytes(), "a".repeat(50_000).as_bytes()));
    }
}
