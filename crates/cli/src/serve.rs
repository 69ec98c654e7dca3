//! `forebay serve`.

use clap::ArgMatches;

use crate::error::CommandError;
use crate::node::{self, Node, StopSignals};
use crate::settings::{Settings, Typed};

/// Serves until a signal stops it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    crate::log::start(&settings);
    node::threads(settings.threads.count())?.block_on(serve(&settings))
}

async fn serve(settings: &Settings) -> Result<(), CommandError> {
    let mut signals = StopSignals::new()?;
    let node = Node::start(settings).await?;
    node::print(&node.banner(settings, "SET user:1 hello"));
    let (address, shared) = (node.server.address(), node.shared.clone());
    tracing::info!(%address, store = shared.engine.store().name(), policy = %settings.policy, "serving");
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
