// The data of a report, as `lowtide report --json` prints it (docs/formats.md). Columns of equal
// length instead of lists of objects, since a step may have 100,000 stays. Sizes are in bytes,
// times in seconds, -1 is "none". The page derives indexes from this and computes no claim of its
// own: every number that it shows stands here. Ranges of steps are half-open.

export interface Summary {
  arena_bytes: number;
  peak_bytes: number;
  peak_before_bytes: number;
  budget_bytes: number | null;
  floor_bytes: number | null;
  lower_bound_bytes: number;
  bounds_are_of?: string; // the step that the proven bounds speak of: "in one part", "in these parts"
  order_proven: boolean;
  once_seconds: number;
  predicted_seconds: number;
  exposed_seconds: number;
  lower_bound_seconds: number;
  extra_percent: number;
  bound_percent: number;
  gap_points: number;
  whole_once_seconds: number | null; // of a step in parts: each op once in one part
  extra_over_whole_percent: number | null; // over that
  bound_over_whole_percent: number | null;
  timeline_seconds: number; // end of the last step or transfer
  copying_seconds: number; // that copies keep the processor from computing
  peak_step: number;
  alignment_bytes: number;
  costs: string;
  reruns: number;
  stored_bytes: number;
  loaded_bytes: number;
  ops_in_parts: number;
}

export const STEP_COMPUTE = 0;
export const STEP_FREE = 1;
export const STEP_STORE = 2;
export const STEP_LOAD = 3;
export const STEP_WAIT = 4;

export const STAY_MADE = 0;
export const STAY_MADE_AGAIN = 1;
export const STAY_LOADED = 2;
export const STAY_RESIDENT = 3;

export interface Ops {
  name: string[];
  kind: number[];
  module: number[];
  source: number[]; // line of the model's code
  phase: number[];
  seconds: number[];
  workspace_bytes: number[];
  inputs: number[][];
  outputs: number[][];
  view: number[]; // 1: makes views only, computes nothing
}

export interface Tensors {
  name: string[];
  aliases: string[][]; // its views and updates
  shape: string[];
  module: number[];
  category: number[];
  bytes: number[];
  made_by: number[];
  resident: number[];
  output: number[];
  slow_tier: number[];
  whole: number[]; // the tensor that it is a piece of
  policy: number[];
}

export interface Steps {
  kind: number[];
  op: number[];
  tensor: number[];
  begin: number[];
  end: number[];
  run: number[];
  bytes: number[];
  workspace_address: number[];
}

export interface Stays {
  tensor: number[];
  address: number[];
  begin: number[];
  end: number[];
  took_over: number[];
  why: number[];
}

export interface Transfers {
  tensor: number[];
  out: number[];
  tier: number[];
  begin: number[];
  end: number[];
  begin_step: number[];
  wait_step: number[];
  waited_seconds: number[];
}

export interface Curve {
  planned: number[][];
  steps: number[];
  given: number[];
  given_op: number[];
  given_begin: number[];
}

export interface ActionGroup {
  kind: string; // "recompute", "move", "split"
  module: string;
  count: number;
  bytes: number | null; // by how much the peak would rise without; null where the plan cannot know
  freed_bytes: number | null;
  moved_bytes: number | null;
  seconds: number | null; // paid
}

export interface NextBudget {
  budget_bytes: number;
  seconds: number;
  bound_seconds: number | null;
  saved_seconds: number;
  from: "search" | "front";
}

export interface Actions {
  groups: ActionGroup[]; // most bytes per second first
  all: Record<string, unknown>;
  split: ActionGroup | null; // all of that kind together
  next_budget: NextBudget | null;
}

// A node of the module tree, in preorder; sums cover what is below, and all layers that are folded
// into the node.
export interface ModuleRow {
  path: string;
  parent: number;
  times: number;
  paths: string[];
  bytes: number;
  bytes_at_peak: number;
  paid_seconds: number;
  seconds: number;
  policy: string;
  rows: number[]; // its own tensors; of the first layer where layers are folded
}

// Of what was measured, by kind of op: seconds of all runs of its ops.
export interface KindTime {
  kind: string;
  ops: number;
  predicted_seconds: number;
  measured_seconds: number;
}

export interface Measured {
  device: string;
  steps: number;
  op_seconds: (number | null)[];
  op_runs: number[];
  by_kind: KindTime[];
  step_seconds: number;
  predicted_seconds: number;
  transfer_seconds: number;
  hidden_seconds: number;
  exposed_seconds: number;
}

export interface Plan {
  file: string;
  model: string;
  provenance: Record<string, unknown>;
  bindings: Record<string, number>;
  summary: Summary;
  verdict: string[];
  categories: string[];
  modules: string[];
  kinds: string[];
  sources: string[]; // 0: none is known
  phases: string[];
  policies: string[];
  ops: Ops;
  tensors: Tensors;
  steps: Steps;
  stays: Stays;
  transfers: Transfers;
  tiers: string[];
  curve: Curve;
  peak: { tensor: number; bytes: number }[]; // -1: workspace; largest first
  actions: Actions;
  module_tree: ModuleRow[];
  measured: Measured | null;
}

export interface FrontPoint {
  budget_bytes: number;
  status: string;
  found: boolean;
  arena_bytes: number | null; // null, as all that follows, where nothing was found
  peak_bytes: number | null;
  seconds: number | null;
  bound_seconds: number | null;
  extra_percent: number | null;
  bound_percent: number | null;
  gap_percent: number | null;
  reruns: number | null;
  stored_bytes: number | null;
  loaded_bytes: number | null;
  exposed_seconds: number | null;
  split: string | null;
  knee: boolean;
  chosen: boolean;
  reason: string | null;
  plan: number;
}

export interface Front {
  model: string;
  dims: Record<string, number>;
  points: FrontPoint[];
  plans_left_out: number; // that would have made the report too large
}

// What the second plan treats differently than the first, largest first.
export interface BesideRows {
  name: string[];
  module: string[];
  bytes: number[];
  policy: [number[], number[]]; // in the first plan, in the second; -1: it has no such tensor
  seconds: [number[], number[]]; // paid for it, in each
}

export interface Beside {
  rows: BesideRows;
  same: number;
}

export interface Report {
  format: string;
  version: number;
  verified: boolean;
  findings: string[];
  plans: Plan[]; // the plan, the one beside it, then those of the front
  beside: Beside | null;
  front: Front | null;
}

export const VERSION = 1;

function checkColumns(what: string, columns: object): void {
  let length = -1;
  for (const [name, column] of Object.entries(columns)) {
    if (!Array.isArray(column)) continue;
    if (length < 0) length = column.length;
    if (column.length !== length) {
      throw new Error(
        `${what}.${name} has ${column.length} entries, the columns before it ${length}`,
      );
    }
  }
}

// Parses the text and checks what the views rely on: format, version, equal lengths of columns.
// Throws one line that names the member and the numbers.
export function parseReport(text: string): Report {
  const report = JSON.parse(text) as Report;
  if (report.format !== "lowtide-report") {
    throw new Error(`format is ${JSON.stringify(report.format)}, expected "lowtide-report"`);
  }
  if (report.version !== VERSION) {
    throw new Error(`version is ${report.version}, this page reads version ${VERSION}`);
  }
  if (!Array.isArray(report.plans) || report.plans.length === 0) throw new Error("no plan in it");
  for (const [index, plan] of report.plans.entries()) {
    for (const table of ["ops", "tensors", "steps", "stays", "transfers"] as const) {
      checkColumns(`plans[${index}].${table}`, plan[table]);
    }
  }
  return report;
}
