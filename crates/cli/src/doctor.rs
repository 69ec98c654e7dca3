//! `forebay doctor`: what of the settings, the machine, the files and the database would keep `forebay serve` from its
//! work, each with what mends it. It changes nothing, and takes nothing from a server that runs.

use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use forebay::runtime;
use forebay_server::Reserved;
use forebay_server::outage::size;
use rustix::fs::{Access, access, statfs, statvfs};

use crate::error::CommandError;
use crate::node;
use crate::say;
use crate::settings::{self, Settings, StoreChoice, Typed};

const EXAMPLES: &str = "\
Examples:
  forebay doctor --config forebay.toml
      before a first start, or where one is refused: all that is in the way at once
  forebay doctor --store postgres://app@localhost/shop --map 'user:{id} -> users(id)'
      the database and the mapped tables too, as `forebay store check` shows them

It looks at the settings and the files that they name, at memory, open files, addresses, disks and the database. It
changes nothing. Run it as the user that is to serve.

Exit codes: 0 well, 1 there are problems, 2 the settings can't be read.";

/// A disk with less room than this is nearly full.
const FREE_BYTES_LOW: u64 = 256 << 20;

/// What a limit of memory leaves to others in any case, as a share of it.
const MEMORY_LEFT_SHARE: u64 = 5;

/// File systems that are gone with the machine: tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What can be typed.
pub fn command() -> Command {
    Command::new("doctor")
        .about("Look at settings, machine, files and database; say what to mend")
        .after_help(EXAMPLES)
        .args(settings::arguments(&[]))
}

/// Looks, and says what is well and what is not.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let typed = Typed::gather(matches, &|name| std::env::var(name))?;
    let settings = Settings::validate(&typed)?;
    let mut report = Report::default();
    settings::misspelt().for_each(|said| report.warning(said));
    let threads = node::threads(1, settings.memory)?;
    let _within = threads.enter();
    match node::check_files(&settings, &runtime::tokio::runtime(threads.handle().clone())) {
        Ok(()) => report.well("the settings, and the files that they name"),
        Err(error) => report.problem(error),
    }
    memory(&settings, Path::new("/"), &mut report);
    open_files(&settings, &mut report);
    addresses(&settings, &mut report);
    if let Some(path) = &settings.warm_file {
        disk(&parent(path), FREE_BYTES_LOW, "the warm file", &mut report);
    }
    if let Some(folder) = &settings.trace_dir {
        // The start makes what is not there of it.
        let there = folder.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("."));
        disk(there, FREE_BYTES_LOW, "the folder of traces", &mut report);
    }
    match &settings.store {
        StoreChoice::Memory => report.warning("--store memory: all documents are lost when the server ends"),
        StoreChoice::Embedded(path) => file(path, &mut report),
        StoreChoice::Database(_) => {
            if settings.on_outage == settings::OnOutage::Buffer {
                journal(&settings, &mut report);
            }
            database(&settings, &threads, &mut report);
        }
    }
    say::result(&report.text)?;
    match report.problems {
        0 => Ok(()),
        1 => Err(CommandError::Failed("1 problem; mend it, then look again".into())),
        count => Err(CommandError::Failed(format!("{count} problems; mend them, then look again"))),
    }
}

/// What was found, a line for each.
#[derive(Default)]
struct Report {
    text: String,
    problems: usize,
}

impl Report {
    fn well(&mut self, what: impl Display) {
        self.line("ok", what);
    }

    fn warning(&mut self, what: impl Display) {
        self.line("warning", what);
    }

    fn problem(&mut self, what: impl Display) {
        self.problems += 1;
        self.line("problem", what);
    }

    fn line(&mut self, kind: &str, what: impl Display) {
        self.text.push_str(&format!("{kind:<8} {what}\n"));
    }
}

/// Whether the machine, or the control group of this process, has the memory that may be used. `root` is `/`.
fn memory(settings: &Settings, root: &Path, report: &mut Report) {
    let cache = settings.memory.saturating_add(settings.memory / 10).saturating_add(64 << 20);
    let most = cache.saturating_add(settings.beyond_memory().unwrap_or(0)).saturating_add(kept_in_outages(settings));
    let Some((limit, whose)) = memory_limit(root) else {
        return report.warning("nothing says how much memory there is (/proc/meminfo)");
    };
    let text = format!("the process may take {} of the {} that {whose}", shown(most), shown(limit));
    match limit - limit / MEMORY_LEFT_SHARE {
        _ if most > limit => report.problem(format!("{text}; give less --memory or --outage-bytes-max")),
        room if most > room => report.warning(format!("{text}; less --memory leaves some to the system")),
        _ => report.well(text),
    }
}

/// What may wait in an outage, in memory too.
fn kept_in_outages(settings: &Settings) -> u64 {
    if settings.store.is_local() { 0 } else { settings.outage_bytes_max }
}

/// The least of what limits the memory of this process, and what that is.
fn memory_limit(root: &Path) -> Option<(u64, &'static str)> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let of_machine = read(&root.join("proc/meminfo")).and_then(|text| {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        total.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
    });
    let number = |path: PathBuf| read(&path)?.trim().parse::<u64>().ok();
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (folder, file) = match controllers {
            "" => (root.join("sys/fs/cgroup"), "memory.max"),
            _ => (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        };
        let is_of_memory = controllers.split(',').any(|name| name.is_empty() || name == "memory");
        let within = Path::new(group.trim_start_matches('/')).to_owned();
        let groups: Vec<PathBuf> = within.ancestors().map(|group| folder.join(group).join(file)).collect();
        groups.into_iter().filter_map(number).filter(move |_| is_of_memory)
    });
    let of_groups = of_groups.min().map(|bytes| (bytes, "its control group allows"));
    of_machine.map(|bytes| (bytes, "the machine has")).into_iter().chain(of_groups).min_by_key(|(bytes, _)| *bytes)
}

fn open_files(settings: &Settings, report: &mut Report) {
    let wanted = node::descriptors(settings);
    let clients = settings.server.clients_max;
    match rlimit::Resource::NOFILE.get_hard() {
        Ok(most) if most < wanted => report.warning(format!(
            "{clients} clients need {wanted} open files, and this user may have {most}: raise `ulimit -Hn`, or \
             LimitNOFILE= of the unit, or give fewer --clients-max",
        )),
        Ok(most) => report.well(format!("{clients} clients need {wanted} open files; this user may have {most}")),
        Err(error) => report.warning(format!("can't tell how many files this user may open: {error}")),
    }
}

/// Whether the addresses are free. A server that runs has them, so a taken one is no problem by itself.
fn addresses(settings: &Settings, report: &mut Report) {
    let redis = |address: SocketAddr| Reserved::new(address).and_then(Reserved::listening);
    let http = |address: SocketAddr| Reserved::http(address).and_then(Reserved::listening);
    let named = [("--listen", settings.listen), ("--tls-listen", settings.tls_listen), ("--http", settings.http)];
    // All at once, so that two of them can't be one.
    let mut kept = Vec::new();
    for (name, address) in named.into_iter().filter_map(|(name, address)| Some((name, address?))) {
        let taken = std::net::TcpListener::bind(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
        let ours = kept.iter().any(|(_, other)| *other == address);
        match if name == "--http" { http(address) } else { redis(address) } {
            Ok(bound) => {
                report.well(format!("{name} {address} is free"));
                kept.push((bound, address));
            }
            Err(error) if taken && !ours => {
                report.warning(format!("{name}: {error}; if that is this forebay, all is well"));
            }
            Err(error) => report.problem(format!("{name}: {error}")),
        }
    }
}

/// The file of an embedded store.
fn file(path: &Path, report: &mut Report) {
    let name = path.display();
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => report.problem(format!("{name} is no file; check --store")),
        Ok(found) => {
            match access(path, Access::READ_OK | Access::WRITE_OK) {
                Ok(()) if !begins_as_store(path) => {
                    report.problem(format!("{name} is no store of forebay's; give another file as --store"));
                }
                Ok(()) => report.well(format!("the store {name} has {}; `forebay check` reads it", shown(found.len()))),
                Err(error) => report.problem(format!("can't write {name}: {error}; check owner and mode")),
            }
            disk(&parent(path), FREE_BYTES_LOW, "the store", report);
        }
        Err(_) => {
            if parent(path).is_dir() {
                report.well(format!("the store {name} is made at the start"));
            }
            disk(&parent(path), FREE_BYTES_LOW, "the store", report);
        }
    }
}

/// Whether a file begins as each store of this kind does.
fn begins_as_store(path: &Path) -> bool {
    let mut begin = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"redb"
}

/// The folder in which writes are kept in an outage.
fn journal(settings: &Settings, report: &mut Report) {
    use std::os::unix::fs::MetadataExt;

    let name = settings.journal.display();
    match std::fs::symlink_metadata(&settings.journal) {
        Ok(found) if found.is_symlink() => {
            return report.problem(format!("{name} is a symbolic link; name the folder that it leads to as --journal"));
        }
        Ok(found) if !found.is_dir() => return report.problem(format!("{name} is no folder; check --journal")),
        Ok(found) if found.mode() & 0o077 != 0 => {
            report.warning(format!("others may read the journal {name}; the next start takes that away"));
        }
        Ok(_) => report.well(format!("the journal {name} is there")),
        Err(_) => report.well(format!("the journal {name} is made at the start")),
    }
    let is_there = settings.journal.is_dir();
    let folder = if is_there { settings.journal.clone() } else { parent(&settings.journal) };
    disk(&folder, settings.outage_bytes_max, "the journal", report);
}

/// Whether a folder is there, can be written, has so much room, and outlives the machine.
fn disk(folder: &Path, wanted: u64, whose: &str, report: &mut Report) {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = absolute.as_path();
    let name = there.display();
    if !there.is_dir() {
        return report.problem(format!("there is no folder {name}, where {whose} is to lie; make it"));
    }
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        return report.problem(format!("can't write to {name}, where {whose} lies: {error}; check owner and mode"));
    }
    if statfs(there).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64))) {
        report.warning(format!("{name}, where {whose} lies, is in memory: it is lost with the machine; name a disk"));
    }
    match statvfs(there).map(|found| found.f_bavail.saturating_mul(found.f_frsize)) {
        Ok(free) if free < wanted => report.warning(format!(
            "{} are free in {name}, where {whose} lies: less than {}; make room",
            shown(free),
            shown(wanted),
        )),
        Ok(free) => report.well(format!("{} are free in {name}, where {whose} lies", shown(free))),
        Err(error) => report.warning(format!("can't tell how much is free in {name}: {error}")),
    }
}

/// What `forebay store check` says.
fn database(settings: &Settings, threads: &tokio::runtime::Runtime, report: &mut Report) {
    let (driver, options) = match crate::database::named(settings) {
        Ok(named) => named,
        Err(error) => return report.problem(error),
    };
    match threads.block_on((driver.check)(options)) {
        Ok(checked) => {
            checked.notes.iter().for_each(|line| report.well(line));
            checked.warnings.iter().for_each(|line| report.warning(line));
            checked.problems.iter().for_each(|line| report.problem(line));
        }
        Err(error) => report.problem(error),
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn shown(bytes: u64) -> String {
    size(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn the_least_limit_of_memory_counts() {
        let machine = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:       1024 kB\n");
        let limit = |files: &[(&str, &str)]| memory_limit(root(&[&[machine], files].concat()).path());
        assert_eq!(limit(&[]), Some((1 << 20, "the machine has")));
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let allows = "its control group allows";
        assert_eq!(limit(&[group, ("sys/fs/cgroup/a/b/memory.max", "max\n")]), Some((1 << 20, "the machine has")));
        let both = [group, ("sys/fs/cgroup/a/b/memory.max", "5000\n"), ("sys/fs/cgroup/a/memory.max", "4000\n")];
        assert_eq!(limit(&both), Some((4000, allows)), "that of a group around it");
        let old = ("proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/c\n");
        assert_eq!(limit(&[old, ("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "3000\n")]), Some((3000, allows)));
        assert_eq!(memory_limit(root(&[]).path()), None);
    }

    #[test]
    fn a_folder_has_to_be_there_and_have_room() {
        let folder = root(&[("file", "")]);
        let mut report = Report::default();
        disk(folder.path(), 0, "the journal", &mut report);
        assert!(report.problems == 0 && report.text.contains("are free in"), "{}", report.text);
        disk(folder.path(), u64::MAX, "the journal", &mut report);
        assert!(report.problems == 0 && report.text.contains("make room"), "{}", report.text);
        file(folder.path(), &mut report);
        assert!(report.problems == 1 && report.text.contains("is no file"), "{}", report.text);
        file(&folder.path().join("no/store"), &mut report);
        assert!(report.problems == 2 && report.text.contains("make it"), "{}", report.text);
    }
}
