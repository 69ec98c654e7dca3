//! One transaction type as far as it was read.

use std::collections::{BTreeMap, BTreeSet};

use forebay::graph::{Graph, VERTICES_MAX, Vertex};

use super::access::Access;
use super::columns::Columns;
use super::text::{Wrong, names, tokens, wrong};

/// Where a value comes from.
#[derive(Clone)]
struct Origin {
    line: u64,
    /// Statements whose results determine it; none for a parameter.
    from: BTreeSet<u16>,
    /// Another statement gave the same name, in this line.
    again: Option<u64>,
    parameter: bool,
}

/// A type, its accesses and where their values come from.
#[derive(Default)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) vertices: Vec<Vertex>,
    edges: BTreeSet<(u16, u16)>,
    /// By vertex all that determine it, over however many steps.
    ancestors: Vec<BTreeSet<u16>>,
    known: BTreeMap<String, Origin>,
    columns: Columns,
    /// Nothing is annotated: literals are what a client sent, and names without an origin are parameters.
    proposed: bool,
    /// Line of a statement that selects columns without naming them.
    star: Option<u64>,
    pub(super) next_name: Option<(u64, String)>,
    pub(super) next_after: Vec<(u64, String)>,
}

impl Type {
    /// `Name(:a, :b)`, or a name alone.
    pub(super) fn begin(line: u64, text: &str) -> Result<Type, Wrong> {
        let (name, list) = match text.split_once('(') {
            None => (text, ""),
            Some((name, list)) => match list.trim_end().strip_suffix(')') {
                Some(list) => (name.trim_end(), list),
                None => return wrong(line, "a ')' is missing at the end of the parameters"),
            },
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return wrong(line, "write '@transaction Name(:parameter, ..)'");
        }
        let mut known = BTreeMap::new();
        for parameter in list.split(',').map(str::trim).filter(|parameter| !parameter.is_empty()) {
            let Some(parameter) = parameter.strip_prefix(':') else {
                return wrong(line, format!("parameter '{parameter}': write ':{parameter}', as in the statements"));
            };
            let origin = Origin { line, from: BTreeSet::new(), again: None, parameter: true };
            known.insert(parameter.to_lowercase(), origin);
        }
        let name = name.to_owned();
        Ok(Type { name, line, known, ..Type::default() })
    }

    /// One that has no name yet.
    pub(super) fn proposed(line: u64) -> Type {
        Type { name: "this transaction".to_owned(), line, proposed: true, ..Type::default() }
    }

    pub(super) fn has_statements(&self) -> bool {
        !self.vertices.is_empty()
    }

    /// The statements that determine `:name`.
    pub(super) fn origin(&self, line: u64, name: &str) -> Result<&BTreeSet<u16>, Wrong> {
        const OUTSIDE: &BTreeSet<u16> = &BTreeSet::new();
        match self.known.get(name) {
            Some(Origin { from, again: None, .. }) => Ok(from),
            Some(Origin { from, .. }) if self.proposed => Ok(from),
            None if self.proposed => Ok(OUTSIDE),
            Some(Origin { line: first, again: Some(again), .. }) => wrong(
                line,
                format!("':{name}' may be the one of line {first} or of line {again}; give one another name with AS"),
            ),
            None => {
                let star =
                    self.star.map_or(String::new(), |line| format!(" (line {line} selects *: write the columns out)"));
                let own = &self.name;
                wrong(
                    line,
                    format!(
                        "':{name}' is neither a parameter nor selected before{star}; add it to @transaction \
                         {own}(..), select it AS {name} in an earlier statement, or say -- @let :{name} = .."
                    ),
                )
            }
        }
    }

    pub(super) fn let_be(&mut self, line: u64, text: &str) -> Result<(), Wrong> {
        let shape = || Wrong { line, why: "write '@let :name = :other + ..'".to_owned() };
        let (name, value) = text.split_once('=').ok_or_else(shape)?;
        let name = name.trim().strip_prefix(':').filter(|name| !name.is_empty()).ok_or_else(shape)?.to_lowercase();
        if let Some(origin) = self.known.get(&name) {
            return wrong(line, format!("':{name}' is already what line {} says; choose another name", origin.line));
        }
        let mut from = BTreeSet::new();
        for (_, other) in names(&tokens(value, line)?) {
            from.extend(self.origin(line, &other)?);
        }
        self.known.insert(name, Origin { line, from, again: None, parameter: false });
        Ok(())
    }

    /// A statement whose accesses these are, with all names after colons in it.
    pub(super) fn add(&mut self, line: u64, accesses: Vec<Access>, names: &[(u64, String)]) -> Result<(), Wrong> {
        let first = self.vertices.len() as u16;
        let labels = self.labels(line, &accesses)?;
        let mut after = BTreeSet::new();
        for (line, other) in std::mem::take(&mut self.next_after) {
            match self.place(&other) {
                Some(other) => after.insert(other),
                None => return wrong(line, format!("@after: no earlier statement has the name '{other}'")),
            };
        }
        let is_anywhere = |name: &String| accesses.iter().any(|access| access.names.contains(name));
        for (at, access) in accesses.iter().enumerate() {
            let mut before: BTreeSet<u16> = access.after.iter().map(|before| first + *before as u16).collect();
            if access.after.is_empty() {
                before.extend(&after);
            }
            // What is not said to be of another is of the first.
            let of_it = |name: &String| access.names.contains(name) || (at == 0 && !is_anywhere(name));
            for (line, name) in names.iter().filter(|(_, name)| of_it(name)) {
                before.extend(self.origin(*line, name)?);
            }
            for (column, _) in access.compared.iter().filter(|(_, literal)| !literal || self.proposed) {
                before.extend(self.columns.origin(&access.table, column));
            }
            // What an edge says that a path says as well makes no difference to critical lengths, only to the picture.
            let all: BTreeSet<u16> = before.iter().flat_map(|&v| &self.ancestors[usize::from(v)]).copied().collect();
            self.edges.extend(before.difference(&all).map(|&from| (from, first + at as u16)));
            self.ancestors.push(before.union(&all).copied().collect());
            self.vertices.push(Vertex { name: labels[at].clone(), writes: access.writes });
        }
        for (at, access) in accesses.into_iter().enumerate() {
            self.give(line, first + at as u16, access);
        }
        Ok(())
    }

    /// Where the vertex of this name stands.
    pub(super) fn place(&self, name: &str) -> Option<u16> {
        self.vertices.iter().position(|vertex| vertex.name == name).map(|place| place as u16)
    }

    /// The names of a statement's accesses.
    pub(super) fn labels(&mut self, line: u64, accesses: &[Access]) -> Result<Vec<String>, Wrong> {
        if self.vertices.len() + accesses.len() > VERTICES_MAX {
            return wrong(line, format!("'{}' has more than {VERTICES_MAX} accesses", self.name));
        }
        let mut labels: Vec<String> = Vec::with_capacity(accesses.len());
        if let Some((line, given)) = self.next_name.take() {
            labels.extend(given.split(',').map(|name| name.trim().to_owned()));
            if labels.len() != accesses.len() {
                let tables: Vec<&str> = accesses.iter().map(|access| &*access.table).collect();
                let (count, tables) = (labels.len(), tables.join(", "));
                return wrong(line, format!("{count} names for the accesses of one statement, which are: {tables}"));
            }
            let is_twice = |(at, name): (usize, &String)| self.place(name).is_some() || labels[..at].contains(name);
            if let Some(at) = (0..labels.len()).find(|at| is_twice((*at, &labels[*at]))) {
                return wrong(line, format!("two statements of '{}' have the name '{}'", self.name, labels[at]));
            }
            return Ok(labels);
        }
        for Access { table, .. } in accesses {
            let numbered = (2..).map(|again| format!("{table}#{again}"));
            let mut names = std::iter::once(table.clone()).chain(numbered);
            let free = |name: &String| self.place(name).is_none() && !labels.contains(name);
            labels.extend(names.find(free));
        }
        Ok(labels)
    }

    /// What the access with this number gives is known from here on.
    pub(super) fn give(&mut self, line: u64, number: u16, access: Access) {
        self.star = if access.star { Some(line) } else { self.star };
        let values = access.compared.iter().filter(|(_, literal)| !literal || self.proposed);
        let compared: Vec<&String> = values.map(|(column, _)| column).collect();
        for column in &compared {
            let origin = self.columns.origin(&access.table, column).clone();
            self.columns.set(&access.table, column, origin);
        }
        // A column that was compared with a value has that value, although the access gives it as well.
        for column in access.columns.iter().chain(&access.gives).filter(|column| !compared.contains(column)) {
            self.columns.set(&access.table, column, BTreeSet::from([number]));
        }
        for column in access.gives {
            let origin = Origin { line, from: BTreeSet::new(), again: None, parameter: false };
            let known = self.known.entry(column).or_insert(origin);
            match known.line == line {
                true => drop(known.from.insert(number)),
                // A parameter's name stays the parameter's.
                false if known.parameter => {}
                false => known.again = Some(line),
            }
        }
    }

    /// An annotation that no statement followed.
    pub(super) fn check_waiting(&self) -> Result<(), Wrong> {
        match self.next_name.as_ref().or(self.next_after.first()) {
            Some((line, name)) => wrong(*line, format!("no statement follows for '{name}'")),
            None => Ok(()),
        }
    }

    pub(super) fn graph(self) -> Result<(String, Graph), Wrong> {
        self.check_waiting()?;
        if self.vertices.is_empty() {
            return wrong(self.line, format!("'{}' has no statement", self.name));
        }
        let edges: Vec<(u16, u16)> = self.edges.into_iter().collect();
        let graph = Graph::new(self.vertices, &edges);
        graph.map(|graph| (self.name, graph)).map_err(|error| Wrong { line: self.line, why: error.to_string() })
    }
}
