//! The page around charts and tables.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::charts::{by_bytes, pictures};
use super::tables;
use crate::cell::SAMPLE_CACHE_KEYS_MIN;
use crate::draw;
use crate::results::OfTrace;
use crate::shown::{bytes, grouped};
use crate::verdict::verdict;

/// Nothing is loaded and nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("page.css");

/// How the figures came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The command that repeats it.
    pub command: String,
    /// The program's name and version.
    pub program: String,
    /// What a GiB of memory costs for a month, if that was said.
    pub price: Option<f64>,
    /// What was chosen, or is so by default: name and value.
    pub settings: Vec<(&'static str, String)>,
}

/// The page of all traces.
pub(super) fn page(run: &Run, traces: &[OfTrace]) -> Markup {
    let names: Vec<&str> = traces.iter().map(|of| of.name.as_str()).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Which policy, how much memory: " (names.join(", ")) }
                style { (PreEscaped(STYLE)) (PreEscaped(draw::STYLE)) }
            }
            body {
                header { h1 { "Which policy, how much memory" } }
                @if traces.len() > 1 {
                    nav { ul { @for (at, name) in names.iter().enumerate() {
                        li { a href=(format!("#trace-{at}")) { (name) } }
                    } } }
                }
                main {
                    @for (at, of) in traces.iter().enumerate() { (section(at, of, run)) }
                    (how(run))
                }
            }
        }
    }
}

fn section(at: usize, of: &OfTrace, run: &Run) -> Markup {
    let whole = of.whole();
    let said = verdict(of, run.price);
    html! {
        section id=(format!("trace-{at}")) {
            h2 { (of.name) }
            p.facts { (facts(of)) }
            @if let Some((first, rest)) = said.split_first() {
                p.verdict { strong { (first) } @for sentence in rest { " " (sentence) } }
            }
            @if let Some(least) = &of.least { (tables::least(least, of)) }
            (tables::in_short(of))
            @if !of.without_error().is_empty() { p.note {
                "At " (of.without_error().join(", ")) " the sample's cache holds fewer than " (SAMPLE_CACHE_KEYS_MIN)
                " keys: its hit ratios may be far off, and by how much is not known."
            } }
            div.charts { @for picture in pictures(of) {
                figure { div.scroll { (PreEscaped(picture.svg)) } figcaption { (picture.how) } }
            } }
            @if !by_bytes(&whole) {
                p.note { "Byte hit ratios are as hit ratios: all objects have one size, as far as the trace tells." }
            }
            (tables::hints(of))
            (tables::numbers(of))
        }
    }
}

fn facts(of: &OfTrace) -> String {
    let sampled = of.requests_simulated < of.requests;
    let of_sample = if sampled { " in the sample" } else { "" };
    let mut facts = vec![format!("{} requests", grouped(of.requests))];
    if sampled {
        facts.push(format!("{} of them in the sample", grouped(of.requests_simulated)));
    }
    facts.push(format!("{} different keys{of_sample}", grouped(of.keys)));
    facts.push(match of.keys_without_size {
        0 => format!("footprint{of_sample} {}", bytes(of.footprint_bytes)),
        without if without == of.keys => "footprint not known: no key has a size, each counts as 1 byte".into(),
        without => format!(
            "footprint{of_sample} {}, where {} keys without a size count as 1 byte each",
            bytes(of.footprint_bytes),
            grouped(without)
        ),
    });
    if of.clients > 1 {
        facts.push(format!("{} clients", grouped(of.clients)));
    }
    if of.skipped > 0 {
        facts.push(format!("malformed records passed over: {}", grouped(of.skipped)));
    }
    facts.join(", ") + "."
}

fn how(run: &Run) -> Markup {
    html! {
        section {
            h2 { "How it was run" }
            pre { code { (run.command) } }
            dl {
                dt { "program" } dd { (run.program) }
                @for (name, value) in &run.settings { dt { (name) } dd { (value) } }
            }
            p.note { "This command gives these figures again, CPU times aside." }
        }
    }
}
