"""Adds the chapters of the specification to the site: they are read from the package, their one source."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from kvproof.spec.clauses import chapters


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs once it has listed the files below docs/."""
    for chapter in chapters():
        files.append(File.generated(config, f"spec/{chapter.name}.md", content=chapter.text))
    return files
