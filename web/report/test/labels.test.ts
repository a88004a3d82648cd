// Labels take places that no other has, and rather such as no line crosses.
import assert from "node:assert/strict";
import { test } from "node:test";
import { meet, takePlace, type Box } from "../src/labels.ts";
import { draws } from "./draw.ts";

const box = (left: number, top: number): Box => ({
  left,
  top,
  right: left + 10,
  bottom: top + 10,
});

test("a label takes its first free place, and one off the lines if there is one", () => {
  const taken = [box(0, 0)];
  assert.deepEqual(takePlace([box(5, 5), box(10, 0), box(20, 0)], taken), box(10, 0));
  assert.deepEqual(takePlace([box(20, 0), box(20, 20)], taken, [5]), box(20, 20));
  assert.deepEqual(takePlace([box(40, 0)], taken, [5]), box(40, 0), "rather crossed than left out");
  assert.equal(takePlace([box(1, 1), box(12, 2)], taken), null);
  assert.equal(taken.length, 4);
});

test("no two labels meet, whatever their places", () => {
  for (let seed = 1; seed <= 50; ++seed) {
    const draw = draws(seed);
    const taken: Box[] = [];
    for (let n = 0; n < 12; ++n)
      takePlace(
        Array.from({ length: 4 }, () => box(draw() * 60, draw() * 60)),
        taken,
        [30],
      );
    for (const [i, a] of taken.entries())
      for (const b of taken.slice(0, i)) assert.ok(!meet(a, b), `seed ${seed}`);
  }
});
