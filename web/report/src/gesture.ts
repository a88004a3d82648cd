// Gestures on a chart, by d3-zoom: wheel or pinch zooms, drag pans. d3-zoom scales both directions
// alike, while here each direction has its own span; so its transforms are read as changes only, and
// the chart applies them to the window.
//
// A page must still scroll: the wheel zooms where the chart has the focus or Ctrl is held, and one
// finger scrolls while two zoom.

import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent, type ZoomTransform } from "d3-zoom";

export interface Change {
  factor: number; // 1: no zoom
  x: number; // of the pointer, in pixels of the element
  y: number;
  dx: number; // pixels panned
  dy: number;
  keys: { shift: boolean; alt: boolean };
}

export interface Gestures {
  change: (change: Change) => void;
  refused: () => void; // the wheel turned over a chart that does not have it
}

// A trackpad's pinch comes as a wheel with Ctrl and small steps, which are made larger; the wheel of a
// mouse with Ctrl held is not.
function wheelDelta(event: WheelEvent): number {
  const unit = event.deltaMode === 1 ? 0.05 : event.deltaMode ? 1 : 0.002;
  return -event.deltaY * unit * (event.ctrlKey && Math.abs(event.deltaY) < 40 ? 8 : 1);
}

const MOST = 1e12; // d3-zoom's own limits are out of the way; the window has its limits

export function listen(element: HTMLElement, gestures: Gestures): void {
  let last: ZoomTransform = zoomIdentity;
  const target = select<HTMLElement, unknown>(element);
  const owns = (event: WheelEvent) =>
    event.ctrlKey || event.metaKey || document.activeElement === element;
  const behavior = zoom<HTMLElement, unknown>()
    .scaleExtent([1 / MOST, MOST])
    .wheelDelta(wheelDelta)
    .filter((event: Event) => {
      if (event.type === "wheel") return owns(event as WheelEvent);
      if (event.type === "touchstart") return (event as TouchEvent).touches.length > 1;
      return !(event as MouseEvent).ctrlKey && !(event as MouseEvent).button;
    })
    .on("start", () => void (last = (element as { __zoom?: ZoomTransform }).__zoom ?? zoomIdentity))
    .on("zoom", (event: D3ZoomEvent<HTMLElement, unknown>) => {
      const now = event.transform,
        factor = now.k / last.k;
      const source = event.sourceEvent as MouseEvent | TouchEvent | null;
      // The point that stays where it is, from the two transforms; a pan has none.
      const fixed =
        factor === 1
          ? null
          : {
              x: (now.x - factor * last.x) / (1 - factor),
              y: (now.y - factor * last.y) / (1 - factor),
            };
      gestures.change({
        factor,
        x: fixed?.x ?? 0,
        y: fixed?.y ?? 0,
        dx: fixed ? 0 : now.x - last.x,
        dy: fixed ? 0 : now.y - last.y,
        keys: { shift: source?.shiftKey ?? false, alt: source?.altKey ?? false },
      });
      last = now;
    })
    .on("end", () => {
      // Begin anew, so that numbers do not grow with the number of gestures.
      (element as { __zoom?: ZoomTransform }).__zoom = zoomIdentity;
      last = zoomIdentity;
    });
  target.call(behavior).on("dblclick.zoom", null);
  element.addEventListener("pointerdown", () => element.focus({ preventScroll: true }));
  element.addEventListener(
    "wheel",
    (event) => {
      if (!owns(event)) gestures.refused();
    },
    { passive: true },
  );
}
