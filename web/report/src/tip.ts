// The page's one tip. It follows the pointer over a chart, stands beside a word that has an
// explanation, and shows the exact bytes of a size. Esc hides it.

import { h, replace, type Child } from "./dom.ts";
import { exactBytes, mib } from "./format.ts";
import { TERMS, isTerm } from "./terms.ts";

const MARGIN = 14; // pixels between the pointer and the tip

export class Tip {
  readonly element = h("div", { id: "tip", role: "tooltip", hidden: true });
  private described: Element | null = null;

  constructor() {
    document.body.append(this.element);
    const near = (event: Event) => this.explain(event.target as Element);
    document.addEventListener("focusin", near);
    document.addEventListener("pointerover", near);
    document.addEventListener("focusout", () => this.hide());
    document.addEventListener("scroll", () => this.hide(), { passive: true, capture: true });
  }

  private explain(target: Element): void {
    const owner = target.closest?.("[data-term], [data-bytes], [data-tip]") as HTMLElement | null;
    if (!owner) {
      if (this.described) this.hide();
      return;
    }
    if (owner === this.described) return;
    const key = owner.dataset["term"];
    const content: Child =
      key !== undefined && isTerm(key)
        ? [h("strong", {}, TERMS[key][0]), " ", TERMS[key][1]]
        : owner.dataset["bytes"] !== undefined
          ? exactBytes(Number(owner.dataset["bytes"]))
          : owner.dataset["tip"];
    const box = owner.getBoundingClientRect();
    this.show(content, box.left, box.bottom - MARGIN + 6);
    this.described = owner;
    owner.setAttribute("aria-describedby", "tip");
  }

  // Shows content beside a point of the window, inside it.
  show(content: Child, x: number, y: number): void {
    this.release();
    replace(this.element, content);
    this.element.hidden = false;
    const { width, height } = this.element.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + MARGIN, innerWidth - width - 6));
    const below = y + MARGIN + height < innerHeight;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${Math.max(4, below ? y + MARGIN : y - height - MARGIN)}px`;
  }

  private release(): void {
    this.described?.removeAttribute("aria-describedby");
    this.described = null;
  }

  hide(): void {
    this.release();
    this.element.hidden = true;
  }
}

// A size in MiB whose tip says the bytes.
export function size(bytes: number): HTMLElement {
  return h("span", { class: "size", "data-bytes": bytes }, mib(bytes));
}
