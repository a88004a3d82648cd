// What was done for less memory and what it cost: a row for each module and kind of action, by MiB
// saved at the peak for each millisecond paid, and what a little more memory would buy.

import { boundsAreOf } from "./bounds.ts";
import type { Context } from "./context.ts";
import type { ActionGroup, Plan } from "./data.ts";
import { h, type Child } from "./dom.ts";
import { count, mib, MIB, milliseconds, percent, plural, time, timeApart } from "./format.ts";
import { modulePathLink } from "./memory_tables.ts";
import { table } from "./table.ts";
import { isTerm, term } from "./terms.ts";
import { size } from "./tip.ts";

const UNKNOWN = "\u2013";

// MiB saved at the peak for each millisecond; what costs nothing is worth more than all else, what is
// not known comes last.
export function worth(group: { bytes: number | null; seconds: number | null }): number {
  if (group.bytes === null || group.seconds === null) return -1;
  if (group.seconds > 0) return group.bytes / MIB / (group.seconds * 1e3);
  return group.bytes > 0 ? Infinity : 0;
}

function worthText(group: ActionGroup): string {
  const value = worth(group);
  if (value < 0) return UNKNOWN;
  if (value === Infinity) return "free";
  return value >= 100 ? count(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function nextBudget(plan: Plan): Child {
  const next = plan.actions.next_budget;
  const s = plan.summary;
  if (!next) {
    if (s.budget_bytes === null) return null; // nothing bounds the plan
    return h(
      "p",
      { class: "next" },
      "What 10 % more memory would buy is not in this report: ",
      h("code", {}, "lowtide plan --report FILE"),
      " searches for it where the budget costs time.",
    );
  }
  const more = next.budget_bytes / (s.budget_bytes || s.arena_bytes || 1) - 1;
  return h(
    "p",
    { class: "next" },
    `With ${percent(more)} more memory (`,
    size(next.budget_bytes),
    ") ",
    next.saved_seconds > 1e-9
      ? [
          "the step would take ",
          h("b", {}, timeApart(next.seconds, next.bound_seconds ?? 0)),
          `, ${time(next.saved_seconds)} less`,
        ]
      : ["the step would not be faster than ", h("b", {}, timeApart(next.seconds, next.bound_seconds ?? 0))],
    next.bound_seconds !== null &&
      `; no schedule ${boundsAreOf(s)} can take less there than ${timeApart(next.bound_seconds, next.seconds)}`,
    ".",
  );
}

function kindTerm(kind: string): Child {
  const names: Record<string, string> = { recompute: "made again", move: "moved", split: "split" };
  return isTerm(kind) ? term(kind, names[kind]) : kind;
}

// What all parts together save and cost: where none alone sets the peak, all may.
function splitText(split: ActionGroup | null): Child {
  if (!split || split.bytes === null || split.seconds === null) return null;
  const saved = split.bytes > 0 ? [size(split.bytes), " at the peak"] : "nothing at the peak";
  return [
    " All parts together save ",
    saved,
    `, and take ${time(Math.abs(split.seconds))} ${split.seconds < 0 ? "less" : "more"} than the ops in one part.`,
  ];
}

function all(plan: Plan): Child {
  const s = plan.summary;
  const done = [
    s.reruns > 0 && plural(s.reruns, "rerun"),
    s.stored_bytes > 0 && `${mib(s.stored_bytes)} moved out`,
    s.ops_in_parts > 0 && `${plural(s.ops_in_parts, "op")} in parts`,
  ].filter((text) => text !== false);
  const paid = s.predicted_seconds - (s.whole_once_seconds ?? s.once_seconds);
  return h(
    "p",
    {},
    `${done.join(", ")}${done.length ? "; " : ""}`,
    h("b", {}, time(Math.max(0, paid))),
    " paid in all. ",
    "Groups overlap: each number says what the peak would be without that group alone.",
    splitText(plan.actions.split),
  );
}

function groupTable(context: Context, groups: ActionGroup[]): HTMLElement {
  const bytesCell = (bytes: number | null): Child => (bytes === null ? UNKNOWN : size(bytes));
  return table<ActionGroup>({
    caption: "Groups of actions, most worthwhile first",
    rows: groups,
    sort: { key: "MiB per ms", down: true },
    page: 15,
    columns: [
      {
        name: "module",
        key: "module",
        value: (g) => g.module,
        cell: (g) => modulePathLink(context, g.module),
      },
      { name: "action", key: "action", value: (g) => g.kind, cell: (g) => kindTerm(g.kind) },
      {
        name: "times",
        key: "times",
        numeric: true,
        value: (g) => g.count,
        cell: (g) => count(g.count),
      },
      {
        name: term("saved"),
        key: "saved",
        numeric: true,
        value: (g) => g.bytes ?? -1,
        cell: (g) => bytesCell(g.bytes),
      },
      {
        name: term("freed"),
        key: "away",
        numeric: true,
        value: (g) => g.freed_bytes ?? -1,
        cell: (g) => bytesCell(g.freed_bytes),
      },
      {
        name: "copied",
        key: "copied",
        numeric: true,
        value: (g) => g.moved_bytes ?? 0,
        cell: (g) => (g.moved_bytes ? size(g.moved_bytes) : UNKNOWN),
      },
      {
        name: [term("paid"), ", ms"],
        key: "paid",
        numeric: true,
        value: (g) => g.seconds ?? -1,
        cell: (g) => (g.seconds === null ? UNKNOWN : milliseconds(g.seconds)),
      },
      { name: term("perMs"), key: "MiB per ms", numeric: true, value: worth, cell: worthText },
    ],
  });
}

export function actionsContent(context: Context): Child | null {
  const { plan } = context.model;
  const { groups } = plan.actions;
  if (groups.length === 0) {
    return [
      h(
        "p",
        {},
        "Nothing was made again, moved or split: the order and the addresses alone bring the step to this size.",
      ),
      nextBudget(plan),
    ];
  }
  return [nextBudget(plan), all(plan), groupTable(context, groups)];
}
