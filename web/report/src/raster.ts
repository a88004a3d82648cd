// Fills rectangles into a buffer of pixels, which is what keeps the address map smooth: stays do not
// overlap, so a picture costs at most its own area plus one visit per rectangle, however many there
// are. Level of detail comes with it: what is smaller than a pixel costs one write. Rectangles are
// to be given smallest first, so that of many in one pixel the largest is seen.
//
// Rows are addresses, highest on top. Rectangles large enough get an edge of one pixel, lighter than
// they are, at their right and upper side, so that neighbours can be told apart.

import type { Window } from "./window.ts";

export interface Raster {
  width: number; // in pixels
  height: number;
  pixels: Uint32Array; // row by row, ABGR as a canvas's ImageData has it
}

export interface Sources {
  begin: Float64Array;
  end: Float64Array;
  low: Float64Array;
  high: Float64Array;
}

const EDGE_FROM = 4; // pixels: smaller rectangles have no edge on that side

export function makeRaster(width: number, height: number): Raster {
  return { width, height, pixels: new Uint32Array(width * height) };
}

// Draws the rectangles that `order` lists (null: all, as they stand, which the processor's cache likes
// best), each in colours[i] with its edge in edges[i];
// returns how many are in the window.
export function fillRectangles(
  raster: Raster,
  window: Window,
  sources: Sources,
  order: ArrayLike<number> | null,
  colours: Uint32Array,
  edges: Uint32Array,
): number {
  const { width, height, pixels } = raster;
  const { begin, end, low, high } = sources;
  const x0 = window.x.low,
    x1 = window.x.high,
    y0 = window.y.low,
    y1 = window.y.high;
  const kx = width / (x1 - x0),
    ky = height / (y1 - y0);
  let drawn = 0;
  const count = order ? order.length : begin.length;
  for (let n = 0; n < count; ++n) {
    const i = order ? order[n] : n;
    if (begin[i] >= x1 || end[i] < x0 || low[i] >= y1 || high[i] <= y0) continue;
    ++drawn;
    let left = Math.floor((begin[i] - x0) * kx),
      right = Math.floor((end[i] - x0) * kx);
    let top = height - Math.floor((high[i] - y0) * ky),
      bottom = height - Math.floor((low[i] - y0) * ky);
    const edgeRight = right - left >= EDGE_FROM && right <= width,
      edgeTop = bottom - top >= EDGE_FROM && top >= 0;
    if (left < 0) left = 0;
    if (right > width) right = width;
    if (top < 0) top = 0;
    if (bottom > height) bottom = height;
    if (right <= left) right = left + 1;
    if (bottom <= top) top = bottom - 1;
    if (left >= width || top < 0) continue;
    const colour = colours[i],
      edge = edges[i];
    let at = top * width;
    if (edgeTop) {
      pixels.fill(edge, at + left, at + right);
      at += width;
      ++top;
    }
    if (right === left + 1) {
      for (; top < bottom; ++top, at += width) pixels[at + left] = colour;
      continue;
    }
    for (; top < bottom; ++top, at += width) {
      pixels.fill(colour, at + left, at + right);
      if (edgeRight) pixels[at + right - 1] = edge;
    }
  }
  return drawn;
}
