"""Save and load: JSON that a person can read, with large arrays in an npz beside it.

Nothing is ever unpickled. A file is written under a temporary name and renamed, so that a half
written model cannot exist, also while others save and load it (`folder`). Numbers survive bit for
bit. A file is used only after its parts have been checked against each other (`checks`).
"""

from conformix.fit.saved.files import MAX_MEMORY, format_of
from conformix.fit.saved.model import load_predictor, read_model, write_model

__all__ = ["MAX_MEMORY", "format_of", "load_predictor", "read_model", "write_model"]
