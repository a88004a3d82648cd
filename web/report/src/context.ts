// What every view gets: the report, the plan that is shown, its indexes, the state, and the tip.

import type { Report } from "./data.ts";
import type { Model } from "./model.ts";
import type { StayIndex } from "./stay_index.ts";
import type { Selection, Store } from "./state.ts";
import type { Tip } from "./tip.ts";

export interface Context {
  report: Report;
  model: Model;
  index: StayIndex;
  store: Store;
  tip: Tip;
  signal: AbortSignal; // ends with the view: another plan is shown
  announce: (text: string) => void; // to screen readers
  choose: (selection: Selection | null, show?: boolean) => void; // show: bring it into the window
  showPlan: (index: number) => void;
}
