// The page in headless Chromium: it opens without an error and without a request, shows the data's
// numbers, answers pointer, wheel and keys, passes axe-core in both themes, runs no name as HTML,
// and keeps its speed with 100,000 stays.
//
//   npm run build && node --test browser/page.test.mjs

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { load } from "../scripts/bundle.mjs";
import {
  busy,
  cells as cellsOf,
  centre,
  close,
  drawn,
  mapWindow,
  moved,
  numbersAreTheDatas,
  open,
  processorSeconds,
  serious,
} from "./pages.mjs";
import { HTML_NAME, makeReport } from "./reports.mjs";

const { MARGIN_LEFT } = await load("src/frame.ts");
const { meet } = await load("src/labels.ts");
const { count, exactBytes, mib, time, timeApart } = await load("src/format.ts");
const { moduleColours } = await load("src/palette.ts");
const FRAMES_PER_SECOND = 30;

after(close);

test("the numbers at the top are the data's", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  await numbersAreTheDatas(page, report.plans[0].summary);
  assert.deepEqual(problems, []);
  await page.close();
});

test("no proven number is claimed for more schedules than it speaks of", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const { next_budget } = report.plans[0].actions;
  const of = /^No schedule in one part within this memory can cost less than/;
  const verdict = await page.locator("#summary .sentence").textContent();
  assert.match(verdict.slice(verdict.indexOf("No schedule")), of);
  for (const name of ["floor_bytes", "lower_bound_seconds"])
    assert.match(await page.locator(`[data-fact=${name}]`).textContent(), /proven in one part$/);
  const bound = await page.locator("[data-fact=lower_bound_bytes]").textContent();
  assert.match(bound, /each op once, proven in one part$/);
  const next = `no schedule in one part can take less there than ${timeApart(next_budget.bound_seconds, next_budget.seconds)}`;
  assert.ok((await page.locator("#actions .next").textContent()).includes(next), next);
  assert.match(await page.locator("#front p").first().textContent(), /in as many parts is faster/);
  for (const word of ["floor", "memory bound", "proven least time"]) {
    await page.locator(".numbers .term", { hasText: word }).focus();
    await drawn(page);
    assert.match(await page.locator("#tip").textContent(), /in as many parts as here/, word);
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test("what the report has not says so: the next budget, and transfers that nobody timed", async () => {
  const whole = makeReport("compare");
  const told = async ({ url }) => {
    const { page, problems } = await open(url);
    const texts = [
      await page.locator("#actions .next").textContent(),
      await page.locator("#measured > p").first().textContent(),
    ];
    assert.deepEqual(problems, []);
    await page.close();
    return texts;
  };
  const [next, measured] = await told(whole);
  const { next_budget } = whole.report.plans[0].actions;
  assert.ok(next.includes(`(${mib(next_budget.budget_bytes)}) the step would take`), next);
  assert.ok(next.includes(`${time(next_budget.saved_seconds)} less`), next);
  assert.match(measured, /Transfers took .* exposed\.$/);
  const [none, silent] = await told(makeReport("lacking"));
  assert.match(none, /not in this report: lowtide plan --report FILE searches for it/);
  assert.match(silent, /The plan moves tensors, but the profile has no transfers/);
});

test("the tables are the data's", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const [plan] = report.plans;
  for (const details of await page.locator("details.as-table > summary").all())
    await details.click();
  const cells = (caption, column) => cellsOf(page, caption, column);
  assert.deepEqual(
    (await cells("Present at the peak", 3)).map(Number),
    plan.peak.slice(0, 25).map((p) => p.bytes),
  );
  const present = await cells("Memory in each step", 3);
  present.forEach((bytes, r) =>
    assert.equal(
      Number(bytes),
      plan.curve.planned.reduce((sum, row) => sum + row[r], 0),
      `step ${r + 1}`,
    ),
  );
  assert.deepEqual((await cells("Stays", 2)).map(Number), plan.stays.address.slice(0, 25));
  assert.equal((await cells("Transfers", 0)).length, plan.transfers.tensor.length);
  const saved = (await cells("Groups of actions", 3)).map(Number),
    worth = (await cells("Groups of actions", 7)).map(Number);
  assert.ok(saved.every((bytes) => plan.actions.groups.some((g) => g.bytes === bytes)));
  assert.deepEqual(
    worth,
    [...worth].sort((a, b) => b - a),
    "most worthwhile first",
  );
  const { split } = plan.actions;
  const told = `save ${mib(split.bytes)} at the peak, and take ${time(split.seconds)} more`;
  assert.ok((await page.locator("#actions").textContent()).includes(told), told);
  const modules = await cells("What each module", 2);
  modules
    .slice(0, 2)
    .forEach((bytes, i) => assert.equal(Number(bytes), plan.module_tree[i + 1].bytes_at_peak));
  // Below a module that has tensors of its own: those, with type, shape and line of code.
  const own = plan.module_tree.find((row) =>
    row.rows.some((t) => plan.tensors.made_by[t] >= 0 && plan.tensors.bytes[t] > 0),
  );
  const row = page.locator(`tr[data-path="${own.path}"]`);
  for (const shut of plan.module_tree.filter((m) => own.path.startsWith(`${m.path}.`)))
    for (const toggle of await page.locator(`tr[data-path="${shut.path}"] .toggle[aria-expanded=false]`).all())
      await toggle.click();
  if ((await row.locator(".toggle").getAttribute("aria-expanded")) === "false")
    await row.locator(".toggle").click();
  const shown = await page.$$eval("tr.tensor:has(.type)", (rows) =>
    rows.map((tr) => [
      tr.cells[0].textContent,
      ...[".type", ".shape", ".source"].map((one) => tr.querySelector(one).textContent),
    ]),
  );
  const made = own.rows.filter((t) => plan.tensors.made_by[t] >= 0);
  for (const tensor of made.slice(0, 5)) {
    const cells = shown.find((one) => one[0] === plan.tensors.name[tensor]);
    assert.ok(cells, `no row of ${plan.tensors.name[tensor]}`);
    const [type, dims] = plan.tensors.shape[tensor].split("[");
    assert.equal(cells[1], type);
    assert.equal(cells[2], dims.slice(0, -1).replaceAll(",", " \u00d7 "));
    assert.equal(cells[3], plan.sources[plan.ops.source[plan.tensors.made_by[tensor]]]);
  }
  assert.ok(made.some((t) => plan.ops.source[plan.tensors.made_by[t]] > 0));
  assert.deepEqual(
    (await cells("Tensors that the plans", 2)).map(Number),
    report.beside.rows.bytes.slice(0, 15),
  );
  assert.deepEqual(
    (await cells("The front", 0)).map(Number),
    report.front.points.map((p) => p.budget_bytes),
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("hovering tells what is there, clicking follows it", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const [plan] = report.plans;
  const peakRun = plan.curve.steps.indexOf(plan.summary.peak_step);
  const curve = await centre(page, "canvas.curve");
  await page.mouse.move(curve.x, curve.y);
  await page.mouse.move(curve.x + 2, curve.y);
  await drawn(page);
  assert.match(await page.locator("#tip").textContent(), /^step \d+ of \d+, .* present/);
  const map = await centre(page, "canvas.map", 0.5, 0.8);
  await page.mouse.move(map.x, map.y);
  await page.mouse.move(map.x + 1, map.y);
  await drawn(page);
  const told = await page.locator("#tip strong").textContent();
  const tensor = plan.tensors.name.indexOf(told);
  assert.ok(tensor >= 0, `no tensor is called ${told}`);
  assert.ok(
    (await page.locator("#tip").textContent()).includes(exactBytes(plan.tensors.bytes[tensor])),
  );
  await page.mouse.click(map.x + 1, map.y);
  const details = page.locator("#details-body");
  await page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    told,
  );
  assert.ok((await details.textContent()).includes(plan.tensors.shape[tensor]));
  await page.keyboard.press("Escape");
  await page.waitForFunction(
    () => document.querySelector("#details-body h3 .kind").textContent === "At the peak",
  );
  assert.ok(
    (await details.textContent()).includes(plan.ops.name[plan.steps.op[plan.curve.steps[peakRun]]]),
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("steps are counted from 1 everywhere, as the text counts them", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const [plan] = report.plans;
  const all = plan.curve.steps.length;
  const peak = plan.curve.steps.indexOf(plan.summary.peak_step) + 1;
  const facts = page.locator("#details-body");
  assert.ok((await facts.textContent()).includes(`step ${count(peak)} of ${count(all)}`));
  for (const details of await page.locator("#memory details.as-table > summary").all())
    await details.click();
  assert.deepEqual((await cellsOf(page, "Memory in each step", 0)).slice(0, 3), ["1", "2", "3"]);
  const from = (await cellsOf(page, "Stays", 4)).map(Number),
    to = (await cellsOf(page, "Stays", 5)).map(Number);
  assert.ok(from.every((one, i) => one >= 1 && to[i] >= one && to[i] <= all));
  await page.getByText("by step", { exact: true }).click();
  const map = await centre(page, "canvas.map", 0.5, 0.8);
  await page.mouse.move(map.x, map.y);
  await page.mouse.move(map.x + 1, map.y);
  await drawn(page);
  const name = await page.locator("#tip strong").textContent();
  const stay = plan.stays.tensor
    .map((_, i) => i)
    .filter((i) => plan.tensors.name[plan.stays.tensor[i]] === name);
  const tip = await page.locator("#tip").textContent();
  const told = stay.map((i) => {
    const before = (step) => plan.curve.steps.filter((s) => s < step).length;
    return `steps ${count(before(plan.stays.begin[i]) + 1)}\u2013${count(before(plan.stays.end[i]))}`;
  });
  assert.ok(
    told.some((one) => tip.includes(one)),
    `${tip} has none of ${told}`,
  );
  assert.doesNotMatch(await page.locator("main").textContent(), /\brun \d/);
  assert.deepEqual(problems, []);
  await page.close();
});

test("the tip says who makes a tensor, who reads it and how often it runs again; addresses have bytes", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const [plan] = report.plans;
  const runs = (op) => plan.steps.op.filter((one) => one === op).length;
  const seen = { again: 0, read: 0 };
  for (let n = 0; n < 60; ++n) {
    const at = await centre(page, "canvas.map", 0.12 + 0.8 * ((n % 12) / 12), 0.1 + 0.03 * (n % 25));
    await page.mouse.move(at.x, at.y);
    await page.mouse.move(at.x + 1, at.y);
    await drawn(page);
    if (!(await page.locator("#tip").isVisible())) continue;
    const tensor = plan.tensors.name.indexOf(await page.locator("#tip strong").textContent());
    if (tensor < 0) continue;
    const lines = await page.locator("#tip .tip-line").allTextContents();
    const maker = plan.tensors.made_by[tensor];
    const made = maker >= 0 ? plan.ops.name[maker] : "nothing: resident";
    assert.ok(lines.includes(`made by ${made}`), `${made}: ${lines}`);
    const readers = plan.ops.name.filter((_, op) => plan.ops.inputs[op].includes(tensor));
    const read = lines.find((line) => line.startsWith("read by "));
    assert.ok(read.includes(readers[0] ?? "no op"), `${readers}: ${read}`);
    seen.read += readers.length > 0;
    if (maker >= 0 && runs(maker) > 1) {
      const again = runs(maker) - 1;
      assert.ok(lines.includes(`made again: ${again} rerun${again > 1 ? "s" : ""}`), `${lines}`);
      seen.again += 1;
    }
  }
  assert.ok(seen.again > 0 && seen.read > 5, JSON.stringify(seen));
  const at = await centre(page, "canvas.map", 0.5, 0.8);
  await page.mouse.click(at.x, at.y);
  await drawn(page);
  const stays = page.locator("#details-body dt:has-text('stays') + dd li").first();
  const name = await page.locator("#details-body h3 .name").textContent();
  const stay = plan.stays.tensor.findIndex((t) => plan.tensors.name[t] === name);
  const address = plan.stays.address[stay];
  assert.ok(
    (await stays.textContent()).includes(`at address ${mib(address)} (${exactBytes(address)})`),
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("one word for one thing, no line between a number and its unit, a legend of what is there", async () => {
  const { url } = makeReport("compare");
  const { page, problems } = await open(url);
  const text = `${await page.locator("#story").textContent()} ${await page.locator("#summary").textContent()}`;
  assert.doesNotMatch(text, /recomputed/);
  assert.doesNotMatch(text, /\d (MiB|ms|bytes)\b/);
  await page.locator("label", { hasText: /^history$/ }).click();
  await page.waitForFunction(() => /loaded/.test(document.querySelector("#memory-legend").textContent));
  const bar = await page.$eval("#modules .share .fill", (fill) => [
    fill.getBoundingClientRect().left,
    fill.parentElement.getBoundingClientRect().left,
  ]);
  assert.equal(bar[0], bar[1], "bars grow from the left");
  await page.close();
  const still = await open(makeReport("still").url);
  await still.page.locator("label", { hasText: /^history$/ }).click();
  await still.page.waitForFunction(() =>
    /resident/.test(document.querySelector("#memory-legend").textContent),
  );
  assert.doesNotMatch(await still.page.locator("#memory-legend").textContent(), /loaded|again/);
  await still.page.close();
  assert.deepEqual([...problems, ...still.problems], []);
});

test("coloured by module, the map shows each tensor in its module's colour", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url, { colorScheme: "light" });
  const [plan] = report.plans;
  const frames = await page.$eval("canvas.map", (c) => Number(c.dataset.frames));
  await page.locator("label", { hasText: /^module$/ }).first().click();
  await page.waitForFunction(
    (n) => Number(document.querySelector("canvas.map").dataset.frames) > n,
    frames,
  );
  const places = [0.25, 0.5, 0.75].flatMap((x) =>
    [0.1, 0.3, 0.42, 0.5, 0.57, 0.6, 0.75, 0.9].map((y) => [x, y]),
  );
  const pixels = await page.$eval(
    "canvas.map",
    (c, places) => {
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      return places.map(([x, y]) => {
        const at = 4 * (Math.round(c.height * y) * c.width + Math.round(c.width * x));
        return [...data.slice(at, at + 3)];
      });
    },
    places,
  );
  const colours = moduleColours(plan.modules, false);
  const seen = new Set();
  let told = 0;
  let same = 0;
  for (const [i, [x, y]] of places.entries()) {
    const at = await centre(page, "canvas.map", x, y);
    await page.mouse.move(at.x, at.y);
    await page.mouse.move(at.x + 1, at.y);
    await drawn(page);
    if (!(await page.locator("#tip").isVisible())) continue;
    const tensor = plan.tensors.name.indexOf(await page.locator("#tip strong").textContent());
    if (tensor < 0) continue;
    told += 1;
    const { r, g, b } = colours[plan.tensors.module[tensor]];
    if (pixels[i].every((v, k) => Math.abs(v - [r, g, b][k]) <= 2)) {
      same += 1;
      seen.add(`${r} ${g} ${b}`);
    }
  }
  // A few of the places lie on an edge between two tensors.
  assert.ok(told >= 12 && same >= 0.8 * told, `${same} of ${told}`);
  assert.ok(seen.size >= 3, `${seen.size} colours`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("searching finds a moved tensor, which is followed through all its stays and to its op", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  const [plan] = report.plans;
  const tensor = plan.transfers.tensor[plan.transfers.out.lastIndexOf(0)];
  const name = plan.tensors.name[tensor];
  await page.keyboard.press("/");
  await page.keyboard.type(name);
  await page.waitForSelector("#search-list li");
  await page.keyboard.press("ArrowDown");
  await drawn(page);
  const first = await page.locator("#search-list li[aria-selected=true] .kind").textContent();
  if (first !== "tensor")
    await page.locator("#search-list li", { hasText: "tensor" }).first().click();
  else await page.keyboard.press("Enter");
  const facts = page.locator("#details-body");
  await page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    name,
  );
  const stays = plan.stays.tensor.filter((t) => t === tensor).length;
  assert.ok(stays > 1);
  assert.equal(await facts.locator("dt:has-text('stays') + dd > ul > li").count(), stays);
  assert.equal(
    await facts.locator("dt:has-text('moved') + dd > ul > li").count(),
    plan.transfers.tensor.filter((t) => t === tensor).length,
  );
  assert.ok(Number(await page.$eval("canvas.map", (c) => c.dataset.drawn)) > 0);
  const op = plan.tensors.made_by[tensor];
  await facts.locator("dt:has-text('made by') + dd button").click();
  await page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    plan.ops.name[op],
  );
  assert.equal(
    await facts.locator("dt:has-text('reads') + dd > ul > li").count(),
    plan.ops.inputs[op].length,
  );
  await facts.locator("dt:has-text('makes') + dd button").first().click();
  await page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    plan.tensors.name[plan.ops.outputs[op][0]],
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("wheel, drag, keys and buttons change the window; the page still scrolls", async () => {
  const { url } = makeReport("compare");
  const { page, problems } = await open(url);
  await page.locator("canvas.map").scrollIntoViewIfNeeded();
  const map = await centre(page, "canvas.map");
  const whole = await mapWindow(page);
  await page.mouse.move(map.x, map.y);
  await page.mouse.wheel(0, -300);
  await drawn(page);
  assert.deepEqual(await mapWindow(page), whole, "the wheel alone scrolls");
  await page.mouse.move(map.x, map.y);
  await page.keyboard.down("Control");
  const at = await centre(page, "canvas.map");
  await page.mouse.move(at.x, at.y);
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await moved(page, whole);
  const zoomed = await mapWindow(page);
  assert.ok(
    zoomed[1] - zoomed[0] < 0.8 * (whole[1] - whole[0]),
    `${zoomed} is not inside ${whole}`,
  );
  assert.ok(zoomed[3] - zoomed[2] < 0.8 * (whole[3] - whole[2]));
  await page.mouse.down();
  await page.mouse.move(at.x + 120, at.y, { steps: 4 });
  await page.mouse.up();
  await drawn(page);
  const dragged = await mapWindow(page);
  assert.ok(dragged[0] < zoomed[0]);
  assert.ok(Math.abs(dragged[1] - dragged[0] - (zoomed[1] - zoomed[0])) < 1e-9);
  await page.locator("canvas.map").focus();
  await page.keyboard.press("0");
  await drawn(page);
  assert.deepEqual(await mapWindow(page), whole);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  await drawn(page);
  assert.match(await page.locator("#live").textContent(), /MiB/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() =>
    /Tensor|Op/.test(document.querySelector("#details-body h3 .kind").textContent),
  );
  await page.getByRole("button", { name: "Peak: zoom to it" }).click();
  await drawn(page);
  assert.ok((await mapWindow(page))[1] < whole[1] || (await mapWindow(page))[0] > whole[0]);
  await page.getByText("by step", { exact: true }).click();
  await page.getByRole("button", { name: "All: show the whole step" }).click();
  await page.waitForFunction(() =>
    document.querySelector("#axis-name").textContent.startsWith("steps"),
  );
  await page.keyboard.press("?");
  await drawn(page);
  assert.equal(await page.locator("#help").isVisible(), true);
  await page.keyboard.press("Escape");
  await drawn(page);
  assert.equal(await page.locator("#help").isVisible(), false);
  assert.deepEqual(problems, []);
  await page.close();
});

test("two fingers zoom and pan the map, one scrolls the page, a tap follows what is there", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url, {
    viewport: { width: 412, height: 900 },
    hasTouch: true,
    isMobile: true,
  });
  const session = await page.context().newCDPSession(page);
  const map = await centre(page, "canvas.map");
  const whole = await mapWindow(page);
  // Fingers go from their places to others in steps, as a screen tells of them.
  const slide = async (from, to) => {
    const touch = (type, fingers) =>
      session.send("Input.dispatchTouchEvent", {
        type,
        touchPoints: fingers.map(([x, y], id) => ({ x: map.x + x, y: map.y + y, id })),
      });
    await touch("touchStart", from.slice(0, 1));
    if (from.length > 1) await touch("touchStart", from);
    for (let n = 1; n <= 8; ++n)
      await touch(
        "touchMove",
        from.map(([x, y], i) => [x + ((to[i][0] - x) * n) / 8, y + ((to[i][1] - y) * n) / 8]),
      );
    await touch("touchEnd", []);
    await drawn(page);
  };
  const width = ([left, right]) => right - left;
  await slide(
    [
      [-20, 0],
      [20, 0],
    ],
    [
      [-60, 0],
      [60, 0],
    ],
  );
  const near = await mapWindow(page);
  assert.ok(
    Math.abs(width(whole) / width(near) - 3) < 0.15,
    `three times as far apart: ${width(whole) / width(near)}`,
  );
  // What lies under the fingers, in the middle of the canvas, stays there.
  const canvas = await page.$eval("canvas.map", (c) => c.clientWidth);
  const under = (w) => w[0] + (width(w) * (canvas / 2 - MARGIN_LEFT)) / (canvas - MARGIN_LEFT - 10);
  assert.ok(Math.abs(under(near) - under(whole)) < 0.03 * width(whole), "around the fingers");
  await slide(
    [
      [-30, 0],
      [30, 0],
    ],
    [
      [10, 0],
      [70, 0],
    ],
  );
  const panned = await mapWindow(page);
  assert.ok(Math.abs(width(panned) - width(near)) < 0.02 * width(near), "as wide as before");
  assert.ok(panned[0] < near[0], "fingers to the right bring what is on the left");
  const before = await page.evaluate(() => scrollY);
  await slide([[0, 0]], [[0, -120]]);
  await page.waitForFunction((y) => scrollY > y + 40, before);
  assert.deepEqual(await mapWindow(page), panned, "one finger scrolls, the map stays");
  await slide(
    [
      [-60, -120],
      [60, -120],
    ],
    [
      [-20, -120],
      [20, -120],
    ],
  );
  assert.ok(width(await mapWindow(page)) > width(panned), "together again: more of it");
  const spot = await centre(page, "canvas.map", 0.5, 0.8);
  await page.touchscreen.tap(spot.x, spot.y);
  await page.waitForSelector("#details.chosen");
  await drawn(page);
  const told = await page.locator("#details-body h3 .name").textContent();
  assert.ok(report.plans[0].tensors.name.includes(told), `no tensor is called ${told}`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("another plan is shown from the front, the list, and the section beside", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  await page.locator(".front .has-plan:not(.shown)").click();
  const arena = (i) =>
    page.waitForFunction(
      (b) => document.querySelector("[data-fact=arena_bytes] .size")?.dataset.bytes === b,
      String(report.plans[i].summary.arena_bytes),
    );
  await arena(1);
  await page.locator("#plan").selectOption("0");
  await arena(0);
  await page.locator("#beside button", { hasText: `Show ${report.plans[1].file} above` }).click();
  await arena(1);
  assert.ok(report.front.plans_left_out > 1);
  assert.ok(
    (await page.locator(".left-out").textContent()).startsWith(
      `${report.front.plans_left_out} plans of the front`,
    ),
  );
  await page.locator(".front .point:not(.has-plan)").first().click();
  await drawn(page);
  assert.match(await page.locator(".of-point").textContent(), /budget .* left out, as this file/);
  assert.deepEqual(problems, []);
  await page.close();
});

test("axe-core finds nothing serious, in both themes and on a small screen", async () => {
  for (const { kind = "compare", ...options } of [
    { colorScheme: "light" },
    { colorScheme: "light", kind: "long names" },
    { colorScheme: "dark" },
    { colorScheme: "dark", viewport: { width: 360, height: 740 } },
  ]) {
    const { url } = makeReport(kind);
    const { page } = await open(url, { ...options, bypassCSP: true });
    await page.locator("canvas.map").focus();
    for (const key of ["ArrowRight", "ArrowUp", "Enter"]) await page.keyboard.press(key);
    await page.waitForSelector("#details.chosen");
    if (options.colorScheme === "light")
      for (const details of await page.locator("details > summary").all()) await details.click();
    assert.deepEqual(await serious(page), [], JSON.stringify(options));
    await page.close();
  }
});

test("the theme follows the system until the reader chooses, and paper is light", async () => {
  const { url } = makeReport("compare");
  const { page, problems } = await open(url, { colorScheme: "dark" });
  const theme = () => page.getAttribute("html", "data-theme");
  const picture = () => page.locator("canvas.map").screenshot();
  assert.equal(await theme(), "dark");
  const dark = await picture();
  await page.locator("#theme").selectOption("light");
  await drawn(page);
  assert.equal(await theme(), "light");
  assert.equal(dark.equals(await picture()), false, "the canvas is drawn again");
  await page.locator("#theme").selectOption("dark");
  await drawn(page);
  await page.evaluate(
    () =>
      void addEventListener(
        "beforeprint",
        () => void (window.printed = document.documentElement.dataset.theme),
      ),
  );
  assert.ok((await page.pdf()).length > 20000);
  assert.equal(await page.evaluate(() => window.printed), "light");
  assert.equal(await theme(), "dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.locator("#theme").selectOption("auto");
  await drawn(page);
  assert.equal(await theme(), "light");
  assert.deepEqual(problems, []);
  await page.close();
});

test("words with a dotted line and sizes tell more, by pointer and by Tab", async () => {
  const { report, url } = makeReport("compare");
  const { page, problems } = await open(url);
  await page.locator(".numbers .term", { hasText: "floor" }).focus();
  await drawn(page);
  assert.match(await page.locator("#tip").textContent(), /proven to be needed/);
  await page.locator("[data-fact=arena_bytes] .size").hover();
  await drawn(page);
  assert.equal(
    await page.locator("#tip").textContent(),
    exactBytes(report.plans[0].summary.arena_bytes),
  );
  await page.keyboard.press("Escape");
  await drawn(page);
  assert.equal(await page.locator("#tip").isVisible(), false);
  assert.deepEqual(problems, []);
  await page.close();
});

for (const width of [360, 1200])
  test(`nothing is wider than a screen of ${width} pixels, and no label lies over another`, async () => {
    const { url } = makeReport("compare");
    const { page } = await open(url, { viewport: { width, height: 740 } });
    const [wide, shown] = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      innerWidth,
    ]);
    assert.ok(wide <= shown, `the page is ${wide} pixels wide, the screen ${shown}`);
    const labels = await page.$eval("canvas.curve", (c) => JSON.parse(c.dataset.labels));
    assert.ok(labels.length >= 5, `${labels.length} labels`);
    for (const [i, a] of labels.entries())
      for (const b of labels.slice(0, i)) assert.ok(!meet(a, b), JSON.stringify([a, b]));
    await page.close();
  });

test("names with HTML are shown and not run", async () => {
  const { url } = makeReport("html");
  const { page, problems } = await open(url);
  await page.keyboard.press("/");
  await page.keyboard.type("onerror");
  await page.waitForSelector("#search-list li");
  await page.locator("#search-list li", { hasText: "tensor" }).first().click();
  await page.waitForFunction(
    (n) => document.querySelector("#details-body h3 .name")?.textContent === n,
    HTML_NAME,
  );
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("h1").textContent(), HTML_NAME);
  assert.equal(await page.title(), `${HTML_NAME}: Lowtide report`);
  assert.deepEqual(problems, []);
  await page.close();
});

test("an unverified plan says so at the top, with its findings", async () => {
  const { report, url } = makeReport("unverified");
  const { page, problems } = await open(url);
  const banner = await page.locator("#banner [role=alert]").textContent();
  assert.match(banner, /not verified/);
  for (const finding of report.findings) assert.ok(banner.includes(finding));
  assert.match(banner, /^This plan is not verified/);
  assert.equal(await page.locator(".badge").count(), 0);
  assert.deepEqual(problems, []);
  const beside = await open(makeReport("unverified beside").url);
  const told = await beside.page.locator("#banner [role=alert] strong").textContent();
  assert.match(told, /^made-up-tight\.lt, in this report too, is not verified/);
  assert.equal(await beside.page.locator(".badge").count(), 1, "the first plan is verified");
  await beside.page.locator("#plan").selectOption("1");
  await beside.page.waitForFunction(() => /^This plan, made-up-tight/.test(document.querySelector("#banner strong").textContent));
  assert.equal(await beside.page.locator(".badge").count(), 0);
  await beside.page.close();
  await page.close();
});

test("the address map of 100,000 stays zooms and pans above 30 frames a second", async () => {
  const { report, url } = makeReport("large");
  assert.ok(
    report.plans[0].stays.tensor.length >= 100000,
    `${report.plans[0].stays.tensor.length} stays`,
  );
  const { page, problems, milliseconds } = await open(url);
  const map = await centre(page, "canvas.map", 0.4, 0.6);
  await page.mouse.click(map.x, map.y);
  await page.keyboard.press("Escape");
  await page.locator("canvas.map").focus();
  // A round above the limit is enough, as other programs may have the processor in the others.
  const round = () =>
    page.evaluate(async () => {
      const canvas = document.querySelector("canvas.map"),
        box = canvas.getBoundingClientRect();
      const next = () => new Promise((done) => requestAnimationFrame(done));
      await next();
      const before = Number(canvas.dataset.frames),
        began = performance.now();
      const at = { x: box.left + box.width * 0.4, y: box.top + box.height * 0.6 };
      const pointer = (type, target, by) =>
        target.dispatchEvent(
          new MouseEvent(type, {
            clientX: at.x + by,
            clientY: at.y,
            buttons: type === "mouseup" ? 0 : 1,
            bubbles: true,
            cancelable: true,
            view: window,
          }),
        );
      const times = [];
      for (let n = 0; n < 90; ++n) {
        times.push(performance.now());
        // In, to and fro, and out again, around a place that is full.
        if (n >= 30 && n < 60) {
          if (n === 30) pointer("mousedown", canvas, 0);
          pointer("mousemove", window, 150 * Math.sin(n - 29));
          if (n === 59) pointer("mouseup", window, 0);
          await next();
          continue;
        }
        canvas.dispatchEvent(
          new WheelEvent("wheel", {
            deltaY: n < 30 ? -60 : 60,
            ctrlKey: true,
            clientX: at.x,
            clientY: at.y,
            bubbles: true,
            cancelable: true,
          }),
        );
        await next();
      }
      return {
        drawn: Number(canvas.dataset.frames) - before,
        seconds: (performance.now() - began) / 1000,
        panning: (times[60] - times[30]) / 1000,
      };
    });
  const rounds = [await round()];
  const rate = (r) => Math.min(30 / r.panning, (r.drawn - 30) / (r.seconds - r.panning));
  for (let n = 0; n < 6 && rate(rounds.at(-1)) <= FRAMES_PER_SECOND; ++n) {
    await page.waitForTimeout(500 * n);
    rounds.push(await round());
  }
  const rates = rounds.map(rate);
  const told = `${rates.map((r) => r.toFixed(0)).join(", ")} frames a second`;
  console.log(
    `# ${count(report.plans[0].stays.tensor.length)} stays: opened in ${Math.round(milliseconds)} ms; ${told}`,
  );
  assert.ok(
    rounds.every((r) => r.drawn >= 84),
    `each turn of the wheel and each move is drawn: ${rounds.map((r) => r.drawn)}`,
  );
  // Where others had the processor in all rounds, what the page itself took of it decides.
  if (Math.max(...rates) <= FRAMES_PER_SECOND && busy()) {
    const before = await processorSeconds(page),
      { drawn } = await round();
    const frame = ((await processorSeconds(page)) - before) / drawn;
    console.log(
      `# the machine is busy: a frame takes ${(frame * 1000).toFixed(1)} ms of the processor`,
    );
    assert.ok(
      frame < 1 / FRAMES_PER_SECOND,
      `${told}; ${(frame * 1000).toFixed(1)} ms of the processor for each`,
    );
  } else {
    assert.ok(Math.max(...rates) > FRAMES_PER_SECOND, told);
  }
  assert.deepEqual(problems, []);
  await page.close();
});
