// What one plan does that another does not, by name: ops that run more often, tensors that are
// moved more often. Plans of one model name their ops and tensors alike.

import { STEP_COMPUTE, type Plan } from "./data.ts";

export interface Difference {
  what: "made again" | "moved";
  name: string;
  module: string;
  here: number; // reruns, or copies to slow memory
  there: number;
  bytes: number; // of the tensor, or of what the op makes
  seconds: number; // of the op's runs here, less there; 0 for moves
}

interface Tally {
  count: number;
  module: string;
  bytes: number;
  seconds: number;
}

function reruns(plan: Plan): Map<string, Tally> {
  const { steps, ops, tensors } = plan;
  const out = new Map<string, Tally>();
  for (let s = 0; s < steps.kind.length; ++s) {
    if (steps.kind[s] !== STEP_COMPUTE || steps.run[s] === 0) continue;
    const op = steps.op[s];
    const tally = out.get(ops.name[op]) ?? {
      count: 0, seconds: 0, module: plan.modules[ops.module[op]] ?? "",
      bytes: ops.outputs[op].reduce((sum, t) => sum + tensors.bytes[t], 0),
    };
    tally.count += 1;
    tally.seconds += ops.seconds[op];
    out.set(ops.name[op], tally);
  }
  return out;
}

function moves(plan: Plan): Map<string, Tally> {
  const { transfers, tensors } = plan;
  const out = new Map<string, Tally>();
  transfers.tensor.forEach((t, i) => {
    if (transfers.out[i] !== 1) return;
    const tally = out.get(tensors.name[t]) ?? { count: 0, seconds: 0, module: plan.modules[tensors.module[t]] ?? "", bytes: tensors.bytes[t] };
    tally.count += 1;
    out.set(tensors.name[t], tally);
  });
  return out;
}

// Largest first; names that both plans treat alike are left out.
export function differences(here: Plan, there: Plan): Difference[] {
  const out: Difference[] = [];
  const hold = (what: Difference["what"], a: Map<string, Tally>, b: Map<string, Tally>) => {
    for (const name of new Set([...a.keys(), ...b.keys()])) {
      const x = a.get(name), y = b.get(name);
      if ((x?.count ?? 0) === (y?.count ?? 0)) continue;
      const known = (x ?? y)!;
      out.push({
        what, name, module: known.module, here: x?.count ?? 0, there: y?.count ?? 0,
        bytes: known.bytes, seconds: (x?.seconds ?? 0) - (y?.seconds ?? 0),
      });
    }
  };
  hold("made again", reruns(here), reruns(there));
  hold("moved", moves(here), moves(there));
  return out.sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
}

export interface Totals {
  reruns: number;
  rerunSeconds: number;
  moved: number;
  movedBytes: number;
}

export function totalsOf(plan: Plan): Totals {
  const all = [...reruns(plan).values()];
  const { transfers, tensors } = plan;
  let moved = 0, movedBytes = 0;
  transfers.tensor.forEach((t, i) => {
    if (transfers.out[i] !== 1) return;
    ++moved;
    movedBytes += tensors.bytes[t];
  });
  return {
    reruns: all.reduce((sum, t) => sum + t.count, 0), rerunSeconds: all.reduce((sum, t) => sum + t.seconds, 0),
    moved, movedBytes,
  };
}
