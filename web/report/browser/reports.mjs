// The pages that the browser tests open: made-up reports put into the built page, as the tool does.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { fill } from "../scripts/build.mjs";
import { load } from "../scripts/bundle.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { SMALL, generateLarge, generateReport } = await load("testing/generate.ts");

export const HTML_NAME = '<img src=x onerror="document.title=1"><script>document.title=2</script>';

function withHtml() {
  const report = generateReport(SMALL);
  const [plan] = report.plans;
  plan.tensors.name[20] = HTML_NAME;
  plan.ops.name[3] = `${HTML_NAME}</script><!--<script>`;
  plan.modules[2] = HTML_NAME;
  plan.module_tree[3].path = HTML_NAME;
  plan.tensors.aliases[20] = [HTML_NAME];
  plan.file = `${HTML_NAME}.lt`;
  plan.model = HTML_NAME;
  plan.verdict = [HTML_NAME];
  return report;
}

function unverified() {
  return {
    ...generateReport(SMALL),
    verified: false,
    findings: ["overlap: a and b share 4096 bytes in step 7", HTML_NAME],
  };
}

function unverifiedBeside() {
  const report = generateReport(SMALL, true);
  const findings = [`/plans/${report.plans[1].file}: peak: claimed 1, found 2`];
  return { ...report, verified: false, findings };
}

// Names as long as those of real networks.
function longNames() {
  const report = generateReport(SMALL, true, true);
  const path = (name) => name && `transformer.${name.replace("mlp", "feed_forward_intermediate")}`;
  for (const plan of report.plans) {
    plan.modules = plan.modules.map(path);
    plan.tensors.name = plan.tensors.name.map((name) =>
      /grad$/.test(name) ? `node_${name}/ReduceSum/transformer.h.10.attn/part3` : path(name),
    );
    plan.ops.name = plan.ops.name.map((name) => `node_${name}_scaled_dot_product_attention`);
    plan.kinds = plan.kinds.map((kind) => (kind === "Gradient" ? "BatchNormTrainGrad" : kind));
    for (const kind of plan.measured.by_kind)
      if (kind.kind === "Gradient") kind.kind = "BatchNormTrainGrad";
    for (const group of plan.actions.groups) group.module = path(group.module);
    for (const row of plan.module_tree) {
      row.path = path(row.path);
      row.paths = row.paths.map(path);
    }
  }
  const { rows } = report.beside;
  rows.name = rows.name.map(path);
  rows.module = rows.module.map(path);
  return report;
}

// A given order that is hardly above the plan, and a floor above the bound of each op once.
function near() {
  const report = generateReport(SMALL);
  const [{ curve, summary }] = report.plans;
  const most = Math.max(...curve.given);
  curve.given = curve.given.map((bytes) => Math.round((bytes / most) * summary.peak_bytes * 1.04));
  summary.peak_before_bytes = Math.max(...curve.given);
  summary.lower_bound_bytes = summary.floor_bytes - 4096;
  return report;
}

// A plan in a small part of what the given order needs.
function far() {
  const report = generateReport(SMALL, true, true);
  const [{ curve, summary }] = report.plans;
  curve.given = curve.given.map((bytes) => bytes * 4);
  summary.peak_before_bytes = Math.max(...curve.given);
  summary.lower_bound_bytes = Math.round(summary.peak_before_bytes * 0.95);
  return report;
}

// The first plan's copies slow its ops, so that it ends later than its last step; it is no point of the
// front, none of whose plans were written.
function copying() {
  const report = generateReport(SMALL, true, true);
  const [{ summary }] = report.plans;
  summary.copying_seconds = 0.05;
  summary.predicted_seconds = summary.timeline_seconds + 0.05;
  for (const point of report.front.points) if (point.plan === 0) point.plan = -1;
  report.front.plans_left_out = 0;
  return report;
}

// As of a plan file alone, run by something that does not time transfers.
function lacking() {
  const report = generateReport(SMALL);
  const [plan] = report.plans;
  plan.actions.next_budget = null;
  Object.assign(plan.measured, { transfer_seconds: 0, hidden_seconds: 0, exposed_seconds: 0 });
  return report;
}

const KINDS = {
  lacking,
  compare: () => generateReport(SMALL, true, true),
  near,
  copying,
  far,
  html: withHtml,
  "long names": longNames,
  unverified,
  "unverified beside": unverifiedBeside,
  still: () => generateReport({ ...SMALL, rerunEvery: 0, moveEvery: 0 }),
  large: () => generateLarge(105000),
};

// Writes the page of a kind into build/ and returns its data and address.
export function makeReport(kind) {
  const report = KINDS[kind]();
  const page = readFileSync(join(root, "dist/report.html"), "utf8");
  const path = join(root, "build", `test-${kind.replaceAll(" ", "-")}.html`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, fill(page, JSON.stringify(report)));
  return { report, url: pathToFileURL(path).href };
}
