"""What models say of the rows of a data set, trained once per seed and kept in a folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from conformix.atomic import write_whole
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.regression.regressed import Regressed
from studies.regression.data import DRAWS, Rows, Setting
from studies.regression.models import LEVELS, MEANS, QUANTILES, Predictions, trained

Outputs = dict[str, Regressed]


@dataclass(frozen=True, eq=False)
class Draw:
    """Labelled and test rows of one run.

    Parameters
    ----------
    data : Rows
        All rows of the data set.
    train, labelled, test : integer arrays
        Which of them do what; the first n labelled rows are n labelled rows.
    known : Predictions
        What the models say of labelled and then test rows.
    run : int
        Which run it is: its models are those of ``run // DRAWS``.
    """

    data: Rows
    train: IntArray
    labelled: IntArray
    test: IntArray
    known: Predictions
    run: int

    def outputs(self, part: slice, pairs: tuple[float, ...]) -> Outputs:
        """Return what the models say of some of the rows, by name.

        Of the quantile models the medians, and the pairs whose lower levels are given.
        """
        places = [j for j, level in enumerate(LEVELS) if _among(level, pairs)]
        levels = [LEVELS[j] for j in places]
        known = self.known
        means = {
            name: Regressed(mean=known.means[part, j], sigma=known.sigmas[part, j])
            for j, name in enumerate(MEANS)
        }
        return means | {
            name: Regressed(quantiles=known.quantiles[part, j][:, places], levels=levels)
            for j, name in enumerate(QUANTILES)
        }

    def y(self, part: slice) -> FloatArray:
        """Return the responses of some of the rows."""
        both = np.concatenate([self.labelled, self.test])
        return self.data.y[both[part]]  # type: ignore[no-any-return]

    @property
    def rest(self) -> slice:
        """The test rows."""
        return slice(len(self.labelled), None)


def _among(level: float, pairs: tuple[float, ...]) -> bool:
    return any(abs(level - one) < 1e-9 for low in (*pairs, 0.5) for one in (low, 1 - low))


def draw(setting: Setting, run: int, folder: Path) -> Draw:
    """Return the rows of a run; the models are trained unless the folder knows them."""
    data, train, others, known = _of_seed(setting, run // DRAWS, folder)
    labelled, test = setting.draw(others, run)
    both = np.concatenate([labelled, test])
    some = {
        name: part[both] if isinstance(part, np.ndarray) else part
        for name, part in asdict(known).items()
    }
    return Draw(data, train, others[labelled], others[test], Predictions(**some), run)


@lru_cache(maxsize=1)
def _of_seed(
    setting: Setting, seed: int, folder: Path
) -> tuple[Rows, IntArray, IntArray, Predictions]:
    data = setting.load()
    train, others = setting.training(len(data.y), seed)
    path = folder / f"{setting.data}_{setting.n_train}_{seed}.npz"
    if not path.exists():
        known = trained(data.X[train], data.y[train], data.X[others], seed)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: _save(file, known))
    with np.load(path, allow_pickle=False) as file:
        known = Predictions(**{key: _plain(file[key]) for key in file.files})
    return data, train, others, known


def _save(file: IO[bytes], known: Predictions) -> None:
    np.savez(file, **asdict(known))


def _plain(array: Any) -> Any:
    return array if array.ndim else int(array)
