// Takes pictures of a report: each section at four widths in both themes, to be looked at.
//
//   node scripts/shots.mjs REPORT.html FOLDER [WIDTH,...] [light,dark] [SECTION,...]

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "../browser/launch.mjs";

const [file, folder, widths = "360,900,1200,1600", themes = "light,dark", only = ""] =
  process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const width of widths.split(",").map(Number)) {
  for (const colorScheme of themes.split(",")) {
    const page = await browser.newPage({
      viewport: { width, height: width < 500 ? 740 : 1000 },
      colorScheme,
      deviceScaleFactor: width < 500 ? 2 : 1,
    });
    page.on("console", (message) => console.log(message.type(), message.text()));
    page.on("pageerror", (error) => console.log("error", error.message));
    await page.goto(pathToFileURL(resolve(file)).href);
    await page.waitForSelector("html[data-ready]");
    const take = (name) =>
      page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
    const wanted = (name) => only === "" || only.split(",").includes(name);
    if (wanted("top")) await take("top");
    await page.evaluate(() => void (document.getElementById("top").style.position = "relative"));
    for (const id of await page.$$eval("section", (all) => all.map((one) => one.id))) {
      if (!wanted(id)) continue;
      await page
        .locator(`#${id}`)
        .screenshot({ path: join(folder, `${id}-${width}-${colorScheme}.png`) });
    }
    await page.close();
  }
}
await browser.close();
