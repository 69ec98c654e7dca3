//! What else the machine does.

/// The average numbers of threads that ran or waited to run in the last 1, 5 and 15 minutes.
pub fn load_averages() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// That of the last minute.
pub fn load_average() -> String {
    load_averages().split(' ').next().unwrap_or_default().to_owned()
}

/// Processors that this program may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
