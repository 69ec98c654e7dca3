//! Lists that many writers append to, each numbering what it appends. Read back, a list tells what was lost, what is
//! there twice, and what came out of order, whatever happened to the store.
//!
//! It is weaker than [`super::list_append`], which judges whole transactions. But it needs no other order than that
//! of each writer. So it can tell of millions of appends, and of a store that was reached around forebay.

use std::collections::{BTreeMap, HashMap};

use super::Violation;

/// What a writer knows of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged, so it is there.
    Acknowledged,
    /// The server said that it does not know; what is appended later comes later all the same.
    Unknown,
    /// There was no reply: it may come at any time, behind later ones too.
    Silent,
    /// The server said that it changed nothing, so it is not there.
    Refused,
}

/// One append. A writer sends one at a time, with rising numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// To which list.
    pub list: u64,
    /// By whom.
    pub writer: u32,
    /// Its number.
    pub number: u32,
    /// What became of it, as far as is known.
    pub fate: Fate,
}

impl Told {
    /// What is appended: `writer:number`.
    pub fn element(&self) -> String {
        format!("{}:{}", self.writer, self.number)
    }
}

/// How often something was found, and the first place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How often.
    pub count: u64,
    /// The first place, in words.
    pub first: Option<String>,
}

impl Found {
    fn add(&mut self, place: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(place);
    }
}

/// What lists tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Appends that were sent.
    pub sent: u64,
    /// Of these, acknowledged.
    pub acknowledged: u64,
    /// Of these, without a reply that tells.
    pub uncertain: u64,
    /// Of the uncertain, there.
    pub landed: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Elements in all lists.
    pub elements: u64,
    /// Acknowledged and not there.
    pub lost: Found,
    /// There once more.
    pub repeated: Found,
    /// Behind a later one of the same writer.
    pub disordered: Found,
    /// Refused and there.
    pub revived: Found,
    /// Nobody sent them.
    pub foreign: Found,
}

impl Findings {
    /// The promises, each with what was found against it.
    pub fn promises(&self) -> [(&'static str, &Found, u64); 5] {
        [
            ("acknowledged appends that are lost", &self.lost, self.acknowledged),
            ("appends that are there twice", &self.repeated, self.elements),
            ("appends out of their writer's order", &self.disordered, self.elements),
            ("refused appends that are there", &self.revived, self.refused),
            ("elements that were never appended", &self.foreign, self.elements),
        ]
    }

    /// The first promise that is broken.
    pub fn verdict(&self) -> Result<(), Violation> {
        for (what, found, of) in self.promises() {
            if let Some(first) = &found.first {
                return Err(Violation::new(format!("{} of {of} {what}, the first: {first}", found.count)));
            }
        }
        Ok(())
    }
}

/// What was sent to one list, by writer and number, and whether it has been seen there.
type Sent = HashMap<(u32, u32), (Fate, bool)>;

/// Judges lists by what was told. A list that is not among `lists` is empty.
pub fn judge(told: &[Told], lists: &BTreeMap<u64, Vec<Vec<u8>>>) -> Findings {
    let mut findings = Findings { sent: told.len() as u64, ..Findings::default() };
    let mut sent: BTreeMap<u64, Sent> = BTreeMap::new();
    for told in told {
        sent.entry(told.list).or_default().insert((told.writer, told.number), (told.fate, false));
        match told.fate {
            Fate::Acknowledged => findings.acknowledged += 1,
            Fate::Unknown | Fate::Silent => findings.uncertain += 1,
            Fate::Refused => findings.refused += 1,
        }
    }
    for (list, elements) in lists {
        judge_list(*list, elements, sent.entry(*list).or_default(), &mut findings);
    }
    for (list, sent) in &sent {
        let mut missing: Vec<_> =
            sent.iter().filter(|(_, (fate, there))| *fate == Fate::Acknowledged && !there).map(|(id, _)| id).collect();
        missing.sort_unstable();
        for (writer, number) in missing {
            findings.lost.add(|| format!("{writer}:{number} of list {list}"));
        }
    }
    findings
}

fn judge_list(list: u64, elements: &[Vec<u8>], sent: &mut Sent, findings: &mut Findings) {
    let mut latest: HashMap<u32, u32> = HashMap::new();
    for element in elements {
        findings.elements += 1;
        let text = String::from_utf8_lossy(element);
        let place = || format!("{text} in list {list}");
        let parsed =
            text.split_once(':').and_then(|(writer, number)| Some((writer.parse().ok()?, number.parse().ok()?)));
        let known = parsed.and_then(|id| Some((id, sent.get_mut(&id)?)));
        let Some(((writer, number), (fate, there))) = known else {
            findings.foreign.add(place);
            continue;
        };
        if std::mem::replace(there, true) {
            findings.repeated.add(place);
            continue;
        }
        match fate {
            Fate::Refused => findings.revived.add(place),
            Fate::Unknown | Fate::Silent => findings.landed += 1,
            Fate::Acknowledged => {}
        }
        let last = latest.entry(writer).or_insert(number);
        if number < *last && *fate != Fate::Silent {
            findings.disordered.add(|| format!("{} behind {writer}:{last}", place()));
        }
        *last = number.max(*last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(list: u64, writer: u32, number: u32, fate: Fate) -> Told {
        Told { list, writer, number, fate }
    }

    fn lists(of: &[(u64, &[&str])]) -> BTreeMap<u64, Vec<Vec<u8>>> {
        of.iter()
            .map(|(list, elements)| (*list, elements.iter().map(|text| text.as_bytes().to_vec()).collect()))
            .collect()
    }

    #[test]
    fn each_breach_is_found_and_named() {
        use Fate::*;
        let sent = [
            told(0, 1, 1, Acknowledged),
            told(0, 1, 2, Acknowledged),
            told(0, 2, 1, Refused),
            told(1, 1, 3, Silent),
            told(1, 1, 4, Acknowledged),
            told(1, 2, 2, Unknown),
        ];
        let well = judge(&sent, &lists(&[(0, &["1:1", "1:2"]), (1, &["1:4", "1:3"])]));
        assert_eq!(well.verdict(), Ok(()));
        assert_eq!((well.sent, well.acknowledged, well.uncertain, well.landed, well.refused), (6, 3, 2, 1, 1));
        let broken = |zero: &[&str], one: &[&str]| {
            judge(&sent, &lists(&[(0, zero), (1, one)])).verdict().expect_err("a breach").what
        };
        let whole: &[&str] = &["1:1", "1:2"];
        assert_eq!(broken(&["1:2"], &["1:4"]), "1 of 3 acknowledged appends that are lost, the first: 1:1 of list 0");
        assert!(broken(&["1:1", "1:2", "1:1"], &["1:4"]).contains("there twice, the first: 1:1 in list 0"));
        assert!(broken(&["1:2", "1:1"], &["1:4"]).contains("order, the first: 1:1 in list 0 behind 1:2"));
        assert!(broken(&["1:1", "2:1", "1:2"], &["1:4"]).contains("refused appends that are there, the first: 2:1"));
        assert!(broken(whole, &["1:4", "9:9"]).contains("never appended, the first: 9:9"));
        assert!(broken(whole, &["1:4", "x"]).contains("never appended"));
        // In the wrong list it is lost here and foreign there.
        let moved = judge(&sent, &lists(&[(0, &["1:1"]), (1, &["1:2", "1:4"])]));
        assert_eq!((moved.lost.count, moved.foreign.count), (1, 1));
        // A list that is gone.
        assert_eq!(judge(&sent, &lists(&[(0, whole)])).lost.count, 1);
    }

    proptest! {
        /// A random history with random damage is judged as by definition.
        #[test]
        fn counts_are_those_of_the_definition(
            fates in proptest::collection::vec((0u64..2, 0u32..3, 0u8..4), 1..40),
            damage in proptest::collection::vec((0u64..2, 0u32..4, 0u32..40), 0..60),
        ) {
            let mut sent = Vec::new();
            for (number, (list, writer, fate)) in (1..).zip(fates) {
                let fate = [Fate::Acknowledged, Fate::Unknown, Fate::Silent, Fate::Refused][usize::from(fate)];
                sent.push(told(list, writer, number, fate));
            }
            let mut shown: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
            for (list, writer, number) in &damage {
                shown.entry(*list).or_default().push(format!("{writer}:{number}").into_bytes());
            }
            let findings = judge(&sent, &shown);
            let at = |told: &Told| -> Vec<usize> {
                let list = shown.get(&told.list).map_or(&[][..], |list| &list[..]);
                (0..list.len()).filter(|at| list[*at] == told.element().into_bytes()).collect()
            };
            let count = |holds: &dyn Fn(&Told) -> bool| sent.iter().filter(|told| holds(told)).count() as u64;
            prop_assert_eq!(findings.lost.count, count(&|told| told.fate == Fate::Acknowledged && at(told).is_empty()));
            prop_assert_eq!(findings.revived.count, count(&|told| told.fate == Fate::Refused && !at(told).is_empty()));
            let times: usize = sent.iter().map(|told| at(told).len()).sum();
            let once = count(&|told| !at(told).is_empty());
            prop_assert_eq!(findings.repeated.count, times as u64 - once);
            prop_assert_eq!(findings.foreign.count, (damage.len() - times) as u64);
            // First appearances, with a later one of the same writer and list before them.
            let behind = |told: &Told| {
                let Some(&here) = at(told).first() else { return false };
                told.fate != Fate::Silent
                    && sent.iter().any(|other| {
                        (other.list, other.writer) == (told.list, told.writer)
                            && other.number > told.number
                            && at(other).first().is_some_and(|&there| there < here)
                    })
            };
            prop_assert_eq!(findings.disordered.count, count(&behind));
        }
    }
}
