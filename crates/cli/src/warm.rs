//! `--warm-file`: what is cached when a server ends is cached again soon after the next start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay::txn::{Engine, WarmFile, Warmed};

use crate::error::CommandError;
use crate::settings::Settings;

/// What reads the file of an engine, and then writes it now and then.
///
/// **Invariant.** The file is not replaced before all that it names was read again: a server that ends early leaves it
/// as it was.
pub struct Warm {
    file: Arc<WarmFile>,
    every: Duration,
    engine: Engine,
    has_read: AtomicBool,
}

/// The file that `settings` name; refused if it can't be read, or none can be written in its place.
pub fn open(settings: &Settings) -> Result<Option<Arc<WarmFile>>, CommandError> {
    let Some(path) = &settings.warm_file else { return Ok(None) };
    let unusable = |error| CommandError::WarmFile { file: path.clone(), error };
    WarmFile::new(path, settings.policy.to_string()).map(|file| Some(Arc::new(file))).map_err(unusable)
}

impl Warm {
    /// Of this engine, written after each pause of so many ms.
    pub fn new(file: Arc<WarmFile>, every_ms: u64, engine: Engine) -> Arc<Warm> {
        Arc::new(Warm { file, every: Duration::from_millis(every_ms), engine, has_read: AtomicBool::new(false) })
    }

    fn path(&self) -> impl std::fmt::Display + '_ {
        Path::display(self.file.path())
    }

    /// Reads what the file names, beside clients, and then writes it now and then.
    pub fn start(self: &Arc<Warm>) {
        let warm = self.clone();
        self.engine.runtime().spawn(async move {
            warm.read().await;
            if warm.engine.store().fenced().is_some() {
                return;
            }
            warm.has_read.store(true, Ordering::Relaxed);
            let (mut last, mut said) = (None, String::new());
            loop {
                warm.engine.runtime().sleep(warm.every).await;
                let stats = warm.engine.cache().stats();
                let now = Some((stats.hits, stats.insertions, stats.evictions, stats.entries));
                if std::mem::replace(&mut last, now) == now {
                    continue;
                }
                let failed = warm.write().await.err().map_or_else(String::new, |error| error.to_string());
                if failed != said && !failed.is_empty() {
                    tracing::warn!(file = %warm.path(), error = failed, "the cached keys can't be written");
                }
                said = failed;
            }
        });
    }

    async fn read(&self) {
        match self.engine.warm(&self.file).await {
            Ok(Some(warmed)) => self.tell(&warmed),
            Ok(None) => tracing::info!(file = %self.path(), "no cached keys are known from before: the cache is cold"),
            Err(error) => {
                tracing::warn!(file = %self.path(), %error, "what was cached before is not known: the cache is cold");
            }
        }
    }

    fn tell(&self, warmed: &Warmed) {
        let Warmed { keys, documents, known, gone, unnamed, passed, full, in_order, took, .. } = *warmed;
        if let Some(damage) = &warmed.damage {
            tracing::warn!(file = %self.path(), damage, "not all of what was cached before is known");
        }
        let took_ms = took.as_millis() as u64;
        tracing::info!(
            documents,
            keys,
            known,
            gone,
            unnamed,
            passed,
            full,
            in_order,
            took_ms,
            "what was cached before is read again from the store"
        );
    }

    async fn write(&self) -> std::io::Result<()> {
        let (file, cache, path) = (self.file.clone(), self.engine.cache().clone(), self.path().to_string());
        let runtime = self.engine.runtime();
        let began = runtime.elapsed();
        let named = runtime.blocking(move || file.save(&cache)).await?;
        let took_ms = runtime.elapsed().saturating_sub(began).as_millis() as u64;
        tracing::debug!(file = path, keys = named.keys, bytes = named.bytes, took_ms, "the cached keys are written");
        Ok(())
    }

    /// Writes the file at an orderly end.
    pub async fn end(&self) {
        if !self.has_read.load(Ordering::Relaxed) {
            tracing::info!(file = %self.path(), "it stays as it was: not all that it names was read again");
        } else if let Err(error) = self.write().await {
            tracing::warn!(file = %self.path(), %error, "the cached keys can't be written: the next start is colder");
        }
    }
}
