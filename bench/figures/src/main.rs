//! The figures of the papers that forebay reproduces: data as CSV, and a picture as SVG.
//!
//! `make figure NAME=clic-6`, or all of them with `make figures`. Traces are looked for under `FOREBAY_TRACES`.

mod clic;
mod picture;
mod speed;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use picture::Charts;

/// Why a figure can't be measured or drawn.
type Failed = Box<dyn Error>;

/// One figure, declared once.
struct Figure {
    /// Its name: the paper, and the figure's number there, or what it shows.
    name: &'static str,
    /// One line for the list.
    summary: &'static str,
    /// Measures it: the text of its CSV.
    measure: fn(&Args) -> Result<String, Failed>,
    /// The charts of that text; none of what is a table.
    charts: Option<fn(&str) -> Charts>,
}

impl Figure {
    /// The picture of its data.
    fn drawn(&self, csv: &str) -> Result<Option<String>, Failed> {
        let charts = self.charts.map(|charts| charts(csv)).transpose()?;
        Ok(charts.map(|charts| forebay_sim::draw::svg(self.summary, &charts)))
    }

    /// Writes its data, unless they are only to be drawn again, and its picture.
    fn make(&self, args: &Args) -> Result<(), Failed> {
        let file = |end: &str| args.out.join(format!("{}.{end}", self.name));
        if !args.redraw {
            std::fs::write(file("csv"), (self.measure)(args)?)?;
        }
        match self.drawn(&std::fs::read_to_string(file("csv"))?)? {
            Some(picture) => Ok(std::fs::write(file("svg"), picture)?),
            None => Ok(()),
        }
    }
}

/// All figures.
const FIGURES: &[Figure] = &[
    Figure { name: "clic-2", summary: "Values of each hint type (a table)", measure: clic::hint_types, charts: None },
    Figure {
        name: "clic-3",
        summary: "Priorities of hint sets",
        measure: clic::priorities,
        charts: Some(picture::priorities),
    },
    Figure { name: "clic-5", summary: "The traces (a table)", measure: clic::sizes, charts: None },
    Figure {
        name: "clic-6",
        summary: "Read hit ratio by cache size, TPC-C-like",
        measure: clic::tpcc,
        charts: Some(picture::by_size),
    },
    Figure {
        name: "clic-7",
        summary: "Read hit ratio by cache size, TPC-H-like",
        measure: clic::tpch,
        charts: Some(picture::by_size),
    },
    Figure {
        name: "clic-8",
        summary: "Read hit ratio by cache size, MariaDB",
        measure: clic::mariadb,
        charts: Some(picture::by_size),
    },
    Figure {
        name: "clic-9",
        summary: "Only the k most frequent hint sets",
        measure: clic::top_k,
        charts: Some(picture::top_k),
    },
    Figure { name: "clic-10", summary: "Useless hint types", measure: clic::noise, charts: Some(picture::noise) },
    Figure {
        name: "clic-11",
        summary: "Three clients, one cache",
        measure: clic::clients,
        charts: Some(picture::clients),
    },
    Figure {
        name: "clic-time",
        summary: "Time per request by the number of hint sets",
        measure: speed::hint_sets,
        charts: Some(picture::time),
    },
    Figure {
        name: "clic-time-traces",
        summary: "Time per request on the traces",
        measure: speed::traces,
        charts: Some(picture::time_of_traces),
    },
];

/// What can be typed.
#[derive(Parser)]
struct Args {
    /// Names of figures, or `all`, or `list`
    #[arg(required = true)]
    names: Vec<String>,
    /// Folder of traces, with `hinted/` in it
    #[arg(long, env = "FOREBAY_TRACES")]
    traces: Option<PathBuf>,
    /// Where data and pictures go
    #[arg(long, default_value = "docs/papers/figures")]
    out: PathBuf,
    /// Measures nothing: draws the pictures again from the data in `--out`
    #[arg(long)]
    redraw: bool,
}

fn main() -> Result<(), Failed> {
    let args = Args::parse();
    if args.names.iter().any(|name| name == "list") {
        FIGURES.iter().for_each(|figure| println!("{:16} {}", figure.name, figure.summary));
        return Ok(());
    }
    std::fs::create_dir_all(&args.out)?;
    for name in &args.names {
        let chosen: Vec<&Figure> = FIGURES.iter().filter(|figure| name == "all" || figure.name == name).collect();
        if chosen.is_empty() {
            return Err(format!("no figure '{name}'; `list` shows all").into());
        }
        for figure in chosen {
            eprintln!("{}: {}", figure.name, figure.summary);
            figure.make(&args)?;
        }
    }
    Ok(())
}
