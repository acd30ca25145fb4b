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

/** The wall clock at an instant of a log: it goes on while the log's own time stands still, between two starts of a coordinator. */
function wallAt(log, seconds) {
  const read = log.clock?.findLast(([at]) => at <= seconds) ?? log.clock?.[0];
  return new Date(read ? read[1] + (seconds - read[0]) * 1000 : log.wallMs + seconds * 1000);
}

/** An instant of a log: wall clock if the log has one, otherwise the time since its start. */
export function clock(log, seconds, fine = false) {
  if (!Number.isFinite(seconds)) return "";
  if (log?.wallMs !== null && log?.wallMs !== undefined) {
    const date = wallAt(log, seconds);
    const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
    return fine ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
  }
  const s = Math.max(0, seconds);
  const text = `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(Math.floor(s % 60))}`;
  return fine ? `${text}.${String(Math.floor((s % 1) * 1000)).padStart(3, "0")}` : text;
}

/** Date and time, where the date matters. */
export function dateTime(log, seconds) {
  if (log?.wallMs === null || log?.wallMs === undefined) return clock(log, seconds);
  const date = wallAt(log, seconds);
  const today = new Date().toDateString() === date.toDateString();
  return today
    ? clock(log, seconds)
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(log, seconds)}`;
}

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14400, 28800, 86400, 172800, 604800,
];

/** Round instants between two, at most `most`. */
export function ticks(log, from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 604800 * Math.ceil((to - from) / 604800 / most);
  const zone =
    log?.wallMs !== null && log?.wallMs !== undefined
      ? log.wallMs / 1000 - new Date(log.wallMs).getTimezoneOffset() * 60
      : 0;
  const found = [];
  for (let at = Math.ceil((from + zone) / step) * step - zone; at <= to && found.length < 50; at += step)
    found.push(at);
  return { found, fine: step < 1 };
}

/** Reads "14:05" or "14:05:30" as an instant of the log; null if it is something else. */
export function parseClock(log, text) {
  const match = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text.trim());
  if (!match) return null;
  const [hours, minutes, seconds] = [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
  if (log.wallMs === null || log.wallMs === undefined) return hours * 3600 + minutes * 60 + seconds;
  const date = new Date(log.wallMs + log.now * 1000);
  date.setHours(hours, minutes, seconds, 0);
  let at = (date.getTime() - log.wallMs) / 1000;
  if (at > log.now) at -= 86400;
  return at;
}

/** Cuts a long name in its middle. */
export function shorten(name, most = 48) {
  const characters = [...name];
  return characters.length > most
    ? `${characters.slice(0, most / 2).join("")}…${characters.slice(-most / 2 + 1).join("")}`
    : name;
}
