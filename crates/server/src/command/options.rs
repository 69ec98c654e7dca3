//! The options of SET and GETEX.

use forebay_protocol::{Frame, Reply, errors};

use super::Call;
use super::expiry::{Moment, Unit, positive_moment};

/// What SET or GETEX was told beyond key and value.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Only if there is no such key.
    pub nx: bool,
    /// Only if there is one.
    pub xx: bool,
    /// Answer the old value.
    pub get: bool,
    /// Keep the present expiry.
    pub keep_ttl: bool,
    /// Clear the expiry.
    pub persist: bool,
    /// The expiry's unit, and the argument that tells it.
    expiry: Option<(Unit, usize)>,
}

impl Options {
    /// Those of SET, from the fourth argument on.
    pub(super) fn of_set(frame: Frame<'_>) -> Result<Options, Reply> {
        Options::parse(frame, 3, true)
    }

    /// Those of GETEX, from the third argument on.
    pub(super) fn of_getex(frame: Frame<'_>) -> Result<Options, Reply> {
        Options::parse(frame, 2, false)
    }

    /// An option that contradicts an earlier one is a syntax error; one that repeats it is not.
    fn parse(frame: Frame<'_>, mut at: usize, of_set: bool) -> Result<Options, Reply> {
        let mut options = Options::default();
        while let Some(option) = frame.get(at) {
            let option = option.to_ascii_lowercase();
            match option.as_slice() {
                b"nx" if of_set && !options.xx => options.nx = true,
                b"xx" if of_set && !options.nx => options.xx = true,
                b"get" if of_set => options.get = true,
                b"keepttl" if of_set && options.expiry.is_none() => options.keep_ttl = true,
                b"persist" if !of_set && options.expiry.is_none() => options.persist = true,
                other => {
                    let unit = expiry_unit(other).filter(|unit| {
                        let fits = options.expiry.is_none_or(|(earlier, _)| earlier == *unit);
                        fits && !options.keep_ttl && !options.persist && at + 1 < frame.len()
                    });
                    let unit = unit.ok_or(Reply::error(errors::SYNTAX))?;
                    at += 1;
                    options.expiry = Some((unit, at));
                }
            }
            at += 1;
        }
        Ok(options)
    }

    /// When the key is to expire, if an option says so.
    pub(super) fn expires(&self, call: &Call<'_>, command: &str) -> Result<Option<Moment>, Reply> {
        self.expiry.map(|(unit, index)| positive_moment(call, unit, index, command)).transpose()
    }
}

fn expiry_unit(option: &[u8]) -> Option<Unit> {
    Some(match option {
        b"ex" => Unit::SECONDS,
        b"px" => Unit::MILLISECONDS,
        b"exat" => Unit::UNIX_SECONDS,
        b"pxat" => Unit::UNIX_MILLISECONDS,
        _ => return None,
    })
}
