// Memory over time: what is present in each run, stacked by category, with the budget, the floor and
// the proven bound as lines, the peak marked, and the given order beside it. Of runs that share a
// pixel the fullest is drawn (columns.ts).

import { makeColumns, type Column } from "./columns.ts";
import { runSentence } from "./describe.ts";
import { mib } from "./format.ts";
import { drawSizeAxis, drawTimeAxis, fit, scaleX, scaleY, type Frame } from "./frame.ts";
import { groupOf } from "./groups.ts";
import { takePlace, type Box } from "./labels.ts";
import { axisLength, rangeOfRun, type Axis, type Model } from "./model.ts";
import { categoryColours, css, inkOn, stackOrder, type Rgb } from "./palette.ts";
import type { State } from "./state.ts";
import type { Inks } from "./theme.ts";
import type { Span } from "./window.ts";

export interface CurveScene {
  model: Model;
  frame: Frame;
  y: Span;
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
  if (s.lower_bound_bytes > 0)
    lines.push({ name: "bound, each op once", bytes: s.lower_bound_bytes, dash: [1.5, 3] });
  return lines;
}

// The upper end of the axis: what is drawn, and lines that are not far above it.
export function topOf(model: Model, showGiven: boolean): number {
  let most = model.totals.reduce((a, b) => Math.max(a, b), 1);
  if (showGiven) most = model.given.reduce((a, b) => Math.max(a, b), most);
  for (const line of linesOf(model)) if (line.bytes < most * 1.6) most = Math.max(most, line.bytes);
  return most * 1.09;
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
  const { model, frame, colours } = scene;
  const { context } = frame;
  const y = scaleY(frame, scene.y);
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

// The category's name where its band is thickest, if it is thick enough.
function labelBand(
  scene: CurveScene,
  columns: Column[],
  low: Float64Array,
  high: number[],
  category: number,
): BandLabel | null {
  const { frame, model, colours } = scene;
  const y = scaleY(frame, scene.y);
  const name = model.plan.categories[category].replaceAll("_", " ");
  const half = name.length * 3.2 + 4;
  let best = -1,
    thickest = 15;
  for (let i = 0; i < columns.length; ++i) {
    const middle = (columns[i].x0 + columns[i].x1) / 2;
    if (middle < half || middle > frame.right - frame.left - half) continue;
    const thick = y(low[i]) - y(high[i]);
    if (thick > thickest + 0.5) {
      best = i;
      thickest = thick;
    }
  }
  if (best < 0) return null;
  const x = frame.left + (columns[best].x0 + columns[best].x1) / 2;
  return { name, x, low: y(low[best]), high: y(high[best]), ink: inkOn(colours[category]) };
}

// Draws the names, each in the middle of its band or as near to it as the lines leave room.
function drawLabels(scene: CurveScene, labels: BandLabel[]): void {
  const { context } = scene.frame;
  const y = scaleY(scene.frame, scene.y);
  const lines = linesOf(scene.model).map((line) => y(line.bytes));
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const { name, x, low, high, ink } of labels) {
    const middle = (low + high) / 2,
      half = context.measureText(name).width / 2;
    const free = [0, 12, -12, 20, -20, 28, -28]
      .map((by) => middle + by)
      .filter((at) => at - 8 >= high && at + 8 <= low)
      .filter((at) => lines.every((line) => Math.abs(line - at) > 9))
      .map((at) => ({ left: x - half, right: x + half, top: at - 7, bottom: at + 7 }));
    const place = takePlace(free, scene.taken);
    context.fillStyle = ink;
    if (place) context.fillText(name, x, place.top + 7);
  }
}

function drawGiven(scene: CurveScene, columns: Column[]): void {
  const { frame, inks, model } = scene;
  const { context } = frame;
  const y = scaleY(frame, scene.y);
  context.beginPath();
  for (const c of columns) {
    context.lineTo(frame.left + c.x0, y(model.given[c.run]));
    context.lineTo(frame.left + c.x1, y(model.given[c.run]));
  }
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = inks.surface;
  context.stroke();
  context.lineWidth = 1.5;
  context.strokeStyle = inks.muted;
  context.stroke();
}

// The name of the given order's curve, above where it is highest; none where the plan's own is.
function labelGiven(scene: CurveScene, columns: Column[]): void {
  const { frame, inks, model } = scene;
  if (columns.length === 0) return;
  const best = columns.reduce((a, b) => (model.given[b.run] > model.given[a.run] ? b : a));
  const most = model.totals.reduce((a, b) => Math.max(a, b), 0);
  if (model.given[best.run] < most * 1.15) return;
  const at = scaleY(frame, scene.y)(model.given[best.run]);
  const middle = frame.left + (best.x0 + best.x1) / 2,
    half = plateWidth(frame, GIVEN) / 2;
  const above = Math.max(frame.top - 4, at - 12);
  const places = [0, half, -half, 2 * half, -2 * half].flatMap((by) =>
    [above, at + 14, at + 32].map((y) => [middle + by - half, y] as const),
  );
  plate(scene, GIVEN, places, inks.muted);
}

const GIVEN = "given order";
const PLATE_HEIGHT = 16;

function plateWidth(frame: Frame, text: string): number {
  return frame.context.measureText(text).width + 8;
}

// Text on a plate of the ground's colour, so that it is read over any band, at the first of its
// places (left end and middle) that is free.
function plate(
  scene: CurveScene,
  text: string,
  places: readonly (readonly [number, number])[],
  ink = scene.inks.ink,
): void {
  const { frame, inks } = scene;
  const { context } = frame;
  const width = plateWidth(frame, text);
  const boxes = places.map(([x, y]): Box => {
    const left = Math.max(frame.left + 1, Math.min(x, frame.right - width));
    const top = Math.max(0, Math.min(y - PLATE_HEIGHT / 2, frame.bottom - PLATE_HEIGHT));
    return { left, top, right: left + width, bottom: top + PLATE_HEIGHT };
  });
  const lines = linesOf(scene.model).map((line) => scaleY(frame, scene.y)(line.bytes));
  const box = takePlace(boxes, scene.taken, lines);
  if (!box) return;
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

// Draws the lines; their labels come later, when what is called is called, over all else.
function drawLines(scene: CurveScene): () => void {
  const { frame, inks, model } = scene;
  const { context } = frame;
  const y = scaleY(frame, scene.y);
  const lines = linesOf(model).filter((line) => line.bytes <= scene.y.high);
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
      const name = frame.width < 500 ? line.name.split(",")[0] : line.name;
      const text = `${name} ${mib(line.bytes)}`;
      const heights = [-10, 10, -27, 27, -44, 44].map((by) => py + by);
      const ends = [frame.left + 4, frame.right - plateWidth(frame, text) - 4];
      const places = ends.flatMap((x) =>
        heights.filter((at) => at - 8 >= 0).map((at) => [x, at] as const),
      );
      plate(scene, text, places, line.name === "budget" ? inks.alarm : inks.ink);
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
  const py = scaleY(frame, scene.y)(model.totals[model.peakRun]);
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
  plate(
    scene,
    text,
    sides.flatMap((left) => heights.map((at) => [left, at] as const)),
  );
}

export function drawCurve(
  canvas: HTMLCanvasElement,
  model: Model,
  state: State,
  inks: Inks,
): CurveScene {
  const frame = fit(canvas, 18, 8);
  const y = { low: 0, high: topOf(model, state.showGiven) };
  const scene: CurveScene = {
    model,
    frame,
    y,
    inks,
    colours: categoryColours(model.plan.categories, inks.dark),
    taken: [],
  };
  const { context } = frame;
  drawSizeAxis(frame, y, inks, true);
  context.save();
  context.beginPath();
  context.rect(frame.left, 0, frame.right - frame.left, frame.bottom + 1);
  context.clip();
  const width = frame.right - frame.left;
  const labels = drawBands(scene, plannedColumns(model, state.axis, state.window.x, width));
  const labelLines = drawLines(scene);
  const given = state.showGiven ? givenColumns(model, state.axis, state.window.x, width) : [];
  drawGiven(scene, given);
  labelLines();
  drawPeak(scene, state.axis, state.window.x);
  labelGiven(scene, given);
  drawLabels(scene, labels);
  canvas.dataset["labels"] = JSON.stringify(scene.taken); // for tests
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
  return `Memory over time. Peak ${mib(s.peak_bytes)} at ${peak}. In the given order the peak is ${mib(s.peak_before_bytes)}. Lines: ${lines || "none"}.`;
}
