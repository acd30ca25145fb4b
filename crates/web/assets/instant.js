// The state of a log at an instant, from the attempts alone, so that every past instant can be shown.

import { BEGAN, ENDED, MARK, NONE } from "./store.js";

const SIZES = [
  [10, "small"],
  [100, "medium"],
  [Infinity, "large"],
];
export const sizeOf = (job) => SIZES.findIndex(([most]) => job.tasks[0] <= most);

/** The user of a job, and its pool unless that is the user's own. */
export const owner = (job) => (job.user === job.pool ? job.user : `${job.user} · ${job.pool}`);

const COLORS = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
const OTHERS = { label: "others", color: "c7" };

/** Jobs in groups, by size, job, pool or user: the group of each row, and label and colour of each group, the largest first. */
export function groupsOf(log, by) {
  const of = new Uint8Array(log.jobs.length);
  if (by === "size") {
    const groups = SIZES.map(([, label]) => ({ label, color: label })).reverse();
    log.jobs.forEach((job, row) => {
      of[row] = 2 - sizeOf(job);
    });
    return { of, groups };
  }
  const key = by === "job" ? (job) => job.row : (job) => job[by];
  const weight = new Map();
  for (let row = 0; row < log.length; row += 1) {
    const job = log.jobs[log.job[row]];
    if (!job) continue;
    const end = Number.isNaN(log.end[row]) ? log.now : log.end[row];
    weight.set(key(job), (weight.get(key(job)) ?? 0) + end - log.start[row]);
  }
  for (const job of log.jobs) if (!weight.has(key(job))) weight.set(key(job), 0);
  const order = [...weight.entries()].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = order.length > COLORS.length ? order.slice(0, COLORS.length) : order;
  // The colour of a job does not depend on how much it has run, so that it keeps it, unless another one shown has it.
  const free = new Set(COLORS);
  const groups = shown.map((name, at) => {
    const own = by === "job" ? COLORS[name % COLORS.length] : COLORS[at];
    const color = free.has(own) ? own : [...free][0];
    free.delete(color);
    return { label: by === "job" ? log.jobs[name].name : name, color };
  });
  if (shown.length < order.length) groups.push(OTHERS);
  const at = new Map(shown.map((name, index) => [name, index]));
  log.jobs.forEach((job, row) => {
    of[row] = at.get(key(job)) ?? groups.length - 1;
  });
  return { of, groups };
}

/** What each job did at an instant, and sums over all. */
export function stateAt(log, at) {
  const jobs = log.jobs.map((job) => ({
    job,
    known: job.submitted <= at,
    running: [0, 0],
    done: [0, 0],
    early: 0,
    pauses: 0,
    paused: 0,
    kills: 0,
    lost: 0,
    lostWithNodes: 0,
    recovered: 0,
    started: false,
  }));
  const last = log.now;
  if (at >= last) {
    // The present: the tables have it.
    jobs.forEach((state) => {
      const { job } = state;
      Object.assign(state, {
        running: job.running,
        done: job.done,
        early: job.early_ends,
        pauses: job.pauses,
        paused: job.paused,
        kills: job.kills,
        lost: job.lost_s,
        lostWithNodes: job.lost_with_nodes_s,
        recovered: job.recovered,
        started: job.started !== null,
      });
    });
  } else {
    for (let row = 0; row < log.length && log.start[row] <= at; row += 1) {
      const state = jobs[log.job[row]];
      if (!state) continue;
      const kind = log.kind[row];
      state.started = true;
      if (log.began[row] === BEGAN.resumed || log.began[row] === BEGAN.migrated)
        state.paused = Math.max(0, state.paused - 1);
      if (log.began[row] === BEGAN.recovery) state.recovered += 1;
      const end = log.end[row];
      if (!(end <= at)) {
        state.running[kind] += 1;
        continue;
      }
      switch (log.ended[row]) {
        case ENDED.finished:
          state.done[kind] += 1;
          break;
        case ENDED.paused:
          state.pauses += 1;
          state.paused += 1;
          break;
        case ENDED.endedEarly:
          state.early += 1;
          break;
        case ENDED.killedForOther:
          state.kills += 1;
          state.lost += end - log.start[row];
          break;
        case ENDED.nodeLost:
          state.lostWithNodes += end - log.start[row];
          break;
      }
    }
  }
  const slots = [0, 0];
  const used = [0, 0];
  let up = 0;
  for (const node of log.nodes) {
    if (!isUp(node, at)) continue;
    up += 1;
    if (exclusionOf(node, at)) continue;
    slots[0] += node.slots[0];
    slots[1] += node.slots[1];
  }
  const live = at >= last ? log.live : null;
  for (const state of jobs) {
    const { job } = state;
    state.ended = job.ended !== null && job.ended <= at;
    if (state.ended) state.paused = 0;
    used[0] += state.running[0];
    used[1] += state.running[1];
    const now = live?.jobs.get(job.row);
    state.share = now?.[0] ?? null;
    state.pending = now?.[1] ?? null;
    const total = now ? now[3] : [job.tasks[0] + state.early, job.tasks[1]];
    const done = now ? now[2] : [state.done[0] + state.early, state.done[1]];
    state.total = total;
    state.progress = [0, 1].map((kind) =>
      state.ended && job.outcome === "succeeded" ? 1 : total[kind] ? Math.min(1, done[kind] / total[kind]) : 0,
    );
    state.forecast = live?.forecasts.get(job.row) ?? null;
    state.rank = live ? [0, 1].map((kind) => live.ranks[kind].indexOf(job.row)) : [-1, -1];
    state.word = !state.known
      ? "unknown"
      : state.ended
        ? job.outcome
        : !state.started
          ? "waiting"
          : state.running[0] + state.running[1] > 0
            ? "running"
            : state.paused > 0
              ? "paused"
              : "waiting";
  }
  return { at, jobs, slots, used, up, nodes: log.nodes.filter((node) => node.up[0][0] <= at).length };
}

export const isUp = (node, at) => node.up.some(([from, until]) => from <= at && (until === null || until > at));

/** Why a node that is up gets no tasks at an instant, if so: it is excluded, or drained. */
export const exclusionOf = (node, at) =>
  node.exclusions.find(({ from, until }) => from <= at && (until === null || until > at));

/** The state of a node at an instant: a word, its kind and its drawing. */
export function nodeState(node, at) {
  if (!isUp(node, at)) return ["lost", "bad", "node"];
  const exclusion = exclusionOf(node, at);
  if (exclusion?.drained) return ["drained", "", "pause"];
  return exclusion ? ["excluded", "warn", "node"] : ["up", "ok", "dot"];
}

/** The last mark at or before an instant: its index, -1 without one. */
export function lastMark(log, at) {
  let [low, high] = [0, log.marks];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (log.markTime[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const SHAPES = {
  [MARK.paused]: "pause",
  [MARK.resumed]: "resume",
  [MARK.migrated]: "resume",
  [MARK.endedEarly]: "early",
  [MARK.killed]: "cross",
  [MARK.failed]: "cross",
  [MARK.nodeLost]: "node",
  [MARK.nodeJoined]: "join",
  [MARK.jobSubmitted]: "dot",
  [MARK.jobEnded]: "tick",
  [MARK.nodeExcluded]: "node",
  [MARK.nodeIncluded]: "join",
  [MARK.nodeDrained]: "pause",
};
const BAD = new Set([MARK.killed, MARK.failed, MARK.nodeLost, MARK.nodeExcluded]);
const isFailedEnd = (log, mark) =>
  log.markKind[mark] === MARK.jobEnded && log.jobs[log.markJob[mark]]?.outcome !== "succeeded";
export const shapeOf = (log, mark) => (isFailedEnd(log, mark) ? "cross" : SHAPES[log.markKind[mark]]);
export const isBad = (log, mark) => BAD.has(log.markKind[mark]) || isFailedEnd(log, mark);
const VERBS = {
  [MARK.paused]: ["paused a reduce", "paused # reduces"],
  [MARK.resumed]: ["resumed a reduce", "resumed # reduces"],
  [MARK.migrated]: ["moved a paused reduce to another node", "moved # paused reduces to other nodes"],
  [MARK.endedEarly]: ["ended a map early", "ended # maps early"],
  [MARK.killed]: ["lost an attempt to a kill", "lost # attempts to kills"],
  [MARK.failed]: ["had a failed attempt", "had # failed attempts"],
  [MARK.jobSubmitted]: ["was submitted", "was submitted"],
  [MARK.jobEnded]: ["ended", "ended"],
};

/** The words of a mark: who, what, for whom. */
export function wordsOf(log, mark, times = 1) {
  const kind = log.markKind[mark];
  const ofNode = {
    [MARK.nodeLost]: "was lost",
    [MARK.nodeJoined]: "joined",
    [MARK.nodeExcluded]: "was excluded",
    [MARK.nodeIncluded]: "is used again",
    [MARK.nodeDrained]: "was drained",
  }[kind];
  if (ofNode) {
    const node = log.nodes[log.markSubject[mark]];
    return { who: node?.name ?? "node", what: ofNode, whom: "" };
  }
  const job = log.jobs[log.markJob[mark]];
  const other = log.markOther[mark] === NONE ? null : log.jobs[log.markOther[mark]];
  const [one, many] = VERBS[kind];
  const what = kind === MARK.jobEnded ? (job?.outcome ?? "ended") : times > 1 ? many.replace("#", times) : one;
  return { who: job?.name ?? "a job", what, whom: other?.name ?? "", job, other };
}

/** Decisions up to an instant, latest first; equal ones within 4 s are one. */
export function decisionsUpTo(log, at, most, wanted = () => true) {
  const found = [];
  for (let mark = lastMark(log, at); mark >= 0 && found.length < most; mark -= 1) {
    if (!wanted(mark)) continue;
    const before = found.at(-1);
    if (
      before &&
      log.markKind[before.mark] === log.markKind[mark] &&
      log.markJob[before.mark] === log.markJob[mark] &&
      log.markOther[before.mark] === log.markOther[mark] &&
      log.markJob[mark] !== NONE &&
      log.markTime[before.mark] - log.markTime[mark] < 4
    ) {
      before.times += 1;
      continue;
    }
    found.push({ mark, times: 1 });
  }
  return found;
}
