//! What a client stands on: clock, timers and chance. They are the machine's and tokio's. With the feature `testing`
//! they may be those of a node in a simulated world, whose network [`crate::socket`] goes over then.

use std::fmt;
use std::time::{Duration, Instant};

#[cfg(feature = "testing")]
use forebay::runtime::simulated::network::Host;

/// Clock, timers and chance.
#[derive(Clone, Default)]
pub enum Ground {
    /// The machine's and tokio's.
    #[default]
    Machine,
    /// Those of a node of a simulated world.
    #[cfg(feature = "testing")]
    Simulated(Host),
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ground::Machine => "Machine",
            #[cfg(feature = "testing")]
            Ground::Simulated(_) => "Simulated",
        })
    }
}

impl Ground {
    /// The present moment, which never goes back.
    pub fn now(&self) -> Instant {
        match self {
            Ground::Machine => Instant::now(),
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => simulated::instant(host.runtime().elapsed()),
        }
    }

    /// Done after `length`.
    pub async fn sleep(&self, length: Duration) {
        match self {
            Ground::Machine => tokio::time::sleep(length).await,
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => host.runtime().sleep(length).await,
        }
    }

    /// What `future` comes to; `None` if it takes longer than `most`.
    pub async fn timeout<F: Future>(&self, most: Duration, future: F) -> Option<F::Output> {
        match self {
            Ground::Machine => tokio::time::timeout(most, future).await.ok(),
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => simulated::timeout(host.runtime().sleep(most), future).await,
        }
    }

    /// Any number from 0 to 1.
    pub fn fraction(&self) -> f64 {
        match self {
            Ground::Machine => fastrand::f64(),
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => (host.runtime().random() >> 11) as f64 / (1_u64 << 53) as f64,
        }
    }

    /// A number that no other client draws.
    pub fn id(&self) -> Result<u128, getrandom::Error> {
        match self {
            Ground::Machine => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes)?;
                Ok(u128::from_ne_bytes(bytes))
            }
            #[cfg(feature = "testing")]
            Ground::Simulated(host) => {
                let [high, low] = [(); 2].map(|()| u128::from(host.runtime().random()));
                Ok(high << 64 | low)
            }
        }
    }
}

#[cfg(feature = "testing")]
mod simulated {
    use std::pin::pin;
    use std::sync::OnceLock;
    use std::task::Poll;
    use std::time::{Duration, Instant};

    /// The moment that a node's clock shows. Only differences of such moments mean anything.
    pub fn instant(elapsed: Duration) -> Instant {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        *BEGAN.get_or_init(Instant::now) + elapsed
    }

    pub async fn timeout<F: Future>(sleep: impl Future<Output = ()>, future: F) -> Option<F::Output> {
        let (mut future, mut sleep) = (pin!(future), pin!(sleep));
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}
