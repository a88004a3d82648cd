// Starts the page: reads the data that stands in it, and shows a plan. Another plan is shown by
// starting the views anew; what they listened to ends with their signal.

import { startDetails } from "./details_view.ts";
import type { Context } from "./context.ts";
import { parseReport, type Report } from "./data.ts";
import { byId, h, replace } from "./dom.ts";
import { drawEnd } from "./end_view.ts";
import { drawHeader } from "./header_view.ts";
import { startHelp, startKeys } from "./help.ts";
import { MemoryView } from "./memory_view.ts";
import { makeModel } from "./model.ts";
import { startSearch } from "./search_box.ts";
import { drawSections } from "./sections.ts";
import { makeIndex } from "./stay_index.ts";
import { Store, type State } from "./state.ts";
import { openForPrint } from "./table.ts";
import { startTheme } from "./theme.ts";
import { Tip } from "./tip.ts";
import { wholeWindow } from "./view_range.ts";

function announce(text: string): void {
  byId("live").textContent = text;
}

let current: { context: Context; end: AbortController } | null = null;

function showPlan(report: Report, tip: Tip, planIndex: number): void {
  const before = current?.context.store.state;
  current?.end.abort();
  const end = new AbortController();
  const model = makeModel(report.plans[planIndex]);
  const state: State = {
    planIndex,
    axis: before?.axis ?? "seconds",
    colouring: before?.colouring ?? "category",
    window: wholeWindow(model, before?.axis ?? "seconds"),
    selection: null,
    pointer: null,
    showGiven: before?.showGiven ?? true,
    found: null,
    theme: 0,
  };
  const store = new Store(state);
  const context: Context = {
    report,
    model,
    store,
    tip,
    announce,
    signal: end.signal,
    index: makeIndex(model),
    choose: (selection, show = false) => {
      store.set({ selection });
      if (show) memory.showSelection(selection);
    },
    showPlan: (index) => showPlan(report, tip, index),
  };
  current = { context, end };
  drawHeader(context);
  const memory = new MemoryView(context);
  startDetails(context, () => {
    memory.showSelection();
    byId("memory").scrollIntoView({ block: "start" });
  });
  startSearch(context);
  startKeys(context);
  drawSections(context);
  drawEnd(context);
}

function start(): void {
  const text = byId("lowtide-report").textContent ?? "";
  try {
    const report = parseReport(text);
    const themes = startTheme(() => {
      const store = current?.context.store;
      store?.set({ theme: store.state.theme + 1 });
      store?.flush();
    });
    byId("theme-place").append(themes);
    startHelp();
    openForPrint();
    showPlan(report, new Tip(), 0);
    document.documentElement.dataset["ready"] = "true";
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    replace(
      byId("banner"),
      h(
        "div",
        { class: "banner", role: "alert" },
        h("strong", {}, "This report cannot be shown."),
        ` ${reason}`,
      ),
    );
    document.documentElement.dataset["ready"] = "failed";
  }
}

start();
