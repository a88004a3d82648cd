// What the words on the page mean, one or two plain sentences each; shown when a word with a dotted
// line is pointed at or reached by Tab, and listed at the end of the page.

import { h } from "./dom.ts";

export const TERMS = {
  arena: [
    "arena",
    "The one allocation in which everything of the step lies: the highest address that is used.",
  ],
  peak: ["peak", "The most bytes that are present at one moment. The arena is at least as large."],
  before: [
    "given order",
    "The step as the model states it: ops in the order they came in, each buffer freed after its last use, nothing reused in place.",
  ],
  budget: [
    "budget",
    "How many bytes the plan was allowed to use, everything on the device counted.",
  ],
  floor: [
    "floor",
    "The least memory that is proven to be needed: no schedule with the ops in as many parts as here can use less, however slow it is.",
  ],
  bound: [
    "memory bound",
    "A proven limit for schedules that run each op once, in as many parts as here: none of them has a lower peak.",
  ],
  timeBound: [
    "proven least time",
    "Within this budget every schedule with the ops in as many parts as here takes at least so long. A plan at this time cannot be improved without another split.",
  ],
  predicted: [
    "predicted time",
    "What the step should take by the plan's own costs of ops and transfers.",
  ],
  once: [
    "each op once",
    "The time of the step when memory is no concern: every op runs once and nothing moves.",
  ],
  extra: ["extra time", "Time that the plan pays for less memory, as a share of each op once."],
  exposed: [
    "exposed transfers",
    "Time that transfers cost: ops wait for a copy, or a copy keeps the processor from computing. A hidden transfer costs nothing.",
  ],
  recompute: [
    "made again",
    "A tensor was freed before its last use, and the op that makes it runs again when it is needed.",
  ],
  move: [
    "moved",
    "A tensor is copied to slower memory, leaves the device for a while, and is loaded again before its use.",
  ],
  split: [
    "split",
    "An op runs in several parts, one after the other, so that only a part of its data is present at once.",
  ],
  stay: [
    "stay",
    "The time that a tensor spends at one address. A tensor that leaves and comes back has several.",
  ],
  inPlace: [
    "taken over",
    "An op writes its result over an input that nobody needs any more: the new tensor takes over the old one's buffer.",
  ],
  workspace: ["workspace", "Scratch memory of one op while it runs."],
  parameter: ["parameter", "Trained weights, and buffers such as running statistics."],
  optimizer_state: [
    "optimizer state",
    "What the optimizer remembers for each weight, such as momenta.",
  ],
  gradient: ["gradient", "Gradients of the weights."],
  activation: [
    "activation",
    "What the forward pass makes; much of it is kept for the backward pass.",
  ],
  temporary: [
    "temporary",
    "What the backward pass or the update makes, other than gradients of weights.",
  ],
  input: ["input", "Data, labels and constants of the model."],
  run: ["run", "One execution of an op. An op that runs again has several."],
  step: [
    "step",
    "Of a plan: one run of an op that computes something, counted from 1 in the plan's order. Frees and transfers are not counted, nor are ops that only make views.",
  ],
  resident: ["resident", "There before the step and after it: weights, optimizer state, inputs."],
  perMs: [
    "MiB per ms",
    "How many MiB lower the peak is for each millisecond that is paid: the higher, the better the deal.",
  ],
  saved: [
    "saved at the peak",
    "By how much the peak would rise without this group of actions. Groups overlap, so the sum of all says little.",
  ],
  freed: [
    "away at most",
    "The most bytes of this group that are away from the device at one time.",
  ],
  paid: [
    "paid",
    "Time of reruns, of waiting for transfers, and what copies keep the processor from computing.",
  ],
  policy: [
    "policy",
    "What happens to the module's tensors between their uses: kept, made again, or moved.",
  ],
  dtype: ["type", "Of one element: f32 and f64 are floats of 32 and 64 bits, i64 an integer."],
  source: [
    "source",
    "The line of the model's code that makes the tensor, or whose gradient it belongs to, where the exporter has noted it.",
  ],
  measured: [
    "measured",
    "What `lowtide run --profile-out` has timed, op by op, on the machine that ran the step.",
  ],
  unverified: [
    "not verified",
    "The verifier recomputes every claim of a plan. This one has findings, listed here; do not trust its numbers.",
  ],
  verified: [
    "verified",
    "An independent verifier has recomputed every claim of this plan: addresses, order, peak, time and bounds.",
  ],
} as const satisfies Record<string, readonly [string, string]>;

export type TermKey = keyof typeof TERMS;

export function isTerm(key: string): key is TermKey {
  return key in TERMS;
}

// The word itself, or `text` in its place, with the tip attached.
export function term(key: TermKey, text?: string): HTMLElement {
  return h("span", { class: "term", tabindex: "0", "data-term": key }, text ?? TERMS[key][0]);
}

// What happens to a tensor, in the words of the page: "recomputed" is made again.
export function plainPolicy(policy: string): string {
  return policy.replace("recomputed", TERMS.recompute[0]);
}

// A category's name as people write it.
export function plainName(name: string): string {
  return name.replaceAll("_", " ");
}
