//! Single rows through forebay and without it, in a closed loop, rows chosen by a Zipfian law as YCSB does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fastrand::Rng;
use forebay_bench::figures::of;
use forebay_bench::program::{Program, free_port};
use forebay_bench::replies::Protocol;
use forebay_bench::report::Report;
use tokio_postgres::NoTls;

use crate::server::Server;
use crate::{Failed, Options, database_seconds_since, database_ticks, percentiles, runtime};

/// YCSB's constant.
const THETA: f64 = 0.99;

/// Fields of a row, of 100 B each, as in YCSB.
const FIELDS: usize = 10;

/// What is asked.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// Of 100 requests.
    reads: u8,
    zipfian: bool,
}

const MIXES: [Mix; 3] = [
    Mix { name: "YCSB B: 95 % reads", reads: 95, zipfian: true },
    Mix { name: "YCSB C: reads only", reads: 100, zipfian: true },
    Mix { name: "as pgbench -S: reads only, uniform", reads: 100, zipfian: false },
];

/// What one run came to.
#[derive(Default)]
struct Run {
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    /// CPU of the database, us per request.
    database_us: f64,
}

pub fn measure(options: &Options, server: &Server, report: &mut Report) -> Result<(), Failed> {
    let database = server.database();
    let columns: Vec<String> = (0..FIELDS).map(|field| format!("field{field} text NOT NULL")).collect();
    server.sql(&database, &format!("CREATE TABLE usertable (id bigint PRIMARY KEY, {})", columns.join(", ")));
    let values: Vec<String> = (0..FIELDS).map(|field| format!("repeat(chr(97 + {field}), 100)")).collect();
    let fill = format!(
        "INSERT INTO usertable SELECT n, {} FROM generate_series(0, {}) AS n",
        values.join(", "),
        options.rows - 1
    );
    server.sql(&database, &fill);
    server.sql(&database, "VACUUM ANALYZE usertable");
    let port = free_port()?;
    let map = "user:{id} -> usertable(id)";
    let url = server.url(&database);
    run_setup(options, &url, map)?;
    let listen = format!("127.0.0.1:{port}");
    // A machine that is busy must not be taken for a database that hangs.
    let patient = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];
    let arguments = ["serve", "--listen", &listen, "--http", "off", "--store", &url, "--map", map, "--memory", "1GiB"];
    let arguments = [&arguments[..], &patient[..]].concat();
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let program = Program::start(&options.forebay, &arguments, None, port, Protocol::Resp)?;
    report.line("#### Reads, cached and not\n");
    report.line(&format!(
        "{} rows of {FIELDS} fields of 100 B; {} connections, one request at a time on each, {} s; forebay's cache \
         holds all of them and is warm, the database's buffers hold all of them too.\n",
        options.rows, options.connections, options.seconds
    ));
    report.columns(&["what", "by", "thousand/s", "p50 us", "p99 us", "database's CPU, us per request"]);
    warm(options, port)?;
    for mix in MIXES {
        let (mut cached, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..options.runs {
            cached.push(through_forebay(options, server, port, mix)?);
            direct.push(directly(options, server, &url, mix)?);
        }
        for (by, runs) in [("forebay", &cached), ("PostgreSQL", &direct)] {
            report.row(&[
                mix.name.into(),
                by.into(),
                of(runs, |run| run.per_second).thousands(),
                of(runs, |run| run.p50_us as f64).plain(0),
                of(runs, |run| run.p99_us as f64).plain(0),
                of(runs, |run| run.database_us).plain(1),
            ]);
        }
    }
    report.line("");
    drop(program);
    Ok(())
}

fn run_setup(options: &Options, url: &str, map: &str) -> Result<(), Failed> {
    let arguments = ["store", "init", "--store", url, "--map", map];
    let output = std::process::Command::new(&options.forebay).args(arguments).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}

/// YCSB's generator of skewed numbers (Gray et al., SIGMOD 1994), spread over all by a hash.
struct Zipfian {
    count: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(count: usize) -> Zipfian {
        let zeta = |n: usize| (1..=n).map(|rank| 1.0 / (rank as f64).powf(THETA)).sum::<f64>();
        let (zeta, zeta_2) = (zeta(count), zeta(2));
        let count = count as f64;
        Zipfian { count, zeta, eta: (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - zeta_2 / zeta) }
    }

    fn next(&self, rng: &mut Rng) -> u64 {
        let u = rng.f64();
        let uz = u * self.zeta;
        let rank = match uz {
            uz if uz < 1.0 => 0.0,
            uz if uz < 1.0 + 0.5f64.powf(THETA) => 1.0,
            _ => self.count * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA)),
        };
        (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.count as u64
    }
}

fn choose(mix: Mix, zipfian: &Zipfian, rng: &mut Rng) -> (i64, bool) {
    let id = if mix.zipfian { zipfian.next(rng) } else { rng.u64(0..zipfian.count as u64) };
    (id as i64, rng.u8(0..100) < mix.reads)
}

/// A connection that speaks RESP2.
struct Resp(BufReader<TcpStream>);

impl Resp {
    fn connect(port: u16) -> Result<Resp, Failed> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Resp(BufReader::new(stream)))
    }

    fn ask(&mut self, words: &[&str]) -> Result<usize, Failed> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.0.get_mut().write_all(request.as_bytes())?;
        self.reply()
    }

    /// How many elements the reply has.
    fn reply(&mut self) -> Result<usize, Failed> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let number = line.get(1..).unwrap_or_default().trim().parse::<usize>();
        match (line.as_bytes().first(), number) {
            (Some(b'*'), Ok(count)) => {
                for _ in 0..count {
                    self.reply()?;
                }
                Ok(count)
            }
            (Some(b'$'), Ok(bytes)) => {
                let mut text = vec![0; bytes + 2];
                self.0.read_exact(&mut text)?;
                Ok(1)
            }
            (Some(b':' | b'+'), _) => Ok(1),
            _ => Err(format!("forebay answers {line:?}").into()),
        }
    }
}

fn warm(options: &Options, port: u16) -> Result<(), Failed> {
    let mut resp = Resp::connect(port)?;
    for id in 0..options.rows {
        resp.ask(&["HGETALL", &format!("user:{id}")])?;
    }
    Ok(())
}

/// Runs `client` on every connection for the time of a run.
fn clients(
    options: &Options,
    server: &Server,
    client: impl Fn(Instant, u64) -> Result<Vec<u64>, Failed> + Sync,
) -> Result<Run, Failed> {
    let before = database_ticks(server);
    let began = Instant::now();
    let until = began + Duration::from_secs(options.seconds);
    let answers: Result<Vec<Vec<u64>>, String> = std::thread::scope(|scope| {
        let client = &client;
        let run = |number| scope.spawn(move || client(until, number).map_err(|error| error.to_string()));
        let threads: Vec<_> = (0..options.connections as u64).map(run).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?).collect()
    });
    let micros: Vec<u64> = answers?.concat();
    let requests = micros.len() as f64;
    let (p50_us, p99_us) = percentiles(micros);
    let database_us = database_seconds_since(server, &before) * 1e6 / requests;
    Ok(Run { per_second: requests / began.elapsed().as_secs_f64(), p50_us, p99_us, database_us })
}

fn through_forebay(options: &Options, server: &Server, port: u16, mix: Mix) -> Result<Run, Failed> {
    let zipfian = Zipfian::new(options.rows);
    clients(options, server, |until, number| {
        let (mut resp, mut rng) = (Resp::connect(port)?, Rng::with_seed(number));
        let (value, mut micros) = ("y".repeat(100), Vec::new());
        while Instant::now() < until {
            let (id, reads) = choose(mix, &zipfian, &mut rng);
            let (key, began) = (format!("user:{id}"), Instant::now());
            let found = match reads {
                true => resp.ask(&["HGETALL", &key])? == 2 * (FIELDS + 1),
                false => resp.ask(&["HSET", &key, "field0", &value])? == 1,
            };
            micros.push(began.elapsed().as_micros() as u64);
            if !found {
                return Err(format!("{key} is not as it should be").into());
            }
        }
        Ok(micros)
    })
}

fn directly(options: &Options, server: &Server, url: &str, mix: Mix) -> Result<Run, Failed> {
    let zipfian = Zipfian::new(options.rows);
    let runtime = runtime()?;
    // The backends live until the CPU time is read.
    let mut connections = Vec::new();
    for _ in 0..options.connections {
        let connected = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
        runtime.spawn(connected.1);
        connections.push(connected.0);
    }
    clients(options, server, |until, number| {
        let (client, mut rng) = (&connections[number as usize], Rng::with_seed(number));
        let (value, mut micros) = ("y".repeat(100), Vec::new());
        runtime.block_on(async {
            let select = client.prepare("SELECT * FROM usertable WHERE id = $1").await?;
            let update = client.prepare("UPDATE usertable SET field0 = $2 WHERE id = $1").await?;
            while Instant::now() < until {
                let (id, reads) = choose(mix, &zipfian, &mut rng);
                let began = Instant::now();
                match reads {
                    true => client.query_one(&select, &[&id]).await.map(|_| ())?,
                    false => client.execute(&update, &[&id, &value]).await.map(|_| ())?,
                }
                micros.push(began.elapsed().as_micros() as u64);
            }
            Ok(micros)
        })
    })
}
