// The first plan beside the second: both curves over one time, their numbers side by side, and what
// each does that the other does not.

import { makeColumns } from "./columns.ts";
import type { Context } from "./context.ts";
import { h, type Child } from "./dom.ts";
import { count, mib, milliseconds, plural, signedPercent, time } from "./format.ts";
import { drawSizeAxis, drawTimeAxis, fit, scaleY, type Frame } from "./frame.ts";
import { share } from "./header_view.ts";
import { tensorLink } from "./memory_tables.ts";
import { axisLength, makeModel, type Axis, type Model } from "./model.ts";
import { nameText } from "./names.ts";
import { css, parseHex } from "./palette.ts";
import { table, tableBox } from "./table.ts";
import { plainPolicy, term } from "./terms.ts";
import { size } from "./tip.ts";
import { inks } from "./theme.ts";

const OURS = ["#0072b2", "#3b94d1"],
  THEIRS = ["#d55e00", "#e3722a"]; // light, dark ground

// Where a plan ends on the axis: by seconds its predicted time, which is later than its last step
// where copies beside ops slow these.
export function endOf(model: Model, axis: Axis): number {
  const length = axisLength(model, axis);
  return axis === "runs" ? length : Math.max(length, model.plan.summary.predicted_seconds);
}

// What the curves leave out, in words; none where they leave out nothing.
export function copyingNote(models: readonly Model[]): string {
  const slowed = models
    .map(({ plan: { file, summary: s } }) => ({ file, s }))
    .filter(({ s }) => s.copying_seconds > 0)
    .map(
      ({ file, s }) =>
        `${file} takes ${time(s.predicted_seconds)}: copies beside its ops slow these by ${time(s.copying_seconds)} more than its curve shows`,
    );
  return slowed.length > 0 ? `${slowed.join("; ")}. Dotted: from the curve to the end.` : "";
}

function line(
  frame: Frame,
  model: Model,
  axis: Axis,
  full: number,
  top: number,
  colour: string,
  dash: number[],
): void {
  const { context } = frame;
  const begin = axis === "runs" ? model.counting.subarray(0, model.runs) : model.runBegin;
  const columns = makeColumns(
    begin,
    axisLength(model, axis),
    model.totals,
    0,
    full,
    frame.right - frame.left,
  );
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
  const last = columns[columns.length - 1];
  const end = frame.left + (endOf(model, axis) / full) * (frame.right - frame.left);
  if (last && end > frame.left + last.x1 + 1) {
    const at = y(model.totals[last.run]);
    context.setLineDash([1.5, 3]);
    context.beginPath();
    context.moveTo(frame.left + last.x1, at);
    context.lineTo(end, at);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(end, at - 6);
    context.lineTo(end, at + 6);
    context.stroke();
  }
  context.setLineDash([]);
}

function drawBoth(canvas: HTMLCanvasElement, here: Model, there: Model, axis: Axis): void {
  const ink = inks();
  const frame = fit(canvas, 18, 24);
  const most = (model: Model) => model.totals.reduce((a, b) => Math.max(a, b), 1);
  const top = Math.max(most(here), most(there)) * 1.06;
  const full = Math.max(endOf(here, axis), endOf(there, axis));
  canvas.dataset["end"] = String(full); // for tests
  drawSizeAxis(frame, { low: 0, high: top }, ink, true);
  line(frame, there, axis, full, top, css(parseHex(THEIRS[ink.dark ? 1 : 0])), [6, 3]);
  line(frame, here, axis, full, top, css(parseHex(OURS[ink.dark ? 1 : 0])), []);
  drawTimeAxis(frame, { low: 0, high: full }, axis, ink);
}

interface Both {
  here: Model; // the first plan of the report
  there: Model; // the one beside it
}

function numbers({ here, there }: Both): HTMLElement {
  const a = here.plan.summary,
    b = there.plan.summary;
  const change = (x: number, y: number) => (x > 0 ? signedPercent(share(y, x)) : "");
  const rows: [Child, Child, Child, string][] = [
    [term("arena"), size(a.arena_bytes), size(b.arena_bytes), change(a.arena_bytes, b.arena_bytes)],
    [term("peak"), size(a.peak_bytes), size(b.peak_bytes), change(a.peak_bytes, b.peak_bytes)],
    [
      term("predicted"),
      time(a.predicted_seconds),
      time(b.predicted_seconds),
      change(a.predicted_seconds, b.predicted_seconds),
    ],
    [term("timeBound"), time(a.lower_bound_seconds), time(b.lower_bound_seconds), ""],
    [term("exposed"), time(a.exposed_seconds), time(b.exposed_seconds), ""],
    [term("recompute", "reruns"), count(a.reruns), count(b.reruns), ""],
    [term("move", "moved out"), size(a.stored_bytes), size(b.stored_bytes), ""],
  ];
  return tableBox(
    "The two plans in numbers",
    h(
      "table",
      { class: "numbers-table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td", {}),
          h("th", { scope: "col", class: "number" }, here.plan.file),
          h("th", { scope: "col", class: "number" }, there.plan.file),
          h("th", { scope: "col", class: "number" }, "change"),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([name, one, two, third]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", class: "text" }, name),
            h("td", { class: "number", "data-label": here.plan.file }, one),
            h("td", { class: "number", "data-label": there.plan.file }, two),
            h("td", { class: "number", "data-label": "change" }, third),
          ),
        ),
      ),
    ),
  );
}

interface Difference {
  name: string;
  module: string;
  bytes: number;
  policies: [string, string];
  seconds: [number, number];
}

function differencesOf(context: Context, { here, there }: Both): Difference[] {
  const { rows } = context.report.beside!;
  const word = (model: Model, policy: number) =>
    policy < 0 ? "not there" : plainPolicy(model.plan.policies[policy]);
  return rows.name.map((name, i) => ({
    name,
    module: rows.module[i] || "(no module)",
    bytes: rows.bytes[i],
    seconds: [rows.seconds[0][i], rows.seconds[1][i]],
    policies: [word(here, rows.policy[0][i]), word(there, rows.policy[1][i])],
  }));
}

function differenceTable(context: Context, both: Both): HTMLElement {
  const { here, there } = both;
  const paid = (seconds: number) => (seconds > 0 ? milliseconds(seconds) : "\u2013");
  const shown = context.model.plan;
  const link = (d: Difference) => {
    const tensor = shown.tensors.name.indexOf(d.name);
    return tensor >= 0 ? tensorLink(context, tensor) : nameText(d.name);
  };
  return table<Difference>({
    caption: `Tensors that the plans treat differently, largest first; ${plural(context.report.beside!.same, "other is", "others are")} treated alike`,
    rows: differencesOf(context, both),
    page: 15,
    columns: [
      { name: "tensor", key: "name", value: (d) => d.name, cell: link },
      { name: "module", key: "module", value: (d) => d.module, cell: (d) => nameText(d.module) },
      {
        name: "size",
        key: "size",
        numeric: true,
        value: (d) => d.bytes,
        cell: (d) => size(d.bytes),
      },
      {
        name: here.plan.file,
        key: "here",
        value: (d) => d.policies[0],
        cell: (d) => d.policies[0],
      },
      {
        name: "paid, ms",
        key: "paid here",
        numeric: true,
        value: (d) => d.seconds[0],
        cell: (d) => paid(d.seconds[0]),
      },
      {
        name: there.plan.file,
        key: "there",
        value: (d) => d.policies[1],
        cell: (d) => d.policies[1],
      },
      {
        name: "paid, ms",
        key: "paid there",
        numeric: true,
        value: (d) => d.seconds[1],
        cell: (d) => paid(d.seconds[1]),
      },
    ],
  });
}

export function besideContent(context: Context): Child | null {
  const { report, store } = context;
  if (!report.beside || report.plans.length < 2) return null;
  const modelOf = (index: number) =>
    index === store.state.planIndex ? context.model : makeModel(report.plans[index]);
  const both: Both = { here: modelOf(0), there: modelOf(1) };
  const { here, there } = both;
  const canvas = h("canvas", {
    class: "beside",
    role: "img",
    "aria-label": `Both curves: ${here.plan.file} with a peak of ${mib(here.plan.summary.peak_bytes)}, ${there.plan.file} with ${mib(there.plan.summary.peak_bytes)}`,
  });
  const note = h("p", { class: "note" }, copyingNote([here, there]));
  const draw = () => {
    note.hidden = store.state.axis === "runs";
    if (canvas.clientWidth > 0) drawBoth(canvas, here, there, store.state.axis);
  };
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  context.signal.addEventListener("abort", () => observer.disconnect());
  store.on(["theme", "axis"], draw);
  const other = store.state.planIndex === 1 ? 0 : 1;
  return [
    h(
      "p",
      {},
      h("span", { class: "line-key ours" }),
      here.plan.file,
      " and ",
      h("span", { class: "line-key theirs" }),
      there.plan.file,
      ". ",
      h(
        "button",
        { type: "button", onclick: () => context.showPlan(other) },
        `Show ${report.plans[other].file} above`,
      ),
    ),
    h("div", { class: "chart" }, canvas),
    note.textContent ? note : null,
    numbers(both),
    report.beside.rows.name.length > 0
      ? differenceTable(context, both)
      : h("p", {}, "Both plans treat every tensor alike."),
  ];
}
