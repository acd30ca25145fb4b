// Nodes: which need attention, what each runs, where reduces are paused.

import { store, ENDED, Poll } from "./store.js";
import { h, fill, glyph } from "./dom.js";
import { bytes, clock, count, duration, elapsed, percent, plural, zone } from "./format.js";
import { exclusionOf, groupsOf, isUp, nodeState } from "./instant.js";
import { Timeline, choice } from "./timeline.js";

// With more nodes, each is one cell of a heat grid instead of a card.
const CARDS_MAX = 48;
const ROWS_FIRST = 40;
const ROWS_MAX = 1000;
const filter = { text: "", more: false };

export function nodesPage(root) {
  const log = store.log;
  const summary = h("p", { class: "verdict" });
  const attention = h("div");
  const grid = h("div");
  const table = h("div");
  choice.mode = "nodes";
  const timeline = new Timeline(log);
  fill(
    root,
    h("h1", { class: "sr" }, "Nodes"),
    summary,
    h(
      "div",
      { class: "stack" },
      h("section", { class: "panel" }, attention),
      h("section", { class: "panel" }, grid),
      h(
        "section",
        { class: "panel" },
        h("header", {}, h("h2", {}, "Slots by node"), timeline.controls),
        timeline.box,
        h("footer", {}, timeline.legend),
      ),
      h("section", { class: "panel" }, table),
    ),
  );
  timeline.renderControls();
  const again = () => render("data");
  const used = new Usage(again);
  const render = (what) => {
    if (what !== "window") {
      const nodes = usage(log, store.at);
      renderSummary(summary, nodes);
      renderAttention(attention, log, nodes);
      const shown = nodes.filter(matches);
      renderGrid(grid, log, shown, nodes.length, again);
      renderTable(table, log, shown, again, store.held === null ? used.byName : null);
    }
    timeline.redraw();
  };
  render("data");
  return {
    render,
    timeline,
    close: () => {
      timeline.close();
      used.stop();
    },
  };
}

/** What the processes of each node use now: cores since the last answer, and memory. A cluster that runs knows. */
class Usage {
  constructor(then) {
    this.byName = null;
    this.last = new Map();
    if (!store.hasCoordinator) return;
    this.poll = new Poll("/api/v1/nodes", (nodes) => {
      const at = performance.now() / 1000;
      this.byName = new Map();
      for (const { name, cpu_s, memory_bytes } of nodes) {
        const before = this.last.get(name);
        const cores = before?.cpu_s <= cpu_s ? (cpu_s - before.cpu_s) / (at - before.at) : NaN;
        if (cpu_s !== null) this.last.set(name, { cpu_s, at });
        this.byName.set(name, { cores, memory: memory_bytes });
      }
      then();
    });
    this.poll.soon();
    this.timer = setInterval(() => document.hidden || this.poll.soon(), 2000);
  }
  stop() {
    this.poll?.stop();
    clearInterval(this.timer);
  }
}

/** What each node runs at an instant, and what it ran before. */
function usage(log, at) {
  const nodes = log.nodes.map((node) => ({
    node,
    up: isUp(node, at),
    excluded: isUp(node, at) ? exclusionOf(node, at) : undefined,
    known: node.up[0][0] <= at,
    running: [],
    paused: 0,
    busy: 0,
    failures: 0,
    finished: 0,
    time: 0,
  }));
  for (let row = 0; row < log.length && log.start[row] <= at; row += 1) {
    const one = nodes[log.node[row]];
    if (!one) continue;
    const over = log.end[row] <= at;
    one.busy += (over ? log.end[row] : at) - log.start[row];
    if (!over) {
      one.running.push(row);
      continue;
    }
    if (log.ended[row] === ENDED.failed) one.failures += 1;
    if (log.ended[row] === ENDED.finished) {
      one.finished += 1;
      one.time += log.end[row] - log.start[row];
    }
  }
  // A reduce is paused on the node of its last attempt, if that attempt paused.
  const last = new Map();
  for (let row = 0; row < log.length && log.start[row] <= at; row += 1)
    if (log.kind[row] === 1) last.set(log.job[row] * 1e7 + log.task[row], row);
  for (const row of last.values()) {
    const job = log.jobs[log.job[row]];
    if (
      log.ended[row] === ENDED.paused &&
      log.end[row] <= at &&
      !(job?.ended <= at && job?.ended !== null) &&
      nodes[log.node[row]]
    )
      nodes[log.node[row]].paused += 1;
  }
  const byName = new Intl.Collator("en", { numeric: true });
  return nodes.filter((one) => one.known).sort((a, b) => byName.compare(a.node.name, b.node.name));
}

function renderAttention(box, log, nodes) {
  const at = store.at;
  const lost = nodes.filter((one) => !one.up);
  const excluded = nodes.filter((one) => one.excluded && !one.excluded.drained);
  const drained = nodes.filter((one) => one.up && one.excluded?.drained);
  const failing = nodes.filter((one) => one.up && !one.excluded && one.failures > 2);
  const lines = [
    ...lost.map(({ node }) => {
      const since = node.up.filter(([, until]) => until !== null && until <= at).at(-1)?.[1] ?? 0;
      let again = 0;
      for (let row = 0; row < log.length && log.start[row] <= at; row += 1)
        if (log.node[row] === node.number && log.ended[row] === ENDED.nodeLost && log.end[row] === since) again += 1;
      return h(
        "li",
        {},
        glyph("node", "bad"),
        " ",
        h("b", {}, node.name),
        ` was lost ${duration(elapsed(log, since, store.clockAt))} ${store.isLive && store.held === null ? "ago" : "earlier"}, at ${clock(log, since)}${zone(log)}. ${again ? `${plural(again, "attempt")} ran there and ${again === 1 ? "runs" : "run"} again elsewhere.` : "Nothing ran there."}`,
      );
    }),
    ...excluded.map(({ node, excluded: { from, failures, jobs } }) =>
      h(
        "li",
        {},
        glyph("node", "bad"),
        " ",
        h("b", {}, node.name),
        ` excluded since ${clock(log, from)}${zone(log)}: ${plural(failures, "task")} of ${plural(jobs, "job")} failed there and succeeded elsewhere. It gets one task now and then, and is used again once that succeeds.`,
      ),
    ),
    ...drained.map((one) =>
      h(
        "li",
        {},
        glyph("pause"),
        " ",
        h("b", {}, one.node.name),
        ` drained since ${clock(log, one.excluded.from)}${zone(log)}: it gets no new tasks${one.running.length ? `; ${plural(one.running.length, "task is", "tasks are")} still running there` : ""}. To use it again: giveway nodes include ${one.node.name}`,
      ),
    ),
    ...failing.map((one) =>
      h(
        "li",
        {},
        glyph("cross", "bad"),
        " ",
        h("b", {}, one.node.name),
        ` had ${plural(one.failures, "failed attempt")}.`,
      ),
    ),
  ];
  fill(
    box,
    h("header", {}, h("h2", {}, "Needs attention")),
    lines.length
      ? h(
          "ul",
          { class: "pad" },
          lines.slice(0, 12),
          lines.length > 12 ? h("li", { class: "quiet" }, `and ${lines.length - 12} more`) : null,
        )
      : h(
          "p",
          { class: "pad quiet" },
          `Nothing: ${nodes.length === 1 ? "the node is up" : `all ${count(nodes.length)} nodes are up`}.`,
        ),
  );
}

const stateOf = (one) => nodeState(one.node, store.at);
const mapsOf = (log, one) => one.running.filter((row) => log.kind[row] === 0).length;

/** All words of the filter are in the name, the state or the rack. */
function matches(one) {
  const [word] = stateOf(one);
  const text = `${one.node.name} ${word} rack ${one.node.rack}`.toLowerCase();
  return filter.text
    .toLowerCase()
    .split(/\s+/)
    .every((part) => text.includes(part));
}

function renderSummary(box, nodes) {
  const counts = new Map();
  for (const one of nodes) counts.set(stateOf(one)[0], (counts.get(stateOf(one)[0]) ?? 0) + 1);
  const words = [...counts].map(([word, of]) => `${count(of)} ${word}`).join(", ");
  const usable = nodes.filter((one) => stateOf(one)[0] === "up");
  const slots = [0, 1].map((kind) => usable.reduce((sum, one) => sum + one.node.slots[kind], 0));
  const used = nodes.reduce((sum, one) => sum + one.running.length, 0);
  fill(
    box,
    h("b", {}, plural(nodes.length, "node")),
    h("span", {}, `${words}. ${count(used)} of ${plural(slots[0] + slots[1], "slot")} in use.`),
  );
}

function renderGrid(box, log, nodes, all, again) {
  const { of, groups } = groupsOf(log, choice.by ?? "size");
  const isHeat = nodes.length > CARDS_MAX;
  let input = box.querySelector("input");
  const body = isHeat ? heat(log, nodes, again) : cards(log, nodes, of, groups);
  const note = nodes.length < all ? `${count(nodes.length)} of ${plural(all, "node")}` : "";
  const legend = isHeat
    ? [
        h("span", {}, "slots in use:"),
        [0, 1, 2, 3, 4].map((level) =>
          h(
            "span",
            { class: "legend" },
            h("i", { class: `cell heat${level}` }),
            ["none", "", "half", "", "all"][level],
          ),
        ),
        h("span", { class: "legend" }, h("i", { class: "cell bad" }), "lost"),
        h("span", { class: "legend" }, h("i", { class: "cell warn" }), "excluded"),
        h("span", { class: "legend" }, h("i", { class: "cell idle" }), "drained"),
      ]
    : "squares: map slots, circles: reduce slots";
  if (!input) {
    input = h("input", {
      type: "search",
      id: "filter",
      placeholder: "Name, rack 3, lost …",
      "aria-label": "Filter nodes by name, rack or state",
      value: filter.text,
      oninput: () => {
        filter.text = input.value.trim();
        again();
      },
    });
    fill(
      box,
      h("header", {}, h("h2", {}, "Use of each node"), h("div", { class: "filters" }, input)),
      h("div"),
      h("footer"),
    );
  } else if (document.activeElement !== input) input.value = filter.text;
  fill(box.children[1], nodes.length ? body : h("p", { class: "empty" }, "No node matches the filter."));
  fill(box.children[2], legend, h("span", { class: "grow" }), note);
}

/** One cell for each node, by rack: the darker, the more of its slots are in use. */
function heat(log, nodes, again) {
  const racks = new Map();
  for (const one of nodes) racks.set(one.node.rack, [...(racks.get(one.node.rack) ?? []), one]);
  return h(
    "div",
    { class: "racks", role: "img", "aria-label": "Use of each node; the table below has the same." },
    [...racks].map(([rack, ones]) =>
      h(
        "div",
        { class: "rack" },
        racks.size > 1 ? h("span", { class: "quiet" }, `rack ${rack}`) : null,
        h(
          "div",
          { class: "heat" },
          ones.map((one) => {
            const [word] = stateOf(one);
            const all = one.node.slots[0] + one.node.slots[1];
            const level = one.running.length ? Math.max(1, Math.round((4 * one.running.length) / Math.max(1, all))) : 0;
            const kind = { lost: "bad", excluded: "warn", drained: "idle" }[word] ?? `heat${Math.min(4, level)}`;
            return h("i", {
              class: `cell ${kind}`,
              title: `${one.node.name}: ${word === "up" ? `${one.running.length} of ${all} slots in use` : word}`,
              onclick: () => {
                filter.text = one.node.name;
                again();
              },
            });
          }),
        ),
      ),
    ),
  );
}

/** A card for each node, with its slots. */
function cards(log, nodes, of, groups) {
  const cell = (rows, kind, slots) =>
    Array.from({ length: slots }, (_, lane) => {
      const row = rows.find((one) => log.kind[one] === kind && log.lane[one] === lane);
      return h("i", {
        class: kind ? "red" : "",
        style: row === undefined ? {} : { background: `var(--${groups[of[log.job[row]]]?.color ?? "c7"})` },
      });
    });
  return h(
    "div",
    { class: "grid" },
    nodes.map((one) => {
      const [word, kind, icon] = stateOf(one);
      const maps = mapsOf(log, one);
      const words =
        word === "up"
          ? `${maps} of ${one.node.slots[0]} map slots, ${one.running.length - maps} of ${one.node.slots[1]} reduce slots in use, ${one.paused} paused`
          : word;
      return h(
        "div",
        { class: `node ${word === "up" ? "" : word}`, title: words },
        h("span", { class: "name" }, one.node.name),
        word === "up"
          ? h(
              "span",
              { class: "cells", "aria-hidden": "true" },
              cell(one.running, 0, Math.min(24, one.node.slots[0])),
              cell(one.running, 1, Math.min(24, one.node.slots[1])),
            )
          : h("span", { class: `state ${kind}` }, glyph(icon), word),
        h("span", { class: "sr" }, words),
      );
    }),
  );
}

const coresText = (cores) => (Number.isFinite(cores) ? cores.toFixed(2) : "–");
const bytesText = (memory) => (memory > 0 ? bytes(memory) : "–");

function renderTable(box, log, nodes, again, used) {
  const at = store.at;
  const slow = nodes
    .filter((one) => one.finished > 4)
    .map((one) => one.time / one.finished)
    .sort((a, b) => a - b);
  const middle = slow[slow.length >> 1];
  const most = filter.more ? ROWS_MAX : ROWS_FIRST;
  fill(
    box,
    h("header", {}, h("h2", {}, "All nodes")),
    h(
      "div",
      { class: "tablewrap", tabindex: "0", role: "region", "aria-label": "Table, scrolls sideways" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [
              ["Node"],
              ["State"],
              ["Rack", "num"],
              ["Map slots", "num"],
              ["Reduce slots", "num"],
              ["Paused there", "num"],
              ["Used so far", "num"],
              ["Tasks done", "num"],
              ["Mean task", "num"],
              ["Failed", "num"],
              ...(used
                ? [
                    ["Cores in use", "num"],
                    ["Memory", "num"],
                  ]
                : []),
            ].map(([name, kind]) => h("th", { scope: "col", class: kind }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          nodes.slice(0, most).map((one) => {
            const maps = mapsOf(log, one);
            const [word, kind, icon] = stateOf(one);
            const upTime = one.node.up.reduce(
              (sum, [from, until]) => sum + Math.max(0, Math.min(until ?? at, at) - from),
              0,
            );
            const slots = one.node.slots[0] + one.node.slots[1];
            const mean = one.finished ? one.time / one.finished : NaN;
            return h(
              "tr",
              {},
              h("td", {}, h("b", {}, one.node.name)),
              h("td", {}, h("span", { class: `state ${kind}` }, glyph(icon), word)),
              h("td", { class: "num" }, one.node.rack),
              h("td", { class: "num" }, `${maps} / ${one.node.slots[0]}`),
              h("td", { class: "num" }, `${one.running.length - maps} / ${one.node.slots[1]}`),
              h("td", { class: "num" }, one.paused || ""),
              h("td", { class: "num" }, percent(upTime && slots ? one.busy / upTime / slots : 0)),
              h("td", { class: "num" }, count(one.finished)),
              h("td", { class: "num" }, duration(mean), mean > 2 * middle ? " · slow" : ""),
              h("td", { class: "num" }, one.failures || ""),
              used ? h("td", { class: "num" }, coresText(used.get(one.node.name)?.cores)) : null,
              used ? h("td", { class: "num" }, bytesText(used.get(one.node.name)?.memory)) : null,
            );
          }),
        ),
      ),
    ),
    nodes.length > most
      ? h(
          "footer",
          {},
          `The first ${count(most)} of ${plural(nodes.length, "node")}`,
          filter.more
            ? "; filter to see others"
            : h(
                "button",
                {
                  class: "btn",
                  type: "button",
                  onclick: () => {
                    filter.more = true;
                    again();
                  },
                },
                "Show more",
              ),
        )
      : null,
  );
}
