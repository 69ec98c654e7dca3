//! `forebay serve`.

use std::time::Duration;

use clap::ArgMatches;

use crate::error::CommandError;
use crate::node::{self, Node, StopSignals};
use crate::say;
use crate::settings::{self, Settings, Typed};

/// What still runs after an orderly end is waited for this long.
const LEFT_WAIT: Duration = Duration::from_secs(1);

/// Serves until a signal stops it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    crate::log::start(&settings);
    settings::misspelt().for_each(|said| tracing::warn!("{said}"));
    let threads = node::threads(settings.threads.count(), settings.memory)?;
    let ended = threads.block_on(serve(&settings));
    // All is in order by then. A script may be in a call that nothing stops (docs/scripts.md): it is left there.
    threads.shutdown_timeout(LEFT_WAIT);
    ended
}

async fn serve(settings: &Settings) -> Result<(), CommandError> {
    // Before anyone can know that it is there: a signal that nobody awaits ends the process.
    let (mut signals, mut hangups) = (StopSignals::new()?, node::reload_signal()?);
    let node = Node::start(settings).await?;
    say::at_work(&node.banner(settings, &first_command(settings)));
    let shared = node.shared.clone();
    for address in [node.server.address(), node.server.tls_address()].into_iter().flatten() {
        tracing::info!(%address, "listening");
    }
    warn_of_the_public(settings);
    warn_of_deletions(settings);
    warn_of_memory(settings);
    tracing::info!(store = shared.engine.store().name(), policy = %settings.policy, "serving");
    let reloading = shared.clone();
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            reloading.reload().await;
        }
    });
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping: requests that have arrived are answered, then the store is flushed");
        shared.stopping.set();
        // As a shell reports a process that the signal ended.
        std::process::exit(128 + signals.next().await.as_raw_value());
    });
    node.run().await?;
    tracing::info!("stopped");
    Ok(())
}

/// What to try first.
fn first_command(settings: &Settings) -> String {
    if let Some(mapping) = settings.maps.first() {
        return mapping.first_command();
    }
    let _ = settings;
    "SET user:1 hello".to_owned()
}

/// Who used an earlier version may count on it that DEL deletes a row.
fn warn_of_deletions(settings: &Settings) {
    {
        let refuses = settings.maps.iter().filter(|mapping| mapping.refuses_unsaid());
        let mappings: Vec<String> = refuses.map(ToString::to_string).collect();
        if !mappings.is_empty() {
            tracing::warn!(
                mappings = mappings.join("; "),
                "DEL, UNLINK and GETDEL of rows are refused; write delete=row behind a mapping to let them delete its \
                 rows as before, delete=invalidate to let them drop cached copies, delete=refuse to keep this quiet"
            );
        }
    }
    let _ = settings;
}

/// What the floors of limits, or limits that were set, do to the promise about memory.
fn warn_of_memory(settings: &Settings) {
    if let Some(more) = settings.beyond_memory() {
        let more_mib = more.div_ceil(1 << 20);
        tracing::warn!(
            more_mib,
            "what the limits allow, all at once, takes more than 1.1 times --memory and 64 MiB: give more memory, or \
             lower held-bytes-max, replies-bytes-max and placed-bytes-max"
        );
    }
}

/// What an operator should know who serves more than this machine.
fn warn_of_the_public(settings: &Settings) {
    for (setting, address) in settings.public() {
        if settings.allow_public_without_password {
            tracing::warn!(%address, "any client that reaches it may read and destroy all: it asks for no password");
        }
        match setting {
            "listen" => {
                tracing::warn!(%address, "passwords and data travel in the clear to --listen; see --tls-listen")
            }
            "http" => {
                tracing::warn!(%address, "any client that reaches --http sees figures: /metrics asks for no password")
            }
            _ => {}
        }
    }
}
