// The end of the page: where the plan comes from, what the words mean, whose code the page uses.

import type { Context } from "./context.ts";
import { byId, h, replace } from "./dom.ts";
import { TERMS } from "./terms.ts";

function plainValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function drawEnd(context: Context): void {
  const { plan } = context.model;
  const rows = [
    ["costs", plan.summary.costs],
    ["alignment", `${plan.summary.alignment_bytes} bytes`],
    ...Object.entries(plan.provenance ?? {}).map(([name, value]) => [
      name.replaceAll("_", " "),
      plainValue(value),
    ]),
  ];
  replace(
    byId("end"),
    h(
      "details",
      {},
      h("summary", {}, "Where this plan comes from"),
      h(
        "dl",
        { class: "facts wide" },
        rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
      ),
    ),
    h(
      "details",
      {},
      h("summary", {}, "What the words mean"),
      h(
        "dl",
        { class: "facts wide" },
        Object.values(TERMS).map(([word, meaning]) =>
          h("div", {}, h("dt", {}, word), h("dd", {}, meaning)),
        ),
      ),
    ),
    h(
      "details",
      {},
      h("summary", {}, "Licences of the libraries in this page"),
      h("pre", { tabindex: "0" }, byId("licences").textContent ?? ""),
    ),
  );
}
