// Tables that can be sorted by their headings and searched; intervals per class as small lines.
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

const classRows = $$("#classes-table tbody tr");
$("#find").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  let shown = 0;
  for (const row of classRows) {
    row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    shown += !row.hidden;
  }
  const all = classRows.length;
  $("#found").textContent = shown === all ? `${all} classes` : `${shown} of ${all} classes`;
});

const whiskers = $$("svg.whisker");
follow(() => {
  const count = whiskers.length;
  const asked = valueOf("measured.asked");
  let low = asked;
  for (let i = 0; i < count; i++) low = Math.min(low, valueOf("classes.low", i) || low);
  const x = linear([Math.max(0, low - 0.01), 1], [2, 118]);
  for (const svg of whiskers) {
    const i = Number(svg.dataset.class);
    const at = valueOf("classes.coverage", i);
    if (Number.isNaN(at)) {
      svg.replaceChildren();
      continue;
    }
    const ends = [valueOf("classes.low", i), valueOf("classes.high", i)].map(x);
    const side = valueOf("classes.high", i) < asked ? "below" : "";
    svg.replaceChildren(
      el("line", { x1: x(asked), x2: x(asked), y1: 0, y2: 14, class: "promise" }),
      el("line", { x1: ends[0], x2: ends[1], y1: 7, y2: 7, class: `whisker-line ${side}` }),
      el("line", { x1: x(at), x2: x(at), y1: 3, y2: 11, class: `whisker-at ${side}` }),
    );
  }
});
