// Light and dark: as the system says, or as the reader chose. Charts are drawn on canvases, so they
// ask here for the colours that the style sheet has at the moment. Paper is always light.

import { h } from "./dom.ts";

export type Choice = "auto" | "light" | "dark";
const CHOICES: Choice[] = ["auto", "light", "dark"];
const KEY = "lowtide-report-theme";

export interface Inks {
  ground: string;
  surface: string;
  ink: string;
  muted: string;
  line: string;
  accent: string;
  alarm: string;
  dark: boolean;
}

let printing = false;
let choice: Choice = "auto";

function stored(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return CHOICES.includes(value as Choice) ? (value as Choice) : "auto";
  } catch {
    return "auto"; // a page without storage of its own forgets the choice
  }
}

function darkSystem(): MediaQueryList {
  return matchMedia("(prefers-color-scheme: dark)");
}

export function isDark(): boolean {
  if (printing) return false;
  return choice === "dark" || (choice === "auto" && darkSystem().matches);
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

export function inks(): Inks {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    ground: of("--ground"),
    surface: of("--surface"),
    ink: of("--ink"),
    muted: of("--muted"),
    line: of("--line"),
    accent: of("--accent"),
    alarm: of("--alarm"),
    dark: isDark(),
  };
}

export function setTheme(next: Choice): void {
  choice = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // see stored()
  }
  apply();
}

// Calls `changed` whenever the colours are others than before.
export function startTheme(changed: () => void): HTMLElement {
  choice = stored();
  apply();
  const update = () => {
    apply();
    changed();
  };
  darkSystem().addEventListener("change", update);
  addEventListener("beforeprint", () => {
    printing = true;
    update();
  });
  addEventListener("afterprint", () => {
    printing = false;
    update();
  });
  const select = h(
    "select",
    { id: "theme", "aria-label": "colours of the page" },
    CHOICES.map((name) =>
      h("option", { value: name, selected: name === choice }, name === "auto" ? "system" : name),
    ),
  );
  select.addEventListener("change", () => {
    setTheme(select.value as Choice);
    changed();
  });
  return select;
}
