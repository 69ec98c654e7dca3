//! The figures of the papers that forebay reproduces: data as CSV, and a picture as SVG.
//!
//! `make figure NAME=clic-6`, or all of them with `make figures`. Traces are looked for under `FOREBAY_TRACES`. What
//! needs caches of others is measured by another program, and drawn here.

mod clic;
mod deferred;
mod picture;
mod speed;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use forebay_sim::draw::{self, Heatmap};

/// Why a figure can't be measured or drawn.
type Failed = Box<dyn Error>;

/// One figure, declared once.
struct Figure {
    /// Its name: the paper, and the figure's number there, or what it shows.
    name: &'static str,
    /// One line for the list.
    summary: &'static str,
    measure: Measure,
    picture: Picture,
}

/// Where the text of a figure's CSV comes from.
enum Measure {
    Here(fn(&Args) -> Result<String, Failed>),
    /// Another program writes it.
    Program(&'static str),
}

/// What is drawn of a CSV.
enum Picture {
    Table,
    Charts(fn(&str) -> picture::Charts),
    Heatmaps(fn(&str) -> Result<Vec<Heatmap>, Failed>),
}

impl Figure {
    /// The picture of its data.
    fn drawn(&self, csv: &str) -> Result<Option<String>, Failed> {
        Ok(match self.picture {
            Picture::Table => None,
            Picture::Charts(charts) => Some(draw::svg(self.summary, &charts(csv)?)),
            Picture::Heatmaps(maps) => Some(draw::svg_of_heatmaps(self.summary, &maps(csv)?)),
        })
    }

    /// Writes its data, unless they are only to be drawn again, and its picture.
    fn make(&self, args: &Args) -> Result<(), Failed> {
        let file = |end: &str| args.out.join(format!("{}.{end}", self.name));
        match self.measure {
            _ if args.redraw => {}
            Measure::Here(measure) => std::fs::write(file("csv"), measure(args)?)?,
            Measure::Program(program) => {
                let Figure { name, .. } = self;
                return Err(format!("{name}: {program} measures it; --redraw draws its data").into());
            }
        }
        match self.drawn(&std::fs::read_to_string(file("csv"))?)? {
            Some(picture) => Ok(std::fs::write(file("svg"), picture)?),
            None => Ok(()),
        }
    }
}

use Measure::{Here, Program};
use Picture::{Charts, Heatmaps, Table};

/// All figures.
const FIGURES: &[Figure] = &[
    Figure {
        name: "clic-2",
        summary: "Values of each hint type (a table)",
        measure: Here(clic::hint_types),
        picture: Table,
    },
    Figure {
        name: "clic-3",
        summary: "Priorities of hint sets",
        measure: Here(clic::priorities),
        picture: Charts(picture::priorities),
    },
    Figure { name: "clic-5", summary: "The traces (a table)", measure: Here(clic::sizes), picture: Table },
    Figure {
        name: "clic-6",
        summary: "Read hit ratio by cache size, TPC-C-like",
        measure: Here(clic::tpcc),
        picture: Charts(picture::by_size),
    },
    Figure {
        name: "clic-7",
        summary: "Read hit ratio by cache size, TPC-H-like",
        measure: Here(clic::tpch),
        picture: Charts(picture::by_size),
    },
    Figure {
        name: "clic-8",
        summary: "Read hit ratio by cache size, MariaDB",
        measure: Here(clic::mariadb),
        picture: Charts(picture::by_size),
    },
    Figure {
        name: "clic-9",
        summary: "Only the k most frequent hint sets",
        measure: Here(clic::top_k),
        picture: Charts(picture::top_k),
    },
    Figure {
        name: "clic-10",
        summary: "Useless hint types",
        measure: Here(clic::noise),
        picture: Charts(picture::noise),
    },
    Figure {
        name: "clic-11",
        summary: "Three clients, one cache",
        measure: Here(clic::clients),
        picture: Charts(picture::clients),
    },
    Figure {
        name: "clic-time",
        summary: "Time per request by the number of hint sets",
        measure: Here(speed::hint_sets),
        picture: Charts(picture::time),
    },
    Figure {
        name: "clic-time-traces",
        summary: "Time per request on the traces",
        measure: Here(speed::traces),
        picture: Charts(picture::time_of_traces),
    },
    Figure { name: "deferred-table-5.1", summary: "The traces (a table)", measure: THESIS, picture: Table },
    Figure {
        name: "deferred-5.1",
        summary: "DeferredLRU's throughput by pull and purge thresholds",
        measure: THESIS,
        picture: Heatmaps(deferred::throughput_by_thresholds),
    },
    Figure {
        name: "deferred-5.2",
        summary: "DeferredLRU's hit ratio by pull and purge thresholds",
        measure: THESIS,
        picture: Heatmaps(deferred::hits_by_thresholds),
    },
    Figure {
        name: "deferred-table-5.2",
        summary: "The best thresholds beside LRU and HHVM (a table)",
        measure: THESIS,
        picture: Table,
    },
    Figure {
        name: "deferred-5.3",
        summary: "Throughput by threads, requests of a social network",
        measure: THESIS,
        picture: Charts(deferred::by_threads),
    },
    Figure {
        name: "deferred-5.4",
        summary: "Throughput by threads, a workstation's disk",
        measure: THESIS,
        picture: Charts(deferred::by_threads),
    },
    Figure {
        name: "deferred-table-5.3",
        summary: "All caches on all traces (a table)",
        measure: THESIS,
        picture: Table,
    },
    Figure {
        name: "deferred-order",
        summary: "What thresholds of .99 owe to the order in time (a table)",
        measure: THESIS,
        picture: Table,
    },
    Figure {
        name: "deferred-6.1",
        summary: "Caches by one thread",
        measure: THESIS,
        picture: Charts(deferred::by_one_thread),
    },
];

/// It is built with all peers of the engine, apart from this workspace.
const THESIS: Measure = Program("target/dist/thesis");

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
        // All that are measured here; what another program measures is drawn by its name.
        let here = |figure: &&Figure| name != "all" || matches!(figure.measure, Here(_)) || args.redraw;
        for figure in chosen.into_iter().filter(here) {
            eprintln!("{}: {}", figure.name, figure.summary);
            figure.make(&args)?;
        }
    }
    Ok(())
}
