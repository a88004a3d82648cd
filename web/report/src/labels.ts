// Where labels of a chart stand: each takes the first of its places that no other label has, rather
// one that no line crosses, and above all not the curve that would be hidden. One that has no place is left out, as the tables say the same.

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
  text?: string;
}

export function meet(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// The place of a label, which is then taken; null where there is none. `lines`: heights of lines;
// `hides`: whether it would lie over a curve.
export function takePlace(
  places: readonly Box[],
  taken: Box[],
  lines: readonly number[] = [],
  hides: (place: Box) => boolean = () => false,
): Box | null {
  const cost = (place: Box) =>
    (hides(place) ? 2 : 0) + (lines.every((y) => y <= place.top || y >= place.bottom) ? 0 : 1);
  let chosen: Box | null = null,
    least = Infinity;
  for (const place of places) {
    if (taken.some((other) => meet(place, other))) continue;
    const its = cost(place);
    if (its >= least) continue;
    chosen = place;
    least = its;
    if (its === 0) break;
  }
  if (chosen) taken.push(chosen);
  return chosen;
}
