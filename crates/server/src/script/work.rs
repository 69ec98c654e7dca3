//! A script on its thread, and the messages between it and its session.

use std::sync::Arc;
use std::sync::mpsc;

use forebay::runtime::Runtime;
use forebay_protocol::{Reply, Request};
use futures_channel::mpsc as asynchronous;

use super::lua::{self, Program};
use super::{Halt, Limit, Place, Script, Scripts};

/// What a script's thread says to its session.
pub(crate) enum Asked {
    /// A command; its reply is waited for.
    Call(Request),
    /// The script has ended: its answer, or with `Err` the error that undoes it.
    Ended(Result<Reply, Reply>),
}

/// A script that was started. Dropping it has the script stop.
pub(crate) struct Underway {
    /// What its thread says.
    pub(crate) asked: asynchronous::UnboundedReceiver<Asked>,
    /// Where the thread waits for a command's answer.
    pub(crate) told: mpsc::Sender<Reply>,
    /// Whether it is to stop.
    pub(crate) halt: Arc<Halt>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.halt.stop(Limit::Left);
    }
}

/// Starts a script with its keys and other arguments. Its place is given back when its thread has left it, whatever
/// becomes of its session.
pub(crate) fn start(
    runtime: &Runtime,
    scripts: &Scripts,
    place: Arc<Place>,
    script: Arc<Script>,
    (keys, args): (Vec<Vec<u8>>, Vec<Vec<u8>>),
    bytes_max: usize,
    client: u64,
) -> Underway {
    let (say, asked) = asynchronous::unbounded();
    let (told, hear) = mpsc::channel();
    let halt = Arc::new(Halt::default());
    let running = scripts.note(&halt);
    let stops = halt.clone();
    let clock = runtime.clone();
    let work = move || {
        let ask = {
            let say = say.clone();
            // At most one question is on its way: the thread waits for the answer.
            move |request| say.unbounded_send(Asked::Call(request)).ok().and_then(|()| hear.recv().ok())
        };
        let body = script.code();
        let program = Program { sha: &script.sha, body, keys, args, bytes_max, client, runtime: clock };
        let ended = lua::run(&program, &stops, Box::new(ask));
        // Before its client is answered.
        drop((running, place));
        let _ = say.unbounded_send(Asked::Ended(ended));
    };
    let blocking = runtime.clone();
    runtime.spawn(async move { blocking.blocking(work).await });
    Underway { asked, told, halt }
}
