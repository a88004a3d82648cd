// One line of text for a tensor, an op, a run or a stay; used by tips, the details and the reader
// of the screen, so that all say the same.

import { STAY_LOADED, STAY_MADE_AGAIN, STAY_RESIDENT, type Plan } from "./data.ts";
import { count, mib, ordinal, plural, time } from "./format.ts";
import { groupOf } from "./groups.ts";
import type { Axis, Model } from "./model.ts";
import { plainName } from "./terms.ts";

export function moduleName(model: Model, module: number): string {
  return model.plan.modules[module] || "(no module)";
}

// The line of the model's code that an op comes from, or nothing where none is known.
export function sourceOf({ ops, sources }: Plan, op: number): string {
  return op < 0 ? "" : sources[ops.source[op]];
}

export function runName(model: Model, run: number): string {
  const step = model.stepOfRun[run];
  const { op, run: again } = { op: model.plan.steps.op[step], run: model.plan.steps.run[step] };
  const name = model.plan.ops.name[op];
  return again > 0 ? `${name} (${ordinal(again)} run)` : name;
}

// Steps are counted from 1, as in the text of `lowtide explain`; `run` is from 0.
export function stepName(run: number): string {
  return `step ${count(run + 1)}`;
}

export function stepOf(model: Model, run: number): string {
  return `${stepName(run)} of ${count(model.runs)}`;
}

// The first and the last step of a span of runs, half-open.
export function stepsName(begin: number, end: number): string {
  const last = Math.max(begin, end - 1);
  return last > begin ? `steps ${count(begin + 1)}\u2013${count(last + 1)}` : stepName(begin);
}

export function runSentence(model: Model, run: number): string {
  return `${stepOf(model, run)}, ${time(model.runBegin[run])}: ${runName(model, run)}, ${mib(model.totals[run])} present`;
}

export function whyText(model: Model, stay: number): string {
  const { why, took_over, tensor } = model.plan.stays;
  const from = took_over[stay];
  const over =
    from >= 0 ? `, takes over the buffer of ${model.plan.tensors.name[tensor[from]]}` : "";
  switch (why[stay]) {
    case STAY_MADE_AGAIN:
      return `made again${over}`;
    case STAY_LOADED:
      return `loaded${over}`;
    case STAY_RESIDENT:
      return `resident${over}`;
    default:
      return `made${over}`;
  }
}

export function rectangleTimes(model: Model, axis: Axis, rectangle: number): string {
  const r = model.rectangles;
  if (axis === "seconds")
    return `${time(r.secondsBegin[rectangle])} to ${time(r.secondsEnd[rectangle])}`;
  return stepsName(r.runBegin[rectangle], r.runEnd[rectangle]);
}

export function tensorSentence(model: Model, tensor: number): string {
  const { tensors, categories } = model.plan;
  const stays = groupOf(model.staysOfTensor, tensor).length;
  return `${tensors.name[tensor]}, ${plainName(categories[tensors.category[tensor]])}, ${mib(tensors.bytes[tensor])}, ${plural(stays, "stay")}`;
}

export function rectangleSentence(model: Model, axis: Axis, rectangle: number): string {
  const r = model.rectangles;
  const tensor = r.tensor[rectangle];
  const life = rectangleTimes(model, axis, rectangle);
  if (tensor < 0)
    return `workspace of ${model.plan.ops.name[r.op[rectangle]]}, ${mib(r.high[rectangle] - r.low[rectangle])}, ${life}`;
  return `${tensorSentence(model, tensor)}, ${life}`;
}

// The first run of an op, or -1.
export function firstRun(model: Model, op: number): number {
  return groupOf(model.runsOfOp, op)[0] ?? -1;
}
