//! What goes wrong while clients are at work.

use std::sync::Arc;
use std::time::Duration;

use forebay::runtime::Runtime;
use forebay::runtime::simulated::SplitMix;
use forebay::runtime::simulated::network::{Host, Network, Told};
use forebay::runtime::simulated::node::Node;

use crate::server::Server;
use crate::setting::{Marks, Scenario};
use crate::world::{Common, begin_client};

/// Clients that vanish in one run at most: others take their places, who begin with all that they have to do.
const GONE_MAX: u64 = 2;

const HOUR_US: i64 = 3_600_000_000;

/// What trouble meets.
pub struct Trouble {
    pub common: Arc<Common>,
    pub world: Runtime,
    pub network: Network,
    pub server: Server,
    pub clients: Vec<(Node, Host)>,
    pub random: SplitMix,
    pub marks: Marks,
}

impl Trouble {
    fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(1000 * least + self.random.below(1000 * (most - least) + 1))
    }

    fn told(&mut self) -> Told {
        if self.random.below(2) == 0 { Told::Reset } else { Told::Nothing }
    }

    /// Something goes wrong.
    pub async fn happen(&mut self) {
        let wait = self.ms(1, 30);
        self.world.sleep(wait).await;
        let at = self.random.below(self.clients.len() as u64) as usize;
        let (node, host) = self.clients[at].clone();
        match self.common.setting.scenario {
            Scenario::Lives => {
                let (wait, crashes) = (self.ms(5, 30), self.random.below(2) == 0);
                self.world.sleep(wait).await;
                return self.restart(crashes.then_some(())).await;
            }
            Scenario::Leased => {
                let wait = self.ms(10, 50);
                self.world.sleep(wait).await;
                return self.cut();
            }
            Scenario::Late | Scenario::Faults => {}
        }
        match self.random.below(13) {
            0..=2 => {
                self.marks.pauses += 1;
                let length = self.ms(5, 120);
                self.common.note(|| format!("node {} pauses {length:?}", node.number()));
                node.pause_until(self.world.elapsed() + length);
            }
            3 => {
                self.marks.pauses += 1;
                let length = self.ms(1, 40);
                self.server.node.pause_until(self.world.elapsed() + length);
            }
            4 | 5 => {
                self.marks.jumps += 1;
                let node = if self.random.below(2) == 0 { &node } else { &self.server.node };
                node.jump(if self.random.below(2) == 0 { HOUR_US } else { -HOUR_US });
            }
            6 | 7 => {
                let length = self.ms(5, 400);
                match self.random.below(2) {
                    0 => self.network.close(&host, &self.server.host, length),
                    _ => self.network.close(&self.server.host, &host, length),
                }
            }
            8..=10 => self.cut(),
            11 if self.marks.gone < GONE_MAX => {
                self.marks.gone += 1;
                self.common.note(|| format!("node {} is killed", node.number()));
                if self.random.below(2) == 0 {
                    // Its machine is gone with it.
                    let told = self.told();
                    self.network.crash(&host, || told);
                }
                node.kill();
                begin_client(&self.common, &host);
            }
            _ => {
                let crashes = self.random.below(2) == 0;
                self.restart(crashes.then_some(())).await;
            }
        }
    }

    /// Some connections are cut.
    fn cut(&mut self) {
        for connection in self.network.connections() {
            if self.random.below(3) == 0 {
                let told = [self.told(), self.told()];
                self.common.note(|| format!("connection {connection} is cut, {told:?}"));
                self.network.cut(connection, told);
            }
        }
    }

    /// The server is killed, `crashes` with its machine, and starts again after a while.
    async fn restart(&mut self, crashes: Option<()>) {
        self.marks.kills += 1;
        self.common.note(|| format!("the server is killed, {crashes:?}"));
        let mut random = self.random.clone();
        let mut told = || if random.below(2) == 0 { Told::Reset } else { Told::Nothing };
        match crashes {
            Some(()) => {
                self.marks.crashes += 1;
                self.server.kill(&self.network, Some(&mut told));
            }
            None => self.server.kill(&self.network, None),
        }
        let away = self.ms(0, 40);
        self.world.sleep(away).await;
        self.server.start();
        self.common.note(|| "the server begins".to_owned());
    }

    /// The end of it: all ways are open.
    pub fn end(&mut self) {
        self.network.open_all();
    }
}
