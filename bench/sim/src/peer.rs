//! libCacheSim, driven through a few lines of Python that ask for one replay at a time.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::ours::{Memory, Run};

/// The process.
pub struct Peer {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// What it calls itself.
    pub version: String,
}

impl Peer {
    /// Starts `python`, which has the package.
    pub fn start(python: &Path) -> Result<Peer, Box<dyn Error>> {
        let mut child = Command::new(python)
            .args(["-u", "-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}; make setup-bench installs it", python.display()))?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(asks), Some(answers)) = (asks, answers) else { return Err("the peer has no pipes".into()) };
        let mut peer = Peer { child, asks, answers: BufReader::new(answers), version: String::new() };
        peer.version = peer.line()?;
        Ok(peer)
    }

    /// One replay of a file.
    pub fn speed(&mut self, policy: &str, objects: u64, path: &Path) -> Result<Run, Box<dyn Error>> {
        let answer = self.ask("speed", policy, objects, path)?;
        let [hits, _, cpu_seconds] = answer[..] else { return Err("the peer's answer is short".into()) };
        Ok(Run { hits: hits as u64, cpu_seconds })
    }

    /// Memory of a cache of so many objects. To be asked once of a process: what one cache freed the next would reuse.
    pub fn memory(mut self, policy: &str, objects: u64, path: &Path) -> Result<Memory, Box<dyn Error>> {
        let answer = self.ask("memory", policy, objects, path)?;
        let [objects, bytes] = answer[..] else { return Err("the peer's answer is short".into()) };
        Ok(Memory { objects: objects as u64, bytes, charged: 0.0 })
    }

    fn ask(&mut self, task: &str, policy: &str, objects: u64, path: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
        writeln!(self.asks, "{task} {policy} {objects} {}", path.display())?;
        let answer = self.line()?;
        Ok(answer.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the peer ended; is the package libcachesim there (make setup-bench)?".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
