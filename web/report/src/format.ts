// Numbers as people read them: sizes in MiB, times in ms, both with three to four digits, and the
// exact bytes for tips. Separators do not follow the reader's locale, so that the page says the same
// as the tool's text.

export const MIB = 1024 * 1024;

// Between a number and its unit, so that no line ends there.
const NB = "\u00a0";

// 1234567 -> "1,234,567".
export function count(value: number): string {
  const digits = Math.round(Math.abs(value)).toString();
  const grouped = digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return value < 0 && digits !== "0" ? `\u2212${grouped}` : grouped;
}

// At least three digits of a number, at most two behind the point; large ones in groups.
function digits3(value: number): string {
  const size = Math.abs(value);
  const fixed = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const rounded = Number(size.toFixed(fixed));
  const whole = Math.floor(rounded);
  const tail = fixed === 0 ? "" : (rounded - whole).toFixed(fixed).slice(1);
  return `${value < 0 && rounded !== 0 ? "\u2212" : ""}${count(whole)}${tail}`;
}

// A size in MiB: "600 MiB", "12.3 MiB", "0.05 MiB" ; what rounds to nothing
// says so.
export function mib(bytes: number): string {
  if (bytes === 0) return `0${NB}MiB`;
  if (Math.abs(bytes) < 0.005 * MIB)
    return bytes < 0 ? `>${NB}\u22120.01${NB}MiB` : `<${NB}0.01${NB}MiB`;
  return `${digits3(bytes / MIB)}${NB}MiB`;
}

export function exactBytes(bytes: number): string {
  return `${count(bytes)}${NB}${Math.abs(bytes) === 1 ? "byte" : "bytes"}`;
}

// A time in the unit that gives it one to three digits before the point.
export function time(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return `0${NB}ms`;
  if (size >= 1) return `${digits3(seconds)}${NB}s`;
  if (size >= 1e-3) return `${digits3(seconds * 1e3)}${NB}ms`;
  if (size >= 1e-6) return `${digits3(seconds * 1e6)}${NB}\u00b5s`;
  return `<${NB}1${NB}\u00b5s`;
}

// A time beside another that may be nearly the same, with as many digits as tell them apart.
export function timeApart(seconds: number, other: number): string {
  const text = time(seconds);
  if (seconds === other || text !== time(other)) return text;
  const [, unit] = text.split(NB);
  const factor = unit === "s" ? 1 : unit === "ms" ? 1e3 : unit === "\u00b5s" ? 1e6 : 0;
  if (factor === 0) return text;
  for (let digits = 1; digits <= 9; ++digits) {
    const [own, others] = [seconds, other].map((t) => (t * factor).toFixed(digits));
    if (own !== others) return `${own}${NB}${unit}`;
  }
  return text;
}

// A time in ms, for columns whose rows are compared.
export function milliseconds(seconds: number): string {
  if (seconds === 0) return "0";
  if (Math.abs(seconds) < 5e-6) return `<${NB}0.01`;
  return digits3(seconds * 1e3);
}

// A change or a share; 0.0426 -> "4.3 %".
export function percent(share: number): string {
  const value = Math.abs(share) < 1e-9 ? 0 : share * 100; // what is left of a difference is none
  const size = Math.abs(value);
  if (size !== 0 && size < 0.05) return value < 0 ? `>${NB}\u22120.1${NB}%` : `<${NB}0.1${NB}%`;
  const text = size >= 99.95 ? count(size) : size.toFixed(1);
  return `${value < 0 ? "\u2212" : ""}${text}${NB}%`;
}

export function signedPercent(share: number): string {
  return share > 0 ? `+${percent(share)}` : percent(share);
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// The first, the second, ...: which run of an op it is, counted from 0.
export function ordinal(index: number): string {
  const n = index + 1;
  const teen = n % 100 >= 11 && n % 100 <= 13;
  const ending = teen
    ? "th"
    : n % 10 === 1
      ? "st"
      : n % 10 === 2
        ? "nd"
        : n % 10 === 3
          ? "rd"
          : "th";
  return `${n}${ending}`;
}

// "f32[8,12]" -> "f32" and "8 \u00d7 12"; of one number the shape is "scalar".
export function typeAndShape(text: string): [string, string] {
  const at = text.indexOf("[");
  if (at < 0) return [text, ""];
  const dims = text.slice(at + 1, -1);
  return [text.slice(0, at), dims === "" ? "scalar" : dims.split(",").join(" \u00d7 ")];
}
