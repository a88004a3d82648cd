// What was done for less memory and what it cost: a row for each module and kind of action, by MiB
// saved at the peak for each millisecond paid, and what a little more memory would buy.

import type { Context } from "./context.ts";
import type { ActionGroup, Plan } from "./data.ts";
import { h, type Child } from "./dom.ts";
import { count, MIB, milliseconds, plural, signedPercent, time } from "./format.ts";
import { table } from "./table.ts";
import { isTerm, term } from "./terms.ts";
import { size } from "./tip.ts";

// MiB saved at the peak for each millisecond; what costs nothing is worth more than all else.
export function worth(group: { bytes: number; seconds: number }): number {
  if (group.seconds > 0) return group.bytes / MIB / (group.seconds * 1e3);
  return group.bytes > 0 ? Infinity : 0;
}

function worthText(group: ActionGroup): string {
  const value = worth(group);
  if (value === Infinity) return "free";
  return value >= 100 ? count(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function nextBudget(plan: Plan): Child {
  const next = plan.actions.next_budget;
  if (!next) return null;
  const s = plan.summary;
  const more = s.budget_bytes ? next.budget_bytes / s.budget_bytes - 1 : next.budget_bytes / s.arena_bytes - 1;
  const gained = s.predicted_seconds - next.seconds;
  return h("p", { class: "next" }, `With ${signedPercent(more)} memory (`, size(next.budget_bytes), ") ",
    gained > 1e-9
      ? ["the step would take ", h("b", {}, time(next.seconds)), ` instead of ${time(s.predicted_seconds)}`]
      : ["the step would not be faster than ", h("b", {}, time(next.seconds))],
    next.bound_seconds > 0 && `; no schedule there can take less than ${time(next.bound_seconds)}`, ".");
}

function kindTerm(kind: string): Child {
  const names: Record<string, string> = { recompute: "made again", move: "moved", split: "split" };
  return isTerm(kind) ? term(kind, names[kind]) : kind;
}

export function actionsContent(context: Context): Child | null {
  const { plan } = context.model;
  const { groups, all } = plan.actions;
  if (groups.length === 0) {
    return h("p", {}, "Nothing was made again, moved or split: the order and the addresses alone bring the step to this size. ", nextBudget(plan));
  }
  return [
    nextBudget(plan),
    h("p", {}, `${plural(groups.length, "group")} of actions`, all.seconds !== undefined && `, ${time(all.seconds)} paid in all`,
      all.bytes ? ["; without them the peak would be ", size(all.bytes), " higher"] : null, "."),
    table<ActionGroup>({
      caption: "Groups of actions, most worthwhile first",
      rows: groups,
      sort: { key: "MiB per ms", down: true },
      page: 15,
      columns: [
        { name: "module", key: "module", value: (g) => g.module, cell: (g) => g.module || "(no module)" },
        { name: "action", key: "action", value: (g) => g.kind, cell: (g) => kindTerm(g.kind) },
        { name: "times", key: "times", numeric: true, value: (g) => g.count, cell: (g) => count(g.count) },
        { name: term("saved"), key: "saved", numeric: true, value: (g) => g.bytes, cell: (g) => size(g.bytes) },
        { name: term("freed"), key: "away", numeric: true, value: (g) => g.freed_bytes, cell: (g) => size(g.freed_bytes) },
        { name: [term("paid"), ", ms"], key: "paid", numeric: true, value: (g) => g.seconds, cell: (g) => milliseconds(g.seconds) },
        { name: term("perMs"), key: "MiB per ms", numeric: true, value: worth, cell: worthText },
      ],
    }),
  ];
}
