// Tables that can be sorted by their headings; intervals of shares as small lines.
function cellValue(row, column) {
  const cell = row.cells[column];
  const number = $("data", cell);
  if (number) return number.value === "" ? NaN : Number(number.value);
  const text = cell.textContent.trim();
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

const texts = new Intl.Collator("en", { numeric: true });
function compare(a, b, sign) {
  if (typeof a === "string" || typeof b === "string") return sign * texts.compare(a, b);
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
  return sign * (a - b);
}

for (const table of $$("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const sortRows = () => {
    const column = headings.findIndex((heading) => heading.hasAttribute("aria-sort"));
    if (column < 0) return;
    const sign = headings[column].getAttribute("aria-sort") === "ascending" ? 1 : -1;
    const keyed = rows.map((row, place) => [cellValue(row, column), place, row]);
    keyed.sort((one, two) => compare(one[0], two[0], sign) || one[1] - two[1]);
    body.append(...keyed.map(([, , row]) => row));
  };
  for (const heading of headings) {
    const button = $("button.sort", heading);
    if (!button) continue;
    button.addEventListener("click", () => {
      const now = heading.getAttribute("aria-sort");
      const first = button.dataset.first === "asc" ? "ascending" : "descending";
      const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", next);
      sortRows();
    });
  }
  follow(sortRows);
}

// Coverage of every line of a table: its interval, and the promise.
const whiskers = $$("svg.whisker");
follow(() => {
  const asked = valueOf("measured.asked");
  let low = asked;
  for (const { dataset } of whiskers) low = Math.min(low, valueOf(`${dataset.of}.low`, Number(dataset.i)) || low);
  const x = linear([Math.max(0, low - 0.01), 1], [2, 118]);
  for (const svg of whiskers) {
    const [of, i] = [svg.dataset.of, Number(svg.dataset.i)];
    const at = valueOf(`${of}.coverage`, i);
    if (Number.isNaN(at)) {
      svg.replaceChildren();
      continue;
    }
    const ends = [valueOf(`${of}.low`, i), valueOf(`${of}.high`, i)].map(x);
    const side = valueOf(`${of}.high`, i) < asked ? "below" : "";
    svg.replaceChildren(
      el("line", { x1: x(asked), x2: x(asked), y1: 0, y2: 14, class: "promise" }),
      el("line", { x1: ends[0], x2: ends[1], y1: 7, y2: 7, class: `whisker-line ${side}` }),
      el("line", { x1: x(at), x2: x(at), y1: 3, y2: 11, class: `whisker-at ${side}` }),
    );
  }
});
