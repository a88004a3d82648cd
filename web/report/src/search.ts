// Search by name: tensors, ops and modules whose name has all words of the question, whatever their
// case. A name that begins with the question comes first, then short names, then the plan's order.

import type { Plan } from "./data.ts";

export interface Hit {
  kind: "tensor" | "op" | "module";
  id: number;
  name: string;
}

interface Entry extends Hit {
  lower: string; // the name; of a tensor also those of its views and updates, each on a line
}

export interface Names {
  entries: Entry[];
}

export function makeNames(plan: Plan): Names {
  const entries: Entry[] = [];
  const add = (kind: Hit["kind"], names: readonly string[], more: readonly string[][] = []) =>
    names.forEach((name, id) => {
      if (name)
        entries.push({
          kind,
          id,
          name,
          lower: [name, ...(more[id] ?? [])].join("\n").toLowerCase(),
        });
    });
  add("module", plan.modules);
  add("op", plan.ops.name);
  add("tensor", plan.tensors.name, plan.tensors.aliases);
  return { entries };
}

export interface Found {
  hits: Hit[]; // the best `most` of them
  total: number;
  tensors: Set<number>; // all tensors among them
}

export function search(names: Names, question: string, most: number): Found {
  const whole = question.trim().toLowerCase();
  const words = whole.split(/\s+/).filter((word) => word !== "");
  const found: { entry: Entry; rank: number }[] = [];
  const tensors = new Set<number>();
  if (words.length === 0) return { hits: [], total: 0, tensors };
  for (const entry of names.entries) {
    if (!words.every((word) => entry.lower.includes(word))) continue;
    if (entry.kind === "tensor") tensors.add(entry.id);
    const lines = entry.lower.split("\n");
    const rank = lines.includes(whole) ? 0 : lines.some((line) => line.startsWith(whole)) ? 1 : 2;
    found.push({ entry, rank });
  }
  found.sort((a, b) => a.rank - b.rank || a.entry.name.length - b.entry.name.length);
  const hits = found
    .slice(0, most)
    .map(({ entry }) => ({ kind: entry.kind, id: entry.id, name: entry.name }));
  return { hits, total: found.length, tensors };
}
