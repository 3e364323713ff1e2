import pytest

import quickset_lab as lab

#: A sweep of eight short runs.
SWEEP = {
    "profile": "ours",
    "mode": ["total", "partial"],
    "fec": "none",
    "loss": ["5%", 0.01],
    "updates": 3,
    "messages": 50,
}


@pytest.fixture(scope="session")
def sweep() -> dict:
    return dict(SWEEP)


@pytest.fixture(scope="session")
def table(sweep: dict) -> lab.Table:
    return lab.run("screen-streaming", sweep, seeds=2)
