// The dashboard: takes the stream of figures, keeps ten minutes of them, and draws. It changes nothing.
// All that comes from the server is shown as text.

import { CHARTS } from "/charts.js";

const ROWS_MAX = 600;
const COMMANDS_SHOWN = 12;
/// A stream that was refused is asked for again after so many ms.
const AGAIN_MS = 5000;
const HEIGHT = 180;

const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

/// An element with a class and contents: texts or elements.
function element(tag, name, ...contents) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...contents);
  return made;
}

/// The rows of the last minutes, a column for each figure.
class Data {
  times = [];
  columns = new Map();
  names = [];

  take(row) {
    const [time, ...values] = row;
    if (this.times.length && time / 1000 <= this.times.at(-1)) return;
    this.times.push(time / 1000);
    const found = new Map(this.names.map((name, at) => [name, values[at] ?? null]));
    for (const name of this.names) {
      if (!this.columns.has(name)) this.columns.set(name, new Array(this.times.length - 1).fill(null));
    }
    for (const [name, column] of this.columns) column.push(found.get(name) ?? null);
    if (this.times.length > ROWS_MAX) {
      this.times.shift();
      for (const column of this.columns.values()) column.shift();
    }
  }

  at(name, i) {
    return this.columns.get(name)?.[i] ?? null;
  }

  last(name) {
    return this.at(name, this.times.length - 1);
  }

  /// Columns of a metric with a label.
  namesOf(metric) {
    return [...this.columns.keys()].filter((name) => name.startsWith(metric + "{"));
  }

  /// How much the sum of these rose within the last `rows` rows, in a second; null if it fell: a start, or a reset.
  rate(names, i, rows) {
    const from = Math.max(0, i - rows);
    let sum = 0;
    for (const name of names) {
      const [before, after] = [this.at(name, from), this.at(name, i)];
      if (before === null || after === null || after < before) return null;
      sum += after - before;
    }
    const seconds = this.times[i] - this.times[from];
    return names.length && seconds > 0 ? sum / seconds : null;
  }

  /// The bound in seconds below which this share of the values of the last rows lies.
  quantile(metric, share, i, rows) {
    const from = Math.max(0, i - rows);
    const all = this.at(metric + "_count", i) - this.at(metric + "_count", from);
    if (!(all > 0)) return null;
    for (const [bound, name] of this.bounds(metric)) {
      if (this.at(name, i) - this.at(name, from) >= share * all) return Number.isFinite(bound) ? bound : null;
    }
    return null;
  }

  bounds(metric) {
    this.known ??= new Map();
    if (!this.known.get(metric)?.length) {
      const bounds = this.namesOf(metric + "_bucket").map((name) => {
        const bound = name.slice(name.indexOf('"') + 1, -2);
        return [bound === "+Inf" ? Infinity : Number(bound), name];
      });
      this.known.set(metric, bounds);
    }
    return this.known.get(metric);
  }
}

const data = new Data();
let now = null;
let before = null;
let paused = false;
let seconds = 300;

// Numbers as people read them.

function short(value, step = 1000, units = ["", "k", "M", "G", "T"]) {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) [value, at] = [value / step, at + 1];
  const digits = value === 0 || Math.abs(value) >= 100 || (at === 0 && Number.isInteger(value)) ? 0
    : Math.abs(value) >= 10 ? 1 : 2;
  return (digits ? String(Number(value.toFixed(digits))) : value.toFixed(0)) + units[at];
}

function span(value) {
  if (value === 0) return "0 s";
  if (value < 1e-3) return short(value * 1e6) + " us";
  if (value < 1) return short(value * 1e3) + " ms";
  if (value < 120) return short(value) + " s";
  if (value < 7200) return Math.floor(value / 60) + " min";
  return value < 172800 ? (value / 3600).toFixed(1) + " h" : Math.floor(value / 86400) + " days";
}

const bytes = (value) => short(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);

function shown(value, unit) {
  if (value === null || value === undefined) return "-";
  if (unit === "s") return span(value);
  if (unit === "B") return bytes(value);
  if (unit === "B/s") return bytes(value) + "/s";
  if (unit === "%") return value.toFixed(value < 99.95 && value !== 0 ? 1 : 0) + " %";
  return short(value) + unit;
}

// Charts.

/// Bands of time in which the store was away, or came back.
function bands(plot) {
  const { ctx, bbox } = plot;
  for (const mode of ["failed", "recovery"]) {
    const column = data.columns.get(`forebay_store_mode{mode="${mode}"}`) ?? [];
    ctx.fillStyle = colour("band-" + mode);
    for (let i = 1; i < column.length; i++) {
      if (column[i] !== 1 || data.times[i] < plot.scales.x.min) continue;
      const from = Math.max(bbox.left, plot.valToPos(data.times[i - 1], "x", true));
      ctx.fillRect(from, bbox.top, plot.valToPos(data.times[i], "x", true) - from, bbox.height);
    }
  }
}

class Chart {
  constructor(chart) {
    this.chart = chart;
    this.plot = null;
    this.area = element("div", "plot");
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "img");
    this.none = element("p", "none", chart.none ?? "No figures yet.");
    this.area.append(this.none);
    this.legend = element("ul", "legend");
    const how = element("p", "how", chart.how);
    this.figure = element("figure", "", element("h2", "", chart.title), how, this.area, this.legend);
    byId("charts").append(this.figure);
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("blur", () => this.plot?.setCursor({ left: -10, top: -10 }));
    new ResizeObserver(() => this.plot?.setSize({ width: this.area.clientWidth, height: HEIGHT })).observe(this.area);
  }

  /// Series that have something to show; others are left out if they may be.
  wanted() {
    return this.chart.series.filter((series) => !series.optional || data.times.some((_, i) => series.at(data, i)));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!steps || !this.plot) return;
    event.preventDefault();
    const last = data.times.length - 1;
    const at = Math.min(last, Math.max(0, (this.plot.cursor.idx ?? last + 1) + steps));
    this.plot.setCursor({ left: this.plot.valToPos(data.times[at], "x"), top: HEIGHT / 3 });
  }

  colourOf(series, at) {
    const named = series.colour ?? at + 1;
    return colour(typeof named === "number" ? "c" + named : named);
  }

  make(wanted) {
    this.plot?.destroy();
    this.series = wanted;
    const { unit, right, log, most } = this.chart;
    const axis = { stroke: colour("quiet"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: colour("line"), width: 1 };
    // Ticks at whole MiB, or at powers of ten.
    const incrs = unit.startsWith("B") ? Array.from({ length: 50 }, (_, n) => 2 ** n) : undefined;
    const splits = log ? (_plot, _axis, min, max) => powers(min, max) : undefined;
    const values = (of) => (_, ticks) => ticks.map((tick) => tick === null ? "" : shown(tick, of));
    const range = (plot, min, max) => {
      if (log && !(max > 0)) return [1e-5, 1];
      if (log) return [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max * 1.01))];
      return [0, most ?? (max > 0 ? max * 1.1 : 1)];
    };
    const drawn = wanted.map((series, at) => ({
      stroke: this.colourOf(series, at), width: 1.6, scale: series.right ? "right" : "y", points: { show: false },
      dash: series.dash ? [5, 4] : undefined, spanGaps: false,
      fill: series.fill ? this.colourOf(series, at) + "22" : undefined,
    }));
    const options = {
      width: this.area.clientWidth, height: HEIGHT, legend: { show: false },
      cursor: { sync: { key: "all" }, drag: { x: false, y: false }, y: false },
      scales: { x: {}, y: { range, distr: log ? 3 : 1 }, right: { range } },
      series: [{}, ...drawn],
      axes: [
        { ...axis, grid, values: (_, ticks) => ticks.map(tickClock), space: () => seconds > 60 ? 42 : 62, size: 26 },
        { ...axis, grid, size: 62, values: values(unit), scale: "y", space: 36, incrs, splits },
        ...(right ? [{ ...axis, side: 1, size: 50, values: values(right), scale: "right" }] : []),
      ],
      padding: [8, right ? 0 : 20, 0, 0],
      hooks: { drawClear: [bands], setCursor: [() => this.values()] },
    };
    this.plot = new uPlot(options, [[], ...wanted.map(() => [])], this.area);
    this.legend.replaceChildren(...wanted.map((series, at) => {
      const value = element("b");
      const item = element("li", "", swatch(this.colourOf(series, at), series.dash), series.label, value);
      item.title = series.names.join("\n");
      return item;
    }));
  }

  draw() {
    const wanted = this.wanted();
    if (!this.plot || wanted.length !== this.series.length) this.make(wanted);
    const lines = wanted.map((series) => data.times.map((_, i) => {
      const value = series.at(data, i);
      return this.chart.log && !(value > 0) ? null : value;
    }));
    this.lines = lines;
    const needs = this.chart.needs;
    const any = needs ? data.columns.get(needs)?.some((value) => value !== null)
      : lines.some((line) => line.some((value) => value !== null));
    this.none.hidden = Boolean(any);
    const end = data.times.at(-1) ?? 0;
    this.plot.setData([data.times, ...lines], false);
    this.plot.batch(() => {
      this.plot.setScale("x", { min: end - seconds, max: end });
    });
    this.values();
  }

  /// The values at the cursor, or the last ones, into the legend.
  values() {
    if (!this.lines) return;
    const at = this.plot.cursor.idx ?? data.times.length - 1;
    const texts = this.series.map((series, n) =>
      shown(this.lines[n][at] ?? null, series.right ? this.chart.right : this.chart.unit));
    [...this.legend.children].forEach((item, n) => { item.querySelector("b").textContent = texts[n]; });
    const said = this.series.map((series, n) => `${series.label} ${texts[n]}`).join(", ");
    const when = this.plot.cursor.idx == null ? "now" : clock(data.times[at]);
    this.area.setAttribute("aria-label", `${this.chart.title}, ${when}: ${said}`);
  }
}

/// Powers of ten from `min` to `max`.
function powers(min, max) {
  const [from, to] = [min, max].map((value) => Math.round(Math.log10(value)));
  return Array.from({ length: to - from + 1 }, (_, n) => 10 ** (from + n));
}

function swatch(stroke, dash) {
  const space = "http://www.w3.org/2000/svg";
  const [picture, line] = [document.createElementNS(space, "svg"), document.createElementNS(space, "path")];
  picture.setAttribute("viewBox", "0 0 13 8");
  picture.setAttribute("aria-hidden", "true");
  const of = { d: "M0 4h13", stroke, "stroke-width": 2.5, "stroke-dasharray": dash ? "5 3" : "none" };
  for (const [name, value] of Object.entries(of)) line.setAttribute(name, value);
  picture.append(line);
  return picture;
}

/// Without the seconds where there are none.
const tickClock = (time) => clock(time).slice(0, time % 60 ? 8 : 5);

const clock = (time) => new Date(time * 1000).toLocaleTimeString([], { hour12: false });

// The strip and the tables.

function strip() {
  const of = (name) => data.last(name);
  const quarantined = of("forebay_outage_quarantined_transactions") ?? 0;
  const pending = of("forebay_outage_pending_transactions") ?? 0;
  const [used, budget] = [of("forebay_cache_bytes"), of("forebay_cache_budget_bytes")];
  const stopped = ["forebay_store_fenced", "forebay_outage_suspended", "forebay_outage_journal_failed"]
    .filter((name) => of(name) === 1).map((name) => name.split("_").at(-1));
  const mode = { normal: "good", failed: "bad", recovery: "warn" }[now.mode];
  const since = now.since_s === null ? "nothing is buffered here" : "for " + span(now.since_s);
  const room = now.since_s === null ? "-" : bytes(of("forebay_outage_room_bytes") ?? 0);
  const tiles = [
    ["Mode", now.mode, stopped.join(", ") || since, stopped.length ? "bad" : mode, "forebay_store_mode"],
    ["Pending writes", shown(pending, ""), bytes(of("forebay_outage_pending_bytes") ?? 0), pending ? "warn" : "",
      "forebay_outage_pending_transactions"],
    ["Room left", room, now.room_s === null ? "" : span(now.room_s) + " at this rate", "", "forebay_outage_room_bytes"],
    ["Quarantined", shown(quarantined, ""), quarantined ? "CACHE QUARANTINE LIST" : "", quarantined ? "bad" : "",
      "forebay_outage_quarantined_transactions"],
    ["Policy", now.policy, "store " + now.store, "", "forebay_info"],
    ["Cache", bytes(used), `of ${bytes(budget)}, ${shown(of("forebay_cache_entries"), "")} entries`, "",
      "forebay_cache_bytes"],
    ["Clients", shown(of("forebay_clients"), ""), "up " + span(of("forebay_uptime_seconds")), "", "forebay_clients"],
  ];
  byId("strip").replaceChildren(...tiles.map(([name, value, more, state, metric]) => {
    const tile = element("div", "", element("span", "name", name), element("span", "value " + state, value),
      element("span", "more", more));
    tile.title = `${metric}\n${value} ${more}`;
    return tile;
  }));
  document.title = now.mode === "normal" ? "forebay" : `(${now.mode}) forebay`;
}

function table(title, how, heads, rows) {
  const row = (cells, tag) => element("tr", "", ...cells.map((cell) => element(tag, "", cell)));
  const body = rows.length ? rows.map((cells) => row(cells, "td")) : [row(["none"], "td")];
  return element("div", "table", element("h2", "", title), element("p", "how", how),
    element("table", "", element("thead", "", row(heads, "th")), element("tbody", "", ...body)));
}

function commands() {
  const figures = now.commands;
  const [calls, errors, waited] =
    [figures.forebay_command_calls_total, figures.forebay_command_errors_total, figures.forebay_command_waited_total];
  const passed = before ? (now.at - before.at) / 1000 : 0;
  const then = before?.commands.forebay_command_calls_total ?? {};
  const rates = Object.entries(calls).map(([name, all]) =>
    [name, all, passed > 0 ? Math.max(0, all - (then[name] ?? 0)) / passed : 0]);
  rates.sort((one, other) => other[2] - one[2] || other[1] - one[1]);
  return rates.slice(0, COMMANDS_SHOWN).map(([name, all, rate]) =>
    [name, short(rate), short(all), short(waited[name] ?? 0), short(errors[name] ?? 0)]);
}

function tables() {
  const types = now.types.map((of) => [of.name, short(of.begun), String(of.accesses), String(of.length)]);
  const slow = now.slow.map((of) => [of.name, span(of.us / 1e6), clock(of.at_s)]);
  byId("tables").replaceChildren(
    table("Commands", "The busiest first. Those that waited were not served from the cache at once.",
      ["command", "a second", "calls", "waited", "errors"], commands()),
    table("Slow commands", "The latest that took long, by name alone. SLOWLOG GET has the rest.",
      ["command", "took", "at"], slow),
    table("Types of transactions", "Those with a graph. The critical length is the round trips with nothing cached.",
      ["type", "begun", "accesses", "critical length"], types));
}

// The stream.

const charts = CHARTS.map((chart) => new Chart(chart));

function draw() {
  if (paused || !now) return;
  byId("version").textContent = now.version;
  byId("leave").hidden = now.user === null;
  byId("user").textContent = now.user ?? "";
  strip();
  tables();
  charts.forEach((chart) => chart.draw());
}

function link(state, text) {
  byId("link").className = state;
  if (byId("link").textContent !== text) byId("link").textContent = text;
}

let source = null;
let again = null;

function stop() {
  source?.close();
  clearTimeout(again);
  source = null;
}

function start() {
  stop();
  source = new EventSource("/events?after=" + Math.round((data.times.at(-1) ?? 0) * 1000));
  source.addEventListener("names", (event) => { data.names = JSON.parse(event.data); });
  source.addEventListener("rows", (event) => { JSON.parse(event.data).forEach((row) => data.take(row)); });
  source.addEventListener("now", (event) => {
    before = now;
    now = { ...JSON.parse(event.data), at: Date.now() };
    link("live", "live");
    draw();
  });
  source.addEventListener("error", () => {
    link("lost", "not connected, trying again");
    // After an answer that is no stream the browser does not try again by itself.
    if (source?.readyState === EventSource.CLOSED) refused();
  });
}

/// Why there was no stream: a login is needed, or there are too many.
async function refused() {
  stop();
  again = setTimeout(start, AGAIN_MS);
  const stopped = new AbortController();
  try {
    const answer = await fetch("/events", { signal: stopped.signal });
    if (answer.status === 403) location.assign("/login");
    else if (!answer.ok) link("lost", (await answer.text()).trim());
  } catch {
    // It is away: the next try tells.
  } finally {
    stopped.abort();
  }
}

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
  draw();
}

byId("pause").addEventListener("click", pause);
byId("range").addEventListener("change", (event) => {
  seconds = Number(event.target.value);
  draw();
});
addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  charts.forEach((chart) => { if (chart.plot) chart.make(chart.wanted()); });
  draw();
});
// A page that is not seen takes no place from one that is.
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
start();
