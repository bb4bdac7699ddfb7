"""An average of scores that keeps what it fitted in ``predictor_``, and writes and reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from conformix.errors import NotFitted
from conformix.fit.saved import MAX_MEMORY
from conformix.registry import check_flag

Predictor = TypeVar("Predictor")


class Kept(Generic[Predictor]):
    """What averages for classes and for responses share once they are fitted."""

    get_params: Callable[..., dict[str, Any]]
    _write: ClassVar[Callable[..., None]]  # settings, predictor and path
    _read: ClassVar[Callable[..., tuple[dict[str, Any], Any]]]

    def save(self, path: str | os.PathLike[str], *, remember: bool = True) -> None:
        """Write the fitted model as JSON (`conformix.load` reads it), never as a pickle.

        Parameters
        ----------
        path : path
            Usually ``model.json``; large arrays go to an npz of the same name.
        remember : bool
            Whether salted digests of up to 1,000 rows of the fit go into the file, by which these
            rows are recognised when somebody evaluates on them (`conformix.fit.seen` says what they
            reveal).
        """
        predictor: Any = self._check_fitted()
        if not check_flag(remember, "remember"):
            predictor = replace(predictor, seen=None)
        type(self)._write(self.get_params(), predictor, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> Self:
        """Return what `save` has written; the same as `conformix.load`.

        Parameters
        ----------
        path : path
            The JSON file.
        max_memory : int or str
            Bytes that the files may ask for, as a number or a text such as ``"512M"``.
        """
        params, predictor = cls._read(path, max_memory=max_memory)
        model: Any = cls(**params)
        model.predictor_ = predictor
        return model  # type: ignore[no-any-return]

    @property
    def score_names_(self) -> tuple[str, ...]:
        """Names of the scores, ``model.score`` with several models."""
        predictor: Any = self._check_fitted()
        return tuple(str(column) for column in predictor.columns)

    def _check_fitted(self) -> Predictor:
        predictor: Predictor | None = self.__dict__.get("predictor_")
        if predictor is None:
            raise NotFitted(
                f"this {type(self).__name__} is not fitted yet; call fit(outputs, y) first."
            )
        return predictor
