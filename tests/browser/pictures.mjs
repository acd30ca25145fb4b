// The pictures of the README: the report of the demo, and the dashboard of a simulated day. The folder is the argument, docs/images by default.

import { mkdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { DAY, LAB } from "./fixtures.mjs";
import { assert, browser, cleanUp, folder, giveway, open, serve } from "./harness.mjs";

const out = path.resolve(process.argv[2] ?? "../../docs/images");

async function shoot(page, name, clip) {
  const file = path.join(out, name);
  await page.screenshot({ path: file, clip });
  assert((await stat(file)).size > 20000, `${name} is nearly empty`);
  console.log(file);
}

async function report(context) {
  const file = path.join(await folder(), "report.html");
  await giveway("demo", "--report", file);
  const page = await context.newPage();
  await page.setViewportSize({ width: 1200, height: 1000 });
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("svg");
  // From the top to the end of the second figure, so that nothing is cut.
  const bottom = await page.evaluate(() => {
    const figures = [...document.querySelectorAll("svg")].filter((one) => one.getBoundingClientRect().height > 100);
    return Math.ceil(
      figures[Math.min(1, figures.length - 1)].closest("figure, section, div").getBoundingClientRect().bottom,
    );
  });
  await page.setViewportSize({ width: 1200, height: bottom + 12 });
  await shoot(page, "report.png", { x: 0, y: 0, width: 1200, height: bottom + 12 });
  await page.close();
}

async function dashboard(context) {
  const dir = await folder();
  const file = (name) => path.join(dir, name);
  await writeFile(file("day.toml"), DAY);
  await writeFile(file("lab.toml"), LAB);
  const log = file("giveway.eventlog");
  await giveway(
    "sim",
    "--workload",
    file("day.toml"),
    "--cluster",
    file("lab.toml"),
    "--policy",
    "giveway",
    "--event-log",
    log,
  );
  const { child, url } = await serve("view", log);
  const page = await open(context, url);
  await page.setViewportSize({ width: 1400, height: 1000 });
  await page.waitForSelector("tbody tr.row");
  await page.waitForTimeout(500);
  await shoot(page, "dashboard.png", { x: 0, y: 0, width: 1400, height: 1000 });
  assert(page.problems.length === 0, page.problems.join("\n"));
  child.removeAllListeners("exit");
  child.kill("SIGTERM");
}

try {
  await mkdir(out, { recursive: true });
  const context = await browser();
  await dashboard(context);
  await report(context);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await cleanUp();
  process.exit();
}
