// Labels take places that no other has, and rather such as no line crosses.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crosses } from "../src/curve_view.ts";
import { fitText } from "../src/frame.ts";
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
  const hides = (place: Box) => place.top < 50;
  assert.deepEqual(takePlace([box(60, 0), box(60, 60)], taken, [65], hides), box(60, 60));
  assert.deepEqual(takePlace([box(80, 0)], taken, [], hides), box(80, 0));
});

test("a line goes through a box where it passes it, its steps up and down included", () => {
  const line: [number, number][] = [
    [0, 50],
    [20, 50],
    [20, 5],
    [40, 5],
  ];
  assert.ok(crosses(line, { left: 5, right: 10, top: 45, bottom: 55 }));
  assert.ok(crosses(line, { left: 15, right: 25, top: 20, bottom: 30 }));
  assert.ok(!crosses(line, { left: 25, right: 35, top: 20, bottom: 30 }));
  assert.ok(!crosses(line, { left: 2, right: 10, top: 20, bottom: 30 }));
});

test("names in rectangles are shortened in the middle, or left out where little would be seen", () => {
  const context = { measureText: (text: string) => ({ width: text.length * 6 }) };
  const fitted = (text: string, width: number) =>
    fitText(context as unknown as CanvasRenderingContext2D, text, width);
  assert.equal(fitted("relu_21", 60), "relu_21");
  assert.equal(fitted("node_add_17/ReduceSum", 40), "");
  assert.equal(fitted("relu_21", 20), "");
  assert.equal(fitted("node_add_17/ReduceSum/part3", 13 * 6.2), "node_a\u2026/part3");
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
