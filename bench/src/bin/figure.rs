//! Figures of the papers, measured: `figure --name detox-8` writes `detox-8.csv`, `.md` and `.svg`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use forebay_bench::figure::{self, FIGURES, Scale};

/// Measures figures of the papers and draws them.
#[derive(Parser)]
struct Arguments {
    /// Which figure; all if not given
    #[arg(long)]
    name: Option<String>,
    /// Where data and pictures go
    #[arg(long, default_value = "target/figures")]
    out: PathBuf,
    /// At the scale of the documents' tables: up to an hour, instead of minutes
    #[arg(long)]
    full: bool,
    /// Measures nothing: draws the pictures again from the data in `--out`
    #[arg(long)]
    redraw: bool,
    /// Names of all figures
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        FIGURES.iter().for_each(|figure| println!("{:16} {}", figure.name, figure.summary));
        return ExitCode::SUCCESS;
    }
    let scale = if arguments.full { Scale::Full } else { Scale::Reduced };
    let wanted = |name: &str| arguments.name.as_deref().is_none_or(|wanted| wanted == name);
    let mut made = 0;
    for figure in FIGURES.iter().filter(|figure| wanted(figure.name)) {
        let done = match arguments.redraw {
            true => figure::redraw(&arguments.out, figure),
            false => (figure.make)(scale).and_then(|charts| figure::write(&arguments.out, figure, &charts)),
        };
        if let Err(error) = done {
            eprintln!("{}: {error}", figure.name);
            return ExitCode::FAILURE;
        }
        let (out, name) = (arguments.out.display(), figure.name);
        match arguments.redraw {
            true => println!("{out}/{name}.svg"),
            false => println!("{out}/{name}.csv, {out}/{name}.md and {out}/{name}.svg"),
        }
        made += 1;
    }
    if made == 0 {
        eprintln!("no such figure; see --list");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
