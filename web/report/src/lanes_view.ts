// Draws the lanes and finds what the pointer is on (lanes.ts).

import { fit, scaleX, type Frame } from "./frame.ts";
import { intervalAt, type Lane } from "./lanes.ts";
import { lastAtMost } from "./model.ts";
import { css, mix, parseHex } from "./palette.ts";
import type { State } from "./state.ts";
import type { Inks } from "./theme.ts";

export const LANE_HEIGHT = 15;
const PHASE = 0.4; // share of the ink in the tone of phases

export function heightOf(lanes: readonly Lane[]): number {
  return lanes.length * LANE_HEIGHT + 2;
}

function tone(lane: Lane, inks: Inks): string {
  const ground = parseHex(inks.surface),
    ink = parseHex(inks.ink);
  if (lane.name === "phase") return css(mix(ground, ink, PHASE));
  if (lane.name === "again") return inks.dark ? "#e3722a" : "#d55e00";
  if (lane.name === "waits") return inks.alarm;
  return inks.dark ? "#3b94d1" : "#0072b2";
}

function drawLane(frame: Frame, lane: Lane, top: number, state: State, inks: Inks): void {
  const { context } = frame;
  const x = scaleX(frame, state.window.x);
  context.fillStyle = inks.muted;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(lane.label, frame.left - 7, top + LANE_HEIGHT / 2);
  // Intervals that touch on the screen are drawn as one.
  let left = 0,
    right = -1;
  const paint = () => {
    if (right <= left) return;
    context.fillStyle = tone(lane, inks);
    context.fillRect(left, top + 1, right - left, LANE_HEIGHT - 2);
  };
  for (let i = lastAtMost(lane.begin, state.window.x.low); i < lane.begin.length; ++i) {
    // On whole pixels, so that however many intervals lie in one it is painted once.
    const begin = Math.floor(x(lane.begin[i]));
    const from = Math.max(frame.left, begin),
      to = Math.min(frame.right, Math.max(Math.floor(x(lane.end[i])), begin + 1));
    if (from >= frame.right) break;
    if (to <= from || to <= right) continue;
    if (from <= right) {
      right = Math.max(right, to);
      continue;
    }
    paint();
    left = from;
    right = to;
  }
  paint();
}

export function drawLanes(
  canvas: HTMLCanvasElement,
  lanes: readonly Lane[],
  state: State,
  inks: Inks,
): Frame {
  const frame = fit(canvas, 0, 0);
  lanes.forEach((lane, i) => drawLane(frame, lane, i * LANE_HEIGHT + 1, state, inks));
  return frame;
}

// What stands at a point of the canvas, in words; "" where nothing does.
export function tellLane(
  frame: Frame,
  lanes: readonly Lane[],
  state: State,
  px: number,
  py: number,
): string {
  const lane = lanes[Math.floor((py - 1) / LANE_HEIGHT)];
  if (!lane) return "";
  const perPixel = (state.window.x.high - state.window.x.low) / (frame.right - frame.left);
  const at = intervalAt(lane, state.window.x.low + (px - frame.left) * perPixel, perPixel * 2);
  return at < 0 ? "" : lane.tell(at);
}
