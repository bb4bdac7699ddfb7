// Classes are found by their names.
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
