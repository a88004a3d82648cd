// The part of time and addresses that is shown, and how gestures change it. Each direction is a
// span [low, high) inside [0, full); zooming keeps the point under the pointer where it is, and no
// gesture leaves the full range.

export interface Span {
  low: number;
  high: number;
}

export interface Window {
  x: Span; // time, in the axis's unit
  y: Span; // addresses, in bytes
}

export function clampSpan(span: Span, full: number, least: number): Span {
  const length = Math.min(full, Math.max(least, span.high - span.low));
  const low = Math.min(full - length, Math.max(0, (span.low + span.high - length) / 2));
  return { low, high: low + length };
}

// `factor` above 1 shows less; `at` (0..1) is the place of the span that stays where it is.
export function zoomSpan(
  span: Span,
  factor: number,
  at: number,
  full: number,
  least: number,
): Span {
  const length = Math.min(full, Math.max(least, (span.high - span.low) / factor));
  const fixed = span.low + (span.high - span.low) * at;
  const low = fixed - length * at;
  return clampSpan({ low, high: low + length }, full, least);
}

export function panSpan(span: Span, by: number, full: number): Span {
  const length = span.high - span.low;
  const low = Math.min(full - length, Math.max(0, span.low + by));
  return { low, high: low + length };
}

// The span with a margin around it, for "show this".
export function around(span: Span, margin: number, full: number, least: number): Span {
  const extra = Math.max((span.high - span.low) * margin, least / 2);
  const low = Math.max(0, span.low - extra),
    high = Math.min(full, span.high + extra);
  return clampSpan({ low, high }, full, least);
}
