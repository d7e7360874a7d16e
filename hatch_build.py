"""The long description of the distributions: README.md, as a package index shows it.

An index has none of the repository's files, so a link to one leads nowhere there. Such a link is left as its text, and
a picture of the repository's is left out; links to the web and to the page's own headings stay.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
#: A target that is no address and no heading of the page.
_FILE = r"(?!https?://|mailto:|#)[^()\s]+"
_PICTURE = re.compile(rf"!\[[^]]*\]\({_FILE}\)\n*")
_LINK = re.compile(rf"\[([^]]*)\]\({_FILE}\)")


def without_links_to_files(text: str) -> str:
    """Markdown whose links to files are their texts, and whose pictures from files are left out; code stays."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _LINK.sub(r"\1", _PICTURE.sub("", part)) for place, part in enumerate(parts))


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill the dynamic field."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links_to_files(text)}
