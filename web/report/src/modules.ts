// The module tree as nodes with their children, from the columns of the report; equal layers are
// folded there already.

import type { ModuleTree } from "./data.ts";

export interface ModuleNode {
  index: number; // row of the columns
  name: string; // what the path adds to the parent's
  path: string;
  children: ModuleNode[];
}

// The path without what its parent says already: "h.3.attn" below "h.3" is "attn".
export function nameBelow(path: string, parent: string): string {
  const rest = parent !== "" && path.startsWith(parent) ? path.slice(parent.length).replace(/^[./]/, "") : path;
  return rest || path || "(no module)";
}

// "h.0", "h.1", ..., "h.11" -> "h.0\u201311": the first path, and the number of the last.
export function foldedName(name: string, paths: readonly string[]): string {
  const last = /(\d+)(?!.*\d)/.exec(paths[paths.length - 1] ?? "");
  return paths.length > 1 && last ? `${name}\u2013${last[1]}` : name;
}

// The roots; parents come before their children in the columns.
export function moduleNodes(tree: ModuleTree): ModuleNode[] {
  const roots: ModuleNode[] = [];
  const nodes: ModuleNode[] = [];
  tree.path.forEach((path, index) => {
    const parent = tree.parent[index] >= 0 ? nodes[tree.parent[index]] : null;
    const node = { index, path, name: foldedName(nameBelow(path, parent?.path ?? ""), tree.paths[index]), children: [] };
    nodes.push(node);
    (parent?.children ?? roots).push(node);
  });
  return roots;
}
