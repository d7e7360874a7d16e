"""Sphinx's settings for the site that `make docs` builds."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_extensions")]

import dyn  # noqa: E402

project = "dyn"
author = "The dyn authors"
copyright = "the dyn authors"
version = release = dyn.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "pictures",
    "reference",
]
exclude_patterns = ["_build", "_extensions", "**/.ipynb_checkpoints"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}

# ---- pages -----------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# Notebooks are kept without results. `make docs` runs them; what did not change since is found in a cache.
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
# a11y_pygments, a theme of Furo's, has all loggers say at which notebook they are.
logging.getLogger("traitlets").setLevel(logging.WARNING)

# ---- the reference ---------------------------------------------------------------------------------------------------
autosummary_generate = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
# Classes of other libraries and of dyn's own insides that stand in signatures, and have no page here.
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|numpy|optree|os|pdb)\..*"),
    ("py:class", r"dyn\.(?!errors\.)([a-z_]+\.)+_?[A-Z]\w*"),
    (
        "py:class",
        r"ArrayLike|Axis|DTypeLike|Shape|Size|CompilationRecord|Program|Version|Optimized|Explanation|Dtype|Declarations"
        r"|Array|Case|Replay|Stop|StageComparison|StoredProgram|Traceable|Fails|Cause|Culprit",
    ),
]

# ---- looks -----------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = "dyn"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
graphviz_output_format = "svg"


def _links_of_the_repository(app: Any, page: str, source: list[str]) -> None:
    """Links that lead out of `docs/` in the repository lead to the site's own pages."""
    source[0] = (
        source[0]
        .replace("](../notebooks/", "](notebooks/")
        .replace("](../CHANGELOG.md", "](changelog.md")
        .replace("](../CONTRIBUTING.md", "](contributing.md")
        .replace("](../docs/", "](../" if page.startswith("notebooks/") else "](")
    )


def _copy_notebooks(*_: object) -> None:
    """Pages lie below this folder, the repository's notebooks beside it."""
    shutil.rmtree(ROOT / "docs" / "notebooks", ignore_errors=True)
    shutil.copytree(ROOT / "notebooks", ROOT / "docs" / "notebooks", ignore=shutil.ignore_patterns(".ipynb*"))


def setup(app: Any) -> None:
    app.connect("config-inited", _copy_notebooks)
    app.connect("source-read", _links_of_the_repository)
