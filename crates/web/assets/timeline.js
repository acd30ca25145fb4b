// Slots over time: areas or nodes, marks, an overview strip; zoom, pan, scrub and hover.

import { store, MARK, NONE, ENDED, BEGAN } from "./store.js";
import { h, fill, segment, color, showTip, hideTip } from "./dom.js";
import { clock, duration, shorten, ticks, zone } from "./format.js";
import { groupsOf, wordsOf, lastMark, sizeOf } from "./instant.js";
import {
  stepsOf,
  valueAt,
  capacityOf,
  drawAreas,
  lanesOf,
  laneOf,
  drawLanes,
  drawMarks,
  firstMark,
  markRow,
  MARK_ROWS,
  drawShape,
} from "./draw.js";

const SPANS = [
  [300, "5 min"],
  [1200, "20 min"],
  [3600, "1 h"],
  [0, "All"],
];
const ROW = 15;
const AXIS = 22;
const STRIP = 30;

/** What the reader chose; kept when the view changes. */
export const choice = { mode: "area", by: null, span: 0, window: null, nodes: null, highlight: null };

export class Timeline {
  /** Timelines of several logs show the same span. */
  constructor(log, { compact = false, onhold = null, logs = store.logs } = {}) {
    this.log = log;
    this.logs = logs;
    this.compact = compact;
    this.onhold = onhold;
    this.canvas = h("canvas");
    this.over = h("canvas", { class: "over" });
    this.box = h(
      "div",
      {
        class: "timeline",
        tabindex: "0",
        role: "img",
        "aria-label": "Slots in use over time. The decisions beside it have the same content in words.",
      },
      this.canvas,
      this.over,
    );
    this.controls = h("div", { style: { display: "contents" } });
    this.legend = h("div", { style: { display: "contents" } });
    this.hover = null;
    this.listen();
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.box);
  }

  close() {
    this.observer.disconnect();
    hideTip(this);
  }

  get by() {
    if (choice.by) return choice.by;
    const sizes = new Set(this.log.jobs.map(sizeOf));
    return sizes.size > 1 || this.log.jobs.length === 0 ? "size" : "job";
  }

  /** The span of the whole log, with a little room at its end. */
  get extent() {
    return [0, Math.max(this.log.index === 0 ? store.now : 0, ...this.logs.map((log) => log.now), 1) * 1.005];
  }

  get window() {
    const [from, to] = this.extent;
    if (choice.window) return choice.window;
    return choice.span && choice.span < to ? [to - choice.span, to] : [from, to];
  }

  setWindow(from, to) {
    const [first, last] = this.extent;
    const span = Math.min(Math.max(to - from, 0.02), last - first);
    const start = Math.min(Math.max(first, from), last - span);
    choice.window = span >= (last - first) * 0.999 ? null : [start, start + span];
    if (!choice.window) choice.span = 0;
    store.notify("window");
  }

  renderControls() {
    if (this.groups) this.renderLegend();
    const redraw = () => {
      this.renderControls();
      store.notify("window");
    };
    const small = this.compact
      ? []
      : [
          segment(
            "Drawing",
            [
              ["area", "Area"],
              ["nodes", "Nodes"],
            ],
            choice.mode,
            (mode) => {
              choice.mode = mode;
              redraw();
            },
          ),
        ];
    fill(
      this.controls,
      small,
      segment(
        "Colour by",
        [
          ["size", "Size"],
          ["job", "Job"],
          ["pool", "Pool"],
          ["user", "User"],
        ],
        this.by,
        (by) => {
          choice.by = by;
          redraw();
        },
      ),
      h("span", { class: "grow" }),
      this.compact
        ? null
        : h(
            "span",
            { class: "spans" },
            segment("Span", SPANS, choice.window ? -1 : choice.span, (span) => {
              choice.span = span;
              choice.window = null;
              redraw();
            }),
          ),
    );
  }

  renderLegend() {
    const shown = this.groups.groups.slice(0, 8);
    fill(
      this.legend,
      shown.map((group) =>
        h(
          "span",
          { class: "legend" },
          h("i", { class: "swatch", style: { background: `var(--${group.color})` } }),
          shorten(group.label, 24),
        ),
      ),
      h("span", { class: "legend" }, "— capacity"),
      h("span", { class: "grow" }),
      h(
        "span",
        {},
        choice.mode === "area" || this.compact
          ? "Drag to zoom, click to go there"
          : "Rows are slots: of each node the map slots, then the reduce slots",
      ),
    );
  }

  /** Indexes for drawing; made again when the log or the grouping changes. */
  index() {
    const key = `${this.log.version}/${this.by}`;
    if (this.key === key) return;
    this.key = key;
    this.groups = groupsOf(this.log, this.by);
    this.steps = stepsOf(this.log, this.groups.of, this.groups.groups);
    this.capacity = capacityOf(this.log);
    this.lanes = lanesOf(this.log);
    this.top = this.capacity.map((steps) => Math.max(1, ...steps.map(([, slots]) => slots)));
    this.renderLegend();
  }

  layout() {
    const width = this.box.clientWidth;
    const narrow = width < 500;
    const left = narrow ? 44 : 86;
    const w = Math.max(50, width - left - 14);
    const marks = this.compact ? 0 : MARK_ROWS.length * ROW + 6;
    const plot = this.compact ? 150 : Math.max(220, Math.min(360, Math.round(innerHeight * 0.36)));
    const y = 14;
    const map = Math.round((plot - 14) * 0.62);
    return {
      width,
      left,
      w,
      narrow,
      y,
      map,
      reduceTop: y + map + 14,
      reduce: plot - 14 - map,
      plot,
      marksTop: y + plot + 8,
      marks,
      axis: y + plot + 8 + marks,
      strip: y + plot + 8 + marks + AXIS,
      height: y + plot + 8 + marks + AXIS + (this.compact ? 0 : STRIP + 10),
    };
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.box.isConnected || !this.box.clientWidth) return;
    const began = performance.now();
    this.index();
    const at = this.layout();
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.at = at;
    for (const canvas of [this.canvas, this.over]) {
      const [w, height] = [Math.round(at.width * ratio), Math.round(at.height * ratio)];
      if (canvas.width !== w || canvas.height !== height) {
        canvas.width = w;
        canvas.height = height;
        canvas.style.height = `${at.height}px`;
      }
    }
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, at.width, at.height);
    ctx.font = "11px system-ui, sans-serif";
    const [from, to] = this.window;
    const until = this.log.index === 0 ? store.now : this.log.now;
    this.drawAxis(ctx, from, to);
    if (choice.mode === "area" || this.compact) {
      const boxes = [
        [at.y, at.map],
        [at.reduceTop, at.reduce],
      ];
      boxes.forEach(([y, height], kind) => {
        drawAreas(
          ctx,
          { x: at.left, y, w: at.w, h: height, top: this.top[kind] * 1.04 },
          this.steps[kind],
          this.capacity[kind],
          this.groups.groups,
          from,
          to,
          { until },
        );
        this.label(ctx, `${this.top[kind]}`, y + 8);
        this.label(ctx, at.narrow ? ["map", "red."][kind] : ["map slots", "reduce"][kind], y + height / 2 + 4, true);
        this.label(ctx, "0", y + height);
        ctx.fillStyle = color("rule");
        ctx.fillRect(at.left, y + height, at.w, 1);
      });
    } else {
      const [first, last] = this.nodeWindow();
      drawLanes(
        ctx,
        { x: at.left, y: at.y, w: at.w, h: at.plot },
        this.log,
        this.lanes,
        this.groups.of,
        this.groups.groups,
        from,
        to,
        first,
        last,
        { until, only: choice.highlight, ratio },
      );
      this.nodeLabels(ctx, first, last);
    }
    if (!this.compact) {
      drawMarks(ctx, { x: at.left, y: at.marksTop, w: at.w, rowHeight: ROW }, this.log, from, to, { until });
      MARK_ROWS.forEach(([name, , shape], row) => {
        const y = at.marksTop + (row + 0.5) * ROW;
        drawShape(ctx, shape, at.narrow ? at.left - 12 : 14, y, row > 2);
        if (!at.narrow) {
          ctx.fillStyle = color("quiet");
          ctx.textAlign = "left";
          ctx.fillText(name, 24, y + 4);
        }
      });
      this.drawStrip(ctx);
    }
    this.nodeLosses(ctx, from, to, until);
    this.drawOver();
    this.cost = performance.now() - began;
  }

  label(ctx, text, y, strong) {
    ctx.textAlign = "right";
    ctx.fillStyle = color(strong ? "text" : "quiet");
    ctx.fillText(text, this.at.left - 7, y);
  }

  nodeWindow() {
    const all = this.log.nodes.length;
    const [first, last] = choice.nodes ?? [0, all];
    const from = Math.max(0, Math.min(all - 1, Math.floor(first)));
    return [from, Math.max(from + 1, Math.min(all, Math.ceil(last)))];
  }

  nodeLabels(ctx, first, last) {
    const { at, lanes } = this;
    const height = at.plot / Math.max(1, lanes[last] - lanes[first]);
    let free = -Infinity;
    ctx.textAlign = "right";
    ctx.fillStyle = color("quiet");
    for (let node = first; node < last; node += 1) {
      const y = at.y + (lanes[node] - lanes[first] + (lanes[node + 1] - lanes[node]) / 2) * height + 4;
      if (y < free) continue;
      free = y + 13;
      ctx.fillText(this.log.nodes[node].name.slice(0, at.narrow ? 6 : 11), at.left - 7, y, at.left - 10);
    }
  }

  drawAxis(ctx, from, to) {
    const { at } = this;
    const { found, fine } = ticks(this.log, from, to, Math.max(2, Math.floor(at.w / 90)));
    ctx.textAlign = "center";
    for (const t of found) {
      const x = this.x(t);
      ctx.fillStyle = color("faint");
      ctx.fillRect(Math.round(x), at.y, 1, at.axis - at.y);
      ctx.fillStyle = color("quiet");
      ctx.fillText(
        clock(this.log, t + 1e-6, fine),
        Math.min(at.left + at.w - 24, Math.max(at.left + 24, x)),
        at.axis + 14,
      );
    }
  }

  nodeLosses(ctx, from, to, until) {
    const { at } = this;
    let labelled = -100;
    for (
      let mark = firstMark(this.log, from), seen = 0;
      mark < this.log.marks && this.log.markTime[mark] <= Math.min(to, until) && seen < 60;
      mark += 1
    ) {
      if (this.log.markKind[mark] !== MARK.nodeLost) continue;
      seen += 1;
      const x = this.x(this.log.markTime[mark]);
      ctx.strokeStyle = color("bad");
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(x, at.y);
      ctx.lineTo(x, at.y + at.plot);
      ctx.stroke();
      ctx.setLineDash([]);
      const text = `${wordsOf(this.log, mark).who} lost`;
      const width = ctx.measureText(text).width + 8;
      if (x - labelled < width + 4 || (this.compact && seen > 3)) continue;
      labelled = x;
      const left = Math.min(Math.max(at.left, x - width), at.left + at.w - width);
      ctx.fillStyle = color("raised");
      ctx.fillRect(left, at.y, width, 15);
      ctx.fillStyle = color("bad");
      ctx.textAlign = "left";
      ctx.fillText(text, left + 4, at.y + 11);
    }
  }

  drawStrip(ctx) {
    const { at } = this;
    const [first, last] = this.extent;
    const [from, to] = this.window;
    const box = { x: at.left, y: at.strip, w: at.w, h: STRIP, top: this.top[0] };
    drawAreas(ctx, box, this.steps[0], [], this.groups.groups, first, last, { alpha: 0.4, line: false });
    const sx = (t) => at.left + ((t - first) / (last - first)) * at.w;
    const [a, b] = [sx(from), sx(to)];
    ctx.save();
    ctx.beginPath();
    ctx.rect(a, at.strip, b - a, STRIP);
    ctx.clip();
    drawAreas(ctx, box, this.steps[0], [], this.groups.groups, first, last, { line: false });
    ctx.restore();
    ctx.strokeStyle = color("quiet");
    ctx.strokeRect(a + 0.5, at.strip - 0.5, Math.max(2, b - a - 1), STRIP + 1);
    ctx.fillStyle = color("quiet");
    for (const x of [a, b]) ctx.fillRect(x - 2, at.strip + STRIP / 2 - 7, 4, 14);
    ctx.textAlign = "right";
    if (!at.narrow) ctx.fillText(clock(this.log, first), at.left - 7, at.strip + STRIP / 2 + 4);
  }

  /** The line of the instant shown, the pointer's line and the brushed span. */
  drawOver() {
    const { at } = this;
    const ratio = Math.min(2, devicePixelRatio || 1);
    const ctx = this.over.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, at.width, at.height);
    const [from, to] = this.window;
    const instant = store.at;
    if (instant >= from && instant <= to) {
      const x = this.x(instant);
      ctx.fillStyle = color("link");
      ctx.fillRect(x - 0.75, at.y - 6, 1.5, at.axis - at.y + 8);
      ctx.font = "600 11px system-ui, sans-serif";
      const text = `${clock(this.log, instant)}${zone(this.log)}`;
      const width = ctx.measureText(text).width + 10;
      const left = Math.min(at.left + at.w - width, Math.max(at.left, x - width / 2));
      ctx.beginPath();
      ctx.roundRect(left, at.axis + 2, width, 16, 3);
      ctx.fill();
      ctx.fillStyle = color("ground");
      ctx.textAlign = "left";
      ctx.fillText(text, left + 5, at.axis + 14);
    }
    if (this.brush) {
      const [a, b] = [Math.min(...this.brush), Math.max(...this.brush)];
      ctx.fillStyle = color("link");
      ctx.globalAlpha = 0.14;
      ctx.fillRect(a, at.y, b - a, at.axis - at.y);
      ctx.globalAlpha = 1;
    } else if (this.hover !== null) {
      ctx.fillStyle = color("quiet");
      ctx.fillRect(this.hover, at.y, 1, at.axis - at.y);
    }
  }

  x(t) {
    const [from, to] = this.window;
    return this.at.left + ((t - from) / (to - from)) * this.at.w;
  }
  time(x) {
    const [from, to] = this.window;
    return from + ((x - this.at.left) / this.at.w) * (to - from);
  }

  // Interaction.

  listen() {
    const { box } = this;
    box.addEventListener("pointerdown", (event) => this.down(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerup", (event) => this.up(event));
    box.addEventListener("pointercancel", () => {
      this.drag = this.brush = null;
    });
    box.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip(this);
      if (this.at) this.drawOver();
    });
    box.addEventListener("dblclick", () => {
      choice.window = null;
      store.notify("window");
    });
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  point(event) {
    const rect = this.box.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  }

  down(event) {
    if (event.button !== 0 || !this.at) return;
    const [x, y] = this.point(event);
    const { at } = this;
    const [first, last] = this.extent;
    const [from, to] = this.window;
    this.box.setPointerCapture(event.pointerId);
    if (!this.compact && y > at.strip - 4) {
      const sx = (t) => at.left + ((t - first) / (last - first)) * at.w;
      const kind = Math.abs(x - sx(from)) < 7 ? "left" : Math.abs(x - sx(to)) < 7 ? "right" : "pan";
      if (kind === "pan" && (x < sx(from) || x > sx(to))) {
        const middle = first + ((x - at.left) / at.w) * (last - first);
        this.setWindow(middle - (to - from) / 2, middle + (to - from) / 2);
      }
      this.drag = { kind, x, window: this.window };
    } else if (y >= at.axis) {
      this.drag = { kind: "scrub", x };
      store.hold(this.time(x));
    } else {
      this.drag = { kind: "brush", x };
    }
  }

  move(event) {
    if (!this.at) return;
    const [x, y] = this.point(event);
    const { at, drag } = this;
    if (!drag) return this.hoverAt(event, x, y);
    const [first, last] = this.extent;
    const by = ((x - drag.x) / at.w) * (last - first);
    if (drag.kind === "pan") this.setWindow(drag.window[0] + by, drag.window[1] + by);
    if (drag.kind === "left") this.setWindow(Math.min(drag.window[0] + by, drag.window[1] - 0.02), drag.window[1]);
    if (drag.kind === "right") this.setWindow(drag.window[0], Math.max(drag.window[1] + by, drag.window[0] + 0.02));
    if (drag.kind === "scrub") store.hold(this.time(x));
    if (drag.kind === "brush" && Math.abs(x - drag.x) > 4) {
      this.brush = [drag.x, x];
      hideTip(this);
      this.drawOver();
    }
  }

  up(event) {
    const { drag, brush } = this;
    this.drag = this.brush = null;
    if (!drag || !this.at) return;
    const [x, y] = this.point(event);
    if (drag.kind !== "brush") return;
    if (brush) {
      const [a, b] = brush.map((at) => this.time(at)).sort((one, two) => one - two);
      this.setWindow(a, b);
      return;
    }
    const row = choice.mode === "nodes" && !this.compact ? this.attemptAt(x, y) : -1;
    if (row >= 0) location.hash = `#/job/${this.log.jobs[this.log.job[row]]?.id}`;
    else (this.onhold ?? ((t) => store.hold(t)))(this.time(x));
  }

  wheel(event) {
    if (!this.at) return;
    const focused = document.activeElement === this.box;
    if (!focused && !event.ctrlKey && !event.altKey) return;
    event.preventDefault();
    const [from, to] = this.window;
    if (event.altKey && choice.mode === "nodes") {
      const [first, last] = this.nodeWindow();
      const factor = event.deltaY > 0 ? 1.25 : 0.8;
      const middle = first + (last - first) * ((this.point(event)[1] - this.at.y) / this.at.plot);
      choice.nodes = [middle - (middle - first) * factor, middle + (last - middle) * factor];
      if (choice.nodes[1] - choice.nodes[0] >= this.log.nodes.length) choice.nodes = null;
      store.notify("window");
    } else if (event.shiftKey) {
      const by = ((event.deltaX || event.deltaY) / 600) * (to - from);
      this.setWindow(from + by, to + by);
    } else {
      const center = this.time(this.point(event)[0]);
      const factor = Math.exp(Math.max(-200, Math.min(200, event.deltaY)) * 0.003);
      this.setWindow(center - (center - from) * factor, center + (to - center) * factor);
    }
  }

  zoom(factor) {
    const [from, to] = this.window;
    const center = store.at >= from && store.at <= to ? store.at : (from + to) / 2;
    this.setWindow(center - (center - from) * factor, center + (to - center) * factor);
  }

  /** The attempt under a point of the node view; -1 without one. */
  attemptAt(x, y) {
    const { at, log, lanes } = this;
    if (y < at.y || y >= at.y + at.plot || x < at.left) return -1;
    const [first, last] = this.nodeWindow();
    const lane = lanes[first] + Math.floor(((y - at.y) / at.plot) * (lanes[last] - lanes[first]));
    const t = this.time(x);
    const slack = ((this.window[1] - this.window[0]) / at.w) * 2;
    let best = -1;
    for (let row = 0; row < log.length && log.start[row] <= t + slack; row += 1) {
      if (log.end[row] < t - slack || laneOf(log, lanes, row) !== lane) continue;
      best = row;
    }
    return best;
  }

  hoverAt(event, x, y) {
    const { at, log } = this;
    this.hover = x >= at.left && x <= at.left + at.w ? x : null;
    this.drawOver();
    if (this.hover === null || y > at.axis) return hideTip(this);
    const t = this.time(x);
    const show = (...lines) => showTip(event.clientX, event.clientY, lines, this);
    if (!this.compact && y >= at.marksTop) {
      const mark = this.markAt(x, Math.floor((y - at.marksTop) / ROW));
      if (mark < 0) return hideTip(this);
      return this.tipOfMark(mark, show);
    }
    if (choice.mode === "nodes" && !this.compact) {
      const row = this.attemptAt(x, y);
      if (row < 0) return hideTip(this);
      return tipOfAttempt(log, row, show);
    }
    const kind = y >= at.reduceTop ? 1 : 0;
    const lines = this.groups.groups
      .map((group, index) => [group, valueAt(this.steps[kind][index], t)])
      .filter(([, held]) => held > 0);
    show(
      h("b", {}, `${clock(log, t)}${zone(log)} · ${["map", "reduce"][kind]} slots`),
      lines.map(([group, held]) =>
        h(
          "div",
          { class: "legend" },
          h("i", { class: "swatch", style: { background: `var(--${group.color})` } }),
          `${group.label} ${held}`,
        ),
      ),
      lines.length ? null : h("span", { class: "quiet" }, "none in use"),
    );
  }

  markAt(x, row) {
    const { log } = this;
    const slack = ((this.window[1] - this.window[0]) / this.at.w) * 6;
    const t = this.time(x);
    let [best, distance] = [-1, slack];
    for (let mark = firstMark(log, t - slack); mark < log.marks && log.markTime[mark] <= t + slack; mark += 1) {
      if (markRow(log.markKind[mark]) !== row) continue;
      const off = Math.abs(log.markTime[mark] - t);
      if (off <= distance) [best, distance] = [mark, off];
    }
    return best;
  }

  tipOfMark(mark, show) {
    const { log } = this;
    const { who, what, whom } = wordsOf(log, mark);
    const head = [
      h("b", {}, who),
      ` ${what}`,
      whom ? [" for ", h("b", {}, whom)] : null,
      ` ${clock(log, log.markTime[mark])}`,
    ];
    const subject = log.markSubject[mark];
    const isAttempt = log.markJob[mark] !== NONE && subject !== NONE;
    const known = isAttempt ? log.reasons.get(subject) : null;
    const why = known ? (known.stopped ?? known.launched) : null;
    const kept = known?.kept ? `What it had done, ${Math.round(known.kept * 100)} %, is kept.` : null;
    show(
      h("div", {}, head),
      why ? h("span", { class: "quiet" }, why) : null,
      kept ? h("span", { class: "quiet" }, kept) : null,
    );
    if (isAttempt && !known)
      log.reasonsOf([subject]).then(() => {
        if (this.hover !== null) this.tipOfMark(mark, show);
      });
  }
}

const END_WORDS = {
  [ENDED.running]: "running",
  [ENDED.finished]: "finished",
  [ENDED.paused]: "paused",
  [ENDED.endedEarly]: "ended early",
  [ENDED.killedForOther]: "killed for another job",
  [ENDED.killed]: "killed",
  [ENDED.failed]: "failed",
  [ENDED.nodeLost]: "lost with its node",
  [ENDED.resynced]: "reported again",
};
const BEGAN_WORDS = {
  [BEGAN.fresh]: "",
  [BEGAN.recovery]: "repeats lost work",
  [BEGAN.speculative]: "speculative",
  [BEGAN.resumed]: "resumed",
  [BEGAN.migrated]: "moved here",
};
export const endWord = (log, row, at) => (log.end[row] <= at ? END_WORDS[log.ended[row]] : "running");
export const beganWord = (log, row) => BEGAN_WORDS[log.began[row]];

/** Shows job, task, node, and why an attempt began and ended. */
export function tipOfAttempt(log, row, show) {
  const job = log.jobs[log.job[row]];
  const node = log.nodes[log.node[row]];
  const until = Number.isNaN(log.end[row]) ? store.now : log.end[row];
  const known = log.reasons.get(row);
  show(
    h(
      "div",
      {},
      h("b", {}, job?.name ?? "job"),
      ` ${["map", "reduce"][log.kind[row]]} ${log.task[row]}.${log.number[row]} on ${node?.name ?? "node"}`,
    ),
    h(
      "span",
      { class: "quiet" },
      `${clock(log, log.start[row])}, ${duration(until - log.start[row])}, ${endWord(log, row, Infinity)}${beganWord(log, row) ? `, ${beganWord(log, row)}` : ""}`,
    ),
    known?.launched ? h("span", { class: "quiet" }, `Launched: ${known.launched}`) : null,
    known?.stopped ? h("span", { class: "quiet" }, `Stopped: ${known.stopped}`) : null,
  );
  if (!known)
    log.reasonsOf([row]).then(() => {
      if (!document.getElementById("tip").hidden) tipOfAttempt(log, row, show);
    });
}

/** Goes to the next or the last decision. */
export function step(log, direction) {
  const at = store.at;
  let mark = lastMark(log, at) + (direction > 0 ? 1 : 0);
  if (direction < 0) while (mark >= 0 && log.markTime[mark] >= at - 1e-9) mark -= 1;
  else while (mark < log.marks && log.markTime[mark] <= at + 1e-9) mark += 1;
  if (mark >= 0 && mark < log.marks) store.hold(log.markTime[mark] + 1e-6);
}
