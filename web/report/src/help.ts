// The list of keys, shown by `?`, and the keys that work everywhere on the page.

import type { Context } from "./context.ts";
import { byId, h, replace } from "./dom.ts";

const KEYS: [string, string][] = [
  ["/", "search for a tensor, an op or a module"],
  ["?", "this list"],
  ["Esc", "let go: the search, what is chosen, this list"],
  ["Tab", "to the next control; the curve and the address map are controls"],
  ["\u2190 \u2192", "on a chart: the step before, the step after"],
  ["\u2191 \u2193", "on the address map: the stay above, the stay below"],
  ["Enter", "on a chart: choose what is pointed at"],
  ["Shift + arrows", "on a chart: move the window"],
  ["+ \u2212 0", "on a chart: zoom in, zoom out, the whole step"],
  [
    "wheel",
    "on a chart that has the focus, or with Ctrl: zoom; with Shift only time, with Alt only addresses",
  ],
  ["drag", "move the window; two fingers zoom"],
  ["double click", "show all stays of the tensor"],
];

export function startHelp(): void {
  const dialog = byId("help") as HTMLDialogElement;
  replace(
    dialog,
    h("h2", { id: "help-title" }, "Keys"),
    h(
      "dl",
      { class: "keys" },
      KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what))),
    ),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
  byId("help-button").addEventListener("click", () => dialog.showModal());
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLInputElement && target.type !== "radio" && target.type !== "checkbox"
  );
}

export function startKeys(context: Context): void {
  const dialog = byId("help") as HTMLDialogElement;
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        context.tip.hide();
        if (!dialog.open) context.choose(null);
        return;
      }
      if (isTyping(event.target)) return;
      if (event.key === "/") byId("search").focus();
      else if (event.key === "?") dialog.open ? dialog.close() : dialog.showModal();
      else return;
      event.preventDefault();
    },
    { signal: context.signal },
  );
}
