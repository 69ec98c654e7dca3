//! One run: a server, clients with two sessions each, trouble, and the judgement at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::mutation;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::network::{Host, Network};
use forebay::runtime::simulated::node::Node;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::embedded::Durability;
use forebay::store::forgetful::Forgetful;
use forebay_client::{Client, CommitId, Leases, Level, Options, Outcome, Statistics};
use forebay_workload::checkers::{self, Event};
use futures_channel::oneshot;

use crate::server::{ADDRESS, Kept, Server};
use crate::setting::{Marks, Scenario, Setting, clock, leases};
use crate::tasks::{self, Fate, Notes, Worker};
use crate::trouble::Trouble;
use crate::{brief, judge, leased, lives};

/// Transactions of one session.
const STEPS: u64 = 14;
/// What was sent before has arrived by then, or is lost, and both ends of connections that were cut know of it. The
/// server remembers outcomes for longer.
const QUIET: Duration = Duration::from_secs(200);
/// How often one asks at once what became of a commit.
const ASKED_AT_ONCE: u64 = 3;
/// Steps of other tasks that come in between where threads would.
const BETWEEN_STEPS_MAX: u64 = 3;
/// Numbers of the sessions of commits that were unknown until the end: each stands alone.
const ALONE: u32 = 1 << 16;
/// For drift: a bound is kept on the client's clock.
const SLACK: Duration = Duration::from_micros(50);

/// What all clients of a run share.
pub struct Common {
    pub setting: Setting,
    pub notes: Notes,
    pub levels: Mutex<BTreeMap<u32, Level>>,
    pub statistics: Mutex<Vec<Statistics>>,
    /// Transactions whose outcome is to be asked for at the end.
    unsure: Mutex<Vec<(Event, CommitId)>>,
    /// Of those so many were commits, and so many were not.
    resolved: Mutex<[u64; 2]>,
    /// Clients that are at work.
    workers: Mutex<Vec<oneshot::Receiver<()>>>,
    /// How many there were.
    begun: AtomicU32,
    /// The server's present life.
    pub life: Arc<AtomicU64>,
    /// When documents with an expiry are over, by the number that they hold.
    pub over: Mutex<BTreeMap<u64, Duration>>,
    /// When the leased document held which number.
    pub held: Mutex<leased::Held>,
    pub world: Runtime,
    /// Writes that were surely done in the life that they name.
    pub certain: Mutex<BTreeSet<u64>>,
}

/// One run of `seed`.
pub fn run(seed: u64, scenario: Scenario) -> Marks {
    let mut random = SplitMix::new(seed ^ 0x006c_6962);
    let simulation = Simulation::new(seed);
    let world = simulation.runtime();
    let setting = Setting::draw(seed, scenario, &mut random);
    let network = Network::new(&simulation, setting.network);
    let mut node = || {
        let (offset_us, drift_ppm) = clock(&mut random);
        simulation.node(offset_us, drift_ppm)
    };
    let (on_server, operator) = (node(), node());
    let clients = (0..setting.clients).map(|_| node()).map(|node| (node.clone(), network.host(&node)));
    let clients: Vec<(Node, Host)> = clients.collect();
    let kept = match scenario {
        Scenario::Faults => Kept::Disk(Forgetful::new(), Durability::Always),
        Scenario::Lives if seed % 2 == 1 => Kept::Disk(Forgetful::new(), Durability::Interval { sync_ms: 20 }),
        Scenario::Lives if seed % 4 == 2 => Kept::NothingClockBack,
        _ => Kept::Nothing,
    };
    let server = Server::new(on_server, &network, kept, SplitMix::new(random.draw()));
    let clock = world.clone();
    let common = Arc::new(Common {
        setting,
        notes: Notes::new(move || clock.elapsed().as_nanos() as u64),
        levels: Mutex::default(),
        statistics: Mutex::default(),
        unsure: Mutex::default(),
        resolved: Mutex::default(),
        workers: Mutex::default(),
        begun: AtomicU32::new(0),
        life: server.life.clone(),
        certain: Mutex::default(),
        over: Mutex::default(),
        held: Mutex::default(),
        world: world.clone(),
    });
    let random = SplitMix::new(random.draw());
    let (marks, counts) = (Marks::default(), network.clone());
    let operator = network.host(&operator);
    let trouble = Trouble { common: common.clone(), world, network, server, clients, random, marks };
    let (sender, mut ran) = oneshot::channel();
    let main = go(common.clone(), trouble, operator, sender);
    let others = simulation.others();
    mutation::interleave_with(Some(Box::new(move || others.run(BETWEEN_STEPS_MAX))));
    let ended = simulation.run(main);
    mutation::interleave_with(None);
    assert_eq!(ended, Ended::Done, "a client waits for ever");
    let mut marks: Marks = ran.try_recv().ok().flatten().expect("the run is done");
    marks.log = simulation.log_hash();
    marks.count_network(&counts.counts());
    common.statistics.lock().unwrap().iter().for_each(|of| marks.count(of));
    [marks.resolved, marks.undone] = *common.resolved.lock().unwrap();
    common.judge();
    marks
}

/// All that happens in one run.
async fn go(common: Arc<Common>, mut trouble: Trouble, operator: Host, done: oneshot::Sender<Marks>) {
    let scenario = common.setting.scenario;
    trouble.server.start();
    let client = connect(&common, &operator, Leases::Endless).await;
    tasks::prepare(&client).await.expect("the keys are set");
    let working = Arc::new(AtomicBool::new(true));
    trouble.clients.iter().for_each(|(_, host)| begin_client(&common, host));
    let world = trouble.world.clone();
    let (is_working, over) = (working.clone(), oneshot::channel());
    world.spawn(async move {
        while is_working.load(Ordering::SeqCst) && scenario != Scenario::Late {
            trouble.happen().await;
        }
        trouble.end();
        let _ = over.0.send(trouble);
    });
    common.workers_done().await;
    working.store(false, Ordering::SeqCst);
    let trouble = over.1.await.expect("trouble ends");
    common.workers_done().await;
    world.sleep(QUIET).await;
    if scenario != Scenario::Lives {
        common.settle(&client).await;
        tasks::last_look(&client.session().at(Level::Strict), &common.notes).await;
    }
    let _ = done.send(trouble.marks);
}

/// A client begins on a node: the first, or one after a former client there was killed.
pub fn begin_client(common: &Arc<Common>, host: &Host) {
    let number = common.begun.fetch_add(1, Ordering::SeqCst);
    let (sender, receiver) = oneshot::channel::<()>();
    common.workers.lock().unwrap().push(receiver);
    let (common, on) = (common.clone(), host.clone());
    host.runtime().spawn(async move {
        match common.setting.scenario {
            Scenario::Lives => lives::at_work(common, on, number).await,
            Scenario::Leased => leased::at_work(common, on, number).await,
            _ => at_work(common, on, number).await,
        }
        drop(sender);
    });
}

/// Connects, however long it takes.
pub async fn connect(common: &Common, host: &Host, leases: Leases) -> Client {
    loop {
        let options = Options::new(ADDRESS).simulated(host.clone()).cache_bytes(1 << 20).leases(leases);
        match options.reply_time_max(common.setting.reply_time_max).connect().await {
            Ok(client) => return client,
            Err(_) => host.runtime().sleep(Duration::from_millis(5)).await,
        }
    }
}

/// One client: its sessions share copies and connections.
async fn at_work(common: Arc<Common>, host: Host, number: u32) {
    let mut random = SplitMix::new(common.setting.seed.wrapping_mul(61).wrapping_add(number.into()));
    let client = connect(&common, &host, leases(&mut random)).await;
    let mut sessions = Vec::new();
    for session in 0..common.setting.sessions {
        let (number, level) = (2 + number * common.setting.sessions + session, common.setting.level(&mut random));
        common.levels.lock().unwrap().insert(number, level);
        let worker = Worker::new(client.session().at(level), number, level, common.setting.seed);
        let (sender, receiver) = oneshot::channel::<()>();
        let (common, runtime) = (common.clone(), host.runtime());
        host.runtime().spawn(async move {
            at_session(&common, &runtime, worker).await;
            drop(sender);
        });
        sessions.push(receiver);
    }
    for session in sessions {
        let _ = session.await;
    }
    common.statistics.lock().unwrap().push(client.statistics());
}

async fn at_session(common: &Common, runtime: &Runtime, mut worker: Worker) {
    for _ in 0..STEPS {
        if common.setting.scenario == Scenario::Late && worker.random.u8(..3) == 0 {
            brief::step(common, &mut worker).await;
        } else if let Some((event, fate)) = worker.step(&common.notes).await {
            common.end(&worker.client, runtime, event, fate).await;
        }
        if worker.random.bool() {
            runtime.sleep(Duration::from_micros(worker.random.u64(..3000))).await;
        }
    }
}

impl Common {
    /// With FOREBAY_LOG, says what happens when.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if std::env::var_os("FOREBAY_LOG").is_some() {
            eprintln!("{:>12?} {}", self.world.elapsed(), what());
        }
    }

    /// Waits until all clients have ended. A client may begin during the wait.
    async fn workers_done(&self) {
        loop {
            let worker = self.workers.lock().unwrap().pop();
            let Some(worker) = worker else { return };
            let _ = worker.await;
        }
    }

    /// Enters a transaction into the history; one of unknown outcome is asked for, now or at the end.
    async fn end(&self, client: &Client, runtime: &Runtime, event: Event, fate: Fate) {
        self.note(|| format!("{event}: {fate:?}"));
        let id = match fate {
            Fate::Committed => return self.notes.enter(event),
            Fate::Failed(why) => {
                return self.notes.enter(Event { outcome: checkers::Outcome::Failed(why), ..event });
            }
            Fate::Unknown(id) => id,
        };
        for _ in 0..ASKED_AT_ONCE {
            let outcome = client.outcome(id).await;
            self.note(|| format!("{id}: {outcome:?}"));
            if let Ok(Outcome::Committed(_)) = outcome {
                self.resolved.lock().unwrap()[0] += 1;
                return self.notes.enter(Event { completed: self.notes.tick(), ..event });
            }
            runtime.sleep(Duration::from_millis(5)).await;
        }
        // Its request may be on its way still.
        self.unsure.lock().unwrap().push((event, id));
    }

    /// Asks what became of transactions, when nothing is on its way any more: then it is known for certain.
    async fn settle(&self, client: &Client) {
        let unsure = std::mem::take(&mut *self.unsure.lock().unwrap());
        for ((event, id), number) in unsure.into_iter().zip(ALONE..) {
            let outcome = client.outcome(id).await;
            self.note(|| format!("{id}: {outcome:?}"));
            let (is_there, outcome) = match outcome {
                Ok(Outcome::Committed(_)) => (true, checkers::Outcome::Committed),
                Ok(Outcome::NotKnown) => (false, checkers::Outcome::Failed("not known".into())),
                other => panic!("{id} at the end: {other:?}"),
            };
            self.resolved.lock().unwrap()[usize::from(!is_there)] += 1;
            // Its session went on without knowing of it.
            self.notes.enter(Event { client: number, completed: self.notes.tick(), outcome, ..event });
        }
    }

    /// Judges the lists, each transaction by its level. All else was judged as it was seen.
    fn judge(&self) {
        let (history, levels) = (self.notes.history(), self.levels.lock().unwrap());
        let level_of = |client: u32| match levels.get(&client).copied().unwrap_or(Level::Strict) {
            Level::Bounded(most) => Level::Bounded(most + SLACK),
            level => level,
        };
        judge::at_levels(&history, level_of).unwrap_or_else(|violation| panic!("{violation}"));
        let has_appended = history.iter().any(judge::has_appended);
        if let (Some(level), Scenario::Late, true) = (self.setting.level, self.setting.scenario, has_appended) {
            judge::finds_what_is_planted(&history, level);
        }
    }
}
