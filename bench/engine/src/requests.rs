//! Recorded requests.

use std::path::Path;

use forebay_trace::TraceError;

/// The keys of the first requests of a trace, in any format that the simulator reads.
pub fn read(file: &Path, most: usize) -> Result<Vec<u64>, TraceError> {
    let mut records = forebay_trace::open(file, None)?;
    let mut batch = Vec::new();
    let mut requests = Vec::new();
    while requests.len() < most && records.fill_requests(&mut batch, 4096)? {
        requests.extend(batch.drain(..).map(|(key, _)| key));
    }
    requests.extend(batch.drain(..).map(|(key, _)| key));
    requests.truncate(most);
    Ok(requests)
}
