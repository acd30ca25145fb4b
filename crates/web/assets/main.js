// The frame: top bar, views by address, keyboard, theme, connection.

import { store } from "./store.js";
import { h, fill, forgetColors, hideTip } from "./dom.js";
import { clock, duration, instantText, localTime, parseClock, zone } from "./format.js";
import { filter } from "./job_table.js";
import { overview } from "./overview.js";
import { jobPage } from "./job.js";
import { nodesPage } from "./nodes.js";
import { comparePage } from "./compare.js";
import { choice, step } from "./timeline.js";

const main = document.getElementById("main");
const byId = (id) => document.getElementById(id);
let view = null;

function parts() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "overview", id] = (path || "overview").split("/");
  return { name: name || "overview", id, query: new URLSearchParams(query ?? "") };
}

function open() {
  if (!store.log?.cursor) return;
  const { name, id, query } = parts();
  view?.close?.();
  hideTip();
  const at = query.get("at") === null ? null : (parseClock(store.log, query.get("at")) ?? Number(query.get("at")));
  if (at !== null && Number.isFinite(at)) store.held = at;
  if (query.get("theme")) setTheme(query.get("theme"));
  if (query.get("mode")) choice.mode = query.get("mode");
  const views = {
    overview: () => overview(main),
    jobs: () => overview(main, { jobsOnly: true }),
    job: () => jobPage(main, Number(id)),
    nodes: () => nodesPage(main),
    compare: () => comparePage(main),
  };
  view = (views[name] ?? views.overview)();
  for (const link of document.querySelectorAll("[data-view]")) {
    const current = link.dataset.view === name || (name === "job" && link.dataset.view === "overview");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  frame();
}

/** Keeps the held instant in the address, so that it can be sent to somebody else. */
let remembering = 0;
function rememberInstant() {
  remembering ||= setTimeout(() => {
    remembering = 0;
    const [path, query] = location.hash.split("?");
    const parameters = new URLSearchParams(query ?? "");
    if (store.held === null) parameters.delete("at");
    else parameters.set("at", instantText(store.log, store.held));
    const text = parameters.toString();
    const hash = `${path || "#/overview"}${text ? `?${text}` : ""}`;
    if (hash !== location.hash && (text || query)) history.replaceState(history.state, "", hash);
  }, 400);
}

/** The parts of the page that all views share. */
function frame() {
  const log = store.log;
  fill(byId("source"), h("b", {}, store.isLive ? "cluster" : "recorded"), ` ${log.name} · ${log.nodes.length} nodes`);
  byId("source").title = log.name;
  byId("policy").textContent = store.logs.map((one) => one.policy).join(" · ");
  const chip = byId("live");
  const held = store.held !== null;
  chip.className = `chip live ${!store.connected ? "lost" : held ? "held" : store.isLive ? "now" : "recorded"}`;
  byId("livetext").textContent =
    `${!store.connected ? "No connection" : held ? "Held" : store.isLive ? "Live" : "End"} ${clock(log, store.clockAt)}${zone(log)}`;
  const local = localTime(log, store.clockAt);
  chip.title = `${local ? `${local} where you are. ` : ""}${held ? "Back to the present (Space)" : "Hold this instant (Space)"}`;
  rememberInstant();
  const banner = byId("banner");
  document.body.classList.toggle("stale", !store.connected);
  const key = !store.connected ? "lost" : held ? `held${store.isLive}` : log.replica ? "" : "replica";
  if (banner.dataset.key !== key || key === "lost") {
    banner.dataset.key = key;
    banner.hidden = key === "";
    banner.className = `banner ${key === "lost" ? "bad" : ""}`;
    if (key === "lost")
      fill(
        banner,
        `No response for ${duration((performance.now() - store.lostAt) / 1000)}. The page shows the last known state and reconnects by itself.`,
      );
    else if (held)
      fill(
        banner,
        h("span", {}, store.isLive ? "The page shows a past instant." : "The page shows an instant of the recording."),
        h(
          "button",
          { class: "btn", type: "button", onclick: () => store.hold(null) },
          store.isLive ? "Back to live" : "To its end",
        ),
      );
    else if (key)
      fill(
        banner,
        "This log was written by a release that decides differently: ranks and shares at its end may be wrong.",
      );
  }
}

let queued = false;
let hurry = new Set();
let lastRender = 0;
store.listeners.add((what) => {
  hurry.add(what);
  if (queued) return;
  queued = true;
  // New data is drawn twice a second at most; what the reader does is drawn with the next frame.
  const wait = what === "data" ? Math.max(0, 450 - (performance.now() - lastRender)) : 0;
  const run = () =>
    requestAnimationFrame(() => {
      queued = false;
      const all = hurry;
      hurry = new Set();
      lastRender = performance.now();
      if (document.hidden && all.has("data")) return;
      frame();
      view?.render?.(all.has("data") || all.has("connection") ? "data" : all.has("instant") ? "instant" : "window");
    });
  if (wait) setTimeout(run, wait);
  else run();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) store.notify("data");
});

// Between two updates the clock moves on.
setInterval(() => {
  if (store.isLive && store.held === null && !document.hidden && store.log?.length) {
    frame();
    view?.timeline?.redraw();
  }
}, 1000);

// Theme.
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  forgetColors();
  view?.render?.("data");
}
function remembered() {
  try {
    return localStorage.getItem("giveway.theme");
  } catch {
    return null;
  }
}
function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("giveway.theme", next);
  } catch {
    /* Private windows have no storage. */
  }
  setTheme(next);
}
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme(remembered() ?? (prefersDark.matches ? "dark" : "light"));
prefersDark.addEventListener("change", (event) => {
  if (!remembered()) setTheme(event.matches ? "dark" : "light");
});
byId("theme").addEventListener("click", toggleTheme);
byId("live").addEventListener("click", () => store.hold(store.held === null ? store.at - 1e-6 : null));
byId("search").addEventListener("click", () => palette());

// Dialogs.
const dialog = byId("dialog");
function show(...children) {
  fill(dialog, ...children);
  if (!dialog.open) dialog.showModal();
}

function palette() {
  const log = store.log;
  let [found, at] = [[], 0];
  const results = h("div", { class: "results", role: "listbox", "aria-label": "Results" });
  const go = (one) => {
    dialog.close();
    one.run();
  };
  const render = () =>
    fill(
      results,
      found.map((one, index) =>
        h(
          "button",
          { type: "button", role: "option", "aria-selected": String(index === at), onclick: () => go(one) },
          h("b", {}, one.text),
          h("span", { class: "quiet" }, one.about),
        ),
      ),
      found.length ? null : h("p", { class: "empty" }, "Nothing found."),
    );
  const commands = [
    {
      text: "Overview",
      about: "view",
      run: () => {
        location.hash = "#/overview";
      },
    },
    {
      text: "Nodes",
      about: "view",
      run: () => {
        location.hash = "#/nodes";
      },
    },
    {
      text: "Compare",
      about: "view",
      run: () => {
        location.hash = "#/compare";
      },
    },
    { text: "Light or dark", about: "command", run: toggleTheme },
    { text: "Back to the present", about: "command", run: () => store.hold(null) },
    { text: "Keyboard shortcuts", about: "command", run: shortcuts },
  ];
  const search = () => {
    const text = input.value.toLowerCase().trim();
    const time = parseClock(log, text);
    found = [];
    if (time !== null)
      found.push({ text: `Go to ${clock(log, time)}${zone(log)}`, about: "instant", run: () => store.hold(time) });
    const matches = (name) => name.toLowerCase().includes(text);
    if (text) {
      for (let row = log.jobs.length - 1; row >= 0 && found.length < 12; row -= 1) {
        const job = log.jobs[row];
        if (matches(job.name) || String(job.id) === text.replace("#", ""))
          found.push({
            text: job.name,
            about: `job #${job.id} · ${job.user}`,
            run: () => {
              location.hash = `#/job/${job.id}`;
            },
          });
      }
      for (const user of log.names("user"))
        if (matches(user) && found.length < 16)
          found.push({
            text: user,
            about: "user: show only these jobs",
            run: () => {
              filter.user = user;
              location.hash = "#/overview";
              view?.render?.("data");
            },
          });
      for (const node of log.nodes)
        if (matches(node.name) && found.length < 20)
          found.push({
            text: node.name,
            about: "node",
            run: () => {
              location.hash = "#/nodes";
            },
          });
    }
    found.push(...commands.filter((command) => matches(command.text)));
    at = 0;
    render();
  };
  const input = h("input", {
    type: "text",
    "aria-label": "Job, user, node, command, or a time (UTC) such as 14:05",
    placeholder: "Job, user, node, command, or 14:05 (UTC)",
    oninput: search,
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length);
        render();
        event.preventDefault();
      }
      if (event.key === "Enter" && found[at]) {
        event.preventDefault();
        go(found[at]);
      }
    },
  });
  show(h("h2", { id: "dialog-title" }, "Search or jump"), input, results);
  search();
  input.focus();
}

function shortcuts() {
  const keys = [
    ["Ctrl K", "search or jump"],
    ["G O / G N / G C", "overview, nodes, compare"],
    ["/", "filter jobs"],
    ["J K Enter", "choose a job"],
    ["M", "only my jobs, or all"],
    ["← →", "last and next decision"],
    ["Shift ← →", "10 s back and forth"],
    ["Space", "hold, or back to the present"],
    ["+ − 0", "zoom in, out, all"],
    ["A N", "area or nodes"],
    ["T", "light or dark"],
    ["Esc", "close, or back to the present"],
  ];
  show(
    h("h2", { id: "dialog-title" }, "Keyboard"),
    h(
      "div",
      { class: "keys" },
      keys.map(([key, text]) => [h("kbd", {}, key), h("span", {}, text)]),
    ),
    h(
      "div",
      { class: "actions" },
      h("button", { class: "btn", type: "button", onclick: () => dialog.close() }, "Close"),
    ),
  );
}

let prefix = false;
document.addEventListener("keydown", (event) => {
  if (!store.log?.cursor && !store.log?.jobs) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette();
    return;
  }
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (prefix) {
    prefix = false;
    const to = { o: "overview", n: "nodes", c: "compare" }[key];
    if (to) {
      location.hash = `#/${to}`;
      return;
    }
  }
  const onButton = event.target.tagName === "BUTTON" || event.target.tagName === "A";
  const actions = {
    g: () => {
      prefix = true;
      setTimeout(() => {
        prefix = false;
      }, 1200);
    },
    "/": () => byId("filter")?.focus(),
    "?": shortcuts,
    t: toggleTheme,
    j: () => view?.table?.move(1),
    k: () => view?.table?.move(-1),
    m: () => view?.table?.mine(),
    ArrowLeft: () => (event.shiftKey ? store.hold(store.at - 10) : step(store.log, -1)),
    ArrowRight: () => (event.shiftKey ? store.hold(store.at + 10) : step(store.log, 1)),
    " ": () => store.hold(store.held === null ? store.at - 1e-6 : null),
    "+": () => view?.timeline?.zoom(0.5),
    "-": () => view?.timeline?.zoom(2),
    0: () => {
      choice.window = null;
      choice.span = 0;
      store.notify("window");
    },
    a: () => {
      choice.mode = "area";
      store.notify("window");
    },
    n: () => {
      choice.mode = "nodes";
      store.notify("window");
    },
    Escape: () => store.hold(null),
    Enter: () => view?.table?.open(),
  };
  if (onButton && (key === " " || key === "Enter")) return;
  if (actions[key]) {
    event.preventDefault();
    actions[key]();
  }
});

addEventListener("hashchange", open);
store.start().then(open, (error) => {
  const text =
    error.status === 401
      ? "This page needs a link with a token for reading. `giveway token link` prints one for a cluster, `giveway view` for a recorded log."
      : `The event log cannot be loaded: ${error.message}`;
  fill(main, h("p", { class: "loading" }, text));
  byId("livetext").textContent = "Not loaded";
  byId("live").className = "chip live lost";
});

// For measurements.
globalThis.giveway = {
  store,
  choice,
  get view() {
    return view;
  },
};
