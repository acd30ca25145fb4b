// One job: attempts, tasks, decisions, why it runs or waits, forecasts, yield and kill.

import { store, ENDED, NONE, Poll } from "./store.js";
import { h, fill, color, showTip, hideTip } from "./dom.js";
import { bytes, clock, count, dateTime, duration, elapsed, expected, plural, shorten, ticks, zone } from "./format.js";
import { decisionsUpTo, groupsOf, stateAt } from "./instant.js";
import { choice, tipOfAttempt, endWord, beganWord } from "./timeline.js";
import { drawShape } from "./draw.js";
import { decisionLine, stateWord, waitingFor } from "./overview.js";

const REDUCE_ROWS_MAX = 400;
const TASK_ROWS_MAX = 300;
const LOG_ROWS_MAX = 200;
const LOG_TAIL_BYTES = 65536;

export function jobPage(root, id) {
  const log = store.log;
  const row = log.byId.get(id);
  if (row === undefined) {
    fill(
      root,
      h("h1", {}, `Job #${id}`),
      h(
        "p",
        { class: "empty" },
        "There is no such job in this log. ",
        h("a", { href: "#/overview" }, "Back to the overview"),
      ),
    );
    return {
      render: () => {
        if (log.byId.has(id)) dispatchEvent(new HashChangeEvent("hashchange"));
      },
    };
  }
  const head = h("div", { class: "jobhead" });
  const lead = h("p", { class: "lead" });
  const cause = h("section", { class: "panel failure", hidden: true, "aria-label": "Why it failed" });
  const facts = h("div", { class: "facts" });
  const tabs = h("span", { class: "subtabs", role: "group", "aria-label": "Details" });
  const details = h("div");
  const chain = h("ol", { class: "chain" });
  const why = h("h2", {}, "");
  const policies = h("section", { class: "panel", hidden: true });
  const gantt = new Gantt(log, row);
  let tab = "attempts";
  fill(
    root,
    h(
      "p",
      { class: "crumbs" },
      h("a", { href: "#/overview" }, "Overview"),
      ` / ${log.jobs[row].user} / ${shorten(log.jobs[row].name, 80)}`,
    ),
    head,
    lead,
    facts,
    cause,
    h(
      "div",
      { class: "jobcols" },
      h("div", { class: "stack" }, h("section", { class: "panel" }, h("header", {}, tabs), details), policies),
      h(
        "section",
        { class: "panel why" },
        h("header", {}, why, h("span", { class: "grow" }), h("code", { class: "quiet" }, `giveway explain ${id}`)),
        chain,
      ),
    ),
  );

  const renderTabs = () =>
    fill(
      tabs,
      [
        ["attempts", "Attempts"],
        ["tasks", "Tasks"],
        ["decisions", "Decisions"],
        ...(store.hasCoordinator
          ? [
              ["counters", "Counters"],
              ["logs", "Logs"],
            ]
          : []),
      ].map(([name, text]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(tab === name),
            onclick: () => {
              tab = name;
              renderTabs();
              renderDetails(true);
            },
          },
          text,
        ),
      ),
    );
  let counters = null;
  const renderDetails = (again) => {
    if (tab === "attempts") {
      if (again || !details.contains(gantt.box))
        fill(
          details,
          gantt.box,
          h(
            "footer",
            {},
            "Maps: slots in use. Reduces: one row each, by task number; pale while maps still run, dotted while paused.",
          ),
        );
      gantt.redraw();
    }
    if (tab === "tasks") renderTasks(details, log, row);
    if (tab === "decisions") renderDecisions(details, log, row);
    if (tab === "counters") renderCounters(details, counters);
    if (tab === "logs") {
      if (again) fill(details, h("p", { class: "empty" }, "Loading…"));
      printed.soon();
    }
  };
  const explain = new Poll(
    () => `/api/v1/jobs/${id}/explain${store.held === null ? "" : `?at=${store.held}`}`,
    (explanation) => renderChain(chain, why, log, explanation),
  );
  const forecast = store.isLive
    ? new Poll(
        `/api/v1/jobs/${id}/forecast`,
        (found) => {
          if (log.jobs[row].ended === null) renderForecasts(policies, log, log.jobs[row], found);
        },
        10000,
      )
    : null;
  const status = store.hasCoordinator
    ? new Poll(
        `/api/v1/jobs/${id}`,
        (found) => {
          counters = found;
          renderCause(cause, found);
          if (tab === "counters") renderDetails();
        },
        2000,
      )
    : null;
  const openLogs = new Map();
  const printed = new Poll(`/api/v1/jobs/${id}/logs`, (found) => {
    if (tab === "logs") renderLogs(details, id, found, openLogs);
  });
  let shown = "";
  const render = (what) => {
    const state = stateAt(log, store.at).jobs[row];
    const { job } = state;
    const key = JSON.stringify([state.word, job, state.done, state.running, store.held]);
    if (key !== shown) {
      shown = key;
      renderHead(head, facts, log, state);
    }
    renderLead(lead, log, state);
    if (state.ended) policies.hidden = true;
    if (what !== "window") renderDetails();
    else gantt.redraw();
    if (what === "instant") explain.soon();
    if (what === "data") {
      explain.soon();
      if (!state.ended) {
        forecast?.soon();
      }
      status?.soon();
    }
  };
  renderTabs();
  render("data");
  return {
    render,
    close: () => {
      explain.stop();
      forecast?.stop();
      status?.stop();
      printed.stop();
      gantt.close();
    },
  };
}

function renderHead(head, facts, log, state) {
  const { job } = state;
  const { of, groups } = groupsOf(log, choice.by ?? "size");
  const live = store.hasCoordinator && !state.ended;
  fill(
    head,
    h(
      "h1",
      {},
      h("i", { class: "swatch", style: { background: `var(--${groups[of[job.row]]?.color ?? "c7"})` } }),
      ` ${job.name}`,
      h("span", {}, ` #${job.id}`),
    ),
    stateWord(state.word),
    h("span", { class: "grow" }),
    live
      ? h(
          "span",
          { class: "buttons" },
          h(
            "button",
            {
              class: "btn",
              type: "button",
              disabled: state.running[0] + state.running[1] === 0,
              title: "Make its running tasks free their slots once; no work is lost",
              onclick: () => change(job, "yield"),
            },
            "Yield",
          ),
          h("button", { class: "btn", type: "button", onclick: () => change(job, "kill") }, "Kill…"),
        )
      : null,
  );
  const fact = (name, value) => h("span", {}, `${name} `, h("b", {}, value));
  fill(
    facts,
    fact("User", job.user),
    fact("Pool", job.pool),
    fact("Priority", job.priority),
    fact("Submitted", `${dateTime(log, job.submitted)}${zone(log)}`),
    state.started && job.started !== null ? fact("Waited", duration(elapsed(log, job.submitted, job.started))) : null,
    state.ended ? fact("Took", duration(elapsed(log, job.submitted, job.ended))) : null,
    fact("Maps", `${state.done[0]} of ${job.tasks[0]}${state.early ? ` and ${plural(state.early, "part")}` : ""}`),
    fact("Reduces", `${state.done[1]} of ${job.tasks[1]}${state.paused ? `, ${state.paused} paused` : ""}`),
    fact(
      "Preemptions",
      `${plural(state.pauses, "pause")}, ${plural(state.early, "early end")}${state.kills ? `, ${plural(state.kills, "kill")}` : ""}`,
    ),
    fact("Lost to preemption", duration(state.lost)),
    job.input_bytes > 1000 ? fact("Input", bytes(job.input_bytes)) : null,
  );
}

/** One sentence: how it stands, and why. */
function renderLead(box, log, state) {
  const { job } = state;
  const tasks = job.tasks[0] + job.tasks[1];
  const lost = state.lost > 0 ? `${duration(state.lost)} of slot time was lost to kills` : "no work was lost";
  const gave = state.pauses + state.early + state.kills;
  const preempted = gave ? ` It was preempted ${plural(gave, "time")}, and ${lost}.` : "";
  const forecast = state.forecast?.[1];
  const end =
    forecast?.[2] > store.clockAt
      ? `; expected to end ${forecast[1] === null ? "" : "at "}${expected(log, forecast)}${zone(log)}`
      : "";
  const left = tasks - state.done[0] - state.done[1];
  const text = {
    waiting: () =>
      job.started === null || job.started > store.at
        ? `Waiting for ${duration(elapsed(log, job.submitted, store.clockAt))}. ${waitingFor(log, state)}${end}.`
        : `Holds no slot now, with ${count(state.done[0] + state.done[1])} of ${plural(tasks, "task")} finished. ${waitingFor(log, state)}${end}.`,
    paused: () => `${plural(state.paused, "reduce is", "reduces are")} paused. ${waitingFor(log, state)}${end}.`,
    running: () =>
      `Running ${plural(state.running[0] + state.running[1], "task")}; ${count(left)} of ${plural(tasks, "task")} left${end}.${preempted}`,
    succeeded: () =>
      `Succeeded ${duration(elapsed(log, job.submitted, job.ended))} after submission${job.started > job.submitted ? `, having waited ${duration(elapsed(log, job.submitted, job.started))} for its first slot` : ""}.${preempted}`,
    killed: () => `Killed after ${duration(elapsed(log, job.submitted, job.ended))}; its output was removed.`,
    failed: () => `Failed after ${duration(elapsed(log, job.submitted, job.ended))}; its output was removed.`,
  }[state.word];
  box.textContent = text ? text() : "Not yet submitted at this instant.";
}

function renderChain(chain, title, log, explanation) {
  title.textContent =
    { waiting: "Why it waits", running: "What it holds, and why" }[explanation.state] ?? "What happened";
  const items = explanation.facts.map((fact, index) => {
    const most = Math.max(...fact.bars.map((bar) => bar.value), 1e-9);
    return h(
      "li",
      { class: fact.cause ? "cause" : "" },
      h("span", { class: "n" }, index + 1),
      h(
        "div",
        {},
        h("h3", {}, fact.title),
        fact.text ? h("p", {}, fact.text) : null,
        fact.bars.length
          ? h(
              "ul",
              { class: "bars" },
              fact.bars.map((bar) =>
                h(
                  "li",
                  { title: bar.text },
                  bar.job === explanation.job
                    ? h("b", { class: "label" }, "this job")
                    : h("a", { class: "label", href: `#/job/${bar.job}` }, bar.name),
                  h(
                    "span",
                    { class: "hbar" },
                    h("i", { style: { width: `${(100 * bar.value) / most}%`, background: "var(--c0)" } }),
                  ),
                  h("span", { class: "txt" }, bar.text),
                ),
              ),
            )
          : null,
      ),
    );
  });
  const own = explanation.forecasts[0];
  if (own?.end_s?.[2] > explanation.at_s && ["waiting", "running"].includes(explanation.state)) {
    const start = own.start_s ? `Starts ${expected(log, own.start_s)}, finishes` : "Finishes";
    items.push(
      h(
        "li",
        {},
        h("span", { class: "n" }, items.length + 1),
        h(
          "div",
          {},
          h("h3", {}, `${start} ${expected(log, own.end_s)}${zone(log)}`),
          h(
            "p",
            {},
            own.end_s[1] === null
              ? "Nothing is known yet of how long its tasks take, neither from its own nor from those of earlier jobs."
              : "90 % interval of simulations forward from the present, with jobs to come that are like the recent ones.",
          ),
        ),
      ),
    );
  }
  fill(chain, items);
}

function renderForecasts(box, log, job, found) {
  // Without a median there is nothing to compare.
  const usable = found.filter((one) => one.end_s?.[1] > store.clockAt);
  box.hidden = usable.length === 0;
  if (!usable.length) return;
  const now = store.clockAt;
  const first = Math.min(job.submitted, now);
  const last = Math.max(...usable.map((one) => one.end_s[2])) * 1.001;
  const x = (t) => `${(100 * (t - first)) / Math.max(1e-6, last - first)}%`;
  const width = (a, b) => `${Math.max(0.3, (100 * (b - a)) / Math.max(1e-6, last - first))}%`;
  const own = usable[0].end_s[1];
  fill(
    box,
    h(
      "header",
      {},
      h("h2", {}, "Under other policies"),
      h(
        "span",
        { class: "quiet" },
        `from the state at ${clock(log, now)}${zone(log)}; dotted: waits, bar: runs, line: end with its 90 % interval`,
      ),
    ),
    h(
      "div",
      { class: "pad" },
      usable.map((one, index) => {
        const start = one.start_s?.[1] ?? job.started ?? now;
        const [low, end, high] = one.end_s;
        const off = end - own;
        return h(
          "div",
          { class: "forecast" },
          index ? h("span", {}, one.policy) : h("b", {}, one.policy),
          h(
            "span",
            { class: "ftrack", "aria-hidden": "true" },
            h("i", { class: "wait0", style: { left: x(job.submitted), width: width(job.submitted, start) } }),
            h("i", {
              class: "run0",
              style: { left: x(start), width: width(start, end), background: index ? "var(--quiet)" : "var(--c0)" },
            }),
            h("i", { class: "int", style: { left: x(low), width: width(low, high) } }),
            h("i", { class: "end", style: { left: x(end) } }),
          ),
          h(
            "span",
            { class: "num" },
            clock(log, end),
            h(
              "span",
              { class: "quiet" },
              index ? ` ${off >= 0 ? "+" : "−"}${duration(Math.abs(off))}` : ` ± ${duration((high - low) / 2)}`,
            ),
          ),
        );
      }),
    ),
  );
}

function renderDecisions(box, log, row) {
  const found = decisionsUpTo(log, store.at, 200, (mark) => log.markJob[mark] === row || log.markOther[mark] === row);
  const subjects = found.filter(({ mark }) => log.markSubject[mark] !== NONE).map(({ mark }) => log.markSubject[mark]);
  const signature = `d${found.length}/${found[0]?.mark}/${subjects.filter((one) => log.reasons.has(one)).length}`;
  if (box.dataset.shown === signature && box.querySelector(".decision")) return;
  box.dataset.shown = signature;
  fill(
    box,
    found.map((one) => {
      const reason = log.reasons.get(log.markSubject[one.mark]);
      return decisionLine(log, one, reason?.stopped ?? reason?.launched);
    }),
    found.length ? null : h("p", { class: "empty" }, "No decision about it yet."),
  );
  if (subjects.some((one) => !log.reasons.has(one))) log.reasonsOf(subjects).then(() => renderDecisions(box, log, row));
}

/** When the last map of a job finished; none while some are left. */
function mapsEnded(log, row, at) {
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

function renderTasks(box, log, row) {
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

/** Failures that differ in more than numbers, latest first, and how often each happened. They begin with the attempt and its node. */
function distinctFailures(failures) {
  const found = new Map();
  for (const text of [...failures].reverse()) {
    const key = text.slice(text.indexOf(": ") + 1).replace(/\d+/g, "0");
    const one = found.get(key);
    if (one) one.times += 1;
    else found.set(key, { text, times: 1 });
  }
  return [...found.values()];
}

const failureText = ({ text, times }) =>
  h(
    "div",
    {},
    h("pre", { class: "logtext", tabindex: "0" }, text),
    times > 1 ? h("p", { class: "quiet" }, `and ${plural(times - 1, "more failure")} like this one`) : null,
  );

/** Why a job failed, first of all. */
function renderCause(box, status) {
  const failures = distinctFailures(status.failures ?? []);
  const isShown = status.outcome === "Failed" || status.state === "failed";
  box.hidden = !isShown || !failures.length;
  if (!box.hidden && box.dataset.shown !== failures[0].text) {
    box.dataset.shown = failures[0].text;
    fill(box, h("header", {}, h("h2", {}, "Why it failed")), h("div", { class: "pad" }, failureText(failures[0])));
  }
}

function renderCounters(box, status) {
  const entries = Object.entries(status?.counters ?? {});
  fill(
    box,
    entries.length
      ? h(
          "div",
          { class: "tablewrap", tabindex: "0", role: "region", "aria-label": "Table, scrolls sideways" },
          h(
            "table",
            {},
            h(
              "thead",
              {},
              h("tr", {}, h("th", { scope: "col" }, "Counter"), h("th", { scope: "col", class: "num" }, "Value")),
            ),
            h(
              "tbody",
              {},
              entries.map(([name, value]) =>
                h("tr", {}, h("td", {}, name), h("td", { class: "num" }, value.toLocaleString("en"))),
              ),
            ),
          ),
        )
      : h("p", { class: "empty" }, "No counter yet."),
    status?.failures?.length
      ? h("div", { class: "pad" }, h("b", {}, "Latest failures"), distinctFailures(status.failures).map(failureText))
      : null,
  );
}

/** Lists what attempts have printed; the last part of one is shown when it is opened. */
function renderLogs(box, id, found, open) {
  const signature = `l${JSON.stringify(found)}`;
  if (box.dataset.shown === signature && box.querySelector("details.log")) return;
  box.dataset.shown = signature;
  const load = async (log, text) => {
    const response = await fetch(`/api/v1/jobs/${id}/logs/${log.attempt}?tail=${LOG_TAIL_BYTES}`, {
      cache: "no-store",
    }).catch(() => null);
    if (!response?.ok) {
      text.textContent = "The log cannot be read now.";
      return;
    }
    const cut = Number(response.headers.get("giveway-log-start"));
    text.textContent = `${cut > 0 ? `[the last part; all of it: giveway logs ${id} ${log.attempt}]\n` : ""}${await response.text()}`;
    open.set(log.attempt, text.textContent);
  };
  fill(
    box,
    found.slice(0, LOG_ROWS_MAX).map((log) => {
      const text = h(
        "pre",
        { class: "logtext", tabindex: "0", "aria-label": `Log of ${log.attempt}` },
        open.get(log.attempt) ?? "",
      );
      const element = h(
        "details",
        { class: "log", open: open.has(log.attempt) },
        h("summary", {}, h("b", {}, log.attempt), ` on ${log.node}, ${bytes(log.bytes)}`),
        text,
      );
      element.addEventListener("toggle", () => {
        if (element.open) load(log, text);
        else open.delete(log.attempt);
      });
      if (open.has(log.attempt)) load(log, text);
      return element;
    }),
    found.length
      ? h(
          "footer",
          {},
          found.length > LOG_ROWS_MAX
            ? `${LOG_ROWS_MAX} of ${plural(found.length, "attempt")} that have printed something. `
            : "",
          h("code", {}, `giveway logs ${id}`),
        )
      : h("p", { class: "empty" }, "No attempt has printed anything."),
  );
}

/** Asks for the cluster's token, then kills the job or makes it yield. */
let token = "";
function change(job, what) {
  const dialog = document.getElementById("dialog");
  const error = h("p", { class: "error", role: "alert" });
  const input = h("input", { type: "password", id: "token", autocomplete: "off", value: token, required: true });
  const send = async () => {
    error.textContent = "";
    const response = await fetch(`/api/v1/jobs/${job.id}/${what}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${input.value.trim()}` },
    }).catch(() => null);
    if (response?.ok) {
      token = input.value.trim();
      dialog.close();
      return;
    }
    error.textContent = response
      ? ((await response.json().catch(() => ({}))).error ?? response.statusText)
      : "The coordinator does not answer; try again.";
  };
  const kill = what === "kill";
  fill(
    dialog,
    h(
      "form",
      {
        method: "dialog",
        onsubmit: (event) => {
          event.preventDefault();
          send();
        },
      },
      h(
        "h2",
        { id: "dialog-title" },
        kill ? `Kill ${shorten(job.name)} #${job.id}?` : `Make ${shorten(job.name)} #${job.id} yield?`,
      ),
      h(
        "p",
        {},
        kill
          ? "Its running tasks are stopped, its output is removed. This cannot be undone."
          : "Its running maps end early and its running reduces pause. Nothing is lost; the tasks continue when slots are free.",
      ),
      h("label", { for: "token" }, "The cluster's token (the file “token” in its directory)", input),
      error,
      h(
        "div",
        { class: "actions" },
        h("button", { class: "btn", type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { class: kill ? "btn danger" : "btn", type: "submit" }, kill ? "Kill job" : "Yield"),
      ),
    ),
  );
  dialog.showModal();
  input.focus();
}

/** The attempts of a job: maps as a level, reduces one row each. */
class Gantt {
  constructor(log, row) {
    this.log = log;
    this.row = row;
    this.canvas = h("canvas");
    this.box = h(
      "div",
      {
        class: "timeline",
        role: "img",
        "aria-label": "Attempts of this job over time; the tab Tasks has them as a table.",
      },
      this.canvas,
    );
    this.box.addEventListener("mousemove", (event) => this.hover(event));
    this.box.addEventListener("mouseleave", () => hideTip(this));
    this.box.addEventListener("click", (event) => {
      if (this.at) store.hold(this.time(event.offsetX));
    });
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.box);
  }
  close() {
    this.observer.disconnect();
    hideTip(this);
  }
  redraw() {
    if (!this.pending)
      this.pending = requestAnimationFrame(() => {
        this.pending = 0;
        this.draw();
      });
  }
  x(t) {
    return this.at.left + ((t - this.at.from) / (this.at.to - this.at.from)) * this.at.w;
  }
  time(x) {
    return this.at.from + ((x - this.at.left) / this.at.w) * (this.at.to - this.at.from);
  }

  draw() {
    const { log, row, canvas, box } = this;
    if (!box.isConnected || !box.clientWidth) return;
    const job = log.jobs[row];
    const until = store.at;
    const width = box.clientWidth;
    const left = width < 500 ? 44 : 72;
    const last = store.held === null ? log.live.forecasts.get(row)?.[1] : null;
    // One that should have come true by now is none.
    const forecast = last?.[2] > store.clockAt ? last : null;
    const from = job.submitted;
    const to = Math.max(from + 0.01, job.ended ?? Math.max(store.now, forecast?.[2] ?? 0)) + 1e-9;
    const reduces = Math.min(REDUCE_ROWS_MAX, job.tasks[1]);
    const rowHeight = reduces ? Math.max(2, Math.min(18, 280 / reduces)) : 0;
    const [mapHeight, markHeight] = [96, 16];
    const reduceTop = 12 + mapHeight + markHeight + 8;
    const height = reduceTop + reduces * rowHeight + 34;
    const span = (to - from) * 1.02;
    this.at = { left, w: width - left - 14, from, to: from + span, reduceTop, rowHeight, mapHeight, reduces };
    const ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const ctx = canvas.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.font = "11px system-ui, sans-serif";
    const { of, groups } = groupsOf(log, choice.by ?? "size");
    const paint = color(groups[of[row]]?.color ?? "c7");
    const { found, fine } = ticks(log, from, this.at.to, Math.max(2, Math.floor(this.at.w / 90)));
    for (const t of found) {
      const x = this.x(t);
      ctx.fillStyle = color("faint");
      ctx.fillRect(Math.round(x), 12, 1, height - 34);
      ctx.fillStyle = color("quiet");
      ctx.textAlign = "center";
      const text = clock(log, t + 1e-6, fine);
      ctx.fillText(text, Math.min(width - 4 - ctx.measureText(text).width / 2, Math.max(left + 20, x)), height - 8);
    }
    if (forecast) {
      ctx.fillStyle = color("quiet");
      ctx.globalAlpha = 0.2;
      ctx.fillRect(this.x(forecast[0]), 12, Math.max(1, this.x(forecast[2]) - this.x(forecast[0])), height - 36);
      ctx.globalAlpha = 1;
      ctx.fillStyle = color("text");
      if (forecast[1] !== null) ctx.fillRect(this.x(forecast[1]) - 0.75, 12, 1.5, height - 36);
      const text = `finish ${expected(log, forecast)}`;
      const end = Math.max(this.x(forecast[1] ?? forecast[2]) - 5, left + ctx.measureText(text).width);
      ctx.textAlign = "right";
      ctx.fillText(text, end, 12 + mapHeight + markHeight);
    }
    // Maps as a level: slots held in each pixel column.
    const columns = Math.floor(this.at.w) + 1;
    const level = new Float64Array(columns + 2);
    this.reduceRows = [];
    const shuffled = this.x(mapsEnded(log, row, until) ?? until);
    const paused = new Map();
    const marks = [];
    for (let attempt = 0; attempt < log.length && log.start[attempt] <= until; attempt += 1) {
      if (log.job[attempt] !== row) continue;
      const isOpen = !(log.end[attempt] <= until);
      const end = isOpen ? until : log.end[attempt];
      if (log.kind[attempt] === 0) {
        const a = this.x(log.start[attempt]) - left;
        const b = Math.max(a + 0.5, this.x(end) - left);
        const [first, last] = [Math.max(0, Math.floor(a)), Math.min(columns, Math.floor(b))];
        if (first === last) level[first] += b - a;
        else {
          level[first] += first + 1 - a;
          for (let c = first + 1; c < last; c += 1) level[c] += 1;
          level[last] += b - last;
        }
        if (!isOpen && log.ended[attempt] === ENDED.endedEarly) marks.push(["early", this.x(end)]);
        if (
          !isOpen &&
          (log.ended[attempt] === ENDED.failed ||
            log.ended[attempt] === ENDED.nodeLost ||
            log.ended[attempt] === ENDED.killedForOther)
        )
          marks.push(["cross", this.x(end)]);
        continue;
      }
      const line = log.task[attempt];
      if (line >= reduces) continue;
      const y = reduceTop + line * rowHeight;
      const bar = Math.max(1, rowHeight - (rowHeight > 3 ? 1.5 : 0.5));
      const [x0, x1] = [this.x(log.start[attempt]), Math.max(this.x(log.start[attempt]) + 1, this.x(end))];
      const pale = Math.min(x1, Math.max(x0, shuffled));
      ctx.fillStyle = paint;
      ctx.globalAlpha = 0.4;
      ctx.fillRect(x0, y, pale - x0, bar);
      ctx.globalAlpha = 1;
      ctx.fillRect(pale, y, x1 - pale, bar);
      this.reduceRows.push([attempt, x0, x1, y, bar]);
      const since = paused.get(line);
      if (since !== undefined) {
        this.dots(ctx, since, x0, y + bar / 2);
        paused.delete(line);
      }
      if (isOpen) continue;
      if (log.ended[attempt] === ENDED.paused) {
        paused.set(line, x1);
        if (rowHeight >= 6) drawShape(ctx, "pause", x1 + 4, y + bar / 2);
      }
      if ([ENDED.failed, ENDED.nodeLost, ENDED.killedForOther].includes(log.ended[attempt]))
        drawShape(ctx, "cross", x1 + 3, y + bar / 2, true);
    }
    for (const [line, since] of paused)
      if (job.ended === null || job.ended > until)
        this.dots(ctx, since, this.x(until), reduceTop + line * rowHeight + rowHeight / 2);
    const most = Math.max(1, ...level);
    ctx.fillStyle = paint;
    for (let c = 0; c < columns; c += 1)
      if (level[c] > 0)
        ctx.fillRect(left + c, 12 + mapHeight * (1 - level[c] / most), 1, (mapHeight * level[c]) / most);
    ctx.fillStyle = color("rule");
    ctx.fillRect(left, 12 + mapHeight, this.at.w, 1);
    let free = -Infinity;
    for (const [shape, x] of marks.sort((a, b) => a[1] - b[1])) {
      if (x < free) continue;
      free = x + 8;
      drawShape(ctx, shape, x, 12 + mapHeight + 10, shape === "cross");
    }
    ctx.textAlign = "right";
    ctx.fillStyle = color("quiet");
    ctx.fillText(String(Math.round(most)), left - 7, 22);
    if (reduces > 1) {
      ctx.fillText("0", left - 7, reduceTop + 8);
      ctx.fillText(String(reduces - 1), left - 7, reduceTop + reduces * rowHeight);
    }
    ctx.fillStyle = color("text");
    ctx.fillText("maps", left - 7, 12 + mapHeight / 2 + 4);
    if (reduces === 1 || reduces > 2)
      ctx.fillText(
        width < 500 ? "red." : reduces > 1 ? "reduces" : "reduce",
        left - 7,
        reduceTop + (reduces * rowHeight) / 2 + 4,
      );
    const x = this.x(until);
    ctx.fillStyle = color("link");
    ctx.fillRect(x - 0.75, 8, 1.5, height - 30);
  }

  dots(ctx, from, to, y) {
    ctx.strokeStyle = color("quiet");
    ctx.setLineDash([1.5, 2.5]);
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(from + 9, y);
    ctx.lineTo(Math.max(from + 9, to), y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
  }

  hover(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    const found = this.reduceRows?.find(
      ([, x0, x1, top, bar]) => x >= x0 - 2 && x <= x1 + 2 && y >= top - 1 && y <= top + bar + 1,
    );
    if (!found) return hideTip(this);
    tipOfAttempt(this.log, found[0], (...lines) => showTip(event.clientX, event.clientY, lines, this));
  }
}
