// One job: attempts, tasks, decisions, why it runs or waits, forecasts, yield and kill.

import { NONE, Poll, store } from "./store.js";
import { fill, h } from "./dom.js";
import { bytes, count, dateTime, duration, elapsed, expected, plural, shorten, zone } from "./format.js";
import { decisionsUpTo, groupsOf, stateAt } from "./instant.js";
import { choice } from "./timeline.js";
import { stateWord, waitingFor } from "./job_table.js";
import { Gantt } from "./job_chart.js";
import { renderTasks } from "./job_tasks.js";
import { renderChain, renderForecasts } from "./job_why.js";
import { decisionLine } from "./overview.js";

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
