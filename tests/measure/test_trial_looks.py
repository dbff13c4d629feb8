"""Which looks at a running command are kept as its start and its end."""

from hostdoctor.measure.trial_model import Place
from hostdoctor.measure.trial_run import _add_look


def looked(*memory_bytes: int | None) -> list[tuple[str, int | None]]:
    """Return what is kept of looks that saw so much memory: 0 none yet, None no process any more."""
    places: list[Place] = []
    for size in memory_bytes:
        _add_look(
            places,
            lambda when, size=size: Place(  # type: ignore[misc]
                when="start" if when == "start" else "end",
                threads=size is not None,
                memory_bytes={"0": size} if size else {},
            ),
        )
    return [(place.when, place.memory_bytes.get("0")) for place in places]


def test_the_first_and_the_last_look_are_kept() -> None:
    assert looked(5) == [("start", 5)]
    assert looked(5, 6, 7) == [("start", 5), ("end", 7)]


def test_a_look_while_the_program_begins_or_ends_gives_way() -> None:
    assert looked(0, 5, 6) == [("start", 5), ("end", 6)]
    assert looked(5, 6, 0) == [("start", 5), ("end", 6)]
    assert looked(5, 0) == [("start", 5)]
    assert looked(5, 6, None) == [("start", 5), ("end", 6)]


def test_memory_that_is_never_told_is_still_a_look() -> None:
    assert looked(0, 0) == [("start", None)]
