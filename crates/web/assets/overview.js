// The overview: verdict, tiles, timeline, who has the slots, decisions, jobs.

import { MARK, store } from "./store.js";
import { fill, glyph, h, segment } from "./dom.js";
import { clock, count, duration, elapsed, percent, plural, zone } from "./format.js";
import {
  decisionsUpTo,
  exclusionOf,
  groupsOf,
  isBad,
  isUp,
  lastMark,
  shapeOf,
  sizeOf,
  stateAt,
  wordsOf,
} from "./instant.js";
import { Timeline, choice } from "./timeline.js";
import { JobTable, filter } from "./job_table.js";

/** The whole page, or the jobs alone. */
export function overview(root, { jobsOnly = false } = {}) {
  const log = store.log;
  const timeline = jobsOnly ? null : new Timeline(log);
  const verdict = h("p", { class: "verdict", "aria-live": "polite" });
  const tiles = h("div", { class: "tiles" });
  const holders = h("div");
  const decisions = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions" });
  const table = h("div");
  const jobs = h("section", { class: "panel jobs", "aria-label": "Jobs" }, table);
  if (jobsOnly) fill(root, jobs);
  else {
    fill(
      root,
      h(
        "div",
        { class: "page" },
        h("h1", { class: "sr" }, "Overview"),
        verdict,
        tiles,
        h(
          "div",
          { class: "cols" },
          h(
            "section",
            { class: "panel", "aria-label": "Slots over time" },
            h("header", {}, h("h2", {}, "Slots over time"), timeline.controls),
            timeline.box,
            h("footer", {}, timeline.legend),
          ),
          h(
            "div",
            { class: "side" },
            h("section", { class: "panel" }, holders),
            h(
              "section",
              { class: "panel fill" },
              h(
                "header",
                {},
                h("h2", {}, "Decisions"),
                h("span", { class: "quiet" }, `latest first${zone(log) && `, in${zone(log)}`}`),
              ),
              decisions,
            ),
          ),
        ),
        jobs,
      ),
    );
    timeline.renderControls();
    timeline.box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") timeline.box.blur();
    });
  }
  const tableView = new JobTable(table, log);
  let shown = "";
  let panels = 0;
  const render = (what) => {
    if (what === "instant" && timeline?.at) {
      // While the reader scrubs only the line moves; the panels follow a few times a second.
      timeline.drawOver();
      panels ||= setTimeout(() => {
        panels = 0;
        render("panels");
      }, 80);
      return;
    }
    if (what !== "window") {
      const state = stateAt(log, store.at);
      if (!jobsOnly) {
        renderVerdict(verdict, log, state);
        renderTiles(tiles, log, state);
        renderHolders(holders, log, state, () => render("data"));
        renderDecisions(decisions, log);
      }
      tableView.render(state);
    }
    if (timeline && what !== "panels") {
      if (shown !== `${choice.mode}${choice.by}${choice.span}${choice.window}`) {
        shown = `${choice.mode}${choice.by}${choice.span}${choice.window}`;
        timeline.renderControls();
      }
      timeline.redraw();
    }
  };
  render("data");
  return {
    render,
    close: () => {
      clearTimeout(panels);
      timeline?.close();
    },
    timeline,
    table: tableView,
  };
}

const last = (log, kind, at) => {
  for (let mark = lastMark(log, at); mark >= 0; mark -= 1) if (log.markKind[mark] === kind) return mark;
  return -1;
};

function renderVerdict(box, log, state) {
  const live = state.jobs.filter((job) => job.known && !job.ended);
  const lost = log.nodes.filter((node) => node.up[0][0] <= state.at && !isUp(node, state.at));
  const stopped = log.nodes.filter((node) => isUp(node, state.at) && exclusionOf(node, state.at));
  const excluded = stopped.filter((node) => !exclusionOf(node, state.at).drained);
  const drained = stopped.length - excluded.length;
  const recovering = lost.length && live.some((job) => job.lostWithNodes > 0);
  let [word, kind, icon] = ["Healthy", "ok", "tick"];
  if (state.nodes > 0 && state.up === 0) [word, kind, icon] = ["Down", "bad", "cross"];
  else if (recovering) [word, kind, icon] = ["Recovering", "bad", "again"];
  else if (lost.length || excluded.length) [word, kind, icon] = ["Degraded", "warn", "node"];
  else if (!live.length) [word, kind, icon] = ["Idle", "ok", "tick"];
  const parts = [`${state.up} of ${plural(state.nodes, "node")} up.`];
  if (lost.length) {
    const mark = last(log, MARK.nodeLost, state.at);
    if (mark >= 0)
      parts.push(
        `${wordsOf(log, mark).who} was lost ${duration(elapsed(log, log.markTime[mark], store.clockAt))} ${store.isLive && store.held === null ? "ago" : "earlier"}.`,
      );
  }
  if (excluded.length) {
    const names = excluded
      .slice(0, 3)
      .map((node) => node.name)
      .join(", ");
    parts.push(
      `${names}${excluded.length > 3 ? ` and ${excluded.length - 3} more` : ""} excluded: ${excluded.length === 1 ? "it" : "they"} failed tasks that succeeded elsewhere.`,
    );
  }
  if (drained) parts.push(`${plural(drained, "node is", "nodes are")} drained.`);
  const failed = state.jobs.filter(
    ({ job, ended }) => ended && job.outcome === "failed" && job.ended > state.at - 600,
  ).length;
  if (failed) parts.push(`${plural(failed, "job")} failed in the last 10 minutes.`);
  const [givers, takers] = [new Set(), new Set()];
  let times = 0;
  let kills = 0;
  for (let mark = lastMark(log, state.at); mark >= 0 && log.markTime[mark] > state.at - 30; mark -= 1) {
    const what = log.markKind[mark];
    if (what === MARK.killed) kills += 1;
    if (what !== MARK.paused && what !== MARK.endedEarly && what !== MARK.killed) continue;
    if (log.markOther[mark] === 0xffffffff) continue;
    times += 1;
    givers.add(log.markJob[mark]);
    takers.add(log.markOther[mark]);
  }
  if (times)
    parts.push(
      `In the last 30 s ${plural(givers.size, "job was", "jobs were")} preempted for ${plural(takers.size, "other job")}${kills ? `, and ${plural(kills, "attempt was", "attempts were")} killed` : "; no work was lost"}.`,
    );
  else if (!live.length)
    parts.push(
      log.jobs.length
        ? endedText(state.jobs.filter((job) => job.known).length)
        : "No job has been submitted yet: giveway submit APP --input … --output …",
    );
  else parts.push(`${plural(live.length, "live job")}.`);
  const text = `${word} ${parts.join(" ")}`;
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  fill(box, h("span", { class: `word ${kind}` }, glyph(icon), ` ${word}`), h("span", {}, parts.join(" ")));
}

const endedText = (jobs) => (jobs === 1 ? "The only job has ended." : `All ${count(jobs)} jobs have ended.`);

const median = (numbers) => {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
};

function renderTiles(box, log, state) {
  const known = state.jobs.filter((job) => job.known);
  const live = known.filter((job) => !job.ended);
  const running = live.filter((job) => job.word === "running").length;
  const small = known.filter((job) => job.started && sizeOf(job.job) === 0);
  const waits = small.map(({ job }) => elapsed(log, job.submitted, job.started));
  const totals = small.filter((job) => job.ended).map(({ job }) => elapsed(log, job.submitted, job.ended));
  const sum = (key) => known.reduce((all, job) => all + job[key], 0);
  const ended = known.filter((job) => job.ended);
  const tile = (title, value, unit, text) =>
    h(
      "section",
      { class: "tile" },
      h("h2", {}, title),
      h("div", { class: "v" }, value, " ", h("small", {}, unit)),
      h("p", {}, text),
    );
  const meter = (kind, name) =>
    h(
      "div",
      {},
      h(
        "div",
        { class: "v" },
        percent(state.slots[kind] ? state.used[kind] / state.slots[kind] : 0),
        " ",
        h("small", {}, name),
      ),
      h(
        "div",
        { class: "meter" },
        h("i", { style: { width: `${Math.min(100, (100 * state.used[kind]) / Math.max(1, state.slots[kind]))}%` } }),
      ),
      h("p", {}, `${state.used[kind]} of ${state.slots[kind]}`),
    );
  const failed = ended.filter(({ job }) => job.outcome === "failed").length;
  fill(
    box,
    h(
      "section",
      { class: "tile" },
      h("h2", {}, "Jobs"),
      h(
        "div",
        { class: "v" },
        count(running),
        h("small", {}, " running  "),
        count(live.length - running),
        h("small", {}, " waiting"),
      ),
      h("p", {}, `${count(ended.length)} ended${ended.length ? `, ${failed ? count(failed) : "none"} failed` : ""}`),
    ),
    h(
      "section",
      { class: "tile" },
      h("h2", {}, "Slots in use"),
      h("div", { class: "meters" }, meter(0, "map"), meter(1, "reduce")),
    ),
    tile(
      "Median wait, small jobs",
      duration(median(waits)) || "–",
      "",
      totals.length ? `median completion ${duration(median(totals))}` : "none has finished",
    ),
    tile("Work lost to preemption", duration(sum("lost")), "", `lost with nodes: ${duration(sum("lostWithNodes"))}`),
    tile(
      "Preemptions",
      count(sum("pauses") + sum("early") + sum("kills")),
      sum("paused") ? `${count(sum("paused"))} paused now` : "",
      `${plural(sum("pauses"), "pause")}, ${plural(sum("early"), "early end")}${sum("kills") ? `, ${plural(sum("kills"), "kill")}` : ""}`,
    ),
    tile(
      "Re-executed",
      count(sum("recovered")),
      sum("recovered") === 1 ? "task" : "tasks",
      `${plural(
        log.nodes.reduce(
          (all, node) => all + node.up.filter(([, until]) => until !== null && until <= state.at).length,
          0,
        ),
        "node loss",
        "node losses",
      )} so far`,
    ),
  );
}

function renderHolders(box, log, state, again) {
  const by = filter.holders;
  const key = (job) => (by === "job" ? job.row : job[by]);
  const held = new Map();
  for (const one of state.jobs) {
    const slots = one.running[0] + one.running[1];
    const share = one.share ? one.share[0] + one.share[1] : 0;
    if (!slots && !(share && !one.ended)) continue;
    const entry = held.get(key(one.job)) ?? {
      name: by === "job" ? one.job.name : one.job[by],
      slots: 0,
      share: 0,
      job: one.job,
    };
    entry.slots += slots;
    entry.share += share;
    held.set(key(one.job), entry);
  }
  const all = [...held.values()].sort((a, b) => b.slots - a.slots);
  const shown = all.slice(0, 7);
  const most = Math.max(1, ...shown.map((one) => Math.max(one.slots, one.share)));
  const { of, groups } = groupsOf(log, by === "job" ? (choice.by ?? "size") : by);
  const rest = all.slice(7);
  fill(
    box,
    h(
      "header",
      {},
      h("h2", {}, "Who has the slots"),
      h("span", { class: "grow" }),
      segment(
        "Holders by",
        [
          ["job", "Job"],
          ["user", "User"],
          ["pool", "Pool"],
        ],
        by,
        (to) => {
          filter.holders = to;
          again();
        },
      ),
    ),
    shown.length
      ? h(
          "ul",
          { class: "holders pad", style: { "padding-left": "0", "padding-right": "0" } },
          shown.map((one) =>
            h(
              "li",
              {},
              by === "job"
                ? h("a", { class: "name", href: `#/job/${one.job.id}`, title: one.name }, one.name)
                : h("span", { class: "name" }, one.name),
              h(
                "span",
                { class: "hbar" },
                h("i", {
                  style: {
                    width: `${(100 * one.slots) / most}%`,
                    background: `var(--${groups[of[one.job.row]]?.color ?? "c7"})`,
                  },
                }),
                one.share > 0 ? h("u", { style: { left: `calc(${(100 * one.share) / most}% - 1px)` } }) : null,
              ),
              h(
                "span",
                { class: "num" },
                one.slots,
                one.share > 0 ? h("span", { class: "quiet" }, ` / ${Math.round(one.share)}`) : null,
              ),
            ),
          ),
          rest.length
            ? h(
                "li",
                {},
                h("span", { class: "quiet" }, `${rest.length} others`),
                h("span"),
                h(
                  "span",
                  { class: "num quiet" },
                  rest.reduce((sum, one) => sum + one.slots, 0),
                ),
              )
            : null,
        )
      : h("p", { class: "empty" }, "No slot is in use."),
    h("footer", {}, all.some((one) => one.share > 0) ? "Slots in use; the tick is the fair share" : "Slots in use"),
  );
}

/** One line of a list of decisions. */
export function decisionLine(log, { mark, times }, why) {
  const { who, what, whom } = wordsOf(log, mark, times);
  return h(
    "button",
    { class: "decision", type: "button", onclick: () => store.hold(log.markTime[mark] + 1e-6) },
    h("span", { class: "quiet" }, clock(log, log.markTime[mark])),
    glyph(shapeOf(log, mark), isBad(log, mark) ? "bad" : ""),
    h(
      "span",
      {},
      h("span", {}, h("b", {}, who), ` ${what}`, whom ? [" for ", h("b", {}, whom)] : null),
      why ? h("div", { class: "why" }, why) : null,
    ),
  );
}

function renderDecisions(box, log) {
  const found = decisionsUpTo(log, store.at, 40);
  const signature = found.map(({ mark, times }) => `${mark}x${times}`).join();
  if (box.dataset.shown === signature) return;
  box.dataset.shown = signature;
  const isStop = ({ mark }) => [MARK.paused, MARK.endedEarly, MARK.killed].includes(log.markKind[mark]);
  const draw = () =>
    fill(
      box,
      found.length
        ? found.map((one) =>
            decisionLine(log, one, isStop(one) ? log.reasons.get(log.markSubject[one.mark])?.stopped : null),
          )
        : h("p", { class: "empty" }, "No decision yet."),
    );
  draw();
  const rows = found.filter(isStop).map(({ mark }) => log.markSubject[mark]);
  if (rows.some((row) => !log.reasons.has(row)))
    log.reasonsOf(rows).then(() => {
      if (box.dataset.shown === signature) draw();
    });
}
