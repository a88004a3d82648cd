// Level of detail of the curve. A column of pixels shows one run: of those that it covers the one
// with the most bytes, so that no peak is lost however many runs a pixel stands for.

import { lastAtMost } from "./model.ts";

export interface Column {
  x0: number; // in pixels
  x1: number;
  run: number;
}

// The columns of the span [low, high) over `width` pixels. `begin` is ascending; the value of run r
// holds until the next one begins, that of the last one until `end`. O(runs in the span + width).
export function makeColumns(
  begin: ArrayLike<number>,
  end: number,
  values: ArrayLike<number>,
  low: number,
  high: number,
  width: number,
): Column[] {
  const columns: Column[] = [];
  const runs = begin.length;
  if (runs === 0 || width <= 0 || high <= low) return columns;
  const scale = width / (high - low);
  let run = lastAtMost(begin, low);
  while (run < runs && begin[run] < high) {
    const next = run + 1 < runs ? begin[run + 1] : end;
    const x0 = Math.max(0, (begin[run] - low) * scale),
      x1 = Math.min(width, (next - low) * scale);
    if (Math.floor(x1) > Math.floor(x0) + 1) {
      columns.push({ x0, x1, run });
      ++run;
      continue;
    }
    const pixel = Math.floor(x0);
    let best = run,
      last = run;
    while (last + 1 < runs && (begin[last + 1] - low) * scale < pixel + 1) {
      ++last;
      if (values[last] > values[best]) best = last;
    }
    const stop = last + 1 < runs ? (begin[last + 1] - low) * scale : (end - low) * scale;
    columns.push({ x0, x1: Math.min(width, Math.max(stop, x0)), run: best });
    run = last + 1;
  }
  return columns;
}
