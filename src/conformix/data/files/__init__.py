"""Files of outputs and labels: npz, npy, csv, tsv, parquet and pt, one reader each.

Every reader says in one sentence what is wrong with a file, checks what a file asks for before it
gets it, and executes nothing. To add a format, write a reader and one line in `READERS`
(`conformix/data/files/formats.py`).
"""

from conformix.data.files.batch import Batch, Sources, check_kind, guess_kind
from conformix.data.files.contents import Choice, Contents, Labels
from conformix.data.files.formats import READERS, read_contents
from conformix.data.files.limits import Limits, parse_size

__all__ = [
    "READERS",
    "Batch",
    "Choice",
    "Contents",
    "Labels",
    "Limits",
    "Sources",
    "check_kind",
    "guess_kind",
    "parse_size",
    "read_contents",
]
