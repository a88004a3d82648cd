// The sections below the memory section, each only where the report has data for it, and the links
// to them at the top.

import type { Context } from "./context.ts";
import { byId, h, replace, type Child } from "./dom.ts";

interface Section {
  id: string;
  title: string;
  content: (context: Context) => Child | null; // null: the report has nothing for it
}

const SECTIONS: Section[] = [];

export function drawSections(context: Context): void {
  const links: HTMLElement[] = [h("a", { href: "#memory" }, "Memory")];
  const sections: HTMLElement[] = [];
  for (const section of SECTIONS) {
    const content = section.content(context);
    if (content === null) continue;
    links.push(h("a", { href: `#${section.id}` }, section.title));
    sections.push(h("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
      h("h2", { id: `${section.id}-title` }, section.title), content));
  }
  replace(byId("sections"), sections);
  replace(byId("links"), links);
}
