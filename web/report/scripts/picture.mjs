// Takes the README's picture from a report: the top of the page with curve and address map.
//
//   lowtide report PLAN -o FILE.html && node scripts/picture.mjs FILE.html ../../docs/report.png

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "../browser/launch.mjs";

const MOST_BYTES = 300_000;
const [file, out] = process.argv.slice(2);
if (!file || !out) throw new Error("usage: picture.mjs REPORT.html OUT.png");
const browser = await launch();
const page = await browser.newPage({
  viewport: { width: 1400, height: 1330 },
  colorScheme: "light",
});
await page.goto(pathToFileURL(resolve(file)).href);
await page.waitForSelector("html[data-ready=true]");
await page.waitForFunction(() => Number(document.querySelector("canvas.map").dataset.frames) > 0);
await page.screenshot({ path: out });
await browser.close();
const { size } = statSync(out);
if (size > MOST_BYTES) throw new Error(`${out} has ${size} bytes, the limit is ${MOST_BYTES}`);
console.log(`${out}: ${size} bytes`);
