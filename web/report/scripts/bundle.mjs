// Runs a TypeScript module under node: bundles it into build/ and imports it. Used by the tests and
// the scripts, which share the page's own modules.

import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

export async function bundle(entry) {
  const outfile = join(root, "build", entry.replace(/\.ts$/, ".mjs"));
  await build({
    entryPoints: [join(root, entry)],
    bundle: true,
    outfile,
    platform: "node",
    format: "esm",
    packages: "external",
    target: ["node18"],
    sourcemap: "inline",
    absWorkingDir: root,
  });
  return outfile;
}

export async function load(entry) {
  return import(pathToFileURL(await bundle(entry)).href);
}
