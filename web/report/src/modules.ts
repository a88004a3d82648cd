// The module tree as nodes with their children, from the report's list; equal layers are folded there
// already.

import type { ModuleRow } from "./data.ts";

export interface ModuleNode {
  row: ModuleRow;
  index: number; // in the report's list
  name: string; // what the path adds to the parent's
  children: ModuleNode[];
}

// The path without what its parent says already: "h.3.attn" below "h.3" is "attn".
export function nameBelow(path: string, parent: string): string {
  const rest =
    parent !== "" && path.startsWith(parent)
      ? path.slice(parent.length).replace(/^[./]/, "")
      : path;
  return rest || path || "(no module)";
}

// "h.0", "h.1", ..., "h.11" -> "h.0\u201311": the first path, and the number of the last.
export function foldedName(name: string, paths: readonly string[]): string {
  const last = /(\d+)(?!.*\d)/.exec(paths[paths.length - 1] ?? "");
  return paths.length > 1 && last ? `${name}\u2013${last[1]}` : name;
}

// The children of the root, or the root where it is alone; parents come before their children.
export function moduleNodes(tree: readonly ModuleRow[]): ModuleNode[] {
  const nodes: ModuleNode[] = [];
  const roots: ModuleNode[] = [];
  tree.forEach((row, index) => {
    const parent = row.parent >= 0 ? nodes[row.parent] : null;
    const node = {
      row,
      index,
      name: foldedName(nameBelow(row.path, parent?.row.path ?? ""), row.paths),
      children: [],
    };
    nodes.push(node);
    (parent?.children ?? roots).push(node);
  });
  return roots.length === 1 && roots[0].row.path === "" && roots[0].children.length > 0
    ? roots[0].children
    : roots;
}
