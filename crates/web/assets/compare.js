// Two logs of the same jobs: which policy ends them sooner, and who pays.

import { simulated, store } from "./store.js";
import { h, s, fill } from "./dom.js";
import { clock, count, duration, plural } from "./format.js";
import { owner, sizeOf } from "./instant.js";
import { Timeline } from "./timeline.js";

const SIZES = ["Small", "Medium", "Large"];

/** The simulations that were run last, kept while other views are open. */
let last = { logs: null, running: null, error: "" };

export function comparePage(root) {
  if (store.logs.length > 1) return comparison(root, store.logs);
  let page = null;
  const show = () => {
    page?.close?.();
    const controls = runControls(show);
    if (last.logs) page = comparison(root, last.logs, controls);
    else {
      page = null;
      fill(
        root,
        h("h1", {}, "Compare"),
        h("p", { class: "lead" }, "Would the jobs of this log finish sooner under another policy?"),
        controls,
        h(
          "section",
          { class: "panel pad" },
          h("p", {}, "Two recorded logs side by side, and other clusters, on the command line:"),
          h("p", {}, h("code", {}, "giveway view first.eventlog second.eventlog")),
          h("p", {}, h("code", {}, "giveway what-if cluster.eventlog --policy fair --nodes +2")),
        ),
      );
    }
  };
  show();
  return { render: () => page?.render(), close: () => page?.close() };
}

/** Runs the simulations. They continue while other views are open; the page that is open then shows their result. */
function runControls(show) {
  const own = store.log.policy;
  const others = store.policies.filter((name) => name !== own);
  const chosen = last.logs?.[1].policy ?? (others.includes("fair") ? "fair" : others[0]);
  const select = h(
    "select",
    { id: "other", disabled: last.running !== null },
    others.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
  const run = async () => {
    last = { ...last, running: select.value, error: "" };
    show();
    try {
      last = { logs: await simulated(last.running), running: null, error: "" };
    } catch (error) {
      last = { ...last, running: null, error: error.message };
    }
    if (document.contains(document.getElementById("other"))) dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return h(
    "section",
    { class: "panel pad run", "aria-live": "polite" },
    h("label", { for: "other" }, `Simulate the recorded jobs under ${own} and `),
    select,
    h(
      "button",
      { class: "btn", type: "button", disabled: last.running !== null, onclick: run },
      last.running ? "Simulating…" : last.logs ? "Run again" : "Run the comparison",
    ),
    last.error
      ? h("p", { class: "error", role: "alert" }, last.error)
      : h(
          "p",
          { class: "quiet" },
          "Both runs are simulated, with the tasks that have finished and on the nodes of this log; neither is the recorded run. Jobs that have not succeeded load the cluster but are not compared. This takes up to a minute, at low priority.",
        ),
  );
}

function comparison(root, [a, b], controls = null) {
  const names = a.policy === b.policy ? [a.name, b.name] : [a.policy, b.policy];
  // Of simulated jobs only those that succeeded when they were recorded: of others the finished tasks alone were simulated.
  const isComplete = ({ job }) => !controls || store.log.jobs[store.log.byId.get(job.id)]?.outcome === "succeeded";
  const pairs = pair(a, b).filter(isComplete);
  const timelines = [a, b].map((log) => new Timeline(log, { compact: true, logs: [a, b] }));
  fill(
    root,
    h("h1", { class: "title" }, "Compare ", key("a"), ` ${names[0]} `, key("b"), ` ${names[1]}`),
    controls,
    h("p", { class: "lead" }, sentence(names, pairs)),
    h(
      "section",
      { class: "panel" },
      h(
        "header",
        {},
        h("h2", {}, "Completion by size of job"),
        h(
          "span",
          { class: "quiet" },
          "Share of jobs finished by a time after submission (logarithmic). Further left is better.",
        ),
      ),
      h(
        "div",
        { class: "three" },
        SIZES.map((name, size) =>
          curve(
            name,
            pairs.filter((one) => one.size === size),
          ),
        ),
      ),
    ),
    h(
      "div",
      { class: "pair" },
      h(
        "section",
        { class: "panel" },
        h("header", {}, h("h2", {}, "Mean completion by user")),
        h("div", { class: "pad" }, users(pairs)),
      ),
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "In figures")), figures(names, a, b, pairs)),
    ),
    h(
      "section",
      { class: "panel" },
      h(
        "header",
        {},
        h("h2", {}, "Jobs that finish later"),
        h("span", { class: "quiet" }, `under ${names[0]} than under ${names[1]}`),
      ),
      losers(names, pairs, a, b),
    ),
    h(
      "section",
      { class: "panel", style: { "margin-top": "16px" } },
      h("header", {}, h("h2", {}, "Slots over the same time"), timelines[0].controls),
      timelines.map((timeline, index) => [h("p", { class: "pad" }, h("b", {}, names[index])), timeline.box]),
      h("footer", {}, timelines[0].legend),
    ),
  );
  timelines[0].renderControls();
  const render = () => timelines.forEach((timeline) => timeline.redraw());
  return { render, timeline: timelines[0], close: () => timelines.forEach((timeline) => timeline.close()) };
}

const key = (which) =>
  s(
    "svg",
    { viewBox: "0 0 24 10", width: 24, height: 10, "aria-hidden": "true" },
    s("path", { d: "M0 5h24", class: `line-${which}` }),
  );

/** The same job in both logs: by name, user and order of submission. */
function pair(a, b) {
  const byKey = new Map();
  const seen = new Map();
  const keyOf = (job, counts) => {
    const base = `${job.name}\u0000${job.user}\u0000${job.tasks}`;
    const n = counts.get(base) ?? 0;
    counts.set(base, n + 1);
    return `${base}\u0000${n}`;
  };
  for (const job of b.jobs) byKey.set(keyOf(job, seen), job);
  const counts = new Map();
  const done = (job) => (job && job.outcome === "succeeded" ? job.ended - job.submitted : null);
  return a.jobs
    .map((job) => ({ job, other: byKey.get(keyOf(job, counts)), size: sizeOf(job) }))
    .map((one) => ({ ...one, a: done(one.job), b: done(one.other) }))
    .filter((one) => one.a !== null && one.b !== null);
}

const mean = (numbers) => (numbers.length ? numbers.reduce((x, y) => x + y, 0) / numbers.length : NaN);
const quantile = (numbers, q) => {
  const sorted = [...numbers].sort((x, y) => x - y);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : NaN;
};

function sentence([first, second], pairs) {
  if (!pairs.length) return "No job succeeded in both logs: they cannot be compared.";
  const [ma, mb] = [mean(pairs.map((one) => one.a)), mean(pairs.map((one) => one.b))];
  const gain = pairs.filter((one) => one.a < one.b * 0.95).length;
  const lose = pairs.filter((one) => one.a > one.b * 1.05).length;
  const change = Math.round((100 * Math.abs(mb - ma)) / mb);
  return [
    "The mean completion time under ",
    h("b", {}, first),
    " is ",
    change < 1 ? "the same as" : h("b", {}, `${change} % ${ma <= mb ? "lower" : "higher"}`),
    change < 1 ? " under " : " than under ",
    h("b", {}, second),
    `: ${duration(ma)} against ${duration(mb)}. Of ${plural(pairs.length, "job")}, ${count(gain)} finish more than 5 % sooner and ${count(lose)} more than 5 % later.`,
  ];
}

/** How much more one value is than another, in percent. */
function change(x, y) {
  const percent = Math.round((100 * (x - y)) / y);
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent)} %`;
}

function curve(name, pairs) {
  const [w, height, left, bottom] = [380, 200, 44, 22];
  const values = pairs.flatMap((one) => [one.a, one.b]).filter((value) => value > 0);
  const head = h(
    "div",
    {},
    h("b", {}, name),
    h("span", { class: "quiet" }, ` ${plural(pairs.length, "job")}`),
    pairs.length
      ? h(
          "span",
          { class: "quiet" },
          `, median ${duration(
            quantile(
              pairs.map((one) => one.a),
              0.5,
            ),
          )} against ${duration(
            quantile(
              pairs.map((one) => one.b),
              0.5,
            ),
          )}`,
        )
      : null,
  );
  if (values.length < 4)
    return h(
      "div",
      {},
      head,
      h("p", { class: "empty" }, pairs.length ? "Too few jobs for a curve." : "No such job in both logs."),
    );
  const [low, high] = [Math.log(Math.min(...values) * 0.95), Math.log(Math.max(...values) * 1.05)];
  const x = (value) => left + ((Math.log(value) - low) / (high - low)) * (w - left - 6);
  const y = (part) => 8 + (1 - part) * (height - 8 - bottom);
  const path = (numbers) => {
    const sorted = [...numbers].sort((p, q) => p - q);
    let d = `M${left} ${y(0)}`;
    sorted.forEach((value, index) => {
      d += `H${x(value).toFixed(1)}V${y((index + 1) / sorted.length).toFixed(1)}`;
    });
    return `${d}H${w - 6}`;
  };
  const marks = [
    0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 36000, 86400,
  ].filter((value) => Math.log(value) > low && Math.log(value) < high);
  const every = Math.max(1, Math.ceil(marks.length / 4));
  return h(
    "div",
    {},
    head,
    s(
      "svg",
      { viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": `${name} jobs: share finished over time` },
      [0, 0.5, 1].map((part) => [
        s("path", { d: `M${left} ${y(part)}H${w - 6}`, stroke: "var(--faint)" }),
        s("text", { x: left - 5, y: y(part) + 4, "text-anchor": "end" }, `${part * 100} %`),
      ]),
      marks
        .filter((_, index) => index % every === 0)
        .map((value) =>
          s(
            "text",
            { x: x(value), y: height - 6, "text-anchor": "middle" },
            duration(value).replace(".0", "").replace(" 00 s", "").replace(" 00 min", ""),
          ),
        ),
      s("path", { d: path(pairs.map((one) => one.b)), class: "line-b" }),
      s("path", { d: path(pairs.map((one) => one.a)), class: "line-a" }),
    ),
  );
}

function users(pairs) {
  const byUser = new Map();
  for (const one of pairs) {
    const list = byUser.get(one.job.user);
    if (list) list.push(one);
    else byUser.set(one.job.user, [one]);
  }
  const rows = [...byUser.entries()]
    .map(([user, jobs]) => ({ user, a: mean(jobs.map((one) => one.a)), b: mean(jobs.map((one) => one.b)) }))
    .sort((p, q) => p.a / p.b - q.a / q.b)
    .slice(0, 14);
  if (!rows.length) return h("p", { class: "empty" }, "No job in both logs.");
  const all = rows.flatMap((one) => [one.a, one.b]);
  const [low, high] = [Math.log(Math.min(...all) * 0.9), Math.log(Math.max(...all) * 1.1)];
  const x = (value) => `${(100 * (Math.log(value) - low)) / (high - low || 1)}%`;
  return h(
    "ul",
    { class: "users" },
    rows.map(({ user, a, b }) =>
      h(
        "li",
        { title: `${duration(a)} against ${duration(b)}` },
        h("span", { class: "label" }, user),
        h(
          "span",
          { class: "track" },
          h("i", { style: { left: x(Math.min(a, b)), right: `calc(100% - ${x(Math.max(a, b))})` } }),
          h("b", { class: "b", style: { left: x(b) } }),
          h("b", { style: { left: x(a) } }),
        ),
        h("span", { class: "num" }, change(a, b)),
      ),
    ),
  );
}

function figures(names, a, b, pairs) {
  const of = (size, which) => pairs.filter((one) => size === null || one.size === size).map((one) => one[which]);
  const sum = (log, ...keys) => log.jobs.reduce((all, job) => all + keys.reduce((one, name) => one + job[name], 0), 0);
  const last = (log) => Math.max(0, ...log.jobs.map((job) => job.ended ?? 0));
  const rows = [
    ["Mean completion", mean(of(null, "a")), mean(of(null, "b")), duration],
    ["95th percentile", quantile(of(null, "a"), 0.95), quantile(of(null, "b"), 0.95), duration],
    ["Mean, small jobs", mean(of(0, "a")), mean(of(0, "b")), duration],
    ["Mean, large jobs", mean(of(2, "a")), mean(of(2, "b")), duration],
    ["Last job finished", last(a), last(b), (t) => clock(null, t)],
    ["Pauses, early ends", sum(a, "pauses", "early_ends"), sum(b, "pauses", "early_ends"), count],
    ["Kills", sum(a, "kills"), sum(b, "kills"), count],
    ["Lost to preemption", sum(a, "lost_s"), sum(b, "lost_s"), duration],
  ];
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["", ...names, "Change"].map((name, index) =>
          h("th", { scope: "col", class: index ? "num" : "" }, name || h("span", { class: "sr" }, "Figure")),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map(([name, x, y, format]) =>
        h(
          "tr",
          {},
          h("td", {}, name),
          h("td", { class: "num" }, h("b", {}, Number.isFinite(x) ? format(x) : "–")),
          h("td", { class: "num" }, Number.isFinite(y) ? format(y) : "–"),
          h("td", { class: "num quiet" }, y > 0 && Number.isFinite(x) ? change(x, y) : ""),
        ),
      ),
    ),
  );
}

/** How many jobs were submitted after a job and ended before it. */
const overtakers = (log, job) =>
  log.jobs.filter((other) => other.submitted > job.submitted && other.ended !== null && other.ended < job.ended).length;

/** Why a job ends later, from what the two runs tell about it. */
function why({ job, other, a: after, b: before }, a, b) {
  const [wait, waitBefore] = [job, other].map((one) => one.started - one.submitted);
  const [passed, passedBefore] = [overtakers(a, job), overtakers(b, other)];
  const more = (key, one, many) =>
    job[key] > other[key] && `${plural(job[key] - other[key], `more ${one}`, `more ${many}`)}`;
  const parts = [
    wait - waitBefore > (after - before) / 4 &&
      `its first task waited ${duration(wait)} instead of ${duration(waitBefore)}`,
    passed > passedBefore && `${plural(passed, "later job")} finished before it, instead of ${count(passedBefore)}`,
    more("early_ends", "early end", "early ends"),
    more("pauses", "pause", "pauses"),
    more("kills", "kill", "kills"),
  ].filter(Boolean);
  return parts.join("; ") || "fewer slots at the same time, or slower nodes";
}

function losers(names, pairs, a, b) {
  const worst = pairs
    .filter((one) => one.a > one.b * 1.02)
    .sort((p, q) => q.a / q.b - p.a / p.b)
    .slice(0, 8);
  if (!worst.length) return h("p", { class: "empty" }, "No job is later by more than 2 %.");
  return h(
    "div",
    { class: "tablewrap", tabindex: "0", role: "region", "aria-label": "Table, scrolls sideways" },
    h(
      "table",
      { class: "later" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Job", "User · pool", names[0], names[1], "Later by", "Why"].map((name, index) =>
            h("th", { scope: "col", class: index > 1 && index < 5 ? "num" : "" }, name),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        worst.map((one) =>
          h(
            "tr",
            {},
            h(
              "td",
              {},
              h("a", { href: `#/job/${one.job.id}` }, one.job.name),
              h("span", { class: "quiet" }, ` #${one.job.id}`),
            ),
            h("td", {}, owner(one.job)),
            h("td", { class: "num" }, duration(one.a)),
            h("td", { class: "num" }, duration(one.b)),
            h("td", { class: "num" }, h("b", {}, `${(one.a / one.b).toFixed(2)}×`), ` ${duration(one.a - one.b)}`),
            h("td", { class: "wrap" }, why(one, a, b)),
          ),
        ),
      ),
    ),
  );
}
