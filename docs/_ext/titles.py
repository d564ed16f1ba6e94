"""Links to pages whose words are a file's name: [study.md](study.md) shows the page's title.

A git host shows files by their names, a site shows pages by their titles.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class Titles(SphinxPostTransform):
    """Replaces such words once all titles are known, before the links are made."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Look at every link of the page."""
        for link in self.document.findall(addnodes.pending_xref):
            page = str(link["reftarget"]).strip("/")
            words = list(link.findall(nodes.Text))
            if page in self.env.titles and [str(each) for each in words] == [_file_name(page)]:
                title = short_title(self.env.titles[page].astext())
                words[0].parent.replace(words[0], nodes.Text(title))


def short_title(title: str) -> str:
    """A title as it is named in a sentence: what stands before a colon."""
    return title.partition(": ")[0]


def _file_name(page: str) -> str:
    return page.rpartition("/")[2] + ".md"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rule."""
    app.add_post_transform(Titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
