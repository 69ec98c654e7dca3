//! What an end reads is what the other wrote, in all conditions; what is told where a connection is cut.

use super::super::Ended;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Two nodes, and a connection between them.
struct Pair {
    simulation: Simulation,
    network: Network,
    client: Host,
    server: Host,
    nodes: [Node; 2],
}

fn pair(seed: u64, conditions: Conditions) -> Pair {
    let simulation = Simulation::new(seed);
    let nodes = [simulation.node(-5_000, 200), simulation.node(5_000, -200)];
    let network = Network::new(&simulation, conditions);
    let (client, server) = (network.host(&nodes[0]), network.host(&nodes[1]));
    Pair { simulation, network, client, server, nodes }
}

/// Both ends of a new connection, and who has accepted it.
async fn connected(client: &Host, server: &Host) -> (Stream, Stream, Listener) {
    let listener = server.listen("server:1");
    let stream = client.connect("server:1").await.unwrap();
    let taken = listener.accept().await;
    (stream, taken, listener)
}

async fn read(stream: &Stream) -> io::Result<Vec<u8>> {
    let mut bytes = [0; 100];
    loop {
        match stream.try_read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.readable().await,
            result => return result.map(|count| bytes[..count].to_vec()),
        }
    }
}

async fn read_all(stream: &Stream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match read(stream).await? {
            bytes if bytes.is_empty() => return Ok(all),
            bytes => all.extend(bytes),
        }
    }
}

async fn write_all(stream: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A server that answers each connection with what it was told, once it was told all.
async fn echo(listener: Listener, world: Runtime) {
    loop {
        let stream = listener.accept().await;
        world.spawn(async move {
            if let Ok(told) = read_all(&stream).await {
                let _ = write_all(&stream, &told).await;
            }
        });
    }
}

#[test]
fn what_is_written_arrives_in_order_and_late() {
    let mut all = Vec::new();
    for seed in (0..40).chain([0]) {
        let conditions = Conditions { room_bytes: 1 + seed as usize * 13, ..Conditions::default() };
        let Pair { simulation, network, client, server, .. } = pair(seed, conditions);
        let world = simulation.runtime();
        let ended = simulation.run(async move {
            world.spawn(echo(server.listen("server:1"), server.runtime()));
            let stream = client.connect("server:1").await.unwrap();
            let text: Vec<u8> = (0..2_000_u32).map(|n| (n * n % 251) as u8).collect();
            write_all(&stream, &text).await.unwrap();
            stream.shutdown();
            assert!(stream.try_write(b"x").is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
            assert_eq!(read_all(&stream).await.unwrap(), text);
            assert!(world.elapsed() >= Duration::from_micros(200), "four ways take four delays");
        });
        assert_eq!(ended, Ended::Done, "seed {seed}");
        all.push((simulation.log_hash(), network.counts()));
    }
    assert_eq!(all.last(), all.first(), "one seed is one run");
    let late: u64 = all.iter().map(|(_, counts)| counts.late).sum();
    let pieces: u64 = all.iter().map(|(_, counts)| counts.pieces).sum();
    assert!((10..60).contains(&(late * 1000 / pieces)), "{late} of {pieces} were late");
}

#[test]
fn connections_overtake_each_other() {
    let overtakes = |seed: u64| {
        let Pair { simulation, client, server, .. } = pair(seed, Conditions::default());
        let first = Arc::new(Mutex::new(None));
        let seen = first.clone();
        simulation.run(async move {
            let listener = server.listen("server:1");
            let streams = [client.connect("server:1").await.unwrap(), client.connect("server:1").await.unwrap()];
            let taken = [listener.accept().await, listener.accept().await];
            streams.iter().for_each(|stream| assert_eq!(stream.try_write(b"x").unwrap(), 1));
            let reads = [Box::pin(read(&taken[0])), Box::pin(read(&taken[1]))];
            let (_, which, _) = futures_util::future::select_all(reads).await;
            *first.lock().unwrap() = Some(which);
        });
        seen.lock().unwrap().take()
    };
    let seen: Vec<_> = (0..20).map(overtakes).collect();
    assert!(seen.contains(&Some(0)) && seen.contains(&Some(1)), "{seen:?}");
}

#[test]
fn one_way_is_closed_and_the_other_is_open() {
    let Pair { simulation, network, client, server, .. } = pair(1, Conditions::default());
    let world = simulation.runtime();
    let ended = simulation.run(async move {
        let (stream, taken, _listener) = connected(&client, &server).await;
        // What is under way waits too.
        stream.try_write(b"under way").unwrap();
        let began = world.elapsed();
        network.close(&client, &server, 500 * MS);
        stream.try_write(b" and late").unwrap();
        taken.try_write(b"back").unwrap();
        assert!(!read(&stream).await.unwrap().is_empty());
        assert!(world.elapsed() - began < 100 * MS);
        assert_eq!(taken.try_read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let connecting = client.connect("server:1").await;
        assert!(connecting.is_ok() && world.elapsed() - began >= 500 * MS);
        stream.shutdown();
        assert_eq!(read_all(&taken).await.unwrap(), b"under way and late");
        assert!(network.counts().stopped > 0);
    });
    assert_eq!(ended, Ended::Done);
}

#[test]
fn an_end_of_a_cut_connection_is_told_so_or_waits() {
    let Pair { simulation, network, client, server, .. } = pair(1, Conditions::default());
    let world = simulation.runtime();
    let ended = simulation.run(async move {
        let (stream, taken, _listener) = connected(&client, &server).await;
        stream.try_write(b"lost").unwrap();
        network.cut(stream.connection(), [Told::Nothing, Told::Reset]);
        assert_eq!(read(&taken).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(stream.try_write(b"lost too").unwrap(), 8);
        let read = Box::pin(read(&stream));
        let waited = futures_util::future::select(read, world.sleep(Duration::from_secs(60))).await;
        assert!(matches!(waited, futures_util::future::Either::Right(_)), "nothing comes");
        drop(waited);
        world.sleep(Duration::from_secs(60)).await;
        let kinds = [stream.try_read(&mut [0; 9]).unwrap_err().kind(), stream.try_write(b"x").unwrap_err().kind()];
        assert_eq!(kinds, [ErrorKind::ConnectionReset; 2], "its machine has asked");
        assert_eq!((network.counts().cut, network.counts().lost_bytes), (1, 4));
        drop((stream, taken));
        assert_eq!(network.connections(), [], "what none holds is gone");
    });
    assert_eq!(ended, Ended::Done);
}

#[test]
fn a_killed_node_closes_its_connections_and_is_refused() {
    let Pair { simulation, network, client, server, nodes } = pair(1, Conditions::default());
    let world = simulation.runtime();
    let ended = simulation.run(async move {
        server.runtime().spawn(echo(server.listen("server:1"), server.runtime()));
        let stream = client.connect("server:1").await.unwrap();
        world.sleep(100 * MS).await;
        nodes[1].kill();
        assert_eq!(read_all(&stream).await.unwrap(), b"", "its process ended: the machine says so");
        let refused = client.connect("server:1").await.err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
        server.runtime().spawn(echo(server.listen("server:1"), server.runtime()));
        let stream = client.connect("server:1").await.unwrap();
        network.crash(&server, || Told::Reset);
        nodes[1].kill();
        assert_eq!(read(&stream).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
    assert_eq!(ended, Ended::Done);
}
