// Small helpers to draw with: elements, scales, ticks, charts that know their width.
function el(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function canvas(width, height, label) {
  return el("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

function linear([low, high], [from, to]) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

function logarithmic([low, high], range) {
  const line = linear([Math.log(low), Math.log(high)], range);
  return (value) => line(Math.log(value));
}

// Round numbers between two ends, about as many as asked for.
function ticks(low, high, about = 5) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

function logTicks(low, high) {
  for (const steps of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(6)));
    }
    const inside = found.filter((tick) => tick >= low && tick <= high);
    if (inside.length >= 4) return inside;
  }
  return ticks(low, high, 4);
}

// Draws a chart now, at every new level, and whenever its width changes.
function chart(selector, draw) {
  const place = $(selector);
  if (!place) return;
  let width = 0;
  const again = () => {
    if (width) place.replaceChildren(draw(width));
  };
  follow(again);
  new ResizeObserver(() => {
    const now = Math.floor(place.clientWidth);
    if (now === width) return;
    width = now;
    again();
  }).observe(place);
}

// Seven forms that are told apart without colour.
const FORMS = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z",
  "M-4.5 -4.5H4.5V4.5H-4.5Z",
  "M0 -5.5L5.2 4.2H-5.2Z",
  "M0 -6L5 0L0 6L-5 0Z",
  "M0 5.5L5.2 -4.2H-5.2Z",
  "M-1.7 -5.2H1.7V-1.7H5.2V1.7H1.7V5.2H-1.7V1.7H-5.2V-1.7H-1.7Z",
  "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
];
function mark(place, scale = 1) {
  const ink = `ink k${place % 8}`;
  return el("path", { d: FORMS[place % FORMS.length], class: ink, transform: `scale(${scale})` });
}

// From 0 (small sets) to 1 (large ones) through the stops that the style names.
const STOPS = 6;
function heat(share) {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS - 1);
  const left = Math.min(Math.floor(at), STOPS - 2);
  return `color-mix(in oklab, var(--h${left + 1}) ${(100 * (at - left)).toFixed(1)}%, var(--h${left}))`;
}
