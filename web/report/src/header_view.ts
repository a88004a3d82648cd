// The top of the page: which plan of which model this is, whether it is verified, what it reaches in
// one sentence, the numbers behind it, and a scale that sets them beside one another.

import { boundsAreOf, provenOnce } from "./bounds.ts";
import type { Context } from "./context.ts";
import type { Plan, Report, Summary } from "./data.ts";
import { byId, h, replace, type Child } from "./dom.ts";
import { mib, percent, signedPercent, time, timeApart } from "./format.ts";
import { term, type TermKey } from "./terms.ts";
import { size } from "./tip.ts";

export function share(part: number, whole: number): number {
  return whole > 0 ? part / whole - 1 : 0;
}

export function bindingsText(plan: Plan): string {
  return Object.entries(plan.bindings)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

// What the plan pays and what is proven of that, as shares of each op once, in one part.
function paid(s: Summary): { extra: number; bound: number; of: string } {
  const whole = s.extra_over_whole_percent !== null;
  return {
    extra: (s.extra_over_whole_percent ?? s.extra_percent) / 100,
    bound: (s.bound_over_whole_percent ?? s.bound_percent) / 100,
    of: whole ? "over each op once in one part" : "over each op once",
  };
}

function sentence(s: Summary): Child {
  const less = share(s.peak_bytes, s.peak_before_bytes);
  const { extra, bound } = paid(s);
  const memory: Child =
    less < -0.0005
      ? [h("b", {}, size(s.arena_bytes)), " instead of ", size(s.peak_before_bytes)]
      : h("b", {}, size(s.arena_bytes));
  if (extra <= 0.0005) return ["The step runs in ", memory, ", at no cost in time."];
  return [
    "The step runs in ",
    memory,
    ", for ",
    h("b", {}, `${percent(extra)} more time`),
    ". ",
    bound > 0.0005
      ? [
          `No schedule ${boundsAreOf(s)} within this memory can cost less than `,
          h("b", {}, percent(bound)),
          ".",
        ]
      : null,
  ];
}

function fact(key: TermKey, value: Child, note: Child = null, id = ""): HTMLElement {
  return h(
    "div",
    {},
    h("dt", {}, term(key)),
    h("dd", id ? { "data-fact": id } : {}, value, note ? h("span", { class: "note" }, note) : null),
  );
}

// Which schedules the memory bound speaks of: a plan that runs ops again or moves tensors lies below.
function boundNote(s: Summary): string {
  const of = `each op once, proven ${boundsAreOf(s)}`;
  return s.order_proven ? `${of}: the order is optimal` : of;
}

function factsOf(s: Summary): HTMLElement {
  const { extra, bound, of } = paid(s);
  return h(
    "dl",
    { class: "numbers" },
    fact(
      "arena",
      size(s.arena_bytes),
      s.budget_bytes ? `${percent(s.arena_bytes / s.budget_bytes)} of the budget` : null,
      "arena_bytes",
    ),
    fact("peak", size(s.peak_bytes), null, "peak_bytes"),
    fact(
      "before",
      size(s.peak_before_bytes),
      `the plan: ${signedPercent(share(s.peak_bytes, s.peak_before_bytes))}`,
      "peak_before_bytes",
    ),
    s.budget_bytes !== null ? fact("budget", size(s.budget_bytes), null, "budget_bytes") : null!,
    s.floor_bytes !== null
      ? fact("floor", size(s.floor_bytes), `all schedules, proven ${boundsAreOf(s)}`, "floor_bytes")
      : null!,
    fact("bound", size(provenOnce(s)), boundNote(s), "lower_bound_bytes"),
    fact(
      "predicted",
      timeApart(s.predicted_seconds, s.lower_bound_seconds),
      `${signedPercent(extra)} ${of}`,
      "predicted_seconds",
    ),
    fact(
      "timeBound",
      timeApart(s.lower_bound_seconds, s.predicted_seconds),
      `${signedPercent(bound)}, proven ${boundsAreOf(s)}`,
      "lower_bound_seconds",
    ),
    s.exposed_seconds > 0
      ? fact("exposed", time(s.exposed_seconds), null, "exposed_seconds")
      : null!,
  );
}

interface Mark {
  name: string;
  bytes: number;
}

// One bar from zero: the arena, and where floor, bound, budget and the given order stand.
function scale(s: Summary): HTMLElement {
  const marks: Mark[] = [{ name: "given order", bytes: s.peak_before_bytes }];
  if (s.floor_bytes) marks.push({ name: "floor", bytes: s.floor_bytes });
  if (s.budget_bytes) marks.push({ name: "budget", bytes: s.budget_bytes });
  const most = Math.max(s.arena_bytes, ...marks.map((mark) => mark.bytes)) || 1;
  const at = (element: HTMLElement, bytes: number, property: "left" | "width") => {
    element.style[property] = `${(bytes / most) * 100}%`;
    return element;
  };
  const bar = h(
    "div",
    { class: "bar" },
    at(h("div", { class: "given" }), s.peak_before_bytes, "width"),
    at(h("div", { class: "arena" }), s.arena_bytes, "width"),
    marks
      .filter((mark) => mark.name !== "given order")
      .map((mark) =>
        at(
          h("div", { class: `tick ${mark.name}`, "data-tip": `${mark.name} ${mib(mark.bytes)}` }),
          mark.bytes,
          "left",
        ),
      ),
  );
  const text = `Arena ${mib(s.arena_bytes)}; ${marks.map((mark) => `${mark.name} ${mib(mark.bytes)}`).join(", ")}.`;
  return h(
    "div",
    { class: "scale", role: "img", "aria-label": text },
    bar,
    h(
      "p",
      { "aria-hidden": "true" },
      h("span", { class: "key arena" }),
      "arena",
      h("span", { class: "key given" }),
      "given order",
      s.floor_bytes ? [h("span", { class: "key floor" }), "floor"] : null,
      s.budget_bytes ? [h("span", { class: "key budget" }), "budget"] : null,
    ),
  );
}

// The files of the plans that the findings are about: each begins with the path of its plan. Empty
// where that is not known.
export function unverifiedFiles({ plans, findings }: Pick<Report, "plans" | "findings">): string[] {
  const of = (finding: string) =>
    plans.find(({ file }) => finding.startsWith(`${file}: `) || finding.includes(`/${file}: `))?.file;
  const files = findings.map(of);
  return files.includes(undefined) ? [] : [...new Set(files as string[])];
}

function whichFails({ report, model }: Context): string {
  const files = unverifiedFiles(report);
  const { file } = model.plan;
  if (files.length === 0 || report.plans.length === 1) return "This plan is not verified.";
  if (!files.includes(file)) return `${files.join(" and ")}, in this report too, is not verified.`;
  const others = files.filter((one) => one !== file);
  return others.length === 0
    ? `This plan, ${file}, is not verified.`
    : `This plan is not verified, nor is ${others.join(" or ")}.`;
}

function banner(context: Context): HTMLElement | null {
  const { report } = context;
  if (report.verified) return null;
  const files = unverifiedFiles(report);
  const others = files.length > 0 && !files.includes(context.model.plan.file);
  return h(
    "div",
    { class: "banner", role: "alert" },
    h("strong", {}, whichFails(context)),
    ` Do not trust what this page says of ${others ? "that plan, nor where it is compared" : "it"}.`,
    report.findings.length > 0 &&
      h(
        "ul",
        {},
        report.findings.slice(0, 50).map((finding) => h("li", {}, finding)),
      ),
  );
}

function verified(report: Report, plan: Plan): boolean {
  const files = unverifiedFiles(report);
  return report.verified || (files.length > 0 && !files.includes(plan.file));
}

export function drawHeader(context: Context): void {
  const { report, model } = context;
  const { plan } = model;
  const title = plan.model || plan.file;
  document.title = `${title}: Lowtide report`;
  replace(byId("banner"), banner(context));
  const chosen =
    report.plans.length > 1 &&
    h(
      "label",
      { class: "plan-choice" },
      "Plan ",
      (() => {
        const select = h(
          "select",
          { id: "plan" },
          report.plans.map((one, i) =>
            h(
              "option",
              { value: i, selected: one === plan },
              `${one.file} (${mib(one.summary.arena_bytes)})`,
            ),
          ),
        );
        select.addEventListener("change", () => context.showPlan(Number(select.value)));
        return select;
      })(),
    );
  replace(
    byId("summary"),
    h(
      "div",
      { class: "title" },
      h("h1", {}, title),
      h(
        "span",
        { class: "file" },
        plan.file,
        bindingsText(plan) && ` \u00b7 ${bindingsText(plan)}`,
      ),
      verified(report, plan) && h("span", { class: "badge" }, term("verified", "\u2713 verified")),
      chosen,
    ),
    h("p", { class: "sentence" }, sentence(plan.summary)),
    scale(plan.summary),
    factsOf(plan.summary),
    h(
      "details",
      { class: "verdict" },
      h("summary", {}, "The verdict in full"),
      h("pre", { tabindex: "0" }, plan.verdict.join("\n")),
    ),
  );
}
