// The frame of a chart on a canvas: its size in device pixels, its margins, its axes. All charts of
// the memory section share the left and right margin, so that one time stands under another.

import { scaleLinear } from "d3-scale";
import { MIB, count } from "./format.ts";
import type { Axis } from "./model.ts";
import { shortened } from "./names.ts";
import type { Inks } from "./theme.ts";
import type { Span } from "./window.ts";

export interface Frame {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  ratio: number; // device pixels per pixel
  width: number; // of the canvas, in pixels
  height: number;
  left: number; // of the plot inside it
  right: number;
  top: number;
  bottom: number;
}

export const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export const MARGIN_LEFT = 64; // names of lanes and sizes

// The width of the widest of the texts, before the canvas has a frame.
export function widest(canvas: HTMLCanvasElement, texts: readonly string[]): number {
  const context = canvas.getContext("2d")!;
  context.font = FONT;
  return texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
}

// Fits the canvas to its box; plot margins in pixels from its edges.
export function fit(
  canvas: HTMLCanvasElement,
  top: number,
  bottom: number,
  marginLeft = MARGIN_LEFT,
): Frame {
  const ratio = Math.min(3, devicePixelRatio || 1);
  const { clientWidth: width, clientHeight: height } = canvas;
  const w = Math.max(1, Math.round(width * ratio)),
    hgt = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== hgt) canvas.height = hgt;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  const left = Math.min(marginLeft, width);
  return {
    canvas,
    context,
    ratio,
    width,
    height,
    left,
    right: Math.max(left + 1, width - 10),
    top,
    bottom: height - bottom,
  };
}

export function scaleX(frame: Frame, span: Span): (x: number) => number {
  const k = (frame.right - frame.left) / (span.high - span.low);
  return (x) => frame.left + (x - span.low) * k;
}

export function scaleY(frame: Frame, span: Span): (y: number) => number {
  const k = (frame.bottom - frame.top) / (span.high - span.low);
  return (y) => frame.bottom - (y - span.low) * k;
}

// One unit for all ticks of an axis, with as many digits as their distance needs. By step the number
// of a step, from 1, stands under its middle.
export function timeTicks(axis: Axis, span: Span, about: number): { at: number; text: string }[] {
  if (axis === "runs") {
    const steps = scaleLinear()
      .domain([span.low + 0.5, span.high + 0.5])
      .ticks(about)
      .filter(Number.isInteger);
    if (span.low <= 0.5 && steps[0] !== 1) steps.unshift(1);
    return steps.map((step) => ({ at: step - 0.5, text: count(step) }));
  }
  const [unit, name] =
    span.high >= 2 ? [1, "s"] : span.high >= 2e-3 ? [1e3, "ms"] : [1e6, "\u00b5s"];
  const scale = scaleLinear().domain([span.low * unit, span.high * unit]);
  const format = scale.tickFormat(about);
  return scale.ticks(about).map((at) => ({ at: at / unit, text: `${format(at)} ${name}` }));
}

export function drawTimeAxis(
  frame: Frame,
  span: Span,
  axis: Axis,
  inks: Inks,
  labels = true,
): void {
  const { context } = frame;
  const x = scaleX(frame, span);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const { at, text } of timeTicks(axis, span, Math.max(2, (frame.right - frame.left) / 90))) {
    const px = Math.round(x(at)) + 0.5;
    if (px < frame.left - 1 || px > frame.right + 1) continue;
    context.fillStyle = inks.line;
    context.fillRect(px - 0.5, frame.bottom, 1, 4);
    if (!labels) continue;
    context.fillStyle = inks.muted;
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(px, frame.width - half - 1), frame.bottom + 6);
  }
  context.fillStyle = inks.line;
  context.fillRect(frame.left, frame.bottom, frame.right - frame.left, 1);
}

// Ticks at round numbers of MiB (below one MiB: KiB) with lines across the plot. `whole`: the axis
// that this is a part of, which has one unit.
export function drawSizeAxis(
  frame: Frame,
  span: Span,
  inks: Inks,
  grid: boolean,
  whole: Span = span,
): void {
  const { context } = frame;
  const y = scaleY(frame, span);
  const small = whole.high - whole.low < 4 * MIB && whole.high < 64 * MIB;
  const unit = small ? 1024 : MIB;
  const scale = scaleLinear().domain([span.low / unit, span.high / unit]);
  const about = Math.max(2, (frame.bottom - frame.top) / 44);
  const format = scale.tickFormat(about);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const tick of scale.ticks(about)) {
    const py = Math.round(y(tick * unit)) + 0.5;
    if (span.low > whole.low && py > frame.bottom - 6) continue; // too near the part below
    context.fillStyle = inks.line;
    if (grid) context.fillRect(frame.left, py - 0.5, frame.right - frame.left, 1);
    else context.fillRect(frame.left - 4, py - 0.5, 4, 1);
    context.fillStyle = inks.muted;
    context.fillText(format(tick), frame.left - 7, py);
  }
  context.textAlign = "left";
  context.textBaseline = "top";
  if (span.low === whole.low) context.fillText(small ? "KiB" : "MiB", 0, 0);
}

const LEAST_LETTERS = 10; // fewer of a name tell nothing

// Text that fits, shortened in the middle where it must be; "" where too little of it would be seen.
export function fitText(context: CanvasRenderingContext2D, text: string, width: number): string {
  const perLetter = 6.2; // of the font above, on the safe side: measuring each name costs a frame
  if (text.length * perLetter <= width) return text;
  const letters = Math.floor(width / perLetter);
  if (letters < LEAST_LETTERS) return context.measureText(text).width <= width ? text : "";
  return shortened(text, letters);
}
