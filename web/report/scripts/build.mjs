// Bundles the page into one file, dist/report.html: style, script, licences, and a policy that lets
// nothing be loaded. @LOWTIDE_REPORT@ stays in it once, for the tool to put the data in its place.
//
//   npm run build            the page
//   node scripts/build.mjs --data FILE.json -o OUT.html      and one report, as the tool makes it

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const PLACE = "@LOWTIDE_REPORT@";

// The licence texts of the packages that esbuild has put into the script.
function licences(metafile) {
  const packages = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) packages.add(match[1]);
  }
  return [...packages]
    .sort()
    .map((name) => {
      const folder = join(root, "node_modules", name);
      const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const text = readFileSync(join(folder, "LICENSE"), "utf8").trim();
      return `${name} ${version} (${license})\n\n${text}\n`;
    })
    .join(`\n${"-".repeat(72)}\n\n`);
}

function hash(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

function guard(what, text, pattern) {
  if (pattern.test(text))
    throw new Error(`${what} holds ${pattern}, which would end its element early`);
  return text;
}

export async function makePage() {
  const script = await build({
    entryPoints: [join(root, "src/main.ts")],
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "iife",
    target: ["es2022"],
    charset: "utf8",
    legalComments: "none",
    absWorkingDir: root,
  });
  const style = await build({
    entryPoints: [join(root, "src/page.css")],
    minify: true,
    write: false,
  });
  const parts = {
    SCRIPT: guard(
      "the script",
      script.outputFiles[0].text.trim(),
      /<\/script|<!--|@LOWTIDE_REPORT@/i,
    ),
    STYLE: guard("the style", style.outputFiles[0].text.trim(), /<\/style/i),
    LICENCES: guard("a licence", licences(script.metafile), /<\/script|<!--/i),
  };
  parts.POLICY = [
    "default-src 'none'",
    `script-src ${hash(parts.SCRIPT)}`,
    `style-src ${hash(parts.STYLE)}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const page = readFileSync(join(root, "src/page.html"), "utf8").replace(
    /@(SCRIPT|STYLE|LICENCES|POLICY)@/g,
    (_, name) => parts[name],
  );
  if (page.split(PLACE).length !== 2)
    throw new Error(`${PLACE} must stand in the page exactly once`);
  return page;
}

// What the tool does with the page: the data goes in with `<` as an escape of JSON.
export function fill(page, json) {
  const [before, after] = page.split(PLACE);
  return before + json.replaceAll("<", "\\u003c") + after;
}

async function main() {
  const option = (name) =>
    process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : undefined;
  const page = await makePage();
  const data = option("--data");
  const out = data ? option("-o") : join(root, "dist/report.html");
  if (!out) throw new Error("--data FILE.json needs -o OUT.html");
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, data ? fill(page, readFileSync(data, "utf8")) : page);
  console.log(`${out}: ${Math.round(Buffer.byteLength(page) / 1024)} KiB before data`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
