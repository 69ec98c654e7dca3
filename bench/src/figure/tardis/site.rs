//! What the figures of an outage stand on: a PostgreSQL of their own, tables with data, forebay in front, load.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;
use forebay_workload::client::{Client, Says};
use forebay_workload::live::bg::Network;
use forebay_workload::live::{self, Parameters, Progress, Report, RunOptions, Silent, Stop, Target, Workload};
use tokio::runtime::Runtime;

use super::server::{self, Server};
use crate::figure::Failed;
use crate::program::{Program, free_port};
use crate::replies::Protocol;

/// Connections that fill and warm.
const HANDS: usize = 8;

/// Commands of one exchange of those.
const PIPELINE: usize = 200;

/// Longest wait for a mode.
const MODE_TIME_MAX: Duration = Duration::from_secs(600);

/// By then forebay has looked for what others write for the first time, at which it gives up what is cached.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Which keys are rows, of BG; as `docs/bench-workloads.md` has them.
const BG_MAPS: [&str; 7] = [
    "member:{id} -> bg_members(userid)",
    "friends:{id} -> bg_friends(userid).friends as list",
    "pending:{id} -> bg_pending(userid).pending as list",
    "wall:{id} -> bg_walls(userid).resources as list",
    "resource:{rid} -> bg_resources(rid)",
    "comments:{rid} -> bg_threads(rid).comments as list",
    "comment:{rid}:{mid} -> bg_comments(rid, mid) delete=row",
];

const YCSB_MAPS: [&str; 1] = ["usertable:{id} -> usertable(id)"];

/// A PostgreSQL, and a runtime for load.
pub(super) struct Site {
    /// The database's server.
    pub server: Server,
    /// Where load runs.
    pub runtime: Runtime,
}

/// A database with tables and data.
#[derive(Clone)]
pub(super) struct Base {
    /// Its name.
    pub database: String,
    /// Its URL.
    pub url: String,
    /// Which keys are which rows.
    pub maps: Vec<&'static str>,
    /// Records of its workload.
    pub records: u64,
    /// The workload's name.
    name: &'static str,
    /// It knows what it has done here; `None` of a database without one.
    workload: Option<Arc<dyn Workload>>,
    /// Whether its verdicts count: not where others write what it reads.
    pub judged: bool,
}

/// How much load.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub connections: u32,
    /// Actions per second; `None`: as fast as replies come.
    pub rate: Option<f64>,
    pub seconds: f64,
}

/// A run that was begun.
pub(super) type Running = tokio::task::JoinHandle<Result<Report, String>>;

/// The program, serving.
pub(super) struct Forebay {
    /// Where.
    pub address: String,
    _program: Program,
    _folder: tempfile::TempDir,
}

/// The program, built beside this one.
fn binary() -> Result<PathBuf, Failed> {
    let path = std::env::current_exe()?.with_file_name("forebay");
    match path.exists() {
        true => Ok(path),
        false => Err(format!("no {}; build it first: make figure does", path.display()).into()),
    }
}

impl Site {
    pub fn new() -> Result<Site, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Site { server: Server::start_measured(), runtime })
    }

    /// The tables of a live workload, loaded.
    pub fn loaded(&self, workload: &'static str, records: u64) -> Result<Base, Failed> {
        let maps = if workload.starts_with("bg") { BG_MAPS.to_vec() } else { YCSB_MAPS.to_vec() };
        let made = made(workload, records)?;
        let base = Base { name: workload, records, workload: Some(made.clone()), ..self.empty(maps) };
        let load = Load { connections: 8, rate: None, seconds: 0.0 };
        let options = load.options(workload, Target::direct(&base.url, None)?);
        self.runtime.block_on(live::load(&made, &options, &silent(), &Stop::default()))?;
        self.server.try_sql(&base.database, "VACUUM ANALYZE")?;
        self.initialised(base)
    }

    /// A database for forebay's generic table.
    pub fn generic(&self) -> Result<Base, Failed> {
        self.initialised(self.empty(Vec::new()))
    }

    fn empty(&self, maps: Vec<&'static str>) -> Base {
        let database = self.server.database();
        let url = self.server.url(&database);
        Base { database, url, maps, records: 0, name: "", workload: None, judged: true }
    }

    fn initialised(&self, base: Base) -> Result<Base, Failed> {
        let mut command = std::process::Command::new(binary()?);
        let output = command.args(["store", "init", "--store", &base.url]).args(base.mapped()).output()?;
        match output.status.success() {
            true => Ok(base),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    }

    /// The program in front of `base`, with `more` settings.
    pub fn serve(&self, base: &Base, more: &[&str]) -> Result<Forebay, Failed> {
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let (listen, journal) = (format!("127.0.0.1:{port}"), folder.path().join("journal").display().to_string());
        // A machine that is busy must not be taken for a database that hangs.
        let fixed = ["serve", "--listen", &listen, "--http", "off", "--store", &base.url, "--journal", &journal];
        let patient = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];
        let mut arguments: Vec<String> = fixed.iter().chain(&patient).map(|word| (*word).to_owned()).collect();
        let set = |name: &str| more.contains(&name);
        for (name, value) in [("--memory", "1GiB"), ("--outage-bytes-max", "1GiB")] {
            if !set(name) {
                arguments.extend([name.to_owned(), value.to_owned()]);
            }
        }
        arguments.extend(base.mapped().into_iter().chain(more.iter().map(|word| (*word).to_owned())));
        let program = Program::start(&binary()?, &arguments, None, port, Protocol::Resp)?;
        std::thread::sleep(FIRST_LOOK);
        Ok(Forebay { address: listen, _program: program, _folder: folder })
    }

    /// Begins a run on what is in `base`; its report comes from the handle.
    pub fn begin(&self, base: &Base, load: Load, target: Target, stop: &Stop) -> Running {
        let (base, stop) = (base.clone(), stop.clone());
        self.runtime.spawn(async move {
            let workload = base.workload.ok_or("this database has no workload")?;
            let report = live::run(&workload, &load.options(base.name, target), &silent(), &stop).await;
            let report = report.map_err(|error| error.to_string())?;
            let breach = report.breaches().next().cloned();
            match (breach, &report.not_drained) {
                (Some(breach), _) if base.judged => Err(format!("{}: {breach:?}", report.to_table())),
                (_, Some(why)) => Err(format!("{}: not carried over: {why}", base.name)),
                _ => Ok(report),
            }
        })
    }

    /// A whole run.
    pub fn run(&self, base: &Base, load: Load, target: Target) -> Result<Report, Failed> {
        let running = self.begin(base, load, target, &Stop::default());
        self.ended(running)
    }

    /// The report of a run that was begun.
    pub fn ended(&self, running: Running) -> Result<Report, Failed> {
        Ok(self.runtime.block_on(running)??)
    }

    /// Stops the database as a crash would.
    pub fn stop(&self) {
        self.server.stop(server::Stop::Immediate);
    }

    /// Sends `commands` over a few connections, pipelined; none may be refused.
    pub fn send(&self, address: &str, commands: Vec<Vec<String>>) -> Result<(), Failed> {
        let commands = Arc::new(commands);
        self.runtime.block_on(async {
            let hands: Vec<_> =
                (0..HANDS).map(|hand| tokio::spawn(send(address.to_owned(), commands.clone(), hand))).collect();
            for hand in hands {
                hand.await??;
            }
            Ok(())
        })
    }

    /// Reads all that `base` holds, so that it is cached.
    pub fn warm(&self, base: &Base, address: &str) -> Result<(), Failed> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let commands = (0..base.records).flat_map(|id| match base.maps == YCSB_MAPS {
            true => vec![words(&["HGETALL", &row(id)])],
            false => {
                let lists = ["friends", "pending", "wall"];
                let lists = lists.map(|list| words(&["LRANGE", &format!("{list}:{id}"), "0", "-1"]));
                [vec![words(&["HGETALL", &format!("member:{id}")])], lists.to_vec()].concat()
            }
        });
        self.send(address, commands.collect())?;
        // So that a crash of the database has little to replay, whatever came before.
        self.server.try_sql(&base.database, "CHECKPOINT")?;
        Ok(())
    }

    /// Waits for a mode; how long that took.
    pub fn reaches(&self, address: &str, mode: &str) -> Result<Duration, Failed> {
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut client = Client::connect(address).await?;
            loop {
                let state = state(&mut client).await?;
                if state.mode == mode && (mode != "normal" || state.figure("pending") == 0) {
                    return Ok(began.elapsed());
                }
                if began.elapsed() > MODE_TIME_MAX {
                    return Err(format!("mode {mode} is not reached: {state:?}").into());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// CACHE STATE.
    pub fn state(&self, address: &str) -> Result<State, Failed> {
        self.runtime.block_on(async { Ok(state(&mut Client::connect(address).await?).await?) })
    }
}

impl Base {
    /// `--map` of each mapping.
    fn mapped(&self) -> Vec<String> {
        self.maps.iter().flat_map(|map| ["--map".to_owned(), (*map).to_owned()]).collect()
    }
}

impl Load {
    fn options(&self, workload: &str, target: Target) -> RunOptions {
        RunOptions {
            workload: workload.to_owned(),
            target,
            connections: self.connections,
            duration: Duration::from_secs_f64(self.seconds),
            rate: self.rate,
            seed: 1,
            reply_time_max: Duration::from_secs(20),
            drain_time_max: MODE_TIME_MAX,
        }
    }
}

/// What forebay says of its outage.
#[derive(Debug, Default)]
pub(super) struct State {
    pub mode: String,
    figures: HashMap<String, i64>,
}

impl State {
    pub fn figure(&self, name: &str) -> i64 {
        self.figures.get(name).copied().unwrap_or(0)
    }
}

async fn state(client: &mut Client) -> Result<State, forebay_workload::client::ClientError> {
    let reply = client.demand(&["CACHE", "STATE"]).await?;
    let mut state = State::default();
    for pair in reply.items().unwrap_or_default().chunks(2) {
        let [name, value] = pair else { continue };
        let text = |reply: &Reply| String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned();
        match value {
            Reply::Integer(number) => drop(state.figures.insert(text(name), *number)),
            value if text(name) == "mode" => state.mode = text(value),
            _ => {}
        }
    }
    Ok(state)
}

async fn send(address: String, commands: Arc<Vec<Vec<String>>>, hand: usize) -> Result<(), String> {
    let mut client = Client::connect(&address).await.map_err(|error| error.to_string())?;
    for commands in commands.chunks(PIPELINE).skip(hand).step_by(HANDS) {
        commands.iter().for_each(|command| client.queue(command));
        for reply in client.replies().await.map_err(|error| error.to_string())? {
            if let Some(text) = reply.error_text() {
                return Err(text.to_owned());
            }
        }
    }
    Ok(())
}

fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

/// A workload, with the network that BG has by default.
fn made(workload: &str, records: u64) -> Result<Arc<dyn Workload>, Failed> {
    let record = live::record(workload).ok_or_else(|| format!("no workload {workload}"))?;
    let network = Network::default();
    let parameters = Parameters { records, connections: 20, seed: 1, transactions: false, hashed: false, network };
    Ok((record.new)(&parameters)?)
}

/// The key of one of YCSB's rows.
pub(super) fn row(number: u64) -> String {
    format!("usertable:user{number:012}")
}
