//! MULTI and WATCH: what is queued, what is watched.

use forebay::key::SPACES;
use forebay::mutation::{self, Fault};
use forebay::txn::{PlannedLock, Watched};
use forebay_protocol::decoder::parse_integer;
use forebay_protocol::{Frame, Reply, Request};

use super::{ARG_BYTES_COUNTED, WIDE_ARGS, WIDE_BYTES, for_script, planned};
use crate::command::{Command, Flag};
use crate::given::Claim;
use crate::given::Taken;
use crate::limits::ServerLimits;

/// A client's MULTI and WATCH.
#[derive(Default)]
pub struct Multi {
    /// The queued commands; `None` outside MULTI.
    pub queue: Option<Queue>,
    /// What EXEC compares first: keys under WATCH, with what they were, and those of LEASE CHECK.
    pub watched: Vec<Watched>,
    /// That is not known, since WATCH or LEASE CHECK was refused: EXEC is, too.
    unwatched: bool,
    /// The id of the transaction that EXEC ends, of LEASE CHECK ID.
    pub claimed: Option<Taken>,
}

/// Commands queued between MULTI and EXEC.
#[derive(Default)]
pub struct Queue {
    /// The commands in order.
    pub commands: Vec<Queued>,
    /// The database that the next queued command works in: SELECT may be among them.
    pub space: u8,
    /// Bytes that they take: of many short ones most are not their arguments'.
    pub bytes: usize,
    /// One could not be queued: EXEC will refuse.
    pub doomed: bool,
}

/// One queued command.
pub struct Queued {
    /// Which command.
    pub command: &'static Command,
    /// Its arguments.
    pub request: Request,
    /// The database that it works in.
    pub space: u8,
}

/// Commands, and bytes that they take, of a script that is over in no time.
const SHORT_COMMANDS_MAX: usize = 32;
const SHORT_BYTES_MAX: usize = 64 << 10;

/// The error of an EXEC whose command number `n`, counted from 0, was answered with `error`: nothing of it is done.
pub fn rolled_back(n: usize, command: &Command, frame: Frame<'_>, error: &[u8]) -> Reply {
    let name = command.name.to_ascii_uppercase();
    let first = frame.get(1).map(|arg| format!(" {}", arg.escape_ascii())).unwrap_or_default();
    let mut rolled_back = format!("EXECABORT rolled back: command {} ({name}{first}): ", n + 1).into_bytes();
    rolled_back.extend_from_slice(error);
    Reply::error(rolled_back)
}

impl Queue {
    /// Whether one of the commands is a script, which asks for more as it goes on.
    pub fn has_scripts(&self) -> bool {
        self.commands.iter().any(|queued| queued.command.is(Flag::RunsScript))
    }

    /// The locks that the queued commands need.
    pub fn locks(&self) -> Vec<PlannedLock> {
        let mut locks = Vec::new();
        for queued in &self.commands {
            let frame = queued.request.frame();
            if let Some(effect) = queued.command.effect(frame) {
                queued.command.each_key(frame, queued.space, &mut |key| locks.push(planned(key, effect)));
            }
            if queued.command.is(Flag::RunsScript) {
                queued.command.each_key(frame, queued.space, &mut |key| locks.push(for_script(queued.command, key)));
            }
        }
        locks
    }

    /// Whether to run it takes no time to speak of: others may then wait for all of it.
    pub fn is_short(&self) -> bool {
        let small = self.commands.len() <= SHORT_COMMANDS_MAX && self.bytes <= SHORT_BYTES_MAX;
        small && self.commands.iter().all(|queued| queued.command.body().is_some())
    }

    /// Whether to run it takes long.
    pub fn is_wide(&self) -> bool {
        self.commands.len() > WIDE_ARGS || self.bytes > WIDE_BYTES
    }
}

impl Multi {
    /// What EXEC compares, and the id under which it commits, both over with it; or why it does not run.
    pub fn take_watched(&mut self) -> Result<(Vec<Watched>, Option<Claim>), Reply> {
        let (watched, claimed) = (std::mem::take(&mut self.watched), self.claimed.take());
        if std::mem::take(&mut self.unwatched) && !mutation::on(Fault::RefusedCheckCommits) {
            return Err(Reply::error("EXECABORT a WATCH or LEASE CHECK before it was refused"));
        }
        match claimed {
            Some(Taken::Over { told, .. }) => Err(Reply::error(format!("TXOVER {told}"))),
            Some(Taken::New(claim)) => Ok((watched, Some(claim))),
            None => Ok((watched, None)),
        }
    }

    /// With `refused`, what the next EXEC is to compare is not known: it is refused as well. Not so in MULTI, as in
    /// Redis.
    pub fn note_unwatched(&mut self, refused: bool) {
        self.unwatched |= refused && self.queue.is_none();
    }

    /// EXEC is to run again: nothing of it was done.
    pub fn put_back(&mut self, queue: Queue, watched: Vec<Watched>, claim: Option<Claim>) {
        (self.queue, self.watched, self.claimed) = (Some(queue), watched, claim.map(Taken::New));
    }

    /// A command was refused before it ran. EXEC ends its MULTI, as any that is answered does. What WATCH would have
    /// remembered is not known.
    pub fn not_run(&mut self, command: &Command, frame: Frame<'_>) {
        match command.name {
            _ if mutation::on(Fault::RefusedExecStays) => {}
            "exec" => *self = Multi::default(),
            _ => self.note_unwatched(command.watches(frame)),
        }
    }

    /// Forgets all that was watched or checked.
    pub fn unwatch(&mut self) {
        *self = Multi { queue: self.queue.take(), ..Multi::default() };
    }

    /// A command could not be queued: EXEC refuses the whole.
    pub fn doom(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.doomed = true;
        }
    }

    /// Queues a command.
    pub fn push(&mut self, command: &'static Command, frame: Frame<'_>, limits: &ServerLimits) -> Result<(), Reply> {
        let Some(queue) = &mut self.queue else { return Ok(()) };
        queue.bytes += frame.args_bytes() + frame.len() * ARG_BYTES_COUNTED + size_of::<Queued>();
        if queue.commands.len() >= limits.multi_commands_max {
            queue.doomed = true;
            return Err(Reply::error(format!("LIMIT multi_commands_max {}", limits.multi_commands_max)));
        }
        if queue.bytes > limits.multi_bytes_max {
            queue.doomed = true;
            return Err(Reply::error(format!("LIMIT multi_bytes_max {}", limits.multi_bytes_max)));
        }
        // Once doomed it is only counted: nothing of it will run.
        if !queue.doomed {
            queue.commands.push(Queued { command, request: frame.compact(), space: queue.space });
            if command.name == "select"
                && let Some(space) = frame.get(1).and_then(parse_integer).and_then(|index| u8::try_from(index).ok())
                && space < SPACES
            {
                queue.space = space;
            }
        }
        Ok(())
    }
}
