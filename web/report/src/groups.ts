// Lists of lists in two typed arrays (compressed rows): which ops read a tensor, which stays it has.

export interface Groups {
  start: Int32Array; // of each group, into items; one more at the end
  items: Int32Array; // by group, in the order in which they were given
}

// Groups the pairs (group, item) that `each` reports; it is called twice and must report the same.
export function makeGroups(
  groups: number,
  each: (add: (group: number, item: number) => void) => void,
): Groups {
  const start = new Int32Array(groups + 1);
  each((group) => void ++start[group + 1]);
  for (let g = 0; g < groups; ++g) start[g + 1] += start[g];
  const next = start.slice(0, groups);
  const items = new Int32Array(start[groups]);
  each((group, item) => void (items[next[group]++] = item));
  return { start, items };
}

export function groupOf(groups: Groups, group: number): Int32Array {
  return groups.items.subarray(groups.start[group], groups.start[group + 1]);
}
