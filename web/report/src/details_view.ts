// The details: all that is known of the tensor, op, module or moment that is chosen. Every name in
// it leads on, so that a tensor can be followed through its stays, and an op to its tensors. With
// nothing chosen it tells of the peak.

import type { Context } from "./context.ts";
import { runName, sourceOf, stepName, stepOf, stepsName, whyText } from "./describe.ts";
import { byId, h, replace, type Child } from "./dom.ts";
import { count, exactBytes, mib, ordinal, percent, plural, time } from "./format.ts";
import { modulesAt } from "./focus.ts";
import { groupOf, type Groups } from "./groups.ts";
import { moduleLink, opLink, runLink, tensorLink } from "./memory_tables.ts";
import { presentIn } from "./stay_index.ts";
import type { Selection } from "./state.ts";
import { isTerm, plainName, plainPolicy, term, type TermKey } from "./terms.ts";
import { size } from "./tip.ts";

const MOST = 12; // entries of a list before "and N more"

type Row = [Child, Child];

function facts(rows: (Row | false)[]): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    rows
      .filter((row): row is Row => row !== false)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

// A list that opens in full on request.
function list(items: Child[], nothing = "none"): Child {
  if (items.length === 0) return nothing;
  const ul = h(
    "ul",
    {},
    items.slice(0, MOST).map((item) => h("li", {}, item)),
  );
  if (items.length > MOST) {
    const rest = items.slice(MOST, 400);
    const button = h(
      "button",
      { type: "button", class: "link" },
      `and ${count(items.length - MOST)} more`,
    );
    const last = h("li", {}, button);
    button.addEventListener("click", () => {
      last.remove();
      rest.forEach((item) => ul.append(h("li", {}, item)));
      if (items.length > MOST + rest.length)
        ul.append(h("li", {}, `and ${count(items.length - MOST - rest.length)} more`));
    });
    ul.append(last);
  }
  return ul;
}

function bytesRow(bytes: number): Child {
  return [mib(bytes), h("span", { class: "exact" }, ` ${exactBytes(bytes)}`)];
}

function categoryName(name: string): Child {
  return isTerm(name) ? term(name as TermKey, plainName(name)) : plainName(name);
}

function stayItem(context: Context, stay: number): Child {
  const { model } = context;
  const r = model.rectangles;
  const from = r.runBegin[stay];
  return [
    runLink(context, Math.min(from, model.runs - 1), stepsName(from, r.runEnd[stay])),
    ` at address ${mib(r.low[stay])} (${exactBytes(r.low[stay])}), ${time(r.secondsBegin[stay])} to ${time(r.secondsEnd[stay])}, ${whyText(model, stay)}`,
  ];
}

function transferItem(context: Context, transfer: number): Child {
  const { transfers: t, tiers } = context.model.plan;
  const waited = t.waited_seconds[transfer];
  return `${t.out[transfer] ? "to" : "from"} ${tiers[t.tier[transfer]]} at ${time(t.begin[transfer])}, ${time(t.end[transfer] - t.begin[transfer])}, ${waited > 0 ? `waited for ${time(waited)}` : "hidden"}`;
}

function ofTensor(context: Context, tensor: number): Child {
  const { model } = context;
  const { plan } = model;
  const { tensors } = plan;
  const maker = tensors.made_by[tensor];
  const runs = maker >= 0 ? groupOf(model.runsOfOp, maker).length : 0;
  const stays = [...groupOf(model.staysOfTensor, tensor)];
  const transfers = [...groupOf(model.transfersOfTensor, tensor)];
  const pieces = [...groupOf(model.piecesOfTensor, tensor)];
  const whole = tensors.whole[tensor];
  return [
    heading("Tensor", tensors.name[tensor]),
    facts([
      tensors.aliases[tensor].length > 0 && ["also called", list(tensors.aliases[tensor])],
      ["module", moduleLink(context, tensors.module[tensor])],
      maker >= 0 &&
        plan.ops.source[maker] > 0 && [term("source"), sourceOf(plan, maker)],
      ["shape", tensors.shape[tensor]],
      ["size", bytesRow(tensors.bytes[tensor])],
      ["category", categoryName(plan.categories[tensors.category[tensor]])],
      [
        "made by",
        maker >= 0
          ? opLink(context, maker)
          : tensors.resident[tensor]
            ? term("resident")
            : "nothing in the step",
      ],
      [
        "read by",
        list(
          [...groupOf(model.readersOfTensor, tensor)].map((op) => opLink(context, op)),
          "no op",
        ),
      ],
      [
        term("policy"),
        [
          plainPolicy(plan.policies[tensors.policy[tensor]]),
          tensors.output[tensor] ? ", an output of the step" : null,
        ],
      ],
      runs > 1 && [term("recompute", "reruns"), plural(runs - 1, "rerun")],
      whole >= 0 && ["piece of", tensorLink(context, whole)],
      pieces.length > 0 && ["made of", list(pieces.map((piece) => tensorLink(context, piece)))],
      [
        term("stay", "stays"),
        list(
          stays.map((stay) => stayItem(context, stay)),
          pieces.length > 0 ? "those of its pieces" : "none",
        ),
      ],
      transfers.length > 0 && [
        term("move", "moved"),
        list(transfers.map((t) => transferItem(context, t))),
      ],
    ]),
  ];
}

function operands(context: Context, tensors: number[]): Child {
  const { tensors: all } = context.model.plan;
  return list(tensors.map((t) => [tensorLink(context, t), " ", size(all.bytes[t])]));
}

function ofOp(context: Context, op: number): Child {
  const { model } = context;
  const { plan } = model;
  const { ops, measured } = plan;
  const runs = [...groupOf(model.runsOfOp, op)];
  return [
    heading("Op", ops.name[op]),
    facts([
      ["kind", [plan.kinds[ops.kind[op]], ops.view[op] ? ", makes views only" : null]],
      ["module", moduleLink(context, ops.module[op])],
      ops.source[op] > 0 && [term("source"), sourceOf(plan, op)],
      ["phase", plan.phases[ops.phase[op]]],
      [term("predicted", "predicted"), time(ops.seconds[op])],
      measured !== null && [
        term("measured"),
        measured.op_seconds[op] === null ? "no time" : time(measured.op_seconds[op]!),
      ],
      ops.workspace_bytes[op] > 0 && [term("workspace"), bytesRow(ops.workspace_bytes[op])],
      [
        term("run", "runs"),
        list(
          runs.map((run, i) => [
            runLink(context, run, `${ordinal(i)}: ${stepName(run)}`),
            ` at ${time(model.runBegin[run])}, ${mib(model.totals[run])} present`,
          ]),
        ),
      ],
      ["reads", operands(context, ops.inputs[op])],
      ["makes", operands(context, ops.outputs[op])],
    ]),
  ];
}

function ofModule(context: Context, path: string): Child {
  const { model } = context;
  const { plan } = model;
  const modules = modulesAt(model, path);
  const all = (groups: Groups) => modules.flatMap((m) => [...groupOf(groups, m)]);
  const { bytes } = plan.tensors;
  const row = plan.module_tree.find((one) => one.path === path);
  return [
    heading("Module", path || "(no module)"),
    facts([
      row !== undefined && [term("peak", "at the peak"), bytesRow(row.bytes_at_peak)],
      row !== undefined && row.paid_seconds > 0 && [term("paid"), time(row.paid_seconds)],
      row !== undefined && [term("policy"), plainPolicy(row.policy)],
      row !== undefined && row.times > 1 && ["folded", `${count(row.times)} equal layers together`],
      ["ops", list(all(model.opsOfModule).map((op) => opLink(context, op)))],
      [
        "tensors",
        operands(
          context,
          all(model.tensorsOfModule).sort((a, b) => bytes[b] - bytes[a]),
        ),
      ],
    ]),
  ];
}

function ofRun(context: Context, run: number, title: string): Child {
  const { model, index } = context;
  const { plan, rectangles: r } = model;
  if (model.runs === 0) return heading("Moment", "the step has no runs");
  const op = plan.steps.op[model.stepOfRun[run]];
  const total = model.totals[run];
  const categories = plan.categories
    .map((name, c) => ({ name, bytes: plan.curve.planned[c][run] }))
    .filter((c) => c.bytes > 0);
  const present = presentIn(index, model, run).sort(
    (a, b) => r.high[b] - r.low[b] - (r.high[a] - r.low[a]) || a - b,
  );
  return [
    heading(title, runName(model, run)),
    facts([
      [term("step", "moment"), `${stepOf(model, run)}, at ${time(model.runBegin[run])}`],
      ["op", opLink(context, op)],
      ["module", moduleLink(context, plan.ops.module[op])],
      ["present", bytesRow(total)],
    ]),
    h(
      "table",
      { class: "shares" },
      h("caption", {}, "By category"),
      h(
        "tbody",
        {},
        categories
          .sort((a, b) => b.bytes - a.bytes)
          .map((c) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, categoryName(c.name)),
              h("td", { class: "number" }, size(c.bytes)),
              h("td", { class: "number" }, percent(c.bytes / (total || 1))),
            ),
          ),
      ),
    ),
    h("h4", {}, "Largest"),
    list(
      present.map((i) => [
        r.tensor[i] >= 0
          ? tensorLink(context, r.tensor[i])
          : [opLink(context, r.op[i]), " (workspace)"],
        " ",
        size(r.high[i] - r.low[i]),
      ]),
    ),
  ];
}

function heading(kind: string, name: string): HTMLElement {
  return h(
    "h3",
    {},
    h("span", { class: "kind" }, kind),
    " ",
    h("span", { class: "name" }, name || "(no name)"),
  );
}

function content(context: Context, selection: Selection | null): Child {
  switch (selection?.kind) {
    case "tensor":
      return ofTensor(context, selection.id);
    case "op":
      return ofOp(context, selection.id);
    case "module":
      return ofModule(context, selection.path);
    case "run":
      return ofRun(context, selection.id, "Moment");
    default:
      return ofRun(context, context.model.peakRun, "At the peak");
  }
}

export function startDetails(context: Context, show: () => void): void {
  const panel = byId("details"),
    body = byId("details-body"),
    bar = byId("details-bar");
  const draw = () => {
    const { selection } = context.store.state;
    replace(body, content(context, selection));
    body.scrollTop = 0;
    panel.classList.toggle("chosen", selection !== null);
    replace(
      bar,
      selection !== null && [
        h("button", { type: "button", onclick: show }, "Show in the charts"),
        h(
          "button",
          {
            type: "button",
            onclick: () => context.choose(null),
            "aria-label": "close the details",
          },
          "Close",
        ),
      ],
    );
  };
  context.store.on(["selection"], draw);
  draw();
}
