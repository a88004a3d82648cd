// Writes a made-up report (testing/generate.ts) as JSON, to work on the page without a plan.
//
//   node scripts/generate.mjs small|compare|large OUT.json [STAYS]

import { writeFileSync } from "node:fs";
import { load } from "./bundle.mjs";

const [kind, out, stays] = process.argv.slice(2);
const { SMALL, generateLarge, generateReport } = await load("testing/generate.ts");
const made = {
  small: () => generateReport(SMALL),
  compare: () => generateReport(SMALL, true, true),
  large: () => generateLarge(Number(stays ?? 100000)),
}[kind];
if (!made || !out) throw new Error("usage: generate.mjs small|compare|large OUT.json [STAYS]");
const report = made();
writeFileSync(out, JSON.stringify(report));
console.log(
  `${out}: ${report.plans.map((plan) => `${plan.stays.tensor.length} stays`).join(", ")}`,
);
