// The search field with its list (a combobox as WAI-ARIA describes it). While a question stands in
// it, the tensors that it finds are brought forward on the map.

import type { Context } from "./context.ts";
import { byId, h, replace } from "./dom.ts";
import { count } from "./format.ts";
import { makeNames, search, type Hit } from "./search.ts";
import { size } from "./tip.ts";

const MOST = 40;

function optionOf(context: Context, hit: Hit, i: number, take: (hit: Hit) => void): HTMLElement {
  const option = h(
    "li",
    { role: "option", id: `search-${i}`, "aria-selected": "false" },
    h("span", { class: "kind" }, hit.kind),
    h("span", { class: "name" }, hit.name),
    hit.kind === "tensor" && size(context.model.plan.tensors.bytes[hit.id]),
  );
  option.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    take(hit);
  });
  return option;
}

export function startSearch(context: Context): void {
  const input = byId("search") as HTMLInputElement,
    listbox = byId("search-list"),
    told = byId("search-count");
  const names = makeNames(context.model.plan);
  let hits: Hit[] = [];
  let at = -1;
  const options = { signal: context.signal };

  const mark = () => {
    [...listbox.children].forEach((option, i) =>
      option.setAttribute("aria-selected", String(i === at)),
    );
    const option = listbox.children[at];
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    listbox.hidden = true;
    input.setAttribute("aria-expanded", "false");
    at = -1;
    mark();
  };
  const take = (hit: Hit) => {
    input.value = "";
    told.textContent = "";
    close();
    context.store.set({ found: null });
    context.choose(
      hit.kind === "module" ? { kind: "module", path: hit.name } : { kind: hit.kind, id: hit.id },
      true,
    );
  };
  const update = () => {
    const found = search(names, input.value, MOST);
    hits = found.hits;
    at = -1;
    replace(
      listbox,
      hits.map((hit, i) => optionOf(context, hit, i, take)),
    );
    const asked = input.value.trim() !== "";
    listbox.hidden = hits.length === 0;
    input.setAttribute("aria-expanded", String(hits.length > 0));
    told.textContent = asked
      ? found.total > 0
        ? `${count(found.total)} found`
        : "nothing found"
      : "";
    context.store.set({ found: asked && found.tensors.size > 0 ? found.tensors : null });
  };
  input.addEventListener("input", update, options);
  input.addEventListener("blur", () => setTimeout(close, 0), options);
  input.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (hits.length === 0) return;
        at = (at + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % hits.length;
        mark();
      } else if (event.key === "Enter" && hits.length > 0) take(hits[Math.max(0, at)]);
      else if (event.key === "Escape") {
        input.value = "";
        update();
        input.blur();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
    options,
  );
}
