// Drawing of the timeline: pure functions of a log and a window. Nothing here listens or fetches.

import { ENDED, MARK } from "./store.js";
import { color } from "./dom.js";
import { isUp } from "./instant.js";

/** Slots in use over time, by kind and group, as steps with their integrals: a mean over any span is one subtraction. */
export function stepsOf(log, of, groups) {
  const starts = [0, 1].map(() => groups.map(() => 0));
  const ends = [0, 1].map(() => groups.map(() => 0));
  for (let row = 0; row < log.length; row += 1) {
    const [kind, group] = [log.kind[row], of[log.job[row]] ?? groups.length - 1];
    starts[kind][group] += 1;
    if (!Number.isNaN(log.end[row])) ends[kind][group] += 1;
  }
  const at = [0, 1].map((kind) =>
    groups.map((_, group) => ({
      starts: new Float64Array(starts[kind][group]),
      ends: new Float64Array(ends[kind][group]),
      s: 0,
      e: 0,
    })),
  );
  for (let row = 0; row < log.length; row += 1) {
    const one = at[log.kind[row]][of[log.job[row]] ?? groups.length - 1];
    one.starts[one.s++] = log.start[row];
    if (!Number.isNaN(log.end[row])) one.ends[one.e++] = log.end[row];
  }
  return at.map((kinds) => kinds.map(({ starts: begun, ends: over }) => mergeSteps(begun, over.sort())));
}

function mergeSteps(starts, ends) {
  const n = starts.length + ends.length;
  const [time, value, area] = [new Float64Array(n + 1), new Int32Array(n + 1), new Float64Array(n + 1)];
  let [i, j, held, sum, last] = [0, 0, 0, 0, 0];
  for (let k = 1; k <= n; k += 1) {
    const isStart = i < starts.length && (j >= ends.length || starts[i] < ends[j]);
    const t = isStart ? starts[i++] : ends[j++];
    sum += held * (t - last);
    held += isStart ? 1 : -1;
    last = t;
    time[k] = t;
    value[k] = held;
    area[k] = sum;
  }
  return { time, value, area, length: n + 1 };
}

function indexAt(steps, t) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps.time[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
export function valueAt(steps, t) {
  return steps.value[indexAt(steps, t)];
}
function areaAt(steps, t) {
  const at = indexAt(steps, t);
  return steps.area[at] + steps.value[at] * Math.max(0, t - steps.time[at]);
}
const meanOver = (steps, a, b) => (b > a ? (areaAt(steps, b) - areaAt(steps, a)) / (b - a) : valueAt(steps, a));

/** Slots there are, by kind, as [time, slots]. */
export function capacityOf(log) {
  return [0, 1].map((kind) => {
    const changes = [];
    for (const node of log.nodes)
      for (const [from, until] of node.up) {
        changes.push([from, node.slots[kind]]);
        if (until !== null) changes.push([until, -node.slots[kind]]);
      }
    changes.sort((a, b) => a[0] - b[0]);
    let slots = 0;
    return changes.map(([t, by]) => [t, (slots += by)]);
  });
}

/** Stacked areas of one kind of slot. */
export function drawAreas(
  ctx,
  box,
  steps,
  capacity,
  groups,
  from,
  to,
  { until = Infinity, alpha = 1, line = true } = {},
) {
  const { x, y, w, h, top } = box;
  const scale = h / Math.max(1, top);
  const columns = Math.max(1, Math.floor(w));
  const base = new Float32Array(columns + 1);
  const span = (to - from) / columns;
  ctx.globalAlpha = alpha;
  groups.forEach((group, at) => {
    const one = steps[at];
    if (one.length < 2) return;
    ctx.beginPath();
    const upper = new Float32Array(columns + 1);
    let any = false;
    for (let c = 0; c <= columns; c += 1) {
      const a = from + c * span;
      const mean = a > until ? 0 : meanOver(one, a, Math.min(a + span, until));
      upper[c] = base[c] + mean;
      any ||= mean > 0;
    }
    if (any) {
      ctx.moveTo(x, y + h - base[0] * scale);
      for (let c = 0; c <= columns; c += 1) ctx.lineTo(x + c, y + h - upper[c] * scale);
      for (let c = columns; c >= 0; c -= 1) ctx.lineTo(x + c, y + h - base[c] * scale);
      ctx.fillStyle = color(group.color);
      ctx.fill();
    }
    base.set(upper);
  });
  ctx.globalAlpha = 1;
  if (!line) return;
  ctx.strokeStyle = color("text");
  ctx.lineWidth = 1;
  ctx.beginPath();
  let slots = 0;
  let begun = false;
  const px = (t) => x + ((t - from) / (to - from)) * w;
  for (const [t, after] of capacity) {
    if (t <= from) {
      slots = after;
      continue;
    }
    if (t > Math.min(to, until)) break;
    if (!begun) {
      ctx.moveTo(x, y + h - slots * scale);
      begun = true;
    }
    ctx.lineTo(px(t), y + h - slots * scale);
    ctx.lineTo(px(t), y + h - after * scale);
    slots = after;
  }
  if (!begun) ctx.moveTo(x, y + h - slots * scale);
  ctx.lineTo(Math.min(x + w, px(until)), y + h - slots * scale);
  ctx.stroke();
}

/** The lanes of the nodes: for each node the first lane, map slots first. */
export function lanesOf(log) {
  const base = new Uint32Array(log.nodes.length + 1);
  log.nodes.forEach((node, at) => {
    base[at + 1] = base[at] + node.slots[0] + node.slots[1];
  });
  return base;
}

export function laneOf(log, lanes, row) {
  const node = log.nodes[log.node[row]];
  if (!node) return -1;
  const kind = log.kind[row];
  return lanes[log.node[row]] + (kind ? node.slots[0] : 0) + Math.min(log.lane[row], Math.max(0, node.slots[kind] - 1));
}

/** The lane of every attempt, made once for each version of the log. */
function laneTable(log, lanes) {
  if (log.laneVersion !== log.version) {
    log.laneVersion = log.version;
    log.laneRows = new Int32Array(log.length);
    for (let row = 0; row < log.length; row += 1) log.laneRows[row] = laneOf(log, lanes, row);
  }
  return log.laneRows;
}

const packed = (css) => {
  const hex = css.replace("#", "");
  const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
};

/**
 * Attempts of nodes `first` to `last` in lanes. Rows of less than 5 px are painted into an image, one cell for each pixel: the cost is the pixels that the
 * attempts cover, whatever their number. Higher rows are rectangles with their ends marked.
 */
export function drawLanes(
  ctx,
  box,
  log,
  lanes,
  of,
  groups,
  from,
  to,
  first,
  last,
  { until = Infinity, only = null, ratio = 1 } = {},
) {
  const { x, y, w, h } = box;
  const [laneFrom, laneTo] = [lanes[first], lanes[last]];
  const rowHeight = h / Math.max(1, laneTo - laneFrom);
  const scale = w / (to - from);
  if (rowHeight >= 5) {
    drawRectangles(ctx, box, log, lanes, of, groups, from, to, laneFrom, laneTo, rowHeight, until, only);
  } else {
    const [iw, ih] = [Math.max(1, Math.round(w * ratio)), Math.max(1, Math.round(h * ratio))];
    const image = ctx.createImageData(iw, ih);
    const pixels = new Uint32Array(image.data.buffer);
    const colors = groups.map((group) => packed(color(group.color)));
    const dim = packed(color("faint"));
    pixels.fill(packed(color("sunk")));
    const laneRows = laneTable(log, lanes);
    const [sx, sy] = [scale * ratio, (h * ratio) / Math.max(1, laneTo - laneFrom)];
    for (let row = 0; row < log.length; row += 1) {
      const start = log.start[row];
      if (start > to || start > until) break;
      const end = Math.min(Number.isNaN(log.end[row]) ? until : log.end[row], until);
      if (end < from) continue;
      const lane = laneRows[row];
      if (lane < laneFrom || lane >= laneTo) continue;
      const x0 = Math.max(0, Math.floor((start - from) * sx));
      const x1 = Math.min(iw, Math.max(x0 + 1, Math.floor((end - from) * sx)));
      const y0 = Math.floor((lane - laneFrom) * sy);
      const y1 = Math.min(ih, Math.max(y0 + 1, Math.floor((lane - laneFrom + 1) * sy - (sy >= 3 ? 1 : 0))));
      const paint = only !== null && log.job[row] !== only ? dim : (colors[of[log.job[row]]] ?? dim);
      for (let line = y0; line < y1; line += 1) pixels.fill(paint, line * iw + x0, line * iw + x1);
    }
    ctx.putImageData(image, Math.round(x * ratio), Math.round(y * ratio));
  }
  // Lost nodes.
  ctx.fillStyle = color("bad");
  for (let number = first; number < last; number += 1) {
    const node = log.nodes[number];
    for (const [, lost] of node.up) {
      if (lost === null || lost > until) continue;
      const back = node.up.find(([again]) => again > lost)?.[0] ?? Math.min(until, to);
      if (back < from || lost > to) continue;
      const x0 = x + Math.max(0, (lost - from) * scale);
      const [top, height] = [
        y + (lanes[number] - laneFrom) * rowHeight,
        (lanes[number + 1] - lanes[number]) * rowHeight,
      ];
      ctx.globalAlpha = 0.16;
      ctx.fillRect(x0, top, Math.max(1, Math.min(w, (back - from) * scale) - (x0 - x)), Math.max(1, height));
      ctx.globalAlpha = 1;
      ctx.fillRect(x0, top, 1.5, Math.max(1, height));
    }
  }
}

function drawRectangles(ctx, box, log, lanes, of, groups, from, to, laneFrom, laneTo, rowHeight, until, only) {
  const { x, y, w } = box;
  const scale = w / (to - from);
  const bar = rowHeight >= 8 ? rowHeight - 2 : rowHeight - 1;
  ctx.fillStyle = color("sunk");
  for (let lane = 0; lane < laneTo - laneFrom; lane += 1) ctx.fillRect(x, y + lane * rowHeight, w, bar);
  const edge = color("ground");
  const laneRows = laneTable(log, lanes);
  for (let row = 0; row < log.length; row += 1) {
    const start = log.start[row];
    if (start > to || start > until) break;
    const isOpen = Number.isNaN(log.end[row]) || log.end[row] > until;
    const end = isOpen ? until : log.end[row];
    if (end < from) continue;
    const lane = laneRows[row];
    if (lane < laneFrom || lane >= laneTo) continue;
    const x0 = x + Math.max(0, (start - from) * scale);
    const x1 = x + Math.min(w, Math.max((end - from) * scale, x0 - x + 1));
    const top = y + (lane - laneFrom) * rowHeight;
    const group = groups[of[log.job[row]]];
    ctx.globalAlpha = only !== null && log.job[row] !== only ? 0.15 : 1;
    ctx.fillStyle = color(group?.color ?? "c7");
    ctx.fillRect(x0, top, Math.max(1, x1 - x0 - (x1 - x0 > 3 ? 0.75 : 0)), bar);
    if (x1 - x0 > 6 && bar >= 5 && !isOpen) {
      const how = log.ended[row];
      if (how === ENDED.paused) {
        ctx.fillStyle = edge;
        ctx.fillRect(x1 - 5.5, top + 1, 1.5, bar - 2);
        ctx.fillRect(x1 - 2.75, top + 1, 1.5, bar - 2);
      }
      if (how === ENDED.endedEarly) {
        ctx.fillStyle = edge;
        diamond(ctx, x1 - 4, top + bar / 2, Math.min(3.5, bar / 2));
        ctx.fill();
      }
      if (how === ENDED.killedForOther || how === ENDED.failed || how === ENDED.nodeLost) {
        ctx.fillStyle = color("bad");
        ctx.fillRect(x1 - 3, top, 3, bar);
      }
    }
  }
  ctx.globalAlpha = 1;
}

function diamond(ctx, x, y, r) {
  ctx.beginPath();
  ctx.moveTo(x, y - r);
  ctx.lineTo(x + r, y);
  ctx.lineTo(x, y + r);
  ctx.lineTo(x - r, y);
  ctx.closePath();
}

/** One shape of a mark, around a point. */
export function drawShape(ctx, shape, x, y, bad) {
  ctx.fillStyle = ctx.strokeStyle = color(bad ? "bad" : "text");
  ctx.lineWidth = 1.4;
  ctx.beginPath();
  switch (shape) {
    case "pause":
      ctx.fillRect(x - 2.5, y - 3.5, 2, 7);
      ctx.fillRect(x + 0.75, y - 3.5, 2, 7);
      return;
    case "resume":
      ctx.moveTo(x - 2.5, y - 3.5);
      ctx.lineTo(x + 3.5, y);
      ctx.lineTo(x - 2.5, y + 3.5);
      ctx.fill();
      return;
    case "early":
      diamond(ctx, x, y, 3.5);
      ctx.stroke();
      return;
    case "cross":
      ctx.moveTo(x - 3, y - 3);
      ctx.lineTo(x + 3, y + 3);
      ctx.moveTo(x + 3, y - 3);
      ctx.lineTo(x - 3, y + 3);
      ctx.stroke();
      return;
    case "node":
      ctx.moveTo(x, y - 3.5);
      ctx.lineTo(x + 4, y + 3.5);
      ctx.lineTo(x - 4, y + 3.5);
      ctx.fill();
      return;
    default:
      ctx.arc(x, y, 2.8, 0, 7);
      ctx.stroke();
  }
}

export const MARK_ROWS = [
  ["pause", [MARK.paused], "pause"],
  ["resume", [MARK.resumed, MARK.migrated], "resume"],
  ["early end", [MARK.endedEarly], "early"],
  ["kill, fail", [MARK.killed, MARK.failed], "cross"],
  ["node", [MARK.nodeLost, MARK.nodeJoined, MARK.nodeExcluded, MARK.nodeIncluded], "node"],
];
const ROW_OF = new Int8Array(16).fill(-1);
MARK_ROWS.forEach(([, kinds], row) =>
  kinds.forEach((kind) => {
    ROW_OF[kind] = row;
  }),
);
export const markRow = (kind) => ROW_OF[kind];

/** Marks in their rows: shapes where they are few, counts for each 3 px where they are many. */
export function drawMarks(ctx, box, log, from, to, { until = Infinity } = {}) {
  const { x, y, w, rowHeight } = box;
  const cells = Math.max(1, Math.floor(w / 3));
  const counts = MARK_ROWS.map(() => new Uint16Array(cells + 1));
  const last = Math.min(to, until);
  const shown = [];
  for (let mark = firstMark(log, from); mark < log.marks && log.markTime[mark] <= last; mark += 1) {
    const row = ROW_OF[log.markKind[mark]];
    // The nodes that are there from the beginning are no news.
    if (
      row < 0 ||
      (log.markKind[mark] === MARK.nodeJoined &&
        log.nodes[log.markSubject[mark]]?.up[0][0] === log.markTime[mark] &&
        log.markTime[mark] < 1)
    )
      continue;
    counts[row][Math.floor(((log.markTime[mark] - from) / (to - from)) * cells)] += 1;
    if (shown.length < 4000) shown.push(mark);
  }
  const dense = counts.map((row) => {
    let used = 0;
    for (const n of row) used += n > 0;
    return used > cells / 5;
  });
  for (const mark of shown) {
    const kind = log.markKind[mark];
    const row = ROW_OF[kind];
    if (dense[row]) continue;
    drawShape(
      ctx,
      kind === MARK.nodeJoined || kind === MARK.nodeIncluded ? "join" : MARK_ROWS[row][2],
      x + ((log.markTime[mark] - from) / (to - from)) * w,
      y + (row + 0.5) * rowHeight,
      kind === MARK.nodeLost || kind === MARK.nodeExcluded || kind === MARK.killed || kind === MARK.failed,
    );
  }
  counts.forEach((row, at) => {
    if (!dense[at]) return;
    const most = row.reduce((a, b) => Math.max(a, b), 1);
    ctx.fillStyle = color(at === 3 ? "bad" : "text");
    row.forEach((n, cell) => {
      if (!n) return;
      const height = Math.max(2, (n / most) * (rowHeight - 3));
      ctx.fillRect(x + cell * 3, y + (at + 1) * rowHeight - 1.5 - height, 2, height);
    });
  });
}

export function firstMark(log, from) {
  let [low, high] = [0, log.marks];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (log.markTime[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

export { isUp };
