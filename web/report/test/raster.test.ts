// The raster against its definition: each pixel has the colour of a rectangle that covers it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fillRectangles, makeRaster } from "../src/raster.ts";
import { draws } from "./draw.ts";

function sources(list: [number, number, number, number][]) {
  const column = (k: number) => Float64Array.from(list, (r) => r[k]);
  return { begin: column(0), end: column(1), low: column(2), high: column(3) };
}

const numbers = (n: number) => Uint32Array.from({ length: n }, (_, i) => i + 1);

test("address 0 is at the bottom", () => {
  const raster = makeRaster(2, 2);
  fillRectangles(
    raster,
    { x: { low: 0, high: 2 }, y: { low: 0, high: 2 } },
    sources([
      [0, 1, 0, 1],
      [1, 2, 1, 2],
    ]),
    [0, 1],
    numbers(2),
    numbers(2),
  );
  assert.deepEqual([...raster.pixels], [0, 2, 1, 0]);
});

test("large rectangles have an edge at their right and upper side", () => {
  const raster = makeRaster(8, 8);
  fillRectangles(
    raster,
    { x: { low: 0, high: 8 }, y: { low: 0, high: 8 } },
    sources([[0, 8, 0, 8]]),
    [0],
    Uint32Array.of(5),
    Uint32Array.of(9),
  );
  assert.equal(raster.pixels[0], 9);
  assert.equal(raster.pixels[8 * 3 + 7], 9);
  assert.equal(raster.pixels[8 * 3 + 3], 5);
  assert.equal(raster.pixels[8 * 7], 5);
});

test("what is smaller than a pixel is seen, and what is outside is not drawn", () => {
  const raster = makeRaster(10, 10);
  const window = { x: { low: 0, high: 1000 }, y: { low: 0, high: 1000 } };
  const drawn = fillRectangles(
    raster,
    window,
    sources([
      [500, 501, 500, 501],
      [2000, 3000, 0, 10],
      [0, 10, 2000, 2010],
    ]),
    [0, 1, 2],
    numbers(3),
    numbers(3),
  );
  assert.equal(drawn, 1);
  assert.deepEqual(
    [...raster.pixels].filter((p) => p !== 0),
    [1],
  );
});

test("a pixel's middle has the colour of the rectangle that covers it, whatever is drawn", () => {
  for (let seed = 1; seed <= 200; ++seed) {
    const draw = draws(seed);
    // Cells of a grid, so that they do not overlap; each at least two pixels large.
    const list: [number, number, number, number][] = [];
    for (let x = 0; x < 6; ++x)
      for (let y = 0; y < 6; ++y)
        if (draw() < 0.6) list.push([x * 10, x * 10 + 10, y * 10, y * 10 + 10]);
    const low = { x: draw() * 30, y: draw() * 30 };
    const window = { x: { low: low.x, high: low.x + 30 }, y: { low: low.y, high: low.y + 30 } };
    const size = 30 + Math.floor(draw() * 40);
    const raster = makeRaster(size, size);
    fillRectangles(
      raster,
      window,
      sources(list),
      list.map((_, i) => i),
      numbers(list.length),
      numbers(list.length),
    );
    for (let px = 0; px < size; ++px) {
      for (let py = 0; py < size; ++py) {
        const x = low.x + ((px + 0.5) / size) * 30,
          y = low.y + ((size - py - 0.5) / size) * 30;
        const edge = 30 / size; // within a pixel of a border either side may be right
        const near = (v: number) => Math.abs(v / 10 - Math.round(v / 10)) * 10 < edge;
        if (near(x) || near(y)) continue;
        const want = list.findIndex((r) => r[0] <= x && x < r[1] && r[2] <= y && y < r[3]) + 1;
        assert.equal(raster.pixels[py * size + px], want, `seed ${seed}, pixel ${px} ${py}`);
      }
    }
  }
});
