// Memory over time: what is present in each run, stacked by category, with the budget, the floor and
// the proven bound as lines, the peak marked, and the given order beside it. Of runs that share a
// pixel the fullest is drawn (columns.ts).

import { makeColumns, type Column } from "./columns.ts";
import { runSentence } from "./describe.ts";
import { mib } from "./format.ts";
import { provenOnce } from "./bounds.ts";
import { drawSizeAxis, drawTimeAxis, fit, scaleX, type Frame } from "./frame.ts";
import { groupOf } from "./groups.ts";
import { GAP, heightAt, heightsOf, partsOf, type Heights } from "./heights.ts";
import { takePlace, type Box } from "./labels.ts";
import { axisLength, rangeOfRun, type Axis, type Model } from "./model.ts";
import { categoryColours, css, inkOn, stackOrder, type Rgb } from "./palette.ts";
import { plainName } from "./terms.ts";
import type { State } from "./state.ts";
import type { Inks } from "./theme.ts";
import type { Span } from "./window.ts";

export interface CurveScene {
  model: Model;
  frame: Frame;
  heights: Heights;
  y: (bytes: number) => number; // in pixels
  given: [number, number][]; // the given order's line, in pixels
  inks: Inks;
  colours: Rgb[];
  taken: Box[]; // by labels
}

export interface Line {
  name: string;
  bytes: number;
  dash: number[];
}

// The horizontal lines, those that the plan has.
export function linesOf(model: Model): Line[] {
  const s = model.plan.summary;
  const lines: Line[] = [];
  if (s.budget_bytes !== null && s.budget_bytes > 0)
    lines.push({ name: "budget", bytes: s.budget_bytes, dash: [] });
  if (s.floor_bytes !== null && s.floor_bytes > 0)
    lines.push({ name: "floor", bytes: s.floor_bytes, dash: [5, 3] });
  // Each schedule's floor is one of those that run each op once, too; the larger of both is said.
  if (s.lower_bound_bytes > (s.floor_bytes ?? 0))
    lines.push({ name: "bound, each op once", bytes: provenOnce(s), dash: [1.5, 3] });
  return lines;
}

// The scale: what is drawn, and lines that are not far above it.
export function curveHeights(model: Model, showGiven: boolean): Heights {
  const most = (values: Float64Array, least: number) =>
    values.reduce((a, b) => Math.max(a, b), least);
  const withLines = (top: number) =>
    linesOf(model).reduce((a, { bytes }) => (bytes < top * 1.6 ? Math.max(a, bytes) : a), top);
  const own = most(model.totals, 1);
  const all = showGiven ? most(model.given, own) : own;
  return heightsOf(withLines(own) * 1.12, withLines(all) * 1.09);
}

function givenColumns(model: Model, axis: Axis, span: Span, width: number): Column[] {
  const begin = axis === "runs" ? model.counting.subarray(0, model.given.length) : model.givenBegin;
  const end =
    axis === "runs"
      ? model.given.length
      : Math.max(model.plan.summary.once_seconds, model.givenBegin.at(-1) ?? 0);
  return makeColumns(begin, end, model.given, span.low, span.high, width);
}

function plannedColumns(model: Model, axis: Axis, span: Span, width: number): Column[] {
  const begin = axis === "runs" ? model.counting.subarray(0, model.runs) : model.runBegin;
  return makeColumns(begin, axisLength(model, axis), model.totals, span.low, span.high, width);
}

function drawBands(scene: CurveScene, columns: Column[]): BandLabel[] {
  const labels: BandLabel[] = [];
  const { model, frame, colours, y } = scene;
  const { context } = frame;
  const base = new Float64Array(columns.length);
  for (const category of stackOrder(model.plan.categories)) {
    const row = model.plan.curve.planned[category];
    if (!columns.some((c) => row[c.run] > 0)) continue;
    const upper = columns.map((c, i) => base[i] + row[c.run]);
    context.beginPath();
    columns.forEach((c, i) => {
      context.lineTo(frame.left + c.x0, y(upper[i]));
      context.lineTo(frame.left + c.x1, y(upper[i]));
    });
    for (let i = columns.length - 1; i >= 0; --i) {
      context.lineTo(frame.left + columns[i].x1, y(base[i]));
      context.lineTo(frame.left + columns[i].x0, y(base[i]));
    }
    context.fillStyle = css(colours[category]);
    context.fill();
    const label = labelBand(scene, columns, base, upper, category);
    if (label) labels.push(label);
    upper.forEach((value, i) => void (base[i] = value));
  }
  return labels;
}

interface BandLabel {
  name: string;
  x: number; // its middle
  low: number; // of the band there, in pixels
  high: number;
  ink: string;
}

const LEAST_BAND = 12; // pixels of height for a name

// The category's name where its band is thickest over the whole name, if it is thick enough.
function labelBand(
  scene: CurveScene,
  columns: Column[],
  low: Float64Array,
  high: number[],
  category: number,
): BandLabel | null {
  const { frame, model, colours, y } = scene;
  const name = plainName(model.plan.categories[category]);
  const half = frame.context.measureText(name).width / 2 + 6;
  let best: BandLabel | null = null;
  for (let at = half; at <= frame.right - frame.left - half; at += 5) {
    let top = -Infinity,
      bottom = Infinity;
    for (let i = lastLeftOf(columns.length, (i) => columns[i].x0, at - half); i < columns.length; ++i) {
      if (columns[i].x0 > at + half) break;
      top = Math.max(top, y(high[i]));
      bottom = Math.min(bottom, y(low[i]));
      if (bottom - top < LEAST_BAND) break;
    }
    if (bottom - top < (best ? best.low - best.high + 0.5 : LEAST_BAND)) continue;
    best = { name, x: frame.left + at, low: bottom, high: top, ink: inkOn(colours[category]) };
  }
  return best;
}

// Draws the names, each in the middle of its band or as near to it as the lines leave room.
function drawLabels(scene: CurveScene, labels: BandLabel[]): void {
  const { context } = scene.frame;
  const lines = linesOf(scene.model).map((line) => scene.y(line.bytes));
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const { name, x, low, high, ink } of labels) {
    const middle = (low + high) / 2,
      half = context.measureText(name).width / 2;
    const free = [0, 6, -6, 12, -12, 20, -20, 28, -28]
      .map((by) => middle + by)
      .filter((at) => at - 6 >= high && at + 6 <= low)
      .filter((at) => lines.every((line) => Math.abs(line - at) > 9))
      .map((at) => ({ left: x - half, right: x + half, top: at - 7, bottom: at + 7, text: name }));
    const place = takePlace(free, scene.taken, [], (box) => crosses(scene.given, box));
    context.fillStyle = ink;
    if (place) context.fillText(name, x, place.top + 7);
  }
}

// The last index whose x, by `at`, is at most x; they ascend. 0 where none is.
function lastLeftOf(count: number, at: (i: number) => number, x: number): number {
  let low = 0,
    high = count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (at(middle) <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Whether a line, from left to right, goes through a box, its steps up and down included.
export function crosses(line: readonly (readonly [number, number])[], box: Box): boolean {
  const first = lastLeftOf(line.length, (i) => line[i][0], box.left - 1);
  for (let i = first + 1; i < line.length; ++i) {
    const [x0, y0] = line[i - 1],
      [x1, y1] = line[i];
    if (x0 > box.right) break;
    if (x1 < box.left) continue;
    if (Math.max(y0, y1) > box.top && Math.min(y0, y1) < box.bottom) return true;
  }
  return false;
}

function drawGiven(scene: CurveScene): void {
  const { frame, inks, given } = scene;
  const { context } = frame;
  context.beginPath();
  for (const [x, y] of given) context.lineTo(x, y);
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = inks.surface;
  context.stroke();
  context.lineWidth = 1.5;
  context.strokeStyle = inks.muted;
  context.stroke();
}

// The name of the given order's curve, where it is highest or near there.
function labelGiven(scene: CurveScene, columns: Column[]): void {
  const { frame, inks, model, y } = scene;
  if (columns.length === 0) return;
  const best = columns.reduce((a, b) => (model.given[b.run] > model.given[a.run] ? b : a));
  const half = plateWidth(frame, GIVEN) / 2;
  // Where another label has its top, others of its columns are tried, from there to both sides.
  const spots = [0, 0.15, -0.15, 0.3, -0.3, 0.45, -0.45, 0.6, -0.6].flatMap((share) => {
    const x = best.x0 + share * (frame.right - frame.left);
    const column = columns.find((c) => c.x0 <= x && x <= c.x1);
    return column ? [[frame.left + x, y(model.given[column.run])] as const] : [];
  });
  const places = [-12, 14, -22, 28, -34, 42].flatMap((by) =>
    spots.flatMap(([x, at]) =>
      [0, 0.5, -0.5].map(
        (aside) => [x + (aside - 1) * half, Math.max(frame.top - 4, at + by)] as const,
      ),
    ),
  );
  plate(scene, GIVEN, places, inks.muted, (box) => {
    const from = ([x, at]: readonly [number, number]) =>
      Math.hypot(x - (box.left + box.right) / 2, at - (box.top + box.bottom) / 2);
    return spots.reduce((near, spot) => (from(spot) < from(near) ? spot : near));
  });
}

const GIVEN = "given order";
const PLATE_HEIGHT = 16;

function plateWidth(frame: Frame, text: string): number {
  return frame.context.measureText(text).width + 8;
}

// A plate that is so far from what it tells of is tied to it by a line.
const FAR = 16;

// Text on a plate of the ground's colour, so that it is read over any band, at the first of its
// places (left end and middle) that is free; rather one that covers no line.
function plate(
  scene: CurveScene,
  text: string,
  places: readonly (readonly [number, number])[],
  ink = scene.inks.ink,
  of: ((box: Box) => readonly [number, number]) | null = null, // what it tells of
): void {
  const { frame, inks } = scene;
  const { context } = frame;
  const width = plateWidth(frame, text);
  const boxes = places.map(([x, y]): Box => {
    const left = Math.max(frame.left + 1, Math.min(x, frame.right - width));
    const top = Math.max(0, Math.min(y - PLATE_HEIGHT / 2, frame.bottom - PLATE_HEIGHT));
    return { left, top, right: left + width, bottom: top + PLATE_HEIGHT, text };
  });
  const lines = linesOf(scene.model).map((line) => scene.y(line.bytes));
  const box = takePlace(boxes, scene.taken, lines, (one) => crosses(scene.given, one));
  if (!box) return;
  if (of) tie(scene, box, of(box), ink);
  context.globalAlpha = 0.86;
  context.fillStyle = inks.surface;
  context.beginPath();
  context.roundRect(box.left, box.top, width, PLATE_HEIGHT, 3);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(text, box.left + 4, box.top + PLATE_HEIGHT / 2 + 0.5);
}

function tie(
  { frame: { context } }: CurveScene,
  box: Box,
  [x, y]: readonly [number, number],
  ink: string,
): void {
  const toX = Math.max(box.left, Math.min(x, box.right)),
    toY = Math.max(box.top, Math.min(y, box.bottom));
  if (Math.hypot(toX - x, toY - y) < FAR) return;
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

const ONCE = "each op once \u2265"; // on a small screen

// Draws the lines; their labels come later, when what is called is called, over all else.
function drawLines(scene: CurveScene): () => void {
  const { frame, inks, model, y } = scene;
  const { context } = frame;
  const lines = linesOf(model).filter((line) => line.bytes <= scene.heights.high);
  for (const line of lines) {
    const py = Math.round(y(line.bytes)) + 0.5;
    context.setLineDash([]);
    context.strokeStyle = inks.surface;
    context.lineWidth = 3;
    context.beginPath();
    context.moveTo(frame.left, py);
    context.lineTo(frame.right, py);
    context.stroke();
    context.setLineDash(line.dash);
    context.strokeStyle = line.name === "budget" ? inks.alarm : inks.ink;
    context.lineWidth = 1.4;
    context.stroke();
    context.setLineDash([]);
  }
  return () => {
    for (const line of lines) {
      const py = y(line.bytes);
      const name = frame.width < 500 ? line.name.replace("bound, each op once", ONCE) : line.name;
      const text = `${name} ${mib(line.bytes)}`;
      const heights = [-10, 10, -27, 27, -44, 44, 61].map((by) => py + by);
      const room = frame.right - frame.left - plateWidth(frame, text) - 8;
      const ends = [0, 1, 0.5, 0.25, 0.75].map((share) => frame.left + 4 + share * room);
      const places = ends.flatMap((x) =>
        heights.filter((at) => at - 8 >= 0).map((at) => [x, at] as const),
      ).sort((a, b) => Math.abs(a[1] - py) - Math.abs(b[1] - py));
      const ink = line.name === "budget" ? inks.alarm : inks.ink;
      plate(scene, text, places, ink, (box) => [(box.left + box.right) / 2, py]);
    }
  };
}

function drawPeak(scene: CurveScene, axis: Axis, span: Span): void {
  const { frame, inks, model } = scene;
  if (model.runs === 0) return;
  const { context } = frame;
  const [begin, end] = rangeOfRun(model, axis, model.peakRun);
  const x = scaleX(frame, span)((begin + end) / 2);
  if (x < frame.left || x > frame.right) return;
  const py = scene.y(model.totals[model.peakRun]);
  context.beginPath();
  context.arc(x, py, 4, 0, 2 * Math.PI);
  context.fillStyle = inks.ink;
  context.fill();
  context.lineWidth = 2;
  context.strokeStyle = inks.surface;
  context.stroke();
  const text = `peak ${mib(model.plan.summary.peak_bytes)}`;
  const width = plateWidth(frame, text);
  const sides = [x + 9, x - 10 - width];
  if (x + 10 + width > frame.right) sides.reverse();
  const heights = [Math.max(frame.top + 8, py - 11), py + 14, py - 29, py + 32, py + 50, py + 68];
  const places = heights.flatMap((at) => sides.map((left) => [left, at] as const));
  plate(scene, text, places, inks.ink, () => [x, py]);
}

// Two jagged lines across the plot where the scale is broken.
function drawBreak(scene: CurveScene): void {
  if (scene.heights.broken === null) return;
  const { frame, inks } = scene;
  const { context } = frame;
  const { low, high } = partsOf(frame);
  context.fillStyle = inks.surface;
  context.fillRect(frame.left, high + 1, frame.right - frame.left, GAP - 2);
  context.strokeStyle = inks.muted;
  context.lineWidth = 1;
  for (const at of [high + 2, low - 2]) {
    context.beginPath();
    for (let x = frame.left, n = 0; x <= frame.right; x += 4, ++n)
      context.lineTo(x, at + (n % 2 ? 1.5 : -1.5));
    context.stroke();
  }
}

function drawSizes({ frame, heights, inks }: CurveScene): void {
  const { high, broken } = heights;
  const whole = { low: 0, high };
  if (broken === null) return drawSizeAxis(frame, whole, inks, true);
  const parts = partsOf(frame);
  drawSizeAxis({ ...frame, top: parts.low }, { low: 0, high: broken }, inks, true, whole);
  drawSizeAxis({ ...frame, bottom: parts.high }, { low: broken, high }, inks, true, whole);
}

export function drawCurve(
  canvas: HTMLCanvasElement,
  model: Model,
  state: State,
  inks: Inks,
): CurveScene {
  const frame = fit(canvas, 18, 8);
  const heights = curveHeights(model, state.showGiven);
  const y = heightAt(frame, heights);
  const width = frame.right - frame.left;
  const given = state.showGiven ? givenColumns(model, state.axis, state.window.x, width) : [];
  const scene: CurveScene = {
    model,
    frame,
    heights,
    y,
    given: given.flatMap(({ x0, x1, run }) =>
      [x0, x1].map((x): [number, number] => [frame.left + x, y(model.given[run])]),
    ),
    inks,
    colours: categoryColours(model.plan.categories, inks.dark),
    taken: [],
  };
  const { context } = frame;
  drawSizes(scene);
  context.save();
  context.beginPath();
  context.rect(frame.left, 0, frame.right - frame.left, frame.bottom + 1);
  context.clip();
  const labels = drawBands(scene, plannedColumns(model, state.axis, state.window.x, width));
  const labelLines = drawLines(scene);
  drawBreak(scene);
  drawGiven(scene);
  drawPeak(scene, state.axis, state.window.x);
  labelLines();
  labelGiven(scene, given);
  drawLabels(scene, labels);
  canvas.dataset["labels"] = JSON.stringify(scene.taken); // for tests
  canvas.dataset["hidden"] = JSON.stringify(
    scene.taken.filter((box) => crosses(scene.given, box)).map((box) => box.text),
  );
  context.restore();
  drawTimeAxis(frame, state.window.x, state.axis, inks, false);
  return scene;
}

// The pointer's time and, for an op, the moments when it runs; on the canvas above.
export function drawCurveOverlay(
  canvas: HTMLCanvasElement,
  model: Model,
  state: State,
  inks: Inks,
): void {
  const frame = fit(canvas, 18, 8);
  const { context } = frame;
  const x = scaleX(frame, state.window.x);
  if (state.selection?.kind === "op") {
    context.fillStyle = inks.ink;
    for (const run of groupOf(model.runsOfOp, state.selection.id))
      markRun(frame, model, state, run);
  }
  if (state.selection?.kind === "run") markRun(frame, model, state, state.selection.id);
  if (!state.pointer) return;
  const px = x(state.pointer.x);
  if (px < frame.left || px > frame.right) return;
  context.fillStyle = inks.ink;
  context.fillRect(Math.round(px), frame.top, 1, frame.bottom - frame.top);
}

function markRun(frame: Frame, model: Model, state: State, run: number): void {
  const [begin, end] = rangeOfRun(model, state.axis, run);
  const x = scaleX(frame, state.window.x);
  const left = Math.max(frame.left, x(begin)),
    right = Math.min(frame.right, Math.max(x(end), x(begin) + 2));
  if (right <= left) return;
  const { context } = frame;
  context.globalAlpha = 0.28;
  context.fillRect(left, frame.top, right - left, frame.bottom - frame.top);
  context.globalAlpha = 1;
  context.beginPath();
  context.moveTo((left + right) / 2 - 5, frame.top - 8);
  context.lineTo((left + right) / 2 + 5, frame.top - 8);
  context.lineTo((left + right) / 2, frame.top - 1);
  context.fill();
}

// What the curve says, in words.
export function curveSentence(model: Model): string {
  const s = model.plan.summary;
  const lines = linesOf(model)
    .map((line) => `${line.name} ${mib(line.bytes)}`)
    .join(", ");
  const peak = model.runs > 0 ? runSentence(model, model.peakRun) : "no steps";
  const { broken } = curveHeights(model, true);
  const scale = broken === null ? "" : ` The scale is smaller above ${mib(broken)}.`;
  return `Memory over time. Peak ${mib(s.peak_bytes)} at ${peak}. In the given order the peak is ${mib(s.peak_before_bytes)}. Lines: ${lines || "none"}.${scale}`;
}
