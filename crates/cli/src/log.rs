//! Log lines on stderr: stdout is for what was asked for.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::settings::{LogFormat, LogLevel, Settings};

/// Begins to log, panics included: a panic that is caught is a line of the log like any other.
pub fn start(settings: &Settings) {
    let level = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    // A line that stderr does not take is lost; saying so there would be a panic.
    let lines = lines.log_internal_errors(false);
    match settings.log {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, why, "a bug: panicked");
    }));
}
