//! `forebay sim`: a trace over many policies at many sizes.

mod arguments;
mod checks;
mod help;
mod like_server;
mod report;
mod waiting;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use forebay::policy::Unit;
use forebay_sim::ahead::Prefetch;
use forebay_sim::catalog::Sample;
use forebay_sim::contender::Contender;
use forebay_sim::figures;
use forebay_sim::hints::HintTypes;
use forebay_sim::lab::{Lab, LabError, LabOptions, Progress, Silent, Size};
use forebay_sim::machine::Division;
use forebay_sim::results::{Goal, OfTrace};
use forebay_sim::verdict::verdict;
use forebay_trace::TraceOptions;

use arguments::{
    Count, Estimate, OutputForm, PrefetchChoice, SimArgs, UnitChoice, Writes, can_be_read, model, once, policies,
    threads, trace_options,
};

use crate::error::CommandError;
use crate::output::Output;
use crate::progress::Bar;
use crate::standard_input::{self, Kept};
use crate::{graph, say};

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    SimArgs::augment_args(Command::new("sim"))
        .about("Simulate a trace over many policies and cache sizes; report what each gains")
        .long_about(None)
        .after_help(help::EXAMPLES)
        .after_long_help(format!("{}\n\n{}", help::EXAMPLES, help::listed()))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = SimArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    if args.like_server {
        return like_server::run(&args);
    }
    checks::of_options(&args, matches)?;
    let options = options(&args)?;
    let progress: &dyn Progress =
        if args.quiet || !std::io::stderr().is_terminal() { &Silent } else { &Bar::default() };
    args.traces.iter().try_for_each(|trace| can_be_read(trace))?;
    let sources: Vec<&Path> = args.traces.iter().chain(&args.graphs).map(PathBuf::as_path).collect();
    let page = args.report.as_deref().map(|page| Output::replace(page, &sources)).transpose()?;
    let goal = args.at_hit_ratio.map(Goal::HitRatio).or(args.at_thr.map(Goal::TransactionalHitRate));
    let (mut rows, mut pages) = (Vec::new(), Vec::new());
    for (trace, name) in checks::named(&args.traces) {
        let mut of = simulate(trace, &options, goal, (&args, page.is_some()), progress)?;
        of.rename(&name);
        model(&args, of.rows.iter_mut().chain(of.least.iter_mut().flat_map(|least| &mut least.rows)));
        rows.extend(of.least.as_ref().map_or(&of.rows, |least| &least.rows).iter().cloned());
        pages.push(of);
    }
    let told = say::result(&match (args.format, goal) {
        (OutputForm::Csv, _) => figures::csv(&rows),
        (OutputForm::Json, _) => figures::json(&rows),
        (OutputForm::Table, Some(_)) => pages.iter().map(figures::least_memory_table).collect(),
        (OutputForm::Table, None) => figures::table(&rows) + &verdicts(&pages, args.price_per_gib_month),
    });
    checks::note_without_error(&pages);
    if let (Some(goal), true) = (goal, args.format != OutputForm::Table) {
        checks::note_never(goal, &pages);
    }
    page.map_or(Ok(()), |page| report::write(page, &args, &options, &pages))?;
    told
}

/// What to buy, of each trace.
fn verdicts(traces: &[OfTrace], price: Option<f64>) -> String {
    let lines = |of: &OfTrace| {
        let said = verdict(of, price);
        let begin = if said.is_empty() { String::new() } else { format!("{}: the verdict\n", of.name) };
        begin + &said.into_iter().map(|sentence| sentence + "\n").collect::<String>()
    };
    traces.iter().map(lines).filter(|lines| !lines.is_empty()).collect::<Vec<_>>().join("\n")
}

/// One trace: for a goal the least memory, else all sizes; for a page all sizes in either case; the optimum if wanted.
fn simulate(
    trace: &Path,
    options: &LabOptions,
    goal: Option<Goal>,
    (args, for_page): (&SimArgs, bool),
    progress: &dyn Progress,
) -> Result<OfTrace, CommandError> {
    let failed = |error: LabError| CommandError::Failed(error.to_string());
    let waits = if args.quiet { None } else { waiting::tell(trace) };
    let kept = standard_input::is(trace).then(|| Kept::read(&options.trace, progress)).transpose()?;
    let of_kept = kept.as_ref().map(|kept| {
        let trace = TraceOptions { kept: Some(kept.path()), ..options.trace.clone() };
        LabOptions { trace, ..options.clone() }
    });
    let lab = Lab::open(trace, of_kept.as_ref().unwrap_or(options), progress).map_err(failed)?;
    drop(waits);
    say::warnings(trace, lab.warnings());
    say::skipped(lab.skipped(), lab.first_skipped());
    checks::of_trace(args, trace, &lab)?;
    checks::note_left_out(args, trace, &lab);
    let least = goal.map(|goal| lab.least_memory(goal)).transpose().map_err(failed)?;
    let mut rows = if least.is_none() || for_page { lab.curves().map_err(failed)? } else { Vec::new() };
    if args.optimum {
        rows.extend(lab.optimum().map_err(failed)?);
    }
    let skipped = kept.as_ref().map_or(lab.skipped(), |kept| kept.skipped);
    Ok(OfTrace::new(lab.name(), lab.catalog(), skipped, rows, least))
}

fn options(args: &SimArgs) -> Result<LabOptions, CommandError> {
    let refused = |error: String| CommandError::Usage(error);
    let unit = if args.unit == UnitChoice::Objects { Unit::Entries } else { Unit::Bytes };
    if args.optimum && (unit == Unit::Bytes || args.sample < 1.0) {
        return Err(refused("--optimum counts objects, all of them: leave out --unit bytes and --sample".into()));
    }
    let contenders: Result<Vec<Contender>, _> = policies(&args.policy)
        .iter()
        .map(|text| Contender::parse(text).map_err(|error| checks::policy(text, &error)))
        .map(|contender| contender.map(|contender| contender.seeded(args.seed)))
        .collect();
    let sizes: Result<Vec<Size>, _> = once(args.size.split(',').map(|text| text.trim().to_owned()))
        .iter()
        .map(|text| Size::parse(text, unit))
        .collect();
    Ok(LabOptions {
        contenders: contenders.map_err(refused)?,
        sizes: sizes.map_err(|error| refused(error.to_string()))?,
        unit,
        reads_only: args.count == Count::Reads,
        warmup: args.warmup,
        sample: Sample { rate: args.sample, seed: args.seed },
        adjust: args.estimate == Estimate::Adjusted,
        per_client: args.per_client,
        writes_allocate: args.writes == Writes::Allocate,
        prefetch: match args.prefetch {
            PrefetchChoice::None => Prefetch::None,
            PrefetchChoice::Detox => Prefetch::Detox,
            PrefetchChoice::Chrono => Prefetch::Chrono,
        },
        graphs: args.graphs.as_deref().map_or(Ok(Vec::new()), graph::read)?,
        division: args.partition.clone().unwrap_or(Division::Shared),
        hint_types: match &args.hint_types {
            Some(names) => HintTypes::only(names.split(',').map(str::trim)),
            None => HintTypes::ALL,
        },
        trace: trace_options(args),
        threads: threads(args),
    })
}
