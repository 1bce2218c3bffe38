"""The results of `same-question-bt/1`: one `Board` per page, a `Leaderboard` of all pages (S1-2, S1-3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.leaderboard.columns import Column
from scoring.leaderboard.coverage import Coverage
from scoring.leaderboard.entries import TaskScores
from scoring.leaderboard.readings import READINGS
from scoring.results import MethodologyResult, Reading

if TYPE_CHECKING:
    from scoring.leaderboard.sandwich import Differences, GapFigures

METHODOLOGY: Final = "same-question-bt/1"


class Level(StrEnum):
    """The three levels of pages (S1-2)."""

    OVERALL = "overall"
    BOARD = "sub-board"
    SUB = "sub-category"


class NoGaps(StrEnum):
    """Why a page has no intervals; every rank range is then as wide as the page."""

    ONE_ENTRANT = "fewer-than-two-entrants"
    FEW_TASKS = "fewer-than-two-compared-tasks"
    MANY_ENTRANTS = "too-many-entrants"


@dataclass(frozen=True)
class Page:
    """Which page: the overall one, a sub-board, or a sub-category of a sub-board."""

    level: Level
    board: str | None = None
    sub: str | None = None

    @property
    def name(self) -> str:
        """`overall`, `<board>` or `<board>/<sub>`."""
        return "/".join(part for part in (self.board, self.sub) if part is not None) or self.level.value


@dataclass(frozen=True)
class Row:
    """One entrant of a page. `score` and `reference` are Elo, unrounded; `wins` of `compared` are exact win
    weights (a compared task weighs 1); `best`..`worst` is the rank range. Ranks of time and cost are None
    where the mean is."""

    entrant: str
    score: float
    reference: float
    rank: int
    best: int
    worst: int
    wins: Fraction
    compared: Fraction
    time: Column
    time_rank: int | None
    cost: Column
    cost_rank: int | None
    coverage: Coverage


@dataclass(frozen=True)
class Board(MethodologyResult):
    """One page, computed alone from the results in its scope (S1-3); rows by rank, then entrant.

    `without_result` are entrants that planned runs here and have no valid result: they get no score, and are
    named so that staying away is seen. `gaps` is None with its reason.
    """

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    page: Page
    rows: tuple[Row, ...]
    without_result: tuple[tuple[str, Coverage], ...]
    tasks: tuple[TaskScores, ...]
    gradient_norm: float
    steps: int
    gaps: Differences | None = field(compare=False, repr=False)
    gaps_reason: NoGaps | None
    inputs_digest: str

    @property
    def tasks_compared(self) -> int:
        """Tasks with two entrants or more; the clusters of the intervals."""
        return sum(len(task.entrants) > 1 for task in self.tasks)

    def row(self, entrant: str) -> Row:
        """The row of an entrant; raises `MalformedInputError("unknown-entrant")`."""
        for row in self.rows:
            if row.entrant == entrant:
                return row
        raise MalformedInputError("unknown-entrant", f"{entrant!r:.60} is not on the page {self.page.name}")

    def gap(self, first: str, second: str) -> GapFigures | None:
        """`first`'s score minus `second`'s with its interval in Elo; None where the page has none."""
        self.row(first), self.row(second)
        return None if self.gaps is None else self.gaps.gap(first, second)


@dataclass(frozen=True)
class Leaderboard(MethodologyResult):
    """All pages: the overall one, every sub-board, and every sub-category, the latter two sorted by name.
    `non_public_runs` are the valid runs of the overall page that only their owners may see."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    overall: Board
    boards: tuple[Board, ...]
    subs: tuple[Board, ...]
    inputs_digest: str
    non_public_runs: int = 0

    @property
    def pages(self) -> tuple[Board, ...]:
        """Every page, the overall one first."""
        return (self.overall, *self.boards, *self.subs)

    def page(self, name: str) -> Board:
        """The page of that name; raises `MalformedInputError("unknown-page")`."""
        for board in self.pages:
            if board.page.name == name:
                return board
        raise MalformedInputError("unknown-page", f"there is no page {name!r:.60}")


def require_same_page(a: MethodologyResult, b: MethodologyResult) -> None:
    """Raise `MethodologyMixError` unless both are one and the same page of the same inputs: scores of two
    pages are not comparable, ranks may be shown side by side (S1-32)."""
    if not isinstance(a, Board) or not isinstance(b, Board):
        raise MethodologyMixError("methodology-mix", f"{a.methodology} and {b.methodology} do not compare")
    if a.page != b.page:
        raise MethodologyMixError("page-mix", f"scores of {a.page.name} and {b.page.name} are not comparable")
    if a.inputs_digest != b.inputs_digest:
        raise MethodologyMixError(
            "inputs-mix", f"two fits of {a.page.name} from other results do not compare"
        )
