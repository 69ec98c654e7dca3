//! Meta's CDN traces (CacheLib's BigCache). Keys are not quoted and may contain commas, so that columns are counted
//! from both ends.

use bytes::Bytes;

use crate::error::TraceError;
use crate::input::{Source, decimal, unexpected};
use crate::lines::{Line, Wrong};
use crate::record::{Record, TraceKey};
use crate::{Format, Records};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "cachelib-bigcache",
    summary: "Meta CDN: a header, then `timestamp,cacheKey,OpType,objectSize,..`; what has no size counts as 1 byte",
    endings: &[".csv"],
    recognises: |head| head.starts_with(b"timestamp,cacheKey,OpType,objectSize,"),
    open: |source: Source| -> Result<Records, TraceError> { Ok(crate::lines::open(source, true, parse)) },
};

/// Columns behind the key.
const BEHIND: usize = 8;

fn parse(line: &[u8]) -> Result<Option<Line>, Wrong> {
    let missing = || ("-", format!("fewer than {} columns", BEHIND + 2));
    let behind: Vec<&[u8]> = line.rsplitn(BEHIND + 1, |&byte| byte == b',').collect();
    let [.., size, _, front] = behind[..] else { return Err(missing()) };
    let comma = front.iter().position(|&byte| byte == b',').filter(|_| behind.len() == BEHIND + 1);
    let (time, key) = front.split_at(comma.ok_or_else(missing)?);
    let time_us = decimal(time).map_err(|reason| ("timestamp", reason))?.checked_mul(1_000_000);
    let text = std::str::from_utf8(size).ok().and_then(|text| text.parse::<i64>().ok());
    let size = text.ok_or_else(|| ("objectSize", unexpected(size, "a whole number")))?.max(1);
    let size = u32::try_from(size).map_err(|_| ("objectSize", format!("{size} is beyond 2^32")))?;
    let key = TraceKey::Bytes(Bytes::copy_from_slice(&key[1..]));
    Line::one(Record { time_us, key, size: Some(size), ..Record::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;

    #[test]
    fn keys_may_contain_commas() {
        let header = "timestamp,cacheKey,OpType,objectSize,responseSize,\
                      responseHeaderSize,rangeStart,rangeEnd,TTL,SamplingRate\n";
        let (records, error) =
            read(&FORMAT, &format!("{header}9,cdn:a,b,1,-7,54773,496,1,2,1209600,0.001\n9,1,2,3,4,5,6,7,8\n"));
        assert_eq!((records[0].key.to_bytes(), records[0].size), ("cdn:a,b".into(), Some(1)));
        assert!(error.expect("a column is missing").starts_with("line 3: "));
        assert!((FORMAT.recognises)(header.as_bytes()));
    }
}
