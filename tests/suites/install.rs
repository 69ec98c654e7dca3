//! The suites' sources, each with the libraries that it needs, under `target/clients`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{Tool, installed, must, run, skipped};

/// node-redis' sources as Debian distributes them: its packages of npm come without tests.
const NODE_REDIS_FILE: &str = "pool/main/n/node-redis/node-redis_4.6.14+~1.1.2.orig.tar.gz";
const NODE_REDIS_SHA256: &str = "169de6d0f1159595f3ab505ef0102e2beea762628773e3fcbbc43a1e176e1226";
const NODE_REDIS_MISSING: &str = "the sources of node-redis 4.6.14 are fetched by apt from a Debian archive, and there \
    is none here that has them; FOREBAY_NODE_REDIS_SOURCES=<node-redis 4.6.14 as .tar.gz> names them";

/// A folder of this test in the repository.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/suites").join(name)
}

/// Unpacks an archive into a folder, without the archive's own uppermost folder.
fn unpack(archive: &Path, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder can be made");
    must(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(archive).arg("-C").arg(folder));
}

/// A folder with redis-py's source distribution in `source`, and a Python that can run its tests.
pub fn redis_py() -> Option<PathBuf> {
    if !Tool::Python.present() {
        return None;
    }
    let mut newer = Command::new("python3");
    if !newer.args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status().is_ok_and(|s| s.success()) {
        skipped("redis-py's own tests need Python 3.11 or newer");
        return None;
    }
    let lists = ["requirements.txt", "source.txt"].map(|name| source("redis-py").join(name));
    Some(installed("redis-py-suite", &lists, |folder| {
        must(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let pip = || {
            let mut pip = Command::new(folder.join("bin/python"));
            pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet"]);
            pip
        };
        let [requirements, redis] = &lists;
        must(pip().args(["install", "--no-deps", "--require-hashes", "-r"]).arg(requirements));
        let download = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"];
        must(pip().args(download).arg("-d").arg(folder).arg("-r").arg(redis));
        let archive = files(folder, &|name| name.starts_with("redis-") && name.ends_with(".tar.gz"));
        unpack(&folder.join(archive.first().expect("pip has downloaded it")), &folder.join("source"));
    }))
}

/// A folder with node-redis' packages, compiled, and the programs that its tests need.
pub fn node_redis() -> Option<PathBuf> {
    if !Tool::Node.present() {
        return None;
    }
    let own = |name: &str| source("node-redis").join(name);
    let lists = ["package.json", "package-lock.json", "tsconfig.json", "test-utils.js"].map(own);
    let mut complete = true;
    let folder = installed("node-redis-suite", &lists, |folder| {
        for name in ["package.json", "package-lock.json", "tsconfig.json", ".npmrc"] {
            fs::copy(own(name), folder.join(name)).expect("a file can be copied");
        }
        complete = node_redis_sources(folder);
        if !complete {
            return;
        }
        must(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder));
        must(Command::new("node").args(["node_modules/typescript/bin/tsc", "-p", "."]).current_dir(folder));
        let stand_in = folder.join("node_modules/@redis/test-utils");
        fs::create_dir_all(&stand_in).expect("a folder can be made");
        fs::write(stand_in.join("index.js"), "module.exports = require('../../../test-utils.js');\n").expect("a file");
        fs::copy(own("test-utils.js"), folder.join("test-utils.js")).expect("a file can be copied");
    });
    if !complete || !folder.join("test-utils.js").exists() {
        // So that the next run tries again.
        let _ = fs::remove_file(folder.with_extension("installed"));
        skipped(NODE_REDIS_MISSING);
        return None;
    }
    fs::copy(own("report.js"), folder.join("report.js")).expect("a file can be copied");
    Some(folder)
}

/// Brings the sources; false if they can't be had.
fn node_redis_sources(folder: &Path) -> bool {
    let archive = match std::env::var_os("FOREBAY_NODE_REDIS_SOURCES") {
        Some(archive) => PathBuf::from(archive),
        None => {
            let archive = folder.join("node-redis.tar.gz");
            if !fetched(&archive) {
                return false;
            }
            archive
        }
    };
    unpack(&archive, &folder.join("source"));
    fs::rename(folder.join("source/packages"), folder.join("packages")).is_ok()
}

/// Fetches them from the archive that this machine takes its packages from.
fn fetched(archive: &Path) -> bool {
    let targets = ["indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian", "Label: Debian"];
    let Ok(sites) = Command::new("apt-get").args(targets).output() else { return false };
    let sites = String::from_utf8_lossy(&sites.stdout).into_owned();
    let Some(site) = sites.lines().next() else { return false };
    let mut fetch = Command::new("/usr/lib/apt/apt-helper");
    let url = format!("{}/{NODE_REDIS_FILE}", site.trim_end_matches('/'));
    fetch.args(["download-file", &url]).arg(archive).arg(format!("SHA256:{NODE_REDIS_SHA256}"));
    let helper = Path::new("/usr/lib/apt/apt-helper").exists();
    helper && run(&mut fetch, "").status.is_some_and(|status| status.success())
}

/// The files under a folder whose names are wanted, as paths from there, sorted.
pub fn files(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inner)).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type().expect("its type is known").is_dir() {
                true if name != "node_modules" => folders.push(inner.join(name)),
                false if wanted(&name) => found.push(inner.join(name).to_string_lossy().into_owned()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
