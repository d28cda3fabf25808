"""Hooks of mkdocs: links from docs/ to the rest of the repository work in the site too.

The site's root is docs/, but pages also link to READMEs of examples/ and scripts/, and to single
files. These join the site under their own path, and links are written anew from where a page ends
up. On a Git host the pages need nothing of this.
"""

import os.path
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
JOINING = ("examples/**/*.md", "scripts/*.md", "CHANGELOG.md")


def links(path: Path) -> list[Path]:
    """The files in the repository that a page links to."""
    targets = [path.parent / link for link in LINK.findall(path.read_text(encoding="utf-8"))]
    return [Path(os.path.normpath(target)) for target in targets]


def site_path(path: Path) -> str:
    """Where a file of the repository is in the site, before pages become folders."""
    return path.relative_to(ROOT).as_posix().removeprefix("docs/")


def joining_files() -> list[Path]:
    """The files outside docs/ that the site needs: pages, and files that pages link to."""
    outside = {path for pattern in JOINING for path in ROOT.glob(pattern)}
    pages = [*(ROOT / "docs").rglob("*.md"), *outside]
    linked = {target for page in pages for target in links(page)}
    outside |= {path for path in linked if path.is_file() and path.suffix != ".md"}
    return sorted(path for path in outside if ROOT / "docs" not in path.parents)


def rewrite(markdown: str, page: Path) -> str:
    """A page with its links as the site needs them."""
    here = os.path.dirname(site_path(page))

    def relative(match: re.Match) -> str:
        target = Path(os.path.normpath(page.parent / match[1]))
        if ROOT not in target.parents:
            return match[0]
        return "](" + Path(os.path.relpath(site_path(target), here or ".")).as_posix()

    return LINK.sub(relative, markdown)


def on_files(files, config):
    from mkdocs.structure.files import File

    for path in joining_files():
        files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    return rewrite(markdown, Path(page.file.abs_src_path))
