//! Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[abc]`, `[^a]`, `[a-z]` and `\` before what is meant itself.
//!
//! [`matches`] is for short ones. [`Glob`] is for patterns and texts of clients, of any length: it is read once, its
//! work is counted, and it may stop anywhere and go on later. Both take time proportional to pattern times text at
//! most: the leftmost place of what stands between two stars is always right, so of the stars only the last one passed
//! is ever tried again. What is literal between two stars, as nearly always, is searched for in one pass over the text.
//!
//! Patterns of rules are compared with each key of each request. [`Glob::in_one_pass`] searches for any part in one
//! pass (`masks.rs`), whatever the text is. So the time is proportional to the text, with [`Glob::work_per_byte`].

mod masks;

use masks::{Masks, WORD_ELEMENTS};
use memchr::memmem::Finder;

/// Bytes of a pattern of a client.
pub const PATTERN_BYTES_MAX: usize = 128 << 10;

/// Bytes of a pattern that is read for many clients at a time; longer ones are read one at a time.
pub const PATTERN_BYTES_SHORT: usize = 1 << 10;

/// Bytes of a text that are searched for a literal between two counts of work.
const WINDOW_BYTES: usize = 64 << 10;

/// Bytes that the search for a literal passes while one byte is compared.
const SEARCHED_PER_WORK: usize = 8;

/// A pattern, read once.
pub struct Glob {
    /// What stands between the stars, in order.
    parts: Vec<Part>,
    /// What the parts match, one byte each.
    elements: Vec<Element>,
    classes: Vec<Class>,
    /// With which parts that are not literal are searched for in one pass.
    masks: Option<Masks>,
    /// Whether a star stands before the first part, and one behind the last.
    open: (bool, bool),
}

/// Which bytes match, as 256 bits.
type Class = [u64; 4];

#[derive(Clone, Copy)]
enum Element {
    Any,
    Byte(u8),
    /// One of [`Glob::classes`].
    Class(u32),
}

struct Part {
    start: usize,
    end: usize,
    /// If all of it is literal.
    literal: Option<Finder<'static>>,
}

/// How far a text has been looked at.
#[derive(Default)]
pub struct Search {
    part: usize,
    /// Where the part is tried next.
    at: usize,
    /// Elements of it that match there.
    matched: usize,
}

impl Glob {
    /// Reads a pattern.
    pub fn new(pattern: &[u8]) -> Glob {
        let (parts, elements, classes) = (Vec::new(), Vec::new(), Vec::new());
        let mut glob = Glob { parts, elements, classes, masks: None, open: (false, false) };
        let (mut at, mut start) = (0, 0);
        while let Some(byte) = pattern.get(at) {
            at += match (byte, pattern.get(at + 1)) {
                (b'*', _) => {
                    glob.close_part(start);
                    start = glob.elements.len();
                    glob.open = (glob.open.0 || glob.elements.is_empty(), true);
                    1
                }
                (b'\\', Some(meant)) => glob.push(Element::Byte(*meant), 2),
                (b'[', _) => {
                    let (class, length) = class_of(&pattern[at + 1..]);
                    glob.classes.push(class);
                    let class = Element::Class(glob.classes.len() as u32 - 1);
                    glob.push(class, 1 + length)
                }
                (b'?', _) => glob.push(Element::Any, 1),
                (literal, _) => glob.push(Element::Byte(*literal), 1),
            };
        }
        glob.close_part(start);
        glob
    }

    /// Reads a pattern of a rule, which many texts are compared with.
    pub fn in_one_pass(pattern: &[u8]) -> Glob {
        let mut glob = Glob::new(pattern);
        let search = |(at, part): (usize, &Part)| part.literal.is_none() && !glob.is_anchored(at);
        if glob.parts.iter().enumerate().any(search) {
            glob.masks = Masks::new(glob.elements.len(), |at, byte| glob.is(glob.elements[at], byte));
        }
        glob
    }

    /// Steps that one byte of a text takes at most, if the pattern was read by [`Glob::in_one_pass`]. 0 is less than
    /// one: literals at the start and the end are compared at once.
    pub fn work_per_byte(&self) -> usize {
        let work = |(at, part): (usize, &Part)| match (self.is_anchored(at), &part.literal) {
            (true, Some(_)) => 0,
            (true, None) | (false, Some(_)) => 1,
            (false, None) => (part.end - 1) / WORD_ELEMENTS - part.start / WORD_ELEMENTS + 1,
        };
        self.parts.iter().enumerate().map(work).max().unwrap_or(0)
    }

    /// Whether there is one place only at which the part `at` can match: at the start of a text, or at its end.
    fn is_anchored(&self, at: usize) -> bool {
        (at == 0 && !self.open.0) || (at + 1 == self.parts.len() && !self.open.1)
    }

    /// Whether `text` matches, at once; the work is added to `work`.
    pub fn matches(&self, text: &[u8], work: &mut usize) -> bool {
        let (mut search, mut left) = (Search::default(), usize::MAX);
        let matches = self.go_on(text, &mut search, &mut left);
        *work += usize::MAX - left;
        matches == Some(true)
    }

    fn push(&mut self, element: Element, length: usize) -> usize {
        self.elements.push(element);
        self.open.1 = false;
        length
    }

    /// The part that began at element `start` ends with the last.
    fn close_part(&mut self, start: usize) {
        let part = &self.elements[start..];
        let bytes = part.iter().map(|element| if let Element::Byte(byte) = element { Some(*byte) } else { None });
        let literal = bytes.collect::<Option<Vec<u8>>>().map(|bytes| Finder::new(&bytes).into_owned());
        if !part.is_empty() {
            self.parts.push(Part { start, end: self.elements.len(), literal });
        }
    }

    fn is(&self, element: Element, byte: u8) -> bool {
        match element {
            Element::Any => true,
            Element::Byte(literal) => literal == byte,
            Element::Class(class) => self.classes[class as usize][usize::from(byte >> 6)] & (1 << (byte & 63)) != 0,
        }
    }

    /// Looks on at `text`: whether all of it matches, or `None` when `left`, which counts the work, has come to 0.
    pub fn go_on(&self, text: &[u8], search: &mut Search, left: &mut usize) -> Option<bool> {
        *left = left.saturating_sub(1);
        // Each element takes one byte; without a star nothing may be left.
        let (least, starless) = (self.elements.len(), self.open == (false, false) && self.parts.len() < 2);
        if text.len() < least || (starless && text.len() != least) {
            return Some(false);
        }
        while let Some(part) = self.parts.get(search.part) {
            let length = part.end - part.start;
            let (first, last) = (search.part == 0, search.part + 1 == self.parts.len());
            let found = match (first && !self.open.0, last && !self.open.1) {
                // The start, the end, or both: there is one place to look at.
                (true, _) => self.matches_at(part, text, 0, search, left),
                (_, true) => self.matches_at(part, text, text.len() - length, search, left),
                _ => self.find(part, text, search, left),
            }?;
            let Some(place) = found.filter(|place| *place >= search.at) else { return Some(false) };
            let part = search.part + 1;
            *search = Search { part, at: place + length, matched: 0 };
        }
        Some(true)
    }

    /// Whether a part matches at `place`.
    fn matches_at(
        &self,
        part: &Part,
        text: &[u8],
        place: usize,
        search: &mut Search,
        left: &mut usize,
    ) -> Option<Option<usize>> {
        let elements = &self.elements[part.start..part.end];
        if let Some(literal) = &part.literal {
            *left = left.saturating_sub(elements.len() / SEARCHED_PER_WORK);
            return Some((text.get(place..place + elements.len()) == Some(literal.needle())).then_some(place));
        }
        while let Some(element) = elements.get(search.matched) {
            if *left == 0 {
                return None;
            }
            *left -= 1;
            if !text.get(place + search.matched).is_some_and(|byte| self.is(*element, *byte)) {
                return Some(None);
            }
            search.matched += 1;
        }
        Some(Some(place))
    }

    /// The first place from `search.at` on at which a part matches.
    fn find(&self, part: &Part, text: &[u8], search: &mut Search, left: &mut usize) -> Option<Option<usize>> {
        let length = part.end - part.start;
        while search.at + length <= text.len() {
            if *left == 0 {
                return None;
            }
            match (&part.literal, &self.masks) {
                (None, Some(masks)) => {
                    let (found, work) = masks.find(part.start..part.end, &text[search.at..]);
                    *left = left.saturating_sub(work);
                    return Some(found.map(|place| search.at + place));
                }
                (Some(literal), _) => {
                    let window = &text[search.at..text.len().min(search.at + WINDOW_BYTES + length)];
                    let found = literal.find(window);
                    let passed = found.unwrap_or(window.len());
                    *left = left.saturating_sub(passed / SEARCHED_PER_WORK);
                    match found {
                        Some(place) => return Some(Some(search.at + place)),
                        // Its last bytes may begin the literal.
                        None => search.at += window.len() + 1 - length,
                    }
                }
                (None, None) => match self.matches_at(part, text, search.at, search, left)? {
                    Some(place) => return Some(Some(place)),
                    None => (search.at, search.matched) = (search.at + 1, 0),
                },
            }
        }
        Some(None)
    }
}

/// The class that `class` begins with, after its `[`, and its length up to and with its `]`.
fn class_of(class: &[u8]) -> (Class, usize) {
    let not = class.first() == Some(&b'^');
    let mut at = usize::from(not);
    let mut bits: Class = [0; 4];
    let mut add = |from: u8, to: u8| {
        for byte in from.min(to)..=from.max(to) {
            bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    };
    loop {
        at += match &class[at.min(class.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', meant, ..] => {
                add(*meant, *meant);
                2
            }
            [from, b'-', to, ..] => {
                add(*from, *to);
                3
            }
            [literal, ..] => {
                add(*literal, *literal);
                1
            }
        };
    }
    (if not { bits.map(|word| !word) } else { bits }, at)
}

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

    /// By the compiled pattern, so many steps at a time; with the work that was done.
    fn by_steps(pattern: &[u8], text: &[u8], steps: usize) -> (bool, usize) {
        let (glob, mut search, mut work) = (Glob::new(pattern), Search::default(), 0);
        loop {
            let mut left = steps;
            let matches = glob.go_on(text, &mut search, &mut left);
            work += steps - left;
            if let Some(matches) = matches {
                return (matches, work);
            }
        }
    }

    /// What took a second and more for each name.
    #[test]
    fn work_is_pattern_times_text_at_most_and_far_less_for_literals() {
        let text = b"a".repeat(300_000);
        let cases = [
            (b"*".repeat(500), 2),
            ([b"*a".repeat(500), b"b".to_vec()].concat(), 10_000),
            ([b"*", &b"a".repeat(500)[..], b"b*"].concat(), 50_000),
            ([b"*", &b"?".repeat(50)[..], b"b*"].concat(), 16_000_000),
            (b"*?".repeat(50_000), 200_000),
            (b"*?".repeat(400_000), 2),
        ];
        for (pattern, most) in cases {
            let (_, work) = by_steps(&pattern, &text, 1 << 17);
            let shown = String::from_utf8_lossy(&pattern[..10]).into_owned();
            assert!(work <= most, "{shown}..: {work} steps");
        }
    }

    /// With the pattern of a rule; and its work, which is as much for each byte as the pattern says.
    fn in_one_pass(pattern: &[u8], text: &[u8]) -> bool {
        let (glob, mut work) = (Glob::in_one_pass(pattern), 0);
        let matches = glob.matches(text, &mut work);
        let most = 1 + pattern.len() + text.len() * glob.work_per_byte();
        assert!(work <= most, "{work} steps, {most} at most");
        matches
    }

    /// What took a minute for two hundred such keys: a class is tried at each place.
    #[test]
    fn a_key_is_compared_with_a_rule_in_one_pass() {
        let text = [b"a".repeat(59_960), b"0".repeat(32), b":".to_vec()].concat();
        for (pattern, per_byte) in [
            (["*", &"[0-9a-f]".repeat(32), ":*"].concat(), 1),
            (["*", &"[ab]".repeat(200), "b*"].concat(), 4),
            (["*", &"?".repeat(1020), "b*"].concat(), 16),
            ("*[ab]".repeat(200), 1),
            ("*a".repeat(500) + "*b*", 1),
            (["*", &"a".repeat(1000), "b*"].concat(), 1),
            ("?".repeat(1000) + "*", 1),
            ("user:*".to_owned(), 0),
            ("*:name".to_owned(), 0),
        ] {
            let glob = Glob::in_one_pass(pattern.as_bytes());
            assert_eq!(glob.work_per_byte(), per_byte, "{pattern}");
            assert_eq!(in_one_pass(pattern.as_bytes(), &text), by_steps(pattern.as_bytes(), &text, 1 << 20).0);
        }
    }

    #[test]
    fn the_masks_of_a_rule_stay_small() {
        let bytes = |pattern: &[u8]| Glob::in_one_pass(pattern).masks.map_or(0, |masks| masks.bytes());
        assert_eq!((bytes(b"user:*"), bytes(b"[ab]*c*[ab]")), (0, 0));
        assert!(bytes(&[b"*", &b"[0-9a-f]".repeat(32)[..], b":*"].concat()) < 600);
        // Each byte by itself, in 16 words.
        let all: Vec<u8> = (0..=255).filter(|byte| !b"*?[\\".contains(byte)).collect();
        let widest = [b"*?", &all.repeat(5)[..1020], b"*"].concat();
        assert!((32 << 10..=33 << 10).contains(&bytes(&widest)), "{}", bytes(&widest));
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
        fn the_last_star_is_enough(
            pattern in "[ab*?\\[\\]^\\\\-]{0,10}",
            text in "[ab]{0,10}",
            steps in 2_usize..9,
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            let expected = naive(pattern, text);
            prop_assert_eq!(matches(pattern, text, false), expected);
            prop_assert_eq!(by_steps(pattern, text, steps).0, expected);
            prop_assert_eq!(by_steps(pattern, text, 1000).0, expected);
            prop_assert_eq!(in_one_pass(pattern, text), expected);
        }

        /// Of any bytes, and of parts that are longer than a word.
        #[test]
        fn one_pass_finds_what_trying_finds(
            parts in prop::collection::vec(("[ab*?\\[\\]^\\\\-]{0,8}|\\[\\^?[a-c0\\\\-]{0,4}\\]", 1_usize..40), 0..5),
            text in "[abc\\[\\]\\\\-]{0,300}",
            any in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let pattern = parts.iter().map(|(part, times)| part.repeat(*times)).collect::<String>();
            let texts = [text.as_bytes(), &any, text.as_bytes().get(..parts.len()).unwrap_or_default()];
            for text in texts {
                prop_assert_eq!(in_one_pass(pattern.as_bytes(), text), matches(pattern.as_bytes(), text, false));
            }
            prop_assert_eq!(in_one_pass(&any, text.as_bytes()), matches(&any, text.as_bytes(), false));
        }
    }
}
