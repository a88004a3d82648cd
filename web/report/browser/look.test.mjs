// What the page looks like in headless Chromium: at the widths of phones, tablets and desks, on paper,
// and pixel by pixel where a colour or a mark says something.
//
//   npm run build && node --test browser/look.test.mjs

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cells, close, drawn, open } from "./pages.mjs";
import { load } from "../scripts/bundle.mjs";
import { makeReport } from "./reports.mjs";

const { count, mib, percent, time, timeApart } = await load("src/format.ts");
const { pointText } = await load("src/front_view.ts");
const { MARGIN_LEFT } = await load("src/frame.ts");
const { makeModel } = await load("src/model.ts");
const { categoryColours, inkOn } = await load("src/palette.ts");

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
  await drawn(page);
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
    const broken = await page.$$eval(".table .link, .table tbody th, .table tbody td, .table .whole, .table .size", (all) => {
      const range = document.createRange();
      const texts = all.flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3));
      return texts
        .filter((text) => !/[ \n\u2013-]/.test(text.data))
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

test("beside: the axis reaches both predicted times, and the note says what the curves leave out", async () => {
  const { report, url } = makeReport("copying");
  const { page, problems } = await open(url);
  const [here, there] = report.plans.map((plan) => plan.summary);
  const end = await page.$eval("canvas.beside", (c) => Number(c.dataset.end));
  assert.equal(end, Math.max(here.predicted_seconds, there.predicted_seconds));
  assert.ok(end > here.timeline_seconds);
  const note = page.locator("#beside .note");
  const told = `takes ${time(here.predicted_seconds)}: copies beside its ops slow these by ${time(here.copying_seconds)} more`;
  assert.ok((await note.textContent()).includes(told), await note.textContent());
  await page.getByText("by step", { exact: true }).click();
  await page.waitForFunction(() => document.querySelector("#beside .note").hidden);
  assert.deepEqual(problems, []);
  await page.close();
  const without = await open(makeReport("compare").url);
  assert.equal(await without.page.locator("#beside > .note").count(), 0);
  await without.page.close();
});

for (const width of WIDTHS)
  test(`${width} pixels: the scatter's labels are whole`, async () => {
    const { page } = await open(makeReport("compare").url, { viewport: { width, height: 900 } });
    await page.waitForFunction(() => document.querySelector("canvas.scatter").dataset.labels);
    const [labels, room] = await page.$eval("canvas.scatter", (c) => [
      JSON.parse(c.dataset.labels),
      c.clientWidth,
    ]);
    assert.ok(labels.length >= 3);
    for (const [left, right] of labels)
      assert.ok(left >= 0 && right <= room, `${left} to ${right} of ${room}`);
    await page.close();
  });

test("the front's points and table are the data's, and it says where the shown plan stands", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const { points } = report.front;
  const found = points.filter((p) => p.found);
  const told = await page.$$eval(".front .point", (all) => all.map((p) => p.dataset.tip));
  assert.deepEqual(new Set(told), new Set(found.map(pointText)));
  // More memory lies to the right, more time higher, in proportion.
  const places = new Map(
    await page.$$eval(".front .point", (all) =>
      all.map((p) => [p.dataset.tip, [Number(p.getAttribute("cx")), Number(p.getAttribute("cy"))]]),
    ),
  );
  const [a, b, c] = [found[0], found[4], found[8]].map((p) => ({ p, at: places.get(pointText(p)) }));
  const share = (f, g) => (f(b) - f(a)) / (f(c) - f(a)) - (g(b) - g(a)) / (g(c) - g(a));
  assert.ok(Math.abs(share((o) => o.at[0], (o) => o.p.arena_bytes)) < 1e-3);
  assert.ok(Math.abs(share((o) => o.at[1], (o) => o.p.seconds)) < 1e-3);
  assert.ok(a.at[0] > c.at[0] && a.at[1] > c.at[1]);
  await page.locator("#front details.as-table > summary").click();
  const bytes = (value) => (value === null ? "\u2013" : String(value));
  const columns = [
    (p) => String(p.budget_bytes),
    (p) => bytes(p.arena_bytes),
    (p) => (p.found ? timeApart(p.seconds, p.bound_seconds) : "\u2013"),
    (p) => (p.found ? percent(p.extra_percent / 100) : "\u2013"),
    (p) => (p.found ? timeApart(p.bound_seconds, p.seconds) : "\u2013"),
    (p) => (p.found ? count(p.reruns) : "\u2013"),
    (p) => bytes(p.stored_bytes),
    (p) => (p.plan >= 0 ? "show" : p.found ? "about" : "why not"),
  ];
  for (const [k, column] of columns.entries())
    assert.deepEqual(await cells(page, "The front", k), points.map(column), `column ${k}`);
  await page.locator(".front .point:not(.has-plan)").first().click();
  await drawn(page);
  assert.match(await page.locator(".of-point").textContent(), /larger than 3 MB/);
  assert.equal(await page.locator(".aside-note").count(), 0);
  assert.equal(await page.locator(".front .point.shown").count(), 1);
  assert.deepEqual(problems, []);
  await page.close();
  const other = await open(makeReport("copying").url);
  const note = await other.page.locator(".aside-note").textContent();
  assert.match(note, /made-up\.lt, is no point of this front/);
  assert.equal(await other.page.locator(".front path.aside").count(), 1);
  await other.page.locator(".front .point:not(.has-plan)").first().click();
  await drawn(other.page);
  assert.match(await other.page.locator(".of-point").textContent(), /sweep --plans writes it/);
  await other.page.close();
});

test("paper shows the tables that are closed, and they are closed again after it", async () => {
  const { page, problems } = await open(makeReport("compare").url);
  const tables = () => page.locator("details.as-table").count();
  const open_ = () => page.locator("details.as-table[open]").count();
  assert.equal(await open_(), 0);
  await page.evaluate(() => {
    addEventListener("beforeprint", () => {
      window.printed = [...document.querySelectorAll("details.as-table")].map(
        (d) => d.open && d.querySelectorAll("tbody tr").length,
      );
    });
  });
  await page.pdf();
  const printed = await page.evaluate(() => window.printed);
  assert.equal(printed.length, await tables());
  assert.ok(printed.every((rows) => rows > 0), `${printed}`);
  assert.equal(await open_(), 0);
  assert.deepEqual(problems, []);
  await page.close();
});

// Does what moves the map, and waits until it has moved.
async function moving(page, act) {
  const before = await page.$eval("canvas.map", (c) => c.dataset.window);
  await act();
  await page.waitForFunction(
    (w) => document.querySelector("canvas.map").dataset.window !== w,
    before,
  );
}

async function find(page, kind, name) {
  await page.locator("#search").fill(name);
  await page
    .locator("#search-list li")
    .filter({ has: page.locator(".kind", { hasText: new RegExp(`^${kind}$`) }) })
    .filter({ has: page.locator(".name", { hasText: new RegExp(`^${name.replaceAll(".", "\\.")}$`) }) })
    .click();
}

// The map's pixels, with what turns times and addresses into them.
async function mapOf(page) {
  const map = await page.$eval("canvas.map", (c) => ({
    window: c.dataset.window.split(" ").map(Number),
    width: c.clientWidth,
    height: c.clientHeight,
    row: c.width,
    data: btoa(
      c
        .getContext("2d")
        .getImageData(0, 0, c.width, c.height)
        .data.reduce((text, byte) => text + String.fromCharCode(byte), ""),
    ),
  }));
  const [x0, x1, y0, y1] = map.window;
  const data = Buffer.from(map.data, "base64");
  return {
    x: (seconds) => MARGIN_LEFT + ((seconds - x0) / (x1 - x0)) * (map.width - MARGIN_LEFT - 10),
    y: (bytes) => map.height - 24 - ((bytes - y0) / (y1 - y0)) * (map.height - 42),
    pixel: (x, y) => {
      const at = 4 * (Math.round(y) * map.row + Math.round(x));
      return [...data.subarray(at, at + 3)];
    },
  };
}

const rgb = ({ r, g, b }) => [r, g, b];
const near = (a, b, by = 3) => a.every((v, k) => Math.abs(v - b[k]) <= by);

test("workspace has its colour, a buffer that is taken over its notch, and a copy its hatching", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url, { colorScheme: "light" });
  const [plan] = report.plans;
  const { rectangles: r } = makeModel(plan);
  const colours = categoryColours(plan.categories, false);
  const largest = (list, of) => list.reduce((best, i) => (of(i) > of(best) ? i : best));
  const all = Array.from({ length: r.count }, (_, i) => i);

  const work = largest(all.slice(r.stays), (i) => r.high[i] - r.low[i]);
  await moving(page, () => find(page, "op", plan.ops.name[r.op[work]]));
  const step = page.locator("#details-body .link", { hasText: `step ${count(r.runBegin[work] + 1)}` });
  await moving(page, () => step.first().click());
  let map = await mapOf(page);
  const inside = [0.7, 0.9].flatMap((u) =>
    [0.2, 0.8].map((v) =>
      map.pixel(
        map.x(r.secondsBegin[work] + u * (r.secondsEnd[work] - r.secondsBegin[work])),
        map.y(r.low[work] + v * (r.high[work] - r.low[work])),
      ),
    ),
  );
  const grey = rgb(colours[plan.categories.indexOf("workspace")]);
  for (const pixel of inside) assert.ok(near(pixel, grey), `${pixel} is not ${grey}`);

  const taken = largest(
    all.slice(0, r.stays).filter((i) => plan.stays.took_over[i] >= 0),
    (i) => (r.high[i] - r.low[i]) * (r.runEnd[i] - r.runBegin[i]),
  );
  await moving(page, () => find(page, "tensor", plan.tensors.name[r.tensor[taken]]));
  map = await mapOf(page);
  const middle = map.y((r.low[taken] + r.high[taken]) / 2),
    left = map.x(r.secondsBegin[taken]);
  const own = rgb(colours[r.category[taken]]);
  const ink = inkOn(colours[r.category[taken]]).match(/\d+/g).map(Number);
  const tip = map.pixel(left + 2, middle);
  assert.ok(near(tip, ink, 40), `the notch is ${tip}, not ${ink}`);
  const beside = map.pixel(left + 3, middle - 12);
  assert.ok(near(beside, own), `beside the notch is ${beside}, not ${own}`);

  const { transfers } = plan;
  const out = largest(
    transfers.tensor.map((_, t) => t).filter((t) => transfers.out[t] === 1),
    (t) => transfers.end[t] - transfers.begin[t],
  );
  const tensor = transfers.tensor[out];
  await moving(page, () => find(page, "tensor", plan.tensors.name[tensor]));
  const stays = page.locator("#details-body dt:has-text('stays') + dd .link");
  await moving(page, () => stays.first().click());
  map = await mapOf(page);
  const stay = all.find(
    (i) => i < r.stays && r.tensor[i] === tensor && plan.stays.end[i] > transfers.begin_step[out],
  );
  const share = (from, to) => {
    const base = rgb(colours[r.category[stay]]);
    let light = 0,
      count_ = 0;
    for (let x = Math.ceil(map.x(from)) + 2; x < map.x(to) - 2; ++x)
      for (let y = Math.ceil(map.y(r.high[stay])) + 3; y < map.y(r.low[stay]) - 3; ++y) {
        const pixel = map.pixel(x, y);
        count_ += 1;
        light += pixel[0] > base[0] + 60 && pixel[1] > base[1] + 30;
      }
    assert.ok(count_ > 40, `${count_} pixels`);
    return light / count_;
  };
  const copied = share(transfers.begin[out], Math.min(transfers.end[out], r.secondsEnd[stay]));
  assert.ok(copied > 0.1 && copied < 0.6, `${copied} of the pixels are stripes`);
  const before = share(r.secondsBegin[stay], transfers.begin[out]);
  assert.ok(before < copied / 2, `${before} where nothing is copied, ${copied} where it is`);
  // The test itself reads pixels more often than a page does.
  assert.deepEqual(
    problems.filter((problem) => !problem.includes("willReadFrequently")),
    [],
  );
  await page.close();
});
