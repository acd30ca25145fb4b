// Nodes: which need attention, what each runs, where reduces are paused.

import { store, ENDED } from "./store.js";
import { h, fill, glyph } from "./dom.js";
import { clock, count, duration, percent, plural } from "./format.js";
import { exclusionOf, groupsOf, isUp } from "./instant.js";
import { Timeline, choice } from "./timeline.js";

const GRID_MAX = 600;

export function nodesPage(root) {
  const log = store.log;
  const attention = h("div");
  const grid = h("div");
  const table = h("div");
  choice.mode = "nodes";
  const timeline = new Timeline(log);
  fill(
    root,
    h("h1", { class: "sr" }, "Nodes"),
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
  const render = (what) => {
    if (what !== "window") {
      const nodes = usage(log, store.at);
      renderAttention(attention, log, nodes);
      renderGrid(grid, log, nodes);
      renderTable(table, log, nodes);
    }
    timeline.redraw();
  };
  render("data");
  return { render, timeline, close: () => timeline.close() };
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
  return nodes.filter((one) => one.known);
}

function renderAttention(box, log, nodes) {
  const at = store.at;
  const lost = nodes.filter((one) => !one.up);
  const excluded = nodes.filter((one) => one.excluded);
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
        ` lost ${duration(at - since)} before, at ${clock(log, since)}. ${plural(again, "attempt")} ran there and run again elsewhere.`,
      );
    }),
    ...excluded.map(({ node, excluded: { from, failures, jobs } }) =>
      h(
        "li",
        {},
        glyph("node", "bad"),
        " ",
        h("b", {}, node.name),
        ` excluded since ${clock(log, from)}: ${plural(failures, "task")} of ${plural(jobs, "job")} failed there and succeeded elsewhere. It gets one task now and then, and is used again once that succeeds.`,
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

function renderGrid(box, log, nodes) {
  const { of, groups } = groupsOf(log, choice.by ?? "size");
  const cell = (rows, kind, slots) =>
    Array.from({ length: slots }, (_, lane) => {
      const row = rows.find((one) => log.kind[one] === kind && log.lane[one] === lane);
      return h("i", {
        class: kind ? "red" : "",
        style: row === undefined ? {} : { background: `var(--${groups[of[log.job[row]]]?.color ?? "c7"})` },
      });
    });
  fill(
    box,
    h("header", {}, h("h2", {}, "Now"), h("span", { class: "quiet" }, "squares: map slots, circles: reduce slots")),
    h(
      "div",
      { class: "grid" },
      nodes.slice(0, GRID_MAX).map((one) => {
        const maps = one.running.filter((row) => log.kind[row] === 0).length;
        const reduces = one.running.length - maps;
        const words = one.excluded
          ? "excluded"
          : one.up
            ? `${maps} of ${one.node.slots[0]} map slots, ${reduces} of ${one.node.slots[1]} reduce slots in use, ${one.paused} paused`
            : "lost";
        return h(
          "div",
          { class: `node ${one.up && !one.excluded ? "" : "lost"}`, title: words },
          h("span", { class: "name" }, one.node.name),
          one.excluded
            ? h("span", { class: "state warn" }, glyph("node"), "excluded")
            : one.up
              ? h(
                  "span",
                  { class: "cells", "aria-hidden": "true" },
                  cell(one.running, 0, Math.min(24, one.node.slots[0])),
                  cell(one.running, 1, Math.min(24, one.node.slots[1])),
                )
              : h("span", { class: "state bad" }, glyph("node"), "lost"),
          h("span", { class: "sr" }, words),
        );
      }),
    ),
    nodes.length > GRID_MAX ? h("footer", {}, `The first ${GRID_MAX} of ${count(nodes.length)}`) : null,
  );
}

function renderTable(box, log, nodes) {
  const at = store.at;
  const slow = nodes
    .filter((one) => one.finished > 4)
    .map((one) => one.time / one.finished)
    .sort((a, b) => a - b);
  const middle = slow[slow.length >> 1];
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
            ].map(([name, kind]) => h("th", { scope: "col", class: kind }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          nodes.slice(0, 400).map((one) => {
            const maps = one.running.filter((row) => log.kind[row] === 0).length;
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
              h(
                "td",
                {},
                one.excluded
                  ? h("span", { class: "state warn" }, glyph("node"), "excluded")
                  : one.up
                    ? h("span", { class: "state ok" }, glyph("dot"), "up")
                    : h("span", { class: "state bad" }, glyph("node"), "lost"),
              ),
              h("td", { class: "num" }, one.node.rack),
              h("td", { class: "num" }, `${maps} / ${one.node.slots[0]}`),
              h("td", { class: "num" }, `${one.running.length - maps} / ${one.node.slots[1]}`),
              h("td", { class: "num" }, one.paused || ""),
              h("td", { class: "num" }, percent(upTime && slots ? one.busy / upTime / slots : 0)),
              h("td", { class: "num" }, count(one.finished)),
              h("td", { class: "num" }, duration(mean), mean > 2 * middle ? " · slow" : ""),
              h("td", { class: "num" }, one.failures || ""),
            );
          }),
        ),
      ),
    ),
  );
}
