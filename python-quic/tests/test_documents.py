"""The examples of the README and of the package's documentation run, and the examples are typed."""

import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import quickset
from quickset import http3, webtransport

HOME = pathlib.Path(__file__).parent.parent


def examples():
    readme = re.search(r"```python\n(.*?)```", (HOME / "README.md").read_text("utf-8"), re.DOTALL)
    module = re.search(r"::\n\n((?:    .*\n|\n)+)", quickset.__doc__ or "")
    assert readme is not None and module is not None
    return [readme.group(1), textwrap.dedent(module.group(1))]


@pytest.mark.parametrize("source", examples(), ids=["README", "module"])
def test_the_example_runs(source, capsys):
    exec(compile(source, "example", "exec"), {})
    assert capsys.readouterr().out == "b'hello'\n"


def test_all_that_is_public_is_documented():
    public = [getattr(quickset, name) for name in quickset.__all__]
    for module in (http3, webtransport):
        public += [v for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__]
    for thing in public:
        name = repr(thing)
        if getattr(thing, "__name__", "").startswith("_"):
            continue
        if isinstance(thing, (int, str)):
            continue
        assert thing.__doc__, name
        if thing.__module__ != "quickset._native":
            for method, found in vars(thing).items() if isinstance(thing, type) else ():
                if not method.startswith("_") and callable(found):
                    assert found.__doc__, f"{name}.{method}"


def played(program):
    done = subprocess.run(
        [sys.executable, HOME / "examples" / program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the example uses task groups")
def test_echo():
    assert played("echo.py") == "hello\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the example uses task groups")
def test_shout():
    lines = sorted(played("shout.py").splitlines())
    assert lines[0].startswith("client: b'LIVE FENCE' b'OF CUTTINGS' b'TICK ")
    assert lines[1:] == ["server: the connection ended: done"]


def test_pictures():
    lines = played("pictures.py").splitlines()
    assert "picture 9: 20000 bytes" in lines
    assert "{'delivered': 200}" in lines


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the example uses match")
def test_web():
    assert played("web.py") == "200 POST /upload: 1000000 bytes\n"
