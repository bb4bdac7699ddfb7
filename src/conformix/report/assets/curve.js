// Size against coverage, one line per method; the table of methods is its legend.
const MISSED_LEAST = 0.0005;
let lit = null;
const drawn = [];

for (const row of $$("#methods-table tbody tr")) {
  const place = Number(row.dataset.method);
  $("svg.swatch", row).append(mark(place));
  const light = (on) => {
    lit = on ? place : null;
    for (const again of drawn) again();
  };
  row.addEventListener("pointerenter", () => light(true));
  row.addEventListener("pointerleave", () => light(false));
}

function curvePoints() {
  return page.methods.map((name, place) => {
    const points = page.alphas.map((alpha, level) => {
      const [coverage, size] = ["coverage", "size"].map((name) => valueOf(`methods.${name}`, place, level));
      const told = `${name}, alpha ${page.texts.alpha[level]}: ${page.words.short} ${fixed(size, page.digits)}, coverage ${fixed(coverage, 1, 100)} %`;
      // Logarithms need something to hold on to, where nothing is missed or all sets are empty.
      return { level, told, missed: Math.max(1 - coverage, MISSED_LEAST), size: Math.max(size, page.least) };
    });
    // What is unbounded has no place in the picture; the table says so.
    const bounded = points.filter((point) => Number.isFinite(point.size));
    return { name, place, points: bounded.sort((a, b) => b.missed - a.missed) };
  });
}

function drawCurve(width) {
  const height = Math.min(420, Math.max(280, width * 0.74));
  const box = { left: 46, right: width - 14, top: 24, bottom: height - 42 };
  const curves = curvePoints();
  const every = curves.flatMap((curve) => curve.points);
  const missed = every.map((point) => point.missed);
  const sizes = every.map((point) => point.size);
  const x = logarithmic([Math.max(...missed) * 1.08, Math.min(...missed) * 0.9], [box.left, box.right]);
  const span = [Math.min(...sizes), Math.max(...sizes)];
  const tall = span[1] / span[0] > 4;
  const low = tall ? span[0] * 0.9 : Math.max(0, span[0] - (span[1] - span[0]) * 0.1);
  const high = tall ? span[1] * 1.1 : span[1] + (span[1] - span[0]) * 0.1;
  const y = (tall ? logarithmic : linear)([low, high], [box.bottom, box.top]);
  const svg = canvas(width, height, `Mean ${page.words.short} against coverage; the table below holds the same numbers`);
  for (const tick of tall ? logTicks(low, high) : ticks(low, high)) {
    svg.append(
      el("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }),
      el("text", { x: box.left - 7, y: y(tick) + 4, class: "tick end" }, `${tick}`),
    );
  }
  const ends = [x(Math.max(...missed)), x(Math.min(...missed))];
  let last = -Infinity;
  for (const share of [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999]) {
    const at = x(1 - share);
    if (at < ends[0] - 8 || at > ends[1] + 8 || at - last < 40) continue;
    last = at;
    svg.append(
      el("line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, class: "rule" }),
      el("text", { x: at, y: box.bottom + 18, class: "tick mid" }, `${Number((100 * share).toPrecision(6))} %`),
    );
  }
  svg.append(
    el("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "rule" }),
    el("text", { x: box.right, y: box.bottom + 35, class: "tick end" }, "coverage"),
    el("text", { x: 4, y: 12, class: "tick" }, page.words.size),
  );
  const promise = x(page.alphas[state.level]);
  svg.append(el("line", { x1: promise, x2: promise, y1: box.top, y2: box.bottom, class: "promise" }));
  // Of many methods only ours, the best single score and the smallest stand out.
  const many = curves.length > 8;
  const now = curves.map((_, place) => valueOf("methods.size", place));
  const front = [0, page.methods.indexOf(page.texts.baseline[state.level]), now.indexOf(Math.min(...now))];
  const depth = ({ place }) => (place === lit ? -1 : front.includes(place) ? place : 100 + place);
  for (const { place, points } of [...curves].sort((a, b) => depth(b) - depth(a))) {
    const quiet = lit !== null && lit !== place;
    const back = many && lit !== place && !front.includes(place);
    const path = points.map((point, i) => `${i ? "L" : "M"}${x(point.missed).toFixed(1)} ${y(point.size).toFixed(1)}`);
    const classes = `line k${place % 8}${place === 0 || place === lit ? " ours" : ""}`;
    const group = el("g", { class: quiet ? "quiet" : back ? "back" : "" }, el("path", { d: path.join(""), class: classes }));
    for (const point of points) {
      const here = point.level === state.level;
      if (back && !here) continue;
      const at = `translate(${x(point.missed).toFixed(1)} ${y(point.size).toFixed(1)})`;
      group.append(el("g", { transform: at }, mark(place, here ? 1.05 : 0.48), el("title", {}, point.told)));
    }
    svg.append(group);
  }
  return svg;
}

chart("#curve", (width) => {
  drawn[0] = () => $("#curve").replaceChildren(drawCurve(width));
  return drawCurve(width);
});
