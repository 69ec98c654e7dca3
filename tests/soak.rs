//! Load for a long time, with SIGKILL, a full disk and broken connections at random moments. Nothing acknowledged is
//! lost, nothing comes half, and the resident size stays flat. `make soak`; `FOREBAY_SOAK_SECONDS` sets how long,
//! `FOREBAY_SEED` repeats the choices. docs/reliability.md has figures.
//!
//! Each client owns its keys, so it knows what each may hold. That is the last value that was acknowledged, or one
//! whose acknowledgement it did not wait for or did not get. The latter may be applied late, as long as the server
//! that was sent it lives. It reads its keys all the time, through every fault.

#[path = "soak/client.rs"]
mod client;
mod common;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Counts, Scene, run};
use common::Connection;
use common::process::{Disk, Forebay};
use forebay_protocol::Reply;

const CLIENTS: u64 = 8;

/// The server's `--memory`, in MiB.
const MEMORY_MIB: u64 = 16;

const DISK_KIB: u64 = 64 * 1024;

/// A row of the table.
const ROW: Duration = Duration::from_secs(30);

/// What happened so far.
#[derive(Default)]
struct Faults {
    kills: u64,
    fills: u64,
    cuts: u64,
}

fn seconds() -> u64 {
    std::env::var("FOREBAY_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(30)
}

fn print_row(began: Instant, counts: &Counts, faults: &Faults, resident_mib: u64) {
    let [acknowledged, unknown, refused, checked] = counts.now();
    println!(
        "{:>6} s {acknowledged:>12} {unknown:>9} {refused:>9} {checked:>12} {:>6} {:>6} {:>6} {resident_mib:>6} MiB",
        began.elapsed().as_secs(),
        faults.kills,
        faults.fills,
        faults.cuts,
    );
}

/// Fills the disk for a while: with a file beside the store, then with documents, since the store's own file may have
/// room within.
fn fill_disk(forebay: &Forebay, pause: Duration) {
    let ballast = forebay.file("ballast");
    let mut file = std::fs::File::create(&ballast).expect("the server's disk can be reached");
    while file.write_all(&[7; 1 << 16]).is_ok() {}
    let mut connection = Connection::new(forebay.address);
    let value = "b".repeat(256 << 10);
    let mut bulk = 0;
    while connection.call(&["SET", &format!("bulk:{bulk}"), &value]) == Reply::Simple("OK".into()) {
        bulk += 1;
        assert!(bulk < 4 * DISK_KIB / 256, "a full disk takes everything");
    }
    std::thread::sleep(pause);
    drop(file);
    std::fs::remove_file(&ballast).expect("it can be removed");
    let began = Instant::now();
    for number in 0..=bulk {
        while !matches!(connection.call(&["DEL", &format!("bulk:{number}")]), Reply::Integer(_)) {
            assert!(began.elapsed() < Duration::from_secs(30), "there is room, and the server does not go on");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn fault(forebay: &mut Forebay, scene: &Scene, random: &mut fastrand::Rng, full_disks: bool, faults: &mut Faults) {
    match random.u8(..6) {
        0 | 1 => {
            scene.change_server(|| {
                forebay.restart();
                forebay.address
            });
            faults.kills += 1;
        }
        2 | 3 if full_disks => {
            fill_disk(forebay, Duration::from_millis(random.u64(200..2_500)));
            faults.fills += 1;
        }
        _ => {
            // All connections but the one that asks.
            Connection::new(forebay.address).call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            faults.cuts += 1;
        }
    }
}

#[test]
#[ignore = "takes as long as it is told; make soak"]
fn soak() {
    let seed =
        std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let memory = format!("{MEMORY_MIB}MiB");
    let arguments = ["--memory", &memory, "--durability", "always"];
    let disk = Disk::mount(DISK_KIB);
    let full_disks = disk.is_some();
    let mut forebay = match disk {
        Some(disk) => Forebay::start_on(disk, &arguments),
        None => Forebay::start("embedded", &arguments),
    };
    println!("FOREBAY_SEED={seed}, {CLIENTS} clients, disk that fills: {full_disks}");
    println!("  time  acknowledged   unknown   refused  reads right  kills   full   cuts   resident");
    let scene = Arc::new(Scene::new(forebay.address));
    let start = |number| {
        let scene = scene.clone();
        let random = fastrand::Rng::with_seed(seed.wrapping_add(number + 1));
        std::thread::spawn(move || run(number, &scene, random))
    };
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    let (began, whole) = (Instant::now(), Duration::from_secs(seconds()));
    let (mut faults, mut next_row, mut resident) = (Faults::default(), ROW, Vec::new());
    while began.elapsed() < whole && !clients.iter().any(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(random.u64(300..3_000)));
        resident.push(forebay.resident_bytes() >> 20);
        fault(&mut forebay, &scene, &mut random, full_disks, &mut faults);
        if began.elapsed() >= next_row {
            print_row(began, &scene.counts, &faults, resident.last().copied().unwrap_or_default());
            next_row += ROW;
        }
    }
    scene.end();
    let ended: Vec<_> = clients.into_iter().map(std::thread::JoinHandle::join).collect();
    assert!(ended.iter().all(Result::is_ok), "a client found something wrong; FOREBAY_SEED={seed}");
    print_row(began, &scene.counts, &faults, resident.last().copied().unwrap_or_default());
    let (first, second) = resident.split_at(resident.len() / 2);
    let most = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or_default();
    println!("resident at most {} MiB in the first half, {} MiB in the second", most(first), most(second));
    assert!(most(&resident) <= MEMORY_MIB * 11 / 10 + 64, "{} MiB resident", most(&resident));
    assert!(most(second) <= most(first) * 11 / 10 + 8, "the resident size grows");
    assert!(scene.counts.now()[0] > 0 && faults.kills + faults.cuts + faults.fills > 0);
    assert!(!forebay.log().contains("a bug"), "the server panicked");
}
