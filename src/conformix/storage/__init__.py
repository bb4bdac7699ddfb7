"""Save and load: JSON that a person can read, with large arrays in an npz beside it.

Nothing is ever unpickled. A file is written under a temporary name and renamed, so that a half
written model cannot exist. Numbers survive bit for bit.
"""

from conformix.storage.files import MAX_MEMORY
from conformix.storage.model import load_predictor, read_model, write_model

__all__ = ["MAX_MEMORY", "load_predictor", "read_model", "write_model"]
