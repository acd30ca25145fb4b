// The table of jobs, with its filters, and the words for the states of jobs.

import { store } from "./store.js";
import { fill, glyph, h } from "./dom.js";
import { clock, count, dateTime, duration, elapsed, percent, plural, shorten, zone } from "./format.js";
import { groupsOf, owner } from "./instant.js";
import { choice } from "./timeline.js";

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

const ORDER = { waiting: 0, paused: 1, running: 2, failed: 3, killed: 4, succeeded: 5 };

export class JobTable {
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
