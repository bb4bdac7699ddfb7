"""Names that a careless page would take for markup."""

NASTY = (
    "</script><script>window.hacked = 1</script>",
    '<img src="x" onerror="window.hacked = 1">',
    "a & b",
    "{{ 7 * 7 }}",
    "quote \" and ' apostrophe",
    "line\u2028separator",
)
