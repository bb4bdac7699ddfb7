// Three scores: every weighting is a point of a triangle, coloured by the size of its sets.
const TOP = Math.sqrt(3) / 2;
const STAR = "M0.0 -11.0L2.7 -3.7L10.5 -3.4L4.4 1.4L6.5 8.9L0.0 4.6L-6.5 8.9L-4.4 1.4L-10.5 -3.4L-2.7 -3.7Z";

function colourScale() {
  let low = Infinity;
  let high = 0;
  for (let i = 0; i < space.count; i++) {
    if (!Number.isFinite(space.size(i))) continue;
    low = Math.min(low, space.size(i));
    high = Math.max(high, space.size(i));
  }
  const safe = Math.max(Number.isFinite(low) ? low : 0, page.least / 10);
  const share = (size) => (high > safe ? Math.log(Math.max(size, safe) / safe) / Math.log(high / safe) : 0);
  return { low: safe, high, share };
}

// A bar of colours with round sizes on it.
function colourBar(x, y, width, scale) {
  const group = el("g", {});
  const cells = 48;
  for (let i = 0; i < cells; i++) {
    const cell = el("rect", { x: x + (i * width) / cells, y, width: width / cells + 0.6, height: 9 });
    cell.style.fill = heat(i / (cells - 1));
    group.append(cell);
  }
  const ends = [scale.low, scale.high].map((size) => ({ size, text: fixed(size, page.digits) }));
  const inner = logTicks(scale.low, Math.max(scale.high, scale.low * 1.0001)).map((size) => ({ size, text: `${size}` }));
  const taken = [];
  for (const { size, text } of [...ends, ...inner]) {
    const at = x + scale.share(size) * width;
    if (taken.some((other) => Math.abs(other - at) < 34)) continue;
    taken.push(at);
    group.append(
      el("line", { x1: at, x2: at, y1: y + 9, y2: y + 13, class: "rule" }),
      el("text", { x: at, y: y + 26, class: "tick mid" }, text),
    );
  }
  group.append(el("text", { x, y: y - 6, class: "tick" }, page.words.size));
  return group;
}

function drawTriangle(width) {
  const side = Math.min(width - 24, 540);
  const left = (width - side) / 2;
  const [top, tall] = [44, side * TOP];
  const height = top + tall + 112;
  const place = (weights) => {
    const total = weights.reduce((a, b) => a + b, 0);
    const [, b, c] = weights.map((weight) => weight / total);
    return [left + (b + c / 2) * side, top + tall * (1 - c)];
  };
  const svg = canvas(width, height, `Mean ${page.words.short} over the weights of ${page.scores.join(", ")}; the table of all weights holds the same numbers`);
  const scale = colourScale();
  const radius = (side / space.m / Math.sqrt(3)) * 1.04;
  const corners = Array.from({ length: 6 }, (_, i) => {
    const angle = Math.PI / 6 + (i * Math.PI) / 3;
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  });
  const hexagon = `M${corners.join("L")}Z`;
  const cells = el("g", {});
  const smallest = space.size(space.best());
  const near = el("g", { class: "near" });
  for (let i = 0; i < space.count; i++) {
    const [x, y] = place(space.at(i));
    const cell = el("path", { d: hexagon, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
    cell.style.fill = heat(scale.share(space.size(i)));
    cells.append(cell);
    if (space.size(i) <= smallest * 1.01) near.append(el("circle", { cx: x.toFixed(2), cy: y.toFixed(2), r: radius * 0.3 }));
  }
  svg.append(cells, near);
  const names = [
    [left, top + tall + 24, "start", -1],
    [left + side, top + tall + 24, "end", 1],
    [left + side / 2, top - 30, "mid", 0],
  ];
  names.forEach(([x, y, anchor], j) => {
    const steps = [0, 0, 0];
    steps[j] = space.m;
    const size = fixed(space.size(space.find(steps)), page.digits);
    svg.append(
      el("text", { x, y, class: `corner ${anchor}` }, page.scores[j]),
      el("text", { x, y: y + 16, class: `tick ${anchor}` }, `alone ${size}`),
    );
  });
  const marks = el("g", {});
  const aim = el("g", { class: "aim" });
  svg.append(marks, aim, colourBar(left + side / 2 - Math.min(side, 300) / 2, height - 34, Math.min(side, 300), scale));
  const ring = place(space.at(space.best()));
  marks.append(
    el("circle", { cx: ring[0], cy: ring[1], r: 8, class: "ring-back" }),
    el("circle", { cx: ring[0], cy: ring[1], r: 8, class: "ring" }),
    el("path", { d: STAR, class: "star", transform: `translate(${place(page.fitted).map((v) => v.toFixed(2)).join(" ")})` }),
  );
  const point = () => {
    const [x, y] = place(space.at(space.shown));
    aim.replaceChildren(
      el("path", { d: hexagon, class: "aim-cell", transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(1.6)` }),
      tip(width, x, y, space.brief(space.shown), `(${space.at(space.shown).map((s) => fixed(s / space.m, 2)).join(", ")})`),
    );
  };
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const zoom = width / box.width;
    const x = ((event.clientX - box.left) * zoom - left) / side;
    const c = 1 - ((event.clientY - box.top) * zoom - top) / tall;
    const b = x - c / 2;
    const parts = [1 - b - c, b, c];
    if (Math.min(...parts) < -0.04) return null;
    const clipped = parts.map((part) => Math.max(part, 0) * space.m);
    const steps = clipped.map(Math.floor);
    const rests = clipped.map((v, j) => [v - steps[j], j]).sort((p, q) => q[0] - p[0]);
    for (let r = 0; steps.reduce((p, q) => p + q, 0) < space.m; r++) steps[rests[r % 3][1]]++;
    while (steps.reduce((p, q) => p + q, 0) > space.m) steps[steps.indexOf(Math.max(...steps))]--;
    return space.find(steps);
  };
  listenTo(svg, under);
  space.pointing = point;
  point();
  return svg;
}

// Two lines of text beside a point, kept inside the chart.
function tip(width, x, y, first, second) {
  const wide = Math.max(first.length, second.length) * 6.9 + 20;
  const left = Math.min(Math.max(x - wide / 2, 2), width - wide - 2);
  const above = y > 70;
  const top = above ? y - 58 : y + 18;
  return el("g", { class: "tip", transform: `translate(${left.toFixed(1)} ${top.toFixed(1)})` },
    el("rect", { width: wide.toFixed(1), height: 42, rx: 6 }),
    el("text", { x: 10, y: 17, class: "strong" }, first),
    el("text", { x: 10, y: 33 }, second),
  );
}

// Pointing shows, a click keeps, leaving goes back to what is kept.
function listenTo(svg, under) {
  svg.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (found !== null && found !== undefined) space.choose(found, false);
  });
  svg.addEventListener("click", (event) => {
    const found = under(event);
    if (found !== null && found !== undefined) space.choose(found);
  });
  svg.addEventListener("pointerleave", () => space.choose(space.chosen));
}

if (space) {
  space.listeners.push(() => space.pointing && space.pointing());
  if (space.d === 3) chart("#map", drawTriangle);
}
