// Size and coverage over the weights: the numbers, what is chosen, and what is told about it.
const space = page.weights && {
  m: page.weights.m,
  n: page.weights.n,
  d: page.scores.length,
  grid: unpack(page.weights.grid).data,
  totals: unpack(page.weights.totals).data,
  hits: unpack(page.weights.hits).data,
};

if (space) {
  space.count = space.grid.length / space.d;
  space.at = (i) => Array.from(space.grid.subarray ? space.grid.subarray(i * space.d, (i + 1) * space.d) : space.grid.slice(i * space.d, (i + 1) * space.d));
  space.size = (i) => space.totals[state.level * space.count + i] / space.n;
  space.coverage = (i) => space.hits[state.level * space.count + i] / space.n;
  space.places = new Map();
  for (let i = 0; i < space.count; i++) space.places.set(space.at(i).join(), i);
  space.find = (steps) => space.places.get(steps.join());

  // The grid point nearest to the model's weights: round down, then give to the largest rests.
  const exact = page.fitted.map((weight) => weight * space.m);
  const steps = exact.map(Math.floor);
  const rests = exact.map((value, j) => [value - steps[j], j]).sort((a, b) => b[0] - a[0]);
  for (let left = space.m - steps.reduce((a, b) => a + b, 0), r = 0; left > 0; left--, r++) {
    steps[rests[r % space.d][1]]++;
  }
  space.model = space.find(steps) ?? 0;
  space.chosen = space.model;

  space.order = () => {
    if (space.orderLevel !== state.level) {
      const sizes = Array.from({ length: space.count }, (_, i) => space.size(i));
      space.sorted = sizes.map((_, i) => i).sort((a, b) => sizes[a] - sizes[b] || a - b);
      space.orderLevel = state.level;
    }
    return space.sorted;
  };
  space.best = () => space.order()[0];
  space.listeners = [];
  space.choose = (place, pinned = true) => {
    space.shown = place;
    if (pinned) space.chosen = place;
    for (const listener of space.listeners) listener();
  };
  space.shown = space.chosen;
  space.sentence = (i) => {
    const weights = space.at(i).map((step, j) => `${page.scores[j]} ${fixed(step / space.m, 2)}`);
    const kept = space.d > 4 ? weights.filter((_, j) => space.at(i)[j]) : weights;
    return `${kept.join(", ")}: mean ${page.words.short} ${fixed(space.size(i), page.digits)}, coverage ${fixed(space.coverage(i), 1, 100)} %`;
  };

  space.brief = (i) => `${fixed(space.size(i), page.digits)}${page.words.unit}, ${fixed(space.coverage(i), 1, 100)} %`;

  const tell = () => {
    const places = { chosen: space.shown, model: space.model, best: space.best() };
    for (const [who, place] of Object.entries(places)) {
      const told = who === "model" ? page.fitted : space.at(place).map((step) => step / space.m);
      $$(`[data-w="${who}"]`).forEach((cell, j) => {
        cell.textContent = fixed(told[j], 2);
        cell.classList.toggle("zero", told[j] === 0);
      });
      const [size, coverage] = $$(`[data-r="${who}"]`);
      for (const [cell, value, text] of [
        [size, space.size(place), fixed(space.size(place), page.digits)],
        [coverage, space.coverage(place), `${fixed(space.coverage(place), 1, 100)} %`],
      ]) {
        const data = document.createElement("data");
        data.value = value;
        data.textContent = text;
        cell.replaceChildren(data);
      }
    }
  };
  space.listeners.push(tell);
  follow(() => space.choose(space.chosen));

  // Native sliders: for two and three scores one per free weight, else a walk by size.
  const steer = $("#steer");
  const addSlider = (id, text, most, onInput) => {
    const input = Object.assign(document.createElement("input"), { type: "range", id, min: 0, max: most, step: 1 });
    const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: text });
    input.addEventListener("input", () => onInput(Number(input.value)));
    steer.append(label, input);
    return input;
  };
  const sliders = [];
  if (space.d <= 3) {
    for (let j = 0; j < space.d - 1; j++) {
      const move = (value) => {
        const next = space.at(space.chosen);
        // What one weight takes, the last gives; when that is used up, the other one does.
        next[j] = value;
        const others = next.map((_, i) => i).filter((i) => i !== j).reverse();
        let over = next.reduce((a, b) => a + b, 0) - space.m;
        next[others[0]] -= over;
        if (next[others[0]] < 0) {
          next[others[1]] += next[others[0]];
          next[others[0]] = 0;
        }
        space.choose(space.find(next));
      };
      sliders.push(addSlider(`weight-${j}`, `Weight of ${page.scores[j]}`, space.m, move));
    }
  } else {
    const move = (value) => space.choose(space.order()[value]);
    sliders.push(addSlider("weight-rank", page.words.walk, space.count - 1, move));
  }
  space.listeners.push(() => {
    const steps = space.at(space.chosen);
    sliders.forEach((slider, j) => {
      slider.value = space.d <= 3 ? steps[j] : space.order().indexOf(space.chosen);
      slider.setAttribute("aria-valuetext", space.sentence(space.chosen));
    });
  });

  // The long table is written when somebody opens it.
  const details = $("#map-table");
  const list = () => {
    if (!details.open) return;
    const rows = space.order().map((i) => {
      const row = document.createElement("tr");
      const told = [...space.at(i).map((step) => fixed(step / space.m, 2)), fixed(space.size(i), page.digits), `${fixed(space.coverage(i), 1, 100)} %`];
      for (const text of told) {
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = text;
      }
      return row;
    });
    $("tbody", details).replaceChildren(...rows);
  };
  details.addEventListener("toggle", list);
  follow(list);
}
