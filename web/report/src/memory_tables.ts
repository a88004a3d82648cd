// The memory section as tables: the curve step by step, the address map stay by stay, the transfers,
// and what is present at the peak. They are made when they are opened.

import type { Context } from "./context.ts";
import { moduleName, runName, whyText } from "./describe.ts";
import { h, type Child } from "./dom.ts";
import { breakable, nameAttributes, nameText, shownName } from "./names.ts";
import { count, milliseconds, percent, time } from "./format.ts";
import { plainName, term } from "./terms.ts";
import { table, tableOnDemand, type Column } from "./table.ts";
import { size } from "./tip.ts";

function link(name: string, choose: () => void): HTMLElement {
  return h(
    "button",
    { type: "button", class: "link", onclick: choose, ...nameAttributes(name) },
    breakable(shownName(name)),
  );
}

// A button that follows a tensor, or an op to its tensors.
export function tensorLink(context: Context, tensor: number): HTMLElement {
  const name = context.model.plan.tensors.name[tensor] || "(no name)";
  return link(name, () => context.choose({ kind: "tensor", id: tensor }, true));
}

export function opLink(context: Context, op: number, text?: string): HTMLElement {
  const name = text ?? (context.model.plan.ops.name[op] || "(no name)");
  return link(name, () => context.choose({ kind: "op", id: op }, true));
}

export function runLink(context: Context, run: number, text: string): HTMLElement {
  return link(text, () => context.choose({ kind: "run", id: run }, true));
}

export function modulePathLink(context: Context, path: string): HTMLElement {
  return link(path || "(no module)", () => context.choose({ kind: "module", path }));
}

export function moduleLink(context: Context, module: number): Child {
  return module < 0 ? "\u2013" : modulePathLink(context, context.model.plan.modules[module]);
}

function curveTable(context: Context): HTMLElement {
  const { model } = context;
  const { plan } = model;
  const sizeColumn = (name: Child, key: string, value: (r: number) => number): Column<number> => ({
    name,
    key,
    numeric: true,
    value,
    cell: (r) => size(value(r)),
  });
  return table<number>({
    caption: "Memory in each step",
    rows: Array.from({ length: model.runs }, (_, r) => r),
    columns: [
      {
        name: term("step"),
        key: "step",
        numeric: true,
        value: (r) => r,
        cell: (r) => count(r + 1),
      },
      {
        name: "op",
        key: "op",
        value: (r) => runName(model, r),
        cell: (r) => runLink(context, r, runName(model, r)),
      },
      {
        name: "begins at",
        key: "begin",
        numeric: true,
        value: (r) => model.runBegin[r],
        cell: (r) => time(model.runBegin[r]),
      },
      sizeColumn("present", "present", (r) => model.totals[r]),
      ...plan.categories.map((name, c) =>
        sizeColumn(plainName(name), name, (r) => plan.curve.planned[c][r]),
      ),
    ],
  });
}

function stayTable(context: Context): HTMLElement {
  const { model } = context;
  const { plan, rectangles: r } = model;
  return table<number>({
    caption: "Stays: what lies where and when",
    rows: Array.from({ length: r.stays }, (_, i) => i),
    columns: [
      {
        name: "tensor",
        key: "tensor",
        value: (i) => plan.tensors.name[r.tensor[i]],
        cell: (i) => tensorLink(context, r.tensor[i]),
      },
      {
        name: "module",
        key: "module",
        value: (i) => plan.modules[plan.tensors.module[r.tensor[i]]] ?? "",
        cell: (i) => nameText(moduleName(model, plan.tensors.module[r.tensor[i]])),
      },
      {
        name: "address",
        key: "address",
        numeric: true,
        value: (i) => r.low[i],
        cell: (i) => size(r.low[i]),
      },
      {
        name: "size",
        key: "size",
        numeric: true,
        value: (i) => r.high[i] - r.low[i],
        cell: (i) => size(r.high[i] - r.low[i]),
      },
      {
        name: "from step",
        key: "from",
        numeric: true,
        value: (i) => r.runBegin[i],
        cell: (i) => count(r.runBegin[i] + 1),
      },
      {
        name: "to step",
        key: "to",
        numeric: true,
        value: (i) => r.runEnd[i],
        cell: (i) => count(Math.max(r.runBegin[i] + 1, r.runEnd[i])),
      },
      { name: "why", key: "why", value: (i) => whyText(model, i), cell: (i) => whyText(model, i) },
    ],
  });
}

function transferTable(context: Context): HTMLElement {
  const { plan } = context.model;
  const { transfers: t, tensors, tiers } = plan;
  return table<number>({
    caption: "Transfers",
    rows: t.tensor.map((_, i) => i),
    columns: [
      {
        name: "tensor",
        key: "tensor",
        value: (i) => tensors.name[t.tensor[i]],
        cell: (i) => tensorLink(context, t.tensor[i]),
      },
      {
        name: "way",
        key: "way",
        value: (i) => t.out[i],
        cell: (i) => `${t.out[i] ? "to" : "from"} ${tiers[t.tier[i]]}`,
      },
      {
        name: "size",
        key: "size",
        numeric: true,
        value: (i) => tensors.bytes[t.tensor[i]],
        cell: (i) => size(tensors.bytes[t.tensor[i]]),
      },
      {
        name: "begins at",
        key: "begin",
        numeric: true,
        value: (i) => t.begin[i],
        cell: (i) => time(t.begin[i]),
      },
      {
        name: "takes, ms",
        key: "takes",
        numeric: true,
        value: (i) => t.end[i] - t.begin[i],
        cell: (i) => milliseconds(t.end[i] - t.begin[i]),
      },
      {
        name: "waited for, ms",
        key: "waited",
        numeric: true,
        value: (i) => t.waited_seconds[i],
        cell: (i) => milliseconds(t.waited_seconds[i]),
      },
    ],
  });
}

interface AtPeak {
  tensor: number; // -1: workspace
  bytes: number;
}

function peakTable(context: Context): HTMLElement {
  const { model } = context;
  const { tensors, categories, modules, ops, steps, peak, summary } = model.plan;
  const op = steps.op[summary.peak_step];
  const module = (p: AtPeak) => (p.tensor >= 0 ? tensors.module[p.tensor] : ops.module[op]);
  const category = (p: AtPeak) =>
    plainName(p.tensor >= 0 ? categories[tensors.category[p.tensor]] : "workspace");
  return table<AtPeak>({
    caption: "Present at the peak, largest first",
    rows: peak,
    sort: { key: "size", down: true },
    columns: [
      {
        name: "tensor",
        key: "tensor",
        value: (p) => tensors.name[p.tensor] ?? "",
        cell: (p) =>
          p.tensor >= 0
            ? tensorLink(context, p.tensor)
            : opLink(context, op, `workspace of ${ops.name[op]}`),
      },
      {
        name: "module",
        key: "module",
        value: (p) => modules[module(p)] ?? "",
        cell: (p) => nameText(moduleName(model, module(p))),
      },
      { name: "category", key: "category", value: category, cell: category },
      {
        name: "size",
        key: "size",
        numeric: true,
        value: (p) => p.bytes,
        cell: (p) => size(p.bytes),
      },
      {
        name: "share",
        key: "share",
        numeric: true,
        value: (p) => p.bytes,
        cell: (p) => percent(p.bytes / (summary.peak_bytes || 1)),
      },
    ],
  });
}

export function memoryTables(context: Context): HTMLElement[] {
  const { model } = context;
  const tables = [
    tableOnDemand("What is present at the peak", () => peakTable(context)),
    tableOnDemand(`The curve as a table (${count(model.runs)} steps)`, () => curveTable(context)),
    tableOnDemand(`The address map as a table (${count(model.rectangles.stays)} stays)`, () =>
      stayTable(context),
    ),
  ];
  const transfers = model.plan.transfers.tensor.length;
  if (transfers > 0)
    tables.push(
      tableOnDemand(`Transfers as a table (${count(transfers)})`, () => transferTable(context)),
    );
  return tables;
}
