// The module tree: the rows of the report under their paths ("h.3.attn"), with sums for what lies
// below, and equal neighbours ("h.3", "h.4", ...) folded into one row. Two are equal if they differ
// in the number of their name alone: same bytes at the peak, same policy, same time paid (to a tenth
// of a per mille), and the same below.

import type { ModuleRow } from "./data.ts";

export interface ModuleNode {
  name: string; // last part of the path; of folded ones "3\u20138"
  path: string;
  bytes: number; // at the peak, with all below; of one of the folded
  seconds: number;
  policies: string[]; // in the order of first mention
  rows: number[]; // tensors of the module itself
  times: number; // how many equal ones stand for it
  children: ModuleNode[];
}

const SEPARATOR = /[./]/;

function makeNode(name: string, path: string): ModuleNode {
  return { name, path, bytes: 0, seconds: 0, policies: [], rows: [], times: 1, children: [] };
}

function addPolicy(node: ModuleNode, policy: string): void {
  if (policy !== "" && !node.policies.includes(policy)) node.policies.push(policy);
}

export function moduleTree(rows: readonly ModuleRow[]): ModuleNode {
  const root = makeNode("the step", "");
  const byPath = new Map<string, ModuleNode>([["", root]]);
  const parents = new Map<ModuleNode, ModuleNode>();
  const order: ModuleNode[] = [root];
  for (const row of rows) {
    let parent = root, path = "";
    const parts = row.path === "" ? ["(no module)"] : row.path.split(SEPARATOR);
    for (const part of parts) {
      path = path === "" ? part : `${path}.${part}`;
      let node = byPath.get(path);
      if (!node) {
        node = makeNode(part, path);
        byPath.set(path, node);
        parents.set(node, parent);
        parent.children.push(node);
        order.push(node);
      }
      parent = node;
    }
    parent.bytes += row.bytes_at_peak;
    parent.seconds += row.paid_seconds;
    parent.rows.push(...row.rows);
    parent.times = row.times ?? 1;
    addPolicy(parent, row.policy);
  }
  for (let i = order.length - 1; i > 0; --i) {
    const node = order[i], parent = parents.get(node)!;
    parent.bytes += node.bytes * node.times;
    parent.seconds += node.seconds * node.times;
    node.policies.forEach((policy) => addPolicy(parent, policy));
  }
  return root;
}

function signature(node: ModuleNode, name: string): string {
  return JSON.stringify([
    name, node.bytes, Math.round(node.seconds * 1e7), node.policies, node.rows.length, node.times,
    node.children.map((child) => signature(child, child.name)),
  ]);
}

// Folds equal neighbours among the children of each node, from the leaves up.
export function foldEqual(node: ModuleNode): ModuleNode {
  const children: ModuleNode[] = [];
  let last = "", first = "";
  for (const child of node.children.map(foldEqual)) {
    const number = /^(.*?)(\d+)$/.exec(child.name);
    const mark = number ? signature(child, number[1]) : "";
    const before = children[children.length - 1];
    if (mark !== "" && mark === last && before) {
      before.times += child.times;
      before.name = `${first}\u2013${number![2]}`;
    } else {
      children.push({ ...child });
      first = child.name;
    }
    last = mark;
  }
  return { ...node, children };
}
