// The module tree as a table that opens: bytes at the peak, time paid, policy; below a module its
// tensors with type, shape, size, and where in the source they are made.

import type { Context } from "./context.ts";
import { h, type Child } from "./dom.ts";
import { count, milliseconds, percent } from "./format.ts";
import { groupOf } from "./groups.ts";
import { tensorLink } from "./memory_tables.ts";
import { foldEqual, moduleTree, type ModuleNode } from "./modules.ts";
import { isTerm, plainName, term } from "./terms.ts";
import { size } from "./tip.ts";

const MOST_ROWS = 60; // tensors of a module before "and N more"

function bar(share: number): HTMLElement {
  const inner = h("span", { class: "fill" });
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "share", "aria-hidden": "true" }, inner);
}

function policyChip(policy: string): HTMLElement {
  const key = { recomputed: "recompute", moved: "move", split: "split" }[policy];
  return h("span", { class: `chip ${policy}` }, key && isTerm(key) ? term(key, policy) : policy);
}

function indent(cell: HTMLElement, depth: number): HTMLElement {
  cell.style.paddingLeft = `${depth * 1.1}rem`;
  return cell;
}

function tensorRow(context: Context, tensor: number, depth: number): HTMLElement {
  const { plan } = context.model;
  const { tensors, ops } = plan;
  const maker = tensors.made_by[tensor];
  const source = maker >= 0 ? ops.source?.[maker] : null;
  const again = maker >= 0 && groupOf(context.model.runsOfOp, maker).length > 1;
  const policy = tensors.slow_tier[tensor] >= 0 ? "moved" : again ? "recomputed" : tensors.resident[tensor] ? "resident" : "kept";
  return h("tr", { class: "tensor" },
    indent(h("th", { scope: "row", class: "text" }, tensorLink(context, tensor), source ? h("span", { class: "note" }, source) : null), depth + 1),
    h("td", { class: "number" }, size(tensors.bytes[tensor])), h("td", {}), h("td", {}), h("td", {}, policy),
    h("td", { class: "text" }, tensors.shape[tensor], " ", plainName(plan.categories[tensors.category[tensor]])));
}

function moduleRow(context: Context, node: ModuleNode, depth: number, peak: number): HTMLElement[] {
  const opens = node.children.length > 0 || node.rows.length > 0;
  const button = h("button", { type: "button", class: "toggle", "aria-expanded": "false", disabled: !opens, "aria-label": `open ${node.path || node.name}`, "data-path": node.path },
    h("span", { "aria-hidden": "true" }, opens ? "\u25b8" : "\u00b7"));
  const module = context.model.plan.modules.indexOf(node.path);
  const choose = () => context.choose({ kind: "module", id: module });
  const name: Child = module >= 0 && node.times === 1
    ? h("button", { type: "button", class: "link", onclick: choose }, node.name) : h("span", {}, node.name);
  const row = h("tr", {},
    indent(h("th", { scope: "row", class: "text" }, h("span", { class: "branch" }, button, h("span", {}, name, node.times > 1 && h("span", { class: "times" }, ` \u00d7 ${count(node.times)}`)))), depth),
    h("td", { class: "number" }, size(node.bytes), bar(node.bytes * node.times / (peak || 1))),
    h("td", { class: "number" }, percent(node.bytes * node.times / (peak || 1))),
    h("td", { class: "number" }, node.seconds > 0 ? milliseconds(node.seconds) : "\u2013"),
    h("td", {}, node.policies.map(policyChip)),
    h("td", { class: "text" }, node.times > 1 && h("span", { class: "note" }, "each of them")));
  let below: HTMLElement[] | null = null;
  const close = (rows: HTMLElement[]) => rows.forEach((one) => {
    one.querySelector<HTMLElement>(".toggle[aria-expanded=true]")?.click();
    one.remove();
  });
  button.addEventListener("click", () => {
    if (below) {
      close(below);
      below = null;
    } else {
      below = childRows(context, node, depth, peak);
      row.after(...below);
    }
    button.setAttribute("aria-expanded", String(below !== null));
  });
  return [row];
}

function childRows(context: Context, node: ModuleNode, depth: number, peak: number): HTMLElement[] {
  const rows = node.children.flatMap((child) => moduleRow(context, child, depth + 1, peak));
  const { bytes } = context.model.plan.tensors;
  const tensors = [...node.rows].sort((a, b) => bytes[b] - bytes[a]);
  tensors.slice(0, MOST_ROWS).forEach((tensor) => rows.push(tensorRow(context, tensor, depth + 1)));
  if (tensors.length > MOST_ROWS) {
    rows.push(h("tr", { class: "tensor" }, h("td", { colspan: 6, class: "more-rows" }, `and ${count(tensors.length - MOST_ROWS)} smaller ones; the search finds them`)));
  }
  return rows;
}

// Opens the way down for as long as one module holds most of the bytes, so that the first look is at
// parts that differ.
function openHeaviest(body: HTMLElement, root: ModuleNode): void {
  for (let node = root; ;) {
    const heavy = node.children.find((child) => child.bytes * child.times > 0.7 * root.bytes);
    if (!heavy || heavy.times > 1 || heavy.children.length === 0) return;
    body.querySelector<HTMLElement>(`.toggle[data-path="${CSS.escape(heavy.path)}"]`)?.click();
    node = heavy;
  }
}

export function modulesContent(context: Context): Child | null {
  const { plan } = context.model;
  if (plan.module_tree.length === 0) return null;
  const root = foldEqual(moduleTree(plan.module_tree));
  const peak = plan.summary.peak_bytes;
  const body = h("tbody", {}, root.children.flatMap((child) => moduleRow(context, child, 0, peak)));
  openHeaviest(body, root);
  return h("div", { class: "table modules" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "modules" },
    h("table", {}, h("caption", {}, "What each module holds at the peak and what it pays; modules that are equal are folded into one row"),
      h("thead", {}, h("tr", {},
        h("th", { scope: "col", class: "text" }, "module"), h("th", { scope: "col", class: "number" }, "at the ", term("peak")),
        h("th", { scope: "col", class: "number" }, "share"), h("th", { scope: "col", class: "number" }, term("paid"), ", ms"),
        h("th", { scope: "col", class: "text" }, term("policy")), h("th", { scope: "col", class: "text" }, "shape"))), body)));
}
