"""One line, once in a process, for whoever relied on the scores that 0.1.0 averaged by default."""

from __future__ import annotations

import logging

SENTENCE = (
    'conformix: scores that are left out are "auto" since 0.2.0, which makes smaller sets; '
    '"paper" is thr, aps and rank, as before, and to name either ends this line.'
)


class Notice:
    """Says that a default has changed, the first time that somebody leaves it out.

    Through the logger ``conformix``, as the compiler does: no filter that turns warnings into
    errors makes a fit fail.
    """

    def __init__(self) -> None:
        self.told = False

    def tell(self) -> None:
        """Say it, unless it was said."""
        if not self.told:
            self.told = True
            logging.getLogger("conformix").warning(SENTENCE)


NOTICE = Notice()
