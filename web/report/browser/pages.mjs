// Pages in headless Chromium, for tests: opening one, what is in its map, what axe-core says of it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { load } from "../scripts/bundle.mjs";
import { launch } from "./launch.mjs";

const { count, mib, milliseconds, time, timeApart } = await load("src/format.ts");
const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const NOTHING = "\u2013"; // what a table shows of what is not known

// Milliseconds by which every frame comes late, as where others have the processor: the tests of
// what is seen pass with FRAME_DELAY=150 too (those of speed and of smooth motion cannot).
const FRAME_DELAY = Number(process.env.FRAME_DELAY ?? 0);

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
  if (FRAME_DELAY > 0)
    await page.addInitScript((wait) => {
      const request = window.requestAnimationFrame.bind(window);
      window.requestAnimationFrame = (draw) => setTimeout(() => request(draw), wait);
    }, FRAME_DELAY);
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

// Waits until what was asked of the page is seen: views are drawn in the frame after a change, which
// may come late where others have the processor.
export const drawn = (page) =>
  page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))),
  );

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

// Waits until the map shows another window: a wheel or a touch comes to the page some time after it
// was asked for.
export async function moved(page, before) {
  await page.waitForFunction(
    (was) => document.querySelector("canvas.map").dataset.window !== was,
    before.join(" "),
  );
  await drawn(page);
}

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

// What the cells of a table's column show: the bytes of sizes, names in full, else the text.
export function cells(page, caption, column) {
  return page.$$eval(
    ".table table",
    (tables, [c, k]) => {
      const table = tables.find((t) => t.ariaLabel.startsWith(c));
      return [...table.tBodies[0].rows].map(
        (row) =>
          row.cells[k].querySelector(".size")?.dataset.bytes ??
          row.cells[k].querySelector("[data-name]")?.dataset.name ??
          row.cells[k].textContent,
      );
    },
    [caption, column],
  );
}

// The tables of actions, modules, the plan beside and measured ops are those of the data.
export async function tablesAreTheDatas(page, { plans, beside }) {
  const [plan, other] = plans;
  for (const details of await page.locator("details.as-table > summary").all())
    await details.click();
  const size = (bytes) => (bytes === null ? NOTHING : String(bytes));
  const columns = async (caption, all) => {
    const shown = await Promise.all(all.map((k) => cells(page, caption, k)));
    return shown[0].map((_, row) => shown.map((column) => column[row]));
  };
  const { groups } = plan.actions;
  if (groups.length > 0) {
    const row = (g) => [
      g.module || "(no module)",
      count(g.count),
      size(g.bytes),
      size(g.freed_bytes),
      g.moved_bytes ? size(g.moved_bytes) : NOTHING,
      g.seconds === null ? NOTHING : milliseconds(g.seconds),
    ];
    const shown = await columns("Groups of actions", [0, 2, 3, 4, 5, 6]);
    assert.equal(shown.length, Math.min(15, groups.length));
    const left = groups.map((g) => JSON.stringify(row(g)));
    for (const one of shown) {
      const at = left.indexOf(JSON.stringify(one));
      assert.ok(at >= 0, `no group of the data is ${one}`);
      left.splice(at, 1);
    }
  }
  const modules = await page.$$eval("tr[data-path]", (rows) =>
    rows.map((tr) => [
      tr.dataset.path,
      ...[1, 2].map((k) => tr.cells[k].querySelector(".size").dataset.bytes),
      ...[3, 4].map((k) => tr.cells[k].textContent),
    ]),
  );
  const told = plan.module_tree.map((m) =>
    JSON.stringify([
      m.path,
      size(m.bytes),
      size(m.bytes_at_peak),
      milliseconds(m.seconds),
      m.paid_seconds > 0 ? milliseconds(m.paid_seconds) : NOTHING,
    ]),
  );
  assert.ok(modules.length > 0 || plan.module_tree.length === 0);
  for (const one of modules) assert.ok(told.includes(JSON.stringify(one)), `no module is ${one}`);
  if (beside) {
    const numbers = [plan, other].map(({ summary: s }) => [
      ...[s.arena_bytes, s.peak_bytes].map(size),
      ...[s.predicted_seconds, s.lower_bound_seconds, s.exposed_seconds].map(time),
      count(s.reruns),
      size(s.stored_bytes),
    ]);
    for (const k of [0, 1])
      assert.deepEqual(await cells(page, "The two plans in numbers", k + 1), numbers[k]);
    const { name, bytes } = beside.rows;
    if (name.length > 0)
      assert.deepEqual(
        await columns("Tensors that the plans treat", [0, 2]),
        name.map((n, i) => [n, size(bytes[i])]).slice(0, 15),
      );
  }
  if (plan.measured) {
    const { op_seconds, by_kind } = plan.measured;
    assert.deepEqual(
      await columns("All runs by kind", [0, 1, 2, 3]),
      [...by_kind]
        .sort((a, b) => b.measured_seconds - a.measured_seconds)
        .slice(0, 12)
        .map((k) => [
          k.kind,
          count(k.ops),
          milliseconds(k.predicted_seconds),
          milliseconds(k.measured_seconds),
        ]),
    );
    const seconds = new Map(plan.ops.name.map((n, op) => [n, op]));
    const shown = await columns("Each op", [0, 3, 4]);
    assert.equal(shown.length, Math.min(25, op_seconds.filter((s) => s !== null).length));
    for (const [name, predicted, measured] of shown) {
      const op = seconds.get(name);
      assert.deepEqual(
        [predicted, measured],
        [plan.ops.seconds[op], op_seconds[op]].map(milliseconds),
        name,
      );
    }
    const sentence = await page.locator("#measured > p").first().textContent();
    for (const key of ["step_seconds", "predicted_seconds"])
      assert.ok(sentence.includes(time(plan.measured[key])), `${key}: ${sentence}`);
  }
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
    // Of each op once the bound or the floor of all schedules, whichever is more.
    const bytes =
      name === "lower_bound_bytes" ? Math.max(summary[name], summary.floor_bytes) : summary[name];
    assert.equal(await cell.getAttribute("data-bytes"), String(bytes), name);
    assert.equal(await cell.textContent(), mib(bytes), name);
  }
  const times = ["predicted_seconds", "lower_bound_seconds"];
  for (const [name, other] of [times, [...times].reverse()]) {
    const told = await page.locator(`[data-fact=${name}]`).textContent();
    assert.ok(told.startsWith(timeApart(summary[name], summary[other])), `${name}: ${told}`);
  }
}
