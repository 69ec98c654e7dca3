//! `--like-server`: the server's own cache instead of bare policies.

use std::io::IsTerminal;

use forebay_sim::contender::Contender;
use forebay_sim::figures;
use forebay_sim::lab::{Progress, Silent};
use forebay_sim::like_server::{self, LikeServerOptions};
use forebay_sim::row::Row;

use super::arguments::{OutputForm, SimArgs, can_be_read, model, policies, threads, trace_options};
use super::checks;
use crate::error::CommandError;
use crate::progress::Bar;
use crate::standard_input::{self, Kept};
use crate::{graph, say};

/// Runs it.
pub fn run(args: &SimArgs) -> Result<(), CommandError> {
    let refused = |error: String| CommandError::Usage(error);
    let choice = |text: &String| match Contender::parse(text).map_err(|error| refused(checks::policy(text, &error)))? {
        Contender::Online(choice) => Ok(choice),
        Contender::Offline(name, _) => Err(refused(format!(
            "no server has policy {name}, which knows the future; give --policy without it: --policy lru,s3-fifo"
        ))),
    };
    args.traces.iter().try_for_each(|trace| can_be_read(trace))?;
    let policies = policies(&args.policy).iter().map(choice).collect::<Result<Vec<_>, _>>()?;
    let options = LikeServerOptions {
        policies,
        sizes: like_server::sizes(&args.size).map_err(|error| refused(error.to_string()))?,
        partitions: args.partitions.get(),
        graphs: args.graphs.as_deref().map_or(Ok(Vec::new()), graph::read)?,
        trace: trace_options(args),
        threads: threads(args),
    };
    let progress: &dyn Progress =
        if args.quiet || !std::io::stderr().is_terminal() { &Silent } else { &Bar::default() };
    let mut rows: Vec<Row> = Vec::new();
    for (trace, name) in checks::named(&args.traces) {
        let warn = |warning: &str| say::warnings(trace, &[warning.to_owned()]);
        let _waits = if args.quiet { None } else { super::waiting::tell(trace) };
        let kept = standard_input::is(trace).then(|| Kept::read(&options.trace, progress)).transpose()?;
        let mut options = options.clone();
        options.trace.kept = kept.as_ref().map(Kept::path);
        let of_trace = like_server::run(trace, &options, progress, warn);
        let of_trace = of_trace.map_err(|error| CommandError::Failed(error.to_string()))?;
        rows.extend(of_trace.into_iter().map(|row| Row { trace: name.clone(), ..row }));
    }
    model(args, &mut rows);
    say::result(&match args.format {
        OutputForm::Csv => figures::csv(&rows),
        OutputForm::Json => figures::json(&rows),
        OutputForm::Table => figures::table(&rows),
    })?;
    Ok(())
}
