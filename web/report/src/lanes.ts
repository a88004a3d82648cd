// The lanes between the curve and the address map: when each phase runs, which runs are
// reruns, when ops wait, and what each link carries. Each lane is a list of intervals of the time
// axis, ascending; intervals that share a pixel are drawn as one.

import { STEP_WAIT } from "./data.ts";
import { mib, time } from "./format.ts";
import { runName } from "./describe.ts";
import { rangeOfRun, type Axis, type Model } from "./model.ts";

export interface Lane {
  name: string;
  label: string; // the name, as short as the margin of a small screen
  begin: number[];
  end: number[];
  tell: (index: number) => string;
}

// A lane for each phase, since updates run between the ops of the backward pass: in one lane all
// would be slivers.
function phaseLanes(model: Model, axis: Axis): Lane[] {
  const { plan } = model;
  const lanes = plan.phases.map(
    (name): Lane => ({ name: "phase", label: name, begin: [], end: [], tell: () => name }),
  );
  let last = -1;
  for (let r = 0; r < model.runs; ++r) {
    const phase = plan.ops.phase[plan.steps.op[model.stepOfRun[r]]];
    const [begin, end] = rangeOfRun(model, axis, r);
    const lane = lanes[phase];
    if (phase === last) lane.end[lane.end.length - 1] = end;
    else {
      lane.begin.push(begin);
      lane.end.push(end);
    }
    last = phase;
  }
  return lanes;
}

function rerunLane(model: Model, axis: Axis): Lane {
  const lane: Lane = {
    name: "again",
    label: "again",
    begin: [],
    end: [],
    tell: () => "",
  };
  const runs: number[] = [];
  for (let r = 0; r < model.runs; ++r) {
    if (model.plan.steps.run[model.stepOfRun[r]] === 0) continue;
    const [begin, end] = rangeOfRun(model, axis, r);
    lane.begin.push(begin);
    lane.end.push(end);
    runs.push(r);
  }
  lane.tell = (i) =>
    `${runName(model, runs[i])}, ${time(model.runEnd[runs[i]] - model.runBegin[runs[i]])}`;
  return lane;
}

function waitLane(model: Model): Lane {
  const { steps, tensors } = model.plan;
  const lane: Lane = {
    name: "waits",
    label: "waits",
    begin: [],
    end: [],
    tell: () => "",
  };
  const waits: number[] = [];
  for (let s = 0; s < steps.kind.length; ++s) {
    if (steps.kind[s] !== STEP_WAIT || steps.end[s] <= steps.begin[s]) continue;
    lane.begin.push(steps.begin[s]);
    lane.end.push(steps.end[s]);
    waits.push(s);
  }
  lane.tell = (i) =>
    `waits ${time(lane.end[i] - lane.begin[i])} for ${tensors.name[steps.tensor[waits[i]]] ?? "a transfer"}`;
  return lane;
}

function transferLane(model: Model, axis: Axis, tier: number, out: number): Lane {
  const { transfers, tensors, tiers } = model.plan;
  const name = `${out ? "to" : "from"} ${tiers[tier]}`,
    label = `${out ? "\u2192" : "\u2190"} ${tiers[tier]}`;
  const lane: Lane = { name, label, begin: [], end: [], tell: () => "" };
  const which: number[] = [];
  for (let t = 0; t < transfers.tensor.length; ++t) {
    if (transfers.tier[t] !== tier || transfers.out[t] !== out) continue;
    const wait = transfers.wait_step[t];
    const byRun = axis === "runs";
    lane.begin.push(byRun ? model.runOfStep[transfers.begin_step[t]] : transfers.begin[t]);
    lane.end.push(
      byRun
        ? wait >= 0
          ? model.runOfStep[Math.min(wait, model.runOfStep.length - 1)]
          : model.runs
        : transfers.end[t],
    );
    which.push(t);
  }
  lane.tell = (i) => {
    const t = which[i],
      waited = transfers.waited_seconds[t];
    const copy = `${tensors.name[transfers.tensor[t]]}, ${mib(tensors.bytes[transfers.tensor[t]])}, ${lane.name}, ${time(transfers.end[t] - transfers.begin[t])}`;
    return waited > 0 ? `${copy}, waited for ${time(waited)}` : `${copy}, hidden`;
  };
  return lane;
}

// The lanes that have something to show.
export function makeLanes(model: Model, axis: Axis): Lane[] {
  const lanes = [...phaseLanes(model, axis), rerunLane(model, axis)];
  if (axis === "seconds") lanes.push(waitLane(model));
  model.plan.tiers.forEach((_, tier) => {
    lanes.push(transferLane(model, axis, tier, 1), transferLane(model, axis, tier, 0));
  });
  return lanes.filter((lane) => lane.begin.length > 0);
}

// The interval at x, or within `near` of it; -1: none.
export function intervalAt(lane: Lane, x: number, near: number): number {
  let best = -1,
    nearest = near;
  for (let i = 0; i < lane.begin.length; ++i) {
    const distance = Math.max(0, lane.begin[i] - x, x - lane.end[i]);
    if (distance < nearest || (distance === 0 && best < 0)) {
      best = i;
      nearest = distance;
      if (distance === 0) break;
    }
  }
  return best;
}
