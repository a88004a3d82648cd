// The vertical scale of the curve. Where the given order or a bound is far above the plan, one scale
// would leave the plan a strip at the bottom: the scale is then broken above the plan and its budget,
// which keep most of the height, and what is above the break is drawn smaller.

import type { Frame } from "./frame.ts";

const FAR = 1.8; // times the plan's part: above that the scale is broken
const SHARE = 0.64; // of the height, below the break
export const GAP = 10; // pixels that the break takes

export interface Heights {
  high: number; // upper end, in bytes
  broken: number | null; // where the scale is broken
}

// `plan`: the most that the plan and its budget need; `all`: what everything needs.
export function heightsOf(plan: number, all: number): Heights {
  return { high: all, broken: all > plan * FAR ? plan : null };
}

// The two parts of the plot, in pixels: below the break and above it.
export function partsOf(frame: Pick<Frame, "top" | "bottom">): { low: number; high: number } {
  const middle = frame.bottom - (frame.bottom - frame.top) * SHARE;
  return { low: middle + GAP / 2, high: middle - GAP / 2 };
}

// The height of a size, in pixels.
export function heightAt(
  frame: Pick<Frame, "top" | "bottom">,
  { high, broken }: Heights,
): (bytes: number) => number {
  if (broken === null) return (b) => frame.bottom - (b / high) * (frame.bottom - frame.top);
  const parts = partsOf(frame);
  return (b) =>
    b <= broken
      ? frame.bottom - (b / broken) * (frame.bottom - parts.low)
      : parts.high - ((b - broken) / (high - broken)) * (parts.high - frame.top);
}
