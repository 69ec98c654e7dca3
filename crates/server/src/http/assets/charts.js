// What the page charts: each series by the names that the figures have in /metrics.

const READS = ["forebay_cache_hits_total", "forebay_cache_misses_total"];
const WAITS = "forebay_command_wait_seconds";
const DATABASE_READS = "forebay_database_read_seconds";
const GROUPS = "forebay_database_group_seconds";

/// Rates are taken over one second, ratios and quantiles over so many.
const SMOOTH = 5;

const count = (label, name, more) => ({ label, names: [name], at: (data, i) => data.at(name, i), ...more });

const rate = (label, name, more) => ({ label, names: [name], at: (data, i) => data.rate([name], i, 1), ...more });

const quantile = (label, name, q, more) =>
  ({ label, names: [name + "_bucket"], at: (data, i) => data.quantile(name, q, i, SMOOTH), ...more });

const percent = (label, part, whole, more) => ({
  label, names: [...part, ...whole.filter((name) => !part.includes(name))], ...more,
  at: (data, i) => {
    const all = data.rate(whole, i, SMOOTH);
    return all ? 100 * data.rate(part, i, SMOOTH) / all : null;
  },
});

export const CHARTS = [
  {
    title: "Traffic", unit: "/s",
    how: "Requests a second. Those that had to wait were not served from the cache at once. Errors belong near zero.",
    series: [
      rate("commands", "forebay_command_calls_total", { fill: true }),
      rate("had to wait", "forebay_command_waited_total"),
      rate("errors", "forebay_command_errors_total", { colour: "bad" }),
    ],
  },
  {
    title: "Hits: reads and transactions", unit: "%", most: 100,
    how: "Reads that the cache answered, and round trips of transactions that it saved. The gap is what users " +
      "wait for although reads hit.",
    none: "Transactional hits are not counted: start with --measure-thr.",
    needs: "forebay_critical_length_total",
    series: [
      percent("reads", READS.slice(0, 1), READS),
      percent("transactional", ["forebay_transactional_hits_total"], ["forebay_critical_length_total"]),
    ],
  },
  {
    title: "Round trips saved", unit: "/s",
    how: "Round trips to the store that transactions did not have to wait for, of those they would need with no cache.",
    none: "Not counted: start with --measure-thr.",
    needs: "forebay_critical_length_total",
    series: [
      rate("saved", "forebay_transactional_hits_total", { fill: true }),
      rate("needed with no cache", "forebay_critical_length_total", { dash: true, colour: "quiet" }),
    ],
  },
  {
    title: "Latency", unit: "s", log: true,
    how: "How long it took, without what the cache served at once. The axis is logarithmic: one line up is ten times.",
    series: [
      quantile("waiting requests p50", WAITS, .5),
      quantile("p99", WAITS, .99, { dash: true, colour: 1 }),
      quantile("database reads p50", DATABASE_READS, .5, { optional: true, colour: 2 }),
      quantile("p99", DATABASE_READS, .99, { optional: true, dash: true, colour: 2 }),
      quantile("commits p50", GROUPS, .5, { optional: true, colour: 3 }),
      quantile("p99", GROUPS, .99, { optional: true, dash: true, colour: 3 }),
    ],
  },
  {
    title: "Store", unit: "/s",
    how: "What reaches the store: reads that the cache could not answer, and commits. Hits are the load taken off it.",
    series: [
      rate("missed reads", READS[1]),
      rate("database reads", DATABASE_READS + "_count", { optional: true }),
      {
        label: "commits", names: ["forebay_database_commits_total"], optional: true,
        at: (data, i) => data.rate(data.namesOf("forebay_database_commits_total"), i, 1),
      },
      rate("failed reads", "forebay_database_reads_failed_total", { optional: true, colour: "bad" }),
    ],
  },
  {
    title: "Outage: what waits for the store", unit: "",
    how: "Writes that are kept until the store takes them. They rise while it is away and must fall afterwards. " +
      "Quarantined ones wait for an operator.",
    series: [
      count("pending", "forebay_outage_pending_transactions", { fill: true }),
      count("quarantined", "forebay_outage_quarantined_transactions", { colour: "bad" }),
    ],
  },
  {
    title: "Oldest pending write", unit: "s",
    how: "How long the oldest write has waited. If it rises while the mode is normal, look at quarantine.",
    none: "Nothing has waited in this time.",
    needs: "forebay_outage_oldest_age_seconds",
    series: [count("age", "forebay_outage_oldest_age_seconds", { fill: true })],
  },
  {
    title: "Memory", unit: "B",
    how: "What memory is spent on. The cache fills its budget and stays there: that is no leak.",
    series: [
      count("cache", "forebay_cache_bytes", { fill: true }),
      count("cache's budget", "forebay_cache_budget_bytes", { dash: true, colour: "quiet" }),
      count("store", "forebay_store_memory_bytes"),
      count("pending writes", "forebay_outage_pending_bytes"),
      count("replies", "forebay_reply_bytes"),
      count("whole process", "process_resident_memory_bytes", { colour: "text" }),
    ],
  },
  {
    title: "Cache: in and out", unit: "/s",
    how: "Entries that came and went. Many evictions beside many misses: more memory or another policy would help.",
    series: [
      rate("insertions", "forebay_cache_insertions_total"),
      rate("evictions", "forebay_cache_evictions_total"),
      rate("kept out", "forebay_cache_rejections_total"),
    ],
  },
  {
    title: "Refused", unit: "/s",
    how: "What was turned away. All of these belong at zero; each has a limit or an outage as its reason.",
    series: [
      rate("connections", "forebay_connections_refused_total"),
      rate("strangers", "forebay_strangers_closed_total"),
      rate("writes, no room", "forebay_outage_full_total", { colour: "bad" }),
      rate("reads, store away", "forebay_outage_reads_refused_total"),
      rate("hints", "forebay_hints_refused_total", { colour: "quiet" }),
    ],
  },
  {
    title: "Clients and transactions", unit: "",
    how: "Connected clients, and what they hold open. Locked keys that stay high: a transaction keeps others waiting.",
    series: [
      count("clients", "forebay_clients"),
      count("open transactions", "forebay_transactions_open"),
      count("locked keys", "forebay_locked_keys"),
    ],
  },
  {
    title: "Network and processor", unit: "B/s",
    how: "Bytes that clients sent and were sent, and processor time: 100 % is one core.",
    right: "%",
    series: [
      rate("received", "forebay_received_bytes_total"),
      rate("sent", "forebay_sent_bytes_total"),
      {
        label: "processor", names: ["process_cpu_seconds_total"], right: true, dash: true,
        at: (data, i) => {
          const seconds = data.rate(["process_cpu_seconds_total"], i, SMOOTH);
          return seconds === null ? null : 100 * seconds;
        },
      },
    ],
  },
];
