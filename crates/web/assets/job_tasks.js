// The tasks of a job as a table, and the phases it goes through.

import { ENDED, store } from "./store.js";
import { fill, h, hideTip, showTip } from "./dom.js";
import { clock, count, duration, plural, zone } from "./format.js";
import { beganWord, endWord, tipOfAttempt } from "./timeline.js";

const TASK_ROWS_MAX = 300;

/** When the last map of a job finished; none while some are left. */
export function mapsEnded(log, row, at) {
  const done = new Set();
  let ended = 0;
  for (let attempt = 0; attempt < log.length; attempt += 1) {
    if (log.job[attempt] !== row || log.kind[attempt] !== 0 || !(log.end[attempt] <= at)) continue;
    if (log.ended[attempt] !== ENDED.finished) continue;
    done.add(log.task[attempt]);
    ended = Math.max(ended, log.end[attempt]);
  }
  return done.size >= log.jobs[row].tasks[0] ? ended : null;
}

/** The phases of a job, and how long the finished tasks of each took: skew is the longest of them over the median. */
function phases(log, row, at, tasks) {
  const lastMap = mapsEnded(log, row, at);
  const job = log.jobs[row];
  const spans = [[], [], []];
  const times = [[], [], []];
  for (const attempts of tasks.values()) {
    const kind = log.kind[attempts[0]];
    const last = attempts.at(-1);
    const isDone = log.end[last] <= at && log.ended[last] === ENDED.finished;
    const worked = [0, 0];
    for (const one of attempts) {
      const end = Math.min(Number.isNaN(log.end[one]) ? at : log.end[one], at);
      const cut = kind === 0 ? end : Math.min(Math.max(lastMap ?? end, log.start[one]), end);
      if (cut > log.start[one]) spans[kind].push(log.start[one], cut);
      if (end > cut) spans[2].push(cut, end);
      worked[0] += cut - log.start[one];
      worked[1] += end - cut;
    }
    if (!isDone) continue;
    times[kind].push(worked[0]);
    if (kind === 1) times[2].push(worked[1]);
  }
  const names = ["Maps", "Shuffle while maps run", job.tasks[0] ? "Reduces after the last map" : "Reduces"];
  const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  const rows = names.flatMap((name, phase) => {
    if (!spans[phase].length) return [];
    const [from, to] = [Math.min(...spans[phase]), Math.max(...spans[phase])];
    const sorted = times[phase].sort((a, b) => a - b);
    const [least, median, high, most] = [0, 0.5, 0.9, 1].map((q) => quantile(sorted, q));
    const cells = [
      clock(log, from),
      duration(to - from),
      count(sorted.length),
      duration(least),
      duration(median),
      duration(high),
      duration(most),
      sorted.length > 1 && median > 0 ? `${(most / median).toFixed(1)}×` : "",
    ];
    return [
      h(
        "tr",
        {},
        h("td", {}, name),
        cells.map((text) => h("td", { class: "num" }, text)),
      ),
    ];
  });
  const head = ["Phase", `Began${zone(log)}`, "Took", "Tasks done", "Shortest", "Median", "90 %", "Longest", "Skew"];
  return h(
    "div",
    { class: "tablewrap phased", tabindex: "0", role: "region", "aria-label": "Phases, scrolls sideways" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((name, index) => h("th", { scope: "col", class: index ? "num" : "" }, name)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

export function renderTasks(box, log, row) {
  const at = store.at;
  const tasks = new Map();
  for (let attempt = 0; attempt < log.length && log.start[attempt] <= at; attempt += 1) {
    if (log.job[attempt] !== row) continue;
    const key = log.kind[attempt] * 1e9 + log.task[attempt];
    const list = tasks.get(key);
    if (list) list.push(attempt);
    else tasks.set(key, [attempt]);
  }
  const signature = `t${tasks.size}/${log.version}/${store.held}`;
  if (box.dataset.shown === signature && box.querySelector("table")) return;
  box.dataset.shown = signature;
  // Tasks with more than one attempt, or that still run, are the ones that are looked for.
  const order = [...tasks.entries()].sort(([a, one], [b, two]) => two.length - one.length || a - b);
  const rows = order.slice(0, TASK_ROWS_MAX).map(([, attempts]) => {
    const last = attempts.at(-1);
    const first = attempts[0];
    const until = log.end[last] <= at ? log.end[last] : at;
    return h(
      "tr",
      {
        onmousemove: (event) =>
          tipOfAttempt(log, last, (...lines) => showTip(event.clientX, event.clientY, lines, box)),
        onmouseleave: () => hideTip(box),
      },
      h("td", {}, `${["map", "reduce"][log.kind[first]]} ${log.task[first]}`),
      h("td", {}, endWord(log, last, at)),
      h("td", { class: "num" }, attempts.length),
      h("td", {}, log.nodes[log.node[last]]?.name ?? ""),
      h("td", { class: "quiet" }, clock(log, log.start[first])),
      h(
        "td",
        { class: "num" },
        duration(
          attempts.reduce(
            (sum, one) => sum + Math.min(Number.isNaN(log.end[one]) ? until : log.end[one], until) - log.start[one],
            0,
          ),
        ),
      ),
      h(
        "td",
        { class: "quiet" },
        attempts.map((one) => [beganWord(log, one), endWord(log, one, at)].filter(Boolean).join(", ")).join(" → "),
      ),
    );
  });
  fill(
    box,
    rows.length ? phases(log, row, at, tasks) : null,
    h(
      "div",
      { class: "tablewrap tall", tabindex: "0", role: "region", "aria-label": "Table, scrolls sideways" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Task", "State", "Attempts", "Node", "Started", "Slot time", "Attempts in order"].map((name, index) =>
              h("th", { scope: "col", class: index === 2 || index === 5 ? "num" : "" }, name),
            ),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    h(
      "footer",
      {},
      tasks.size > TASK_ROWS_MAX
        ? `${TASK_ROWS_MAX} of ${plural(tasks.size, "task")}, those with most attempts first`
        : `${plural(tasks.size, "task")}, those with most attempts first`,
    ),
  );
}
