//! `forebay serve`.

use clap::ArgMatches;

use crate::error::CommandError;
use crate::node::{self, Node};
use crate::settings::{Settings, Typed};

/// Serves until a signal stops it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    crate::log::start(&settings);
    node::threads(settings.threads.count())?.block_on(serve(&settings))
}

async fn serve(settings: &Settings) -> Result<(), CommandError> {
    let node = Node::start(settings).await?;
    node::stop_on_signals(node.shared.clone())?;
    node::print(&node.banner(settings));
    let address = node.server.address();
    tracing::info!(%address, store = node.shared.engine.store().name(), policy = %settings.policy, "serving");
    node.run().await?;
    tracing::info!("stopped");
    Ok(())
}
