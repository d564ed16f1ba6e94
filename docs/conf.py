"""The site: Sphinx over the pages of this folder, the docstrings, and the gallery's scripts.

Built pages ask nobody for anything: fonts are the reader's, formulas are MathML, scripts are local.
Pictures and a report page are drawn by docs/pictures, and kept beside the doctrees.
KORISK_GALLERY=0 builds without running the gallery.
"""

import os
import shutil
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from korisk._version import __version__

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))
from scripts import without_list  # noqa: E402 - it lies beside this file

project = "korisk"
author = "The korisk developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "api",
    "command_line",
    "docstrings",
    "fields",
    "labels",
    "live_page",
    "mathml",
    "notebooks",
    "outside",
    "pictures",
    "resources",
    "titles",
]
exclude_patterns = ["_ext", "gallery/*.ipynb", "pictures", "Thumbs.db"]
nitpicky = True
smartquotes = False  # quotes in prose are often code
# Types of others, and our own that are no public names, are shown and lead nowhere.
nitpick_ignore_regex = [(r"py:.*", r"(?!korisk\.).*"), (r"py:.*", r"korisk\.[a-z_]+\..*")]

# --- Pages ---------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# --- Docstrings ----------------------------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

# --- Looks ---------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"korisk {release}"
html_static_path = ["_static"]
html_css_files = ["korisk.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
math_eqref_format = "({number})"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# --- Gallery -------------------------------------------------------------------------------------

# Scripts write where they stand: they run in a copy of examples/, beside what they read.
_COPY = ROOT / "build" / "gallery"


def _copied() -> Path:
    """The folder of the scripts to run."""
    shutil.rmtree(_COPY, ignore_errors=True)
    left_out = shutil.ignore_patterns("__pycache__", "*.png")
    folder = shutil.copytree(ROOT / "examples", _COPY / "examples", ignore=left_out) / "gallery"
    readme = folder / "README.rst"
    readme.write_text(without_list(readme.read_text(encoding="utf-8")), encoding="utf-8")
    for path in folder.glob("[!0-9]*.py"):  # what runs the others is no part of the gallery
        path.unlink()
    for page in (HERE / "gallery").glob("[0-9]*.rst"):  # of a script that has another name now
        if not (folder / f"{page.stem}.py").exists():
            page.unlink()
    return folder


extensions.append("sphinx_gallery.gen_gallery")
sphinx_gallery_conf = {
    "examples_dirs": str(_copied()),
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("korisk",),
    "plot_gallery": os.environ.get("KORISK_GALLERY") != "0",
    "filename_pattern": r"/\d\d_\w+\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "thumbnail_size": (640, 400),
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", "scripts.name_file"),
    "write_computation_times": False,
    "parallel": 2,
}


def _focusable(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Let the keyboard reach code, which scrolls where it is wide."""
    context["body"] = context.get("body", "").replace("<pre>", '<pre tabindex="0">')


def setup(app: Sphinx) -> None:
    """Tables in code blocks, which Pygments has no name for, and what scrolls."""
    app.add_lexer("csv", TextLexer)
    app.connect("html-page-context", _focusable)
