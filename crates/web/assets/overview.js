// The overview: verdict, tiles, timeline, who has the slots, decisions, jobs.

import { store, MARK } from "./store.js";
import { h, fill, glyph, segment } from "./dom.js";
import { clock, count, dateTime, duration, elapsed, percent, plural, shorten, zone } from "./format.js";
import {
  decisionsUpTo,
  exclusionOf,
  groupsOf,
  isBad,
  isUp,
  lastMark,
  owner,
  shapeOf,
  sizeOf,
  stateAt,
  wordsOf,
} from "./instant.js";
import { Timeline, choice, step } from "./timeline.js";

const ROWS_FIRST = 40;
const ROWS_MAX = 1000;
const saved = (key, otherwise) => {
  try {
    return localStorage.getItem(`giveway.${key}`) ?? otherwise;
  } catch {
    return otherwise;
  }
};
const save = (key, value) => {
  try {
    localStorage.setItem(`giveway.${key}`, value);
  } catch {
    /* Private windows have no storage. */
  }
};

export const filter = {
  which: null,
  text: "",
  user: "",
  pool: "",
  state: "",
  sort: saved("sort", "state"),
  down: false,
  selected: -1,
  holders: "job",
};

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

const ORDER = { waiting: 0, paused: 1, running: 2, failed: 3, killed: 4, succeeded: 5 };
const STATES = {
  waiting: ["Waiting", "clock", "warn"],
  paused: ["Paused", "pause", "warn"],
  running: ["Running", "dot", "ok"],
  succeeded: ["Succeeded", "tick", ""],
  killed: ["Killed", "cross", "bad"],
  failed: ["Failed", "cross", "bad"],
  unknown: ["Not yet submitted", "clock", ""],
};
export function stateWord(word) {
  const [text, icon, kind] = STATES[word] ?? STATES.unknown;
  return h("span", { class: `state ${kind}` }, glyph(icon), text);
}

/** What a job waits for, in words. */
export function waitingFor(log, state) {
  const { job } = state;
  if (state.ended) return "";
  if (state.share === null && state.pending === null) return state.word === "waiting" ? "No slot yet" : "";
  const parts = [];
  [
    ["map", 0],
    ["reduce", 1],
  ].forEach(([name, kind]) => {
    const pending = state.pending[kind];
    if (!pending && !(kind && state.paused)) return;
    const rank = state.rank[kind];
    if (rank > 0) parts.push(`${name} slots: ${plural(rank, "job")} ahead`);
    else if (rank === 0) parts.push(`${name} slots: next to be served`);
    else if (kind === 1 && state.progress[0] < 1 && !state.paused)
      parts.push("reduces start when enough maps have finished (slow start)");
    else parts.push(`${name} slots: the policy gives it no more slots now`);
  });
  const text = parts.join("; ");
  return (
    text.charAt(0).toUpperCase() + text.slice(1) ||
    (job.started === null ? "No slot yet" : "Nothing: all of its tasks run")
  );
}

const isPresent = () => store.isLive && store.held === null;
/** The class of columns for which a tablet has no room beside those of the present. */
const less = () => (isPresent() ? "less" : "");

class JobTable {
  constructor(box, log) {
    this.box = box;
    this.log = log;
    this.build();
  }

  build() {
    const { log } = this;
    const input = h("input", {
      type: "search",
      placeholder: "Filter  /",
      "aria-label": "Filter jobs by name or id",
      id: "filter",
      value: filter.text,
      oninput: () => {
        filter.text = input.value;
        this.again();
      },
    });
    const select = (key, label, names, wide) => {
      const element = h(
        "select",
        {
          "aria-label": label,
          class: wide ? "wide" : "",
          onchange: () => {
            filter[key] = element.value;
            this.again();
          },
        },
        h("option", { value: "" }, label),
        names.map((name) =>
          h(
            "option",
            { value: name, selected: filter[key] === name },
            key === "user" && name === store.user ? `${name} (me)` : name,
          ),
        ),
      );
      return element;
    };
    this.tabs = h("span", { class: "subtabs", role: "group", "aria-label": "Which jobs" });
    this.users = h("span", { style: { display: "contents" } });
    this.renderSelects = () => {
      const names = [log.names("user"), log.names("pool")];
      const signature = JSON.stringify([names, filter.user]);
      if (this.names === signature) return;
      this.names = signature;
      fill(
        this.users,
        select("user", "All users", names[0]),
        select("pool", "All pools", names[1], true),
        select("state", "Any state", ["waiting", "running", "paused", "succeeded", "killed", "failed"], true),
      );
    };
    this.body = h("tbody");
    this.head = h("tr");
    this.note = h("footer", {});
    fill(
      this.box,
      h("header", {}, h("h2", {}, "Jobs"), this.tabs, h("div", { class: "filters" }, input, this.users)),
      h(
        "div",
        { class: "tablewrap", tabindex: "0", role: "region", "aria-label": "Table, scrolls sideways" },
        h("table", { class: "cards" }, h("thead", {}, this.head), this.body),
      ),
      this.note,
    );
  }

  again() {
    this.render(this.state);
  }

  /** Only the reader's own jobs, or all again. */
  mine() {
    filter.user = filter.user === store.user ? "" : store.user;
    this.again();
  }

  columns() {
    const { log } = this;
    // Ranks and what a job waits for are known for the present of a running cluster only.
    const unknown = isPresent() ? [] : ["rank", "wait"];
    return [
      ["rank", "Rank", "num less"],
      ["name", "Job"],
      ["user", "User · pool", less()],
      ["state", "State"],
      ["progress", "Maps, reduces"],
      ["held", "Slots / share", `num ${less()}`],
      ["submitted", `Submitted${zone(log)}`, less()],
      ["finish", `${isPresent() ? "Expected finish" : "Finished"}${zone(log)}`],
      ["wait", "Waiting for"],
    ].filter(([key]) => !unknown.includes(key));
  }

  sorted(jobs) {
    const key =
      {
        rank: (s) => (Math.max(...s.rank) < 0 ? Infinity : Math.max(...s.rank)),
        name: (s) => s.job.name,
        user: (s) => `${s.job.user} ${s.job.pool}`,
        progress: (s) => s.progress[0] + s.progress[1],
        held: (s) => -(s.running[0] + s.running[1]),
        submitted: (s) => -s.job.submitted,
        finish: (s) => (s.ended ? -s.job.ended : (s.forecast?.[1]?.[1] ?? s.forecast?.[1]?.[2] ?? Infinity)),
        wait: (s) => waitingFor(this.log, s),
        state: (s) =>
          s.ended ? 10 - s.job.ended / 1e12 : ORDER[s.word] + Math.max(0, ...s.rank) / 1e6 + s.job.row / 1e9,
      }[filter.sort] ?? ((s) => s.job.row);
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      return x < y ? -1 : x > y ? 1 : a.job.row - b.job.row;
    };
    jobs.sort(filter.down ? (a, b) => compare(b, a) : compare);
    return jobs;
  }

  render(state) {
    this.state = state;
    this.renderSelects();
    const { log } = this;
    const known = state.jobs.filter((job) => job.known);
    const live = known.filter((job) => !job.ended);
    // At the end of a recorded log nothing is live.
    const which = filter.which ?? (live.length || store.isLive ? "live" : "all");
    const counts = { live: live.length, finished: known.length - live.length, all: known.length };
    const tab = (name, label) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(which === name),
          onclick: () => {
            filter.which = name;
            this.again();
          },
        },
        `${label} ${count(counts[name])}`,
      );
    if (this.tabsShown !== JSON.stringify([counts, which])) {
      this.tabsShown = JSON.stringify([counts, which]);
      fill(this.tabs, tab("live", "Live"), tab("finished", "Finished"), tab("all", "All"));
    }
    const text = filter.text.toLowerCase();
    let rows = which === "live" ? live : which === "finished" ? known.filter((job) => job.ended) : known;
    rows = rows.filter(
      ({ job, word }) =>
        (!text || job.name.toLowerCase().includes(text) || String(job.id) === text) &&
        (!filter.user || job.user === filter.user) &&
        (!filter.pool || job.pool === filter.pool) &&
        (!filter.state || word === filter.state),
    );
    this.sorted(rows);
    this.rows = rows;
    const head = JSON.stringify([filter.sort, filter.down, store.held === null]);
    if (this.headShown !== head) {
      this.headShown = head;
      fill(
        this.head,
        this.columns().map(([key, label, kind]) =>
          h(
            "th",
            {
              class: kind,
              scope: "col",
              "aria-sort": filter.sort === key ? (filter.down ? "descending" : "ascending") : null,
            },
            h(
              "button",
              {
                type: "button",
                onclick: () => {
                  filter.down = filter.sort === key && !filter.down;
                  filter.sort = key;
                  save("sort", key);
                  this.again();
                },
              },
              label,
              filter.sort === key ? (filter.down ? " ↓" : " ↑") : "",
            ),
          ),
        ),
      );
    }
    const horizon = Math.max(60, ...rows.slice(0, ROWS_FIRST).map((one) => (one.forecast?.[1]?.[2] ?? 0) - state.at));
    const { of, groups } = groupsOf(log, choice.by ?? "size");
    const most = this.more ? ROWS_MAX : ROWS_FIRST;
    fill(
      this.body,
      rows.slice(0, most).map((one, index) => this.row(one, index, horizon, groups[of[one.job.row]])),
    );
    const empty =
      filter.text || filter.user || filter.pool || filter.state
        ? "No job matches the filter."
        : which === "live"
          ? "No job is live at this instant; see Finished."
          : "No job yet. Submit one: giveway submit APP --input … --output …";
    fill(
      this.note,
      !rows.length
        ? empty
        : rows.length <= most
          ? plural(rows.length, "job")
          : [
              `The first ${most} of ${plural(rows.length, "job")}`,
              this.more
                ? "; filter to see others"
                : h(
                    "button",
                    {
                      class: "btn",
                      type: "button",
                      onclick: () => {
                        this.more = true;
                        this.again();
                      },
                    },
                    "Show more",
                  ),
            ],
    );
  }

  row(one, index, horizon, group) {
    const { log } = this;
    const { job } = one;
    const ranks = one.rank.filter((rank) => rank >= 0);
    const held = one.running[0] + one.running[1];
    const share = one.share ? one.share[0] + one.share[1] : 0;
    const phase = (kind) =>
      h(
        "div",
        {},
        h(
          "div",
          { class: "pbar" },
          h("i", { style: { width: `${100 * one.progress[kind]}%` } }),
          one.ended
            ? null
            : h("i", {
                class: kind && one.paused ? "paused" : "run",
                style: {
                  left: `${100 * one.progress[kind]}%`,
                  width: `${Math.min(100 - 100 * one.progress[kind], (100 * (one.running[kind] + (kind ? one.paused : 0))) / Math.max(1, one.total[kind]))}%`,
                },
              }),
        ),
        h("span", {}, job.tasks[kind] ? percent(one.progress[kind]) : "–"),
      );
    return h(
      "tr",
      {
        class: `row ${index === filter.selected ? "sel" : ""}`,
        "data-id": job.id,
        onclick: (event) => {
          if (event.target.tagName !== "A") location.hash = `#/job/${job.id}`;
        },
        onmouseenter: () => this.highlight(job.row),
        onmouseleave: () => this.highlight(null),
      },
      isPresent() ? h("td", { class: "num quiet hide less" }, ranks.length ? Math.max(...ranks) + 1 : "") : null,
      h(
        "td",
        { class: "jobcell" },
        h("i", { class: "swatch", style: { background: `var(--${group?.color ?? "c7"})` } }),
        h("a", { class: "jobname", href: `#/job/${job.id}` }, shorten(job.name)),
        h("span", { class: "quiet" }, ` #${job.id}`, job.priority === "normal" ? "" : `  ${job.priority}`),
      ),
      h("td", { class: `hide ${less()}` }, owner(job)),
      h("td", {}, stateWord(one.word)),
      h("td", { class: "full" }, h("div", { class: "phases" }, phase(0), phase(1))),
      h(
        "td",
        { class: `num hide ${less()}` },
        held,
        share ? h("span", { class: "quiet" }, ` / ${share.toFixed(share < 10 ? 1 : 0)}`) : null,
      ),
      h("td", { class: `hide quiet ${less()}` }, dateTime(log, job.submitted)),
      h("td", { class: "full" }, this.finish(one, horizon)),
      isPresent() ? h("td", { class: "wait full quiet" }, waitingFor(log, one)) : null,
    );
  }

  finish(one, horizon) {
    const { log, state } = this;
    const { job } = one;
    if (one.ended)
      return h(
        "span",
        {},
        dateTime(log, job.ended),
        h("span", { class: "quiet" }, `  after ${duration(elapsed(log, job.submitted, job.ended))}`),
      );
    const end = one.forecast?.[1];
    if (!end || end[2] < store.clockAt) return h("span", { class: "quiet" }, isPresent() ? "no estimate yet" : "");
    const [low, middle, high] = end;
    const x = (t) => 100 * Math.min(1, Math.log1p(Math.max(0, t - state.at)) / Math.log1p(horizon));
    return h(
      "span",
      { class: "finish" },
      middle === null ? null : h("span", {}, clock(log, middle)),
      h("span", { class: "quiet" }, `${clock(log, low)} – ${clock(log, high)}`),
      h(
        "span",
        { class: "whisk", "aria-hidden": "true" },
        h("i", { style: { left: `${x(low)}%`, width: `${Math.max(1, x(high) - x(low))}%` } }),
        middle === null ? null : h("u", { style: { left: `calc(${x(middle)}% - 1.5px)` } }),
      ),
    );
  }

  highlight(row) {
    if (choice.mode !== "nodes" || choice.highlight === row) return;
    choice.highlight = row;
    store.notify("window");
  }

  /** Moves the selection. */
  move(by) {
    filter.selected = Math.max(0, Math.min(this.rows.length - 1, filter.selected + by));
    this.again();
    this.body.children[filter.selected]?.scrollIntoView({ block: "nearest" });
  }

  open() {
    const one = this.rows[filter.selected];
    if (one) location.hash = `#/job/${one.job.id}`;
  }
}

export { step };
