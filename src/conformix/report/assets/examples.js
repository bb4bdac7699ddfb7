// Example rows: which labels are in, and how much each part of a score falls short.
const shown = page.examples.rows.map((row) => ({
  parts: unpack(row.parts),
  thresholds: unpack(row.thresholds).data,
  member: unpack(row.member).data,
  sizes: unpack(row.sizes).data,
}));
const bestParts = unpack(page.examples.best).data;
const bestScore = bestParts.reduce((a, b) => a + b, 0);
// What is allowed ends at the line; what falls short by much more runs out of the picture.
const LINE = 90;
const END = 200;

// Parts of a bar: shares of what is allowed, or of the most there is where nothing is allowed.
function shortfalls(parts, place, threshold, most) {
  const count = bestParts.length;
  const allowed = bestScore - threshold;
  const unit = Number.isFinite(allowed) && allowed > 0 ? allowed : most;
  const none = threshold === -Infinity;
  return Array.from({ length: count }, (_, j) => {
    const short = Math.max(0, bestParts[j] - parts[place * count + j]);
    return none || !unit ? 0 : (short / unit) * LINE;
  });
}

function drawBar(svg, widths, line) {
  const drawn = [];
  let from = 0;
  widths.forEach((width, j) => {
    const cut = Math.min(width, END - from);
    if (cut <= 0) return;
    drawn.push(el("rect", { x: from.toFixed(2), y: 1, width: cut.toFixed(2), height: 10, class: `part p${j}` }));
    from += cut;
  });
  if (from >= END) drawn.push(el("path", { d: "M204 2l5 4l-5 4", class: "more" }));
  if (line) drawn.push(el("line", { x1: LINE, x2: LINE, y1: -3, y2: 15, class: "promise" }));
  svg.replaceChildren(...drawn);
}

follow(() => {
  $$("[data-example]").forEach((card, e) => {
    const { parts, thresholds, member, sizes } = shown[e];
    const [labels, count] = parts.shape;
    let most = 0;
    parts.data.forEach((part, i) => (most = Math.max(most, bestParts[i % count] - part)));
    $(".size", card).textContent = sizes[state.level];
    const limits = $$(".limit", card);
    $$(".parts tbody tr", card).forEach((row, l) => {
      const place = state.level * labels + l;
      const inside = Boolean(member[place]);
      const threshold = thresholds[place];
      const widths = shortfalls(parts.data, l, threshold, most);
      drawBar($("svg", row), widths, Number.isFinite(threshold));
      row.className = inside ? "in" : "out";
      $(".mark", row).textContent = inside ? "in" : "out";
      limits[l].textContent = fixed(threshold, 4);
    });
  });
});
