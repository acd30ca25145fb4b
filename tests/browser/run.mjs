// The dashboard in a real browser: recorded logs, then a cluster whose job pauses, loses a worker, is explained, survives a restart and is killed.

import { appendFile, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { DAY, LAB } from "./fixtures.mjs";
import {
  accessible,
  assert,
  browser,
  cleanUp,
  ended,
  folder,
  fromDisk,
  giveway,
  looks,
  open,
  screenshot,
  serve,
  until,
} from "./harness.mjs";

const LARGE = `
[[nodes]]
name = "n"
count = 1000
racks = 20
map_slots = 4
reduce_slots = 2
`;
const LARGE_DAY = `
[generate]
jobs = 1900
users = 6
load = 0.8
maps_max = 5000
`;

const step = (text) => console.log(`- ${text}`);
const text = (page, selector) => page.locator(selector).innerText();

async function recorded(context) {
  const dir = await folder();
  const file = (name) => path.join(dir, name);
  await writeFile(file("day.toml"), DAY);
  await writeFile(file("lab.toml"), LAB);
  for (const policy of ["giveway", "fair"])
    await giveway(
      "sim",
      "--workload",
      file("day.toml"),
      "--cluster",
      file("lab.toml"),
      "--policy",
      policy,
      "--event-log",
      file(`${policy}.eventlog`),
    );
  const { child, url } = await serve("view", file("giveway.eventlog"), file("fair.eventlog"));
  step("without a token it says so, and nothing looks well");
  const stranger = await open(context, new URL(url).origin);
  await stranger.waitForSelector("#live.lost");
  assert((await text(stranger, "#livetext")) === "Not loaded", await text(stranger, "#livetext"));
  assert(/giveway token link/.test(await text(stranger, "main")), await text(stranger, "main"));
  await stranger.close();
  const page = await open(context, url);
  await page.waitForSelector(".verdict .word");
  assert(!page.url().includes("token"), "the token stays in the address");
  step("it is opened where something happens");
  assert(await page.evaluate(() => giveway.store.held !== null), "it is opened at its end, where all is over");
  assert(!/Idle/.test(await text(page, ".verdict")), await text(page, ".verdict"));
  step("a recorded log: every panel shows the chosen instant");
  await page.locator(".timeline").click({ position: { x: 500, y: 80 } });
  await page.waitForSelector("#banner:not([hidden])");
  const before = await page.evaluate(() => giveway.store.at);
  await page.keyboard.press("ArrowRight");
  await until("the next decision is shown", async () => (await page.evaluate(() => giveway.store.at)) > before);
  await page.waitForSelector("tbody tr.row");
  await looks(page, "overview");
  await page.keyboard.press("n");
  await page.waitForTimeout(150);
  await screenshot(page, "lanes-1400");
  step("zoom to a few minutes and hover a decision");
  await page.evaluate(() => {
    const { view, store } = globalThis.giveway;
    view.timeline.setWindow(store.at - 60, store.at + 60);
  });
  await page.waitForTimeout(200);
  await screenshot(page, "lanes-zoomed-1400");
  await page.keyboard.press("a");
  await page.locator("tbody tr.row a").first().click();
  await page.waitForSelector(".chain li");
  await looks(page, "job-recorded", { only: ["400-light"] });
  step("a job that waits says what for, and jobs ahead are ranked by the same");
  const waiting = await page.evaluate(() => {
    const { log } = giveway.store;
    const wait = (job) => (job.started ?? job.submitted) - job.submitted;
    const longest = log.jobs.reduce((most, job) => (wait(job) > wait(most) ? job : most));
    giveway.store.hold(longest.submitted + wait(longest) / 2);
    return longest.id;
  });
  await page.goto(new URL(`/#/job/${waiting}`, url).href);
  await until("its facts are there", async () => /Waiting for[^]*ahead for map slots/.test(await text(page, ".chain")));
  const ranked = (await text(page, ".chain")).match(/Rank \d+ of the waiting jobs: .*?([\d.]+ s)\./);
  assert((await text(page, ".chain")).split(ranked[1]).length > 2, "its rank and its bar differ");
  await looks(page, "job-waiting", { only: ["800-light"] });
  await page.goto(new URL("/#/nodes", url).href);
  await page.waitForSelector(".node");
  await looks(page, "nodes", { only: ["400-dark"] });
  step("two logs side by side");
  await page.goto(new URL("/#/compare", url).href);
  await page.waitForSelector(".three svg");
  assert(/\d+ % (lower|higher)|the same as/.test(await text(page, ".lead")), "the comparison has no result");
  assert(
    /waited|finished before|more (early|pause|kill)|fewer slots/.test(await text(page, "tr:nth-child(2) td.wrap")),
    "no job has a reason",
  );
  await looks(page, "compare", { only: ["1400-light", "800-light", "400-dark"] });
  assert(page.problems.length === 0, page.problems.join("\n"));
  await page.close();
  child.removeAllListeners("exit");
  child.kill("SIGTERM");
}

async function large(context) {
  const dir = await folder();
  const file = (name) => path.join(dir, name);
  await writeFile(file("day.toml"), LARGE_DAY);
  await writeFile(file("cluster.toml"), LARGE);
  await giveway(
    "sim",
    "--workload",
    file("day.toml"),
    "--cluster",
    file("cluster.toml"),
    "--policy",
    "giveway",
    "--event-log",
    file("large.eventlog"),
  );
  const { child, url } = await serve("view", file("large.eventlog"));
  const page = await context.newPage();
  await fromDisk(page);
  const started = Date.now();
  await page.goto(url);
  await page.waitForFunction(() => globalThis.giveway?.view?.timeline?.cost > 0, null, { timeout: 60000 });
  const paint = Date.now() - started;
  // Every frame draws the whole timeline at another window or instant; reading a pixel includes the raster.
  const frames = await page.evaluate(async () => {
    const { view, store, choice } = globalThis.giveway;
    const { timeline } = view;
    const measure = async (count, change) => {
      const costs = [];
      for (let frame = 0; frame < count; frame += 1) {
        change(frame / count);
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const began = performance.now();
        timeline.draw();
        timeline.canvas.getContext("2d").getImageData(0, 0, 1, 1);
        costs.push(performance.now() - began);
      }
      costs.sort((a, b) => a - b);
      return { median: costs[count >> 1], max: costs.at(-1) };
    };
    const end = store.log.now;
    const zoom = (part) => {
      const span = end * (1 - 0.98 * part);
      choice.window = [end * 0.5 * part, end * 0.5 * part + span];
    };
    choice.mode = "area";
    const area = await measure(40, zoom);
    choice.mode = "nodes";
    const nodes = await measure(40, zoom);
    choice.window = null;
    choice.mode = "area";
    const scrub = async (what) => {
      const costs = [];
      for (let frame = 0; frame < 20; frame += 1) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const began = performance.now();
        store.held = (end * frame) / 20;
        view.render(what);
        costs.push(performance.now() - began);
      }
      costs.sort((a, b) => a - b);
      return { median: costs[10], max: costs.at(-1) };
    };
    timeline.draw();
    return {
      attempts: store.log.length,
      nodes: store.log.nodes.length,
      area,
      lanes: nodes,
      scrub: await scrub("instant"),
      panels: await scrub("panels"),
    };
  });
  const ms = (one) => `median ${one.median.toFixed(1)} ms, longest ${one.max.toFixed(1)} ms`;
  step(
    `${frames.nodes} nodes, ${frames.attempts} attempts: first paint after ${paint} ms; a frame of the areas: ${ms(frames.area)}; of the nodes: ${ms(frames.lanes)}; scrubbing: ${ms(frames.scrub)}; all panels: ${ms(frames.panels)}`,
  );
  assert(frames.attempts >= 100000, `only ${frames.attempts} attempts`);
  await screenshot(page, "large-1400");
  step("the page of a thousand nodes fits a few screens, and is filtered");
  await page.goto(new URL("/#/nodes", url).href);
  await page.waitForSelector(".heat");
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert(height < 4000, `the page of nodes is ${height} px high`);
  await page.fill("#filter", "n-77");
  await until(
    "one node and those that begin with it are left",
    async () => (await page.locator(".node").count()) === 11,
  );
  await page.fill("#filter", "");
  await page.waitForSelector(".heat");
  await looks(page, "nodes-1000", { only: ["400-light"] });
  await page.close();
  child.removeAllListeners("exit");
  child.kill("SIGTERM");
}

async function live(context) {
  const dir = await folder();
  const cluster = path.join(dir, "cluster");
  const words = path.join(dir, "words.txt");
  await writeFile(words, "");
  for (let line = 0; line < 60; line += 1)
    await appendFile(words, `${"many words in a file, of which some are the same ".repeat(3)}${line}\n`.repeat(60));
  const small = path.join(dir, "small.txt");
  await writeFile(small, "a few words\n");
  const up = ["up", "--dir", cluster, "--nodes", "3", "--no-restart", "--timeout", "2s", "--policy", "giveway"];
  let server = await serve(...up);
  const page = await open(context, server.url);
  await page.waitForSelector(".verdict .word");
  step("a job with markup in its name runs");
  const name = "<img src=x onerror=alert(1)> large";
  const submit = (job, input, ...more) =>
    giveway(
      "submit",
      "wordcount",
      "--dir",
      cluster,
      "--input",
      input,
      "--output",
      path.join(dir, `out-${job.replace(/\W/g, "")}`),
      "--name",
      job,
      ...more,
    );
  await submit(name, words, "--reduces", "3", "--split", "8KB", "--records-per-second", "15");
  const row = page.locator("tbody tr.row", { hasText: "large" });
  await row.waitFor();
  assert((await row.innerText()).includes("<img src=x"), "the name is not shown as text");
  await until("it runs", async () => (await row.innerText()).includes("Running"));
  step("a small job comes; the large one gives way and resumes");
  await until("a reduce of it runs", async () => page.evaluate(() => giveway.store.log.jobs[0]?.running[1] > 0));
  const decisions = () => text(page, ".scroll");
  for (let job = 0; job < 3; job += 1) await submit(`small-${job}`, small, "--reduces", "2");
  await until("it gave way", async () =>
    page.evaluate(() => {
      const job = giveway.store.log.jobs[0];
      return job.pauses + job.early_ends > 0;
    }),
  );
  if (!(await page.evaluate(() => giveway.store.log.jobs[0].pauses))) await giveway("yield", "1", "--dir", cluster);
  await until("a reduce is paused", async () => page.evaluate(() => giveway.store.log.jobs[0].pauses > 0));
  await until("the pause is among the decisions", async () => /paused (a|\d+) reduce/.test(await decisions()));
  await until("it resumed", async () => page.evaluate(() => giveway.store.log.jobs[0].resumes > 0));
  await until("the resume is among the decisions", async () => /resumed (a|\d+) reduce/.test(await decisions()));
  await screenshot(page, "live-1400");
  step("an instant in the address is the same in another time zone, and the clock says which it is");
  assert(/Live \d\d:\d\d:\d\d UTC$/.test(await text(page, "#livetext")), await text(page, "#livetext"));
  await page.keyboard.press("Escape");
  await page.evaluate(() => giveway.store.hold(giveway.store.log.markTime[0] + 0.5));
  await until("the instant is in the address", async () =>
    /at=\d{4}-\d\d-\d\dT[^&]*Z/.test(decodeURIComponent(page.url())),
  );
  const abroad = await open(context, page.url());
  const session = await context.newCDPSession(abroad);
  await session.send("Emulation.setTimezoneOverride", { timezoneId: "Pacific/Auckland" });
  await abroad.reload();
  await abroad.waitForSelector(".verdict .word");
  const [here, there] = await Promise.all([page, abroad].map((one) => one.evaluate(() => giveway.store.at)));
  assert(Math.abs(here - there) < 0.01, `held at ${here} here and ${there} abroad`);
  assert((await text(page, "#livetext")) === (await text(abroad, "#livetext")), "two clocks for one instant");
  await abroad.close();
  await page.evaluate(() => giveway.store.hold(null));
  await until("it is gone from the address", async () => !/at=/.test(page.url()));
  step("a drained node is shown, and is no problem");
  await giveway("nodes", "drain", "node-1", "--dir", cluster);
  await until("the page says so", async () => /1 node is drained/.test(await text(page, ".verdict")));
  await giveway("nodes", "include", "node-1", "--dir", cluster);
  await until("it is used again", async () => !/drained/.test(await text(page, ".verdict")));
  step("a worker is lost");
  const pid = await page.evaluate(
    async () => (await (await fetch("/api/v1/nodes")).json()).find((node) => node.pid && node.name === "node-2").pid,
  );
  process.kill(pid, "SIGKILL");
  await until(
    "the page says so",
    async () => /Recovering|Degraded/.test(await text(page, ".verdict")) && /node-2/.test(await decisions()),
  );
  await accessible(page, "overview with a lost node");
  step("the job page explains it, with a forecast");
  await row.locator("a").click();
  await until("a sentence says how it stands", async () =>
    /tasks? left|Waiting|paused|Holds/.test(await text(page, ".lead")),
  );
  await page.waitForSelector(".chain li");
  await until("the forecast is there", async () => /Finishes/.test(await text(page, ".chain")));
  await until("other policies are compared", async () => (await page.locator(".forecast").count()) >= 2);
  await looks(page, "job-live", { only: ["1400-light", "400-dark"] });
  step("the coordinator is killed and started again under the open page");
  await page.evaluate(() => {
    globalThis.sameDocument = true;
  });
  server.child.removeAllListeners("exit");
  server.child.kill("SIGKILL");
  await ended(server.child);
  await until("the page says that there is no connection", async () =>
    /No connection/.test(await text(page, "#livetext")),
  );
  const attempts = await page.evaluate(() => giveway.store.log.length);
  server = await serve(...up);
  await until("it is live again", async () => /Live/.test(await text(page, "#livetext")));
  await until("it goes on", async () => page.evaluate((before) => giveway.store.log.length > before, attempts));
  assert(await page.evaluate(() => globalThis.sameDocument), "the page was loaded again");
  step("a kill asks for the token");
  await page.getByRole("button", { name: "Kill…" }).click();
  await page.fill("#token", "wrong");
  await page.getByRole("button", { name: "Kill job" }).click();
  await until("a wrong token is refused", async () => /token/.test(await text(page, "dialog .error")));
  await accessible(page, "dialog");
  await page.fill("#token", (await readFile(path.join(cluster, "token"), "utf8")).trim());
  await page.getByRole("button", { name: "Kill job" }).click();
  await until("the job is killed", async () => /Killed/.test(await text(page, ".jobhead")));
  step("what an attempt printed is on its job page, as text");
  const noisy = (
    await giveway(
      "submit",
      "streaming",
      "--dir",
      cluster,
      "--mapper",
      "echo '<b>bold</b> words' >&2; cat",
      "--input",
      small,
      "--output",
      path.join(dir, "out-noisy"),
    )
  ).trim();
  await page.goto(`${new URL(page.url()).origin}/#/job/${noisy}`);
  await page.getByRole("button", { name: "Logs" }).click();
  await page.locator("details.log summary").click();
  await until("its log is shown", async () => (await text(page, ".logtext")).includes("<b>bold</b> words"));
  await accessible(page, "logs");
  await screenshot(page, "logs-1400");
  step("the API knows at once that a job has ended");
  for (let job = 0; job < 5; job += 1) {
    const ended = await submit(`quick-${job}`, small, "--wait");
    const id = /job (\d+)/.exec(ended)[1];
    const answer = await page.request.get(`${new URL(page.url()).origin}/api/v1/jobs/${id}/explain`);
    assert((await answer.json()).state === "succeeded", `job ${id} has ended: ${ended}`);
  }
  step("the phases of a job, with the times of its tasks");
  await page.goto(`${new URL(page.url()).origin}/#/job/2`);
  await page.getByRole("button", { name: "Tasks" }).click();
  await until("both phases are there", async () =>
    /Maps[^]*Reduces after the last map/.test(await text(page, ".phased")),
  );
  await accessible(page, "tasks");
  step("nodes show what their processes use");
  await page.goto(`${new URL(page.url()).origin}/#/nodes`);
  await until("cores and memory are there", async () => /\d\.\d\d\t\d+(\.\d)? MB/.test(await text(page, "table")));
  step("only my jobs");
  await page.goto(`${new URL(page.url()).origin}/#/overview`);
  await page.waitForSelector('select[aria-label="All users"]');
  await page.keyboard.press("m");
  await until("the filter names me", async () =>
    /\(me\)/.test(
      await page
        .locator("select")
        .first()
        .evaluate((one) => one.selectedOptions[0].text),
    ),
  );
  await page.keyboard.press("m");
  step("a live cluster's jobs are simulated under another policy");
  await page.goto(`${new URL(page.url()).origin}/#/compare`);
  await page.getByLabel("Simulate").selectOption("fifo");
  await page.getByRole("button", { name: "Run the comparison" }).click();
  await page.waitForSelector(".three");
  assert(/under fifo|than under fifo/.test(await text(page, ".lead")), await text(page, ".lead"));
  await looks(page, "compare-live", { only: ["1400-dark", "400-light"] });
  step("a failed job says why, once, as printed");
  await writeFile(path.join(dir, "broken.sh"), "echo first line >&2; echo second line of the traceback >&2; exit 3\n");
  const broken = (
    await giveway(
      "submit",
      "streaming",
      "--dir",
      cluster,
      "--mapper",
      `sh ${path.join(dir, "broken.sh")}`,
      "--input",
      small,
      "--output",
      path.join(dir, "out-broken"),
    )
  ).trim();
  await page.goto(`${new URL(page.url()).origin}/#/job/${broken}`);
  await page.waitForSelector(".failure:not([hidden])");
  const why = await text(page, ".failure");
  assert(
    /first line\s*\n\s*second line of the traceback/.test(why) && why.split("first line").length === 2,
    `the cause is not shown once, as printed: ${why}`,
  );
  await until("the forecast is gone", async () => {
    const chain = await text(page, ".chain");
    return /Failed/.test(chain) && !/Finishes|Starts/.test(chain);
  });
  await looks(page, "job-failed", { only: ["1400-light", "400-dark"] });
  await page.goto(`${new URL(page.url()).origin}/#/overview`);
  await until("its failure is among the decisions", async () => /streaming failed/.test(await decisions()));
  const failure = page.locator(".decision", { hasText: "streaming failed" }).first();
  assert((await failure.locator(".bad").count()) === 1, "a failed job looks like a success");
  assert(/1 job failed in the last 10 minutes/.test(await text(page, ".verdict")), await text(page, ".verdict"));
  assert(!/node-\d excluded/.test(await text(page, ".verdict")), "an error of a program excluded a node");
  const metrics = await (await page.request.get(`${new URL(page.url()).origin}/metrics`)).text();
  assert(
    /giveway_nodes\{state="excluded"\} 0/.test(metrics) &&
      /state="failed"\} 1/.test(metrics) &&
      /giveway_paused_reduces 0/.test(metrics),
    metrics,
  );
  assert(page.problems.length === 0, page.problems.join("\n"));
  server.child.removeAllListeners("exit");
  await giveway("down", "--dir", cluster);
  await ended(server.child);
}

const started = Date.now();
try {
  const context = await browser();
  const only = process.argv[2];
  for (const part of [recorded, live, large]) if (!only || part.name === only) await part(context);
  console.log(`the dashboard works (${Math.round((Date.now() - started) / 1000)} s)`);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await cleanUp();
  process.exit();
}
