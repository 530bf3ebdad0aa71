"""Events of what was measured again: found among others, each unit once, and nothing else taken for one."""

from rooflens.shapes.run_folder.retries import Retry, retries

PLACE = ("llm4bit", "a model: b", "up", "", "1", "mine", "cold")


def test_retries_are_read_back_from_the_events(tmp_path):
    hung, died = Retry.of(0, PLACE, "timeout", "hung: 120 s"), Retry.of("1", PLACE, "crashed", "")
    (tmp_path / "events.log").write_text(
        f"2026-01-02T03:04:05Z {hung}\n2026-01-02T03:04:06Z shard-2: {died}\n2026-01-02T03:04:07Z {hung}\n"
        "2026-01-02T03:04:08Z retry later\nretry round 1 of nothing: timeout: hung\n\xff\n",
        encoding="latin-1",
    )
    assert retries(tmp_path) == (hung, died)
    assert (hung.provider, hung.place) == ("mine", "llm4bit a model: b up 1 mine cold")


def test_without_events_nothing_was_measured_again(tmp_path):
    assert retries(tmp_path) == ()
