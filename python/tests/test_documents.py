"""The README's example and the notebooks run."""

import json
import pathlib
import re
import sys

import matplotlib
import pytest

PYTHON = pathlib.Path(__file__).parent.parent


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), re.DOTALL)
    assert block is not None
    exec(compile(block.group(1), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    # Two orders, with and without repair, three seeds.
    assert "12 of 12" in printed
    waits = dict(re.findall(r"partial (\S+) p99 ([\d.]+) ms in 3 runs", printed))
    assert float(waits["rs:105/100"]) < float(waits["none"])
    assert (tmp_path / "results" / "screen-streaming.csv").is_file()


@pytest.mark.parametrize("notebook", sorted((PYTHON / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUICKSET_SEEDS", "1")
    monkeypatch.setenv("QUICKSET_UPDATES", "20")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    stored = json.loads(notebook.read_text())
    assert stored["nbformat"] == 4
    names: dict = {}
    for cell in stored["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "notebooks are stored without outputs"
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
    axes = plt.gcf().axes
    # A panel for each metric, with a curve for each order, with repair and without.
    assert [len(panel.get_lines()) for panel in axes] == [4, 4]
    for panel in axes:
        lines = panel.get_lines()
        assert all(line.get_ydata()[-1] == 1 for line in lines)
        # With repair it may be that nothing waits: one point, at zero.
        assert sum(len(line.get_xdata()) > 1 for line in lines) >= 2
    plt.close("all")


def test_figure_9_is_drawn_by_a_command(tmp_path, monkeypatch, capsys):
    from quickset_lab import figure9

    monkeypatch.chdir(tmp_path)
    assert figure9.main(["--seeds", "1", "--updates", "20", "--output", "small.png"]) == 0
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    # The published numbers beside ours, for each order, with repair and without.
    assert "published:" in printed
    assert len(re.findall(r"^blocking_ms (?:total|partial) (?:none|rs:105/100) p80 ", printed, re.MULTILINE)) == 4
    assert figure9.main(["--seeds", "1", "--updates", "1", "--output", "nowhere/small.png"]) == 1
    assert figure9.main(["--seeds", "0"]) == 1
    assert "write 1 or more" in capsys.readouterr().err


def test_figure_9_without_matplotlib_says_what_brings_it(tmp_path, monkeypatch, capsys):
    from quickset_lab import figure9

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert figure9.main(["--seeds", "1", "--updates", "1"]) == 1
    assert "pip install 'quickset-lab[plot]'" in capsys.readouterr().err
