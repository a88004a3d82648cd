// Which schedules a proven bound speaks of: those that run each op in as many parts as the plan
// does. A split into other parts may need less, so that every claim on the page says which are meant.

import type { FrontPoint, Summary } from "./data.ts";

// "in one part" or "in these parts", as the plan's JSON has it; of data without it, what the plan
// itself shows.
export function boundsAreOf(s: Summary): string {
  return s.bounds_are_of || (s.ops_in_parts > 0 ? "in these parts" : "in one part");
}

// The same for a point of the front, which names its split.
export function pointBoundsAreOf(p: Pick<FrontPoint, "split">): string {
  return p.split === null || p.split === "" || p.split === "1" ? "in one part" : "in these parts";
}
