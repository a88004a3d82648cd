// Reports that `lowtide report` has made, in headless Chromium: their numbers are those of the data,
// and hovering, zooming, searching and following work on them as on made-up ones.
//
//   LOWTIDE_REPORTS=a.html,b.html node --test browser/real.test.mjs
//
// LOWTIDE_OPENS_IN=2000: and each opens within so many milliseconds.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { load } from "../scripts/bundle.mjs";
import {
  busy,
  centre,
  close,
  drawn,
  mapWindow,
  moved,
  numbersAreTheDatas,
  open,
  processorSeconds,
  serious,
  tablesAreTheDatas,
} from "./pages.mjs";

const { count, exactBytes } = await load("src/format.ts");
const most = Number(process.env.LOWTIDE_OPENS_IN ?? Infinity);

after(close);

// The tip of the first of these places of the map that shows a tensor.
async function hoverATensor(page, plan) {
  for (const x of [0.5, 0.3, 0.7, 0.1, 0.9])
    for (const y of [0.9, 0.6, 0.3]) {
      const at = await centre(page, "canvas.map", x, y);
      await page.mouse.move(at.x - 1, at.y);
      await page.mouse.move(at.x, at.y);
      await drawn(page);
      if (!(await page.locator("#tip").isVisible())) continue;
      const tensor = plan.tensors.name.indexOf(await page.locator("#tip strong").textContent());
      if (tensor < 0) continue;
      const tip = await page.locator("#tip").textContent();
      assert.ok(tip.includes(exactBytes(plan.tensors.bytes[tensor])), tip);
      return tensor;
    }
  return assert.fail("no place of the map shows a tensor");
}

async function zooms(page) {
  const whole = await mapWindow(page);
  await page.locator("canvas.map").focus();
  const at = await centre(page, "canvas.map");
  await page.mouse.move(at.x, at.y);
  await page.mouse.wheel(0, -300);
  await moved(page, whole);
  const near = await mapWindow(page);
  assert.ok(near[1] - near[0] < 0.8 * (whole[1] - whole[0]), `${near} is not inside ${whole}`);
  await page.keyboard.press("0");
  await drawn(page);
  assert.deepEqual(await mapWindow(page), whole);
}

const shows = (page, name) =>
  page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    name,
  );

// A tensor by its name, all of its stays, and the op that makes it.
async function searchAndFollow(page, plan) {
  const stays = new Map();
  plan.stays.tensor.forEach((t) => stays.set(t, (stays.get(t) ?? 0) + 1));
  const made = [...stays.keys()].filter((t) => plan.tensors.made_by[t] >= 0);
  const tensor = made.reduce((best, t) => (stays.get(t) > stays.get(best) ? t : best));
  const name = plan.tensors.name[tensor];
  await page.keyboard.press("/");
  await page.keyboard.type(name);
  await page.waitForSelector("#search-list li");
  const found = page.locator("#search-list li").filter({
    has: page.locator(".kind", { hasText: /^tensor$/ }),
    hasText: name,
  });
  await found.first().click();
  await shows(page, name);
  const facts = page.locator("#details-body");
  const shown = await facts.locator("dt:has-text('stays') + dd > ul > li:not(.more)").count();
  assert.ok(shown >= Math.min(stays.get(tensor), 12), `${shown} of ${stays.get(tensor)} stays`);
  await facts.locator("dt:has-text('made by') + dd button").click();
  await shows(page, plan.ops.name[plan.tensors.made_by[tensor]]);
}

for (const file of (process.env.LOWTIDE_REPORTS ?? "").split(",").filter(Boolean)) {
  test(`${basename(file)} opens without an error or a request, and answers`, async () => {
    const { page, problems, milliseconds } = await open(pathToFileURL(resolve(file)).href, {
      bypassCSP: true, // for axe-core alone
    });
    const seconds = await processorSeconds(page);
    assert.equal(await page.getAttribute("html", "data-ready"), "true");
    const report = JSON.parse(await page.locator("#lowtide-report").textContent());
    const [plan] = report.plans;
    console.log(
      `# ${basename(file)}: ${count(statSync(file).size)} bytes, ${count(plan.steps.kind.length)} steps, ` +
        `${count(plan.stays.tensor.length)} stays, opened in ${Math.round(milliseconds)} ms ` +
        `(${Math.round(seconds * 1000)} ms of the processor)`,
    );
    // Where others had the processor, what the page itself took of it decides.
    assert.ok(milliseconds <= most || (busy() && seconds * 1000 <= most), `${milliseconds} ms`);
    await numbersAreTheDatas(page, plan.summary);
    await hoverATensor(page, plan);
    await zooms(page);
    await searchAndFollow(page, plan);
    await tablesAreTheDatas(page, report);
    assert.deepEqual(await serious(page), []);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 360, height: 740 });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    assert.deepEqual(await serious(page), [], "dark, 360 pixels");
    assert.deepEqual(problems, []);
    await page.close();
  });
}
