//! When keys expire: EXPIRE and its kind, TTL and its kind, PERSIST; and how SET and GETEX say it.

use forebay::change::Change;
use forebay_protocol::{Reply, errors};

use super::{Answer, Call, Command, Effect, Flag, Group, Keys, Run};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "expire",
        syntax: "key seconds [NX|XX|GT|LT]",
        summary: "Has a key expire so many seconds from now",
        group: Group::Keys,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, expire),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "pexpire",
        syntax: "key milliseconds [NX|XX|GT|LT]",
        summary: "Has a key expire so many milliseconds from now",
        group: Group::Keys,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, pexpire),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "expireat",
        syntax: "key unix-time-seconds [NX|XX|GT|LT]",
        summary: "Has a key expire at a moment, in seconds since the Unix epoch",
        group: Group::Keys,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, expireat),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "pexpireat",
        syntax: "key unix-time-milliseconds [NX|XX|GT|LT]",
        summary: "Has a key expire at a moment, in milliseconds since the Unix epoch",
        group: Group::Keys,
        arity: -3,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, pexpireat),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
    Command {
        name: "ttl",
        syntax: "key",
        summary: "Seconds until a key expires; -1: never, -2: no such key",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, ttl),
        flags: &[Flag::Fast],
    },
    Command {
        name: "pttl",
        syntax: "key",
        summary: "Milliseconds until a key expires; -1: never, -2: no such key",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, pttl),
        flags: &[Flag::Fast],
    },
    Command {
        name: "expiretime",
        syntax: "key",
        summary: "When a key expires, in seconds since the Unix epoch; -1: never, -2: no such key",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, expiretime),
        flags: &[Flag::Fast],
    },
    Command {
        name: "pexpiretime",
        syntax: "key",
        summary: "When a key expires, in milliseconds since the Unix epoch; -1: never, -2: no such key",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::Read, pexpiretime),
        flags: &[Flag::Fast],
    },
    Command {
        name: "persist",
        syntax: "key",
        summary: "Has a key never expire",
        group: Group::Keys,
        arity: 2,
        keys: Keys::ONE,
        run: Run::Documents(Effect::ReadWrite, persist),
        flags: &[Flag::Fast, Flag::TellsNothing],
    },
];

/// How an argument tells a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Milliseconds in one.
    milliseconds: i64,
    /// Counted from the Unix epoch, not from now.
    absolute: bool,
}

impl Unit {
    /// EX, EXPIRE.
    pub(super) const SECONDS: Unit = Unit { milliseconds: 1000, absolute: false };
    /// PX, PEXPIRE.
    pub(super) const MILLISECONDS: Unit = Unit { milliseconds: 1, absolute: false };
    /// EXAT, EXPIREAT.
    pub(super) const UNIX_SECONDS: Unit = Unit { milliseconds: 1000, absolute: true };
    /// PXAT, PEXPIREAT.
    pub(super) const UNIX_MILLISECONDS: Unit = Unit { milliseconds: 1, absolute: true };

    /// Whether what it tells counts from the moment at which the transaction takes place.
    fn relative(self) -> bool {
        !self.absolute
    }

    /// The moment in ms since the Unix epoch that `count` units tell at `now_ms`; `None` past 64 bits.
    fn moment(self, count: i64, now_ms: u64) -> Option<i64> {
        let start = if self.absolute { 0 } else { i64::try_from(now_ms).ok()? };
        count.checked_mul(self.milliseconds)?.checked_add(start)
    }
}

/// When a document is to expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// In ms since the Unix epoch, by the transaction's clock.
    pub(super) at_ms: u64,
    /// It was told as a duration, which counts from the commit.
    pub(super) relative: bool,
}

/// The moment that the argument at `index` tells, in ms since the Unix epoch, as SET, SETEX and GETEX take it: neither
/// zero nor negative.
pub(super) fn positive_moment(call: &Call<'_>, unit: Unit, index: usize, command: &str) -> Result<Moment, Reply> {
    let count = call.integer(index)?;
    let moment = if count > 0 { unit.moment(count, call.now_ms()) } else { None };
    let at_ms = moment.and_then(|moment| u64::try_from(moment).ok()).ok_or_else(|| errors::invalid_expire(command))?;
    Ok(Moment { at_ms, relative: unit.relative() })
}

/// EXPIRE's conditions on the present expiry.
#[derive(Default)]
struct Conditions {
    /// There is none.
    nx: bool,
    /// There is one.
    xx: bool,
    /// The new one is later; none counts as never.
    gt: bool,
    /// The new one is earlier.
    lt: bool,
}

impl Conditions {
    fn parse(call: &Call<'_>) -> Result<Conditions, Reply> {
        let mut conditions = Conditions::default();
        for option in call.frame.args().skip(3) {
            match option.to_ascii_lowercase().as_slice() {
                b"nx" => conditions.nx = true,
                b"xx" => conditions.xx = true,
                b"gt" => conditions.gt = true,
                b"lt" => conditions.lt = true,
                _ => return Err(errors::unsupported_option(option)),
            }
        }
        let Conditions { nx, xx, gt, lt } = conditions;
        if nx && (xx || gt || lt) {
            return Err(Reply::error(errors::EXPIRE_NX));
        }
        if gt && lt {
            return Err(Reply::error(errors::EXPIRE_GT_LT));
        }
        Ok(conditions)
    }

    fn hold(&self, present: Option<u64>, moment: i64) -> bool {
        let moment = i128::from(moment);
        match present.map(i128::from) {
            Some(present) => !(self.nx || (self.gt && moment <= present) || (self.lt && moment >= present)),
            None => !self.xx && !self.gt,
        }
    }
}

fn expire_by(call: &mut Call<'_>, unit: Unit, command: &str) -> Answer {
    let conditions = Conditions::parse(call)?;
    let count = call.integer(2)?;
    let moment = unit.moment(count, call.now_ms()).ok_or_else(|| errors::invalid_expire(command))?;
    let key = call.key(1);
    let Some(value) = call.value(key)? else { return Ok(Reply::Integer(0)) };
    if !conditions.hold(value.expires_at_ms, moment) {
        return Ok(Reply::Integer(0));
    }
    call.expire_at(key, moment, unit.relative())?;
    Ok(Reply::Integer(1))
}

fn expire(call: &mut Call<'_>) -> Answer {
    expire_by(call, Unit::SECONDS, "expire")
}

fn pexpire(call: &mut Call<'_>) -> Answer {
    expire_by(call, Unit::MILLISECONDS, "pexpire")
}

fn expireat(call: &mut Call<'_>) -> Answer {
    expire_by(call, Unit::UNIX_SECONDS, "expireat")
}

fn pexpireat(call: &mut Call<'_>) -> Answer {
    expire_by(call, Unit::UNIX_MILLISECONDS, "pexpireat")
}

/// What `show` makes of the key's expiry and the present moment, both in ms since the Unix epoch.
fn shown_expiry(call: &Call<'_>, show: fn(u64, u64) -> u64) -> Answer {
    let Some(value) = call.value(call.key(1))? else { return Ok(Reply::Integer(-2)) };
    let shown = value.expires_at_ms.map_or(-1, |at_ms| i64::try_from(show(at_ms, call.now_ms())).unwrap_or(i64::MAX));
    Ok(Reply::Integer(shown))
}

/// Milliseconds in whole seconds, rounded.
fn seconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_add(500) / 1000
}

fn ttl(call: &mut Call<'_>) -> Answer {
    shown_expiry(call, |at_ms, now_ms| seconds(at_ms.saturating_sub(now_ms)))
}

fn pttl(call: &mut Call<'_>) -> Answer {
    shown_expiry(call, |at_ms, now_ms| at_ms.saturating_sub(now_ms))
}

fn expiretime(call: &mut Call<'_>) -> Answer {
    shown_expiry(call, |at_ms, _| seconds(at_ms))
}

fn pexpiretime(call: &mut Call<'_>) -> Answer {
    shown_expiry(call, |at_ms, _| at_ms)
}

fn persist(call: &mut Call<'_>) -> Answer {
    let key = call.key(1);
    if call.value(key)?.is_none_or(|value| value.expires_at_ms.is_none()) {
        return Ok(Reply::Integer(0));
    }
    call.change(key, Change::Persist)?;
    Ok(Reply::Integer(1))
}
