// What the tip says over the memory charts: of a rectangle of the address map, of a moment.

import { rectangleTimes, runSentence, whyText } from "./describe.ts";
import { groupOf } from "./groups.ts";
import { h, type Child } from "./dom.ts";
import { count, exactBytes, mib, plural } from "./format.ts";
import { runAt, type Axis, type Model } from "./model.ts";
import { plainName } from "./terms.ts";

const MOST_READERS = 3;

// Who makes a tensor, who reads it, and how often it is made again.
function usesOf(model: Model, tensor: number): string[] {
  const { ops, tensors } = model.plan;
  const maker = tensors.made_by[tensor];
  const readers = [...groupOf(model.readersOfTensor, tensor)].map((op) => ops.name[op]);
  const others = readers.length - MOST_READERS;
  const reruns = maker >= 0 ? groupOf(model.runsOfOp, maker).length - 1 : 0;
  return [
    `made by ${maker >= 0 ? ops.name[maker] : tensors.resident[tensor] ? "nothing: resident" : "nothing in the step"}`,
    `read by ${readers.slice(0, MOST_READERS).join(", ") || "no op"}${others > 0 ? ` and ${count(others)} more` : ""}`,
    ...(reruns > 0 ? [`made again: ${plural(reruns, "rerun")}`] : []),
  ];
}

export function rectangleTip(model: Model, axis: Axis, i: number): Child[] {
  const { plan, rectangles: r } = model;
  const tensor = r.tensor[i],
    bytes = r.high[i] - r.low[i];
  const name = tensor >= 0 ? plan.tensors.name[tensor] : `workspace of ${plan.ops.name[r.op[i]]}`;
  const module =
    tensor >= 0
      ? plan.modules[plan.tensors.module[tensor]]
      : plan.modules[plan.ops.module[r.op[i]]];
  const line = (text: string) => h("div", { class: "tip-line" }, text);
  return [
    h("strong", {}, name),
    line(module || "(no module)"),
    line(`${mib(bytes)} (${exactBytes(bytes)})`),
    line(
      tensor >= 0
        ? `${plainName(plan.categories[r.category[i]])} \u00b7 ${plan.tensors.shape[tensor]}`
        : "scratch of one op",
    ),
    tensor >= 0 ? usesOf(model, tensor).map(line) : [],
    line(`${rectangleTimes(model, axis, i)}${i < r.stays ? ` \u00b7 ${whyText(model, i)}` : ""}`),
  ];
}

export function runTip(model: Model, axis: Axis, x: number): HTMLElement[] {
  const run = runAt(model, axis, x);
  const rows = model.plan.categories
    .map((name, c) => ({ name, bytes: model.plan.curve.planned[c][run] ?? 0 }))
    .filter((row) => row.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  return [
    h("strong", {}, runSentence(model, run)),
    h(
      "table",
      { class: "tip-table" },
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            h("td", {}, plainName(row.name)),
            h("td", { class: "number" }, mib(row.bytes)),
          ),
        ),
      ),
    ),
  ];
}
