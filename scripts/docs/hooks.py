"""Hooks of mkdocs: links from docs/ to the rest of the repository, pictures and names of options.

The site's root is docs/, but pages also link to READMEs of examples/ and scripts/, and to single
files. These join the site under their own path, and links are rewritten relative to where a page
ends up. On a Git host the pages need none of this. In the site a picture leads to itself in full
size, which a phone needs, and no line ends inside the name of an option.
"""

import os.path
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*(?: [A-Z]+\b)?")  # with its value's name
PICTURE = re.compile(r'<img [^>]*src="([^"]+)"[^>]*>')
JOINING = ("examples/**/*.md", "scripts/*.md", "CHANGELOG.md", "README.md")
FRONT = "readme.md"  # the project's README.md, as README.md would be the first page, docs/index.md


def links(path: Path) -> list[Path]:
    """The files in the repository that a page links to."""
    matches = LINK.finditer(path.read_text(encoding="utf-8"))
    return [Path(os.path.normpath(path.parent / match[2])) for match in matches]


def site_path(path: Path) -> str:
    """Where a file of the repository is in the site, before pages become folders."""
    if path == ROOT / "README.md":
        return FRONT
    return path.relative_to(ROOT).as_posix().removeprefix("docs/")


def joining_files() -> list[Path]:
    """The files outside docs/ that the site needs: pages, and files that pages link to."""
    outside = {path for pattern in JOINING for path in ROOT.glob(pattern)}
    pages = [*(ROOT / "docs").rglob("*.md"), *outside]
    linked = {target for page in pages for target in links(page)}
    outside |= {path for path in linked if path.is_file()}
    return sorted(path for path in outside if ROOT / "docs" not in path.parents)


def rewrite(markdown: str, page: Path) -> str:
    """A page with its links as the site needs them; of links to folders only the text is left."""
    here = os.path.dirname(site_path(page)) or "."

    def relative(match: re.Match) -> str:
        text, link, anchor = match.groups(default="")
        target = Path(os.path.normpath(page.parent / link))
        if target.is_dir():
            return text
        return f"[{text}]({os.path.relpath(site_path(target), here)}{anchor})"

    return LINK.sub(relative, markdown)


def on_files(files, config):
    from mkdocs.structure.files import File

    for path in joining_files():
        files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    return rewrite(markdown, Path(page.file.abs_src_path))


def mark_options(html: str) -> str:
    """A page's HTML with options in code put into spans, which docs/site.css keeps on one line."""
    marked = r'<span class="option">\g<0></span>'
    return CODE.sub(lambda code: OPTION.sub(marked, code[0]), html)


def link_pictures(html: str) -> str:
    """A page's HTML in which every picture leads to its own file."""
    return PICTURE.sub(r'<a href="\1">\g<0></a>', html)


def on_page_content(html, page, config, files):
    return link_pictures(mark_options(html))
