// The curve's level of detail loses no peak and covers every pixel of the runs once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeColumns } from "../src/columns.ts";
import { draws } from "./draw.ts";

test("runs wider than a pixel are all drawn", () => {
  const columns = makeColumns([0, 1, 2], 3, [5, 7, 6], 0, 3, 30);
  assert.deepEqual(columns, [
    { x0: 0, x1: 10, run: 0 },
    { x0: 10, x1: 20, run: 1 },
    { x0: 20, x1: 30, run: 2 },
  ]);
});

test("of many runs in a pixel the fullest is drawn", () => {
  const begin = Array.from({ length: 1000 }, (_, i) => i);
  const values = begin.map((i) => (i === 517 ? 99 : i % 7));
  const columns = makeColumns(begin, 1000, values, 0, 1000, 10);
  assert.equal(columns.length, 10);
  assert.equal(columns[5].run, 517);
});

test("nothing is drawn of an empty curve or without room", () => {
  assert.deepEqual(makeColumns([], 0, [], 0, 1, 100), []);
  assert.deepEqual(makeColumns([0], 1, [1], 0, 1, 0), []);
});

test("columns ascend, do not overlap and hold the most of the window, whatever is drawn", () => {
  for (let seed = 1; seed <= 300; ++seed) {
    const draw = draws(seed);
    const runs = 1 + Math.floor(draw() * 200);
    let at = 0;
    const begin = Array.from({ length: runs }, () => (at += draw() < 0.2 ? 0 : draw()) - 0);
    const end = at + draw() + 1e-6;
    const values = begin.map(() => Math.floor(draw() * 1000));
    const low = draw() * end * 0.5,
      high = low + (end - low) * (0.05 + 0.95 * draw());
    const width = 1 + Math.floor(draw() * 80);
    const columns = makeColumns(begin, end, values, low, high, width);
    columns.forEach((c, i) => {
      assert.ok(c.x1 >= c.x0, `seed ${seed}: column ${i} is turned round`);
      if (i > 0) assert.ok(c.x0 >= columns[i - 1].x1 - 1e-6, `seed ${seed}: column ${i} overlaps`);
    });
    const inside = values.filter((_, r) => begin[r] > low && begin[r] < high);
    if (inside.length === 0) continue;
    const most = Math.max(...inside);
    assert.ok(
      columns.some((c) => values[c.run] >= most),
      `seed ${seed}: the peak ${most} is lost`,
    );
  }
});
