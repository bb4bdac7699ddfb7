"""A report people want to open: one HTML file that needs no network, from a fitted model.

Numbers first (`build_report` and `compare_report` return plain arrays, all from the library's own
calls), page second (`Report.html`, `Report.save`; needs the extra ``report``).
"""

from conformix.report.compared import Compared, compare_report
from conformix.report.report import IntervalReport, Report, build_report
from conformix.report.stream import StreamReport, stream_report

__all__ = [
    "Compared",
    "IntervalReport",
    "Report",
    "StreamReport",
    "build_report",
    "compare_report",
    "stream_report",
]
