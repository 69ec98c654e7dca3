//! Tables of the store that are altered: what is cached of them is out of date, and of another form.

use std::time::Duration;

use super::Engine;

/// Pause between two looks whether the store has met such a table.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks for which it is left alone when it was looked up again, whatever came of that.
const LEFT_ALONE: u32 = 10;

impl Engine {
    /// Has the store look its tables up again, and drops what is cached; why they stay as they were. What a commit on
    /// its way installs may be of the old form: so it goes, too.
    pub async fn reload_store(&self) -> Result<(), String> {
        self.inner.store.reload().await?;
        self.inner.cache.clear(|_| true);
        for settled in self.inner.committer.unsettled() {
            settled.wait().await;
        }
        self.inner.cache.clear(|_| true);
        Ok(())
    }

    /// Does so by itself when the store has found a table altered, for as long as the engine is there.
    pub fn start_reloading(&self) {
        let (weak, runtime) = (std::sync::Arc::downgrade(&self.inner), self.inner.runtime.clone());
        self.inner.runtime.spawn(async move {
            let mut said = String::new();
            loop {
                runtime.sleep(LOOK_EVERY).await;
                let Some(inner) = weak.upgrade() else { return };
                if !inner.store.is_altered() {
                    continue;
                }
                match (Engine { inner }).reload_store().await {
                    Ok(()) => said.clear(),
                    Err(why) if why != said => {
                        tracing::warn!(why, "an altered table stays as it was known; CACHE RELOAD tries again");
                        said = why;
                    }
                    Err(_) => {}
                }
                runtime.sleep(LOOK_EVERY * LEFT_ALONE).await;
            }
        });
    }
}
