// Starts the system's Chromium without a window. `chromiumPath()` is null where there is none.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function chromiumPath() {
  return process.env.LOWTIDE_CHROMIUM ?? PLACES.find((path) => existsSync(path)) ?? null;
}

export async function launch() {
  const executablePath = chromiumPath();
  if (!executablePath)
    throw new Error(
      `no Chromium: none of ${PLACES.join(", ")} is there, LOWTIDE_CHROMIUM is not set`,
    );
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}
