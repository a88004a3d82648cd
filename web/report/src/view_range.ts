// The whole of a plan as a window, and how far one may zoom into it.

import { axisLength, type Axis, type Model } from "./model.ts";
import type { Window } from "./window.ts";

export function leastSpan(model: Model, axis: Axis): number {
  return axis === "runs" ? Math.min(2, model.runs || 1) : Math.max(model.seconds * 1e-6, 1e-9);
}

export function wholeWindow(model: Model, axis: Axis): Window {
  return { x: { low: 0, high: axisLength(model, axis) }, y: { low: 0, high: model.arena } };
}
