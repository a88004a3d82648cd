// Which schedules a proven bound speaks of: those that run each op in as many parts as the plan
// does. A split into other parts may need less, so that every claim on the page says which are meant.

import type { FrontPoint, Summary } from "./data.ts";

// "in one part" or "in these parts", as the plan's JSON has it; of data without it, what the plan
// itself shows.
export function boundsAreOf(s: Summary): string {
  return s.bounds_are_of || (s.ops_in_parts > 0 ? "in these parts" : "in one part");
}

// The least memory of schedules that run each op once: the bound proven for them, or the floor of
// all schedules where that is more.
export function provenOnce(s: Pick<Summary, "lower_bound_bytes" | "floor_bytes">): number {
  return Math.max(s.lower_bound_bytes, s.floor_bytes ?? 0);
}

// What `boundsAreOf` says, for a point of the front, which names its split.
export function pointBoundsAreOf(p: Pick<FrontPoint, "split">): string {
  return p.split === null || p.split === "" || p.split === "1" ? "in one part" : "in these parts";
}
