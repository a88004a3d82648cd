// The address map: every stay as a rectangle, address by time. The rectangles are filled pixel by
// pixel (raster.ts); labels, marks of buffers that were taken over, transfers in flight and outlines
// are drawn over them, each limited in number.

import { STAY_MADE, STAY_RESIDENT } from "./data.ts";
import { drawSizeAxis, drawTimeAxis, fit, fitText, scaleX, scaleY, type Frame } from "./frame.ts";
import { groupOf } from "./groups.ts";
import { axisLength, timesOf, type Axis, type Model } from "./model.ts";
import {
  categoryColours,
  css,
  historyColours,
  inkOn,
  mix,
  moduleColours,
  packed,
  parseHex,
  type Rgb,
} from "./palette.ts";
import { fillRectangles, makeRaster, type Raster, type Sources } from "./raster.ts";
import type { Colouring, State } from "./state.ts";
import { inWindow, type StayIndex } from "./stay_index.ts";
import type { Inks } from "./theme.ts";
import type { Window } from "./window.ts";

const MOST_LABELS = 160;
const MOST_MARKS = 600;
const DIMMED = 0.8; // share of the ground in what is not in focus
const EDGE = 0.5; // and in the edges of all

export interface MapScene {
  frame: Frame;
  drawn: number; // rectangles in the window
}

export interface MapColours {
  of: Rgb[]; // each rectangle's own colour, by rectangle
  packed: Uint32Array; // the same for the raster, dimmed where out of focus
  edges: Uint32Array;
  packedBySize: Uint32Array; // both in the order of Rectangles.bySize
  edgesBySize: Uint32Array;
}

export function rectangleColours(model: Model, colouring: Colouring, dark: boolean): Rgb[] {
  const { rectangles: r, plan } = model;
  const categories = categoryColours(plan.categories, dark);
  const modules = colouring === "module" ? moduleColours(plan.modules, dark) : [];
  const history = colouring === "history" ? historyColours(dark) : [];
  return Array.from({ length: r.count }, (_, i) => {
    if (r.tensor[i] < 0) {
      return colouring === "module" ? modules[plan.ops.module[r.op[i]]] : categories[r.category[i]];
    }
    if (colouring === "module") return modules[plan.tensors.module[r.tensor[i]]];
    return colouring === "history" ? history[r.why[i] ?? STAY_MADE] : categories[r.category[i]];
  });
}

export function packColours(
  colours: Rgb[],
  focus: readonly number[],
  bySize: Uint32Array,
  inks: Inks,
): MapColours {
  const ground = parseHex(inks.surface);
  const dim = focus.length > 0;
  const memo = new Map<Rgb, { plain: number[]; dimmed: number[] }>();
  const shades = (c: Rgb) => {
    let both = memo.get(c);
    if (both) return both;
    const quiet = mix(c, ground, DIMMED);
    both = {
      plain: [packed(c), packed(mix(c, ground, EDGE))],
      dimmed: [packed(quiet), packed(mix(quiet, ground, EDGE))],
    };
    memo.set(c, both);
    return both;
  };
  const out = { packed: new Uint32Array(colours.length), edges: new Uint32Array(colours.length) };
  const put = (i: number, [colour, edge]: number[]) => {
    out.packed[i] = colour;
    out.edges[i] = edge;
  };
  colours.forEach((c, i) => put(i, dim ? shades(c).dimmed : shades(c).plain));
  for (const i of focus) put(i, shades(colours[i]).plain);
  const sorted = (values: Uint32Array) => bySize.map((i) => values[i]);
  return { of: colours, ...out, packedBySize: sorted(out.packed), edgesBySize: sorted(out.edges) };
}

export class MapPainter {
  private raster: Raster | null = null;
  private image: ImageData | null = null;
  private readonly stayOfTransfer: Int32Array;
  private sorted: (Sources & { axis: Axis }) | null = null;

  constructor(
    private readonly model: Model,
    private readonly index: StayIndex,
  ) {
    const { tensor, begin_step } = model.plan.transfers;
    this.stayOfTransfer = Int32Array.from(tensor, (t, i) => this.stayAt(t, begin_step[i]));
  }

  // The ids to draw, smallest first: what the index finds, or null for all, where much of it is shown.
  private order(axis: Axis, window: Window): number[] | null {
    const share =
      ((window.x.high - window.x.low) / axisLength(this.model, axis)) *
      ((window.y.high - window.y.low) / this.model.arena);
    if (share > 0.05) return null;
    const { low, high, runBegin, runEnd } = this.model.rectangles;
    const area = (i: number) => (high[i] - low[i]) * (runEnd[i] - runBegin[i]);
    return inWindow(this.index, this.model, axis, window).sort(
      (a, b) => area(a) - area(b) || a - b,
    );
  }

  // The rectangles in the order of bySize, which is read from front to back in every frame.
  private sortedSources(axis: Axis): Sources {
    if (this.sorted?.axis === axis) return this.sorted;
    const { low, high, bySize } = this.model.rectangles;
    const { begin, end } = timesOf(this.model, axis);
    const pick = (values: Float64Array) => Float64Array.from(bySize, (i) => values[i]);
    this.sorted = { axis, begin: pick(begin), end: pick(end), low: pick(low), high: pick(high) };
    return this.sorted;
  }

  draw(
    canvas: HTMLCanvasElement,
    state: State,
    colours: MapColours,
    focus: readonly number[],
    inks: Inks,
  ): MapScene {
    const frame = fit(canvas, 18, 24);
    const width = Math.max(1, Math.round((frame.right - frame.left) * frame.ratio));
    const height = Math.max(1, Math.round((frame.bottom - frame.top) * frame.ratio));
    if (
      !this.raster ||
      !this.image ||
      this.raster.width !== width ||
      this.raster.height !== height
    ) {
      this.raster = makeRaster(width, height);
      this.image = new ImageData(
        new Uint8ClampedArray(this.raster.pixels.buffer as ArrayBuffer),
        width,
        height,
      );
    }
    this.raster.pixels.fill(packed(parseHex(inks.surface)));
    const { low, high } = this.model.rectangles;
    const sources = { ...timesOf(this.model, state.axis), low, high };
    const order = this.order(state.axis, state.window);
    const drawn = order
      ? fillRectangles(this.raster, state.window, sources, order, colours.packed, colours.edges)
      : fillRectangles(
          this.raster,
          state.window,
          this.sortedSources(state.axis),
          null,
          colours.packedBySize,
          colours.edgesBySize,
        );
    if (focus.length > 0)
      fillRectangles(this.raster, state.window, sources, focus, colours.packed, colours.edges);
    frame.context.putImageData(
      this.image,
      Math.round(frame.left * frame.ratio),
      Math.round(frame.top * frame.ratio),
    );
    drawSizeAxis(frame, state.window.y, inks, false);
    drawTimeAxis(frame, state.window.x, state.axis, inks);
    this.details(frame, state, order ?? this.model.rectangles.bySize, colours, focus, inks);
    return { frame, drawn };
  }

  private details(
    frame: Frame,
    state: State,
    order: ArrayLike<number>,
    colours: MapColours,
    focus: readonly number[],
    inks: Inks,
  ): void {
    const { context } = frame;
    context.save();
    context.beginPath();
    context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
    context.clip();
    this.transfers(frame, state, inks);
    this.labels(frame, state, order, colours, new Set(focus));
    context.restore();
  }

  private box(frame: Frame, state: State, i: number) {
    const { begin, end } = timesOf(this.model, state.axis);
    const { low, high } = this.model.rectangles;
    const x = scaleX(frame, state.window.x),
      y = scaleY(frame, state.window.y);
    const left = Math.max(frame.left, x(begin[i])),
      right = Math.min(frame.right, x(end[i]));
    const top = Math.max(frame.top, y(high[i])),
      bottom = Math.min(frame.bottom, y(low[i]));
    return { left, right, top, bottom };
  }

  // Names of the largest, and a notch where a buffer was taken over; from the largest down.
  private labels(
    frame: Frame,
    state: State,
    order: ArrayLike<number>,
    colours: MapColours,
    focus: Set<number>,
  ): void {
    const { context } = frame;
    const { rectangles: r, plan } = this.model;
    let labels = 0,
      marks = 0;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let n = order.length - 1, seen = 0; n >= 0 && seen < 4000; --n, ++seen) {
      const i = order[n];
      const { left, right, top, bottom } = this.box(frame, state, i);
      if (right - left < 6 || bottom - top < 6) continue;
      const quiet = focus.size > 0 && !focus.has(i);
      context.fillStyle = quiet ? "transparent" : inkOn(colours.of[i]);
      if (i < r.stays && plan.stays.took_over[i] >= 0 && marks < MOST_MARKS) {
        ++marks;
        context.beginPath();
        const middle = (top + bottom) / 2,
          half = Math.min(5, (bottom - top) / 2 - 1);
        context.moveTo(left, middle - half);
        context.lineTo(left + half, middle);
        context.lineTo(left, middle + half);
        context.fill();
      }
      if (labels >= MOST_LABELS || right - left < 34 || bottom - top < 13) continue;
      const name =
        r.tensor[i] >= 0
          ? plan.tensors.name[r.tensor[i]]
          : `workspace of ${plan.ops.name[r.op[i]]}`;
      const text = fitText(context, name, right - left - 12);
      if (!text) continue;
      ++labels;
      context.fillText(text, left + 7, (top + bottom) / 2 + 0.5);
    }
  }

  // Hatching over the stays of tensors while they are copied out or in.
  private transfers(frame: Frame, state: State, inks: Inks): void {
    const { transfers } = this.model.plan;
    const { context } = frame;
    const x = scaleX(frame, state.window.x);
    const lines = new Path2D();
    let marks = 0;
    for (let t = 0; t < transfers.tensor.length && marks < MOST_MARKS; ++t) {
      const stay = this.stayOfTransfer[t];
      if (stay < 0) continue;
      const [begin, end] = this.flight(state.axis, t);
      if (x(end) - x(begin) < 2 || x(begin) > frame.right || x(end) < frame.left) continue;
      const box = this.box(frame, state, stay);
      const left = Math.max(box.left, x(begin)),
        right = Math.min(box.right, x(end));
      if (right - left < 2 || box.bottom - box.top < 3) continue;
      ++marks;
      hatch(lines, left, right, box.top, box.bottom, transfers.out[t] === 1);
    }
    if (marks === 0) return;
    context.strokeStyle = inks.dark ? "rgb(0 0 0 / 0.6)" : "rgb(255 255 255 / 0.75)";
    context.lineWidth = 1.5;
    context.stroke(lines);
  }

  private flight(axis: Axis, transfer: number): [number, number] {
    const { transfers } = this.model.plan;
    if (axis === "seconds") return [transfers.begin[transfer], transfers.end[transfer]];
    const wait = transfers.wait_step[transfer];
    const last =
      wait >= 0
        ? this.model.runOfStep[Math.min(wait, this.model.runOfStep.length - 1)]
        : this.model.runs;
    return [this.model.runOfStep[transfers.begin_step[transfer]], last];
  }

  private stayAt(tensor: number, step: number): number {
    const { begin, end } = this.model.plan.stays;
    for (const stay of groupOf(this.model.staysOfTensor, tensor))
      if (begin[stay] <= step && step < end[stay]) return stay;
    return -1;
  }
}

function hatch(
  path: Path2D,
  left: number,
  right: number,
  top: number,
  bottom: number,
  out: boolean,
): void {
  const height = bottom - top,
    gap = 7;
  for (let at = left - height; at < right; at += gap) {
    const from = Math.max(left, at),
      to = Math.min(right, at + height);
    if (to <= from) continue;
    const y = (x: number) => (out ? top + (x - at) : bottom - (x - at));
    path.moveTo(from, y(from));
    path.lineTo(to, y(to));
  }
}

// Outlines of what is in focus or under the pointer, the way of a tensor from one stay to the next,
// and the pointer's time.
export function drawMapOverlay(
  canvas: HTMLCanvasElement,
  model: Model,
  state: State,
  focus: readonly number[],
  inks: Inks,
): void {
  const frame = fit(canvas, 18, 24);
  const { context } = frame;
  const x = scaleX(frame, state.window.x),
    y = scaleY(frame, state.window.y);
  const { begin, end } = timesOf(model, state.axis);
  const { low, high } = model.rectangles;
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  const outline = (i: number, colour: string, width: number) => {
    const left = x(begin[i]),
      top = y(high[i]);
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.strokeRect(left, top, Math.max(2, x(end[i]) - left), Math.max(2, y(low[i]) - top));
  };
  if (focus.length > 0 && focus.length <= 400) {
    for (const i of focus) outline(i, inks.ink, 1.5);
    if (state.selection?.kind === "tensor" && !state.found) {
      context.setLineDash([4, 3]);
      context.beginPath();
      for (let k = 0; k + 1 < focus.length; ++k) {
        context.moveTo(x(end[focus[k]]), (y(low[focus[k]]) + y(high[focus[k]])) / 2);
        context.lineTo(x(begin[focus[k + 1]]), (y(low[focus[k + 1]]) + y(high[focus[k + 1]])) / 2);
      }
      context.stroke();
      context.setLineDash([]);
    }
  }
  if (!state.pointer) return;
  if (state.pointer.rectangle >= 0) {
    outline(state.pointer.rectangle, inks.surface, 4);
    outline(state.pointer.rectangle, inks.ink, 2);
  }
  context.fillStyle = inks.ink;
  context.globalAlpha = 0.55;
  context.fillRect(Math.round(x(state.pointer.x)), frame.top, 1, frame.bottom - frame.top);
}

// The addresses whose tenants change: from the lowest to the highest of what is not there all the
// time. Everything, where nothing changes.
export function busyAddresses(model: Model): { low: number; high: number } {
  const { low, high, why, count } = model.rectangles;
  let from = Infinity,
    to = 0;
  for (let i = 0; i < count; ++i) {
    if (why[i] === STAY_RESIDENT) continue;
    from = Math.min(from, low[i]);
    to = Math.max(to, high[i]);
  }
  return from < to ? { low: from, high: to } : { low: 0, high: model.arena };
}

// Colours that the map's legend lists, of what the plan has; none by module, whose names are in tips.
export function legendOf(
  model: Model,
  colouring: Colouring,
  dark: boolean,
): { name: string; key: string; colour: string }[] {
  if (colouring === "module") return [];
  if (colouring === "history") {
    const names = ["made", "made again", "loaded", "resident"];
    const there = new Set(model.plan.stays.why);
    return names
      .map((name, i) => ({
        name,
        key: ["", "recompute", "move", "resident"][i],
        colour: css(historyColours(dark)[i]),
      }))
      .filter((_, why) => there.has(why));
  }
  const colours = categoryColours(model.plan.categories, dark);
  const { category } = model.rectangles;
  const there = new Set(category);
  return model.plan.categories
    .map((name, i) => ({ name: name.replaceAll("_", " "), key: name, colour: css(colours[i]) }))
    .filter((_, i) => there.has(i));
}
