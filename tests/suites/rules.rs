//! Which tests of the suites are passed, and why others are not: the file `skips.toml`, held against what happened. A
//! test that fails and is not excused there is wrong, and so is an excuse that nothing needs.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// One line of a suite's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The test.
    pub id: String,
    /// `passed`, `failed`, or `skipped` by the suite itself.
    pub outcome: String,
    /// The errors, or the suite's reason.
    pub why: String,
}

/// Patterns, what they excuse, and why.
struct Excuse {
    patterns: Vec<String>,
    /// In this run alone, if any.
    run: Option<String>,
    reason: String,
}

/// `skips.toml`, of one suite.
pub struct Rules {
    /// Files that run.
    pub files: Vec<String>,
    left_out: Vec<Excuse>,
    says: Vec<Excuse>,
    skips: Vec<Excuse>,
    /// By a command's name, in capitals: why there is none.
    commands: BTreeMap<String, String>,
    /// Those that a run may miss or not: the test sends two at once, on two connections.
    perhaps: BTreeSet<String>,
}

/// What a suite's runs come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub passed: usize,
    /// Skipped tests by reason.
    pub skipped: BTreeMap<String, usize>,
    /// What is not as the file says.
    pub wrong: Vec<String>,
    /// Commands without which tests failed.
    pub missed: BTreeSet<String>,
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    let list = table.get(name).and_then(Value::as_array).unwrap_or_else(|| panic!("a list `{name}` in {table:?}"));
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

fn excuses(table: &Table, name: &str, patterns: &str) -> Vec<Excuse> {
    let none = Vec::new();
    let list = table.get(name).and_then(Value::as_array).unwrap_or(&none);
    let excuse = |value: &Value| {
        let table = value.as_table().expect("a table");
        let text = |name: &str| table.get(name).and_then(Value::as_str).map(str::to_owned);
        let reason = text("reason").filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| panic!("a reason in {table:?}"));
        Excuse { patterns: texts(table, patterns), run: text("run"), reason }
    };
    list.iter().map(excuse).collect()
}

/// Whether `text` is `pattern`, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = pattern.rfind('*').map(|at| &pattern[at + 1..]) else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

/// The command that the server did not know, from the texts of errors.
fn unknown_command(why: &str) -> Option<String> {
    let quoted = |after: &str| {
        let (_, rest) = why.split_once(after)?;
        let (name, rest) = rest.split_once('\'')?;
        Some((name.to_ascii_uppercase(), rest))
    };
    if let Some((sub, rest)) = quoted("unknown subcommand '") {
        let family = rest.strip_prefix(". Try ")?.split_whitespace().next()?;
        return Some(format!("{family} {sub}"));
    }
    quoted("unknown command '").map(|(name, _)| name)
}

/// Excuses of one kind, and which of their patterns something needed.
struct Book<'a> {
    excuses: &'a [Excuse],
    used: BTreeSet<&'a str>,
}

impl<'a> Book<'a> {
    fn new(excuses: &'a [Excuse]) -> Book<'a> {
        Book { excuses, used: BTreeSet::new() }
    }

    /// The first that fits. All patterns that fit count as used.
    fn find(&mut self, run: &str, text: &str) -> Option<&'a Excuse> {
        let mut found = None;
        for excuse in self.excuses.iter().filter(|excuse| excuse.run.as_deref().is_none_or(|only| only == run)) {
            for pattern in excuse.patterns.iter().filter(|pattern| matches(pattern, text)) {
                self.used.insert(pattern);
                found = found.or(Some(excuse));
            }
        }
        found
    }

    fn unused(&self) -> impl Iterator<Item = &'a str> {
        let all = self.excuses.iter().flat_map(|excuse| &excuse.patterns).map(String::as_str);
        all.filter(|pattern| !self.used.contains(pattern))
    }
}

impl Rules {
    /// Those of one suite.
    pub fn read(text: &str, suite: &str) -> Rules {
        let file: Table = text.parse().unwrap_or_else(|error| panic!("skips.toml: {error}"));
        let table = file.get(suite).and_then(Value::as_table).unwrap_or_else(|| panic!("[{suite}] in skips.toml"));
        let (mut commands, mut perhaps) = (BTreeMap::new(), BTreeSet::new());
        for excuse in excuses(&file, "commands", "names") {
            for name in excuse.patterns {
                let reason = format!("not in the command set: {}", excuse.reason);
                let certain = name.trim_end_matches('?').to_owned();
                if certain != name {
                    perhaps.insert(certain.clone());
                }
                let name = certain;
                assert!(commands.insert(name.clone(), reason).is_none(), "{name} stands twice in skips.toml");
            }
        }
        Rules {
            files: texts(table, "files"),
            left_out: excuses(table, "left_out", "files"),
            says: excuses(table, "says", "texts"),
            skips: excuses(table, "skip", "tests"),
            commands,
            perhaps,
        }
    }

    /// What is wrong with the choice of files: each one that the suite has is run or left out for a reason.
    pub fn choice(&self, files: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut left_out = Book::new(&self.left_out);
        for file in files {
            let runs = self.files.iter().any(|pattern| matches(pattern, file));
            match (runs, left_out.find("", file).is_some()) {
                (false, false) => wrong.push(format!("neither run nor left out: {file}")),
                (true, true) => wrong.push(format!("run and left out: {file}")),
                _ => {}
            }
        }
        let absent = self.files.iter().filter(|pattern| !files.iter().any(|file| matches(pattern, file)));
        wrong.extend(absent.map(|pattern| format!("no file is {pattern}")));
        wrong.extend(left_out.unused().map(|pattern| format!("no file is {pattern}, which is to be left out")));
        wrong
    }

    /// Holds the reports of all runs against the file.
    pub fn judge(&self, runs: &[(&str, Vec<Row>)]) -> Verdict {
        let mut verdict = Verdict::default();
        let (mut skips, mut says) = (Book::new(&self.skips), Book::new(&self.says));
        for (run, rows) in runs {
            for row in by_test(rows) {
                let id = format!("{run}: {}", row.id);
                let skip = skips.find(run, &row.id);
                let reason = match (row.outcome.as_str(), skip) {
                    ("passed", None) => {
                        verdict.passed += 1;
                        continue;
                    }
                    ("passed", Some(skip)) => Err(format!("passes, but is skipped, {}", skip.reason)),
                    (_, Some(skip)) => Ok(skip.reason.clone()),
                    ("skipped", None) => match says.find(run, &row.why) {
                        Some(said) => Ok(said.reason.clone()),
                        None => Err(format!("skips itself: {}", row.why)),
                    },
                    (_, None) => {
                        let name = unknown_command(&row.why).filter(|name| self.commands.contains_key(name));
                        verdict.missed.extend(name.clone());
                        name.map(|name| self.commands[&name].clone()).ok_or_else(|| format!("fails: {}", row.why))
                    }
                };
                match reason {
                    Ok(reason) => *verdict.skipped.entry(reason).or_default() += 1,
                    Err(wrong) => verdict.wrong.push(format!("{id} {wrong}")),
                }
            }
        }
        verdict.wrong.extend(skips.unused().map(|pattern| format!("no test is {pattern}, which is to be skipped")));
        verdict.wrong.extend(says.unused().map(|text| format!("nothing skips itself with: {text}")));
        verdict
    }

    /// Commands that are excused and that nothing missed.
    pub fn never_missed(&self, missed: &BTreeSet<String>) -> Vec<String> {
        let never = |name: &&String| !missed.contains(*name) && !self.perhaps.contains(*name);
        self.commands.keys().filter(never).cloned().collect()
    }
}

/// One row for each test: what failed in its preparation or afterwards failed.
fn by_test(rows: &[Row]) -> Vec<Row> {
    let mut tests: Vec<Row> = Vec::new();
    let mut known = BTreeMap::new();
    for row in rows {
        match known.get(&row.id) {
            None => {
                known.insert(row.id.clone(), tests.len());
                tests.push(row.clone());
            }
            Some(&at) if row.outcome == "failed" => tests[at] = row.clone(),
            Some(_) => {}
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        commands = [{ names = ["ZADD", "SCRIPT LOAD"], reason = "later" }]
        [suite]
        files = ["a.py", "b/*.py"]
        left_out = [{ files = ["c.py"], reason = "a cluster" }]
        says = [{ texts = ["version >= *"], reason = "newer" }]
        skip = [
            { tests = ["a::odd*"], reason = "on purpose" },
            { tests = ["a::two"], run = "RESP2", reason = "elsewhere" },
        ]
    "#;

    fn row(id: &str, outcome: &str, why: &str) -> Row {
        Row { id: id.to_owned(), outcome: outcome.to_owned(), why: why.to_owned() }
    }

    fn judge(changes: &[Row]) -> Verdict {
        let mut rows = vec![
            row("a::one", "passed", ""),
            row("a::odd[1]", "failed", "differs"),
            row("a::two", "failed", "E: unknown subcommand 'load'. Try SCRIPT HELP."),
            row("a::three", "skipped", "version >= 9"),
        ];
        for change in changes {
            rows.retain(|row| row.id != change.id);
        }
        rows.extend(changes.iter().cloned());
        let rows = |keep: &str| rows.iter().filter(|row| row.id.starts_with(keep)).cloned().collect();
        Rules::read(FILE, "suite").judge(&[("RESP3", rows("a::o")), ("RESP2", rows("a::t"))])
    }

    #[test]
    fn what_is_as_the_file_says_is_counted() {
        let verdict = judge(&[row("a::one more", "failed", "E: unknown command 'zadd', with args beginning with: ")]);
        assert!(verdict.wrong.is_empty(), "{verdict:?}");
        let skipped = [("elsewhere", 1), ("newer", 1), ("not in the command set: later", 1), ("on purpose", 1)];
        assert_eq!(verdict.skipped, skipped.map(|(reason, count)| (reason.to_owned(), count)).into());
        assert_eq!((verdict.passed, verdict.missed.len()), (1, 1));
        assert_eq!(Rules::read(FILE, "suite").never_missed(&verdict.missed), ["SCRIPT LOAD"]);
    }

    #[test]
    fn what_is_not_as_the_file_says_is_wrong() {
        for (change, said) in [
            (row("a::one", "failed", "boom"), "RESP3: a::one fails: boom"),
            (row("a::one", "failed", "unknown command 'XADD', with"), "a::one fails: unknown"),
            (row("a::odd[1]", "passed", ""), "a::odd[1] passes, but is skipped, on purpose"),
            (row("a::three", "skipped", "no reason"), "a::three skips itself: no reason"),
            (row("a::three", "passed", ""), "nothing skips itself with: version >= *"),
        ] {
            let wrong = judge(&[change]).wrong;
            assert!(wrong.iter().any(|wrong| wrong.contains(said)), "{said}: {wrong:?}");
        }
        let late = row("a::one", "failed", "in its teardown");
        let verdict = Rules::read(FILE, "suite").judge(&[("RESP3", vec![row("a::one", "passed", ""), late])]);
        assert_eq!(verdict.passed, 0, "{verdict:?}");
        assert!(verdict.wrong.iter().any(|wrong| wrong.contains("no test is a::odd*")), "{verdict:?}");
    }

    #[test]
    fn each_file_is_run_or_left_out() {
        let choice = |files: &[&str]| {
            Rules::read(FILE, "suite").choice(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(choice(&["a.py", "b/x.py", "c.py"]), Vec::<String>::new());
        assert_eq!(choice(&["a.py", "b/x.py", "c.py", "d.py"]), ["neither run nor left out: d.py"]);
        assert_eq!(choice(&["a.py", "b/x.py"]), ["no file is c.py, which is to be left out"]);
        assert_eq!(choice(&["a.py", "c.py"]), ["no file is b/*.py"]);
    }

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*c", "abcd", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "ace", true),
            ("a*c*e", "aec", false),
            ("ab*ba", "aba", false),
            ("t[1]", "t[1]", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
