// Colours. Hues are those of Okabe and Ito's palette, which people with the common kinds of colour
// blindness can tell apart, in an order in which neighbours of the stack differ in lightness too;
// on dark ground the two darkest are lifted. Nothing is told by colour alone: bands and rectangles
// carry labels, tips and tables say the same.

export interface Rgb {
  r: number;
  g: number;
  b: number;
}

const HUES = {
  blue: ["#0072b2", "#3b94d1"],
  sky: ["#56b4e9", "#7cc8f2"],
  green: ["#009e73", "#1fae86"],
  yellow: ["#e3d21b", "#f0e442"],
  orange: ["#e69f00", "#eeab1c"],
  vermilion: ["#d55e00", "#e3722a"],
  pink: ["#cc79a7", "#d58fb6"],
  grey: ["#495057", "#5f6873"],
  mist: ["#adb5bd", "#5f6873"],
} as const;

type Hue = keyof typeof HUES;

const OF_CATEGORY: Record<string, Hue> = {
  parameter: "green",
  optimizer_state: "pink",
  input: "yellow",
  activation: "blue",
  gradient: "vermilion",
  temporary: "sky",
  workspace: "grey",
};
const OF_WHY: Hue[] = ["blue", "vermilion", "orange", "mist"]; // STAY_MADE, ...
const CYCLE: Hue[] = ["blue", "orange", "green", "pink", "sky", "vermilion"];

// From the bottom of the stack: what is there all the time first.
const STACK = [
  "parameter",
  "optimizer_state",
  "input",
  "activation",
  "gradient",
  "temporary",
  "workspace",
];

export function parseHex(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return { r: value >> 16, g: (value >> 8) & 255, b: value & 255 };
}

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const part = (x: number, y: number) => Math.round(x + (y - x) * share);
  return { r: part(a.r, b.r), g: part(a.g, b.g), b: part(a.b, b.b) };
}

export function packed(c: Rgb): number {
  return ((255 << 24) | (c.b << 16) | (c.g << 8) | c.r) >>> 0;
}

export function css(c: Rgb): string {
  return `rgb(${c.r} ${c.g} ${c.b})`;
}

function channel(value: number): number {
  const share = value / 255;
  return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

// Relative luminance as WCAG defines it, 0 to 1.
export function luminance(c: Rgb): number {
  return 0.2126 * channel(c.r) + 0.7152 * channel(c.g) + 0.0722 * channel(c.b);
}

export function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

// Black or white, whichever is read better on the colour.
export function inkOn(c: Rgb): string {
  const black = { r: 12, g: 16, b: 20 },
    white = { r: 255, g: 255, b: 255 };
  return contrast(c, black) >= contrast(c, white) ? css(black) : css(white);
}

function hue(name: Hue, dark: boolean): Rgb {
  return parseHex(HUES[name][dark ? 1 : 0]);
}

export function categoryColours(categories: readonly string[], dark: boolean): Rgb[] {
  return categories.map((name, i) => hue(OF_CATEGORY[name] ?? CYCLE[i % CYCLE.length], dark));
}

export function historyColours(dark: boolean): Rgb[] {
  return OF_WHY.map((name) => hue(name, dark));
}

// The group of a module that shares a colour: its path up to the first part that is a number
// ("h.3.attn" -> "h.3"), else its first part.
export function moduleGroup(path: string): string {
  const parts = path.split(/[./]/);
  const number = parts.findIndex((part) => /^\d+$/.test(part));
  return parts.slice(0, Math.max(0, number) + 1).join(".");
}

// A colour for each module; groups that follow one another differ.
export function moduleColours(modules: readonly string[], dark: boolean): Rgb[] {
  const seen = new Map<string, number>();
  return modules.map((path) => {
    if (path === "") return hue("mist", dark);
    const group = moduleGroup(path);
    const index = seen.get(group) ?? seen.size;
    seen.set(group, index);
    return hue(CYCLE[index % CYCLE.length], dark);
  });
}

// Indexes of categories from the bottom of the stack upwards.
export function stackOrder(categories: readonly string[]): number[] {
  const rank = (name: string) => (STACK.includes(name) ? STACK.indexOf(name) : STACK.length);
  return categories
    .map((_, i) => i)
    .sort((a, b) => rank(categories[a]) - rank(categories[b]) || a - b);
}
