"""The time that is left: what jobs took, what they took last time, and never less than nothing."""

import pytest
from rooflens.plugins.fleet.engine.forecast import Forecast

from .fabricated import quick_jobs

JOBS = quick_jobs(shapes=2, sizes=(1, 8))


def test_nothing_is_said_before_anything_is_known():
    forecast = Forecast()
    forecast.add(JOBS)
    assert forecast.seconds(2) is None
    forecast.finished(JOBS[0], 10.0)
    assert forecast.seconds(0) is None
    assert forecast.seconds(1) == pytest.approx(30)
    assert forecast.seconds(2) == pytest.approx(15)


def test_more_devices_than_jobs_do_not_help():
    forecast = Forecast()
    forecast.add(JOBS)
    forecast.finished(JOBS[0], 10.0)
    assert forecast.seconds(1000) == pytest.approx(10)


def test_jobs_of_one_shape_are_expected_to_take_what_its_others_took():
    forecast = Forecast()
    forecast.add(JOBS)
    forecast.finished(JOBS[0], 1.0)
    forecast.finished(JOBS[2], 100.0)
    assert forecast.seconds(1) == pytest.approx(101)


def test_an_earlier_run_is_known_from_the_start():
    forecast = Forecast({job.key: 7.0 for job in JOBS})
    forecast.add(JOBS)
    assert forecast.seconds(1) == pytest.approx(28)
    forecast.finished(JOBS[0], 500.0)
    assert forecast.seconds(1) == pytest.approx(21)
    for job in JOBS[1:]:
        forecast.drop(job)
        forecast.drop(job)
    assert forecast.seconds(1) == 0.0
