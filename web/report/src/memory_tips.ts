// What the tip says over the memory charts: of a rectangle of the address map, of a moment.

import { rectangleTimes, runSentence, whyText } from "./describe.ts";
import { h } from "./dom.ts";
import { exactBytes, mib } from "./format.ts";
import { runAt, type Axis, type Model } from "./model.ts";
import { plainName } from "./terms.ts";

export function rectangleTip(model: Model, axis: Axis, i: number): HTMLElement[] {
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
