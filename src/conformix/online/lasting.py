"""A stream that outlives its process: saved and loaded, recorded, resumed and replayed.

`LastingStream` names everything that a stream consists of. All of it is in its file
(`conformix.online.saved`), and a log (`conformix.online.log`) has what came since; so what is
resumed goes on with the same bits.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from conformix.atomic import as_path
from conformix.errors import InvalidInput, NotFitted
from conformix.fit.saved import MAX_MEMORY
from conformix.kernels.arrays import FloatArray
from conformix.online.controllers import control_name, resumed, state_of
from conformix.online.log import (
    EVERY,
    START,
    STATE,
    Ended,
    Forgotten,
    Issued,
    Labelled,
    Log,
    LogShape,
    RecordedStep,
    Ticket,
    begun,
    check_record,
    fresh_folder,
    log_folder,
    recorded_steps,
    same_numbers,
)
from conformix.online.saved import Kind, read_online, write_online
from conformix.online.weights import AdaptiveWeights
from conformix.online.window import Window


class Pending(NamedTuple):
    """A row that was answered and whose truth has not come."""

    number: int  # of the row on its stream, from 0
    labels: int  # how many labels had come by then
    answer: Any  # a tuple of arrays


class LastingStream:
    """What a stream consists of, and how that is kept."""

    _noun: ClassVar[str]  # what an answer is called
    _file: ClassVar[Kind]
    _answer_of: ClassVar[Any]  # makes an answer of its parts
    _settings: ClassVar[tuple[str, ...]]  # that a file holds

    scores: Any
    control_: Any  # a controller, or a `Ladder` of them
    _alphas: list[float]
    _several: bool
    _shape: Any  # what a row looks like, None before the first
    _weights: AdaptiveWeights | None
    _fixed: FloatArray
    _plain: FloatArray | None  # weights of the scores that never learn, which the alarm reads
    _window: Window
    _pending: dict[Ticket, Pending]
    _issued: int
    _steps: int  # labels that came
    _errors: list[int]
    _late: int
    _forgotten: int
    _log: Log | None
    _recording: tuple[Any, int, int] | None  # where and how a log begins with the next row

    def __init__(self, scores: Any, **options: Any) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Leave the log behind: a copy of a stream is not recorded."""
        return vars(self) | {"_log": None, "_recording": None}

    @property
    def weights_(self) -> FloatArray:
        """The weights of the next answer."""
        raise NotImplementedError

    def update(self, y: Any, *, ticket: Ticket = None) -> Any:
        """Take the truth of a row, and return whether its answer missed it."""
        raise NotImplementedError

    def forget(self, ticket: Ticket = None) -> None:
        """Wait no longer for the label of a row."""
        raise NotImplementedError

    def _controls(self) -> list[Any]:
        raise NotImplementedError

    def _levels(self) -> list[float]:
        raise NotImplementedError

    @property
    def _columns(self) -> Any:
        """Which score of which model every weight is of."""
        raise NotImplementedError

    @property
    def _largest(self) -> int:
        """The largest size that a candidate can be charged."""
        raise NotImplementedError

    def _told(self, answer: Any) -> Any:
        """Return what a log holds of an answer."""
        raise NotImplementedError

    def _raw(self, outputs: Any, row: Any) -> dict[str, Any]:
        """Return the numbers of a row by model, as a log holds them."""
        raise NotImplementedError

    def _replayed(self, step: Issued) -> Any:
        """Answer a row of a log again, and return what a log would hold of the answer."""
        raise NotImplementedError

    def _log_shape(self) -> LogShape:
        raise NotImplementedError

    def _own_state(self) -> dict[str, Any]:
        """Return what this kind of stream needs to go on, beside what all of them do."""
        raise NotImplementedError

    def _begin_from(self, state: dict[str, Any]) -> None:
        """Make room for rows such as those that a state is of."""
        raise NotImplementedError

    def _recall(self, state: dict[str, Any]) -> None:
        """Take over what `_own_state` has written."""
        raise NotImplementedError

    @property
    def _assumes(self) -> str:
        """What is assumed of truths, beside nothing."""
        raise NotImplementedError

    def _described(self) -> dict[str, str]:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write where the stream stands as JSON (`OnlineAverage.load`), never as a pickle.

        Rows that wait for their labels are in it.

        Parameters
        ----------
        path : path
            Usually ``stream.json``; large arrays go to an npz of the same name.
        """
        if not self._issued:
            raise NotFitted("no row was seen yet; there is nothing to save.")
        self._write_state(path)

    def _write_state(self, path: str | os.PathLike[str], log: Log | None = None) -> None:
        """Write where the stream stands; a state is never ahead of what the disk has of its log."""
        if log is not None:
            log.sync()
        controls = self._controls()
        state = {one: getattr(self, one) for one in self._settings} | self._own_state()
        adaptive = self._weights
        waiting = list(self._pending.values())
        state |= {
            "columns": self._columns, "issued": self._issued, "steps": self._steps,
            "errors": self._errors, "late": self._late, "forgotten": self._forgotten,
            "control": control_name(controls[0]),
            "state": [state_of(control) for control in controls],
            "charged": 0 if adaptive is None else adaptive.charged,
            "true": self._window.scores,
            "sizes": np.zeros((0, 0), dtype=np.int64) if adaptive is None else adaptive.remembered,
            "tickets": list(self._pending),
            "waiting": [[one.number, one.labels] for one in waiting],
            "place": 0 if log is None else log.place,
        }  # fmt: skip
        for place, name in enumerate(self._answer_of._fields):
            state[f"waiting_{name}"] = [one.answer[place] for one in waiting]
        write_online(self._file, state, path, durable=log is not None)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> Self:
        """Return what `save` has written; its next set is that of the stream that was saved.

        Parameters
        ----------
        path : path
            The JSON file.
        max_memory : int or str
            Bytes that the files may ask for, as a number or a text such as ``"512M"``.

        Examples
        --------
        >>> import tempfile
        >>> from conformix.online import OnlineAverage
        >>> online = OnlineAverage("thr", alpha=0.4)
        >>> _ = online.run([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     online.save(f"{folder}/stream.json")
        ...     again = OnlineAverage.load(f"{folder}/stream.json")
        >>> again.level_ == online.level_, again.predict_set([0.1, 0.9]).labels(0)
        (True, [1])
        """
        return cls._loaded(path, max_memory)[0]

    @classmethod
    def _loaded(
        cls, path: str | os.PathLike[str], max_memory: int | str = MAX_MEMORY
    ) -> tuple[Self, int]:
        """Return a saved stream, and the place in its log up to which it has come."""
        state = read_online(cls._file, path, max_memory=max_memory)
        options = {name: state[name] for name in cls._settings} | {"control": state["control"]}
        self = cls(state["scores"], **options)
        self._begin_from(state)
        self._steps, self._errors = state["steps"], state["errors"]
        self._issued, self._late = state["issued"], state["late"]
        self._forgotten = state["forgotten"]
        try:
            controls = [
                resumed(state["control"], alpha, one)
                for alpha, one in zip(self._alphas, state["state"], strict=True)
            ]
            if state["true"].shape[1] != len(self._columns):
                raise InvalidInput("its online.true are not one number per score")
            self._recall(state)
        except (InvalidInput, ValueError) as error:
            raise InvalidInput(f"{path} is damaged: {error}.") from None
        if self._several:
            self.control_.controls = controls
        else:
            self.control_ = controls[0]
        self._window.recall(state["true"], state["steps"])
        if self._weights is not None:
            self._weights.recall(state["sizes"], state["charged"], self._largest)
        parts = [f"waiting_{name}" for name in cls._answer_of._fields]
        for ticket, numbers, *arrays in zip(
            state["tickets"], state["waiting"], *(state[name] for name in parts), strict=True
        ):
            self._pending[ticket] = Pending(numbers[0], numbers[1], cls._answer_of(*arrays))
        return self, state["place"]

    def record(
        self, folder: str | os.PathLike[str], *, every: int = EVERY, durable: bool | int = False
    ) -> Self:
        """Append everything that comes to a log, from which the stream can be resumed.

        Every row, set and label is the system's before it is returned, so a process may be killed
        at any moment: `OnlineAverage.resume` goes on with the same bits. ``conformix monitor``
        shows a log while it grows. If the power fails, what the system had not yet put on the disk
        is lost, at most what came since the last state; with ``durable=True`` nothing that was
        returned is.

        Parameters
        ----------
        folder : path
            A new folder, or an empty one.
        every : int
            After how many records the state is written, from which resuming starts.
        durable : bool or int
            Whether every record waits for the disk, or after how many one does.

        Examples
        --------
        >>> import tempfile
        >>> from conformix.online import OnlineAverage
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     online = OnlineAverage("thr", alpha=0.4).record(f"{folder}/log")
        ...     _ = online.run([[0.7, 0.3], [0.4, 0.6]], [0, 1])
        ...     online.close()
        ...     again = OnlineAverage.resume(f"{folder}/log")
        ...     again.rows_, again.level_ == online.level_
        (2, True)
        """
        if self._log is not None or self._recording is not None:
            raise InvalidInput("this stream is being recorded already; close() it first.")
        for control in self._controls():
            control_name(control)
        often = check_record(every, durable)
        self._recording = fresh_folder(as_path(folder)), *often
        if self._shape is not None:
            self._begin_log()
        return self

    def close(self) -> None:
        """End the log of this stream; it can be resumed."""
        if self._log is not None and self._log.is_open:
            self._record(Ended())
            self._write_state(self._log.folder / STATE, self._log)
            self._log.close()
        self._log = self._recording = None

    @classmethod
    def resume(
        cls, folder: str | os.PathLike[str], *, every: int = EVERY, durable: bool | int = False
    ) -> Self:
        """Return the stream of a log, where it was when its process ended, and go on recording.

        ``rows_`` says how many rows were issued, ``pending_`` which of them wait for their labels.

        Parameters
        ----------
        folder : path
            The log, which no process is writing.
        every, durable
            As in `record`.
        """
        path = log_folder(folder)
        log = Log(path, every, durable)
        try:
            self, place = cls._loaded(begun(path))
            for step, after in recorded_steps(path, self._log_shape(), place):
                self._replay(step, path)
                place = after
            log.cut(place)
        except BaseException:
            log.close()
            raise
        self._log = log
        return self

    @classmethod
    def replay(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the stream of a log, played again from its first row; the log stays as it is.

        Every set is issued again, and must be the one in the log.

        Parameters
        ----------
        folder : path
            The log; a process may be writing it.
        """
        path = log_folder(folder)
        self, place = cls._loaded(path / START)
        for step, _ in recorded_steps(path, self._log_shape(), place):
            self._replay(step, path)
        return self

    def _replay(self, step: RecordedStep, path: Any) -> None:
        """Do again what a record says was done."""
        numbers = {one.number: ticket for ticket, one in self._pending.items()}
        same = True
        match step:
            case Issued():
                levels, same = self._levels(), step.number == self._issued
                if same:
                    weights = self.weights_
                    told = self._replayed(step)
                    same = same_numbers(levels, step.levels)
                    same = same and same_numbers(weights, step.weights)
                    same = same and same_numbers(told, step.sizes)
            case Labelled():
                same = step.number in numbers
                if same:
                    missed = self.update(step.label, ticket=numbers[step.number])
                    same = tuple(np.ravel(missed).tolist()) == step.errors
            case Forgotten():
                same = step.number in numbers
                if same:
                    self.forget(numbers[step.number])
            case _:
                return
        if not same:
            raise InvalidInput(
                f"{path} was not written by this stream: a record does not follow from those "
                "before it; it is damaged, or of another version."
            )

    def _begin_log(self) -> None:
        """Write how the stream stands before its first recorded row."""
        if self._recording is None:
            return
        log = Log(*self._recording)
        for name in (START, STATE):
            self._write_state(log.folder / name, log)
        self._log, self._recording = log, None

    def _record(self, step: RecordedStep) -> None:
        if self._log is not None:
            self._log.append(step)

    def _keep_state(self) -> None:
        """Take the step for made; write the state from time to time."""
        if self._log is not None and self._log.settle():
            self._write_state(self._log.folder / STATE, self._log)
