// Numbers, durations and instants as text.

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 0.0005) return "0 s";
  if (s < 10) return `${s.toFixed(s < 1 ? 2 : 1)} s`;
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

export const count = (n) => Math.round(n).toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
export const percent = (part) => `${Math.round(100 * Math.min(1, Math.max(0, part || 0)))} %`;

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) {
    n /= 1000;
    at += 1;
  }
  return `${n < 10 && at ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

const two = (n) => String(n).padStart(2, "0");

const hasWall = (log) => log?.wallMs !== null && log?.wallMs !== undefined;

/** The wall clock at an instant of a log: it goes on while the log's own time stands still, between two starts of a coordinator. */
function wallAt(log, seconds) {
  const read = log.clock?.findLast(([at]) => at <= seconds) ?? log.clock?.[0];
  return new Date(read ? read[1] + (seconds - read[0]) * 1000 : log.wallMs + seconds * 1000);
}

/** The instant of a log at which the wall clock showed this; one between two starts of a coordinator is that of the later start. */
function instantAt(log, wallMs) {
  const clock = log.clock?.length ? log.clock : [[0, log.wallMs]];
  const later = clock.findIndex(([, ms]) => ms > wallMs);
  const read = clock[later < 0 ? clock.length - 1 : Math.max(0, later - 1)];
  const at = read[0] + (wallMs - read[1]) / 1000;
  return later > 0 ? Math.min(at, clock[later][0]) : at;
}

/** Seconds between two instants, including the time in which no coordinator ran; by the log's own time if the clock was set back. */
export const elapsed = (log, from, to) =>
  hasWall(log) ? Math.max(to - from, (wallAt(log, to) - wallAt(log, from)) / 1000) : to - from;

/** All times of day are UTC, as on the command line; a time since the start of a log has no zone. */
export const zone = (log) => (hasWall(log) ? " UTC" : "");

/** An interval [low, median, high] of a forecast. There is no median once it has passed. */
export function expected(log, [low, middle, high]) {
  if (middle === null) return `between ${clock(log, low)} and ${clock(log, high)}`;
  return `${clock(log, middle)} (${clock(log, low)} to ${clock(log, high)})`;
}

/** An instant of a log: wall clock if the log has one, otherwise the time since its start. */
export function clock(log, seconds, fine = false) {
  if (!Number.isFinite(seconds)) return "";
  if (hasWall(log))
    return wallAt(log, seconds)
      .toISOString()
      .slice(11, fine ? 23 : 19);
  const s = Math.max(0, seconds);
  const text = `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(Math.floor(s % 60))}`;
  return fine ? `${text}.${String(Math.floor((s % 1) * 1000)).padStart(3, "0")}` : text;
}

/** The same instant where the reader is. */
export const localTime = (log, seconds) =>
  hasWall(log) && Number.isFinite(seconds) ? wallAt(log, seconds).toLocaleString() : "";

/** Date and time, where the date matters. */
export function dateTime(log, seconds) {
  if (!hasWall(log)) return clock(log, seconds);
  const day = wallAt(log, seconds).toISOString().slice(0, 10);
  const today = new Date().toISOString().slice(0, 10);
  return day === today ? clock(log, seconds) : `${day} ${clock(log, seconds)}`;
}

/** An instant for an address: the same for readers in all time zones. */
export const instantText = (log, seconds) => (hasWall(log) ? wallAt(log, seconds).toISOString() : seconds.toFixed(3));

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14400, 28800, 86400, 172800, 604800,
];

/** Round instants between two, at most `most`. */
export function ticks(log, from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 604800 * Math.ceil((to - from) / 604800 / most);
  // Round times of day.
  const offset = hasWall(log) ? wallAt(log, from).getTime() / 1000 - from : 0;
  const found = [];
  for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to && found.length < 50; at += step)
    found.push(at);
  return { found, fine: step < 1 };
}

/** Reads an instant of the log: "14:05" or "14:05:30" in UTC, or a date and time with its zone; null if it is something else. */
export function parseClock(log, text) {
  const trimmed = text.trim();
  if (hasWall(log) && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)$/.test(trimmed)) {
    const ms = Date.parse(trimmed);
    return Number.isFinite(ms) ? Math.max(0, instantAt(log, ms)) : null;
  }
  const match = /^(\d{1,2}):(\d{2})(?::(\d{2}))?(?:Z| ?UTC)?$/.exec(trimmed);
  if (!match) return null;
  const [hours, minutes, seconds] = [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
  if (!hasWall(log)) return hours * 3600 + minutes * 60 + seconds;
  const last = wallAt(log, log.now);
  const then = new Date(last);
  then.setUTCHours(hours, minutes, seconds, 0);
  if (then > last) then.setUTCDate(then.getUTCDate() - 1);
  return instantAt(log, then.getTime());
}

/** Cuts a long name in its middle. */
export function shorten(name, most = 48) {
  const characters = [...name];
  return characters.length > most
    ? `${characters.slice(0, most / 2).join("")}…${characters.slice(-most / 2 + 1).join("")}`
    : name;
}
