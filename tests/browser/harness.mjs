// Processes, temporary folders, the browser and its checks.

import { spawn, execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, mkdir, rm, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

export const BIN = process.env.GIVEWAY_BIN;
const SCREENSHOTS = process.env.SCREENSHOTS;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const run = promisify(execFile);
const cleanups = [];

/** Runs a command of giveway to its end and returns its output. */
export const giveway = async (...args) => (await run(BIN, args, { maxBuffer: 64 << 20 })).stdout;

export async function folder() {
  const created = await mkdtemp(path.join(os.tmpdir(), "giveway-browser-"));
  cleanups.push(() => rm(created, { recursive: true, force: true }));
  return created;
}

/** A link to a cluster's dashboard. */
const link = (dir) => execFileSync(BIN, ["token", "link", "--dir", dir], { encoding: "utf8" }).trim();

/** Starts a command that serves the dashboard; returns the process and the printed address. */
export function serve(...args) {
  const child = spawn(BIN, args, { stdio: ["ignore", "pipe", "inherit"] });
  cleanups.push(() => child.kill("SIGTERM"));
  return new Promise((resolve, reject) => {
    let out = "";
    child.on("exit", (code) => reject(new Error(`giveway ${args.join(" ")} ended with ${code}: ${out}`)));
    child.stdout.on("data", (data) => {
      out += data;
      const address = /Dashboard: .*\n/.exec(out)?.[0];
      if (!address) return;
      // Links with a token are not printed into the socket that Node has for a pipe: it could be the system's journal.
      const file = /link that opens it is in (.*)\n/.exec(address)?.[1];
      const url = args[0] === "up" ? link(args[args.indexOf("--dir") + 1]) : readFileSync(file, "utf8").trim();
      resolve({ child, url });
    });
  });
}

export const ended = (child) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise((resolve) => child.once("exit", resolve));

/** Waits until a condition holds; fails with its description after a minute. */
export async function until(what, condition) {
  const started = Date.now();
  for (;;) {
    if (await condition()) return;
    if (Date.now() - started > 60000) throw new Error(`not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function browser() {
  const profile = await folder();
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    viewport: { width: 1400, height: 1100 },
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  cleanups.push(() => context.close());
  return context;
}

/** A page on which any error in a script, and any refused resource, fails the test. */
export async function open(context, url) {
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    // While the coordinator is down its connections fail, which is part of the test.
    if (message.type() === "error" && !/Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE/.test(message.text()))
      page.problems.push(message.text());
  });
  page.on("dialog", (dialog) => {
    page.problems.push(`markup was executed: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:"))
      page.problems.push(`request to ${request.url()}`);
  });
  await fromDisk(page);
  await page.goto(url);
  return page;
}

/** With the environment variable ASSETS, a folder, scripts and styles come from there: to try changes without a build. */
export async function fromDisk(page) {
  const assets = process.env.ASSETS;
  if (!assets) return;
  await page.route("**/assets/*", (route) => {
    const name = path.basename(new URL(route.request().url()).pathname);
    return name === "codes.js" ? route.continue() : route.fulfill({ path: path.join(assets, name) });
  });
}

export async function screenshot(page, name) {
  if (!SCREENSHOTS) return;
  await mkdir(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

/** Fails if axe-core finds a violation. */
export async function accessible(page, what) {
  // The page's own policy allows no other script, so it is evaluated by the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  if (violations.length)
    throw new Error(
      `${what}: ${violations
        .map(
          (one) =>
            `${one.id}: ${one.nodes
              .slice(0, 3)
              .map((node) => `${node.target} ${node.failureSummary}`)
              .join(" | ")}`,
        )
        .join("\n")}`,
    );
}

/** Light and dark, wide and narrow, each checked and photographed; only some of them, unless somebody wants the pictures. */
export async function looks(page, name, { only = null } = {}) {
  for (const [width, theme] of [1400, 800, 400].flatMap((width) => [
    [width, "light"],
    [width, "dark"],
  ])) {
    if (only && !SCREENSHOTS && !only.includes(`${width}-${theme}`)) continue;
    await page.setViewportSize({ width, height: { 1400: 1100, 800: 1000, 400: 844 }[width] });
    await page.evaluate((to) => {
      if (document.documentElement.dataset.theme !== to) document.getElementById("theme").click();
    }, theme);
    await page.waitForTimeout(250);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 1) throw new Error(`${name} at ${width} px is ${wide} px too wide`);
    await accessible(page, `${name} ${width} ${theme}`);
    await screenshot(page, `${name}-${width}-${theme}`);
  }
  await page.setViewportSize({ width: 1400, height: 1100 });
}

export function assert(condition, text) {
  if (!condition) throw new Error(text);
}

export async function cleanUp() {
  for (const cleanup of cleanups.reverse()) await Promise.resolve(cleanup()).catch(() => {});
}
