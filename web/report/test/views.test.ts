// Folding, search, differences of plans, worth of actions, sorting, palette: what needs no page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { worth } from "../src/actions_view.ts";
import { boundsAreOf } from "../src/bounds.ts";
import { parseReport } from "../src/data.ts";
import { MIB } from "../src/format.ts";
import { frontPaths, frontScales, pointText, reachedOf, whyAbsent } from "../src/front_view.ts";
import { unverifiedFiles } from "../src/header_view.ts";
import { partsOf, shortened, shownName } from "../src/names.ts";
import { foldedName, moduleNodes, nameBelow } from "../src/modules.ts";
import {
  categoryColours,
  contrast,
  historyColours,
  inkOn,
  moduleColours,
  moduleGroup,
  parseHex,
  stackOrder,
  type Rgb,
} from "../src/palette.ts";
import { makeNames, search } from "../src/search.ts";
import { sortRows } from "../src/table.ts";
import { generatePlan, generateReport, SMALL } from "../testing/generate.ts";

test("the module tree has the columns' nodes under their parents, folded ones named by range", () => {
  const row = (path: string, parent: number, paths = [path]) => ({
    path,
    parent,
    times: paths.length,
    paths,
    bytes: 1,
    bytes_at_peak: 1,
    paid_seconds: 0,
    seconds: 0,
    policy: "kept",
    rows: [],
  });
  const top = moduleNodes([
    row("", -1),
    row("h", 0),
    row("h.0", 1, ["h.0", "h.1"]),
    row("h.0.attn", 2, ["h.0.attn", "h.1.attn"]),
    row("h.2", 1),
    row("head", 0),
  ]);
  assert.deepEqual(
    top.map((node) => node.name),
    ["h", "head"],
  );
  assert.deepEqual(
    top[0].children.map((node) => [node.name, node.index]),
    [
      ["0\u20131", 2],
      ["2", 4],
    ],
  );
  assert.deepEqual(
    top[0].children[0].children.map((node) => node.row.path),
    ["h.0.attn"],
  );
  assert.equal(nameBelow("layer1/0/conv", "layer1"), "0/conv");
  assert.equal(foldedName("3", ["h.3", "h.4.x7"]), "3\u20137");
});

test("search takes all words, in any case, and puts what begins with them first", () => {
  const names = makeNames(generatePlan(SMALL));
  const found = search(names, "MATMUL 13", 5);
  assert.ok(found.total > 5);
  assert.equal(found.hits.length, 5);
  assert.ok(found.hits.every((hit) => /matmul/i.test(hit.name) && hit.name.includes("13")));
  assert.equal(search(names, "matmul_13", 3).hits[0].name.toLowerCase(), "matmul_13");
  assert.equal(
    search(names, "softmax_3.view", 3).hits[0].name,
    "softmax_3",
    "a view's name leads to its tensor",
  );
  assert.equal(search(names, "no such name", 3).total, 0);
  assert.equal(search(names, "   ", 3).total, 0);
});

test("actions are worth MiB per millisecond", () => {
  assert.equal(worth({ bytes: 10 * MIB, seconds: 0.002 }), 5);
  assert.equal(worth({ bytes: MIB, seconds: 0 }), Infinity);
  assert.equal(worth({ bytes: 0, seconds: 0 }), 0);
  assert.equal(worth({ bytes: null, seconds: 1 }), -1);
});

test("each bound says which schedules it speaks of", () => {
  const { summary } = generatePlan(SMALL);
  const of = (given: object) => boundsAreOf({ ...summary, ...given });
  assert.equal(of({ ops_in_parts: 0 }), "in one part");
  assert.equal(of({ ops_in_parts: 3 }), "in these parts");
  assert.equal(of({ ops_in_parts: 3, bounds_are_of: "in one part" }), "in one part");
  const [point] = reachedOf(generateReport(SMALL, false, true).front!.points);
  const told = (split: string | null) => pointText({ ...point, bound_seconds: 1, split });
  assert.match(told("1"), /no schedule in one part within the budget below 1.00\u00a0s/);
  assert.match(told(null), /no schedule in one part within/);
  assert.match(told("batch=4"), /no schedule in these parts within/);
});

test("sorting keeps equal rows in order, both ways", () => {
  const column = { name: "v", key: "v", cell: String, value: (r: { v: number; n: number }) => r.v };
  const rows = [
    { v: 1, n: 0 },
    { v: 2, n: 1 },
    { v: 1, n: 2 },
  ];
  assert.deepEqual(
    sortRows(rows, column, false).map((r) => r.n),
    [0, 2, 1],
  );
  assert.deepEqual(
    sortRows(rows, column, true).map((r) => r.n),
    [1, 0, 2],
  );
  assert.deepEqual(sortRows(rows, undefined, true), rows);
});

test("the front's scales hold all points, and grow with their numbers", () => {
  const all = generateReport(SMALL, false, true).front!.points;
  const points = reachedOf(all);
  assert.equal(points.length, all.length - 1, "the budget without a plan is left out");
  const { x, y } = frontScales(points, 700);
  for (const p of points) {
    assert.ok(x(p.arena_bytes) >= 62 && x(p.arena_bytes) <= 680);
    assert.ok(y(p.seconds) >= 22 && y(p.bound_seconds!) <= 296);
  }
  assert.ok(x(points[0].arena_bytes) < x(points[8].arena_bytes));
  const paths = frontPaths(points, frontScales(points, 700));
  assert.match(
    paths.reached,
    /^M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+$/,
    "a plan serves larger memories until the next",
  );
  assert.match(
    paths.bound,
    /^M[\d.]+ [\d.]+(V[\d.]+H[\d.]+)+$/,
    "a bound holds for smaller memories",
  );
});

test("text on each colour is readable, and neighbouring groups of modules differ", () => {
  for (const dark of [false, true]) {
    for (const colour of categoryColours(
      ["parameter", "optimizer_state", "gradient", "activation", "temporary", "workspace", "input"],
      dark,
    )) {
      const [r, g, b] = inkOn(colour).match(/\d+/g)!.map(Number);
      assert.ok(contrast(colour, { r, g, b }) >= 4.5);
    }
    const colours = moduleColours(["h.0.a", "h.0.b", "h.1.a"], dark);
    assert.deepEqual(colours[0], colours[1]);
    assert.notDeepEqual(colours[1], colours[2]);
  }
  assert.equal(moduleGroup("h.3.attn.q"), "h.3");
  assert.equal(moduleGroup("layer3.3.conv2"), "layer3.3");
  assert.equal(moduleGroup("conv1"), "conv1");
  assert.equal(moduleGroup("wte"), "wte");
  assert.deepEqual(parseHex("#0072b2"), { r: 0, g: 0x72, b: 0xb2 });
  assert.deepEqual(stackOrder(["temporary", "parameter", "other"]), [1, 0, 2]);
});

// What people with each of the common kinds of colour blindness see: Machado, Oliveira and Fernandes
// 2009, full severity, on linear RGB.
const BLINDNESS: Record<string, number[][]> = {
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

// A colour as it is seen, in CIE Lab (D65).
function seen({ r, g, b }: Rgb, matrix: number[][]): number[] {
  const linear = [r, g, b].map((v) => {
    const share = v / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const times = (rows: number[][], v: number[]) =>
    rows.map((row) => row.reduce((sum, x, i) => sum + x * v[i], 0));
  const shown = times(matrix, linear).map((v) => Math.min(1, Math.max(0, v)));
  const [x, y, z] = times(
    [
      [0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047],
      [0.2126, 0.7152, 0.0722],
      [0.0193 / 1.08883, 0.1192 / 1.08883, 0.9505 / 1.08883],
    ],
    shown,
  ).map((t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("colours are apart for people with each of the common kinds of colour blindness", () => {
  const categories = generatePlan(SMALL).categories;
  const apart = (colours: Rgb[], names: readonly string[], least: number) => {
    for (const [kind, matrix] of Object.entries(BLINDNESS))
      for (const [i, a] of colours.entries())
        for (const [k, b] of colours.slice(0, i).entries()) {
          const other = seen(b, matrix);
          const distance = Math.hypot(...seen(a, matrix).map((v, n) => v - other[n]));
          assert.ok(distance >= least, `${kind}: ${names[i]}, ${names[k]}: ${distance.toFixed(1)}`);
        }
  };
  for (const dark of [false, true]) {
    apart(categoryColours(categories, dark), categories, 12); // any two can touch in the map
    apart(historyColours(dark), ["made", "made again", "loaded", "resident"], 12);
  }
});

test("long names are shortened in the middle, and break behind dots and slashes", () => {
  assert.deepEqual(partsOf("adam_m/transformer.h.0"), ["adam_m/", "transformer.", "h.", "0"]);
  assert.deepEqual(partsOf("../x"), ["../", "x"]);
  assert.equal(partsOf("a.b//c").join(""), "a.b//c");
  assert.equal(shortened("transformer", 20), "transformer");
  assert.equal(shortened("node_add_17/ReduceSum/part3", 13), "node_a\u2026/part3");
  for (let letters = 1; letters < 120; ++letters) {
    const name = "abcdefghij".repeat(12).slice(0, letters);
    assert.ok(shownName(name).length <= 26);
    assert.ok(shownName(`${name}/${name}.${name}`).length <= 44);
  }
  assert.equal(shownName("transformer.h.10.attn.c_attn.weight"), "transformer.h.10.attn.c_attn.weight");
});

test("a point whose plan is absent says why, as far as the data knows", () => {
  const { front } = generateReport(SMALL, false, true);
  const absent = front!.points.filter((p) => p.found && p.plan < 0).length;
  const of = (plans_left_out: number) => whyAbsent({ ...front!, plans_left_out });
  assert.match(of(0), /sweep --plans writes it/);
  assert.match(of(absent), /left out, as this file would have been larger/);
  assert.match(of(1), /left out for the size of this file, or was not written/);
});

test("findings say which plan fails", () => {
  const report = generateReport(SMALL, true);
  const [one, two] = report.plans.map((plan) => plan.file);
  const of = (findings: string[]) => unverifiedFiles({ ...report, findings });
  assert.deepEqual(of([`${two}: peak`, `a/${two}: floor`]), [two]);
  assert.deepEqual(of([`${one}: peak`, `/x/${two}: floor`]), [one, two]);
  assert.deepEqual(of(["peak of nobody", `${two}: peak`]), [], "one that names none may be of any");
});

test("a file that is no report is refused by what is wrong", () => {
  assert.throws(() => parseReport("{}"), /format is undefined/);
  assert.throws(() => parseReport('{"format":"lowtide-report","version":9}'), /version is 9/);
  const report = generateReport(SMALL);
  report.plans[0].stays.end.pop();
  assert.throws(
    () => parseReport(JSON.stringify(report)),
    /plans\[0\]\.stays\.end has \d+ entries/,
  );
});

test("the generator gives the same bytes for the same options", () => {
  assert.equal(JSON.stringify(generateReport(SMALL)), JSON.stringify(generateReport(SMALL)));
});
