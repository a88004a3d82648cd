// What the page looks like in headless Chromium: at the widths of phones, tablets and desks, on paper,
// and pixel by pixel where a colour or a mark says something.
//
//   npm run build && node --test browser/look.test.mjs

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { close, open } from "./pages.mjs";
import { load } from "../scripts/bundle.mjs";
import { makeReport } from "./reports.mjs";

const { mib } = await load("src/format.ts");

after(close);

const WIDTHS = [360, 900, 1200, 1400];

const labelsOf = (page) => page.$eval("canvas.curve", (c) => JSON.parse(c.dataset.labels));

for (const width of WIDTHS)
  test(`${width} pixels: lines of the curve have their names, and none lies over the given order`, async () => {
    for (const kind of ["near", "far", "compare"]) {
      const { report, url } = makeReport(kind);
      const { page, problems } = await open(url, { viewport: { width, height: 900 } });
      const s = report.plans[0].summary;
      const labels = await labelsOf(page);
      const texts = labels.map((label) => label.text);
      const wanted = [
        "given order",
        `peak ${mib(s.peak_bytes)}`,
        `budget ${mib(s.budget_bytes)}`,
        `floor ${mib(s.floor_bytes)}`,
      ];
      if (kind !== "near") wanted.push(`${width < 500 ? "each op once \u2265" : "bound, each op once"} ${mib(s.lower_bound_bytes)}`);
      for (const text of wanted) assert.ok(texts.includes(text), `${kind}: no ${text} in ${texts}`);
      const hidden = await page.$eval("canvas.curve", (c) => JSON.parse(c.dataset.hidden));
      assert.deepEqual(hidden, [], `${kind}: over the given order`);
      assert.match(await page.locator("#memory-legend").textContent(), /given order/);
      assert.equal(await page.locator("#memory-legend .broken").count(), kind === "far" ? 1 : 0);
      const [legend, map] = await page.evaluate(() =>
        ["#memory-legend", "canvas.map"].map((one) => document.querySelector(one).getBoundingClientRect().top),
      );
      assert.ok(legend < map, "the legend stands above the map");
      const shown = page.locator("[data-fact=lower_bound_bytes] .size");
      const bound = Math.max(s.lower_bound_bytes, s.floor_bytes);
      assert.equal(await shown.getAttribute("data-bytes"), String(bound));
      if (kind === "far")
        assert.match(
          await page.locator("[data-fact=lower_bound_bytes] .note").textContent(),
          /^each op once, proven in one part$/,
        );
      assert.deepEqual(problems, []);
      await page.close();
    }
  });

async function openAll(page) {
  for (const details of await page.locator("details.as-table > summary").all())
    await details.click();
  for (const toggle of await page.locator(".toggle[aria-expanded=false]:enabled").all())
    await toggle.click().catch(() => {}); // a row that another one has closed
  await page.waitForTimeout(100);
}

for (const width of WIDTHS)
  test(`${width} pixels: no column and no link is cut off, and names break behind dots and slashes`, async () => {
    const { url } = makeReport("long names");
    const { page, problems } = await open(url, { viewport: { width, height: 900 } });
    await openAll(page);
    const boxes = await page.$$eval(".scroll", (all) =>
      all.map((s) => [s.getAttribute("aria-label"), s.scrollWidth, s.clientWidth, s.querySelector("table").className]),
    );
    assert.ok(boxes.length >= 11, `${boxes.length} tables`);
    for (const [name, wide, box] of boxes) assert.ok(wide <= box, `${name}: ${wide} in ${box}`);
    const links = await page.$$eval("#links a", (all) =>
      all.map((a) => [a.getBoundingClientRect().left, a.getBoundingClientRect().right]),
    );
    for (const [left, right] of links) assert.ok(left >= 0 && right <= width, `${left} ${right}`);
    const [nav, room] = await page.$eval("#links", (n) => [n.scrollWidth, n.clientWidth]);
    assert.ok(nav <= room, `the links are ${nav} pixels wide, their place ${room}`);
    const broken = await page.$$eval(".table .link, .table tbody th, .table .whole", (all) => {
      const range = document.createRange();
      const texts = all.flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3));
      return texts
        .filter((text) => !/[\s\u2013-]/.test(text.data))
        .filter((text) => {
          range.selectNodeContents(text);
          return range.getClientRects().length > 1;
        })
        .map((text) => text.data);
    });
    assert.deepEqual(broken, []);
    // A long name is shortened in the middle; its tip has it in full.
    const long = page.locator("#modules [data-name]").first();
    assert.equal(await long.getAttribute("data-tip"), await long.getAttribute("data-name"));
    assert.match(await long.textContent(), /.+\u2026.+/);
    if (width >= 1200) {
      const plain = boxes.filter(([name]) => /^(Groups|What each|All runs|The two|Stays)/.test(name));
      assert.deepEqual(
        plain.map((box) => box[3]).filter((one) => one.includes("stacked")),
        [],
        "there is room for columns",
      );
    }
    assert.deepEqual(problems, []);
    await page.close();
  });
