// Measured beside predicted, when the plan was run: the step as a whole, each kind of op, each op,
// and a picture of all ops in which what lies on the diagonal was predicted well.

import { scaleLog } from "d3-scale";
import type { Context } from "./context.ts";
import type { KindTime, Measured } from "./data.ts";
import { h, type Child } from "./dom.ts";
import { count, milliseconds, plural, signedPercent, time } from "./format.ts";
import { fit, widest } from "./frame.ts";
import { share } from "./header_view.ts";
import { opLink } from "./memory_tables.ts";
import { nameText } from "./names.ts";
import type { Model } from "./model.ts";
import { css, parseHex } from "./palette.ts";
import { table, tableOnDemand } from "./table.ts";
import { term } from "./terms.ts";
import { inks } from "./theme.ts";

function drawScatter(canvas: HTMLCanvasElement, model: Model): void {
  const ink = inks();
  const predicted = model.plan.ops.seconds,
    measured = model.plan.measured!.op_seconds;
  const pairs = predicted
    .map((p, i) => [p, measured[i] ?? 0] as const)
    .filter(([p, m]) => p > 0 && m > 0);
  if (pairs.length === 0) return;
  const low = pairs.reduce((a, [p, m]) => Math.min(a, p, m), Infinity) / 1.5,
    high = pairs.reduce((a, [p, m]) => Math.max(a, p, m), 0) * 1.5;
  const decades = scaleLog()
    .domain([low, high])
    .ticks(4)
    .filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
  const frame = fit(canvas, 10, 32, widest(canvas, decades.map(time)) + 12);
  const { context } = frame;
  const x = scaleLog().domain([low, high]).range([frame.left, frame.right]),
    y = scaleLog().domain([low, high]).range([frame.bottom, frame.top]);
  const spans: [number, number][] = []; // of the labels, from left to right
  for (const t of decades) {
    context.fillStyle = ink.line;
    context.fillRect(x(t), frame.top, 1, frame.bottom - frame.top);
    context.fillRect(frame.left, y(t), frame.right - frame.left, 1);
    context.fillStyle = ink.muted;
    const half = context.measureText(time(t)).width / 2;
    const middle = Math.max(half, Math.min(x(t), frame.width - half - 1));
    context.textAlign = "center";
    context.textBaseline = "top";
    if (middle - half > (spans.at(-1)?.[1] ?? -1) + 4) {
      context.fillText(time(t), middle, frame.bottom + 4);
      spans.push([middle - half, middle + half]);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(time(t), frame.left - 6, y(t));
  }
  const left = frame.left - 6 - widest(canvas, decades.map(time));
  canvas.dataset["labels"] = JSON.stringify([[left, frame.left - 6], ...spans]); // for tests
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.fillText("predicted", frame.right, frame.height - 2);
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText("measured", frame.left + 6, frame.top);
  context.strokeStyle = ink.muted;
  context.setLineDash([4, 4]);
  context.beginPath();
  context.moveTo(frame.left, frame.bottom);
  context.lineTo(frame.right, frame.top);
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 0.55;
  context.fillStyle = css(parseHex(ink.dark ? "#3b94d1" : "#0072b2"));
  for (const [p, m] of pairs) {
    context.beginPath();
    context.arc(x(p), y(m), 3, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}

function opTable(context: Context): HTMLElement {
  const { model } = context;
  const { ops, kinds, modules } = model.plan;
  const measured = model.plan.measured!.op_seconds;
  const of = (i: number) => measured[i] ?? 0;
  return table<number>({
    caption: "Each op: one run, predicted and measured",
    rows: ops.name.map((_, i) => i).filter((i) => measured[i] !== null),
    sort: { key: "difference", down: true },
    columns: [
      { name: "op", key: "op", value: (i) => ops.name[i], cell: (i) => opLink(context, i) },
      {
        name: "kind",
        key: "kind",
        value: (i) => kinds[ops.kind[i]],
        cell: (i) => kinds[ops.kind[i]],
      },
      {
        name: "module",
        key: "module",
        value: (i) => modules[ops.module[i]] ?? "",
        cell: (i) => nameText(modules[ops.module[i]] || "(no module)"),
      },
      {
        name: "predicted, ms",
        key: "predicted",
        numeric: true,
        value: (i) => ops.seconds[i],
        cell: (i) => milliseconds(ops.seconds[i]),
      },
      {
        name: "measured, ms",
        key: "measured",
        numeric: true,
        value: of,
        cell: (i) => milliseconds(of(i)),
      },
      {
        name: "difference, ms",
        key: "difference",
        numeric: true,
        value: (i) => of(i) - ops.seconds[i],
        cell: (i) => milliseconds(of(i) - ops.seconds[i]),
      },
    ],
  });
}

function kindTable(measured: Measured): HTMLElement {
  return table<KindTime>({
    caption: "All runs by kind of op",
    rows: measured.by_kind,
    sort: { key: "measured", down: true },
    page: 12,
    columns: [
      { name: "kind", key: "kind", value: (k) => k.kind, cell: (k) => k.kind },
      {
        name: "ops",
        key: "ops",
        numeric: true,
        value: (k) => k.ops,
        cell: (k) => count(k.ops),
      },
      {
        name: "predicted, ms",
        key: "predicted",
        numeric: true,
        value: (k) => k.predicted_seconds,
        cell: (k) => milliseconds(k.predicted_seconds),
      },
      {
        name: "measured, ms",
        key: "measured",
        numeric: true,
        value: (k) => k.measured_seconds,
        cell: (k) => milliseconds(k.measured_seconds),
      },
      {
        name: "difference",
        key: "difference",
        numeric: true,
        value: (k) => share(k.measured_seconds, k.predicted_seconds),
        cell: (k) => (k.predicted_seconds > 0 ? signedPercent(share(k.measured_seconds, k.predicted_seconds)) : "\u2013"),
      },
    ],
  });
}

function sentence(measured: Measured, moves: boolean): HTMLElement {
  return h(
    "p",
    {},
    "The step took ",
    h("b", {}, time(measured.step_seconds)),
    " (",
    term("measured"),
    `, ${plural(measured.steps, "step")} on ${measured.device}); predicted were ${time(measured.predicted_seconds)}: `,
    h("b", {}, signedPercent(share(measured.step_seconds, measured.predicted_seconds))),
    ".",
    measured.transfer_seconds > 0 && [
      " Transfers took ",
      time(measured.transfer_seconds),
      ": ",
      h("b", {}, time(measured.hidden_seconds)),
      " hidden behind ops, ",
      h("b", {}, time(measured.exposed_seconds)),
      " ",
      term("exposed", "exposed"),
      ".",
    ],
    moves &&
      measured.transfer_seconds === 0 &&
      " The plan moves tensors, but the profile has no transfers: what they took, hidden or exposed, is not known.",
  );
}

export function measuredContent(context: Context): Child | null {
  const { model } = context;
  const { measured } = model.plan;
  if (!measured) return null;
  const canvas = h("canvas", {
    class: "scatter",
    role: "img",
    "aria-label":
      "Measured against predicted time of each op; the tables below have the same numbers",
  });
  const draw = () => canvas.clientWidth > 0 && drawScatter(canvas, model);
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  context.signal.addEventListener("abort", () => observer.disconnect());
  context.store.on(["theme"], draw);
  return [
    sentence(measured, model.plan.transfers.tensor.length > 0),
    h("div", { class: "two" }, h("div", { class: "chart" }, canvas), kindTable(measured)),
    tableOnDemand(
      `Each op as a table (${count(measured.op_seconds.filter((s) => s !== null).length)})`,
      () => opTable(context),
    ),
  ];
}
