// What the views ask of a plan, indexed once: runs, stays and workspaces as typed arrays.
//
// A "run" is a step that computes something (the curve's steps; an op that only makes views is none);
// runs are counted from 0 in the order in which they happen, and are the
// horizontal axis "by run": run r covers [r, r + 1), and steps that compute nothing (free, store,
// load, wait) take no room there. By seconds a run covers [begin, end) of its step. Both axes are
// monotone in the step, so one order of rectangles serves both.
//
// A rectangle is a stay or the workspace of a run. Stays do not overlap in a plan that verifies,
// nor do workspaces overlap them.

import { STEP_COMPUTE, type Plan } from "./data.ts";
import { groupOf, makeGroups, type Groups } from "./groups.ts";

export type Axis = "seconds" | "runs";

export interface Rectangles {
  count: number;
  stays: number; // the first so many are stays, the others workspaces
  runBegin: Float64Array;
  runEnd: Float64Array;
  secondsBegin: Float64Array;
  secondsEnd: Float64Array;
  low: Float64Array; // address of the first byte
  high: Float64Array; // of the first byte behind it
  tensor: Int32Array; // -1: a workspace
  op: Int32Array; // whose workspace it is; -1: a stay
  category: Uint8Array;
  why: Uint8Array; // of stays; STAY_MADE for workspaces
  bySize: Uint32Array; // all of them, smallest area (bytes times runs) first
}

export interface Model {
  plan: Plan;
  runs: number;
  seconds: number; // of the step
  arena: number;
  stepOfRun: Int32Array;
  runOfStep: Int32Array; // runs before the step: where it stands by run
  runBegin: Float64Array; // in seconds
  runEnd: Float64Array;
  totals: Float64Array; // bytes present in each run
  given: Float64Array; // the same in the given order, per op
  givenBegin: Float64Array;
  counting: Float64Array; // 0, 1, 2, ...: the begins of runs, and of the given order's ops, by run
  peakRun: number;
  rectangles: Rectangles;
  runsOfOp: Groups;
  readersOfTensor: Groups;
  makersOfTensor: Groups;
  staysOfTensor: Groups;
  transfersOfTensor: Groups;
  tensorsOfModule: Groups;
  opsOfModule: Groups;
  piecesOfTensor: Groups;
}

function makeRuns(plan: Plan) {
  const { steps } = plan;
  const stepOfRun = Int32Array.from(plan.curve.steps);
  const runOfStep = new Int32Array(steps.kind.length + 1);
  let run = 0;
  for (let s = 0; s < steps.kind.length; ++s) {
    runOfStep[s] = run;
    if (stepOfRun[run] === s) ++run;
  }
  runOfStep[steps.kind.length] = run;
  if (run !== stepOfRun.length)
    throw new Error(
      `the curve of ${plan.file} names steps that do not ascend, or that the plan has not`,
    );
  const runBegin = Float64Array.from(stepOfRun, (s) => steps.begin[s]);
  const runEnd = Float64Array.from(stepOfRun, (s) => steps.end[s]);
  return { stepOfRun, runOfStep, runBegin, runEnd };
}

function allocate(count: number, stays: number): Rectangles {
  return {
    count,
    stays,
    runBegin: new Float64Array(count),
    runEnd: new Float64Array(count),
    secondsBegin: new Float64Array(count),
    secondsEnd: new Float64Array(count),
    low: new Float64Array(count),
    high: new Float64Array(count),
    tensor: new Int32Array(count).fill(-1),
    op: new Int32Array(count).fill(-1),
    category: new Uint8Array(count),
    why: new Uint8Array(count),
    bySize: new Uint32Array(count),
  };
}

// An order of equals that has nothing to do with where they lie: of many in one pixel each is then
// seen as often as another, and their shares of a picture are true.
function shuffled(i: number): number {
  return Math.imul(i + 1, 2654435761) >>> 0;
}

function makeRectangles(plan: Plan, runOfStep: Int32Array): Rectangles {
  const { steps, stays, tensors, ops } = plan;
  const working: number[] = [];
  steps.workspace_address.forEach((address, s) => {
    if (address >= 0 && steps.kind[s] === STEP_COMPUTE) working.push(s);
  });
  const r = allocate(stays.tensor.length + working.length, stays.tensor.length);
  for (let i = 0; i < r.stays; ++i) {
    const begin = stays.begin[i],
      end = Math.min(stays.end[i], steps.kind.length);
    r.runBegin[i] = runOfStep[begin];
    r.runEnd[i] = runOfStep[end];
    r.secondsBegin[i] = steps.begin[begin] ?? 0;
    r.secondsEnd[i] = end > begin ? steps.end[end - 1] : r.secondsBegin[i];
    r.low[i] = stays.address[i];
    r.high[i] = stays.address[i] + tensors.bytes[stays.tensor[i]];
    r.tensor[i] = stays.tensor[i];
    r.category[i] = tensors.category[stays.tensor[i]];
    r.why[i] = stays.why[i];
  }
  const workspace = Math.max(0, plan.categories.indexOf("workspace"));
  working.forEach((s, k) => {
    const i = r.stays + k,
      op = steps.op[s];
    r.runBegin[i] = runOfStep[s];
    r.runEnd[i] = runOfStep[s] + 1;
    r.secondsBegin[i] = steps.begin[s];
    r.secondsEnd[i] = steps.end[s];
    r.low[i] = steps.workspace_address[s];
    r.high[i] = steps.workspace_address[s] + ops.workspace_bytes[op];
    r.op[i] = op;
    r.category[i] = workspace;
  });
  const area = Float64Array.from(
    { length: r.count },
    (_, i) => (r.high[i] - r.low[i]) * (r.runEnd[i] - r.runBegin[i]),
  );
  r.bySize = Uint32Array.from({ length: r.count }, (_, i) => i).sort(
    (a, b) => area[a] - area[b] || shuffled(a) - shuffled(b),
  );
  return r;
}

export function makeModel(plan: Plan): Model {
  const { ops, tensors, steps, stays, transfers, curve } = plan;
  const runs = makeRuns(plan);
  const count = runs.stepOfRun.length;
  const totals = new Float64Array(count);
  for (const row of curve.planned) for (let r = 0; r < count; ++r) totals[r] += row[r];
  const nTensors = tensors.name.length,
    nModules = plan.modules.length;
  const steadily = (list: ArrayLike<number>, add: (group: number, item: number) => void) => {
    for (let i = 0; i < list.length; ++i) if (list[i] >= 0) add(list[i], i);
  };
  const operands = (lists: number[][], add: (group: number, item: number) => void) =>
    lists.forEach((list, op) => new Set(list).forEach((t) => add(t, op)));
  return {
    plan,
    runs: count,
    ...runs,
    totals,
    seconds: Math.max(plan.summary.timeline_seconds, runs.runEnd[count - 1] ?? 0),
    arena: Math.max(plan.summary.arena_bytes, 1),
    given: Float64Array.from(curve.given),
    givenBegin: Float64Array.from(curve.given_begin),
    counting: Float64Array.from({ length: Math.max(count, curve.given.length) }, (_, i) => i),
    peakRun: Math.min(count - 1, runs.runOfStep[plan.summary.peak_step] ?? 0),
    rectangles: makeRectangles(plan, runs.runOfStep),
    runsOfOp: makeGroups(ops.name.length, (add) => {
      for (let r = 0; r < count; ++r) add(steps.op[runs.stepOfRun[r]], r);
    }),
    readersOfTensor: makeGroups(nTensors, (add) => operands(ops.inputs, add)),
    makersOfTensor: makeGroups(nTensors, (add) => operands(ops.outputs, add)),
    staysOfTensor: makeGroups(nTensors, (add) => steadily(stays.tensor, add)),
    transfersOfTensor: makeGroups(nTensors, (add) => steadily(transfers.tensor, add)),
    tensorsOfModule: makeGroups(nModules, (add) => steadily(tensors.module, add)),
    opsOfModule: makeGroups(nModules, (add) => steadily(ops.module, add)),
    piecesOfTensor: makeGroups(nTensors, (add) => steadily(tensors.whole, add)),
  };
}

// The last index whose value is at most x, in ascending values; 0 where none is.
export function lastAtMost(values: ArrayLike<number>, x: number): number {
  let low = 0,
    high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

export function axisLength(model: Model, axis: Axis): number {
  return Math.max(axis === "runs" ? model.runs : model.seconds, 1e-12);
}

// The run that an axis position falls in; between two runs the one before.
export function runAt(model: Model, axis: Axis, x: number): number {
  if (axis === "runs") return Math.min(model.runs - 1, Math.max(0, Math.floor(x)));
  return lastAtMost(model.runBegin, x);
}

// Where a time of the step stands by run: inside its run in proportion.
export function runsFromSeconds(model: Model, seconds: number): number {
  if (model.runs === 0) return 0;
  const run = lastAtMost(model.runBegin, seconds);
  const length = model.runEnd[run] - model.runBegin[run];
  const share = length > 0 ? (seconds - model.runBegin[run]) / length : 0;
  return run + Math.min(1, Math.max(0, share));
}

export function secondsFromRuns(model: Model, x: number): number {
  if (model.runs === 0) return 0;
  if (x >= model.runs) return model.seconds;
  const run = Math.max(0, Math.floor(x));
  return model.runBegin[run] + (model.runEnd[run] - model.runBegin[run]) * Math.max(0, x - run);
}

export function timesOf(model: Model, axis: Axis): { begin: Float64Array; end: Float64Array } {
  const r = model.rectangles;
  return axis === "runs"
    ? { begin: r.runBegin, end: r.runEnd }
    : { begin: r.secondsBegin, end: r.secondsEnd };
}

export function rangeOfRun(model: Model, axis: Axis, run: number): [number, number] {
  return axis === "runs" ? [run, run + 1] : [model.runBegin[run], model.runEnd[run]];
}

export function groupItems(groups: Groups, group: number): number[] {
  return group < 0 ? [] : [...groupOf(groups, group)];
}
