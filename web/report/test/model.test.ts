// Indexes of a plan, on a made-up step: runs, stays, what is present when, picking.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STAY_RESIDENT, STEP_COMPUTE } from "../src/data.ts";
import { inFocus, staysOf } from "../src/focus.ts";
import { groupOf } from "../src/groups.ts";
import { timeTicks } from "../src/frame.ts";
import { heightAt, heightsOf } from "../src/heights.ts";
import { intervalAt, makeLanes } from "../src/lanes.ts";
import { busyAddresses } from "../src/map_view.ts";
import {
  axisLength,
  lastAtMost,
  makeModel,
  runAt,
  runsFromSeconds,
  secondsFromRuns,
} from "../src/model.ts";
import { inWindow, makeIndex, pick, presentIn } from "../src/stay_index.ts";
import { generatePlan, SMALL } from "../testing/generate.ts";

const plan = generatePlan(SMALL);
const model = makeModel(plan);
const index = makeIndex(model);

test("a run is a compute step, and the totals are the steps' bytes", () => {
  const computing = plan.steps.kind.filter((kind) => kind === STEP_COMPUTE).length;
  assert.equal(model.runs, computing);
  for (let r = 0; r < model.runs; ++r)
    assert.equal(model.totals[r], plan.steps.bytes[model.stepOfRun[r]]);
  assert.equal(model.totals[model.peakRun], plan.summary.peak_bytes);
});

test("both axes are monotone and translate into one another", () => {
  for (let x = 0; x <= model.runs; x += 0.37) {
    const back = runsFromSeconds(model, secondsFromRuns(model, x));
    assert.ok(Math.abs(back - x) < 1e-6, `${x} came back as ${back}`);
  }
  assert.equal(runAt(model, "seconds", 0), 0);
  assert.equal(runAt(model, "seconds", axisLength(model, "seconds")), model.runs - 1);
  assert.equal(lastAtMost([0, 1, 1, 2], 1), 2);
});

test("what is present in a run adds up to its total, and nothing overlaps", () => {
  const r = model.rectangles;
  for (let run = 0; run < model.runs; run += 13) {
    const here = presentIn(index, model, run).sort((a, b) => r.low[a] - r.low[b]);
    const sum = here.reduce((bytes, i) => bytes + r.high[i] - r.low[i], 0);
    assert.equal(sum, model.totals[run], `run ${run}`);
    for (let k = 1; k < here.length; ++k)
      assert.ok(r.low[here[k]] >= r.high[here[k - 1]], `run ${run}: overlap`);
  }
});

test("the middle of each rectangle is picked on both axes", () => {
  const r = model.rectangles;
  for (let i = 0; i < r.count; ++i) {
    const y = (r.low[i] + r.high[i]) / 2;
    if (r.runEnd[i] > r.runBegin[i]) {
      const found = pick(index, model, "runs", (r.runBegin[i] + r.runEnd[i]) / 2, y, 1e-9, 1e-9);
      assert.equal(found, i);
    }
    if (r.secondsEnd[i] > r.secondsBegin[i]) {
      const found = pick(
        index,
        model,
        "seconds",
        (r.secondsBegin[i] + r.secondsEnd[i]) / 2,
        y,
        1e-12,
        1e-9,
      );
      assert.equal(found, i);
    }
  }
  assert.equal(pick(index, model, "runs", 0.5, model.arena * 10, 1, 1), -1);
});

test("the index finds what a scan finds", () => {
  const r = model.rectangles;
  const window = { x: { low: 50.5, high: 80.25 }, y: { low: 5e7, high: 2e8 } };
  const found = new Set(inWindow(index, model, "runs", window));
  for (let i = 0; i < r.count; ++i) {
    const meets =
      r.runBegin[i] < window.x.high &&
      r.runEnd[i] > window.x.low &&
      r.low[i] < window.y.high &&
      r.high[i] > window.y.low;
    if (meets) assert.ok(found.has(i), `rectangle ${i} is missing`);
  }
});

test("a tensor is followed through its stays, an op to its tensors", () => {
  const moved = plan.transfers.tensor[0];
  const stays = staysOf(model, moved);
  assert.ok(stays.length >= 2);
  assert.deepEqual(inFocus(model, { kind: "tensor", id: moved }, null), stays);
  const op = plan.tensors.made_by[moved];
  const focus = inFocus(model, { kind: "op", id: op }, null).map((i) => model.rectangles.tensor[i]);
  for (const t of [...plan.ops.inputs[op], ...plan.ops.outputs[op]])
    assert.ok(focus.includes(t), `tensor ${t} of the op is not in focus`);
  assert.ok([...groupOf(model.readersOfTensor, moved)].length > 0);
  assert.deepEqual(inFocus(model, { kind: "run", id: 3 }, null), []);
  assert.deepEqual(inFocus(model, null, new Set([moved])), stays);
});

test("busy addresses hold all that is not resident", () => {
  const { low, high } = busyAddresses(model);
  const r = model.rectangles;
  for (let i = 0; i < r.count; ++i) {
    if (r.why[i] !== STAY_RESIDENT)
      assert.ok(r.low[i] >= low && r.high[i] <= high, `rectangle ${i}`);
  }
  assert.ok(low > 0 && high <= model.arena);
});

test("each phase has its lane, and each run lies in that of its phase", () => {
  const lanes = makeLanes(model, "runs");
  assert.deepEqual(
    lanes.filter((lane) => lane.name === "phase").map((lane) => lane.label),
    ["forward", "backward", "update"],
  );
  for (let run = 0; run < model.runs; ++run) {
    const phase = model.plan.ops.phase[model.plan.steps.op[model.stepOfRun[run]]];
    lanes
      .filter((lane) => lane.name === "phase")
      .forEach((lane, p) => assert.equal(intervalAt(lane, run + 0.5, 0.1) >= 0, p === phase));
  }
});

test("by step the number of a step stands under its middle, from 1", () => {
  assert.deepEqual(timeTicks("runs", { low: 0, high: 4 }, 4), [
    { at: 0.5, text: "1" },
    { at: 1.5, text: "2" },
    { at: 2.5, text: "3" },
    { at: 3.5, text: "4" },
  ]);
  const [first, second] = timeTicks("runs", { low: 0, high: 1000 }, 5);
  assert.deepEqual([first, second], [
    { at: 0.5, text: "1" },
    { at: 199.5, text: "200" },
  ]);
});

test("the curve's scale is broken where the plan would be a strip, and rises all the same", () => {
  const frame = { top: 18, bottom: 218 };
  assert.equal(heightsOf(100, 150).broken, null);
  const whole = heightAt(frame, heightsOf(100, 150));
  assert.deepEqual([whole(0), whole(150)], [218, 18]);
  const heights = heightsOf(100, 1000);
  const at = heightAt(frame, heights);
  assert.equal(heights.broken, 100);
  assert.deepEqual([at(0), at(1000)], [218, 18]);
  assert.ok(at(0) - at(100) > 0.6 * 200, "the plan has most of the height");
  for (let bytes = 1; bytes <= 1000; ++bytes) assert.ok(at(bytes) < at(bytes - 1), `${bytes}`);
});

test("lanes list reruns, waits and transfers", () => {
  const lanes = makeLanes(model, "runs");
  const named = (name: string) => lanes.find((lane) => lane.name === name)!;
  assert.equal(named("again").begin.length, plan.steps.run.filter((run) => run > 0).length);
  assert.equal(named("to host").begin.length, plan.transfers.out.filter((out) => out === 1).length);
  const lane = named("again");
  assert.equal(intervalAt(lane, lane.begin[2] + 0.5, 0.1), 2);
  assert.equal(intervalAt(lane, -100, 0.1), -1);
});
