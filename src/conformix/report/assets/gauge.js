// Promise and measurement on one line.
chart("#gauge", (width) => {
  const height = 76;
  const at = (name) => valueOf(`measured.${name}`);
  const named = ["asked", "coverage", "coverage_low", "coverage_high", "chance_low", "chance_high"];
  const values = named.map(at).filter((value) => !Number.isNaN(value));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max((most - least) * 0.18, 0.002);
  const domain = [Math.max(0, least - pad), Math.min(1, most + pad)];
  const x = linear(domain, [14, width - 14]);
  const told = `Measured coverage ${fixed(at("coverage"), 1, 100)} %, ${page.promised ? "promised" : "asked for"} ${page.texts.asked[state.level]}`;
  const svg = canvas(width, height, told);
  const y = 34;
  if (!Number.isNaN(at("chance_low"))) {
    const [from, to] = [x(at("chance_low")), x(at("chance_high"))];
    svg.append(el("rect", { x: from, y: y - 13, height: 26, rx: 4, class: "band", width: Math.max(1, to - from) }));
  }
  svg.append(
    el("line", { x1: 14, x2: width - 14, y1: y + 20, y2: y + 20, class: "rule" }),
  );
  for (const tick of ticks(...domain, Math.max(3, Math.floor(width / 110)))) {
    svg.append(
      el("line", { x1: x(tick), x2: x(tick), y1: y + 20, y2: y + 24, class: "rule" }),
      el("text", { x: x(tick), y: y + 38, class: "tick mid" }, `${Number((100 * tick).toPrecision(8))} %`),
    );
  }
  const asked = x(at("asked"));
  const side = asked > width - 90 ? "end" : asked < 60 ? "" : "mid";
  svg.append(
    el("line", { x1: asked, x2: asked, y1: y - 20, y2: y + 20, class: "promise" }),
    el("text", { x: asked, y: 10, class: `tick strong ${side}` }, page.promised ? "promise" : "asked for"),
    el("line", { x1: x(at("coverage_low")), x2: x(at("coverage_high")), y1: y, y2: y, class: "interval" }),
    el("circle", { cx: x(at("coverage")), cy: y, r: 6, class: "point" }),
  );
  return svg;
});
