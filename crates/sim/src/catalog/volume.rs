//! How much a trace asks for, and how much of it a sample of its keys does.

use forebay_trace::{Kind, Record};

/// Requests and their bytes, of the whole trace and of its sample.
#[derive(Clone, Copy, Debug, Default)]
struct Volume {
    requests: u64,
    bytes: u64,
    sampled_requests: u64,
    sampled_bytes: u64,
}

/// What is asked for, and what of it by reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Volumes {
    all: Volume,
    reads: Volume,
}

/// By how much a sample's share of the requests, and of their bytes, misses its share of the keys: what it should have
/// for each that it has. A sample without the most popular keys has too few, mostly too few hits; one with them too
/// many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// Requests that the sample stands for, for each of its own.
    pub requests: f64,
    /// Bytes that it stands for, for each of its own.
    pub bytes: f64,
}

impl Volume {
    fn add(&mut self, size: u64, sampled: bool) {
        self.requests += 1;
        self.bytes += size;
        self.sampled_requests += u64::from(sampled);
        self.sampled_bytes += if sampled { size } else { 0 };
    }
}

impl Volumes {
    pub fn meet(&mut self, record: &Record, sampled: bool) {
        let size = u64::from(record.size.unwrap_or(1).max(1));
        match record.kind {
            Kind::Read => {
                self.reads.add(size, sampled);
                self.all.add(size, sampled);
            }
            Kind::Write | Kind::Demote => self.all.add(size, sampled),
            Kind::Delete | Kind::Prefetch | Kind::Committed | Kind::Aborted => {}
        }
    }

    /// For a sample of this share of the keys; none where nothing of it counts.
    pub fn adjustment(&self, rate: f64, reads_only: bool) -> Option<Adjustment> {
        let of = if reads_only { self.reads } else { self.all };
        let per = |whole: u64, sampled: u64| rate * whole as f64 / sampled as f64;
        (rate < 1.0 && of.sampled_requests > 0).then(|| Adjustment {
            requests: per(of.requests, of.sampled_requests),
            bytes: per(of.bytes, of.sampled_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_its_share() {
        let mut volumes = Volumes::default();
        let record = |kind, size| Record { kind, size: Some(size), ..Record::default() };
        // Half of the keys have a tenth of the reads, and all that is written.
        (0..90).for_each(|_| volumes.meet(&record(Kind::Read, 10), false));
        (0..10).for_each(|_| volumes.meet(&record(Kind::Read, 30), true));
        (0..20).for_each(|_| volumes.meet(&record(Kind::Write, 5), true));
        volumes.meet(&record(Kind::Prefetch, 5), true);
        assert_eq!(volumes.adjustment(0.5, true), Some(Adjustment { requests: 5.0, bytes: 2.0 }));
        assert_eq!(volumes.adjustment(0.5, false), Some(Adjustment { requests: 2.0, bytes: 1.625 }));
        assert_eq!((volumes.adjustment(1.0, true), Volumes::default().adjustment(0.5, true)), (None, None));
    }
}
