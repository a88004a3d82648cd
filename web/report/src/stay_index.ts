// Which rectangles lie in a window or under a point: a packed R-tree (flatbush) over runs and
// addresses. By seconds the question is translated to runs first, as both axes are monotone in the
// step; what has no length by run (present only while nothing computes) is found at its run.

import Flatbush from "flatbush";
import { runAt, timesOf, type Axis, type Model } from "./model.ts";
import type { Window } from "./window.ts";

export interface StayIndex {
  tree: Flatbush | null; // null: no rectangles
}

export function makeIndex(model: Model): StayIndex {
  const r = model.rectangles;
  if (r.count === 0) return { tree: null };
  const tree = new Flatbush(r.count);
  for (let i = 0; i < r.count; ++i) tree.add(r.runBegin[i], r.low[i], r.runEnd[i], r.high[i]);
  tree.finish();
  return { tree };
}

function inRuns(model: Model, axis: Axis, x: number, up: boolean): number {
  if (axis === "runs") return x;
  return runAt(model, axis, x) + (up ? 1 : 0);
}

// The rectangles of a window, in no particular order; some that only touch it are among them.
export function inWindow(index: StayIndex, model: Model, axis: Axis, window: Window): number[] {
  if (!index.tree) return [];
  const low = inRuns(model, axis, window.x.low, false),
    high = inRuns(model, axis, window.x.high, true);
  return index.tree.search(low, window.y.low, high, window.y.high);
}

// The rectangle at a point, or the nearest within the given distances; -1: none. Of several that
// cover it the one with the fewest bytes, since that is the hardest to point at.
export function pick(
  index: StayIndex,
  model: Model,
  axis: Axis,
  x: number,
  y: number,
  nearX: number,
  nearY: number,
): number {
  const { low, high } = model.rectangles;
  const { begin, end } = timesOf(model, axis);
  const window = { x: { low: x - nearX, high: x + nearX }, y: { low: y - nearY, high: y + nearY } };
  let best = -1,
    bestDistance = Infinity,
    bestBytes = Infinity;
  for (const i of inWindow(index, model, axis, window)) {
    const dx = Math.max(0, begin[i] - x, x - end[i]) / (nearX || 1);
    const dy = Math.max(0, low[i] - y, y - high[i]) / (nearY || 1);
    if (dx > 1 || dy > 1) continue;
    const distance = dx * dx + dy * dy,
      bytes = high[i] - low[i];
    if (distance < bestDistance || (distance === bestDistance && bytes < bestBytes)) {
      best = i;
      bestDistance = distance;
      bestBytes = bytes;
    }
  }
  return best;
}

// What is present in a run: stays and workspace.
export function presentIn(index: StayIndex, model: Model, run: number): number[] {
  if (!index.tree) return [];
  const { runBegin, runEnd } = model.rectangles;
  const found = index.tree.search(run + 0.25, -Infinity, run + 0.75, Infinity);
  return found.filter((i) => runBegin[i] <= run && runEnd[i] >= run + 1).sort((a, b) => a - b);
}
