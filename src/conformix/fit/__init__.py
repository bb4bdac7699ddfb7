"""From labelled rows to a rule: Algorithm 2, its settings, the exact split, and files of both."""
