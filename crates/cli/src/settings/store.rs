//! What of the settings of a store and of outages does not fit together.

use forebay_drivers::sql::keys::contradictions;

use super::choices::{Durability, OnOutage};
use super::error::SettingsError;
use super::values::Settings;

/// Says the first of it by `wrong`.
pub fn check(
    settings: &Settings,
    wrong: &dyn Fn(&str, String) -> Result<(), SettingsError>,
) -> Result<(), SettingsError> {
    if settings.store.is_local() {
        if !settings.maps.is_empty() {
            return wrong("map", "--store names no database whose tables these would be".into());
        }
        if !settings.keys.is_empty() {
            let why = "--store names no database with rows beside them: all keys are documents; leave it out";
            return wrong("keys", why.into());
        }
        return match settings.store_password_file {
            Some(_) => wrong("store-password-file", "--store names no database that would ask for it".into()),
            None => Ok(()),
        };
    }
    if let Some(why) = contradictions(&settings.keys, &settings.maps).into_iter().next() {
        return wrong("keys", why);
    }
    if settings.store_timeout_ms >= settings.txn.lock_wait_ms_min {
        // Otherwise a request that waits for a lock would give up before the one that has it knows that the
        // database is down.
        let least = settings.txn.lock_wait_ms_min;
        let why = "that is not below lock-wait-ms-min, which is";
        return wrong("store-timeout-ms", format!("{why} {least}; raise --lock-wait-ms-min and -max above it"));
    }
    if settings.durability != Durability::Always && settings.on_outage == OnOutage::Refuse {
        let why = "a database is always asked to have a commit on disk, and with --on-outage refuse nothing is \
                   kept here; leave it out";
        return wrong("durability", why.into());
    }
    if settings.on_outage == OnOutage::Refuse && settings.write_back_ms > 0 {
        return wrong("write-back-ms", "nothing is kept with --on-outage refuse; give --on-outage buffer".into());
    }
    Ok(())
}
