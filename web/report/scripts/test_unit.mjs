// Runs test/*.test.ts with node's own runner.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle } from "./bundle.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const files = readdirSync(join(root, "test"))
  .filter((name) => name.endsWith(".test.ts"))
  .sort();
const built = await Promise.all(files.map((name) => bundle(`test/${name}`)));
process.exit(
  spawnSync(process.execPath, ["--test", "--test-reporter=tap", ...built], { stdio: "inherit" })
    .status ?? 1,
);
