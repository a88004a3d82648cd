// What the page shows at the moment, in one place. Views read it and ask to be told of changes;
// those are gathered, so that a view is drawn at most once per frame.

import type { Axis } from "./model.ts";
import type { Window } from "./window.ts";

export type Selection =
  | { kind: "tensor"; id: number }
  | { kind: "op"; id: number }
  | { kind: "module"; path: string } // and all below it
  | { kind: "run"; id: number };

export type Colouring = "category" | "module" | "history";

// Where the pointer is: a time of the axis, and the rectangle under it (-1: none).
export interface Pointer {
  x: number;
  rectangle: number;
}

export interface State {
  planIndex: number;
  axis: Axis;
  colouring: Colouring;
  window: Window;
  selection: Selection | null;
  pointer: Pointer | null;
  showGiven: boolean;
  found: ReadonlySet<number> | null; // tensors that the search has found
  theme: number; // counts changes of colours
}

export type Key = keyof State;
export type Listener = (state: State, changed: ReadonlySet<Key>) => void;

export class Store {
  private listeners: { keys: readonly Key[]; listener: Listener }[] = [];
  private changed = new Set<Key>();
  private scheduled = false;

  constructor(readonly state: State) {}

  set(patch: Partial<State>): void {
    for (const [key, value] of Object.entries(patch) as [Key, never][]) {
      if (this.state[key] === value) continue;
      this.state[key] = value;
      this.changed.add(key);
    }
    if (this.changed.size === 0 || this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.flush());
  }

  // Calls the listener on the next frame after any of the keys has changed.
  on(keys: readonly Key[], listener: Listener): void {
    this.listeners.push({ keys, listener });
  }

  flush(): void {
    this.scheduled = false;
    const changed = this.changed;
    this.changed = new Set();
    if (changed.size === 0) return;
    for (const { keys, listener } of this.listeners) {
      if (keys.some((key) => changed.has(key))) listener(this.state, changed);
    }
  }
}
