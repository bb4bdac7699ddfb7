// Intervals and responses, the histogram of widths, and the spread of widths by method.
const pictured = { rows: unpack(page.picture.rows).data, y: unpack(page.picture.y).data };

// Ends that are infinite run out of the picture; of an empty interval nothing is drawn.
chart("#intervals", (width) => {
  const height = Math.min(420, Math.max(260, width * 0.42));
  const count = pictured.y.length;
  const ends = Array.from({ length: count }, (_, i) => ["lower", "upper"].map((name) => valueOf(`picture.${name}`, i)));
  // The axis is that of the intervals at the fitted level, so that they are seen to grow and shrink.
  const all = [];
  for (let i = 0; i < count; i++) {
    for (const name of ["lower", "upper"]) all.push(valueOf(`picture.${name}`, i, page.start));
  }
  const known = all.filter(Number.isFinite);
  const bounded = known.length ? known : [...pictured.y];
  const [low, high] = [Math.min(...bounded), Math.max(...bounded)];
  const pad = (high - low) * 0.2 || 1;
  const marks = ticks(low - pad, high + pad, 6);
  const left = 14 + 7 * Math.max(...marks.map((tick) => `${tick}`.length));
  const box = { left, right: width - 10, top: 12, bottom: height - 26 };
  const y = linear([low - pad, high + pad], [box.bottom, box.top]);
  const x = linear([-0.5, count - 0.5], [box.left, box.right]);
  const inside = (value) => Math.min(Math.max(y(value), box.top - 6), box.bottom + 6);
  const missed = ends.filter(([from, to], i) => !(from <= pictured.y[i] && pictured.y[i] <= to)).length;
  const svg = canvas(width, height, `${count} intervals and their responses, ${missed} of them outside; the table below holds the same numbers`);
  for (const tick of marks) {
    svg.append(
      el("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }),
      el("text", { x: box.left - 7, y: y(tick) + 4, class: "tick end" }, `${tick}`),
    );
  }
  svg.append(el("text", { x: box.right, y: height - 6, class: "tick end" }, "rows, from low to high intervals"));
  ends.forEach(([from, to], i) => {
    const [at, response] = [x(i).toFixed(1), pictured.y[i]];
    const holds = from <= response && response <= to;
    const told = `row ${pictured.rows[i]}: from ${fixed(from, page.digits)} to ${fixed(to, page.digits)}, response ${fixed(response, page.digits)}, ${holds ? "inside" : "outside"}`;
    const group = el("g", { class: holds ? "inside" : "outside" }, el("title", {}, told));
    if (!Number.isNaN(from)) group.append(el("line", { x1: at, x2: at, y1: inside(from).toFixed(1), y2: inside(to).toFixed(1), class: "reach" }));
    const place = `translate(${at} ${inside(response).toFixed(1)})`;
    group.append(holds ? el("circle", { r: 2.4, transform: place, class: "response" }) : el("path", { d: "M0 -4.6L4.6 0L0 4.6L-4.6 0Z", transform: place, class: "response" }));
    svg.append(group);
  });
  return svg;
});

const edges = unpack(page.edges).data;
chart("#histogram", (width) => {
  const height = Math.min(360, Math.max(240, width * 0.6));
  const box = { left: 46, right: width - 14, top: 24, bottom: height - 42 };
  const bars = edges.length - 1;
  const rows = Array.from({ length: bars }, (_, i) => valueOf("histogram.rows", i));
  const x = linear([edges[0], edges[bars]], [box.left, box.right]);
  const y = linear([0, Math.max(...rows) * 1.05], [box.bottom, box.top]);
  const svg = canvas(width, height, "Rows by the width of their interval; the table below holds the same numbers");
  for (const tick of ticks(0, Math.max(...rows), 4)) {
    svg.append(
      el("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }),
      el("text", { x: box.left - 7, y: y(tick) + 4, class: "tick end" }, `${tick}`),
    );
  }
  rows.forEach((count, i) => {
    if (!count) return;
    const told = `${fixed(edges[i], page.digits)} ${i < bars - 1 ? `to ${fixed(edges[i + 1], page.digits)}` : "and wider"}: ${count} rows`;
    svg.append(el("rect", { x: (x(edges[i]) + 0.7).toFixed(1), width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 1.4).toFixed(1), y: y(count).toFixed(1), height: (box.bottom - y(count)).toFixed(1), class: "bar-rows" }, el("title", {}, told)));
  });
  for (const tick of ticks(edges[0], edges[bars], Math.max(3, Math.floor(width / 90)))) {
    svg.append(el("text", { x: x(tick), y: box.bottom + 18, class: "tick mid" }, `${tick}`));
  }
  const mean = valueOf("measured.mean_width");
  if (mean <= edges[bars]) svg.append(el("line", { x1: x(mean), x2: x(mean), y1: box.top, y2: box.bottom, class: "promise" }));
  svg.append(
    el("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "rule" }),
    el("text", { x: box.right, y: box.bottom + 35, class: "tick end" }, "width"),
    el("text", { x: 4, y: 12, class: "tick" }, "rows"),
  );
  return svg;
});

const boxes = $$("svg.box");
follow(() => {
  const at = (name, i) => valueOf(`widths.${name}`, i);
  const most = Math.max(...boxes.map((_, i) => at("q90", i)).filter(Number.isFinite), page.least);
  const x = (value) => 2 + (Math.min(value, most * 1.02) / (most * 1.02)) * 156;
  for (const svg of boxes) {
    const i = Number(svg.dataset.i);
    const [a, b, c, d, e] = ["q10", "q25", "q50", "q75", "q90"].map((name) => x(at(name, i)));
    svg.replaceChildren(
      el("line", { x1: a, x2: e, y1: 7, y2: 7, class: "whisker-line" }),
      el("rect", { x: b, y: 3, width: Math.max(0.5, d - b), height: 8, class: "box-half" }),
      el("line", { x1: c, x2: c, y1: 1, y2: 13, class: "box-middle" }),
    );
  }
});
