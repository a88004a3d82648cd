// Which rectangles a selection or a search brings forward; the others are dimmed. A tensor has its
// stays, those of its pieces and, for a piece, nothing else; an op has the stays of its tensors at
// the moments when it runs, and its workspaces; a module has all its tensors.

import { groupOf } from "./groups.ts";
import type { Model } from "./model.ts";
import type { Selection } from "./state.ts";

export function staysOf(model: Model, tensor: number): number[] {
  const own = [...groupOf(model.staysOfTensor, tensor)];
  for (const piece of groupOf(model.piecesOfTensor, tensor))
    own.push(...groupOf(model.staysOfTensor, piece));
  return own;
}

function ofOp(model: Model, op: number): number[] {
  const { rectangles: r, plan } = model;
  const runs = groupOf(model.runsOfOp, op);
  const found = new Set<number>();
  for (const tensor of [...plan.ops.inputs[op], ...plan.ops.outputs[op]]) {
    for (const stay of staysOf(model, tensor)) {
      for (const run of runs) if (r.runBegin[stay] <= run && run < r.runEnd[stay]) found.add(stay);
    }
  }
  for (let i = r.stays; i < r.count; ++i) if (r.op[i] === op) found.add(i);
  return [...found].sort((a, b) => a - b);
}

// The modules at a path and below it.
export function modulesAt(model: Model, path: string): number[] {
  const { modules } = model.plan;
  return modules.flatMap((name, m) =>
    name === path || name.startsWith(`${path}.`) || name.startsWith(`${path}/`) ? [m] : [],
  );
}

// Empty: nothing is chosen, nothing is dimmed.
export function inFocus(
  model: Model,
  selection: Selection | null,
  found: ReadonlySet<number> | null,
): number[] {
  if (found) return [...found].flatMap((tensor) => staysOf(model, tensor));
  switch (selection?.kind) {
    case "tensor":
      return staysOf(model, selection.id);
    case "op":
      return ofOp(model, selection.id);
    case "module":
      return modulesAt(model, selection.path)
        .flatMap((m) => [...groupOf(model.tensorsOfModule, m)])
        .flatMap((t) => staysOf(model, t));
    default:
      return [];
  }
}
