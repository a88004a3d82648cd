// The data of a report, as `lowtide report --json` prints it (docs/formats.md). Columns of equal
// length instead of lists of objects, since a step may have 100,000 stays. Sizes are in bytes,
// times in seconds, -1 is "none". The page derives indexes from this and computes no claim of its
// own: every number that it shows stands here.

export interface Summary {
  arena_bytes: number;
  peak_bytes: number;
  peak_before_bytes: number;
  budget_bytes: number | null;
  floor_bytes: number | null;
  lower_bound_bytes: number;
  order_proven: boolean;
  once_seconds: number;
  predicted_seconds: number;
  exposed_seconds: number;
  lower_bound_seconds: number;
  peak_step: number;
  alignment_bytes: number;
  costs: string;
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
  phase: number[];
  seconds: number[];
  workspace_bytes: number[];
  inputs: number[][];
  outputs: number[][];
  source: (string | null)[] | null;
}

export interface Tensors {
  name: string[];
  shape: string[];
  module: number[];
  category: number[];
  bytes: number[];
  made_by: number[];
  resident: number[];
  slow_tier: number[];
  whole: number[];
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
  given_begin: number[];
}

export interface ActionGroup {
  kind: string;
  module: string;
  count: number;
  bytes: number;
  freed_bytes: number;
  seconds: number;
}

export interface NextBudget {
  budget_bytes: number;
  seconds: number;
  bound_seconds: number;
}

export interface Actions {
  groups: ActionGroup[];
  all: Partial<ActionGroup>;
  next_budget: NextBudget | null;
}

export interface ModuleRow {
  path: string;
  bytes_at_peak: number;
  paid_seconds: number;
  policy: string;
  rows: number[];
  times?: number;
}

export interface Measured {
  op_seconds: number[];
  step_seconds: number;
  hidden_seconds: number;
  exposed_seconds: number;
  runs: number;
}

export interface Plan {
  file: string;
  model: string;
  provenance: Record<string, unknown>;
  bindings: Record<string, number>;
  summary: Summary;
  verdict: string | string[];
  categories: string[];
  modules: string[];
  kinds: string[];
  phases: string[];
  ops: Ops;
  tensors: Tensors;
  steps: Steps;
  stays: Stays;
  transfers: Transfers;
  tiers: string[];
  curve: Curve;
  peak: { tensor: number; bytes: number }[];
  actions: Actions;
  module_tree: ModuleRow[];
  measured: Measured | null;
}

export interface FrontPoint {
  budget_bytes: number;
  arena_bytes: number;
  peak_bytes: number;
  seconds: number;
  extra_percent: number;
  bound_seconds: number;
  bound_percent: number;
  plan: number;
  verdict: string;
}

export interface Front {
  model: string;
  points: FrontPoint[];
}

export interface Report {
  format: string;
  version: number;
  verified: boolean;
  findings: string[];
  plans: Plan[];
  front: Front | null;
}

export const VERSION = 1;

function checkColumns(what: string, columns: object): void {
  let length = -1;
  for (const [name, column] of Object.entries(columns)) {
    if (!Array.isArray(column)) continue;
    if (length < 0) length = column.length;
    if (column.length !== length) {
      throw new Error(`${what}.${name} has ${column.length} entries, the columns before it ${length}`);
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
