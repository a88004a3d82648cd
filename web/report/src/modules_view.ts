// The module tree as a table that opens: bytes at the peak, time paid, policy; below a module its
// tensors with type, shape, size, and where in the source they are made.

import type { Context } from "./context.ts";
import { sourceOf } from "./describe.ts";
import { h, type Child } from "./dom.ts";
import { count, milliseconds, typeAndShape } from "./format.ts";
import { breakable, nameAttributes, shownName } from "./names.ts";
import { tensorLink } from "./memory_tables.ts";
import { moduleNodes, type ModuleNode } from "./modules.ts";
import { tableBox } from "./table.ts";
import { plainName, plainPolicy, term } from "./terms.ts";
import { size } from "./tip.ts";

const COLUMNS = 7;
const MOST_ROWS = 60; // tensors of a module before "and N more"

function bar(share: number): HTMLElement {
  const inner = h("span", { class: "fill" });
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "share", "aria-hidden": "true" }, inner);
}

const POLICY_TERMS: Record<string, "recompute" | "move" | "split"> = {
  recomputed: "recompute",
  moved: "move",
  split: "split",
};

function policyChip(policy: string): Child {
  const key = POLICY_TERMS[policy];
  return policy && h("span", { class: "chip" }, key ? term(key, plainPolicy(policy)) : plainPolicy(policy));
}

function indent(cell: HTMLElement, depth: number): HTMLElement {
  cell.style.paddingLeft = `${depth * 1.1}rem`;
  return cell;
}

function tensorRow(context: Context, tensor: number, depth: number): HTMLElement {
  const { plan } = context.model;
  const { tensors } = plan;
  const [type, shape] = typeAndShape(tensors.shape[tensor]);
  return h(
    "tr",
    { class: "tensor" },
    indent(h("th", { scope: "row", class: "text" }, tensorLink(context, tensor)), depth + 1),
    h("td", { class: "number", "data-label": "size" }, size(tensors.bytes[tensor])),
    h(
      "td",
      { class: "text what", colspan: 3 },
      plainName(plan.categories[tensors.category[tensor]]),
      ", ",
      h("span", { class: "type" }, type),
      " ",
      h("span", { class: "shape" }, shape),
    ),
    h(
      "td",
      {},
      policyChip(tensors.resident[tensor] ? "resident" : plan.policies[tensors.policy[tensor]]),
    ),
    h("td", { class: "text source" }, breakable(sourceOf(plan, tensors.made_by[tensor]))),
  );
}

function toggleOf(node: ModuleNode): HTMLElement {
  const { row: told } = node;
  const opens = node.children.length > 0 || told.rows.length > 0;
  return h(
    "button",
    {
      type: "button",
      class: "toggle",
      "aria-expanded": "false",
      disabled: !opens,
      "aria-label": `open ${told.path || node.name}`,
      "data-row": node.index,
    },
    h("span", { "aria-hidden": "true" }, opens ? "\u25b8" : "\u00b7"),
  );
}

function nameOf(context: Context, { row: told, name: text }: ModuleNode): Child {
  if (told.times > 1) return h("span", { title: told.paths.join(", ") }, text);
  const choose = () => context.choose({ kind: "module", path: told.path });
  return h(
    "button",
    { type: "button", class: "link", onclick: choose, ...nameAttributes(text) },
    breakable(shownName(text)),
  );
}

function rowOf(
  context: Context,
  node: ModuleNode,
  depth: number,
  button: HTMLElement,
): HTMLElement {
  const { row: told } = node;
  const peak = context.model.plan.summary.peak_bytes || 1;
  return h(
    "tr",
    { "data-path": told.path },
    indent(
      h(
        "th",
        { scope: "row", class: "text" },
        h(
          "span",
          { class: "branch" },
          button,
          h(
            "span",
            {},
            nameOf(context, node),
            told.times > 1 &&
              h("span", { class: "times" }, ` \u00d7 ${count(told.times)}, all together`),
          ),
        ),
      ),
      depth,
    ),
    h("td", { class: "number", "data-label": "size" }, size(told.bytes)),
    h(
      "td",
      { class: "number", "data-label": "at the peak" },
      size(told.bytes_at_peak),
      bar(told.bytes_at_peak / peak),
    ),
    h("td", { class: "number", "data-label": "time, ms" }, milliseconds(told.seconds)),
    h(
      "td",
      { class: "number", "data-label": "paid, ms" },
      told.paid_seconds > 0 ? milliseconds(told.paid_seconds) : "\u2013",
    ),
    h("td", {}, policyChip(told.policy)),
    h("td", { class: "source" }),
  );
}

// A module's row; its button puts the rows below it into the table and takes them out again.
function moduleRow(context: Context, node: ModuleNode, depth: number): HTMLElement[] {
  const button = toggleOf(node);
  const row = rowOf(context, node, depth, button);
  let below: HTMLElement[] | null = null;
  const close = (rows: HTMLElement[]) =>
    rows.forEach((one) => {
      one.querySelector<HTMLElement>(".toggle[aria-expanded=true]")?.click();
      one.remove();
    });
  button.addEventListener("click", () => {
    if (below) {
      close(below);
      below = null;
    } else {
      below = childRows(context, node, depth);
      row.after(...below);
    }
    button.setAttribute("aria-expanded", String(below !== null));
  });
  return [row];
}

function childRows(context: Context, node: ModuleNode, depth: number): HTMLElement[] {
  const rows = node.children.flatMap((child) => moduleRow(context, child, depth + 1));
  const { bytes } = context.model.plan.tensors;
  const tensors = [...node.row.rows].sort((a, b) => bytes[b] - bytes[a]);
  tensors.slice(0, MOST_ROWS).forEach((tensor) => rows.push(tensorRow(context, tensor, depth + 1)));
  if (tensors.length > MOST_ROWS) {
    rows.push(
      h(
        "tr",
        { class: "tensor" },
        h(
          "td",
          { colspan: COLUMNS, class: "more-rows" },
          `and ${count(tensors.length - MOST_ROWS)} smaller ones; the search finds them`,
        ),
      ),
    );
  }
  return rows;
}

// Opens the way down for as long as one module holds most of the bytes, so that the first look is at
// parts that differ.
function openHeaviest(body: HTMLElement, roots: ModuleNode[]): void {
  const all = roots.reduce((sum, node) => sum + node.row.bytes_at_peak, 0);
  for (let nodes = roots; ; ) {
    const heavy = nodes.find((node) => node.row.bytes_at_peak > 0.7 * all);
    if (!heavy || heavy.children.length === 0) return;
    body.querySelector<HTMLElement>(`.toggle[data-row="${heavy.index}"]`)?.click();
    nodes = heavy.children;
  }
}

export function modulesContent(context: Context): Child | null {
  const { module_tree: tree } = context.model.plan;
  if (tree.length === 0) return null;
  const roots = moduleNodes(tree);
  const body = h(
    "tbody",
    {},
    roots.flatMap((node) => moduleRow(context, node, 0)),
  );
  openHeaviest(body, roots);
  const number = (...name: Child[]) => h("th", { scope: "col", class: "number" }, name);
  const text = (...name: Child[]) => h("th", { scope: "col", class: "text" }, name);
  return tableBox(
    "What each module makes and holds, and what it pays; layers that are equal are folded into one row",
    h(
      "table",
      { class: context.model.plan.sources.length > 1 ? "modules" : "modules no-source" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          text("module"),
          number("size"),
          number("at the ", term("peak")),
          number("time, ms"),
          number(term("paid"), ", ms"),
          text(term("policy")),
          h("th", { scope: "col", class: "text source" }, term("source")),
        ),
      ),
      body,
    ),
  );
}
