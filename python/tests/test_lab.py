"""What the package promises."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest

import quickset_lab as lab


def csv(folder: pathlib.Path) -> bytes:
    return (folder / "screen-streaming.csv").read_bytes()


def test_the_catalogue_says_what_can_be_set():
    names = [found["name"] for found in lab.experiments()]
    assert {"screen-streaming", "screen-interactive"} <= set(names)
    found = lab.experiment("screen-streaming")
    assert found in lab.experiments()
    assert found["baseline"]["rtt_ms"] == 100 and found["baseline"]["mode"] == "partial"
    mode = next(key for key in found["keys"] if key["name"] == "mode")
    assert "total" in mode["accepts"]
    assert "loss" in [varied["key"] for varied in found["varied"]]
    assert len(found["published_numbers"]) == found["published"] > 0


def test_rows_are_typed_and_obey_the_link(table, sweep):
    assert isinstance(table, pyarrow.Table)
    assert table.num_rows == 8
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    expected = {"mode": "string", "loss": "double", "rtt_ms": "double", "updates": "int64", "seed": "int64"}
    assert {name: kinds[name] for name in expected} == expected
    assert (kinds["finished"], kinds["lost"], kinds["completion_s"]) == ("bool", "int64", "double")
    for row in table.to_pylist():
        assert row["finished"] and row["commit"] == lab.__commit__
        assert row["messages_delivered"] == 3 * 50
        # One round trip for the handshake, one for the request and its answer, and every byte once.
        assert row["completion_s"] > 0.2 + 3 * 50 * 1400 * 8 / 100e6
        assert row["bytes_useful"] == 3 * 50 * 1400
    frame = table.to_pandas()
    # Nothing is lost to a lossless link, and of some 150 packets some to one of 5 %.
    assert frame.groupby("loss")["lost"].sum()[0.05] > 0


def test_equal_seeds_give_equal_rows(table, sweep):
    again = lab.run("screen-streaming", sweep, seeds=2, jobs=1)
    assert again.equals(table)
    seeds = table.to_pandas().query("mode == 'total' and loss == 0.05")["completion_s"]
    assert seeds.nunique() == 2


def test_jobs_that_are_spread_give_the_files_of_one_run(tmp_path, sweep, table):
    alone, spread, shards = tmp_path / "alone", tmp_path / "spread", tmp_path / "shards"
    assert lab.run("screen-streaming", sweep, seeds=2, out=alone).equals(table)
    jobs = lab.plan("screen-streaming", sweep, seeds=2)
    assert len(jobs) == 8
    rows = [lab.run_job(job) for job in reversed(jobs)]
    assert lab.missing(jobs, spread) == jobs
    assert lab.keep(rows[:5], spread).num_rows == 5
    # They were played from the last to the first.
    assert lab.missing(jobs, spread) == jobs[:3]
    # A row that comes twice counts once.
    assert lab.keep(rows[3:], spread).equals(table)
    assert csv(spread) == csv(alone)
    assert lab.read(spread).equals(table)
    # A plan in a file, and shards of it.
    lab.write_plan(jobs, tmp_path / "sweep.plan")
    assert lab.read_plan(tmp_path / "sweep.plan") == jobs
    for n in (1, 2, 3):
        share = lab.read_plan(tmp_path / "sweep.plan", f"{n}/3")
        lab.keep([lab.run_job(job) for job in share], shards / str(n))
    merged = lab.merge([shards / str(n) for n in (1, 2, 3)], tmp_path / "merged")
    assert merged.equals(table) and csv(tmp_path / "merged") == csv(alone)


def test_a_sweep_goes_on_where_it_was(tmp_path, sweep):
    class Enough(Exception):
        pass

    told = []

    def progress(now: lab.Progress) -> None:
        told.append(now)
        if now.done == 3:
            raise Enough

    # Runs go on while Python hears of those before, on a fast machine many of them; but not all of these.
    with pytest.raises(Enough):
        lab.run("screen-streaming", sweep, seeds=2000, jobs=1, out=tmp_path, progress=progress)
    assert [now.done for now in told] == [0, 1, 2, 3] and told[-1].all == 8000
    kept = lab.read(tmp_path).num_rows
    assert 3 <= kept < 8000
    told.clear()
    # Seeds change slowest, and there are four points: those that were kept, and some more.
    seeds = kept // 4 + 1
    lab.run("screen-streaming", sweep, seeds=seeds, out=tmp_path, progress=told.append)
    assert told[0].resumed == kept and told[-1].done == 4 * seeds
    assert told[-1].played_s > 0 and told[-1].wall_s > 0


def ticks_of_another_thread(updates: int) -> int:
    how = {"profile": "ours", "mode": "partial", "updates": updates}
    job = lab.plan("screen-streaming", how, seeds=1)[0]
    done, ticks = threading.Event(), 0

    def play() -> None:
        lab.run_job(job)
        done.set()

    thread = threading.Thread(target=play)
    thread.start()
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    return ticks


def test_other_threads_run_meanwhile():
    # An interpreter that is held ticks a few times at most, however long the run is. One that is not does so in a run
    # that is long enough, however fast the machine is.
    seen = []
    for updates in (500, 2000, 8000, 32000):
        seen.append(ticks_of_another_thread(updates))
        if seen[-1] > 20:
            return
    raise AssertionError(f"{seen} ticks in runs that are four times as long each")


INTERRUPTED = """
import signal
import quickset_lab as lab
# A shell that runs the tests in the background has it ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)
def progress(now):
    print("done", now.done, flush=True)
try:
    lab.run("screen-streaming", {"profile": "ours", "mode": "partial", "updates": 10}, seeds=5000, jobs=1,
            out=OUT, progress=progress)
except KeyboardInterrupt:
    print("interrupted", lab.read(OUT).num_rows, flush=True)
"""


def test_control_c_stops_a_sweep_and_keeps_its_rows(tmp_path):
    script = f"OUT = {str(tmp_path)!r}\n{INTERRUPTED}"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line == "done 2\n":
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    last = rest.splitlines()[-1].split()
    # How many it did before the signal came is a matter of speed; it was to do 5000.
    assert last[0] == "interrupted" and 2 <= int(last[1]) < 5000, rest


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lab.experiment("screen-streamin"), "did you mean `screen-streaming`?"),
        (lambda: lab.run("screen-streaming", {"los": 1}), "did you mean `loss`?"),
        (lambda: lab.run("screen-streaming", {"loss": 1.5}), "is not a loss"),
        (lambda: lab.run("screen-streaming", {"loss": []}), "has no values"),
        (lambda: lab.run("screen-streaming", {"loss": None}), "takes numbers and text"),
        (lambda: lab.run("screen-streaming", points=5), "no design of points"),
        (lambda: lab.run("screen-streaming", jobs=0), "1 or more"),
        (lambda: lab.plan("screen-streaming", seeds=0), "`seeds` is 0; write 1 or more"),
        (lambda: lab.plan("screen-streaming", seeds=-1), "`seeds` is -1; write 1 or more"),
        (lambda: lab.plan("screen-streaming", seeds=2**32), "up to 4294967295"),
        (lambda: lab.plan("screen-streaming", seeds=1.5), "`seeds` takes a whole number, not 1.5"),
        (lambda: lab.plan("messages-design", points=-1), "`points` is -1; write 1 or more"),
        (lambda: lab.run("screen-streaming", jobs=2**80), "1 or more"),
        (lambda: lab.run_job("{}"), "missing field"),
        (lambda: lab.read_plan(__file__), "is not a plan"),
        (lambda: lab.keep(["{}"], "x"), "missing field"),
    ],
)
def test_slips_are_value_errors_that_say_what_to_write(call, words):
    with pytest.raises(ValueError, match=".") as raised:
        call()
    assert words in str(raised.value)


def test_what_the_system_refuses_is_an_os_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for call in (
        lambda: lab.read(tmp_path / "nowhere"),
        lambda: lab.run("screen-streaming", {"mode": "total", "updates": 1}, seeds=1, out=file / "inside"),
        lambda: lab.write_plan([], tmp_path / "nowhere" / "plan"),
    ):
        with pytest.raises(OSError, match="cannot be"):
            call()


def test_rows_that_contradict_each_other_are_refused(tmp_path, sweep):
    row = json.loads(lab.run_job(lab.plan("screen-streaming", sweep, seeds=1)[0]))
    lab.keep([json.dumps(row)], tmp_path)
    row["detail"]["wall_s"] += 1
    assert lab.keep([json.dumps(row)], tmp_path).num_rows == 1
    row["completion_s"] += 1
    with pytest.raises(ValueError, match="the same run with different results"):
        lab.keep([json.dumps(row)], tmp_path)


def test_curves_are_pooled_over_seeds_and_nothing_else(table, tmp_path):
    curves = lab.cdf(table, "blocking_ms", by=["mode"], at={"loss": 0.05})
    assert [curve.by["mode"] for curve in curves] == ["total", "partial"]
    for curve in curves:
        assert (curve.runs, curve.times) == (2, 2 * 3 * 50)
        assert (curve.x[1:] > curve.x[:-1]).all() and (curve.y[1:] > curve.y[:-1]).all()
        assert curve.y[-1] == 1
        # The longest time of all runs is that of the longest run; bins are 0.8 % wide.
        rows = [row for row in table.to_pylist() if row["loss"] == 0.05 and row["mode"] == curve.by["mode"]]
        longest = max(row["blocking_ms.max"] for row in rows)
        assert curve.percentile(1) == pytest.approx(longest, rel=0.008)
        # Pooled shares lie between those of the runs.
        medians = sorted(row["blocking_ms.p90"] for row in rows)
        assert medians[0] * 0.99 <= curve.percentile(0.9) <= medians[-1] * 1.01
    with pytest.raises(ValueError, match="differ in `loss`"):
        lab.cdf(table, "blocking_ms", by=["mode"])
    # Nor are rows of which some say nothing of a parameter.
    rows = table.to_pylist()
    bare = {name: cell for name, cell in rows[0].items() if name != "loss"}
    with pytest.raises(ValueError, match="differ in `loss`"):
        lab.cdf([bare, *rows[1:]], "blocking_ms", by=["mode"])
    with pytest.raises(ValueError, match="no column `loss`"):
        lab.cdf([*rows, bare], "blocking_ms", by=["mode", "loss"])
    with pytest.raises(ValueError, match="no distribution of `blocking`; it has blocking_ms"):
        lab.cdf(table, "blocking", by=["mode", "loss"])
    with pytest.raises(ValueError, match="no column `moed`"):
        lab.cdf(table, "blocking_ms", by=["moed"])


def test_without_pyarrow_and_numpy_tables_and_curves_are_plain(monkeypatch, table, sweep):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    plain = lab.run("screen-streaming", sweep, seeds=2)
    assert not isinstance(plain, pyarrow.Table)
    assert plain.to_pydict() == table.to_pydict()
    assert plain.to_pylist() == table.to_pylist()
    assert plain.column_names == table.column_names and plain.num_rows == len(plain) == 8
    assert isinstance(lab.cdf(plain, "blocking_ms", by=["mode", "loss"])[0].x, list)


def test_types_are_what_the_stubs_say(tmp_path):
    folder = pathlib.Path(__file__).parent.parent
    mypy = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--config-file", str(folder / "pyproject.toml")]
    use = tmp_path / "use.py"
    use.write_text("import quickset_lab as lab\nlab.run('x', {'loss': ['1%', 2]}, seeds=3).to_pandas()\n")
    subprocess.run([*mypy, "--strict", "-p", "quickset_lab"], check=True, cwd=tmp_path)
    subprocess.run([*mypy, "--strict", str(use)], check=True, cwd=tmp_path)
