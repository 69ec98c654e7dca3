//! What BG's network of members is like.

use std::time::Duration;

use crate::bg::Scale;

/// What can be told of the network beside the number of its members.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The rest of its scale; members and seed are told elsewhere.
    pub scale: Scale,
    /// Pause between the actions of a session.
    pub think: Duration,
    /// Pause between sessions, or between single actions.
    pub pause: Duration,
}

impl Default for Network {
    fn default() -> Network {
        Network { scale: Scale::default(), think: Duration::ZERO, pause: Duration::ZERO }
    }
}
