// This plan beside another: both curves over one time, their numbers side by side, and what each
// does that the other does not.

import { differences, totalsOf, type Difference } from "./beside.ts";
import { makeColumns } from "./columns.ts";
import type { Context } from "./context.ts";
import { h, type Child } from "./dom.ts";
import { count, mib, milliseconds, signedPercent, time } from "./format.ts";
import { drawSizeAxis, drawTimeAxis, fit, scaleY, type Frame } from "./frame.ts";
import { share } from "./header_view.ts";
import { axisLength, makeModel, type Axis, type Model } from "./model.ts";
import { css, parseHex } from "./palette.ts";
import { table } from "./table.ts";
import { term } from "./terms.ts";
import { size } from "./tip.ts";
import { inks } from "./theme.ts";

const OURS = ["#0072b2", "#3b94d1"], THEIRS = ["#d55e00", "#e3722a"]; // light, dark ground

// Which plan stands beside the one that is shown; -1: none.
export function besideIndex(context: Context): number {
  const { report, store } = context;
  if (report.plans.length < 2) return -1;
  const shown = store.state.planIndex;
  return shown === 0 ? 1 : 0;
}

function line(frame: Frame, model: Model, axis: Axis, full: number, top: number, colour: string, dash: number[]): void {
  const { context } = frame;
  const begin = axis === "runs" ? model.counting.subarray(0, model.runs) : model.runBegin;
  const columns = makeColumns(begin, axisLength(model, axis), model.totals, 0, full, frame.right - frame.left);
  const y = scaleY(frame, { low: 0, high: top });
  context.beginPath();
  for (const c of columns) {
    context.lineTo(frame.left + c.x0, y(model.totals[c.run]));
    context.lineTo(frame.left + c.x1, y(model.totals[c.run]));
  }
  context.setLineDash([]);
  context.lineWidth = 2;
  context.strokeStyle = colour;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

function drawBoth(canvas: HTMLCanvasElement, here: Model, there: Model, axis: Axis): void {
  const ink = inks();
  const frame = fit(canvas, 18, 24);
  const most = (model: Model) => model.totals.reduce((a, b) => Math.max(a, b), 1);
  const top = Math.max(most(here), most(there)) * 1.06;
  const full = Math.max(axisLength(here, axis), axisLength(there, axis));
  drawSizeAxis(frame, { low: 0, high: top }, ink, true);
  line(frame, there, axis, full, top, css(parseHex(THEIRS[ink.dark ? 1 : 0])), [6, 3]);
  line(frame, here, axis, full, top, css(parseHex(OURS[ink.dark ? 1 : 0])), []);
  drawTimeAxis(frame, { low: 0, high: full }, axis, ink);
}

function numbers(context: Context, there: Model): HTMLElement {
  const here = context.model;
  const a = here.plan.summary, b = there.plan.summary, x = totalsOf(here.plan), y = totalsOf(there.plan);
  const rows: [Child, Child, Child, string][] = [
    [term("arena"), size(a.arena_bytes), size(b.arena_bytes), signedPercent(share(b.arena_bytes, a.arena_bytes))],
    [term("peak"), size(a.peak_bytes), size(b.peak_bytes), signedPercent(share(b.peak_bytes, a.peak_bytes))],
    [term("predicted"), time(a.predicted_seconds), time(b.predicted_seconds), signedPercent(share(b.predicted_seconds, a.predicted_seconds))],
    [term("timeBound"), time(a.lower_bound_seconds), time(b.lower_bound_seconds), ""],
    [term("exposed"), time(a.exposed_seconds), time(b.exposed_seconds), ""],
    [[term("recompute", "reruns")], `${count(x.reruns)}, ${time(x.rerunSeconds)}`, `${count(y.reruns)}, ${time(y.rerunSeconds)}`, ""],
    [term("move", "moved"), [count(x.moved), ", ", size(x.movedBytes)], [count(y.moved), ", ", size(y.movedBytes)], ""],
  ];
  return h("div", { class: "table" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the two plans in numbers" }, h("table", { class: "numbers-table" },
    h("caption", {}, "The two plans in numbers"),
    h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col", class: "number" }, here.plan.file), h("th", { scope: "col", class: "number" }, there.plan.file), h("th", { scope: "col", class: "number" }, "change"))),
    h("tbody", {}, rows.map(([name, one, two, change]) => h("tr", {}, h("th", { scope: "row", class: "text" }, name),
      h("td", { class: "number" }, one), h("td", { class: "number" }, two), h("td", { class: "number" }, change)))))));
}

export function besideContent(context: Context): Child | null {
  const index = besideIndex(context);
  if (index < 0) return null;
  const here = context.model, there = makeModel(context.report.plans[index]);
  const canvas = h("canvas", { class: "beside", role: "img", "aria-label": `Both curves: ${here.plan.file} with a peak of ${mib(here.plan.summary.peak_bytes)}, ${there.plan.file} with ${mib(there.plan.summary.peak_bytes)}` });
  const draw = () => canvas.clientWidth > 0 && drawBoth(canvas, here, there, context.store.state.axis);
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  context.signal.addEventListener("abort", () => observer.disconnect());
  context.store.on(["theme", "axis"], draw);
  const rows = differences(here.plan, there.plan);
  return [
    h("p", {}, h("span", { class: "line-key ours" }), here.plan.file, " (shown above), and ", h("span", { class: "line-key theirs" }), there.plan.file, ". ",
      h("button", { type: "button", onclick: () => context.showPlan(index) }, `Show ${there.plan.file}`)),
    h("div", { class: "chart" }, canvas),
    numbers(context, there),
    rows.length === 0 ? h("p", {}, "Both plans make the same again and move the same.") : table<Difference>({
      caption: "What one does that the other does not, largest first",
      rows,
      page: 15,
      columns: [
        { name: "op or tensor", key: "name", value: (d) => d.name, cell: (d) => d.name },
        { name: "module", key: "module", value: (d) => d.module, cell: (d) => d.module || "(no module)" },
        { name: "action", key: "action", value: (d) => d.what, cell: (d) => term(d.what === "moved" ? "move" : "recompute", d.what) },
        { name: here.plan.file, key: "here", numeric: true, value: (d) => d.here, cell: (d) => (d.here === 0 ? "\u2013" : `${count(d.here)} \u00d7`) },
        { name: there.plan.file, key: "there", numeric: true, value: (d) => d.there, cell: (d) => (d.there === 0 ? "\u2013" : `${count(d.there)} \u00d7`) },
        { name: "size", key: "size", numeric: true, value: (d) => d.bytes, cell: (d) => size(d.bytes) },
        { name: "time, ms", key: "time", numeric: true, value: (d) => d.seconds, cell: (d) => (d.what === "moved" ? "\u2013" : milliseconds(d.seconds)) },
      ],
    }),
  ];
}
