//! `forebay trace`: what a trace is like, and traces made of traces.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use forebay_trace::describe::Description;
use forebay_trace::dictionary::Dictionary;
use forebay_trace::tools::{self, NOISE_DOMAIN_MAX, NOISE_TYPES_MAX, Noise};
use forebay_trace::{ColumnNames, Record, Records, TraceError, TraceOptions, TraceReader, fbt};
use forebay_workload::replay::format_names;

use crate::error::CommandError;
use crate::output::Output;
use crate::{say, standard_input};

/// Largest exponent of values: beyond it all that counts is the first.
const ZIPF_MAX: f64 = 100.0;

const EXAMPLES: &str = "\
Examples:
  forebay trace describe requests.csv.gz
      requests, keys, popularity, reuse, sizes, hints
  forebay trace convert pgc_c10.htr.zst c10.fbt
      into forebay's own format; to .csv for other programs
  forebay trace mix c10.fbt c50.fbt c90.fbt --out three.fbt
      three clients of one cache
  forebay trace noise c10.fbt --types 2 --domain 10 --zipf 1 --out noisy.fbt
      two useless hint types among the useful ones

docs/trace-format.md has all formats.";

/// What can be typed after `forebay trace`.
#[derive(Subcommand, Clone, Debug)]
enum TraceCommand {
    /// Show requests, keys, popularity, reuse distances, sizes and hints
    Describe {
        /// The trace; - is standard input
        trace: PathBuf,
        #[command(flatten)]
        how: Reading,
    },
    /// Write a trace as .fbt, or as .csv
    Convert {
        /// The trace; - is standard input
        trace: PathBuf,
        /// The file to write, which must not exist
        out: PathBuf,
        #[command(flatten)]
        how: Reading,
    },
    /// Mix traces as clients of one cache: in turn, to the end of the shortest
    Mix {
        /// The traces
        #[arg(required = true, num_args = 2..)]
        traces: Vec<PathBuf>,
        /// The .fbt file to write, which must not exist
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        how: Reading,
    },
    /// Add useless hint types
    Noise {
        /// The trace
        trace: PathBuf,
        /// How many types
        #[arg(long, value_name = "T", value_parser = up_to::<NOISE_TYPES_MAX>)]
        types: usize,
        /// How many values each has
        #[arg(long, value_name = "D", default_value_t = 10, value_parser = up_to::<NOISE_DOMAIN_MAX>)]
        domain: usize,
        /// Exponent of the distribution of values
        #[arg(long, value_name = "Z", default_value_t = 1.0, value_parser = exponent, allow_negative_numbers = true)]
        zipf: f64,
        /// Draws other values
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// The .fbt file to write, which must not exist
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        how: Reading,
    },
}

/// A number from 1 to `MAX`.
pub fn up_to<const MAX: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("give a number from 1 to {MAX}"))
}

fn exponent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=ZIPF_MAX).contains(number));
    number.ok_or_else(|| format!("give a number from 0, by which all values are as frequent, to {ZIPF_MAX}"))
}

/// How traces are read.
#[derive(Args, Clone, Debug)]
struct Reading {
    /// The trace's format, where name and content do not tell it
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(format_names()))]
    trace_format: Option<String>,
    /// Pass over malformed records and count them
    #[arg(long)]
    lenient: bool,
    /// Read CSV or JSON lines whose columns or fields have other names than ours: key=cache_key,size=bytes
    #[arg(long, value_name = "OURS=YOURS,..", value_parser = forebay_trace::column_names)]
    #[arg(conflicts_with = "trace_format")]
    columns: Option<ColumnNames>,
}

impl Reading {
    fn open(&self, path: &Path) -> Result<Records, CommandError> {
        let options = TraceOptions {
            format: self.trace_format.clone(),
            lenient: self.lenient,
            columns: self.columns.clone().unwrap_or_default(),
            ..TraceOptions::default()
        };
        let opened = match standard_input::is(path) {
            true => standard_input::open(&options),
            false => forebay_trace::open_with(path, &options),
        };
        opened.map_err(|error| match error {
            // As for every other file that was named and is not there.
            TraceError::Open { .. } => CommandError::Usage(format!("{}: {error}", path.display())),
            error => failed(path, &error),
        })
    }

    /// So that it is known in which of them a record was malformed.
    fn open_all(&self, paths: &[PathBuf], watch: &Watch) -> Result<Vec<Records>, CommandError> {
        let watched = |(place, path): (usize, &PathBuf)| -> Result<Records, CommandError> {
            Ok(Box::new(Watched { records: self.open(path)?, place, asked: false, watch: watch.clone() }))
        };
        paths.iter().enumerate().map(watched).collect()
    }
}

/// What is known of several traces, by their places.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// The one that could not be read any further, if one could not.
    failed: Option<usize>,
    /// Those that have a request.
    asked: BTreeSet<usize>,
}

impl Watch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watched {
    records: Records,
    place: usize,
    asked: bool,
    watch: Watch,
}

impl Iterator for Watched {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.records.next();
        match &next {
            Some(Err(_)) => self.watch.seen().failed = Some(self.place),
            Some(Ok(record)) if !self.asked && record.kind.is_access() => {
                self.asked = true;
                self.watch.seen().asked.insert(self.place);
            }
            _ => {}
        }
        next
    }
}

impl TraceReader for Watched {
    fn dictionary(&self) -> Option<&Dictionary> {
        self.records.dictionary()
    }

    fn skipped(&self) -> u64 {
        self.records.skipped()
    }

    fn first_skipped(&self) -> Option<&str> {
        self.records.first_skipped()
    }

    fn warnings(&self) -> Vec<String> {
        self.records.warnings()
    }
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    TraceCommand::augment_subcommands(Command::new("trace"))
        .about("Describe, convert, mix traces, or put noise among their hints")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    match TraceCommand::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))? {
        TraceCommand::Describe { trace, how } => describe(&trace, &how),
        TraceCommand::Convert { trace, out, how } => convert(&trace, &out, &how),
        TraceCommand::Mix { traces, out, how } => made(&traces, &out, &how, tools::mix),
        TraceCommand::Noise { trace, types, domain, zipf, seed, out, how } => {
            let noise = Noise { types, domain, zipf, seed };
            made(&[trace], &out, &how, |records, writer| tools::add_noise(&mut records[0], noise, writer))
        }
    }
}

fn describe(trace: &Path, how: &Reading) -> Result<(), CommandError> {
    let mut records = how.open(trace)?;
    let mut description = Description::of(&mut *records).map_err(|error| failed(trace, &error))?;
    not_empty(description.requests, trace, &records)?;
    if let Some(dictionary) = records.dictionary() {
        description.name_hints(dictionary);
    }
    say::result(&description.to_table(records.dictionary()))?;
    say::skipped(records.skipped(), records.first_skipped());
    say::warnings(trace, &records.warnings());
    Ok(())
}

fn convert(trace: &Path, out: &Path, how: &Reading) -> Result<(), CommandError> {
    if !out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
        return made(&[trace.to_owned()], out, how, |records, writer| tools::convert(&mut records[0], writer, || ()));
    }
    let mut records = how.open(trace)?;
    let mut output = Output::create(out)?;
    let written = tools::to_csv(&mut records, &mut output).map_err(|error| match error {
        TraceError::Write { .. } => failed(out, &error),
        _ => failed(trace, &error),
    })?;
    not_empty(written.requests, trace, &records)?;
    output.finish()?;
    say::result(&format!("{} requests in {}\n", written.requests, out.display()))?;
    if let Some(what) = written.left_out() {
        let out = out.display();
        say::note(format_args!("forebay: {out} leaves out what CSV has no place for: {what}; .fbt has it all"));
    }
    say::skipped(records.skipped(), records.first_skipped());
    say::warnings(trace, &records.warnings());
    Ok(())
}

/// Refuses a name that says something else than what will be in the file: its readers would take its word.
pub fn holds_fbt(out: &Path) -> Result<(), CommandError> {
    let Some(ending) = forebay_trace::ending_of_another(out) else { return Ok(()) };
    let why = format!(
        "{} ends in {ending}, and forebay's own format is what it would hold: name it .fbt (`forebay trace convert` \
         makes .csv of that)",
        out.display()
    );
    Err(CommandError::Usage(why))
}

/// Makes a trace of forebay's own format of others.
fn made(
    traces: &[PathBuf],
    out: &Path,
    how: &Reading,
    fill: impl FnOnce(&mut [Records], &mut fbt::Writer<Output>) -> Result<u64, TraceError>,
) -> Result<(), CommandError> {
    holds_fbt(out)?;
    let watch = Watch::default();
    let mut records = how.open_all(traces, &watch)?;
    let mut writer = fbt::Writer::create(Output::create(out)?, 0).map_err(|error| failed(out, &error))?;
    let count = fill(&mut records, &mut writer)
        .map_err(|error| failed(watch.seen().failed.map_or(out, |place| &*traces[place]), &error))?;
    let asked = &watch.seen().asked;
    if let Some(empty) = (0..traces.len()).find(|place| !asked.contains(place)) {
        not_empty(0, &traces[empty], &records[empty])?;
    }
    writer.finish().map_err(|error| failed(out, &error))?.finish()?;
    say::result(&format!("{count} records in {}\n", out.display()))?;
    let first = records.iter().find_map(|records| records.first_skipped());
    say::skipped(records.iter().map(|records| records.skipped()).sum(), first);
    traces.iter().zip(&records).for_each(|(trace, records)| say::warnings(trace, &records.warnings()));
    Ok(())
}

/// A trace of nothing is none: the file is empty, or of another format.
fn not_empty(requests: u64, trace: &Path, records: &Records) -> Result<(), CommandError> {
    let why = match (requests, records.skipped()) {
        (0, 0) if !records.warnings().is_empty() => {
            let why = records.warnings().join("; ");
            format!("no requests in it: {why}; get the whole file, or name its format with --trace-format")
        }
        (0, 0) => "no requests in it; is it empty, or of another format?".to_owned(),
        (0, skipped) => {
            let first = records.first_skipped().unwrap_or_default();
            format!(
                "no requests in it, {skipped} malformed records were passed over, the first: {first}; is it of another \
                 format?"
            )
        }
        _ => return Ok(()),
    };
    Err(CommandError::Failed(format!("{}: {why}", trace.display())))
}

fn failed(path: &Path, error: &TraceError) -> CommandError {
    CommandError::Failed(format!("{}: {error}", path.display()))
}
