//! `forebay demo`: a server on a temporary store, a small shop at work on it, and a live line of figures.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ArgMatches;
use forebay_server::{ServeError, Shared};
use forebay_workload::shop::{self, Books, Shop, ShopOptions, ShopStats};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep_until};

use crate::error::CommandError;
use crate::node::{self, Node, StopSignals};
use crate::say;
use crate::settings::{self, LogLevel, Origin, Settings, StoreChoice, Typed};

/// The flag for how long.
pub const SECONDS: &str = "seconds";

/// Settings that it chooses itself.
pub const CHOOSES: &[&str] = &[
    "store",
    "store-timeout-ms",
    "store-writers",
    "store-password-file",
    "map",
    "outside",
    "outside-ms",
    "password-file",
    "users-file",
    "tls-listen",
    "tls-cert",
    "tls-key",
    "tls-client-ca",
];

/// Time between two figures on a terminal.
const TICK: Duration = Duration::from_secs(1);

/// Ticks between two lines where nobody watches.
const TICKS_PER_LINE: u64 = 5;

/// Far enough away to mean "until it is stopped": a year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Serves, and lets customers in, until a signal or the end of its time.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let mut typed = Typed::gather(matches, &|name| std::env::var(name))?;
    // A store that the environment names is not one to try things out on.
    CHOOSES.iter().for_each(|name| typed.forget(name));
    let mut settings = Settings::validate(&typed)?;
    let chosen = |name: &str| typed.of(name).2 != Origin::Default;
    if !chosen("log-level") {
        // What goes well is in the live line.
        settings.log_level = LogLevel::Warn;
    }
    if !chosen("listen") {
        settings.listen = settings.listen.map(free);
    }
    if !chosen("http") {
        settings.http = settings.http.map(free);
    }
    if !chosen("measure-thr") {
        // So that the dashboard shows what transactions gain.
        settings.measure_thr = true;
    }
    let folder = tempfile::Builder::new().prefix("forebay-demo-").tempdir().map_err(CommandError::TemporaryFolder)?;
    settings.store = StoreChoice::Embedded(folder.path().join("shop.redb"));
    crate::log::start(&settings);
    settings::misspelt().for_each(|said| tracing::warn!("{said}"));
    let seconds = matches.get_one::<u64>(SECONDS).map_or(FOREVER, |seconds| Duration::from_secs(*seconds).min(FOREVER));
    // Declared after the folder, so that all threads have ended when the folder goes.
    let threads = node::threads(settings.threads.count(), settings.memory)?;
    threads.block_on(demo(&settings, seconds))
}

/// `address`, or the same with any free port if that one is taken.
fn free(address: SocketAddr) -> SocketAddr {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => SocketAddr::new(address.ip(), 0),
        // Any other reason is said when the server listens.
        _ => address,
    }
}

async fn demo(settings: &Settings, seconds: Duration) -> Result<(), CommandError> {
    let mut signals = StopSignals::new()?;
    let node = Node::start(settings).await?;
    say::at_work(&node.banner(settings, "HGETALL product:1"));
    let Some(address) = node.server.address() else { return Err(ServeError::Nowhere.into()) };
    let shared = node.shared.clone();
    let options = ShopOptions::new(&address.to_string());
    let mut server = tokio::spawn(node.run());
    say::at_work(&format!(
        "shop     {} products, {} customers, {} visits a second; the data is removed at the end: Ctrl-C\n",
        options.products, options.users, options.visits_per_second
    ));
    let shop = tokio::select! {
        shop = shop::run(&options) => shop.map_err(failed)?,
        _ = signals.next() => return stop(&shared, server).await,
    };
    let mut live = Live::new(shared.clone(), shop.stats.clone());
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    let end = sleep_until(Instant::now() + seconds);
    tokio::pin!(end);
    loop {
        tokio::select! {
            _ = ticks.tick() => live.show(),
            () = &mut end => break,
            _ = signals.next() => break,
            // SHUTDOWN, sent by a client.
            ended = &mut server => return joined(ended),
        }
    }
    live.end();
    tokio::select! {
        ended = close(shop, &shared, server) => ended,
        _ = signals.next() => Err(CommandError::Failed("stopped at the second signal, books not checked".into())),
    }
}

/// Closes the shop, checks its books, then stops the server.
async fn close(shop: Shop, shared: &Shared, server: JoinHandle<Result<(), CommandError>>) -> Result<(), CommandError> {
    let stats = shop.stats.clone();
    let books = shop.close().await.map_err(failed);
    stop(shared, server).await?;
    let Books { stock, sold, supplied } = books?;
    let bought = stats.bought.load(Ordering::Relaxed);
    say::at_work(&format!(
        "closed   {bought} purchases; the books balance: {stock} in stock + {sold} sold = {supplied} supplied\n"
    ));
    Ok(())
}

async fn stop(shared: &Shared, server: JoinHandle<Result<(), CommandError>>) -> Result<(), CommandError> {
    shared.stopping.set();
    joined(server.await)
}

fn joined(ended: Result<Result<(), CommandError>, tokio::task::JoinError>) -> Result<(), CommandError> {
    ended.unwrap_or_else(|error| Err(CommandError::Failed(format!("the server ended by a bug: {error}"))))
}

fn failed(error: shop::ShopError) -> CommandError {
    CommandError::Failed(error.to_string())
}

/// Counts from which figures are made.
#[derive(Clone, Copy, Default)]
struct Counts {
    commands: u64,
    hits: u64,
    misses: u64,
    visits: u64,
}

/// The live line: redrawn each second on a terminal, else a line of its own now and then.
struct Live {
    shared: Arc<Shared>,
    shop: Arc<ShopStats>,
    bar: Option<ProgressBar>,
    ticks: u64,
    before: (Instant, Counts),
}

impl Live {
    fn new(shared: Arc<Shared>, shop: Arc<ShopStats>) -> Live {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            // A template that does not parse would only cost its looks.
            bar.set_style(
                ProgressStyle::with_template("live     {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        let before = (Instant::now(), Counts::default());
        let mut live = Live { shared, shop, bar, ticks: 0, before };
        live.before.1 = live.counts();
        live
    }

    /// One tick is over.
    fn show(&mut self) {
        if let Some(bar) = self.bar.clone() {
            bar.set_message(self.figures());
            return;
        }
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS_PER_LINE) {
            self.line();
        }
    }

    /// The last figures stay on the screen.
    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.line();
    }

    fn line(&mut self) {
        let line = format!("live     {}\n", self.figures());
        say::at_work(&line);
    }

    fn counts(&self) -> Counts {
        let cache = self.shared.engine.cache().stats();
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let visits = read(&self.shop.browsed) + read(&self.shop.added) + read(&self.shop.bought);
        Counts { commands: self.shared.tally.totals().0, hits: cache.hits, misses: cache.misses, visits }
    }

    /// Rates since the last time, counts since the start.
    fn figures(&mut self) -> String {
        let (now, counts) = (Instant::now(), self.counts());
        let (then, before) = std::mem::replace(&mut self.before, (now, counts));
        let seconds = now.duration_since(then).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let hits = counts.hits.saturating_sub(before.hits);
        let reads = hits + counts.misses.saturating_sub(before.misses);
        let ratio = if reads == 0 { "-".into() } else { format!("{:.1} %", 100.0 * hits as f64 / reads as f64) };
        let cache = self.shared.engine.cache().stats();
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let [visits, commands] =
            [(counts.visits, before.visits), (counts.commands, before.commands)].map(|(now, before)| rate(now, before));
        let shop = &self.shop;
        let [bought, retries, sold_out] = [&shop.bought, &shop.retries, &shop.sold_out].map(read);
        let mut text = format!(
            "{visits:.0} visits/s  {commands:.0} commands/s  hits {ratio}  {bought} purchases ({retries} tried again, \
             {sold_out} sold out)  cached {} keys, {:.1} MiB",
            cache.entries,
            cache.used_bytes as f64 / f64::from(1 << 20),
        );
        // There should be none, so they are shown only if there are.
        for (figure, name) in [(&shop.errors, "errors"), (&shop.unknown, "unknown"), (&shop.lost, "connections lost")] {
            if read(figure) > 0 {
                text.push_str(&format!("  {} {name}", read(figure)));
            }
        }
        text
    }
}
