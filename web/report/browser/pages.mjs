// Pages in headless Chromium, for tests: opening one, what is in its map, what axe-core says of it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { load } from "../scripts/bundle.mjs";
import { launch } from "./launch.mjs";

const { mib, timeApart } = await load("src/format.ts");
const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

let browser;

export async function close() {
  await browser?.close();
}

// Whether others have the processor, so that times say little of the page.
export const busy = () => loadavg()[0] > 1.5 * cpus().length;

// Opens a page; `problems` gathers console errors, exceptions and requests for anything but itself.
export async function open(url, options = {}) {
  browser ??= await launch();
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 }, ...options });
  const problems = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && problems.push(m.text()));
  page.on("pageerror", (e) => problems.push(e.message));
  page.on(
    "request",
    (r) =>
      r.url() !== url && !r.url().startsWith("data:") && problems.push(`request for ${r.url()}`),
  );
  const began = performance.now();
  await page.goto(url);
  await page.waitForSelector("html[data-ready]");
  await page.waitForFunction(
    () => Number(document.querySelector("canvas.map")?.dataset.frames ?? 0) > 0,
  );
  return { page, problems, milliseconds: performance.now() - began };
}

export async function centre(page, selector, atX = 0.5, atY = 0.5) {
  await page.locator(selector).scrollIntoViewIfNeeded();
  const box = await page.locator(selector).boundingBox();
  return { x: box.x + box.width * atX, y: box.y + box.height * atY };
}

// How much of the processor the page's process has had, all threads together.
export async function processorSeconds(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  await session.detach();
  return metrics.find((metric) => metric.name === "ProcessTime").value;
}

export const mapWindow = (page) =>
  page.$eval("canvas.map", (c) => c.dataset.window.split(" ").map(Number));

export async function serious(page) {
  await page
    .addScriptTag({ path: axePath })
    .catch(() => page.evaluate(readFileSync(axePath, "utf8")));
  const result = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  return result.violations
    .filter((v) => ["serious", "critical"].includes(v.impact))
    .map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.target} ${n.failureSummary}`)
          .join("; ")}`,
    );
}

// The numbers at the top are those of the data.
export async function numbersAreTheDatas(page, summary) {
  for (const name of [
    "arena_bytes",
    "peak_bytes",
    "peak_before_bytes",
    "budget_bytes",
    "floor_bytes",
    "lower_bound_bytes",
  ]) {
    const cell = page.locator(`[data-fact=${name}] .size`);
    if (summary[name] === null || (name === "lower_bound_bytes" && (await cell.count()) === 0))
      continue;
    assert.equal(await cell.getAttribute("data-bytes"), String(summary[name]), name);
    assert.equal(await cell.textContent(), mib(summary[name]), name);
  }
  const times = ["predicted_seconds", "lower_bound_seconds"];
  for (const [name, other] of [times, [...times].reverse()]) {
    const told = await page.locator(`[data-fact=${name}]`).textContent();
    assert.ok(told.startsWith(timeApart(summary[name], summary[other])), `${name}: ${told}`);
  }
}
