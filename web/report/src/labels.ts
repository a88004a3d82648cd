// Where labels of a chart stand: each takes the first of its places that no other label has, rather
// one that no line crosses. One that has no place is left out, as the tables say the same.

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function meet(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// The place of a label, which is then taken; null where there is none. `lines`: heights of lines.
export function takePlace(
  places: readonly Box[],
  taken: Box[],
  lines: readonly number[] = [],
): Box | null {
  const free = places.filter((place) => !taken.some((other) => meet(place, other)));
  const clear = free.find((place) => lines.every((y) => y <= place.top || y >= place.bottom));
  const chosen = clear ?? free[0] ?? null;
  if (chosen) taken.push(chosen);
  return chosen;
}
