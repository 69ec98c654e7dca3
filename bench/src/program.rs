//! A program under measurement: started on its core, asked for what it used, ended when dropped.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::replies::Protocol;

/// How long a program may take until it answers.
const START_WAIT: Duration = Duration::from_secs(20);

/// A server that runs.
pub struct Program {
    child: Child,
    /// Where it answers.
    pub address: SocketAddr,
}

/// A port of the loopback that was free a moment ago.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Program {
    /// Starts `binary` with `args` on `cores` (`0`, `0-1`; on all for `None`), waits until it answers on `port`.
    pub fn start(
        binary: &Path,
        args: &[String],
        cores: Option<&str>,
        port: u16,
        protocol: Protocol,
    ) -> io::Result<Program> {
        let (question, wanted): (&[u8], &[u8]) = match protocol {
            Protocol::Resp => (b"PING\r\n", b"+PONG"),
            Protocol::Memcached => (b"version\r\n", b"VERSION"),
        };
        let mut command = match cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = command.spawn();
        let start = start.map_err(|error| io::Error::other(format!("can't start {}: {error}", binary.display())));
        let mut program = Program { child: start?, address: (Ipv4Addr::LOCALHOST, port).into() };
        let began = Instant::now();
        while program.answer(question).is_none_or(|answer| !answer.starts_with(wanted)) {
            if let Some(status) = program.child.try_wait()? {
                let shown = args.join(" ");
                return Err(io::Error::other(format!("{} {shown} ended: {status}", binary.display())));
            }
            if began.elapsed() > START_WAIT {
                return Err(io::Error::other(format!("{} does not answer", binary.display())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(program)
    }

    /// What it says to one inline command, as far as one read gives it.
    pub fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(START_WAIT)).ok()?;
        stream.write_all(request).ok()?;
        let mut answer = vec![0; 16 * 1024];
        let count = stream.read(&mut answer).ok()?;
        answer.truncate(count);
        Some(answer)
    }

    /// One figure of forebay's CACHE STATS: a line with its name, a line with the figure.
    pub fn cache_stat(&self, name: &str) -> io::Result<u64> {
        let answer = self.answer(b"CACHE STATS\r\n").unwrap_or_default();
        let text = String::from_utf8_lossy(&answer).into_owned();
        let mut lines = text.lines().skip_while(|line| *line != name);
        let figure = lines.nth(1).and_then(|line| line.strip_prefix(':')).and_then(|figure| figure.parse().ok());
        figure.ok_or_else(|| io::Error::other(format!("CACHE STATS has no {name}")))
    }

    /// Seconds of CPU, user and system, that all its threads have used so far, those that have ended included. Not by
    /// the ticks of `/proc/PID/stat`: a server that waits for its disk uses few of them in a run.
    pub fn cpu_seconds(&self) -> io::Result<f64> {
        let clock = clock_getcpuclockid(Pid::from_raw(self.child.id() as i32))?;
        let time = clock_gettime(clock)?;
        Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
    }

    /// The share of the kernel in that, as seconds of user and of system time; in steps of 10 ms.
    pub fn split_seconds(&self) -> io::Result<(f64, f64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is the program's name in parentheses, which may hold anything.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let ticks = ticks(11).zip(ticks(12)).ok_or_else(|| io::Error::other("no times in stat"))?;
        Ok((ticks.0 as f64 / 100.0, ticks.1 as f64 / 100.0))
    }

    /// Resident bytes now.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS in status"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It holds nothing that anyone wants afterwards; it may also have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds of CPU of a process, its children (`processes` holds all of them that live), and its children that have
/// ended; in steps of 10 ms.
pub fn family_cpu_seconds(parent: u32, processes: &[u32]) -> f64 {
    let seconds = |process: u32, fields: std::ops::Range<usize>| {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The second field is the program's name in parentheses, which may hold anything. Behind it, from the eleventh
        // on: user and system time, then those of children that were waited for.
        let all: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = all.get(fields).unwrap_or_default().iter().filter_map(|field| field.parse::<f64>().ok());
        ticks.sum::<f64>() / 100.0
    };
    let living = processes.iter().filter(|process| **process != parent);
    seconds(parent, 11..15) + living.map(|process| seconds(*process, 11..13)).sum::<f64>()
}

/// Cores of this machine, whatever this process may use of them.
pub fn cores() -> usize {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count()
}

/// Pins this process to `core`, with all threads that it starts from now on.
pub fn pin_self(core: usize) -> io::Result<()> {
    let pid = std::process::id().to_string();
    let status = Command::new("taskset").args(["-cp", &core.to_string(), &pid]).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("taskset can't pin to core {core}"))) }
}

/// Seconds of CPU that all threads of this process have used.
pub fn process_cpu_seconds() -> io::Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Seconds that this thread has been on a CPU; what /proc says of it is as coarse as the scheduler's ticks.
pub fn own_cpu_seconds() -> io::Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_rises() {
        let before = own_cpu_seconds().unwrap();
        let mut sum = 0_u64;
        while own_cpu_seconds().unwrap() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
