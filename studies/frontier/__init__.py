"""The study behind ``scores="auto"`` (docs/frontier.md).

`cases` what is compared on which rows, `made` those that no bundled file has; `blended` the
library's way, that of 0.1.0 and what is left when a part is taken away, on scores computed once;
`baseline` the best of all tuned baselines, as somebody would choose it; `averaged` the paper's
average, `similarity`, `symmetric` and `exactly` other rivals; `run` all of it into rows that
survive a kill; `tables` what the rows say; `report` what docs/frontier.md shows; by commands of
their own (`command`) `ideas` what was tried beside ``auto``, and `alone` rows that teach it one at
a time.
"""
