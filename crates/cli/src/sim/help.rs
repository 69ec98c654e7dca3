//! What `forebay sim --help` says.

use forebay::policy::POLICIES;
use forebay_sim::contender::OFFLINE;

/// How it is called, and what its figures are.
pub const EXAMPLES: &str = "\
Examples:
  forebay sim OLTP.lis.zst --report oltp.html
      a page with charts: which policy, and how much memory
  forebay sim access.log.1.gz --unit bytes --policy lru,s3-fifo,gdsf --size 16MiB,64MiB,256MiB
      a log of nginx: what to buy
  tail -n +1 -f access.log | forebay sim - --unit bytes
      as it is written; Ctrl-C ends it, and the figures follow
  forebay sim redis.csv.gz --columns key=cache_key,size=bytes,time=log_time
      your own log, exported as a table whose columns have other names
  forebay sim requests.csv --policy gdsf,w-tinylfu --size 64MiB,1GiB --unit bytes --format csv
      sizes in bytes, for a spreadsheet
  forebay sim requests.fbt --policy s3-fifo,lirs --at-hit-ratio 0.9
      the least memory for a hit ratio
  forebay sim huge.oracleGeneral.zst --sample 0.01
      an estimate from 1 % of the keys, with its error (two standard errors)
  forebay sim bank.fbt --graphs bank.toml --policy lru,detox --prefetch detox --size 25%
      round trips of transactions, by what they ask for after what
  forebay sim shop.fbt --policy lru,detox --cache-latency 150us --store-latency 2ms
      what that makes of latency: round trips saved, and how long a transaction takes
  forebay sim pages.htr --policy lru,clic,clic-g --count reads --per-client
      what hints of clients are worth, and to whom
  forebay sim shop.fbt --like-server --policy lru,detox --size 256MiB --graphs shop.toml
      the server's own cache over what CACHE TRACE recorded: what it had, and what it would have

A trace is any that `forebay trace describe` can read: CSV with a column `key`
will do (docs/trace-format.md has all formats); a running server records one
(CACHE TRACE START), `forebay workload` makes one up.

A percentage is of the unique keys, or with --unit bytes of the footprint: the sum
of the keys' sizes. Each request is a read that inserts on a miss, writes too; an
object has the size of its first request that tells one; a delete removes and does not
count.
Offline policies, which know the future: belady, opt (most read hits),
transactional-belady. --optimum adds the most transactional hits that any policy
could have, by trying all choices: for traces of up to 64 keys, by levels.

Where a trace has transactions, what one asks for at the same time (a level) is
looked up together. The transactional hit ratio is the share of round trips that
caching saves: a level costs one unless all that it reads is cached, one that
writes costs one always. With --graphs it is the share of the critical length; a graph
named Balance is also for the types 1.Balance and 2.Balance of mixed traces.

Latencies are modelled: a level, or without transactions a request, takes the cache's,
and unless the cache has all of it the store's in addition; one follows the other.
Nothing is said of what a busy store adds. They add the columns transactions (empty:
the latency is that of a request), round_trips, round_trips_saved, latency_us and
latency_without_cache_us.

The same trace, policies and seed give the same figures, except for CPU times.
--help lists the policies.";

/// Width of the list of policies.
const HELP_COLUMNS: usize = 92;

/// Policies with a line each.
pub fn listed() -> String {
    let mut list = String::from("Policies (docs/policies.md has their parameters):\n");
    for policy in POLICIES {
        let (mut line, indent) = (format!("  {:<20}", policy.name), " ".repeat(22));
        for word in policy.summary.split_whitespace() {
            if line.len() + 1 + word.len() > HELP_COLUMNS {
                list += &std::mem::replace(&mut line, indent.clone());
                list.push('\n');
            }
            line.push(' ');
            line += word;
        }
        list += &line;
        list.push('\n');
    }
    for (name, _) in OFFLINE {
        list += &format!("  {name:<20} knows the future: a bound that no server reaches\n");
    }
    list
}
