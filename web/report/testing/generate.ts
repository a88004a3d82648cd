// Made-up reports of any size by the schema, for tests and for work on the page: a training step of
// a chain of layers in which some activations are made again and some are moved to host memory.
// Addresses are first fit, so that no two stays overlap; the same options give the same bytes.
//
// The lives are those of a real step (forward, backward, update), so that the pictures look alike;
// claims about bounds are invented, and say so in their file name.

import type {
  Beside,
  BesideRows,
  Front,
  FrontPoint,
  KindTime,
  Plan,
  Report,
  Stays,
  Steps,
  Transfers,
} from "../src/data.ts";
import { MIB } from "../src/format.ts";

export interface Options {
  layers: number;
  opsPerLayer: number;
  seed: number;
  name: string;
  rerunEvery: number; // each such layer is made again; 0: none
  moveEvery: number; // each such activation is moved to the host; 0: none
  measured: boolean;
}

export const SMALL: Options = {
  layers: 12,
  opsPerLayer: 12,
  seed: 1,
  name: "made-up",
  rerunEvery: 2,
  moveEvery: 9,
  measured: true,
};

const CATEGORIES = [
  "parameter",
  "optimizer_state",
  "gradient",
  "activation",
  "temporary",
  "workspace",
  "input",
];
const PARAMETER = 0,
  OPTIMIZER = 1,
  GRADIENT = 2,
  ACTIVATION = 3,
  TEMPORARY = 4,
  WORKSPACE = 5;
const INPUT = 6;
const KINDS = ["LayerNorm", "MatMul", "Add", "Softmax", "MatMul", "Gelu"];
const PARTS = ["ln_1", "attn", "attn", "attn", "mlp", "mlp"];

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

// First fit over a list of free spans, by address.
class Arena {
  private spans: [number, number][] = [[0, Number.MAX_SAFE_INTEGER]];
  top = 0;

  take(bytes: number): number {
    for (let i = 0; i < this.spans.length; ++i) {
      const span = this.spans[i];
      if (span[1] - span[0] < bytes) continue;
      const address = span[0];
      span[0] += bytes;
      if (span[0] === span[1]) this.spans.splice(i, 1);
      this.top = Math.max(this.top, address + bytes);
      return address;
    }
    throw new Error("the arena has no end");
  }

  give(address: number, bytes: number): void {
    let i = 0;
    while (i < this.spans.length && this.spans[i][0] < address) ++i;
    this.spans.splice(i, 0, [address, address + bytes]);
    if (i + 1 < this.spans.length && this.spans[i + 1][0] === address + bytes) {
      this.spans[i][1] = this.spans[i + 1][1];
      this.spans.splice(i + 1, 1);
    }
    if (i > 0 && this.spans[i - 1][1] === address) {
      this.spans[i - 1][1] = this.spans[i][1];
      this.spans.splice(i, 1);
    }
  }
}

class Builder {
  readonly draw: () => number;
  readonly arena = new Arena();
  readonly modules: string[] = [""];
  readonly sources: string[] = [""];
  private readonly moduleIds = new Map<string, number>();
  readonly kinds = [...new Set(KINDS), "Gradient", "AdamW"];
  readonly ops: Plan["ops"] = {
    name: [],
    kind: [],
    module: [],
    source: [],
    phase: [],
    seconds: [],
    workspace_bytes: [],
    inputs: [],
    outputs: [],
    view: [],
  };
  readonly tensors: Plan["tensors"] = {
    name: [],
    aliases: [],
    shape: [],
    module: [],
    category: [],
    bytes: [],
    made_by: [],
    resident: [],
    output: [],
    slow_tier: [],
    whole: [],
    policy: [],
  };
  readonly steps: Steps = {
    kind: [],
    op: [],
    tensor: [],
    begin: [],
    end: [],
    run: [],
    bytes: [],
    workspace_address: [],
  };
  readonly stays: Stays = { tensor: [], address: [], begin: [], end: [], took_over: [], why: [] };
  readonly transfers: Transfers = {
    tensor: [],
    out: [],
    tier: [],
    begin: [],
    end: [],
    begin_step: [],
    wait_step: [],
    waited_seconds: [],
  };
  readonly planned: number[][] = CATEGORIES.map(() => []);
  readonly curveSteps: number[] = [];
  private readonly openStay = new Map<number, number>();
  private readonly runs: number[] = [];
  private readonly byCategory = CATEGORIES.map(() => 0);
  private now = 0;
  private linkFree = 0;

  constructor(seed: number) {
    this.draw = random(seed);
  }

  module(path: string): number {
    const found = this.moduleIds.get(path) ?? this.modules.push(path) - 1;
    this.moduleIds.set(path, found);
    return found;
  }

  // One line of code for each module.
  private source(module: number): number {
    if (module === 0) return 0;
    const line = `net/model.py:${10 + module}`;
    const found = this.sources.indexOf(line);
    return found >= 0 ? found : this.sources.push(line) - 1;
  }

  tensor(name: string, module: number, category: number, bytes: number, resident = false): number {
    const id = this.tensors.name.push(name) - 1;
    this.tensors.aliases.push(name.startsWith("softmax") ? [`${name}.view`] : []);
    this.tensors.output.push(0);
    this.tensors.policy.push(0);
    this.tensors.shape.push(`f32[8,${Math.round(bytes / 32)}]`);
    this.tensors.module.push(module);
    this.tensors.category.push(category);
    this.tensors.bytes.push(bytes);
    this.tensors.made_by.push(-1);
    this.tensors.resident.push(resident ? 1 : 0);
    this.tensors.slow_tier.push(-1);
    this.tensors.whole.push(-1);
    if (resident) this.arrive(id, 3, -1);
    return id;
  }

  op(
    name: string,
    kind: string,
    module: number,
    phase: number,
    inputs: number[],
    outputs: number[],
  ): number {
    const id = this.ops.name.push(name) - 1;
    this.ops.kind.push(this.kinds.indexOf(kind));
    this.ops.module.push(module);
    this.ops.source.push(this.source(module));
    this.ops.phase.push(phase);
    this.ops.seconds.push((0.2 + this.draw()) * 1e-3);
    this.ops.workspace_bytes.push(this.draw() < 0.15 ? Math.ceil(this.draw() * 64) * 65536 : 0);
    this.ops.inputs.push(inputs);
    this.ops.outputs.push(outputs);
    this.ops.view.push(0);
    for (const output of outputs)
      if (this.tensors.made_by[output] < 0) this.tensors.made_by[output] = id;
    this.runs.push(0);
    return id;
  }

  arrive(tensor: number, why: number, from: number): void {
    const bytes = this.tensors.bytes[tensor];
    let address: number;
    if (from >= 0) {
      address = this.stays.address[from];
      this.leave(this.stays.tensor[from], false);
    } else {
      address = this.arena.take(bytes);
    }
    const stay = this.stays.tensor.push(tensor) - 1;
    this.stays.address.push(address);
    this.stays.begin.push(this.steps.kind.length);
    this.stays.end.push(-1);
    this.stays.took_over.push(from);
    this.stays.why.push(why);
    this.openStay.set(tensor, stay);
    this.byCategory[this.tensors.category[tensor]] += bytes;
  }

  leave(tensor: number, give = true): void {
    const stay = this.openStay.get(tensor);
    if (stay === undefined) return;
    this.stays.end[stay] = this.steps.kind.length;
    this.byCategory[this.tensors.category[tensor]] -= this.tensors.bytes[tensor];
    this.openStay.delete(tensor);
    if (give) this.arena.give(this.stays.address[stay], this.tensors.bytes[tensor]);
  }

  private step(kind: number, op: number, tensor: number, seconds: number): void {
    this.steps.kind.push(kind);
    this.steps.op.push(op);
    this.steps.tensor.push(tensor);
    this.steps.begin.push(this.now);
    this.now += seconds;
    this.steps.end.push(this.now);
    this.steps.run.push(kind === 0 ? this.runs[op]++ : 0);
    this.steps.bytes.push(this.byCategory.reduce((sum, bytes) => sum + bytes, 0));
    this.steps.workspace_address.push(-1);
  }

  // Runs an op; `inPlace`: the input whose buffer the first output takes over, if it is as large.
  run(op: number, inPlace = -1): void {
    const again = this.runs[op] > 0;
    for (const [index, output] of this.ops.outputs[op].entries()) {
      if (this.openStay.has(output)) continue;
      const from = index === 0 && inPlace >= 0 ? (this.openStay.get(inPlace) ?? -1) : -1;
      const fits = from >= 0 && this.tensors.bytes[inPlace] === this.tensors.bytes[output];
      this.arrive(output, again ? 1 : 0, fits ? from : -1);
    }
    const workspace = this.ops.workspace_bytes[op];
    this.byCategory[WORKSPACE] = workspace;
    const address = workspace > 0 ? this.arena.take(workspace) : -1;
    const at = this.steps.kind.length;
    this.step(0, op, -1, this.ops.seconds[op]);
    this.steps.workspace_address[at] = address;
    this.curveSteps.push(at);
    for (const [category, bytes] of this.byCategory.entries()) this.planned[category].push(bytes);
    if (workspace > 0) this.arena.give(address, workspace);
    this.byCategory[WORKSPACE] = 0;
  }

  free(tensor: number): void {
    if (!this.openStay.has(tensor)) return;
    this.leave(tensor);
    this.step(1, -1, tensor, 0);
  }

  private transfer(tensor: number, out: boolean): number {
    const begin = Math.max(this.now, this.linkFree);
    this.linkFree = begin + this.tensors.bytes[tensor] / 12e9;
    this.transfers.tensor.push(tensor);
    this.transfers.out.push(out ? 1 : 0);
    this.transfers.tier.push(0);
    this.transfers.begin.push(begin);
    this.transfers.end.push(this.linkFree);
    this.transfers.begin_step.push(this.steps.kind.length);
    this.transfers.waited_seconds.push(0);
    return this.transfers.wait_step.push(-1) - 1;
  }

  store(tensor: number): number {
    const id = this.transfer(tensor, true);
    this.tensors.slow_tier[tensor] = 0;
    this.step(2, -1, tensor, 0);
    return id;
  }

  load(tensor: number): number {
    const id = this.transfer(tensor, false);
    this.arrive(tensor, 2, -1);
    this.step(3, -1, tensor, 0);
    return id;
  }

  wait(transfer: number): void {
    const waited = Math.max(0, this.transfers.end[transfer] - this.now);
    this.transfers.wait_step[transfer] = this.steps.kind.length;
    this.transfers.waited_seconds[transfer] = waited;
    this.step(4, -1, this.transfers.tensor[transfer], waited);
  }

  finish(): number {
    for (const tensor of [...this.openStay.keys()]) this.leave(tensor);
    return this.now;
  }
}

interface Layered {
  forward: number[];
  value: number[];
  parameter: number[];
  plans: Set<number>;
  moved: Set<number>;
}

function forward(b: Builder, options: Options): Layered {
  const total = options.layers * options.opsPerLayer;
  const parameter: number[] = [],
    value: number[] = [],
    forwardOps: number[] = [];
  const plans = new Set<number>(),
    moved = new Set<number>();
  const sizes = Array.from(
    { length: options.opsPerLayer },
    () => Math.ceil(1 + b.draw() * 30) * 262144,
  );
  const moduleOf = (k: number) => {
    const layer = Math.floor(k / options.opsPerLayer);
    return b.module(`h.${layer}.${PARTS[(k % options.opsPerLayer) % PARTS.length]}`);
  };
  for (let k = 0; k < total; ++k) {
    if (k % 3 !== 1) {
      parameter.push(-1);
      continue;
    }
    const bytes = Math.ceil(1 + b.draw() * 12) * 131072;
    const module = moduleOf(k);
    parameter.push(b.tensor(`weight_${k}`, module, PARAMETER, bytes, true));
    b.tensor(`weight_${k}.m`, module, OPTIMIZER, bytes, true);
    b.tensor(`weight_${k}.v`, module, OPTIMIZER, bytes, true);
  }
  let last = b.tensor("tokens", 0, INPUT, 32768, true);
  for (let k = 0; k < total; ++k) {
    const kind = KINDS[(k % options.opsPerLayer) % KINDS.length];
    const layer = Math.floor(k / options.opsPerLayer);
    const output = b.tensor(
      `${kind.toLowerCase()}_${k}`,
      moduleOf(k),
      ACTIVATION,
      sizes[k % options.opsPerLayer],
    );
    const inputs = parameter[k] >= 0 ? [last, parameter[k]] : [last];
    forwardOps.push(b.op(`${kind}_${k}`, kind, moduleOf(k), 0, inputs, [output]));
    value.push(output);
    const again =
      options.rerunEvery > 0 && layer % options.rerunEvery === 1 && k % options.opsPerLayer !== 0;
    if (again) plans.add(k);
    else if (options.moveEvery > 0 && k % options.moveEvery === 0) moved.add(k);
    last = output;
  }
  return { forward: forwardOps, value, parameter, plans, moved };
}

function runForward(b: Builder, net: Layered): Map<number, number> {
  const stores = new Map<number, number>();
  for (let k = 0; k < net.forward.length; ++k) {
    b.run(net.forward[k]);
    if (k > 0 && net.plans.has(k - 1)) b.free(net.value[k - 1]);
    if (net.moved.has(k)) stores.set(k, b.store(net.value[k]));
    const left = k - 4;
    if (left >= 0 && stores.has(left)) {
      b.wait(stores.get(left)!);
      b.free(net.value[left]);
    }
  }
  return stores;
}

// Before the gradients of the ops from `from` on, what they need is brought back: loads a little
// ahead, and whole runs of forward ops where those were freed.
function runBackward(b: Builder, net: Layered, stores: Map<number, number>): void {
  const total = net.forward.length;
  const loads = new Map<number, number>();
  let gradient = b.tensor("loss.grad", 0, TEMPORARY, 65536);
  b.run(b.op("Loss", "Gradient", 0, 1, [net.value[total - 1]], [gradient]));
  for (let k = total - 1; k >= 0; --k) {
    const ahead = k - 6;
    if (ahead >= 0 && stores.has(ahead) && ahead < total - 8)
      loads.set(ahead, b.load(net.value[ahead]));
    if (loads.has(k)) b.wait(loads.get(k)!);
    if (net.plans.has(k) && k + 1 < total) {
      let begin = k;
      while (net.plans.has(begin - 1)) --begin;
      for (let r = begin; r <= k; ++r) b.run(net.forward[r]);
      for (let r = begin; r <= k; ++r) net.plans.delete(r);
    }
    const module = b.ops.module[net.forward[k]];
    const outputs = [
      b.tensor(
        `${b.ops.name[net.forward[k]]}.grad`,
        module,
        TEMPORARY,
        b.tensors.bytes[net.value[Math.max(0, k - 1)]],
      ),
    ];
    const inputs = [gradient, net.value[Math.max(0, k - 1)]];
    if (net.parameter[k] >= 0) {
      outputs.push(
        b.tensor(`weight_${k}.grad`, module, GRADIENT, b.tensors.bytes[net.parameter[k]]),
      );
      inputs.push(net.parameter[k]);
    }
    b.run(
      b.op(`${b.ops.name[net.forward[k]]}Grad`, "Gradient", module, 1, inputs, outputs),
      gradient,
    );
    b.free(gradient);
    b.free(net.value[k]);
    if (outputs.length > 1) {
      b.run(
        b.op(`update_${k}`, "AdamW", module, 2, [net.parameter[k], outputs[1]], [net.parameter[k]]),
      );
      b.free(outputs[1]);
    }
    gradient = outputs[0];
  }
  b.free(gradient);
}

function actionsOf(plan: Plan): void {
  const groups = new Map<
    string,
    { kind: string; module: number; count: number; seconds: number; bytes: number }
  >();
  const add = (kind: string, module: number, seconds: number, bytes: number) => {
    const key = `${kind}|${module}`;
    const group = groups.get(key) ?? { kind, module, count: 0, seconds: 0, bytes: 0 };
    group.count += 1;
    group.seconds += seconds;
    group.bytes += bytes;
    groups.set(key, group);
  };
  const { steps, ops, transfers, tensors, summary } = plan;
  steps.kind.forEach((kind, s) => {
    if (kind !== 0 || steps.run[s] === 0) return;
    const op = steps.op[s];
    ops.outputs[op].forEach((t) => void (tensors.policy[t] |= 1));
    add(
      "recompute",
      ops.module[op],
      ops.seconds[op],
      ops.outputs[op].reduce((sum, t) => sum + tensors.bytes[t], 0),
    );
    summary.reruns += 1;
  });
  transfers.tensor.forEach((t, i) => {
    if (transfers.out[i] !== 1) return void (summary.loaded_bytes += tensors.bytes[t]);
    tensors.policy[t] |= 2;
    add("move", tensors.module[t], 2e-5, tensors.bytes[t]);
    summary.stored_bytes += tensors.bytes[t];
  });
  plan.actions.groups = [...groups.values()].map(
    ({ kind, module, count, bytes, seconds: paid }) => ({
      kind,
      module: plan.modules[module],
      count,
      bytes: Math.round(bytes * 0.8),
      freed_bytes: bytes,
      moved_bytes: kind === "move" ? bytes : 0,
      seconds: paid,
    }),
  );
}

// One node for each layer and each module of it; nothing is folded.
function moduleTree(plan: Plan): void {
  const rows: number[][] = plan.modules.map(() => []),
    peak = plan.modules.map(() => 0),
    paid = plan.modules.map(() => 0);
  plan.tensors.module.forEach((module, tensor) => rows[module].push(tensor));
  plan.peak.forEach(
    ({ tensor, bytes }) => tensor >= 0 && (peak[plan.tensors.module[tensor]] += bytes),
  );
  plan.steps.op.forEach((op, s) => {
    if (op >= 0 && plan.steps.run[s] > 0) paid[plan.ops.module[op]] += plan.ops.seconds[op];
  });
  const push = (path: string, parent: number, modules: number[]) => {
    const sum = (values: number[]) => modules.reduce((total, m) => total + values[m], 0);
    return (
      plan.module_tree.push({
        path,
        parent,
        times: 1,
        paths: [path],
        bytes: modules.reduce(
          (total, m) => total + rows[m].reduce((b, tensor) => b + plan.tensors.bytes[tensor], 0),
          0,
        ),
        bytes_at_peak: sum(peak),
        paid_seconds: sum(paid),
        seconds: modules.length * 1e-3,
        policy: sum(paid) > 0 ? "mixed" : "kept",
        rows: modules.length === 1 ? rows[modules[0]] : [],
      }) - 1
    );
  };
  const layers = new Map<string, number[]>();
  plan.modules.forEach((path, m) => {
    const layer = path.split(".").slice(0, 2).join(".");
    layers.set(layer, [...(layers.get(layer) ?? []), m]);
  });
  const top = push(
    "",
    -1,
    plan.modules.map((_, m) => m),
  );
  const root = push("h", top, plan.modules.map((_, m) => m).slice(1));
  for (const [layer, modules] of layers) {
    if (layer === "") continue;
    const node = push(layer, root, modules);
    for (const m of modules) push(plan.modules[m], node, [m]);
  }
}

function summarize(b: Builder, options: Options, seconds: number): Plan {
  const totals = b.curveSteps.map((_, i) => b.planned.reduce((sum, row) => sum + row[i], 0));
  const peak = Math.max(
    ...[0],
    totals.reduce((most, bytes) => Math.max(most, bytes), 0),
  );
  const peakStep = b.curveSteps[totals.indexOf(peak)];
  const once = b.ops.seconds.reduce((sum, s) => sum + s, 0);
  const plan: Plan = {
    file: `${options.name}.lt`,
    model: options.name,
    bindings: { batch: 8 },
    provenance: { tool: "testing/generate.ts", seed: options.seed },
    summary: {
      arena_bytes: b.arena.top,
      peak_bytes: peak,
      peak_before_bytes: Math.round(peak * 1.6),
      budget_bytes: Math.ceil(b.arena.top / MIB / 10) * 10 * MIB,
      floor_bytes: Math.round(peak * 0.55),
      lower_bound_bytes: Math.round(peak * 0.7),
      order_proven: false,
      once_seconds: once,
      predicted_seconds: seconds,
      exposed_seconds: b.transfers.waited_seconds.reduce((s, x) => s + x, 0),
      lower_bound_seconds: once * 1.01,
      extra_percent: (seconds / once - 1) * 100,
      bound_percent: 1,
      gap_points: (seconds / once - 1.01) * 100,
      whole_once_seconds: null,
      extra_over_whole_percent: null,
      bound_over_whole_percent: null,
      timeline_seconds: seconds,
      copying_seconds: 0,
      peak_step: peakStep,
      alignment_bytes: 64,
      costs: "made up",
      reruns: 0,
      stored_bytes: 0,
      loaded_bytes: 0,
      ops_in_parts: 0,
    },
    verdict: ["a made-up step", "nothing of it is proven"],
    categories: CATEGORIES,
    modules: b.modules,
    kinds: b.kinds,
    sources: b.sources,
    phases: ["forward", "backward", "update"],
    policies: ["kept", "recomputed", "moved", "recomputed and moved"],
    ops: b.ops,
    tensors: b.tensors,
    steps: b.steps,
    stays: b.stays,
    transfers: b.transfers,
    tiers: ["host"],
    curve: { planned: b.planned, steps: b.curveSteps, given: [], given_op: [], given_begin: [] },
    peak: [],
    actions: {
      groups: [],
      all: {},
      split: {
        kind: "split",
        module: "",
        count: 8,
        bytes: 3 * 1024 * 1024,
        freed_bytes: 4 * 1024 * 1024,
        moved_bytes: null,
        seconds: 0.5e-3,
      },
      next_budget: {
        budget_bytes: Math.round(peak * 1.1),
        seconds: seconds * 0.97,
        bound_seconds: once,
        saved_seconds: seconds * 0.03,
        from: "search",
      },
    },
    module_tree: [],
    measured: null,
  };
  let begin = 0;
  b.ops.seconds.forEach((s, op) => {
    const share = Math.sin(((op + 1) / b.ops.seconds.length) * Math.PI);
    plan.curve.given.push(Math.round(peak * (0.5 + 1.1 * share)));
    plan.curve.given_op.push(op);
    plan.curve.given_begin.push(begin);
    begin += s;
  });
  b.stays.tensor.forEach((tensor, s) => {
    if (b.stays.begin[s] <= peakStep && peakStep < b.stays.end[s])
      plan.peak.push({ tensor, bytes: b.tensors.bytes[tensor] });
  });
  const workspace = b.ops.workspace_bytes[b.steps.op[peakStep]];
  if (workspace > 0) plan.peak.push({ tensor: -1, bytes: workspace });
  plan.peak.sort((x, y) => y.bytes - x.bytes);
  return plan;
}

function timesByKind(plan: Plan, seconds: (number | null)[], runs: number[]): KindTime[] {
  const rows = plan.kinds.map((kind) => ({
    kind,
    ops: 0,
    predicted_seconds: 0,
    measured_seconds: 0,
  }));
  seconds.forEach((one, op) => {
    if (one === null) return;
    const row = rows[plan.ops.kind[op]];
    row.ops += 1;
    row.predicted_seconds += plan.ops.seconds[op] * runs[op];
    row.measured_seconds += one * runs[op];
  });
  return rows.filter((row) => row.ops > 0);
}

export function generatePlan(options: Options): Plan {
  const b = new Builder(options.seed);
  const net = forward(b, options);
  runBackward(b, net, runForward(b, net));
  const plan = summarize(b, options, b.finish());
  actionsOf(plan);
  moduleTree(plan);
  if (options.measured) {
    const noise = random(options.seed + 7);
    const op_seconds = plan.ops.seconds.map((s, op) =>
      op % 40 === 39 ? null : s * (0.7 + 0.8 * noise()),
    );
    const op_runs = plan.ops.seconds.map(() => 0);
    plan.steps.op.forEach((op) => op >= 0 && (op_runs[op] += 1));
    plan.measured = {
      device: "a made-up machine",
      steps: 3,
      op_seconds,
      op_runs,
      by_kind: timesByKind(plan, op_seconds, op_runs),
      step_seconds: plan.summary.predicted_seconds * 1.07,
      predicted_seconds: plan.summary.predicted_seconds,
      transfer_seconds: 0.011,
      hidden_seconds: 0.01,
      exposed_seconds: 0.001,
    };
  }
  return plan;
}

export function generateReport(options: Options, beside = false, front = false): Report {
  const plans = [generatePlan(options)];
  if (beside)
    plans.push(
      generatePlan({ ...options, name: `${options.name}-tight`, rerunEvery: 3, moveEvery: 4 }),
    );
  return {
    format: "lowtide-report",
    version: 1,
    verified: true,
    findings: [],
    plans,
    beside: plans.length > 1 ? besideOf(plans[0], plans[1]) : null,
    front: front ? { model: options.name, dims: { batch: 8 }, ...frontOf(plans) } : null,
  };
}

function besideOf(here: Plan, there: Plan): Beside {
  const rows: BesideRows = { name: [], module: [], bytes: [], policy: [[], []], seconds: [[], []] };
  let same = 0;
  here.tensors.name.forEach((name, t) => {
    const pair: [number, number] = [here.tensors.policy[t], there.tensors.policy[t]];
    if (pair[0] === pair[1]) return void ++same;
    rows.name.push(name);
    rows.module.push(here.modules[here.tensors.module[t]]);
    rows.bytes.push(here.tensors.bytes[t]);
    pair.forEach((policy, k) => {
      rows.policy[k].push(policy);
      rows.seconds[k].push(policy ? 1e-3 * (k + 1) : 0);
    });
  });
  return { rows, same };
}

// Ten budgets, the tightest of which has no plan.
function frontOf(plans: Plan[]): Pick<Front, "points" | "plans_left_out"> {
  const { summary } = plans[0];
  const points = Array.from({ length: 10 }, (_, i): FrontPoint => {
    const budget = Math.round(summary.peak_bytes * (1.3 - 0.08 * i)),
      extra = 0.0008 * i ** 3,
      bound = extra * 0.8;
    const point: FrontPoint = {
      budget_bytes: budget,
      status: "feasible",
      found: true,
      arena_bytes: Math.round(budget * 0.99),
      peak_bytes: Math.round(budget * 0.985),
      seconds: summary.once_seconds * (1 + extra),
      bound_seconds: summary.once_seconds * (1 + bound),
      extra_percent: extra * 100,
      bound_percent: bound * 100,
      gap_percent: (extra - bound) * 100,
      reruns: i * 5,
      stored_bytes: 0,
      loaded_bytes: 0,
      exposed_seconds: 0,
      split: "1",
      knee: i === 4,
      chosen: i === 4,
      reason: null,
      plan: i === 4 ? 0 : i === 7 && plans.length > 1 ? 1 : -1,
    };
    if (i < 9) return point;
    return {
      ...point,
      status: "limit",
      found: false,
      arena_bytes: null,
      peak_bytes: null,
      seconds: null,
      bound_seconds: null,
      extra_percent: null,
      bound_percent: null,
      gap_percent: null,
      reruns: null,
      stored_bytes: null,
      loaded_bytes: null,
      exposed_seconds: null,
      split: null,
      reason: "no plan within the work allowed",
    };
  });
  const left = points.filter((point) => point.found && point.plan < 0);
  return { points, plans_left_out: left.length };
}

// A step with at least so many stays.
export function generateLarge(stays: number): Report {
  const opsPerLayer = 24;
  const layers = Math.ceil(stays / (opsPerLayer * 4.0));
  return generateReport({ ...SMALL, layers, opsPerLayer, name: "large", measured: false });
}
