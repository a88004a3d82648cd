// Zooming keeps the point under the pointer, and no gesture leaves the full range.
import assert from "node:assert/strict";
import { test } from "node:test";
import { around, clampSpan, panSpan, zoomSpan } from "../src/window.ts";
import { draws } from "./draw.ts";

test("zooming in keeps the fixed point", () => {
  const span = zoomSpan({ low: 0, high: 100 }, 2, 0.25, 100, 1);
  assert.deepEqual(span, { low: 12.5, high: 62.5 });
});

test("zooming out ends at the whole, zooming in at the least", () => {
  assert.deepEqual(zoomSpan({ low: 40, high: 60 }, 0.001, 0.5, 100, 1), { low: 0, high: 100 });
  const least = zoomSpan({ low: 40, high: 60 }, 1e9, 0.5, 100, 1);
  assert.ok(Math.abs(least.high - least.low - 1) < 1e-9);
});

test("panning stops at the ends", () => {
  assert.deepEqual(panSpan({ low: 10, high: 20 }, -50, 100), { low: 0, high: 10 });
  assert.deepEqual(panSpan({ low: 10, high: 20 }, 500, 100), { low: 90, high: 100 });
});

test("a span with a margin stays inside", () => {
  assert.deepEqual(around({ low: 0, high: 10 }, 0.5, 100, 1), { low: 0, high: 15 });
  assert.deepEqual(clampSpan({ low: 5, high: 5 }, 100, 2), { low: 4, high: 6 });
});

test("any sequence of gestures stays inside", () => {
  for (let seed = 1; seed <= 200; ++seed) {
    const draw = draws(seed);
    let span = { low: 0, high: 100 };
    for (let n = 0; n < 40; ++n) {
      span =
        draw() < 0.5
          ? zoomSpan(span, Math.exp((draw() - 0.5) * 4), draw(), 100, 0.5)
          : panSpan(span, (draw() - 0.5) * 90, 100);
      assert.ok(
        span.low >= -1e-9 && span.high <= 100 + 1e-9 && span.high - span.low >= 0.5 - 1e-9,
        `seed ${seed}: ${span.low} ${span.high}`,
      );
    }
  }
});
