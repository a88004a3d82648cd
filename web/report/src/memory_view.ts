// The memory section: curve, lanes and address map over one time axis, their controls, and what
// pointer, wheel and keys do with them. The drawing itself is in curve_view, lanes_view and map_view.

import type { Context } from "./context.ts";
import {
  curveHeights,
  curveSentence,
  drawCurve,
  drawCurveOverlay,
  type CurveScene,
} from "./curve_view.ts";
import { rectangleSentence, runSentence } from "./describe.ts";
import { byId, h, replace } from "./dom.ts";
import { inFocus } from "./focus.ts";
import { count, mib, time } from "./format.ts";
import { MARGIN_LEFT, type Frame } from "./frame.ts";
import { listen, type Change } from "./gesture.ts";
import { makeLanes } from "./lanes.ts";
import { drawLanes, heightOf, tellLane } from "./lanes_view.ts";
import {
  drawMapOverlay,
  legendOf,
  MapPainter,
  packColours,
  rectangleColours,
  type MapColours,
} from "./map_view.ts";
import { memoryControls } from "./memory_controls.ts";
import { rectangleTip, runTip } from "./memory_tips.ts";
import { memoryTables } from "./memory_tables.ts";
import {
  axisLength,
  rangeOfRun,
  runAt,
  runsFromSeconds,
  secondsFromRuns,
  type Axis,
} from "./model.ts";
import type { Key, Selection, State } from "./state.ts";
import { pick } from "./stay_index.ts";
import { isTerm, term } from "./terms.ts";
import { inks, type Inks } from "./theme.ts";
import { leastSpan, wholeWindow } from "./view_range.ts";
import { around, clampSpan, panSpan, zoomSpan, type Span } from "./window.ts";

const REACH = 4; // pixels within which the pointer finds a rectangle
const MAP_ROOM = { top: 18, bottom: 24 };

export class MemoryView {
  private readonly curve = h("canvas", {
    class: "curve",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "chart",
  });
  private readonly curveTop = h("canvas", { class: "overlay", "aria-hidden": "true" });
  private readonly lanesCanvas = h("canvas", { class: "lanes", "aria-hidden": "true" });
  private readonly map = h("canvas", {
    class: "map",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "map",
  });
  private readonly mapTop = h("canvas", { class: "overlay", "aria-hidden": "true" });
  private readonly hint = h(
    "p",
    { class: "hint", "aria-hidden": "true" },
    "Click the chart first, or hold Ctrl, to zoom with the wheel",
  );
  private readonly legend = h("ul", { class: "legend", "aria-label": "colours" });
  private readonly painter: MapPainter;
  private colours: MapColours;
  private focus: number[] = [];
  private inks: Inks = inks();
  private lanes;
  private lanesFrame: Frame | null = null;
  private scene: CurveScene | null = null;
  private hintTimer = 0;
  private overlaysEmpty = false;

  constructor(private readonly context: Context) {
    const { model, index, store } = context;
    this.painter = new MapPainter(model, index);
    this.colours = this.makeColours();
    this.lanes = makeLanes(model, store.state.axis);
    this.build();
    store.on(
      ["axis", "window", "colouring", "selection", "found", "showGiven", "theme"],
      (state, changed) => this.refresh(state, changed),
    );
    store.on(["pointer"], (state) => this.overlays(state));
    this.refresh(store.state, new Set<Key>(["axis", "colouring", "theme"]));
  }

  private makeColours(): MapColours {
    const { state } = this.context.store;
    this.focus = inFocus(this.context.model, state.selection, state.found);
    const { model } = this.context;
    return packColours(
      rectangleColours(model, state.colouring, this.inks.dark),
      this.focus,
      model.rectangles.bySize,
      this.inks,
    );
  }

  private build(): void {
    const { model, signal } = this.context;
    this.curve.setAttribute("aria-label", curveSentence(model));
    this.map.setAttribute(
      "aria-label",
      `Address map of ${count(model.rectangles.stays)} stays in ${mib(model.arena)}. Arrows move, Enter follows a tensor, plus and minus zoom.`,
    );
    replace(byId("memory-toolbar"), memoryControls(this.context, this));
    replace(
      byId("memory-charts"),
      h("div", { class: "chart curve-box" }, this.curve, this.curveTop),
      h("div", { class: "chart lanes-box" }, this.lanesCanvas),
      h("div", { class: "chart map-box" }, this.map, this.mapTop, this.hint),
      h("p", { class: "axis-name" }, h("span", { id: "axis-name" })),
    );
    replace(byId("memory-legend"), this.legend);
    replace(byId("memory-tables"), memoryTables(this.context));
    for (const canvas of [this.curve, this.map]) this.listenTo(canvas);
    this.lanesCanvas.addEventListener("pointermove", (event) => this.overLanes(event));
    this.lanesCanvas.addEventListener("pointerleave", () => this.leave());
    const observer = new ResizeObserver(() => this.draw(this.context.store.state));
    observer.observe(byId("memory-charts"));
    signal.addEventListener("abort", () => observer.disconnect());
  }

  setAxis(axis: Axis): void {
    const { model, store } = this.context;
    if (axis === store.state.axis) return;
    const convert = (x: number) =>
      axis === "runs" ? runsFromSeconds(model, x) : secondsFromRuns(model, x);
    const { x, y } = store.state.window;
    const span = { low: convert(x.low), high: convert(x.high) };
    const full = axisLength(model, axis);
    const wasWhole = x.low <= 0 && x.high >= axisLength(model, store.state.axis) * 0.9999;
    store.set({
      axis,
      pointer: null,
      window: {
        x: wasWhole ? { low: 0, high: full } : clampSpan(span, full, leastSpan(model, axis)),
        y,
      },
    });
  }

  private listenTo(canvas: HTMLCanvasElement): void {
    listen(canvas, {
      change: (change) => this.change(canvas, change),
      refused: () => this.showHint(),
    });
    canvas.addEventListener("pointermove", (event) => this.point(canvas, event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.click(canvas, event));
    canvas.addEventListener("dblclick", () => this.showSelection());
    canvas.addEventListener("keydown", (event) => this.key(canvas, event));
    canvas.addEventListener("blur", () => this.leave());
  }

  private leave(): void {
    this.context.tip.hide();
    this.context.store.set({ pointer: null });
  }

  private showHint(): void {
    this.hint.classList.add("shown");
    clearTimeout(this.hintTimer);
    this.hintTimer = window.setTimeout(() => this.hint.classList.remove("shown"), 1400);
  }

  // The plot of a canvas in its pixels.
  private plot(canvas: HTMLCanvasElement) {
    const width = canvas.clientWidth,
      height = canvas.clientHeight;
    const left = this.scene?.frame.left ?? MARGIN_LEFT,
      right = Math.max(left + 1, width - 10);
    return { left, right, top: MAP_ROOM.top, bottom: height - MAP_ROOM.bottom };
  }

  private change(canvas: HTMLCanvasElement, c: Change): void {
    const { model, store } = this.context;
    const { axis, window: now } = store.state;
    const plot = this.plot(canvas);
    const full = axisLength(model, axis);
    const onMap = canvas === this.map;
    let { x, y } = now;
    if (c.factor !== 1) {
      const ax = (c.x - plot.left) / (plot.right - plot.left),
        ay = (plot.bottom - c.y) / (plot.bottom - plot.top);
      if (!c.keys.alt) x = zoomSpan(x, c.factor, ax, full, leastSpan(model, axis));
      if (onMap && !c.keys.shift) y = zoomSpan(y, c.factor, ay, model.arena, 256);
    } else {
      x = panSpan(x, (-c.dx * (x.high - x.low)) / (plot.right - plot.left), full);
      if (onMap) y = panSpan(y, (c.dy * (y.high - y.low)) / (plot.bottom - plot.top), model.arena);
    }
    this.context.tip.hide();
    store.set({ window: { x, y }, pointer: null });
  }

  zoomBy(factor: number): void {
    const { model, store } = this.context;
    const { axis, window: now, pointer } = store.state;
    const at = pointer ? (pointer.x - now.x.low) / (now.x.high - now.x.low) : 0.5;
    store.set({
      window: {
        x: zoomSpan(
          now.x,
          factor,
          Math.min(1, Math.max(0, at)),
          axisLength(model, axis),
          leastSpan(model, axis),
        ),
        y: now.y,
      },
    });
  }

  showRange([low, high]: [number, number], margin: number): void {
    const { model, store } = this.context;
    const { axis } = store.state;
    store.set({
      window: {
        x: around({ low, high }, margin, axisLength(model, axis), leastSpan(model, axis)),
        y: store.state.window.y,
      },
    });
  }

  // Brings what is chosen into the window: all stays of a tensor, the runs of an op.
  showSelection(selection: Selection | null = this.context.store.state.selection): void {
    const { model, store } = this.context;
    if (!selection) return;
    const { axis } = store.state;
    if (selection.kind === "run") return this.showRange(rangeOfRun(model, axis, selection.id), 12);
    const { low, high } = model.rectangles;
    const list = inFocus(model, selection, null);
    if (list.length === 0) return;
    const r = model.rectangles;
    const begin = axis === "runs" ? r.runBegin : r.secondsBegin,
      end = axis === "runs" ? r.runEnd : r.secondsEnd;
    const span = (from: Float64Array, to: Float64Array): Span => ({
      low: list.reduce((a, i) => Math.min(a, from[i]), Infinity),
      high: list.reduce((a, i) => Math.max(a, to[i]), -Infinity),
    });
    store.set({
      window: {
        x: around(span(begin, end), 0.12, axisLength(model, axis), leastSpan(model, axis)),
        y: around(span(low, high), 0.6, model.arena, 256),
      },
    });
  }

  private find(
    canvas: HTMLCanvasElement,
    px: number,
    py: number,
  ): { x: number; rectangle: number } {
    const { model, index, store } = this.context;
    const { axis, window: now } = store.state;
    const plot = this.plot(canvas);
    const perX = (now.x.high - now.x.low) / (plot.right - plot.left),
      perY = (now.y.high - now.y.low) / (plot.bottom - plot.top);
    const x = Math.min(now.x.high, Math.max(now.x.low, now.x.low + (px - plot.left) * perX));
    if (canvas !== this.map) return { x, rectangle: -1 };
    const y = now.y.low + (plot.bottom - py) * perY;
    return { x, rectangle: pick(index, model, axis, x, y, perX * REACH, perY * REACH) };
  }

  private point(canvas: HTMLCanvasElement, event: PointerEvent): void {
    if (event.buttons !== 0) return;
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left,
      py = event.clientY - box.top;
    const plot = this.plot(canvas);
    if (px < plot.left - 2 || px > plot.right + 2) return this.leave();
    const pointer = this.find(canvas, px, py);
    this.context.store.set({ pointer });
    this.tell(pointer, event.clientX, event.clientY);
  }

  private tell(pointer: { x: number; rectangle: number }, x: number, y: number): void {
    const { model, store } = this.context;
    const content =
      pointer.rectangle >= 0
        ? rectangleTip(model, store.state.axis, pointer.rectangle)
        : runTip(model, store.state.axis, pointer.x);
    this.context.tip.show(content, x, y);
  }

  private click(canvas: HTMLCanvasElement, event: MouseEvent): void {
    // What the tip tells of is what is chosen; a touch has no pointer before it.
    const box = canvas.getBoundingClientRect();
    const pointer =
      this.context.store.state.pointer ??
      this.find(canvas, event.clientX - box.left, event.clientY - box.top);
    this.choosePointer(pointer, canvas === this.map);
  }

  private choosePointer(pointer: { x: number; rectangle: number }, onMap: boolean): void {
    const { model, store, choose } = this.context;
    const { rectangles: r } = model;
    if (pointer.rectangle >= 0) {
      const tensor = r.tensor[pointer.rectangle];
      choose(
        tensor >= 0 ? { kind: "tensor", id: tensor } : { kind: "op", id: r.op[pointer.rectangle] },
      );
    } else if (onMap && store.state.selection) choose(null);
    else choose({ kind: "run", id: runAt(model, store.state.axis, pointer.x) });
  }

  private key(canvas: HTMLCanvasElement, event: KeyboardEvent): void {
    const { model, store } = this.context;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { axis, window: now } = store.state;
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
    };
    const move = steps[event.key];
    if (move && event.shiftKey) {
      const x = panSpan(now.x, (move[0] * (now.x.high - now.x.low)) / 5, axisLength(model, axis));
      const y = panSpan(now.y, (move[1] * (now.y.high - now.y.low)) / 5, model.arena);
      store.set({ window: { x, y } });
    } else if (move) this.step(canvas, move[0], move[1]);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.6);
    else if (event.key === "-") this.zoomBy(1 / 1.6);
    else if (event.key === "0") store.set({ window: wholeWindow(model, axis) });
    else if (event.key === "Enter" && store.state.pointer)
      this.choosePointer(store.state.pointer, canvas === this.map);
    else return;
    event.preventDefault();
  }

  // Moves the pointer by a run, or on the map to the next rectangle above or below.
  private step(canvas: HTMLCanvasElement, dx: number, dy: number): void {
    const { model, store, announce } = this.context;
    const { axis } = store.state;
    const r = model.rectangles;
    const before = store.state.pointer;
    const run = before
      ? Math.min(model.runs - 1, Math.max(0, runAt(model, axis, before.x) + dx))
      : model.peakRun;
    const [begin, end] = rangeOfRun(model, axis, run);
    const x = (begin + end) / 2;
    let rectangle = -1;
    if (canvas === this.map) {
      const here = this.presentByAddress(run);
      const last = before ? before.rectangle : -1;
      const address = last >= 0 ? r.low[last] : 0;
      let at = here.findIndex((i) => r.high[i] > address);
      if (at < 0) at = here.length - 1;
      rectangle = here[Math.min(here.length - 1, Math.max(0, at + (last >= 0 ? dy : 0)))] ?? -1;
    }
    this.reveal(x);
    store.set({ pointer: { x, rectangle } });
    announce(rectangle >= 0 ? rectangleSentence(model, axis, rectangle) : runSentence(model, run));
    const box = canvas.getBoundingClientRect(),
      plot = this.plot(canvas),
      { x: span } = store.state.window;
    const px = plot.left + ((x - span.low) / (span.high - span.low)) * (plot.right - plot.left);
    this.tell(
      { x, rectangle },
      box.left + px,
      box.top + (canvas === this.map ? 40 : box.height / 2),
    );
  }

  private presentByAddress(run: number): number[] {
    const { low, runBegin, runEnd, count: all } = this.context.model.rectangles;
    const here: number[] = [];
    for (let i = 0; i < all; ++i) if (runBegin[i] <= run && run < runEnd[i]) here.push(i);
    return here.sort((a, b) => low[a] - low[b]);
  }

  // Pans so that x is in the window.
  private reveal(x: number): void {
    const { model, store } = this.context;
    const { x: span, y } = store.state.window;
    if (x >= span.low && x <= span.high) return;
    store.set({
      window: {
        x: panSpan(span, x - (span.low + span.high) / 2, axisLength(model, store.state.axis)),
        y,
      },
    });
  }

  private overLanes(event: PointerEvent): void {
    const { store, tip } = this.context;
    if (!this.lanesFrame) return;
    const box = this.lanesCanvas.getBoundingClientRect();
    const text = tellLane(
      this.lanesFrame,
      this.lanes,
      store.state,
      event.clientX - box.left,
      event.clientY - box.top,
    );
    if (text) tip.show(text, event.clientX, event.clientY);
    else tip.hide();
  }

  private axisName(axis: Axis): string {
    const { copying_seconds } = this.context.model.plan.summary;
    if (axis === "runs") return "steps, in the order of the plan";
    return copying_seconds > 0
      ? `predicted seconds; copies beside ops slow these by ${time(copying_seconds)} more`
      : "predicted seconds";
  }

  private refresh(state: State, changed: ReadonlySet<Key>): void {
    const { model } = this.context;
    if (changed.has("theme")) this.inks = inks();
    if (changed.has("axis")) {
      this.lanes = makeLanes(model, state.axis);
      byId("axis-name").textContent = this.axisName(state.axis);
    }
    this.lanesCanvas.style.height = `${heightOf(this.lanes)}px`;
    if (["colouring", "theme", "selection", "found"].some((key) => changed.has(key as Key)))
      this.colours = this.makeColours();
    if (["colouring", "theme", "showGiven"].some((key) => changed.has(key as Key)))
      this.drawLegend(state);
    this.draw(state);
  }

  private drawLegend(state: State): void {
    const entries = legendOf(this.context.model, state.colouring, this.inks.dark);
    const swatch = (colour: string) => {
      const box = h("span", { class: "swatch" });
      box.style.background = colour;
      return box;
    };
    const { broken } = curveHeights(this.context.model, state.showGiven);
    replace(
      this.legend,
      entries.map((entry) =>
        h(
          "li",
          {},
          swatch(entry.colour),
          isTerm(entry.key) ? term(entry.key, entry.name) : entry.name,
        ),
      ),
      state.showGiven &&
        this.context.model.given.length > 0 &&
        h("li", {}, h("span", { class: "line-key given" }), term("before")),
      broken !== null &&
        h("li", { class: "broken" }, `\u2248 above ${mib(broken)} the scale is smaller`),
      state.colouring === "module" &&
        h(
          "li",
          {},
          "Modules that follow one another differ in colour; point at a stay to read its module.",
        ),
      this.context.model.plan.transfers.tensor.length > 0 &&
        h("li", {}, h("span", { class: "swatch hatched" }), "being copied"),
      h("li", {}, h("span", { class: "notch", "aria-hidden": "true" }, "\u25b8"), term("inPlace")),
    );
  }

  private draw(state: State): void {
    if (this.curve.clientWidth === 0) return;
    const { model } = this.context;
    this.scene = drawCurve(this.curve, model, state, this.inks);
    this.lanesFrame = drawLanes(this.lanesCanvas, this.lanes, state, this.inks);
    const scene = this.painter.draw(this.map, state, this.colours, this.focus, this.inks);
    this.map.dataset["drawn"] = String(scene.drawn);
    this.map.dataset["frames"] = String(Number(this.map.dataset["frames"] ?? 0) + 1);
    this.map.dataset["window"] = [
      state.window.x.low,
      state.window.x.high,
      state.window.y.low,
      state.window.y.high,
    ].join(" ");
    this.overlays(state);
  }

  // What lies over the charts; where there is nothing now and was nothing before, nothing is drawn.
  private overlays(state: State): void {
    const empty = !state.pointer && !state.selection && this.focus.length === 0;
    if (empty && this.overlaysEmpty) return;
    this.overlaysEmpty = empty;
    drawCurveOverlay(this.curveTop, this.context.model, state, this.inks);
    drawMapOverlay(this.mapTop, this.context.model, state, this.focus, this.inks);
  }
}
