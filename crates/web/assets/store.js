// The event log in the browser: attempts and marks in typed arrays that grow, jobs and nodes as objects, and the stream that keeps them current.

import { BEGAN, ENDED, KIND, MARK, NONE } from "./codes.js";

export { BEGAN, ENDED, KIND, MARK, NONE };

const TYPES = { f64: Float64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array };
const ATTEMPTS = {
  start: "f64",
  end: "f64",
  job: "u32",
  node: "u32",
  task: "u32",
  number: "u16",
  lane: "u16",
  kind: "u8",
  began: "u8",
  ended: "u8",
};
const MARKS = { markTime: "f64", markKind: "u8", markJob: "u32", markOther: "u32", markSubject: "u32" };

/** One event log. */
export class Log {
  constructor(index) {
    this.index = index;
    this.name = "";
    this.policy = "";
    this.version = 0;
    this.reasons = new Map();
    this.clear();
  }

  clear() {
    this.jobs = [];
    this.nodes = [];
    this.byId = new Map();
    this.length = 0;
    this.marks = 0;
    this.now = 0;
    this.receivedAt = performance.now();
    this.wallMs = null;
    this.clock = [];
    this.cursor = "";
    this.replica = true;
    this.live = { ranks: [[], []], jobs: new Map(), forecasts: new Map() };
    this.reasons.clear();
    for (const [name, type] of Object.entries({ ...ATTEMPTS, ...MARKS })) this[name] = new TYPES[type](0);
  }

  /** Loads everything. */
  async load() {
    const response = await fetch(`/api/v1/timeline?log=${this.index}`, { cache: "no-store" });
    if (!response.ok)
      throw new LoadError(response.status, (await response.json().catch(() => ({}))).error ?? response.statusText);
    this.read(await response.arrayBuffer());
  }

  /** Reads everything from its binary form. */
  read(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    this.clear();
    for (const { name, kind, offset, len } of head.columns)
      this[name] = new TYPES[kind](buffer, 4 + length + offset, len);
    this.length = this.start.length;
    this.marks = this.markTime.length;
    this.apply(head);
  }

  grow(columns, needed) {
    for (const [name, type] of Object.entries(columns)) {
      if (this[name].length >= needed) continue;
      const larger = new TYPES[type](Math.max(1024, needed * 2));
      larger.set(this[name]);
      this[name] = larger;
    }
  }

  /** Applies an update, or the head of a complete answer. */
  apply(view) {
    this.cursor = view.cursor;
    this.now = view.now;
    this.receivedAt = performance.now();
    this.wallMs = view.wall_ms;
    this.idle = view.idle_s ?? 0;
    this.clock = view.clock;
    this.policy = view.policy;
    this.replica = view.replica;
    for (const [row, job] of view.jobs) {
      job.row = row;
      this.jobs[row] = job;
      this.byId.set(job.id, row);
    }
    for (const [number, node] of view.nodes) {
      node.number = number;
      this.nodes[number] = node;
    }
    this.live = { ranks: view.live.ranks, jobs: new Map(view.live.jobs), forecasts: new Map(view.live.forecasts) };
    const added = view.attempts;
    if (added) {
      const to = added.from + added.start.length;
      this.grow(ATTEMPTS, to);
      for (const name of ["start", "job", "node", "task", "number", "lane", "kind", "began"])
        this[name].set(added[name], added.from);
      for (let row = added.from; row < to; row += 1) {
        this.end[row] = NaN;
        this.ended[row] = ENDED.running;
      }
      for (const [row, end, how] of added.ended) {
        this.end[row] = end;
        this.ended[row] = how;
        this.reasons.delete(row);
      }
      this.length = Math.max(this.length, to);
    }
    if (view.marks?.length) {
      this.grow(MARKS, this.marks + view.marks.length);
      for (const [time, kind, job, other, subject] of view.marks) {
        this.markTime[this.marks] = time;
        this.markKind[this.marks] = kind;
        this.markJob[this.marks] = job;
        this.markOther[this.marks] = other;
        this.markSubject[this.marks] = subject;
        this.marks += 1;
      }
    }
    this.version += 1;
  }

  /** Why attempts were launched and stopped, by row. Fetched once. */
  async reasonsOf(rows) {
    const missing = rows.filter((row) => !this.reasons.has(row));
    if (missing.length) {
      const response = await fetch(`/api/v1/reasons?log=${this.index}&attempts=${missing.slice(0, 400).join(",")}`);
      if (response.ok) for (const reason of await response.json()) this.reasons.set(reason.attempt, reason);
    }
    return rows.map((row) => this.reasons.get(row));
  }

  /** Names of users or pools, in order of first use. */
  names(key) {
    return [...new Set(this.jobs.map((job) => job[key]))];
  }
}

/** The recorded jobs of the log simulated under its policy and under another one. */
export async function simulated(policy) {
  const response = await fetch(`/api/v1/what-if?policy=${encodeURIComponent(policy)}`, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? response.statusText);
  const buffer = await response.arrayBuffer();
  let at = 0;
  return [1, 2].map((index) => {
    const length = Number(new DataView(buffer).getBigUint64(at, true));
    const log = new Log(index);
    log.read(buffer.slice(at + 8, at + 8 + length));
    at += 8 + Math.ceil(length / 8) * 8;
    return log;
  });
}

/** Fetches an answer now and again, not more often than `every` milliseconds. */
export class Poll {
  constructor(url, then, every = 1500) {
    Object.assign(this, { url, then, every, last: -Infinity });
  }
  soon() {
    if (this.stopped || this.busy || this.timer) return;
    const wait = Math.max(0, this.every - (performance.now() - this.last));
    this.timer = setTimeout(async () => {
      this.timer = 0;
      this.busy = true;
      this.last = performance.now();
      try {
        const response = await fetch(typeof this.url === "function" ? this.url() : this.url, { cache: "no-store" });
        if (response.ok && !this.stopped) this.then(await response.json());
      } catch {
        /* The connection is reported elsewhere; the next update asks again. */
      }
      this.busy = false;
    }, wait);
  }
  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}

export class LoadError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Where a recording is opened: amid its preemptions, or else of its launches; at its end everything is over. */
function eventful(log) {
  const stops = [];
  for (let mark = 0; mark < log.marks; mark += 1)
    if ([MARK.paused, MARK.endedEarly, MARK.killed].includes(log.markKind[mark])) stops.push(log.markTime[mark]);
  const at = stops.length ? stops[stops.length >> 1] : log.length ? log.start[log.length >> 1] : log.now;
  return at < log.now ? at + 1e-6 : null;
}

/** All logs, the instant shown, and the connection. */
class Store {
  constructor() {
    this.logs = [];
    this.isLive = false;
    this.hasCoordinator = false;
    /** The instant shown; null follows the log's end. */
    this.held = null;
    this.connected = true;
    this.lostAt = 0;
    this.listeners = new Set();
  }

  get log() {
    return this.logs[0];
  }

  /** The present of the log: moves on between two updates of a live one. */
  get now() {
    const log = this.log;
    if (!this.isLive || !this.connected) return log.now;
    const busy = log.jobs.some((job) => job.ended === null);
    // An idle cluster writes nothing, so its time does not move.
    return busy ? log.now + Math.min(5, (performance.now() - log.receivedAt) / 1000) : log.now;
  }

  /** The instant shown. */
  get at() {
    return this.held ?? this.now;
  }

  /** The instant shown, for clocks and ages: the present of a cluster goes on although it is idle. */
  get clockAt() {
    const log = this.log;
    if (this.held !== null || !this.isLive || !this.hasCoordinator || !this.connected) return this.at;
    return log.now + log.idle + (performance.now() - log.receivedAt) / 1000;
  }

  hold(at) {
    const end = this.log.now;
    this.held = at === null || at >= end ? null : Math.max(0, Math.min(end, at));
    this.notify("instant");
  }

  notify(what) {
    for (const listener of this.listeners) listener(what);
  }

  async start() {
    const response = await fetch("/api/v1/info", { cache: "no-store" });
    if (!response.ok)
      throw new LoadError(response.status, (await response.json().catch(() => ({}))).error ?? response.statusText);
    const info = await response.json();
    this.isLive = info.live;
    this.hasCoordinator = info.coordinator;
    this.user = info.user;
    this.policies = info.policies;
    this.logs = info.logs.map((one, index) =>
      Object.assign(new Log(index), { name: one.name, policy: one.policy ?? "" }),
    );
    await Promise.all(this.logs.map((log) => this.loadWhenReady(log)));
    if (!this.isLive) this.held = eventful(this.log);
    if (this.isLive) this.connect();
  }

  /** A cluster that has just been started has no journal for a moment. */
  async loadWhenReady(log) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await log.load();
      } catch (error) {
        if (error.status !== 503 || (attempt > 60 && this.hasCoordinator)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }

  connect() {
    const log = this.log;
    const stream = new EventSource(`/api/v1/updates?after=${log.cursor}`);
    this.stream = stream;
    const received = () => {
      if (!this.connected) {
        this.connected = true;
        this.notify("connection");
      }
    };
    stream.addEventListener("update", (message) => {
      log.apply(JSON.parse(message.data));
      received();
      this.notify("data");
    });
    stream.addEventListener("reset", async () => {
      stream.close();
      try {
        await log.load();
        received();
        this.notify("data");
        this.connect();
      } catch {
        this.retry();
      }
    });
    stream.addEventListener("error", () => {
      stream.close();
      if (this.connected) {
        this.connected = false;
        this.lostAt = performance.now();
        this.delay = 500;
      }
      this.notify("connection");
      this.retry();
    });
  }

  retry() {
    setTimeout(() => this.connect(), this.delay ?? 500);
    this.delay = Math.min(15000, (this.delay ?? 500) * 2);
  }
}

export const store = new Store();
