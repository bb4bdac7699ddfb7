"""The study of averaged regression scores (docs/regression.md).

`data` which rows train, are labelled and test; `models` what is trained, as a careful user would;
`predictions` what they say, kept in a folder; `tasks` what a method is given and is judged by;
`averaged` the library's way, and what is left when a part is taken away; `rivals` and `plus` other
ways; `run` all of it into rows that survive a kill; `tables` what the rows say; `report` what
docs/regression.md shows.
"""
