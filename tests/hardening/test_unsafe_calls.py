"""Nothing in the package runs what a file says: no eval, no pickles, no shells, no loose YAML."""

import ast
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.quality.house import tree_of
from korisk import files

SOURCE = Path(__file__).parents[2] / "src" / "korisk"
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp"),
    *("yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "marshal.loads", "shelve.open"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load", "dill.loads"),
}
IMPORTS = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
ALLOWED = {
    # Functions and answers between a study's own processes, never a file of a user's.
    *(("studies/run/worker.py", each) for each in ("pickle", "pickle.loads")),
    *(("studies/run/clusters.py", each) for each in ("pickle", "pickle.loads")),
    ("pilots/adapters.py", "joblib"),  # its hash of arrays alone
    *(("pilots/fit.py", each) for each in ("pickle", "pickle.loads")),
}


def keyword(call: ast.Call, name: str) -> str | None:
    return next((ast.unparse(each.value) for each in call.keywords if each.arg == name), None)


def unsafe(tree: ast.AST) -> Iterator[str]:
    """What a module does that would let a file run code, or a name reach a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names]
            yield from (name for name in names if name.split(".")[0] in IMPORTS)
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in FORBIDDEN:
            yield name
        if keyword(node, "shell") not in (None, "False"):
            yield f"{name}(shell=...)"
        if keyword(node, "allow_pickle") not in (None, "False"):
            yield f"{name}(allow_pickle=...)"
        if name.endswith("torch.load") and keyword(node, "weights_only") != "True":
            yield "torch.load without weights_only=True"
        if name == "yaml.load" and "Strict" not in (keyword(node, "Loader") or ""):
            yield "yaml.load without the strict loader"
        if name in ("np.load", "numpy.load") and keyword(node, "allow_pickle") != "False":
            yield "np.load without allow_pickle=False"


def test_nothing_runs_what_a_file_says() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), each)
        for path in SOURCE.rglob("*.py")
        for each in unsafe(tree_of(path))
    }
    assert found == ALLOWED
    assert issubclass(files.StrictLoader, yaml.SafeLoader)
