// The controls above the memory charts: which axis, which colours, the given order, zooming.

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { busyAddresses } from "./map_view.ts";
import { rangeOfRun, type Axis } from "./model.ts";
import type { Colouring } from "./state.ts";
import { term } from "./terms.ts";
import { wholeWindow } from "./view_range.ts";

export interface Zooming {
  setAxis: (axis: Axis) => void;
  zoomBy: (factor: number) => void;
  showRange: (range: [number, number], margin: number) => void;
}

function radio<T extends string>(
  name: string,
  legend: string,
  values: [T, string][],
  now: T,
  choose: (value: T) => void,
): HTMLElement {
  return h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, legend),
    values.map(([value, text]) =>
      h(
        "label",
        {},
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === now,
          onchange: () => choose(value),
        }),
        h("span", {}, text),
      ),
    ),
  );
}

function button(text: string, label: string, act: () => void): HTMLElement {
  return h(
    "button",
    { type: "button", "aria-label": label, "data-tip": label, onclick: act },
    text,
  );
}

export function memoryControls({ store, model }: Context, zooming: Zooming): HTMLElement[] {
  const { axis, colouring, showGiven } = store.state;
  const given = h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      checked: showGiven,
      onchange: (event: Event) =>
        store.set({ showGiven: (event.target as HTMLInputElement).checked }),
    }),
    term("before"),
  );
  return [
    radio<Axis>(
      "axis",
      "Time",
      [
        ["seconds", "seconds"],
        ["runs", "by step"],
      ],
      axis,
      (value) => zooming.setAxis(value),
    ),
    radio<Colouring>(
      "colouring",
      "Colour",
      [
        ["category", "category"],
        ["module", "module"],
        ["history", "history"],
      ],
      colouring,
      (value) => store.set({ colouring: value }),
    ),
    given,
    h(
      "div",
      { class: "buttons", role: "group", "aria-label": "zoom" },
      button("\u2212", "zoom out", () => zooming.zoomBy(1 / 1.6)),
      button("+", "zoom in", () => zooming.zoomBy(1.6)),
      button("Peak", "Peak: zoom to it", () =>
        zooming.showRange(rangeOfRun(model, store.state.axis, model.peakRun), 12),
      ),
      button("Busy", "Busy: only addresses whose tenants change", () =>
        store.set({ window: { x: store.state.window.x, y: busyAddresses(model) } }),
      ),
      button("All", "All: show the whole step", () =>
        store.set({ window: wholeWindow(model, store.state.axis) }),
      ),
    ),
  ];
}
