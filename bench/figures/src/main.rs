//! The figures of the papers that forebay reproduces: data as CSV, and a picture as SVG.
//!
//! `make figure NAME=clic-6`, or all of them with `make figures`. Traces are looked for under `FOREBAY_TRACES`.

mod clic;
mod plot;
mod speed;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

/// One figure, declared once.
struct Figure {
    /// Its name: the paper, and the figure's number there, or what it shows.
    name: &'static str,
    /// One line for the list.
    summary: &'static str,
    /// Computes and draws it.
    draw: fn(&Args) -> Result<(), Box<dyn Error>>,
}

/// All figures.
const FIGURES: &[Figure] = &[
    Figure { name: "clic-2", summary: "hint types and traces (figures 2 and 5: tables)", draw: clic::traces },
    Figure { name: "clic-3", summary: "priorities of hint sets", draw: clic::priorities },
    Figure { name: "clic-6", summary: "read hit ratio by cache size, TPC-C-like", draw: clic::tpcc },
    Figure { name: "clic-7", summary: "read hit ratio by cache size, TPC-H-like", draw: clic::tpch },
    Figure { name: "clic-8", summary: "read hit ratio by cache size, MariaDB", draw: clic::mariadb },
    Figure { name: "clic-9", summary: "only the k most frequent hint sets", draw: clic::top_k },
    Figure { name: "clic-10", summary: "useless hint types", draw: clic::noise },
    Figure { name: "clic-11", summary: "three clients, one cache", draw: clic::clients },
    Figure { name: "clic-time", summary: "time per request by the number of hint sets", draw: speed::hint_sets },
    Figure { name: "clic-time-traces", summary: "time per request on the traces", draw: speed::traces },
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
}

fn main() -> Result<(), Box<dyn Error>> {
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
            (figure.draw)(&args)?;
        }
    }
    Ok(())
}
