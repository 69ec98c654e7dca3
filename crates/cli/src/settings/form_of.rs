//! Which type of value each form reads, and what help says about it whatever that type is.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay::outage::OnConflict;
use forebay::policy::Choice;
use forebay::txn::OnWrite;

use super::choices::{Drain, Durability, LogFormat, LogLevel, OnOutage, StoreChoice, Threads, UnwatchedMs};
use super::form::Form;
use super::forms::OutsideWord;
use super::forms::{
    AddressOrOff, DrainWord, DurabilityWord, FileOrOff, FilesOrOff, Folder, FolderOrOff, Hosts, LogFormatWord,
    LogLevelWord, OnConflictWord, OnOutageWord, OnWriteWord, PolicyName, PolicyNames, StaleMs, Store, Switch,
    ThreadCount, UnwatchedWord,
};
use super::keys::KeysWord;
use super::map::Maps;
use super::number::{Arguments, AtATime, Bytes, Count, CountOrZero, Ms, MsOrZero, Partitions, RequestBytes};

/// A form's texts, whatever the type of its values.
pub(super) trait FormOf {
    const VALUE: &'static str;
    fn choices() -> String;
}

macro_rules! form_of {
    ($($form:ident: $type:ty),+ $(,)?) => {
        $(impl FormOf for $form {
            const VALUE: &'static str = <$form as Form<$type>>::VALUE;

            fn choices() -> String {
                <$form as Form<$type>>::choices()
            }
        })+
    };
}

form_of! {
    Maps: Vec<forebay_drivers::Mapping>,
    KeysWord: Vec<forebay_drivers::Keys>,
    OutsideWord: forebay_drivers::OutsideBy,
}

form_of! {
    AddressOrOff: Option<SocketAddr>,
    Bytes: u64,
    RequestBytes: u64,
    Arguments: u64,
    AtATime: u64,
    Count: u64,
    CountOrZero: u64,
    Ms: u64,
    MsOrZero: u64,
    Partitions: u64,
    StaleMs: u64,
    DrainWord: Drain,
    DurabilityWord: Durability,
    FileOrOff: Option<PathBuf>,
    Folder: PathBuf,
    FilesOrOff: Option<PathBuf>,
    Hosts: Vec<String>,
    FolderOrOff: Option<PathBuf>,
    LogFormatWord: LogFormat,
    LogLevelWord: LogLevel,
    OnConflictWord: OnConflict,
    OnWriteWord: OnWrite,
    OnOutageWord: OnOutage,
    PolicyName: Choice,
    PolicyNames: Vec<Choice>,
    Store: StoreChoice,
    Switch: bool,
    ThreadCount: Threads,
    UnwatchedWord: UnwatchedMs,
}
