// Why a job runs or waits, and when it is expected to end, also under other policies.

import { store } from "./store.js";
import { fill, h } from "./dom.js";
import { clock, duration, expected, zone } from "./format.js";

export function renderChain(chain, title, log, explanation) {
  title.textContent =
    { waiting: "Why it waits", running: "What it holds, and why" }[explanation.state] ?? "What happened";
  const items = explanation.facts.map((fact, index) => {
    const most = Math.max(...fact.bars.map((bar) => bar.value), 1e-9);
    return h(
      "li",
      { class: fact.cause ? "cause" : "" },
      h("span", { class: "n" }, index + 1),
      h(
        "div",
        {},
        h("h3", {}, fact.title),
        fact.text ? h("p", {}, fact.text) : null,
        fact.bars.length
          ? h(
              "ul",
              { class: "bars" },
              fact.bars.map((bar) =>
                h(
                  "li",
                  { title: bar.text },
                  bar.job === explanation.job
                    ? h("b", { class: "label" }, "this job")
                    : h("a", { class: "label", href: `#/job/${bar.job}` }, bar.name),
                  h(
                    "span",
                    { class: "hbar" },
                    h("i", { style: { width: `${(100 * bar.value) / most}%`, background: "var(--c0)" } }),
                  ),
                  h("span", { class: "txt" }, bar.text),
                ),
              ),
            )
          : null,
      ),
    );
  });
  const own = explanation.forecasts[0];
  if (own && ["waiting", "running"].includes(explanation.state)) {
    const isKnown = own.end_s?.[2] > explanation.at_s;
    const start = own.start_s ? `Starts ${expected(log, own.start_s)}, finishes` : "Finishes";
    items.push(
      h(
        "li",
        {},
        h("span", { class: "n" }, items.length + 1),
        h(
          "div",
          {},
          h("h3", {}, isKnown ? `${start} ${expected(log, own.end_s)}${zone(log)}` : "No forecast of its end yet"),
          h(
            "p",
            {},
            isKnown
              ? "90 % interval of simulations forward from the present, with jobs to come that are like the recent ones."
              : "Too little is known of how long its tasks take, from their own progress or from earlier jobs.",
          ),
        ),
      ),
    );
  }
  fill(chain, items);
}

export function renderForecasts(box, log, job, found) {
  // Without a median there is nothing to compare.
  const usable = found.filter((one) => one.end_s?.[1] > store.clockAt);
  box.hidden = usable.length === 0;
  if (!usable.length) return;
  const now = store.clockAt;
  const first = Math.min(job.submitted, now);
  const last = Math.max(...usable.map((one) => one.end_s[2])) * 1.001;
  const x = (t) => `${(100 * (t - first)) / Math.max(1e-6, last - first)}%`;
  const width = (a, b) => `${Math.max(0.3, (100 * (b - a)) / Math.max(1e-6, last - first))}%`;
  const own = usable[0].end_s[1];
  fill(
    box,
    h(
      "header",
      {},
      h("h2", {}, "Under other policies"),
      h(
        "span",
        { class: "quiet" },
        `from the state at ${clock(log, now)}${zone(log)}; dotted: waits, bar: runs, line: end with its 90 % interval`,
      ),
    ),
    h(
      "div",
      { class: "pad" },
      usable.map((one, index) => {
        const start = one.start_s?.[1] ?? job.started ?? now;
        const [low, end, high] = one.end_s;
        const off = end - own;
        return h(
          "div",
          { class: "forecast" },
          index ? h("span", {}, one.policy) : h("b", {}, one.policy),
          h(
            "span",
            { class: "ftrack", "aria-hidden": "true" },
            h("i", { class: "wait0", style: { left: x(job.submitted), width: width(job.submitted, start) } }),
            h("i", {
              class: "run0",
              style: { left: x(start), width: width(start, end), background: index ? "var(--quiet)" : "var(--c0)" },
            }),
            h("i", { class: "int", style: { left: x(low), width: width(low, high) } }),
            h("i", { class: "end", style: { left: x(end) } }),
          ),
          h(
            "span",
            { class: "num" },
            clock(log, end),
            h(
              "span",
              { class: "quiet" },
              index ? ` ${off >= 0 ? "+" : "−"}${duration(Math.abs(off))}` : ` ± ${duration((high - low) / 2)}`,
            ),
          ),
        );
      }),
    ),
  );
}
