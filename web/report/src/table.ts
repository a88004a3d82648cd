// Tables of any length: sortable by a column, shown a page at a time. Where one is wider than its
// place each row becomes a small list of named values, so that no column is out of sight. The rows are plain data; what
// a cell shows is made when its page is shown, so that 100,000 rows cost nothing until then.

import { h, replace, type Child } from "./dom.ts";
import { count } from "./format.ts";

export interface Column<Row> {
  name: Child;
  key: string; // names the column to tests and to the label of its button
  cell: (row: Row) => Child;
  value?: (row: Row) => number | string; // to sort by; without it the column is not sortable
  numeric?: boolean;
}

export interface TableOptions<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  sort?: { key: string; down: boolean };
  page?: number;
  rowClass?: (row: Row) => string;
}

const PAGE = 25;

export function sortRows<Row>(
  rows: readonly Row[],
  column: Column<Row> | undefined,
  down: boolean,
): Row[] {
  const value = column?.value;
  if (!value) return [...rows];
  const keyed = rows.map((row, index) => ({ row, index, key: value(row) }));
  const sign = down ? -1 : 1;
  keyed.sort((a, b) => {
    const order =
      typeof a.key === "number" && typeof b.key === "number"
        ? a.key === b.key
          ? 0
          : a.key < b.key
            ? -1
            : 1
        : String(a.key) < String(b.key)
          ? -1
          : String(a.key) > String(b.key)
            ? 1
            : 0;
    return order !== 0 ? sign * order : a.index - b.index;
  });
  return keyed.map((one) => one.row);
}

function headCell<Row>(
  column: Column<Row>,
  sort: TableOptions<Row>["sort"],
  choose: () => void,
): HTMLElement {
  const kind = column.numeric ? "number" : "text";
  if (!column.value) return h("th", { scope: "col", class: kind }, column.name);
  const sorted = sort?.key === column.key ? (sort.down ? "descending" : "ascending") : "none";
  const arrow = sorted === "none" ? "" : sorted === "descending" ? " \u2193" : " \u2191";
  const button = h(
    "button",
    { type: "button", class: "sort", onclick: choose, "data-key": column.key },
    column.name,
    h("span", { "aria-hidden": "true" }, arrow),
  );
  // A word with a tip inside the button would be a control in a control: the button has the tip.
  const word = button.querySelector<HTMLElement>("[data-term]");
  if (word) {
    button.dataset["term"] = word.dataset["term"]!;
    word.removeAttribute("data-term");
    word.removeAttribute("tabindex");
  }
  return h("th", { scope: "col", class: kind, "aria-sort": sorted }, button);
}

export function table<Row>(options: TableOptions<Row>): HTMLElement {
  const { columns } = options;
  const page = options.page ?? PAGE;
  let sort = options.sort;
  let shown = page;
  let sorted = sortRows(
    options.rows,
    columns.find((c) => c.key === sort?.key),
    sort?.down ?? false,
  );
  const head = h("tr");
  const body = h("tbody");
  const more = h("p", { class: "more" });
  const draw = () => {
    replace(
      head,
      columns.map((column) =>
        headCell(column, sort, () => {
          const down = sort?.key === column.key ? !sort.down : column.numeric === true;
          sort = { key: column.key, down };
          sorted = sortRows(options.rows, column, down);
          draw();
          head
            .querySelectorAll<HTMLElement>("button")
            .forEach((b) => b.dataset["key"] === column.key && b.focus());
        }),
      ),
    );
    const labels = [...head.cells].map((cell) =>
      (cell.textContent ?? "").replace(/ [\u2191\u2193]$/, ""),
    );
    replace(
      body,
      sorted.slice(0, shown).map((row) =>
        h(
          "tr",
          { class: options.rowClass?.(row) ?? "" },
          columns.map((column, i) =>
            i === 0
              ? h(
                  "th",
                  { scope: "row", class: column.numeric ? "number" : "text" },
                  column.cell(row),
                )
              : h(
                  "td",
                  { class: column.numeric ? "number" : "text", "data-label": labels[i] },
                  column.cell(row),
                ),
          ),
        ),
      ),
    );
    const left = sorted.length - shown;
    replace(
      more,
      left > 0 && [
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              shown += page * 4;
              draw();
            },
          },
          `Show ${count(Math.min(left, page * 4))} more`,
        ),
        ` ${count(shown)} of ${count(sorted.length)} rows`,
      ],
    );
    more.hidden = left <= 0;
  };
  draw();
  return tableBox(options.caption, h("table", {}, h("thead", {}, head), body), more);
}

// Keeps the table stacked where it is wider than its box, whenever the width or the rows change.
function stackWhereNarrow(box: HTMLElement, content: HTMLTableElement): void {
  let width = 0;
  const fit = () => {
    if (box.clientWidth === 0) return;
    content.classList.remove("stacked");
    content.classList.toggle("stacked", content.offsetWidth > box.clientWidth);
  };
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    fit();
  }).observe(box);
  new MutationObserver(fit).observe(content, { childList: true, subtree: true });
}

// A table under its name.
export function tableBox(
  caption: string,
  content: HTMLTableElement,
  ...below: Child[]
): HTMLElement {
  content.setAttribute("aria-label", caption);
  const box = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    content,
  );
  stackWhereNarrow(box, content);
  return h(
    "div",
    { class: "table" },
    h("p", { class: "caption", "aria-hidden": "true" }, caption),
    box,
    below,
  );
}

// What fills a table that is closed.
const fillers = new WeakMap<HTMLDetailsElement, () => void>();

// A table that is made when it is asked for: the text form of a chart.
export function tableOnDemand(label: string, make: () => HTMLElement): HTMLElement {
  const details = h("details", { class: "as-table" }, h("summary", {}, label));
  const fill = () => {
    if (details.childElementCount === 1) details.append(make());
  };
  fillers.set(details, fill);
  details.addEventListener("toggle", () => details.open && fill());
  return details;
}

// Paper shows the first page of every table: those that are closed are open while it is printed.
export function openForPrint(): void {
  let opened: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    const closed = document.querySelectorAll<HTMLDetailsElement>("details.as-table:not([open])");
    opened = [...closed];
    for (const details of opened) {
      fillers.get(details)?.();
      details.open = true;
    }
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    opened = [];
  });
}
