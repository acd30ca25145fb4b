// The chart of a job: its attempts over time.

import { ENDED, store } from "./store.js";
import { color, h, hideTip, showTip } from "./dom.js";
import { clock, expected, ticks } from "./format.js";
import { groupsOf } from "./instant.js";
import { drawShape } from "./draw.js";
import { choice, tipOfAttempt } from "./timeline.js";
import { mapsEnded } from "./job_tasks.js";

const REDUCE_ROWS_MAX = 400;

/** The attempts of a job: maps as a level, reduces one row each. */
export class Gantt {
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
