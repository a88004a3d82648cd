// The sections below the memory section, each only where the report has data for it, and the links
// to them at the top.

import { actionsContent } from "./actions_view.ts";
import { besideContent } from "./beside_view.ts";
import type { Context } from "./context.ts";
import { byId, h, replace, type Child } from "./dom.ts";
import { frontContent } from "./front_view.ts";
import { measuredContent } from "./measured_view.ts";
import { modulesContent } from "./modules_view.ts";

interface Section {
  id: string;
  title: string;
  content: (context: Context) => Child | null; // null: the report has nothing for it
}

const SECTIONS: Section[] = [
  { id: "actions", title: "What was done", content: actionsContent },
  { id: "modules", title: "Modules", content: modulesContent },
  { id: "front", title: "The front", content: frontContent },
  { id: "beside", title: "Beside another plan", content: besideContent },
  { id: "measured", title: "Measured", content: measuredContent },
];

export function drawSections(context: Context): void {
  const links: HTMLElement[] = [h("a", { href: "#memory" }, "Memory")];
  const sections: HTMLElement[] = [];
  for (const section of SECTIONS) {
    const content = section.content(context);
    if (content === null) continue;
    links.push(h("a", { href: `#${section.id}` }, section.title));
    sections.push(
      h(
        "section",
        { id: section.id, "aria-labelledby": `${section.id}-title` },
        h("h2", { id: `${section.id}-title` }, section.title),
        content,
      ),
    );
  }
  replace(byId("sections"), sections);
  replace(byId("links"), links);
}
