//! oneTBB's `concurrent_lru_cache`, which is C++: a program by itself, `bench/engine/tbb_lru.cpp`.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::replay::Outcome;
use crate::traces::Test;

/// What `make` builds beside this program.
fn program() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name("tbb-lru");
    if !path.exists() {
        eprintln!("TBB is left out: there is no {}; `make figure` builds it", path.display());
        return None;
    }
    Some(path)
}

/// None: the program is not there, or failed, which is said.
pub fn run(test: &Test, threads: usize) -> Option<Outcome> {
    let program = program()?;
    let done = ask(&program, test, threads);
    done.map_err(|error| eprintln!("TBB is left out: {}: {error}", program.display())).ok()
}

fn ask(program: &PathBuf, test: &Test, threads: usize) -> Result<Outcome, String> {
    let path = std::env::temp_dir().join(format!("forebay-thesis-{}.u64", std::process::id()));
    let bytes: Vec<u8> = test.requests.iter().flat_map(|key| key.to_le_bytes()).collect();
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    let run = Command::new(program).arg(&path).arg(test.capacity.to_string()).arg(threads.to_string()).output();
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let output = run.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, hits] => {
            let total = (test.requests.len() * threads) as f64;
            Ok((total / seconds / 1e6, hits / total))
        }
        _ => Err(format!("'{text}' {}", String::from_utf8_lossy(&output.stderr))),
    }
}
