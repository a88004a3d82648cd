// Names of tensors, ops and modules in tables: they break behind dots and slashes only, and long ones
// are shortened in the middle, as both ends tell: where it belongs, and which one it is. The full
// name is then in the tip.

import { h, type Child } from "./dom.ts";

const MOST_LETTERS = 44;
const MOST_OF_PART = 26; // of what stands between two dots or slashes, where no line may break

export function shortened(name: string, most: number): string {
  if (name.length <= most) return name;
  const front = Math.ceil((most - 1) / 2);
  return `${name.slice(0, front)}\u2026${name.slice(name.length - (most - 1 - front))}`;
}

// The parts of a name, each with the dots and slashes behind it.
export function partsOf(name: string): string[] {
  return name.match(/[^./]*[./]+|[^./]+/g) ?? [];
}

export function shownName(name: string): string {
  const parts = partsOf(name).map((part) => shortened(part, MOST_OF_PART));
  return shortened(parts.join(""), MOST_LETTERS);
}

export function breakable(name: string): Child[] {
  const whole = (part: string): Child =>
    part.includes("\u2026") ? h("span", { class: "whole" }, part) : part;
  return partsOf(name).flatMap((part, i) => (i === 0 ? [whole(part)] : [h("wbr"), whole(part)]));
}

// What an element needs that shows the name: nothing where all of it is seen.
export function nameAttributes(name: string): Record<string, string> {
  return shownName(name) === name ? {} : { "data-tip": name, "data-name": name };
}

// The name alone, without a link.
export function nameText(name: string): Child {
  if (shownName(name) === name) return breakable(name);
  return h(
    "span",
    { "data-tip": name, "data-name": name, tabindex: "0" },
    breakable(shownName(name)),
  );
}
