// Two scores: size along a line of weights. More than three: weights side by side, one line each.
function drawLine(width) {
  const height = 320;
  const box = { left: 46, right: width - 16, top: 26, bottom: height - 44 };
  const sizes = Array.from({ length: space.count }, (_, i) => space.size(i));
  const bounded = sizes.filter(Number.isFinite);
  const [least, most] = bounded.length ? [Math.min(...bounded), Math.max(...bounded)] : [0, 1];
  const pad = (most - least) * 0.1 || most * 0.1 || 0.1;
  const x = linear([0, space.m], [box.left, box.right]);
  const y = linear([Math.max(0, least - pad), most + pad], [box.bottom, box.top]);
  const svg = canvas(width, height, `Mean ${page.words.short} by the weight of ${page.scores[0]}; the table of all weights holds the same numbers`);
  for (const tick of ticks(Math.max(0, least - pad), most + pad)) {
    svg.append(
      el("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }),
      el("text", { x: box.left - 7, y: y(tick) + 4, class: "tick end" }, `${tick}`),
    );
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(el("text", { x: x(share * space.m), y: box.bottom + 18, class: `tick ${share === 1 ? "end" : share ? "mid" : ""}` }, `${share}`));
  }
  // What is unbounded stands at the upper edge.
  const at = (i) => [x(space.at(i)[0]), y(Math.min(space.size(i), most + pad))];
  const path = sizes.map((_, i) => `${i ? "L" : "M"}${at(i).map((v) => v.toFixed(1)).join(" ")}`);
  const aim = el("g", { class: "aim" });
  const ring = at(space.best());
  const star = [x(page.fitted[0] * space.m), at(space.model)[1]];
  svg.append(
    el("text", { x: 4, y: 12, class: "tick" }, page.words.size),
    el("text", { x: box.left, y: box.bottom + 36, class: "corner" }, `all ${page.scores[1]}`),
    el("text", { x: box.right, y: box.bottom + 36, class: "corner end" }, `all ${page.scores[0]}`),
    el("path", { d: path.join(""), class: "line k0 ours" }),
    el("circle", { cx: ring[0], cy: ring[1], r: 8, class: "ring" }),
    el("path", { d: STAR, class: "star", transform: `translate(${star.join(" ")})` }),
    aim,
  );
  space.pointing = () => {
    const [px, py] = at(space.shown);
    aim.replaceChildren(
      el("circle", { cx: px, cy: py, r: 4, class: "point" }),
      tip(width, px, py, space.brief(space.shown), `(${space.at(space.shown).map((s) => fixed(s / space.m, 2)).join(", ")})`),
    );
  };
  listenTo(svg, (event) => {
    const frame = svg.getBoundingClientRect();
    const share = (((event.clientX - frame.left) * width) / frame.width - box.left) / (box.right - box.left);
    const step = Math.round(Math.min(Math.max(share, 0), 1) * space.m);
    return space.find([step, space.m - step]);
  });
  space.pointing();
  return svg;
}

const EMPHASISED = 15;
function drawParallel(width) {
  const names = [...page.scores, ""];
  // Names hang below their axes at an angle; long ones are cut.
  const shortened = (name) => (name.length > 20 ? `${name.slice(0, 19)}…` : name);
  const room = 34 + 4.2 * Math.max(...names.map((name) => shortened(name).length));
  const height = 290 + room;
  const box = { left: 22, right: width - 64, top: 34, bottom: height - room };
  const scale = colourScale();
  const x = linear([0, space.d], [box.left, box.right]);
  const y = linear([0, 1], [box.bottom, box.top]);
  const heights = (i) => [...space.at(i).map((step) => y(step / space.m)), y(Math.min(scale.share(space.size(i)), 1))];
  const path = (values) => values.map((v, j) => `${j ? "L" : "M"}${x(j).toFixed(1)} ${v.toFixed(1)}`).join("");
  const svg = canvas(width, height, `Weights of ${space.d} scores side by side, with their ${page.words.size}; the table of all weights holds the same numbers`);
  const order = space.order();
  const faint = order.slice(EMPHASISED).filter((_, i) => i % Math.ceil(order.length / 400) === 0);
  svg.append(el("path", { d: faint.map((i) => path(heights(i))).join(""), class: "faint" }));
  for (const i of order.slice(0, EMPHASISED).reverse()) {
    const line = el("path", { d: path(heights(i)), class: "strand" });
    line.style.stroke = heat(scale.share(space.size(i)));
    svg.append(line);
  }
  names.forEach((name, j) => {
    const turned = `translate(${x(j).toFixed(1)} ${box.bottom + 14}) rotate(38)`;
    svg.append(
      el("line", { x1: x(j), x2: x(j), y1: box.top, y2: box.bottom, class: "rule" }),
      el("text", { transform: turned, class: "tick" }, shortened(name)),
    );
  });
  svg.append(
    el("text", { x: box.left - 6, y: box.top + 4, class: "tick end" }, "1"),
    el("text", { x: box.left - 6, y: box.bottom + 4, class: "tick end" }, "0"),
    el("text", { x: box.right, y: box.top - 14, class: "tick mid" }, `mean ${page.words.short}`),
    el("text", { x: box.right + 12, y: box.bottom + 4, class: "tick" }, fixed(scale.low, page.digits)),
    el("text", { x: box.right + 12, y: box.top + 4, class: "tick" }, fixed(scale.high, page.digits)),
    el("path", { d: path([...page.fitted.map(y), y(Math.min(scale.share(space.size(space.model)), 1))]), class: "model-line" }),
    el("path", { d: STAR, class: "star", transform: `translate(${x(space.d)} ${y(Math.min(scale.share(space.size(space.model)), 1))})` }),
    el("circle", { cx: x(space.d), cy: heights(space.best()).at(-1), r: 8, class: "ring" }),
  );
  const aim = el("path", { class: "chosen-line" });
  svg.append(aim);
  space.pointing = () => aim.setAttribute("d", path(heights(space.shown)));
  listenTo(svg, (event) => {
    const frame = svg.getBoundingClientRect();
    const zoom = width / frame.width;
    const [px, py] = [(event.clientX - frame.left) * zoom, (event.clientY - frame.top) * zoom];
    const along = Math.min(Math.max(((px - box.left) / (box.right - box.left)) * space.d, 0), space.d - 1e-6);
    const [j, share] = [Math.floor(along), along % 1];
    let found = null;
    let distance = 24;
    for (let i = 0; i < space.count; i++) {
      const values = heights(i);
      const off = Math.abs(values[j] + (values[j + 1] - values[j]) * share - py);
      if (off < distance) [found, distance] = [i, off];
    }
    return found;
  });
  space.pointing();
  return svg;
}

if (space && space.d === 2) chart("#map", drawLine);
if (space && space.d > 3) chart("#map", drawParallel);
