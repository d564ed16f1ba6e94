"""A pilot on a Dask cluster: the same numbers, and fits that hang are given up."""

import sys

import pytest
from pilot_fits import hangs_at_32, power

import korisk as kr
from korisk.studies.run.clusters import local_cluster


def test_the_same_on_a_cluster_where_one_size_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with local_cluster(1) as cluster:  # the time on the way to a worker and back counts too
        pilot = kr.run_pilot(hangs_at_32, [16, 32, 64], 1, cluster=cluster, timeout=4.0)
    assert [(f.n, f.seed, f.reason) for f in pilot.failures] == [(32, 0, "took longer than 4 s")]
    assert pilot.curve.error.tolist() == [power(16, 0), power(64, 0)]
