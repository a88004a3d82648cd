// The front: for each budget the time of its plan, beside what is proven for every schedule. Points
// are buttons; a point whose plan is in the report shows it, any other its verdict.

import { scaleLinear } from "d3-scale";
import { pointBoundsAreOf } from "./bounds.ts";
import type { Context } from "./context.ts";
import type { Front, FrontPoint } from "./data.ts";
import { h, replace, svg, type Child } from "./dom.ts";
import { count, mib, MIB, percent, plural, time, timeApart } from "./format.ts";
import { table, tableOnDemand } from "./table.ts";
import { term } from "./terms.ts";
import { size } from "./tip.ts";

const WIDTH = 760,
  HEIGHT = 340;
const NOTHING = "\u2013";
const LEFT = 62,
  RIGHT = 20,
  TOP = 22,
  BOTTOM = 44;

// A point at which a plan was found.
export interface Reached extends FrontPoint {
  arena_bytes: number;
  peak_bytes: number;
  seconds: number;
}

// Where a plan stands that is no point.
export interface Place {
  arena_bytes: number;
  seconds: number;
}

export function reachedOf(points: readonly FrontPoint[]): Reached[] {
  return points
    .filter((p): p is Reached => p.found && p.arena_bytes !== null && p.seconds !== null)
    .sort((a, b) => a.arena_bytes - b.arena_bytes || b.seconds - a.seconds);
}

function boundOf(p: FrontPoint): number {
  return p.bound_seconds ?? 0;
}

export interface FrontScales {
  x: (bytes: number) => number;
  y: (seconds: number) => number;
  xTicks: number[]; // MiB
  yTicks: { at: number; text: string }[]; // seconds
}

export function frontScales(
  points: readonly Reached[],
  width: number,
  also: readonly Place[] = [],
): FrontScales {
  const memory = [
    ...points.flatMap((p) => [p.arena_bytes / MIB, p.budget_bytes / MIB]),
    ...also.map((p) => p.arena_bytes / MIB),
  ];
  const times = [
    ...points.flatMap((p) => (boundOf(p) > 0 ? [p.seconds, boundOf(p)] : [p.seconds])),
    ...also.map((p) => p.seconds),
  ];
  const spread = (values: number[]): [number, number] => {
    const low = Math.min(...values),
      high = Math.max(...values),
      extra = (high - low || Math.abs(high) || 1) * 0.06;
    return [Math.max(0, low - extra), high + extra];
  };
  const [unit, name] = Math.max(...times) >= 1 ? [1, "s"] : [1e3, "ms"]; // one for all ticks
  const x = scaleLinear()
    .domain(spread(memory))
    .range([LEFT, width - RIGHT]);
  const y = scaleLinear()
    .domain(spread(times).map((seconds) => seconds * unit))
    .range([HEIGHT - BOTTOM, TOP]);
  const format = y.tickFormat(6);
  return {
    x: (bytes) => x(bytes / MIB),
    y: (seconds) => y(seconds * unit),
    xTicks: x.ticks(Math.max(3, width / 110)),
    yTicks: y.ticks(6).map((at) => ({ at: at / unit, text: `${format(at)} ${name}` })),
  };
}

export interface FrontPaths {
  reached: string; // a plan serves all larger memories, up to the next plan
  bound: string; // what is proven for a budget holds for all smaller ones
  gap: string; // the area between them; "" without bounds
}

// Both lines are steps: between two points nothing is claimed that is not known.
export function frontPaths(points: readonly Reached[], { x, y }: FrontScales): FrontPaths {
  if (points.length === 0) return { reached: "", bound: "", gap: "" };
  const [first, ...others] = points;
  const reached = `M${x(first.arena_bytes)} ${y(first.seconds)}${others.map((p) => `H${x(p.arena_bytes)}V${y(p.seconds)}`).join("")}`;
  const bounded = points
    .filter((p) => boundOf(p) > 0)
    .sort((a, b) => a.budget_bytes - b.budget_bytes);
  if (bounded.length < 2) return { reached, bound: "", gap: "" };
  const [low, ...higher] = bounded,
    high = higher[higher.length - 1];
  const bound = `M${x(low.budget_bytes)} ${y(boundOf(low))}${higher.map((p) => `V${y(boundOf(p))}H${x(p.budget_bytes)}`).join("")}`;
  const back = [...bounded]
    .reverse()
    .slice(1)
    .map((p) => `H${x(p.budget_bytes)}V${y(boundOf(p))}`)
    .join("");
  return { reached, bound, gap: `${reached}H${x(high.budget_bytes)}V${y(boundOf(high))}${back}Z` };
}

export function pointText(p: FrontPoint): string {
  if (!p.found || p.arena_bytes === null || p.seconds === null) {
    return `budget ${mib(p.budget_bytes)}: nothing found${p.reason ? `: ${p.reason}` : ""}`;
  }
  const bound =
    boundOf(p) > 0
      ? `; proven: no schedule ${pointBoundsAreOf(p)} within the budget below ${timeApart(boundOf(p), p.seconds)}`
      : "";
  const marks = [p.knee && "the knee", p.chosen && "the chosen plan"].filter(Boolean).join(", ");
  const extra = p.extra_percent === null ? "" : `, ${percent(p.extra_percent / 100)} extra`;
  return `budget ${mib(p.budget_bytes)}, arena ${mib(p.arena_bytes)}, ${timeApart(p.seconds, boundOf(p))}${extra}${bound}${marks ? ` (${marks})` : ""}`;
}

// Why the plan of a point is not in the report: it was left out for the file's size, or nobody wrote
// it. Where some were left out and others not written, the data does not say which.
export function whyAbsent({ points, plans_left_out: left }: Front): string {
  const absent = points.filter((p) => p.found && p.plan < 0).length;
  if (left === 0)
    return "Its plan is not in this report; sweep --plans writes it, lowtide report shows it.";
  const open = "lowtide report shows it from its own file";
  return left >= absent
    ? `Its plan was left out, as this file would have been larger than 3 MB; ${open}.`
    : `Its plan was left out for the size of this file, or was not written by the sweep (--plans); ${open}.`;
}

function drawing(
  context: Context,
  points: Reached[],
  width: number,
  choose: (p: FrontPoint) => void,
): SVGSVGElement {
  const aside = shownAside(context);
  const scales = frontScales(points, width, aside ? [aside] : []);
  const { x, y, xTicks, yTicks } = scales;
  const paths = frontPaths(points, scales);
  const base = HEIGHT - BOTTOM;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      class: "front",
      role: "group",
      "aria-label": `Front of ${points.length} plans: time against memory`,
    },
    yTicks.map(({ at, text }) =>
      svg(
        "g",
        {},
        svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
        svg("text", { x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, text),
      ),
    ),
    xTicks.map((m) =>
      svg(
        "g",
        {},
        svg("line", { class: "tick", x1: x(m * MIB), x2: x(m * MIB), y1: base, y2: base + 5 }),
        svg("text", { x: x(m * MIB), y: base + 18, "text-anchor": "middle" }, String(m)),
      ),
    ),
    svg("line", { class: "tick", x1: LEFT, x2: width - RIGHT, y1: base, y2: base }),
    svg("text", { x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, "memory, MiB"),
    svg("text", { x: 4, y: 12 }, "time of a step"),
    paths.gap && svg("path", { class: "gap", d: paths.gap }),
    paths.bound && svg("path", { class: "bound", d: paths.bound }),
    svg("path", { class: "reached", d: paths.reached }),
    aside &&
      svg("path", {
        class: "aside",
        d: `M${x(aside.arena_bytes)} ${y(aside.seconds) - 12}l12 12l-12 12l-12 -12Z`,
        "data-tip": `shown above: arena ${mib(aside.arena_bytes)}, ${time(aside.seconds)}`,
      }),
    points.map((p) => {
      const shown = p.plan >= 0 && p.plan === context.store.state.planIndex;
      const dot = svg("circle", {
        class: `point${shown ? " shown" : ""}${p.plan >= 0 ? " has-plan" : ""}`,
        cx: x(p.arena_bytes),
        cy: y(p.seconds),
        r: shown ? 7 : 5.5,
        tabindex: "0",
        role: "button",
        "aria-label": pointText(p) + (shown ? " (shown)" : ""),
        "data-tip": pointText(p),
      });
      dot.addEventListener("click", () => choose(p));
      dot.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(p);
      });
      return dot;
    }),
  );
}

// The plan that is shown, where it is no point of the front.
function shownAside({ report, model, store }: Context): Place | null {
  if (report.front?.points.some((p) => p.plan === store.state.planIndex)) return null;
  const { arena_bytes, predicted_seconds } = model.plan.summary;
  return { arena_bytes, seconds: predicted_seconds };
}

function frontTable(points: FrontPoint[], choose: (p: FrontPoint) => void): HTMLElement {
  const bytes = (value: number | null): Child => (value === null ? NOTHING : size(value));
  const share = (value: number | null): string => (value === null ? NOTHING : percent(value / 100));
  return table<FrontPoint>({
    caption: "The front as a table",
    rows: points,
    columns: [
      {
        name: term("budget"),
        key: "budget",
        numeric: true,
        value: (p) => p.budget_bytes,
        cell: (p) => size(p.budget_bytes),
      },
      {
        name: term("arena"),
        key: "arena",
        numeric: true,
        value: (p) => p.arena_bytes ?? -1,
        cell: (p) => bytes(p.arena_bytes),
      },
      {
        name: "time",
        key: "time",
        numeric: true,
        value: (p) => p.seconds ?? -1,
        cell: (p) => (p.seconds === null ? NOTHING : timeApart(p.seconds, boundOf(p))),
      },
      {
        name: term("extra", "extra"),
        key: "extra",
        numeric: true,
        value: (p) => p.extra_percent ?? -1,
        cell: (p) => share(p.extra_percent),
      },
      {
        name: term("timeBound", "proven least"),
        key: "bound",
        numeric: true,
        value: boundOf,
        cell: (p) => (boundOf(p) > 0 ? timeApart(boundOf(p), p.seconds ?? 0) : NOTHING),
      },
      {
        name: term("recompute", "reruns"),
        key: "reruns",
        numeric: true,
        value: (p) => p.reruns ?? -1,
        cell: (p) => (p.reruns === null ? NOTHING : count(p.reruns)),
      },
      {
        name: term("move", "moved out"),
        key: "moved",
        numeric: true,
        value: (p) => p.stored_bytes ?? -1,
        cell: (p) => bytes(p.stored_bytes),
      },
      {
        name: "plan",
        key: "plan",
        cell: (p) =>
          h(
            "button",
            { type: "button", class: "link", onclick: () => choose(p) },
            p.plan >= 0 ? "show" : p.found ? "about" : "why not",
          ),
      },
    ],
  });
}

export function frontContent(context: Context): Child | null {
  const { front } = context.report;
  if (!front || front.points.length === 0) return null;
  const points = reachedOf(front.points);
  const told = h("div", { class: "of-point", role: "status" });
  const choose = (p: FrontPoint) => {
    if (p.plan >= 0 && p.plan !== context.store.state.planIndex) return context.showPlan(p.plan);
    replace(
      told,
      h(
        "p",
        {},
        h("b", {}, pointText(p)),
        p.plan >= 0
          ? ". This plan is shown."
          : `. ${p.found ? whyAbsent(front) : "There is no plan for it."}`,
      ),
    );
  };
  const place = h("div", { class: "front-place" });
  const draw = () =>
    replace(
      place,
      drawing(context, points, Math.max(300, Math.min(1100, place.clientWidth || WIDTH)), choose),
    );
  if (points.length > 0) {
    const observer = new ResizeObserver(draw);
    observer.observe(place);
    context.signal.addEventListener("abort", () => observer.disconnect());
  }
  return [
    h(
      "p",
      {},
      "Each point is a plan for one budget; the dashed line is proven: with so much memory no schedule with the ops in as many parts is faster. The nearer the two lines, the less is left to gain. Points with a ring have their plan in this report; choose one to see it.",
    ),
    shownAside(context) &&
      h(
        "p",
        { class: "note aside-note" },
        `The plan shown above, ${context.model.plan.file}, is no point of this front; the diamond is where it stands.`,
      ),
    front.plans_left_out > 0 &&
      h(
        "p",
        { class: "note left-out" },
        `${plural(front.plans_left_out, "plan")} of the front would have made this file larger than 3 MB and ${front.plans_left_out === 1 ? "is" : "are"} not in it.`,
      ),
    place,
    told,
    tableOnDemand(`The front as a table (${plural(front.points.length, "point")})`, () =>
      frontTable(front.points, choose),
    ),
  ];
}
