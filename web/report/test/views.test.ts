// Folding, search, differences of plans, worth of actions, sorting, palette: what needs no page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { worth } from "../src/actions_view.ts";
import { differences, totalsOf } from "../src/beside.ts";
import { parseReport } from "../src/data.ts";
import { MIB } from "../src/format.ts";
import { frontScales } from "../src/front_view.ts";
import { foldEqual, moduleTree } from "../src/modules.ts";
import { categoryColours, contrast, inkOn, moduleColours, moduleGroup, parseHex, stackOrder } from "../src/palette.ts";
import { makeNames, search } from "../src/search.ts";
import { sortRows } from "../src/table.ts";
import { generatePlan, generateReport, SMALL } from "../testing/generate.ts";

const row = (path: string, bytes: number, policy = "kept") => ({ path, bytes_at_peak: bytes, paid_seconds: 0.001, policy, rows: [1] });

test("equal layers are folded, others are not", () => {
  const tree = foldEqual(moduleTree([row("h.0.attn", 5), row("h.0.mlp", 7), row("h.1.attn", 5), row("h.1.mlp", 7), row("h.2.attn", 5), row("h.2.mlp", 8), row("head", 3)]));
  assert.deepEqual(tree.children.map((c) => c.name), ["h", "head"]);
  const h = tree.children[0];
  assert.deepEqual(h.children.map((c) => [c.name, c.times, c.bytes]), [["0\u20131", 2, 12], ["2", 1, 13]]);
  assert.equal(h.bytes, 37);
  assert.equal(tree.bytes, 40);
  assert.deepEqual(h.children[0].children.map((c) => c.name), ["attn", "mlp"]);
});

test("the policies of what lies below are a module's own, and rows that say times count so often", () => {
  const tree = moduleTree([row("a.b", 1, "moved"), row("a.c", 2), { ...row("x", 10), times: 4 }]);
  assert.deepEqual(tree.children[0].policies.sort(), ["kept", "moved"]);
  assert.equal(tree.bytes, 43);
});

test("search takes all words, in any case, and puts what begins with them first", () => {
  const names = makeNames(generatePlan(SMALL));
  const found = search(names, "MATMUL 13", 5);
  assert.ok(found.total > 5);
  assert.equal(found.hits.length, 5);
  assert.ok(found.hits.every((hit) => /matmul/i.test(hit.name) && hit.name.includes("13")));
  assert.equal(search(names, "matmul_13", 3).hits[0].name.toLowerCase(), "matmul_13");
  assert.equal(search(names, "no such name", 3).total, 0);
  assert.equal(search(names, "   ", 3).total, 0);
});

test("plans differ in what they make again and move", () => {
  const report = generateReport(SMALL, true);
  const [here, there] = report.plans;
  const rows = differences(here, there);
  assert.ok(rows.length > 0);
  for (const r of rows) assert.notEqual(r.here, r.there);
  assert.deepEqual(differences(here, here), []);
  const totals = totalsOf(here);
  assert.equal(totals.reruns, here.steps.run.filter((run) => run > 0).length);
  assert.equal(totals.moved, here.transfers.out.filter((out) => out === 1).length);
});

test("actions are worth MiB per millisecond", () => {
  assert.equal(worth({ bytes: 10 * MIB, seconds: 0.002 }), 5);
  assert.equal(worth({ bytes: MIB, seconds: 0 }), Infinity);
  assert.equal(worth({ bytes: 0, seconds: 0 }), 0);
});

test("sorting keeps equal rows in order, both ways", () => {
  const column = { name: "v", key: "v", cell: String, value: (r: { v: number; n: number }) => r.v };
  const rows = [{ v: 1, n: 0 }, { v: 2, n: 1 }, { v: 1, n: 2 }];
  assert.deepEqual(sortRows(rows, column, false).map((r) => r.n), [0, 2, 1]);
  assert.deepEqual(sortRows(rows, column, true).map((r) => r.n), [1, 0, 2]);
  assert.deepEqual(sortRows(rows, undefined, true), rows);
});

test("the front's scales hold all points, and grow with their numbers", () => {
  const { points } = generateReport(SMALL, false, true).front!;
  const { x, y } = frontScales(points, 700);
  for (const p of points) {
    assert.ok(x(p.arena_bytes) >= 62 && x(p.arena_bytes) <= 680);
    assert.ok(y(p.seconds) >= 22 && y(p.bound_seconds) <= 296);
  }
  assert.ok(x(points[0].arena_bytes) > x(points[9].arena_bytes));
});

test("text on each colour is readable, and neighbouring groups of modules differ", () => {
  for (const dark of [false, true]) {
    for (const colour of categoryColours(["parameter", "optimizer_state", "gradient", "activation", "temporary", "workspace", "input"], dark)) {
      const [r, g, b] = inkOn(colour).match(/\d+/g)!.map(Number);
      assert.ok(contrast(colour, { r, g, b }) >= 4.5);
    }
    const colours = moduleColours(["h.0.a", "h.0.b", "h.1.a"], dark);
    assert.deepEqual(colours[0], colours[1]);
    assert.notDeepEqual(colours[1], colours[2]);
  }
  assert.equal(moduleGroup("h.3.attn.q"), "h.3");
  assert.equal(moduleGroup("wte"), "wte");
  assert.deepEqual(parseHex("#0072b2"), { r: 0, g: 0x72, b: 0xb2 });
  assert.deepEqual(stackOrder(["temporary", "parameter", "other"]), [1, 0, 2]);
});

test("a file that is no report is refused by what is wrong", () => {
  assert.throws(() => parseReport("{}"), /format is undefined/);
  assert.throws(() => parseReport('{"format":"lowtide-report","version":9}'), /version is 9/);
  const report = generateReport(SMALL);
  report.plans[0].stays.end.pop();
  assert.throws(() => parseReport(JSON.stringify(report)), /plans\[0\]\.stays\.end has \d+ entries/);
});

test("the generator gives the same bytes for the same options", () => {
  assert.equal(JSON.stringify(generateReport(SMALL)), JSON.stringify(generateReport(SMALL)));
});
